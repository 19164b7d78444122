"""The admin client: topics, transactions, groups."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType

import pyarrow as pa
from immutables import Map

from spark_eos.clients.identity import initialise
from spark_eos.errors import ConfigError, InvalidRequestError, UnknownTopicOrPartitionError
from spark_eos.log.layout import evolve_check, normalise_schema, serialise_schema
from spark_eos.log.log import Log
from spark_eos.log.plan import partition_of
from spark_eos.log.topics import TOPIC_CONFIGS, check_config, new_topic, schema_of
from spark_eos.protocol.actions import (
    Action,
    AdvanceLogStart,
    AlterTopic,
    CommitOffsets,
    DeleteTopic,
    InitProducer,
    PartitionOffset,
)
from spark_eos.protocol.state import Producer as ProducerState
from spark_eos.protocol.state import State, TransactionState
from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition

__all__ = [
    "Admin",
    "PartitionDescription",
    "ProducerDescription",
    "TopicDescription",
    "TransactionDescription",
]

_FENCE_TIMEOUT_MS = 60_000
_WRITER = "admin"


@dataclass(frozen=True)
class PartitionDescription:
    """Offsets of a partition: first, behind the last, and the last stable one (exclusive)."""

    partition: int
    start: int
    end: int
    lso: int


@dataclass(frozen=True)
class TopicDescription:
    """A topic; ``config`` has what was set for it, ``schema`` is None for Kafka-shaped topics."""

    name: str
    topic_id: str
    partitions: list[PartitionDescription]
    config: dict[str, str]
    schema: pa.Schema | None


@dataclass(frozen=True)
class TransactionDescription:
    """The last transaction of a transactional id. ``started_ms`` is -1 unless it is ongoing."""

    transactional_id: str
    producer_id: int
    epoch: int
    number: int
    state: str
    timeout_ms: int
    started_ms: int
    partitions: list[TopicPartition]


@dataclass(frozen=True)
class ProducerDescription:
    """A producer that wrote to a partition. ``transaction_start`` is the first offset of its open one."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    transaction_start: int | None


