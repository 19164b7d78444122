"""The live page of a log, ``eoslog ui``: what a browser shows of topics, records, groups, transactions and health."""

from __future__ import annotations

from spark_eos.extending import Extension

__all__ = ["EXTENSION"]

EXTENSION = Extension(commands={"top": "top.command:ADDED", "ui": "cli:ADDED"})
