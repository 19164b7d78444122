"""The newest rows of a partition, which no page of its index holds yet, as those who rewrite segments see them.

Kafka's active segment: it is closed once it is large, or older than ``segment.ms``. Here the rows are sealed after a
boundary of the log once there are many; maintenance need not wait for that.
"""

from __future__ import annotations

from spark_eos.log.topics import config_value
from spark_eos.protocol.rules.sealing import ready, sealed_to
from spark_eos.protocol.state import Partition, PartitionKey, Topic

_REMEMBERED = 10_000


def is_past_segment_ms(topic: Topic, partition: Partition, now_ms: int) -> bool:
    """Whether the first of the stable rows that are not sealed is older than the topic's ``segment.ms``.

    By the time of its newest record, as in retention. With -1 none ever is.
    """
    longest_ms = config_value(topic, "segment.ms", int)
    if longest_ms < 0 or not ready(partition):
        return False
    return now_ms - partition.index.tail[0].max_timestamp_ms > longest_ms


class SealedViews:
    """Partitions with their stable rows sealed, as a commit that replaces these rows would seal them."""

    def __init__(self) -> None:
        self._views: dict[PartitionKey, tuple[Partition, Partition]] = {}

    def __call__(self, key: PartitionKey, partition: Partition) -> Partition:
        """The partition, all of it that is stable sealed: the same object as long as the partition is."""
        view = self._views.get(key)
        if view is None or view[0] is not partition:
            if len(self._views) >= _REMEMBERED:
                self._views.clear()
            view = self._views[key] = (
                partition,
                sealed_to(key, partition, partition.last_stable_offset),
            )
        return view[1]