class Admin:
    """Looks after a log. Safe to share between threads.

    Only `create_topic` creates a log; all else raises `NotALogError` where there is none. ``url`` may also
    be an open `Log`.
    """

    def __init__(self, url: str | os.PathLike[str] | Log) -> None:
        self._url = url

    def __enter__(self) -> Admin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is held open."""

    # -- Topics -----------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, object] | None = None,
        schema: pa.Schema | None = None,
    ) -> None:
        """A new topic, Kafka-shaped or with columns of its own.

        Raises `TopicExistsError`, `ConfigError`, `SchemaMismatchError`, `InvalidRequestError` for a name.
        """
        action = new_topic(name, partitions, config, schema)
        self._log(create=True).commit(lambda _state: (action,), writer=_WRITER)

    def alter_topic(
        self,
        name: str,
        partitions: int | None = None,
        config: Mapping[str, object] | None = None,
        schema: pa.Schema | None = None,
    ) -> None:
        """More partitions, other settings, or nullable columns more.

        Settings that are not named stay; a value of None takes one back to its default. Raises
        `SchemaMismatchError` for any other change of the schema.
        """
        log = self._log()
        log.topic(name)
        kept = {key: value for key, value in (config or {}).items() if value is not None}
        changes = check_config(kept)
        check_config({key: TOPIC_CONFIGS.get(key, "") for key in config or {} if key not in kept})
        wanted = None if schema is None else normalise_schema(schema)

        def propose(state: State) -> tuple[Action, ...]:
            topic = state.topics.get(name)
            if topic is None:
                raise UnknownTopicOrPartitionError(f"topic {name!r} was deleted")
            settings = None
            if config is not None:
                stays = {key: value for key, value in topic.config.items() if key not in config}
                settings = tuple(sorted({**stays, **changes}.items()))
            stored = None
            if wanted is not None:
                current = schema_of(topic)
                if current is None:
                    raise InvalidRequestError(f"topic {name!r} is Kafka-shaped: it cannot get a schema")
                evolve_check(current, wanted)
                stored = None if current.equals(wanted) else serialise_schema(wanted)
            return (AlterTopic(name, topic.topic_id, partitions, settings, stored),)

        log.commit(propose, writer=_WRITER)

    def delete_topic(self, name: str) -> None:
        """Delete the topic and the offsets that groups committed for it."""
        log = self._log()
        log.follow()
        action = DeleteTopic(name, log.topic(name).topic_id)
        log.commit(lambda _state: (action,), writer=_WRITER)

    def list_topics(self) -> list[str]:
        """The names, sorted."""
        return sorted(self._log().follow().topics)

    def describe_topic(self, name: str) -> TopicDescription:
        """Partitions, settings and schema. Raises `UnknownTopicOrPartitionError`."""
        log = self._log()
        state = log.follow()
        topic = log.topic(name)
        parts = [state.partitions[topic.topic_id, number] for number in range(topic.partitions)]
        return TopicDescription(
            name,
            topic.topic_id,
            [
                PartitionDescription(number, part.start, part.end, part.last_stable_offset)
                for number, part in enumerate(parts)
            ],
            dict(sorted(topic.config.items())),
            schema_of(topic),
        )

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Records below these offsets are no longer readable (-1: all stable ones). The new first offsets."""
        log = self._log()
        action = AdvanceLogStart(self._places(log, offsets))
        state = log.commit(lambda _state: (action,), writer=_WRITER).state
        return {TopicPartition(*at): partition_of(state, TopicPartition(*at)).start for at in offsets}

    # -- Transactions -----------------------------------------------------------------------------------

    def list_transactions(self) -> list[TransactionDescription]:
        """The last transaction of every transactional id, by id."""
        state = self._log().follow()
        return [
            _transaction(state, state.producers[producer_id])
            for _, producer_id in sorted(state.transactional_ids.items())
        ]

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """The last transaction of a transactional id. Raises `InvalidRequestError` for an unknown one."""
        state = self._log().follow()
        return _transaction(state, _known(state, transactional_id))

    def describe_producers(self, topic: str, partition: int) -> list[ProducerDescription]:
        """The producers that wrote to a partition with sequence numbers, or have a transaction open there."""
        log = self._log()
        state = log.follow()
        key = (log.topic(topic).topic_id, partition)
        opened = partition_of(state, TopicPartition(topic, partition)).open
        found = []
        for producer_id, producer in sorted(state.producers.items()):
            window = producer.sequences.get(key, ())
            if window or producer_id in opened:
                last = window[-1].last if window else -1
                start = opened.get(producer_id)
                found.append(ProducerDescription(producer_id, producer.epoch, last, producer.last_ms, start))
        return found

    def fence_producers(self, transactional_ids: Iterable[str]) -> None:
        """Lock out whoever writes under these ids now; what they left open is aborted."""
        log = self._log()
        for transactional_id in transactional_ids:
            producer = log.follow().producer_of(transactional_id)
            timeout_ms = _FENCE_TIMEOUT_MS if producer is None else producer.timeout_ms
            initialise(log, transactional_id, timeout_ms, writer=_WRITER, request_id=log.clock.unique())

    def abort_transaction(self, transactional_id: str) -> None:
        """End an open transaction: its producer is fenced first, so that it cannot go on by mistake.

        Raises `InvalidRequestError` if none is open.
        """
        log = self._log()
        number = _ongoing(log.follow(), transactional_id).number

        def propose(state: State) -> tuple[Action, ...]:
            producer = _known(state, transactional_id)
            if producer.transaction is not TransactionState.ONGOING or producer.number != number:
                return ()
            return (
                InitProducer(producer.producer_id, producer.epoch + 1, transactional_id, producer.timeout_ms),
            )

        log.commit(propose, writer=_WRITER)

    # -- Groups -----------------------------------------------------------------------------------------

    def list_groups(self) -> list[str]:
        """The groups that have committed offsets, sorted."""
        state = self._log().follow()
        return sorted(group for group, offsets in state.groups.items() if offsets)

    def list_group_offsets(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group committed; empty for an unknown group, as in Kafka."""
        offsets = self._log().follow().groups.get(group)
        return {TopicPartition(*at): known.public for at, known in sorted((offsets or Map()).items())}

    def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> None:
        """Commit offsets in the name of a group."""
        if not group:
            raise ConfigError("alter_group_offsets needs the id of a group")
        log = self._log()
        action = CommitOffsets(group, self._places(log, offsets))
        log.commit(lambda _state: (action,), writer=_WRITER)

    # -- Inside -----------------------------------------------------------------------------------------

    def _log(self, *, create: bool = False) -> Log:
        return self._url if isinstance(self._url, Log) else Log.shared(self._url, create=create)

    @staticmethod
    def _places(
        log: Log, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | Mapping[TopicPartition, int]
    ) -> tuple[PartitionOffset, ...]:
        log.follow()
        places = []
        for at, value in offsets.items():
            offset = value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(value)
            topic_id = log.topic(at[0]).topic_id
            places.append(PartitionOffset(at[0], topic_id, at[1], offset.offset, offset.metadata))
        return tuple(places)


def _known(state: State, transactional_id: str) -> ProducerState:
    producer = state.producer_of(transactional_id)
    if producer is None:
        raise InvalidRequestError(
            f"the log knows no transactional.id {transactional_id!r}; list_transactions names those it knows"
        )
    return producer


def _ongoing(state: State, transactional_id: str) -> ProducerState:
    producer = _known(state, transactional_id)
    if producer.transaction is not TransactionState.ONGOING:
        raise InvalidRequestError(
            f"transactional.id {transactional_id!r} has no open transaction: the last one is "
            f"{producer.transaction.value}"
        )
    return producer


def _transaction(state: State, producer: ProducerState) -> TransactionDescription:
    names = {topic.topic_id: name for name, topic in state.topics.items()}
    return TransactionDescription(
        producer.transactional_id or "",
        producer.producer_id,
        producer.epoch,
        producer.number,
        producer.transaction.value,
        producer.timeout_ms,
        producer.started_ms,
        sorted(TopicPartition(names[topic_id], number) for topic_id, number in producer.touched),
    )
