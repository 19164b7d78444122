"""Group commit across machines: a leader found through an object of the store, and reached over HTTPS."""

from __future__ import annotations

from spark_eos.extending import Extension

__all__ = ["EXTENSION"]

EXTENSION = Extension(group_channels={"machines.listen": "open:channels"})
