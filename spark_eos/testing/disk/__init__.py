"""A disk that forgets what was not synced, for tests of stores in folders."""

from __future__ import annotations

from spark_eos.testing.disk.disk import Disk
from spark_eos.testing.disk.power_cut import PowerCut

__all__ = ["Disk", "PowerCut"]
