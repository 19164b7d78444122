"""The Kafka cluster that is mirrored, by confluent-kafka. Nothing here decides what goes into the log."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from spark_eos.errors import ConfigError, KafkaTimeoutError, UnknownTopicOrPartitionError
from spark_eos.errors.loading import Loading
from spark_eos.extensions.mirror.callbacks import Heard, Quiet

_Answer = TypeVar("_Answer")

_TIMEOUT_S = 10.0
"""For one request to Kafka."""

_PATIENCE_S = 60.0
"""For so long a request that gets no answer is sent again where nothing else can be done."""

OWN = {
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "partition.assignment.strategy": "cooperative-sticky",
}
"""Settings of the consumer that are not the user's: positions are in the log, and aborted records stay in Kafka."""

_DEFAULTS = {
    "fetch.wait.max.ms": "100",
    "reconnect.backoff.max.ms": "1000",
    "topic.metadata.propagation.max.ms": "1000",
}
"""A broker that has nothing new says so soon: positions go past markers then. One that comes back is found soon, and a
topic that is gone is looked at."""

_AWAY = {
    *("_TRANSPORT", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_ALL_BROKERS_DOWN", "_RESOLVE", "_WAIT_COORD"),
    *("REQUEST_TIMED_OUT", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "BROKER_NOT_AVAILABLE"),
    *("NETWORK_EXCEPTION", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"),
    *("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE", "_NO_OFFSET"),
}
"""Errors of a cluster that is starting, or that cannot be reached."""

_INTERNAL = {"__consumer_offsets", "__transaction_state", "__share_group_state"}
"""Kafka's own topics: no pattern matches them."""

GROUP_PREFIX = "eoslog-mirror-"
"""Of the groups in which the processes of mirrors share partitions: no pattern matches them."""

GONE = {"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID"}
"""Errors of a topic that is not there, or not yet."""


class SourceTopic(NamedTuple):
    """A topic of Kafka: its id (KIP-516) is another one when it was deleted and created again."""

    name: str
    topic_id: str
    partitions: int


class Start(NamedTuple):
    """Where reading a partition begins. ``leader_epoch`` is that of the record before; -1: not known."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1


Assigned = Callable[[Sequence[tuple[str, int]]], Sequence[Start]]
"""Called with partitions that this process gets; says where to begin."""


class KafkaSource:
    """A consumer and an admin client. ``settings`` are librdkafka's; ``tell`` is called with what is worth knowing."""

    def __init__(
        self, settings: Mapping[str, str], group: str, *, refresh_s: float, tell: Callable[[str], None]
    ) -> None:
        with Loading("a mirror of Kafka", "mirror", "confluent-kafka"):
            self._kafka: Any = import_module("confluent_kafka")
            self._admin_module: Any = import_module("confluent_kafka.admin")
        for name in settings:
            if name in OWN:
                raise ConfigError(
                    f"--kafka-config: {name} is set by the mirror itself ({OWN[name]}): leave it out"
                )
        if not settings.get("bootstrap.servers"):
            raise ConfigError("the mirror needs the address of a Kafka broker: set --bootstrap-server")
        self.address = settings["bootstrap.servers"]
        self._tell = tell
        self._failed: BaseException | None = None
        self._heard = Heard(tell)
        self._static = False
        self._of_admin = {**_of_all_clients(settings), "error_cb": self._heard, "logger": Quiet()}
        refresh_ms = str(max(int(refresh_s * 1000), 100))
        consumer_config = {**_DEFAULTS, "group.id": group, "topic.metadata.refresh.interval.ms": refresh_ms}
        try:
            self._admin: Any = self._new_admin()
            logs = {"error_cb": self._heard, "logger": Quiet()}
            self._consumer = self._kafka.Consumer({**consumer_config, **settings, **OWN, **logs})
        except (self._kafka.KafkaException, ValueError) as error:
            raise ConfigError(f"--kafka-config: the settings are refused: {error}") from error

    def _new_admin(self) -> Any:
        return self._admin_module.AdminClient(self._of_admin)

    # -- Looking -----------------------------------------------------------------------------------------

    def cluster_id(self) -> str:
        """The id of the cluster."""
        return str(
            self._patiently(lambda: self._admin.describe_cluster(request_timeout=_TIMEOUT_S)).cluster_id
        )

    def find(self, names: Iterable[str], pattern: str | None) -> dict[str, SourceTopic]:
        """The topics with these names, and those that match. A name without a topic is an error."""
        candidates = dict.fromkeys(names)
        if pattern is not None:
            kafka_topics = self._patiently(
                lambda: _ReadyAnswer(self._admin.list_topics(timeout=_TIMEOUT_S))
            ).topics
            matching = (
                name for name in sorted(kafka_topics) if re.fullmatch(pattern, name) and name not in _INTERNAL
            )
            candidates.update(dict.fromkeys(matching))
        topics = self.described_patiently(candidates)
        for name in names:
            if name not in topics:
                raise UnknownTopicOrPartitionError(f"Kafka at {self.address} has no topic {name!r}")
        return topics

    def describe(self, names: Iterable[str]) -> dict[str, SourceTopic]:
        """These topics as they are now, but for those that are gone."""
        topic_names = list(names)
        if not topic_names:
            return {}
        futures = self._admin.describe_topics(
            self._kafka.TopicCollection(topic_names), request_timeout=_TIMEOUT_S
        )
        topics = {}
        for name, future in futures.items():
            try:
                topic = self._answer(future)
            except UnknownTopicOrPartitionError:
                continue
            topics[name] = SourceTopic(name, str(topic.topic_id), len(topic.partitions))
        return topics

    def described_patiently(self, names: Iterable[str]) -> dict[str, SourceTopic]:
        """The same, for as long as it takes the cluster to answer."""
        topic_names = list(names)
        return self._retried(lambda: self.describe(topic_names))

    def configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """The settings of topics, with the defaults of the cluster."""
        kind = self._admin_module.ConfigResource.Type.TOPIC
        resources = [self._admin_module.ConfigResource(kind, name) for name in names]
        if not resources:
            return {}

        def ask() -> dict[str, dict[str, str]]:
            futures = self._admin.describe_configs(resources, request_timeout=_TIMEOUT_S)
            return {
                resource.name: {name: entry.value for name, entry in self._answer(future).items()}
                for resource, future in futures.items()
            }

        return self._retried(ask)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset, and the one after the last."""

        def ask() -> tuple[int, int]:
            first = self._listed_offsets(topic, [partition], self._admin_module.OffsetSpec.earliest())
            return first[0], self._listed_offsets(topic, [partition], self._admin_module.OffsetSpec.latest())[
                0
            ]

        return self._retried(ask)

    def _listed_offsets(self, topic: str, partitions: Iterable[int], spec: Any) -> list[int]:
        """Offsets of partitions, asked of the admin client: a consumer takes seconds to find the leader of a new topic.

        Raises `KafkaTimeoutError` if one has no leader yet.
        """
        futures = self._admin.list_offsets(
            {self._kafka.TopicPartition(topic, number): spec for number in partitions},
            request_timeout=_TIMEOUT_S,
        )
        offsets = []
        for at, future in futures.items():
            try:
                offsets.append(int(future.result(_TIMEOUT_S * 2).offset))
            except self._kafka.KafkaException as error:
                # A client that was there before the topic, or the partition, does not know its leader.
                if error.args[0].name() in {"_NOENT", "_UNKNOWN_PARTITION"}:
                    self._admin = self._new_admin()
                    raise KafkaTimeoutError(f"{topic}-{at.partition} of Kafka has no leader yet") from error
                raise self._translated(error) from error
            except TimeoutError as error:
                raise KafkaTimeoutError(f"Kafka at {self.address} does not answer") from error
        return offsets

    def group_offsets(self, pattern: str) -> dict[str, dict[tuple[str, int], tuple[int, str]]]:
        """Offsets that groups have committed, with their metadata, by group and partition."""
        listed = self._patiently(lambda: self._admin.list_consumer_groups(request_timeout=_TIMEOUT_S))
        groups = sorted(
            listing.group_id for listing in listed.valid if re.fullmatch(pattern, listing.group_id)
        )
        groups = [group for group in groups if not group.startswith(GROUP_PREFIX)]
        offsets: dict[str, dict[tuple[str, int], tuple[int, str]]] = {}
        for group in groups:
            try:
                offsets[group] = self.offsets_of(group)
            except ConfigError as error:  # There are kinds of groups that have none, and rights to see them.
                self._tell(f"group {group}: {error}")
        return offsets

    def offsets_of(self, group: str) -> dict[tuple[str, int], tuple[int, str]]:
        """What one group has committed, with the metadata, by topic and partition."""
        request = [self._kafka.ConsumerGroupTopicPartitions(group)]
        answer = self._patiently(
            lambda: self._admin.list_consumer_group_offsets(request, request_timeout=_TIMEOUT_S)[group]
        )
        return {
            (at.topic, at.partition): (at.offset, at.metadata or "")
            for at in answer.topic_partitions
            if at.offset >= 0
        }

    # -- Reading -----------------------------------------------------------------------------------------

    def subscribe(
        self,
        names: Sequence[str],
        assigned: Assigned,
        revoked: Callable[[Sequence[tuple[str, int]]], None],
    ) -> None:
        """Read what the group's balance gives this process of these topics, and of no others from now on."""

        def on_assign(consumer: Any, partitions: Sequence[Any]) -> None:
            try:
                consumer.incremental_assign(
                    self._starts(assigned([(at.topic, at.partition) for at in partitions]))
                )
            except BaseException as error:  # noqa: BLE001  (librdkafka's thread of calls is no place for it)
                self._failed = error
                consumer.incremental_assign([])

        def on_revoke(consumer: Any, partitions: Sequence[Any]) -> None:
            revoked([(at.topic, at.partition) for at in partitions])
            consumer.incremental_unassign(partitions)

        self._consumer.subscribe(list(names), on_assign=on_assign, on_revoke=on_revoke, on_lost=on_revoke)

    def assign(self, starts: Sequence[Start]) -> None:
        """Read these partitions, in no group."""
        self._static = True
        self._consumer.assign(self._starts(starts))

    def go_on(self, start: Start) -> None:
        """Read a partition from there, whose reading an error has ended: `seek` of the client refuses it then."""
        places = self._starts([start])
        self._consumer.incremental_unassign(places)
        self._consumer.incremental_assign(places)

    def poll(self, most: int, timeout_s: float) -> list[Any]:
        """The next messages; some may be errors."""
        try:
            messages: list[Any] = self._consumer.consume(most, timeout_s)
        except self._kafka.KafkaException as error:
            raise self._translated(error) from error
        finally:
            failed, self._failed = self._failed, None
        if failed is not None:
            raise failed
        if messages:
            self._heard.error_names.clear()
        return messages

    def note(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Tell Kafka's tools how far the mirror is. Nothing rests on it."""
        if self._static or not offsets:
            return
        try:
            self._consumer.commit(
                offsets=[self._kafka.TopicPartition(*at, offset) for at, offset in offsets.items()],
                asynchronous=True,
            )
        except self._kafka.KafkaException as error:
            self._tell(f"Kafka: the group's offsets were not noted: {error}")

    def close(self) -> None:
        """Leave the group, and end the clients' threads."""
        # It ends with its last reference. A child that is forked, and collects it, dies: its threads are not there.
        self._admin = None
        self._consumer.close()

    def _starts(self, starts: Sequence[Start]) -> list[Any]:
        return [
            self._kafka.TopicPartition(
                at.topic,
                at.partition,
                at.offset,
                **({} if at.leader_epoch < 0 else {"leader_epoch": at.leader_epoch}),
            )
            for at in starts
        ]

    # -- Answers -----------------------------------------------------------------------------------------

    def is_away(self, error: Any) -> bool:
        """Whether an error only says that the cluster does not answer now."""
        return bool(error.retriable()) or error.name() in _AWAY

    def _patiently(self, ask: Callable[[], Any]) -> Any:
        return self._retried(lambda: self._answer(ask()))

    def _retried(self, ask: Callable[[], _Answer]) -> _Answer:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                answer = ask()
                self._heard.error_names.clear()
                return answer
            except self._kafka.KafkaException as error:
                failure = self._translated(error)
            except KafkaTimeoutError as error:
                failure = error
            if not isinstance(failure, KafkaTimeoutError) or time.monotonic() > deadline:
                raise failure
            self._tell(f"{failure}; it is tried again")
            time.sleep(0.2)

    def _answer(self, future: Any) -> Any:
        try:
            return future.result(_TIMEOUT_S * 2)
        except self._kafka.KafkaException as error:
            raise self._translated(error) from error
        except TimeoutError as error:
            raise KafkaTimeoutError(f"Kafka at {self.address} does not answer") from error

    def _translated(self, error: Any) -> Exception:
        """The exception of the client as one of ours."""
        cause = error.args[0] if error.args else error
        if not hasattr(cause, "name"):
            return KafkaTimeoutError(f"Kafka at {self.address}: {error}")
        if self.is_away(cause):
            return KafkaTimeoutError(f"Kafka at {self.address} does not answer: {cause.str()}")
        if cause.name() in GONE:
            return UnknownTopicOrPartitionError(f"Kafka at {self.address}: {cause.str()}")
        return ConfigError(
            f"Kafka at {self.address} refuses the mirror: {cause.str()} ({cause.name()}). Look at --kafka-config, "
            "and at the rights of its user"
        )


class _ReadyAnswer(NamedTuple):
    """An answer that is there, where a future is expected."""

    value: Any

    def result(self, _timeout: float) -> Any:
        return self.value


def _of_all_clients(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that an admin client knows as well."""
    of_consumers = (
        "group.",
        "session.",
        "heartbeat.",
        "max.poll.",
        "fetch.",
        "queued.",
        "check.crcs",
        "client.rack",
    )
    return {name: value for name, value in settings.items() if not name.startswith(of_consumers)}


def recreated(topic: str, before: str, current_id: str | None, address: str) -> UnknownTopicOrPartitionError:
    """The error for a topic of Kafka that is another one than the mirror has read."""
    problem = (
        "was deleted" if current_id is None else f"was deleted and created again (topic id {current_id})"
    )
    return UnknownTopicOrPartitionError(
        f"topic {topic!r} of Kafka at {address} {problem} since the mirror read it (topic id {before}): its offsets "
        "mean other records. Nothing of it was written. To mirror the new topic, rename it (--rename TOPIC=OTHER), "
        "or delete the log's topic first (eoslog topics delete); to go on without it, leave it out of --topic, or "
        "start a mirror by --topic-pattern again"
    )
