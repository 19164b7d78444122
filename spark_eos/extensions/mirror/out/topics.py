"""Kafka's topics of a mirror: made, grown and configured as the log's are; and whether they still are the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from spark_eos.errors import (
    ConfigError,
    InvalidRequestError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from spark_eos.extensions.mirror.kafka_source import SourceTopic
from spark_eos.extensions.mirror.out.kafka_target import KafkaTarget
from spark_eos.extensions.mirror.out.options import OutOptions
from spark_eos.extensions.mirror.out.position import Sent, map_topic
from spark_eos.extensions.mirror.targets import COPIED
from spark_eos.log.clock import Clock
from spark_eos.protocol.state import Topic

__all__ = ["OutTopic", "OutTopics", "check_same"]

_GONE_S = 5.0
"""For so long a topic that a broker does not know is asked for again."""

_MAP_CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


class OutTopic(NamedTuple):
    """A topic of the log and the one of Kafka that gets its records."""

    topic: str
    topic_id: str
    kafka: str
    kafka_id: str
    partitions: int


class OutTopics:
    """Prepares the topics of Kafka."""

    def __init__(self, target: KafkaTarget, options: OutOptions, tell: Callable[[str], None]) -> None:
        self._target = target
        self._options = options
        self._tell = tell

    def check(self, topic: Topic, kafka: str, sent: Sent | None, *, may_have: bool) -> SourceTopic | None:
        """Raise if the topic cannot be sent there. Returns Kafka's topic, if there is one."""
        if topic.schemas:
            raise InvalidRequestError(
                f"topic {topic.name!r} has columns of its own, and records of Kafka have key, value and headers: leave "
                "it out, or let a Spark query write what Kafka gets of it into a topic without columns"
            )
        found = self._target.found(kafka)
        if sent is not None:
            if sent.kafka != kafka:
                raise ConfigError(
                    f"topic {sent.topic!r} is mirrored to {sent.kafka!r} under this --name, and not to {kafka!r}: "
                    "leave --rename as it was, or mirror under another --name"
                )
            check_same(sent, topic, found, self._target.address)
        elif found is not None and not may_have:
            self._check_is_empty(found)
        return found

    def prepare(self, topic: Topic, kafka: str, sent: Sent | None, *, may_have: bool) -> OutTopic:
        """Make Kafka's topic what the log's is. ``may_have``: it may have other records.

        ``sent`` is how far the topic was sent before, if it was. Raises as `check`.
        """
        found = self.check(topic, kafka, sent, may_have=may_have)
        if found is None:
            config = _copied(topic) if self._options.copies_settings else {}
            self._target.create(kafka, topic.partitions, config, self._options.replication)
            found = self._existing(kafka)
        elif found.partitions < topic.partitions:
            self._target.grow(kafka, topic.partitions)
            found = self._existing(kafka)
        if sent is not None:
            self._check_ends(found, sent)
        self._prepare_map(found, sent)
        return OutTopic(topic.name, topic.topic_id, kafka, found.topic_id, topic.partitions)

    def _existing(self, kafka: str) -> SourceTopic:
        found = self._target.found(kafka)
        if found is None:
            raise UnknownTopicOrPartitionError(f"topic {kafka!r} of Kafka was deleted at this moment")
        return found

    def _check_is_empty(self, topic: SourceTopic) -> None:
        ends = self._target.ends(topic.name, topic.partitions)
        if any(ends):
            raise InvalidRequestError(
                f"topic {topic.name!r} of Kafka at {self._target.address} has records that mirror "
                f"{self._options.name!r} has not written. Add to them with --append, mirror to another topic "
                "(--rename), or, if they were mirrored into this log, send only the others (--reverse)"
            )

    def _check_ends(self, topic: SourceTopic, sent: Sent) -> None:
        for number, end in enumerate(self._target.ends(topic.name, topic.partitions)):
            known = sent.ends[number] if number < len(sent.ends) else -1
            if end < known:
                raise OffsetOutOfRangeError(
                    f"{topic.name}-{number} of Kafka ends at offset {end}, and the mirror has written up to {known}: "
                    "Kafka has lost records at its end. Nothing was written. Look for the broker that was elected "
                    "without them (unclean.leader.election.enable), and mirror under another --name to another topic"
                )

    def _prepare_map(self, topic: SourceTopic, sent: Sent | None) -> None:
        name = map_topic(self._options.name, topic.name)
        found = self._target.found(name)
        if found is None:
            if sent is not None and max(sent.ends, default=-1) >= 0:
                self._tell(
                    f"the offset map {name} was deleted from Kafka: earlier offsets cannot be looked up"
                )
            self._target.create(name, topic.partitions, _MAP_CONFIG, self._options.replication)
        elif found.partitions < topic.partitions:
            self._target.grow(name, topic.partitions)

    def check_ids(self, wanted: Mapping[str, str], clock: Clock) -> None:
        """Raise if a topic of Kafka has another id now. An id never comes back, so nothing was sent to the new one."""
        now = self._target.described_patiently(wanted)
        deadline = clock.monotonic() + _GONE_S
        while not now.keys() >= wanted.keys() and clock.monotonic() < deadline:
            clock.sleep(0.1)  # A broker that has just started may not know all.
            now = self._target.described_patiently(wanted)
        for name, topic_id in wanted.items():
            found = now.get(name)
            if found is None or found.topic_id != topic_id:
                what = "was deleted" if found is None else "was deleted and created again"
                raise UnknownTopicOrPartitionError(
                    f"topic {name!r} of Kafka at {self._target.address} {what} under the running mirror (topic id "
                    f"{topic_id}). Nothing was written. To send all of it again, mirror under another --name"
                )

    def configure(self, topics: Mapping[str, Topic]) -> None:
        """Set what Kafka's topics have otherwise than the log's. ``topics`` are the log's, by Kafka's name.

        With ``reverses`` they stay as they are: a shorter retention of the log's would delete records of Kafka.
        """
        copies = self._options.copies_settings and self._options.reverses is None
        for name, there in self._target.configs(topics).items():
            wanted = {at: to for at, to in _copied(topics[name]).items() if there.get(at) != to}
            if wanted and copies:
                self._target.configure(name, wanted)
            if there.get("message.timestamp.type") == "LogAppendTime":
                self._tell(
                    f"topic {name} of Kafka has message.timestamp.type=LogAppendTime: times are not kept"
                )


def check_same(sent: Sent, topic: Topic, found: SourceTopic | None, address: str) -> None:
    """Raise if the log's topic or Kafka's is another one than before."""
    if sent.topic_id != topic.topic_id:
        raise UnknownTopicOrPartitionError(
            f"topic {topic.name!r} of the log was deleted and created again (topic id {topic.topic_id}) since it was "
            f"mirrored (topic id {sent.topic_id}): its records are others. Nothing of it was written. Mirror the new "
            "one under another --name to another topic (--rename)"
        )
    if found is None or found.topic_id != sent.kafka_id:
        what = (
            "was deleted" if found is None else f"was deleted and created again (topic id {found.topic_id})"
        )
        raise UnknownTopicOrPartitionError(
            f"topic {sent.kafka!r} of Kafka at {address} {what} since it was mirrored (topic id {sent.kafka_id}): what "
            "was sent is gone with it. Nothing was written. To send all of it again, mirror under another --name"
        )


def _copied(topic: Topic) -> dict[str, str]:
    return {name: topic.config[name] for name in COPIED if topic.config.get(name) not in {None, ""}}
