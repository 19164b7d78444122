"""What the admin client returns: topics, transactions, groups and the log, as they were at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition

# -- Topics -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PartitionDescription:
    """The offsets of a partition.

    Attributes
    ----------
    partition
        The number of the partition, from 0.
    start
        The offset of the first readable record.
    end
        The offset after the last record.
    lso
        The last stable offset: ``read_committed`` readers see the records before it.
    """

    partition: int
    start: int
    end: int
    lso: int


@dataclass(frozen=True)
class TopicDescription:
    """A topic.

    Attributes
    ----------
    name
        The name of the topic.
    topic_id
        The identity of this topic: a topic of the same name that is created later has another one.
    partitions
        The partitions, by number.
    config
        The settings that were set for the topic; defaults are not listed.
    schema
        The columns; None for a Kafka-shaped topic (key, value, headers).
    schema_error
        Why the schema of a topic that has one cannot be read; ``schema`` is None then, too.
    """

    name: str
    topic_id: str
    partitions: list[PartitionDescription]
    config: dict[str, str]
    schema: pa.Schema | None
    schema_error: str | None = None


# -- Transactions -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TransactionDescription:
    """The last transaction of a transactional id.

    Attributes
    ----------
    transactional_id
        The setting ``transactional.id`` of the producer.
    producer_id
        The number that the log gave the id.
    epoch
        The epoch of the newest producer with this id. Older ones are fenced.
    number
        The number of the transaction.
    state
        Kafka's: ``Empty``, ``Ongoing``, ``CompleteCommit`` or ``CompleteAbort``; or ``Prepared`` (KIP-939).
    timeout_ms
        The setting ``transaction.timeout.ms``.
    started_ms
        When the transaction was opened, in milliseconds since 1970 (UTC); -1 unless it is open.
    partitions
        The partitions that the open transaction wrote to.
    pending_offsets
        The offsets that wait for its end, by group.
    prepared
        The token of the prepared transaction, as text (`PreparedTxnState`); empty if none is prepared.
    decided_by
        The transaction of another log that decides the prepared one, and where that log was; empty if there is none.
    awaited_logs
        URLs of the logs that have not followed the newest decision of this id yet (transactions over several logs).
    """

    transactional_id: str
    producer_id: int
    epoch: int
    number: int
    state: str
    timeout_ms: int
    started_ms: int
    partitions: list[TopicPartition]
    pending_offsets: dict[str, dict[TopicPartition, OffsetAndMetadata]] = field(default_factory=dict)
    prepared: str = ""
    decided_by: str = ""
    awaited_logs: list[str] = field(default_factory=list)

    def duration_ms(self, now_ms: int) -> int | None:
        """Return for how long the transaction has been open.

        Parameters
        ----------
        now_ms
            The time now, in milliseconds since 1970 (UTC).

        Returns
        -------
        int or None
            Milliseconds; None if the transaction is not open.
        """
        return None if self.started_ms < 0 else max(0, now_ms - self.started_ms)


@dataclass(frozen=True)
class ProducerDescription:
    """A producer that wrote to a partition.

    Attributes
    ----------
    producer_id, epoch
        The producer.
    last_sequence
        The sequence number of its last record here; -1: it has none.
    last_timestamp_ms
        The newest timestamp in its last batch here, in milliseconds since 1970 (UTC), as in Kafka.
    transaction_start
        The first offset of its open transaction here; None: it has none.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    transaction_start: int | None


@dataclass(frozen=True)
class HangingTransaction:
    """An open transaction that should have ended by now.

    Attributes
    ----------
    transactional_id, producer_id, epoch, number
        The transaction, as in `TransactionDescription`.
    started_ms
        When it was opened, in milliseconds since 1970 (UTC).
    duration_ms
        For how long it has been open, in milliseconds.
    timeout_ms
        Its own ``transaction.timeout.ms``.
    last_ms
        The log's time when its producer last did anything, in milliseconds since 1970 (UTC).
    start_offsets
        Its first offset in each partition whose readers it holds back.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    number: int
    started_ms: int
    duration_ms: int
    timeout_ms: int
    last_ms: int
    start_offsets: dict[TopicPartition, int]


# -- Groups -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemberDescription:
    """A consumer of a group.

    Attributes
    ----------
    member_id
        The id that the group gave the consumer.
    client_id
        The setting ``client.id``.
    instance_id
        The setting ``group.instance.id`` of a static member (KIP-345).
    generation
        The generation of the group that the consumer has synced to.
    topics
        The topics that it subscribes to.
    partitions
        The partitions that it reads now.
    """

    member_id: str
    client_id: str
    instance_id: str | None
    generation: int
    topics: list[str]
    partitions: list[TopicPartition]


@dataclass(frozen=True)
class GroupPartition:
    """How far a group has come in a partition.

    Attributes
    ----------
    topic, partition
        The partition.
    committed
        The committed offset; None: nothing is committed.
    end
        The last stable offset: how far a reader of committed records can come.
    lag
        The number of offsets from ``committed`` to ``end``, or to the end of the partition if ``committed`` is beyond
        ``end``: such a group reads uncommitted records. None if nothing is committed.
    member_id
        The member that reads the partition now; None: no member does.
    """

    topic: str
    partition: int
    committed: OffsetAndMetadata | None
    end: int
    lag: int | None
    member_id: str | None


@dataclass(frozen=True)
class GroupDescription:
    """A consumer group.

    Attributes
    ----------
    group
        The setting ``group.id``.
    state
        Kafka's: ``Empty``, ``Stable`` or ``PreparingRebalance``.
    generation
        The number of rebalances.
    assignor
        The ``partition.assignment.strategy`` that the members agreed on.
    members
        The consumers, by member id.
    partitions
        The partitions that have a committed offset or a reader.
    """

    group: str
    state: str
    generation: int
    assignor: str
    members: list[MemberDescription]
    partitions: list[GroupPartition]


# -- The log ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LogDescription:
    """A log.

    Attributes
    ----------
    url
        Where the log is.
    log_id
        The identity that it got when it was created.
    entries
        The number of entries.
    config
        All settings as they are in force, defaults included.
    data_url
        Where data files are; empty: beside the entries. What begins with ``./`` is a folder beside the entries.
    data_url_before
        While data files are being moved: where those from before the move are. None: none are being moved.
    """

    url: str
    log_id: str
    entries: int
    config: dict[str, str]
    data_url: str = ""
    data_url_before: str | None = None


@dataclass(frozen=True)
class ClockDescription:
    """Three clocks, in milliseconds since 1970 (UTC).

    Attributes
    ----------
    log_ms
        The log's time: that of its newest entry.
    store_ms
        The store's clock; None: the store cannot tell its time.
    machine_ms
        The clock of this machine.
    is_ahead
        A wrong clock has moved the log's time ahead: see `Admin.mend_clock`.
    """

    log_ms: int
    store_ms: int | None
    machine_ms: int
    is_ahead: bool


@dataclass(frozen=True)
class Expired:
    """What `Admin.expire` has ended or forgotten.

    Attributes
    ----------
    transactions
        The producer ids whose open transaction was aborted.
    producers
        The producer ids whose sequence numbers were forgotten.
    transactional_ids
        The transactional ids that were forgotten.
    offsets
        The partitions whose committed offsets were forgotten, by group. A group without partitions here had nothing
        left, and was forgotten itself.
    """

    transactions: list[int] = field(default_factory=list)
    producers: list[int] = field(default_factory=list)
    transactional_ids: list[str] = field(default_factory=list)
    offsets: dict[str, list[TopicPartition]] = field(default_factory=dict)
