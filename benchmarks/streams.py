"""Streaming queries that are run for some micro-batches, and what Spark reports of each."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["PARTS", "micro_batches"]

PARTS = ("addBatch", "commitOffsets", "walCommit", "queryPlanning", "latestOffset", "getBatch")
"""The parts of ``triggerExecution``."""

WARM_UP = 4
"""Micro-batches that are not counted: the first take seconds."""


def micro_batches(
    writer: DataStreamWriter, checkpoint: str, count: int, *, path: str | None = None
) -> list[dict[str, Any]]:
    """Run the query at a zero trigger until ``count`` micro-batches are there after the `WARM_UP`; their progress."""
    query = writer.option("checkpointLocation", checkpoint).trigger(processingTime="0 seconds").start(path)
    try:
        while True:
            found = [_plain(one) for one in query.recentProgress]
            full = [one for one in found if one["numInputRows"]]
            if len(full) >= WARM_UP + count:
                return full[WARM_UP : WARM_UP + count]
            if not query.isActive:
                query.awaitTermination()  # Raises what ended it.
                raise RuntimeError(f"the query ended by itself after {len(full)} micro-batches")
            time.sleep(0.05)
    finally:
        query.stop()


def _plain(progress: Any) -> dict[str, Any]:
    return {
        "batch": progress["batchId"],
        "numInputRows": progress["numInputRows"],
        "durations": dict(progress["durationMs"]),
        "timestamp": progress["timestamp"],
    }
