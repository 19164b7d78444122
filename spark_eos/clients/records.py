"""What clients hand out: records, and where they are."""

from __future__ import annotations

from collections.abc import ItemsView, KeysView, Sequence, ValuesView
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa

from spark_eos.errors import CorruptRecordError
from spark_eos.log.data.layout import TIMESTAMP_TYPE
from spark_eos.log.data.records import Records
from spark_eos.log.data.value_ranges import first_without_name
from spark_eos.log.topics import layout_of
from spark_eos.protocol.actions import Membership
from spark_eos.protocol.state import Topic
from spark_eos.protocol.types import TopicPartition

Header = tuple[str, "bytes | None"]


class RecordMetadata(NamedTuple):
    """Where records went.

    Attributes
    ----------
    topic
        The name of the topic.
    partition
        The number of the partition, from 0.
    offset
        The offset of the first record; the others follow. -1: the records are in the log, but a lost reply hid their
        offsets.
    timestamp_ms
        The timestamp of the first record, in milliseconds since 1970 (UTC).
    count
        How many records: 1 for `Producer.send`.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    count: int = 1  # type: ignore[assignment]  # hides tuple.count, which is not needed here

    @property
    def timestamp(self) -> int:
        """``timestamp_ms``, by kafka-python's name."""
        return self.timestamp_ms

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition."""
        return TopicPartition(self.topic, self.partition)


class ConsumerRecord(NamedTuple):
    """A record as it was read.

    Attributes
    ----------
    topic
        The name of the topic.
    partition
        The number of the partition, from 0.
    offset
        The offset of the record in its partition.
    timestamp_ms
        Milliseconds since 1970 (UTC).
    key
        Bytes, or what ``key.deserializer`` makes of them; None in a topic with a schema.
    value
        Bytes, or None for a tombstone, or what ``value.deserializer`` makes of it; in a topic with a schema, the row as
        a dict.
    headers
        Pairs of a name and bytes or None.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: Sequence[Header] = ()

    @property
    def timestamp(self) -> int:
        """``timestamp_ms``, by kafka-python's name."""
        return self.timestamp_ms

    @property
    def timestamp_type(self) -> int:
        """0, Kafka's CreateTime: a record keeps the timestamp that it came with."""
        return 0

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition."""
        return TopicPartition(self.topic, self.partition)


class ConsumerRecords(list[ConsumerRecord]):
    """What `Consumer.poll` returns: a list of records, which also gives them by partition.

    Examples
    --------
    >>> from spark_eos import Consumer, Producer, TopicPartition
    >>> with Producer("memory://records") as producer:
    ...     future = producer.send("orders", b"one")
    >>> consumer = Consumer("memory://records", auto_offset_reset="earliest")
    >>> consumer.assign([TopicPartition("orders", 0)])
    >>> for at, records in consumer.poll().items():
    ...     print(at, [record.value for record in records])
    orders-0 [b'one']
    """

    def __getattr__(self, name: str) -> NoReturn:
        # confluent-kafka's poll returns one message, of which these are asked.
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        if name == "error" or name in ConsumerRecord._fields:
            text += (
                ": poll returns a list of records, so write `for record in consumer.poll(timeout_ms=1000):`"
            )
        raise AttributeError(text, name=name, obj=self)

    def by_partition(self) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the records of each partition.

        Returns
        -------
        dict of TopicPartition to list of ConsumerRecord
            In the order in which the partitions come.
        """
        partitions: dict[TopicPartition, list[ConsumerRecord]] = {}
        for record in self:
            partitions.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return partitions

    def items(self) -> ItemsView[TopicPartition, list[ConsumerRecord]]:
        """Return the partitions with their records, as those of the dict that kafka-python returns.

        Returns
        -------
        items of a dict
            Of `by_partition`.
        """
        return self.by_partition().items()

    def keys(self) -> KeysView[TopicPartition]:
        """Return the partitions.

        Returns
        -------
        keys of a dict
            Of `by_partition`.
        """
        return self.by_partition().keys()

    def values(self) -> ValuesView[list[ConsumerRecord]]:
        """Return the records of each partition.

        Returns
        -------
        values of a dict
            Of `by_partition`.
        """
        return self.by_partition().values()

    def records(self, at: TopicPartition) -> list[ConsumerRecord]:
        """Return the records of a partition.

        Parameters
        ----------
        at
            The partition.

        Returns
        -------
        list of ConsumerRecord
            Empty if there are none.
        """
        return self.by_partition().get(TopicPartition(*at), [])


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a time (`Consumer.offsets_for_times`).

    Attributes
    ----------
    offset
        The offset of the record.
    timestamp_ms
        Its own timestamp, in milliseconds since 1970 (UTC).
    """

    offset: int
    timestamp_ms: int

    @property
    def timestamp(self) -> int:
        """``timestamp_ms``, by kafka-python's name."""
        return self.timestamp_ms


