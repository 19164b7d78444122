"""A disk that forgets what was not synced, for tests of stores in folders."""

from __future__ import annotations

from verification.disk.disk import Disk
from verification.disk.power_cut import PowerCut

__all__ = ["Disk", "PowerCut"]
