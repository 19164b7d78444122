"""One assigned partition of a consumer: where it stands, what is planned, and the batch in memory."""

from __future__ import annotations

from collections import deque

import pyarrow as pa

from spark_eos.errors import ObjectNotFoundError, UnknownTopicOrPartitionError
from spark_eos.log.log import Log
from spark_eos.log.plan import Fetch, Isolation, end_offset, partition_of, plan
from spark_eos.protocol.state import State, Topic
from spark_eos.protocol.types import TopicPartition

__all__ = ["Assigned", "OutOfRange"]


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
            self._planned.extend(plan(state, self.at, self.position, end, self._isolation, self._log.load))
            self._planned_end = end

    def _skip(self) -> None:
        """Behind the last planned row there may be control batches and aborted ones: step over them."""
        assert self.position is not None
        if not self._planned:
            self.position = max(self.position, self._planned_end)
