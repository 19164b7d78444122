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

_GONE_S = 5.0
"""For so long a topic that a broker does not know is asked for again."""

_MAP_CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


class OutTopic(NamedTuple):
    """A topic of the log and the one of Kafka that gets its records, with its map."""

    topic: str
    topic_id: str
    kafka: str
    kafka_id: str
    map: str
    map_id: str
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
        kafka_topic = self._target.found(kafka)
        if sent is not None:
            if sent.kafka != kafka:
                raise ConfigError(
                    f"topic {sent.topic!r} is mirrored to {sent.kafka!r} under this --name, and not to {kafka!r}: "
                    "leave --rename as it was, or mirror under another --name"
                )
            check_same(sent, topic, kafka_topic, self._target.address)
        elif kafka_topic is not None and not may_have:
            self._check_is_empty(kafka_topic)
        return kafka_topic

    def prepare(self, topic: Topic, kafka: str, sent: Sent | None, *, may_have: bool) -> OutTopic:
        """Make Kafka's topic what the log's is. ``may_have``: it may have other records.

        ``sent`` is how far the topic was sent before, if it was. Raises as `check`.
        """
        kafka_topic = self.check(topic, kafka, sent, may_have=may_have)
        if kafka_topic is None:
            config = _copied(topic) if self._options.copies_settings else {}
            self._target.create(kafka, topic.partitions, config, self._options.replication)
            kafka_topic = self._existing(kafka)
        elif kafka_topic.partitions < topic.partitions:
            self._target.grow(kafka, topic.partitions)
            kafka_topic = self._existing(kafka)
        if sent is not None:
            self._check_ends(kafka_topic, sent)
        offset_map = self._prepared_map(kafka_topic, sent)
        of_map = (offset_map.name, offset_map.topic_id)
        return OutTopic(topic.name, topic.topic_id, kafka, kafka_topic.topic_id, *of_map, topic.partitions)

    def _existing(self, kafka: str) -> SourceTopic:
        kafka_topic = self._target.found(kafka)
        if kafka_topic is None:
            raise UnknownTopicOrPartitionError(f"topic {kafka!r} of Kafka was deleted at this moment")
        return kafka_topic

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
            earlier_end = sent.ends[number] if number < len(sent.ends) else -1
            if end < earlier_end:
                raise OffsetOutOfRangeError(
                    f"{topic.name}-{number} of Kafka ends at offset {end}, and the mirror has written up to "
                    f"{earlier_end}: Kafka has lost records at its end. Nothing was written. Look for the broker that "
                    "was elected without them (unclean.leader.election.enable), and mirror under another --name to "
                    "another topic"
                )

    def _prepared_map(self, topic: SourceTopic, sent: Sent | None) -> SourceTopic:
        name = map_topic(self._options.name, topic.name)
        existing_map = self._target.found(name)
        if existing_map is None:
            if sent is not None and max(sent.ends, default=-1) >= 0:
                self._tell(
                    f"the offset map {name} was deleted from Kafka: earlier offsets cannot be looked up"
                )
            self._target.create(name, topic.partitions, _MAP_CONFIG, self._options.replication)
        elif existing_map.partitions < topic.partitions:
            self._target.grow(name, topic.partitions)
        else:
            return existing_map
        return self._existing(name)

    def check_ids(self, kafka_ids: Mapping[str, str], clock: Clock) -> None:
        """Raise if a topic of Kafka has another id now. An id never comes back, so nothing was sent to the new one."""
        topics = self._target.described_patiently(kafka_ids)
        deadline = clock.monotonic() + _GONE_S
        while not topics.keys() >= kafka_ids.keys() and clock.monotonic() < deadline:
            clock.sleep(0.1)  # A broker that has just started may not know all.
            topics = self._target.described_patiently(kafka_ids)
        for name, topic_id in kafka_ids.items():
            topic = topics.get(name)
            if topic is None or topic.topic_id != topic_id:
                problem = "was deleted" if topic is None else "was deleted and created again"
                raise UnknownTopicOrPartitionError(
                    f"topic {name!r} of Kafka at {self._target.address} {problem} under the running mirror (topic id "
                    f"{topic_id}). Nothing was written. Start the mirror again, which says what is left"
                )

    def configure(self, topics: Mapping[str, Topic]) -> None:
        """Set what Kafka's topics have otherwise than the log's. ``topics`` are the log's, by Kafka's name.

        With ``reverses`` they stay as they are: a shorter retention of the log's would delete records of Kafka.
        """
        copies = self._options.copies_settings and self._options.reverses is None
        for name, kafka_config in self._target.configs(topics).items():
            changes = {at: to for at, to in _copied(topics[name]).items() if kafka_config.get(at) != to}
            if changes and copies:
                self._target.configure(name, changes)
            if kafka_config.get("message.timestamp.type") == "LogAppendTime":
                self._tell(
                    f"topic {name} of Kafka has message.timestamp.type=LogAppendTime: times are not kept"
                )


def check_same(sent: Sent, topic: Topic, kafka_topic: SourceTopic | None, address: str) -> None:
    """Raise if the log's topic or Kafka's is another one than before."""
    if sent.topic_id != topic.topic_id:
        raise UnknownTopicOrPartitionError(
            f"topic {topic.name!r} of the log was deleted and created again (topic id {topic.topic_id}) since it was "
            f"mirrored (topic id {sent.topic_id}): its records are others. Nothing of it was written. Mirror the new "
            "one under another --name to another topic (--rename)"
        )
    if kafka_topic is None or kafka_topic.topic_id != sent.kafka_id:
        problem = (
            "was deleted"
            if kafka_topic is None
            else f"was deleted and created again (topic id {kafka_topic.topic_id})"
        )
        raise UnknownTopicOrPartitionError(
            f"topic {sent.kafka!r} of Kafka at {address} {problem} since it was mirrored (topic id {sent.kafka_id}): "
            "what was sent is gone with it. Nothing was written. To send all of it again, mirror under another --name"
        )


def _copied(topic: Topic) -> dict[str, str]:
    return {name: topic.config[name] for name in COPIED if topic.config.get(name) not in {None, ""}}
