"""Metrics: the table of all of them, what collects them, and what exports them."""

from __future__ import annotations

from spark_eos.extending import Extension

__all__ = ["EXTENSION"]

EXTENSION = Extension(
    names={
        "spark_eos.monitoring.Registration": "registration:Registration",
        "spark_eos.monitoring.register": "registration:register",
    },
    commands={"metrics": "cli.command:ADDED"},
)
