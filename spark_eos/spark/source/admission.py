"""What a micro-batch takes of a backlog: when (``minOffsetsPerTrigger``), and how much (``maxOffsetsPerTrigger``)."""

from __future__ import annotations

import math
from collections.abc import Mapping

from spark_eos.protocol.types import TopicPartition


class TriggerDelay:
    """Whether a micro-batch waits until there are enough offsets, as that of Spark's Kafka source.

    The first one of a run never waits: how long the last run waited is not known.
    """

    def __init__(self, least: int, longest_ms: int) -> None:
        self._least = least
        self._longest_s = longest_ms / 1000
        self._last_s = -math.inf

    def waits(self, offsets: int, now_s: float) -> bool:
        """Whether to wait with so many ``offsets`` at a time of the monotonic clock; else the next wait begins."""
        if offsets < self._least and now_s - self._last_s < self._longest_s:
            return True
        self._last_s = now_s
        return False


def admit(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], limit: int
) -> dict[TopicPartition, int]:
    """Where a batch of about ``limit`` offsets ends, each partition in proportion to its backlog.

    As in Spark's Kafka source, a small partition gets at least one offset, so that it is never starved; a
    batch may therefore have a few offsets more than the limit.
    """
    backlog = {at: end - starts[at] for at, end in ends.items()}
    total = sum(backlog.values())
    if total <= limit:
        return dict(ends)
    shares = {at: limit * size / total for at, size in backlog.items()}
    return {
        at: starts[at] + min(backlog[at], math.ceil(share) if share < 1 else math.floor(share))
        for at, share in shares.items()
    }
