"""What Kafka says of topics and groups at this moment. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from spark_eos.errors import InvalidRequestError, UnknownTopicOrPartitionError
from spark_eos.extensions.mirror.kafka_source import KafkaSource, recreated
from spark_eos.extensions.mirror.positions import Position

_TIMEOUT_S = 10.0


class End(NamedTuple):
    """Where a partition ends in Kafka. ``stable``: readers of committed records stop there (the last stable offset)."""

    high: int
    stable: int


class KafkaState(KafkaSource):
    """The cluster, as its admin client sees it."""

    def ends(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], End]:
        """Where these partitions end."""
        partition_list = [*partitions]
        level = self._kafka.IsolationLevel
        high = self._ends(partition_list, level.READ_UNCOMMITTED)
        stable = self._ends(partition_list, level.READ_COMMITTED)
        return {at: End(high[at], stable[at]) for at in partition_list}

    def _ends(self, partitions: list[tuple[str, int]], level: Any) -> dict[tuple[str, int], int]:
        latest = self._admin_module.OffsetSpec.latest()
        specs = {self._kafka.TopicPartition(*at): latest for at in partitions}

        def ask() -> dict[tuple[str, int], int]:
            if not specs:
                return {}
            futures = self._admin.list_offsets(specs, isolation_level=level, request_timeout=_TIMEOUT_S)
            return {
                (at.topic, at.partition): int(self._answer(future).offset) for at, future in futures.items()
            }

        return self._retried(ask)

    def members(self, group: str) -> int:
        """How many members a group has now."""
        description = self._patiently(
            lambda: self._admin.describe_consumer_groups([group], request_timeout=_TIMEOUT_S)[group]
        )
        return len(description.members)

    def partitions_of(self, positions: Iterable[Position]) -> list[tuple[str, int]]:
        """All partitions that the mirrored topics have now. Raises if Kafka has other topics than were mirrored."""
        by_topic: Mapping[str, Position] = {position.topic: position for position in positions}
        cluster = self.cluster_id()
        for position in by_topic.values():
            if position.cluster != cluster:
                raise InvalidRequestError(
                    f"topic {position.target!r} is mirrored from the Kafka cluster {position.cluster}, and "
                    f"{self.address} is cluster {cluster}: set --bootstrap-server to the first one"
                )
        topics = self.described_patiently(by_topic)
        for name, position in by_topic.items():
            if name not in topics:
                raise UnknownTopicOrPartitionError(f"Kafka at {self.address} has no topic {name!r} any more")
            if topics[name].topic_id != position.source_id:
                raise recreated(name, position.source_id, topics[name].topic_id, self.address)
        return [(name, number) for name, topic in topics.items() for number in range(topic.partitions)]
