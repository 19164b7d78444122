"""One assigned partition of a consumer: where it stands, what is planned, and the batch in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from spark_eos.clients.records import ConsumerRecord, Header
from spark_eos.errors import ObjectNotFoundError, UnknownTopicOrPartitionError
from spark_eos.log.layout import TIMESTAMP_TYPE
from spark_eos.log.log import Log
from spark_eos.log.plan import Fetch, Isolation, end_offset, partition_of, plan
from spark_eos.log.topics import layout_of
from spark_eos.protocol.state import State, Topic
from spark_eos.protocol.types import TopicPartition

__all__ = ["Assigned", "OutOfRange", "to_arrow", "to_records"]


class OutOfRange(Exception):  # noqa: N818  (never leaves the clients: the consumer resets, or says what is wrong)
    """The position is not inside the partition any more."""


class Assigned:
    """A partition that is read from ``position`` on (None: not decided yet).

    The batch that is being read stays in memory, so that a poll of a few records costs what they cost.
    """

    def __init__(self, log: Log, at: TopicPartition, topic: Topic, isolation: Isolation) -> None:
        self.at = at
        self.topic = topic
        self.position: int | None = None
        self.paused = False
        self._log = log
        self._isolation = isolation
        self._planned: deque[Fetch] = deque()
        self._planned_end = -1
        self._table: pa.Table | None = None
        self._base = -1

    def seek(self, offset: int) -> None:
        """Go on from ``offset``."""
        self.position = offset
        self._planned.clear()
        self._planned_end = -1
        self._table = None

    def check_topic(self, state: State) -> Topic:
        """The topic as it is now. Raises `UnknownTopicOrPartitionError` if it is another one."""
        topic = state.topics.get(self.at.topic)
        if topic is None or topic.topic_id != self.topic.topic_id:
            what = "was deleted" if topic is None else "was deleted and created again"
            raise UnknownTopicOrPartitionError(
                f"topic {self.at.topic!r} {what} since {self.at} was assigned: assign it anew"
            )
        return topic

    def take(self, state: State, limit: int) -> tuple[int, pa.Table] | None:
        """Up to ``limit`` rows and the offset of the first; None if there are none now.

        Rows have consecutive offsets. The position moves behind them, and over what is never shown. Raises
        `OutOfRange`, `CorruptRecordError` and the errors of the store; the position stays then.
        """
        self.topic = self.check_topic(state)
        if self._table is None and not self._load(state):
            return None
        assert self._table is not None
        assert self.position is not None
        first = self.position - self._base
        rows = self._table.slice(first, limit)
        offset = self.position
        self.position += rows.num_rows
        if first + rows.num_rows >= self._table.num_rows:
            self._table = None
            self._skip()
        return offset, rows

    def _load(self, state: State) -> bool:
        """Read the next planned batch; plan first if need be. Whether there is one."""
        if not self._planned:
            self._plan(state)
        if not self._planned:
            self._skip()
            return False
        fetch = self._planned[0]
        try:
            self._table = self._log.read(self.topic, fetch)
        except ObjectNotFoundError:
            # Retention may have removed the file since it was planned. If not, the log lacks a file.
            state = self._log.follow()
            if fetch.offset >= partition_of(state, self.at).start:
                raise
            raise OutOfRange from None
        self._planned.popleft()
        self._base = self.position = fetch.offset
        return True

    def _plan(self, state: State) -> None:
        assert self.position is not None
        partition = partition_of(state, self.at)
        if not partition.start <= self.position <= partition.end:
            raise OutOfRange
        end = end_offset(partition, self._isolation)
        # Above the last stable offset there is nothing to read yet, but it is a place to wait.
        if self.position < end:
            self._planned.extend(plan(state, self.at, self.position, end, self._isolation))
            self._planned_end = end

    def _skip(self) -> None:
        """Behind the last planned row there may be control batches and aborted ones: step over them."""
        assert self.position is not None
        if not self._planned:
            self.position = max(self.position, self._planned_end)


def to_records(topic: Topic, partition: int, offset: int, rows: pa.Table) -> list[ConsumerRecord]:
    """Rows as records; the first one has the offset ``offset``."""
    layout = layout_of(topic)
    stamps = rows.column(layout.timestamp_column).cast(pa.int64()).to_pylist()
    offsets = range(offset, offset + rows.num_rows)
    if not layout.is_kafka:
        values = rows.drop_columns([layout.timestamp_column]).to_pylist()
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
    return [
        ConsumerRecord(topic.name, partition, at, stamp, key, value, _headers(found))
        for at, stamp, key, value, found in zip(
            offsets, stamps, keys, values, column.to_pylist(), strict=True
        )
    ]


def to_arrow(topic: Topic, partition: int, offset: int, rows: pa.Table) -> pa.Table:
    """The rows with topic, partition, offset and timestamp in front."""
    layout, count = layout_of(topic), rows.num_rows
    prefix = "" if layout.is_kafka else "_"
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), [topic.name])
    places = {
        f"{prefix}topic": names.cast(pa.string()),
        f"{prefix}partition": pa.array(np.full(count, partition, np.int32)),
        f"{prefix}offset": pa.array(np.arange(offset, offset + count)),
        f"{prefix}timestamp": rows.column(layout.timestamp_column).cast(TIMESTAMP_TYPE),
    }
    own = {name: rows.column(name) for name in rows.schema.names if name != layout.timestamp_column}
    return pa.table({**places, **own})


def _headers(found: list[dict[str, Any]] | None) -> Sequence[Header]:
    return tuple((header["key"], header["value"]) for header in found or ())
