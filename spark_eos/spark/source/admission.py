"""How much of a backlog one micro-batch takes: ``maxOffsetsPerTrigger``, shared out pro rata."""

from __future__ import annotations

import math
from collections.abc import Mapping

from spark_eos.protocol.types import TopicPartition

__all__ = ["admit"]


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