class ConsumerGroupMetadata(NamedTuple):
    """A consumer group, and the member of it that has read the records (KIP-447).

    Attributes
    ----------
    group_id
        The setting ``group.id``.
    generation_id
        The generation of the group in which the member reads; -1: the consumer has not subscribed.
    member_id
        The id that the group gave the consumer; empty: the consumer has not subscribed.
    group_instance_id
        The setting ``group.instance.id`` of a static member (KIP-345).
    topic_ids
        Name and id of each topic that the consumer reads now: a topic that was created again under the same name is
        another one.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topic_ids: tuple[tuple[str, str], ...] = ()

    @property
    def membership(self) -> Membership | None:
        """The member, as the log's rules know it; None for a consumer with assigned partitions."""
        if not self.member_id:
            return None
        return Membership(self.member_id, self.generation_id, self.group_instance_id)


def to_records(topic: Topic, partition: int, records: Records) -> list[ConsumerRecord]:
    """What was read, one by one."""
    layout, rows, offsets = layout_of(topic), records.table, records.offsets.tolist()
    stamps = rows.column(layout.timestamp_column).cast(pa.int64()).to_pylist()
    if not layout.is_kafka:
        values = _values(topic, partition, rows.drop_columns([layout.timestamp_column]), offsets)
        return [
            ConsumerRecord(topic.name, partition, at, stamp, None, value)
            for at, stamp, value in zip(offsets, stamps, values, strict=True)
        ]
    keys, values = rows.column("key").to_pylist(), rows.column("value").to_pylist()
    column = rows.column("headers")
    if column.null_count == len(column):
        return [
            ConsumerRecord(topic.name, partition, at, stamp, key, value)
            for at, stamp, key, value in zip(offsets, stamps, keys, values, strict=True)
        ]
    if (row := first_without_name(column)) is not None:
        raise CorruptRecordError(
            f"{topic.name}-{partition}, offset {offsets[row]}: a header is null or has no name. Read the record with "
            f"poll_arrow, or seek to offset {offsets[row] + 1} to go on; max_records=1 gives the records before it"
        )
    return [
        ConsumerRecord(topic.name, partition, at, stamp, key, value, _headers(headers))
        for at, stamp, key, value, headers in zip(
            offsets, stamps, keys, values, column.to_pylist(), strict=True
        )
    ]


def _values(topic: Topic, partition: int, rows: pa.Table, offsets: list[int]) -> list[dict[str, Any]]:
    """The rows as dicts. Raises `CorruptRecordError` for a value of an earlier version that Python does not have."""
    try:
        return list(rows.to_pylist())
    except (OverflowError, ValueError):
        for row, offset in enumerate(offsets):
            for name in rows.column_names:
                try:
                    rows.column(name)[row].as_py()
                except (OverflowError, ValueError) as error:
                    raise CorruptRecordError(
                        f"{topic.name}-{partition}, offset {offset}: Python has no such value as that of column "
                        f"{name!r} ({error}). Read it with poll_arrow, or seek to offset {offset + 1} to go on; "
                        "max_records=1 gives the records before it"
                    ) from error
        raise


def to_arrow(topic: Topic, partition: int, records: Records) -> pa.Table:
    """The rows with topic, partition, offset and timestamp in front."""
    layout, rows, count = layout_of(topic), records.table, records.num_rows
    prefix = "" if layout.is_kafka else "_"
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), [topic.name])
    places = {
        f"{prefix}topic": names.cast(pa.string()),
        f"{prefix}partition": pa.array(np.full(count, partition, np.int32)),
        f"{prefix}offset": pa.array(records.offsets),
        f"{prefix}timestamp": rows.column(layout.timestamp_column).cast(TIMESTAMP_TYPE),
    }
    own = {name: rows.column(name) for name in rows.schema.names if name != layout.timestamp_column}
    return pa.table({**places, **own})


def _headers(headers: list[dict[str, Any]] | None) -> Sequence[Header]:
    return tuple((header["key"], header["value"]) for header in headers or ())
