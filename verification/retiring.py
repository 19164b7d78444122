"""Logs whose entries are retired as soon as a snapshot covers them: runs are short, and clocks may stand still."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["RETIRED_AT_ONCE"]

RETIRED_AT_ONCE: Mapping[str, object] = {"metadata.max.retention.ms": 1}
"""Settings of such a log."""
