"""Backups of logs: several in one repository, incremental, and restored to an entry or a time.

A repository is a folder or a prefix of a bucket with the backups of one log (docs/extensions/backup.md).
"""

from __future__ import annotations

from spark_eos.extending import Extension

__all__ = ["EXTENSION"]

EXTENSION = Extension(commands={"backup": "cli:ADDED"})
