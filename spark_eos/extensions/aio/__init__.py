"""Clients for asyncio."""

from __future__ import annotations

from spark_eos.extending import Extension

__all__ = ["EXTENSION"]

EXTENSION = Extension(
    names={"spark_eos.AIOConsumer": "consumer:AIOConsumer", "spark_eos.AIOProducer": "producer:AIOProducer"}
)
