"""Which records a reader sees."""

from __future__ import annotations

from enum import Enum


class Isolation(Enum):
    """Which records are seen (Kafka's isolation.level)."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"
