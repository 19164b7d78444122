"""The Kafka cluster that a log is mirrored to, by confluent-kafka: topics, positions, offsets of groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from typing import Any

from spark_eos.errors import (
    ConfigError,
    InvalidRequestError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
)
from spark_eos.extensions.mirror.kafka_source import KafkaSource, SourceTopic, Start

_TIMEOUT_S = 10.0
_PATIENCE_S = 60.0
_NEXT_S = 30.0


class KafkaTarget(KafkaSource):
    """A consumer and an admin client, as for a mirror into the log; it creates topics and commits offsets as well."""

    def __init__(
        self, settings: Mapping[str, str], mirror: str, *, refresh_s: float, tell: Callable[[str], None]
    ) -> None:
        super().__init__(settings, f"eoslog-mirror-out-{mirror}", refresh_s=refresh_s, tell=tell)
        self.settings = dict(settings)

    @property
    def kafka(self) -> Any:
        """The module of the client."""
        return self._kafka

    # -- Topics ------------------------------------------------------------------------------------------

    def create(self, name: str, partitions: int, config: Mapping[str, str], replication: int = -1) -> None:
        """Create a topic, if it is not there. Returns when all of its partitions are served."""
        new_topic = self._admin_module.NewTopic(name, partitions, replication, config=dict(config))

        def ask() -> None:
            try:
                self._await_result(self._admin.create_topics([new_topic], request_timeout=_TIMEOUT_S)[name])
            except _ThereError:
                return
            except _NameError as error:
                raise InvalidRequestError(
                    f"Kafka at {self.address} refuses the name of the topic {name!r}: {error}. Mirror to another topic "
                    "(--rename), or, for a topic of the mirror itself, under another --name"
                ) from error

        self._retried(ask)
        self.wait_until_served(name, partitions)

    def grow(self, name: str, partitions: int) -> None:
        """Give a topic more partitions."""
        new_partitions = self._admin_module.NewPartitions(name, partitions)

        def ask() -> None:
            topic = self.describe([name]).get(name)
            if topic is not None and topic.partitions >= partitions:
                return
            self._answer(self._admin.create_partitions([new_partitions], request_timeout=_TIMEOUT_S)[name])

        self._retried(ask)
        self.wait_until_served(name, partitions)

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        """Set these settings of a topic."""
        module = self._admin_module
        entries = [
            module.ConfigEntry(at, to, incremental_operation=module.AlterConfigOpType.SET)
            for at, to in config.items()
        ]
        resource = module.ConfigResource(module.ConfigResource.Type.TOPIC, name, incremental_configs=entries)
        self._patiently(
            lambda: self._admin.incremental_alter_configs([resource], request_timeout=_TIMEOUT_S)[resource]
        )

    def found(self, name: str) -> SourceTopic | None:
        """A topic as it is now; None: there is none. A broker that has just started may not know it yet."""
        return self.described_patiently([name]).get(name)

    def _await_result(self, future: Any) -> None:
        try:
            future.result(_TIMEOUT_S * 2)
        except self._kafka.KafkaException as error:
            if error.args[0].name() == "TOPIC_ALREADY_EXISTS":
                raise _ThereError from error
            if error.args[0].name() == "TOPIC_EXCEPTION":
                raise _NameError(error.args[0].str()) from error
            raise self._translated(error) from error
        except TimeoutError as error:
            raise KafkaTimeoutError(f"Kafka at {self.address} does not answer") from error

    def wait_until_served(self, name: str, partitions: int) -> None:
        """Wait until each partition of a new topic has a leader: records that come before are refused in part."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                self.ends(name, partitions)
            except (KafkaTimeoutError, UnknownTopicOrPartitionError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return

    def ends(self, name: str, partitions: int) -> list[int]:
        """The offset after the last record of each partition, also of one whose transaction is open."""
        return self._listed_offsets(name, range(partitions), self._admin_module.OffsetSpec.latest())

    # -- Records of the mirror ---------------------------------------------------------------------------

    def committed(self, name: str, *, waits: bool) -> list[tuple[bytes | None, bytes | None]]:
        """Key and value of all committed records of a topic's partition 0.

        ``waits``: also of transactions that are open there now, when they have ended.
        """
        partition = 0
        end = self._retried(lambda: self.ends(name, partition + 1))[partition]
        low, _ = self.bounds(name, partition)
        records: list[tuple[bytes | None, bytes | None]] = []
        if low >= end:
            return records
        deadline = time.monotonic() + _PATIENCE_S
        self.assign([Start(name, partition, low)])
        try:
            while True:
                for message in self.poll(5000, 0.1):
                    error = message.error()
                    if error is None:
                        records.append((message.key(), message.value()))
                        deadline = time.monotonic() + _PATIENCE_S
                    elif error.name() == "_PARTITION_EOF":
                        if message.offset() >= end or not waits:
                            return records
                    elif not self.is_away(error):
                        raise self._translated(self._kafka.KafkaException(error))
                if time.monotonic() > deadline:
                    raise KafkaTimeoutError(
                        f"Kafka at {self.address} does not say what is in {name}-{partition}, up to offset {end}: it "
                        "does not answer, or another program has a transaction open there"
                    )
        finally:
            self._consumer.unassign()

    def record_at(self, name: str, partition: int, offset: int) -> tuple[int, bytes | None] | None:
        """The first committed record at ``offset`` or later, with its offset; None: there is none."""
        with closing(self.records(name, partition, offset, most=1)) as records:
            return next(records, None)

    def records(
        self, name: str, partition: int, first: int, end: int | None = None, *, most: int = 5000
    ) -> Generator[tuple[int, bytes | None], None, None]:
        """The committed records from ``first`` to before ``end``, or to the end: offset and value.

        ``most`` are fetched at once. To be closed before another partition is read.
        """
        last = self._retried(lambda: self.ends(name, partition + 1))[partition]
        end = last if end is None else min(end, last)
        if first >= end:
            return
        deadline = time.monotonic() + _NEXT_S
        self.assign([Start(name, partition, first)])
        try:
            while True:
                for message in self.poll(most, 0.1):
                    error = message.error()
                    if error is None:
                        if message.offset() >= end:
                            return
                        yield int(message.offset()), message.value()
                        deadline = time.monotonic() + _NEXT_S
                    elif error.name() == "_PARTITION_EOF":
                        return
                    elif not self.is_away(error):
                        raise self._translated(self._kafka.KafkaException(error))
                if time.monotonic() > deadline:
                    raise KafkaTimeoutError(f"Kafka at {self.address} does not answer")
        finally:
            self._consumer.unassign()

    # -- Groups ------------------------------------------------------------------------------------------

    def has_members(self, group: str) -> bool:
        """Whether consumers of the group read now."""
        description = self._patiently(
            lambda: self._admin.describe_consumer_groups([group], request_timeout=_TIMEOUT_S)[group]
        )
        return bool(description.members)

    def move_group(self, group: str, offsets: Sequence[tuple[str, int, int, str]]) -> None:
        """Commit offsets (topic, partition, offset, metadata) of a group without members."""
        partitions = [self._kafka.TopicPartition(*offset[:3], metadata=offset[3]) for offset in offsets]
        request = [self._kafka.ConsumerGroupTopicPartitions(group, partitions)]
        result = self._patiently(
            lambda: self._admin.alter_consumer_group_offsets(request, request_timeout=_TIMEOUT_S)[group]
        )
        for at in result.topic_partitions:
            if at.error is not None:
                raise ConfigError(f"Kafka refuses the offset of {at.topic}-{at.partition}: {at.error.str()}")


class _ThereError(Exception):
    """The topic exists."""


class _NameError(Exception):
    """No topic can have the name, or none beside those that are there."""
