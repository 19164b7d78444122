"""Mirrors between Kafka and a log. Kafka's positions are committed in the entry of the rows (docs/design/0010)."""

from __future__ import annotations

from spark_eos.extending import Extension

__all__ = ["EXTENSION"]

EXTENSION = Extension(commands={"mirror": "cli.moving:ADDED"})
