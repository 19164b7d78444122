"""One assigned partition of a consumer: where it stands, what is planned, and the batch in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from spark_eos.config.isolation import Isolation
from spark_eos.errors import ObjectNotFoundError, UnknownTopicOrPartitionError
from spark_eos.log.data.planner import Fetch, end_offset, partition_of, plan
from spark_eos.log.data.records import Records
from spark_eos.log.handle.missing import error_of_missing
from spark_eos.log.log import Log
from spark_eos.protocol.state import State, Topic
from spark_eos.protocol.types import TopicPartition


class OutOfRange(Exception):  # noqa: N818  (never leaves the clients: the consumer resets, or says what is wrong)
    """The position is not inside the partition any more."""


class PartitionState:
    """A partition that is read from ``position`` on (None: not decided yet).

    The batch that is being read stays in memory, so that a poll of a few records costs what they cost.
    """

    def __init__(self, log: Log, at: TopicPartition, topic: Topic, isolation: Isolation) -> None:
        self.at = at
        self.topic = topic
        self.position: int | None = None
        self.shown: int | None = None
        """The position as users see it, while records of this partition wait in an iteration; None: `position`."""
        self.committed: int | None = None
        """What this consumer knows to be committed for its group."""
        self.paused = False
        self.seeks = 0
        """How often what had been planned was given up."""
        self._log = log
        self._isolation = isolation
        self.planned: deque[Fetch] = deque()
        """What is read next, once the batch in memory is used up."""
        self._planned_end = -1
        self._records: Records | None = None
        self._next = -1
        self._newer: State | None = None
        """A state that something was planned on while a poll was under way: that of the poll is older."""

    @property
    def reached(self) -> int | None:
        """The position as users see and commit it."""
        return self.position if self.shown is None else self.shown

    def seek(self, offset: int | None) -> None:
        """Go on from ``offset``; None: where that is, is not decided any more."""
        self.position = offset
        self.shown = None
        self.seeks += 1
        self.planned.clear()
        self._planned_end = -1
        self._records = None

    def check_topic(self, state: State) -> Topic:
        """The topic as it is now. Raises `UnknownTopicOrPartitionError` if it is another one."""
        topic = state.topics.get(self.at.topic)
        if topic is None or topic.topic_id != self.topic.topic_id:
            change = "was deleted" if topic is None else "was deleted and created again"
            raise UnknownTopicOrPartitionError(
                f"topic {self.at.topic!r} {change} since {self.at} was assigned: assign it again"
            )
        return topic

    def prepare(self, state: State) -> None:
        """Plan, if there is neither a batch in memory nor a plan: `take` would do the same. Raises `OutOfRange`."""
        if self._records is None and not self.planned:
            self._plan(self._newest(state))

    def take(self, state: State, limit: int, read: Callable[[Topic, Fetch], Records]) -> Records | None:
        """Up to ``limit`` rows, which ``read`` reads by the batch; None if there are none now.

        The position moves after them, and over what is never shown. Raises `OutOfRange`, `CorruptRecordError`
        and the errors of the store; the position stays then.
        """
        state = self._newest(state)
        while self._records is None:
            if not self._load(state, read):
                return None
        records = self._records.slice(0, limit)
        remainder = self._records.slice(records.num_rows)
        if remainder.num_rows:
            self._records = remainder
            self.position = records.offset(records.num_rows - 1) + 1
        else:
            self._drop_batch()
        return records

    def _newest(self, state: State) -> State:
        """The state to plan on. Raises `UnknownTopicOrPartitionError` if the topic is another one there."""
        if self._newer is not None and self._newer.seq > state.seq:
            state = self._newer  # The position may lie after the end of the older one.
        else:
            self._newer = None
        self.topic = self.check_topic(state)
        return state

    def _drop_batch(self) -> None:
        """The batch in memory was read, and goes; its last offsets may have had no records, or all of them."""
        self._records = None
        self.position = self._next
        self._skip()

    def _load(self, state: State, read: Callable[[Topic, Fetch], Records]) -> bool:
        """Read the next planned batch; plan first if need be. Whether there is one."""
        if not self.planned:
            self._plan(state)
        if not self.planned:
            self._skip()
            return False
        fetch = self.planned[0]
        try:
            self._records = read(self.topic, fetch)
        except ObjectNotFoundError as error:
            # Its records were deleted or rewritten since it was planned. If not, the log lacks a file.
            state = self._newer = self._log.follow()
            self.check_topic(state)
            self.seek(fetch.offset)
            self._plan(state)
            if self.planned and self.planned[0].file == fetch.file:
                raise error_of_missing(self._log, fetch, error, "") from error
            return self._load(state, read)
        self.planned.popleft()
        self.position, self._next = fetch.offset, fetch.next_offset
        if not self._records.num_rows:
            self._drop_batch()
        return True

    def _plan(self, state: State) -> None:
        assert self.position is not None
        partition = partition_of(state, self.at)
        if not partition.start <= self.position <= partition.end:
            raise OutOfRange
        end = end_offset(partition, self._isolation)
        # Above the last stable offset there is nothing to read yet, but it is a place to wait.
        if self.position < end:
            self.planned.extend(plan(state, self.at, self.position, end, self._isolation, self._log.load))
            self._planned_end = end

    def _skip(self) -> None:
        """After the last planned row there may be control batches and aborted ones: step over them."""
        assert self.position is not None
        if not self.planned:
            self.position = max(self.position, self._planned_end)
