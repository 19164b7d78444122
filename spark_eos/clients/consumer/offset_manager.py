"""What a consumer's group has committed, and where reading starts if it has nothing."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from immutables import Map

from spark_eos.clients.background import InTurn
from spark_eos.clients.consumer.group import GroupMember
from spark_eos.clients.consumer.partition_state import PartitionState
from spark_eos.clients.consumer.subscriptions import Subscription
from spark_eos.clients.metrics import ConsumerMetrics
from spark_eos.clients.producer.futures import RecordFuture
from spark_eos.clients.validation import as_offsets, check_callback
from spark_eos.config.consumer import OffsetReset
from spark_eos.config.isolation import Isolation
from spark_eos.errors import EosLogError, NoOffsetForPartitionError, UnstableOffsetCommitError
from spark_eos.log.data.planner import end_offset, partition_of
from spark_eos.log.log import Log
from spark_eos.log.poll_backoff import PollBackoff
from spark_eos.log.topics import topic_of
from spark_eos.protocol.actions import CommitOffsets, PartitionOffset
from spark_eos.protocol.actions.offsets import is_pending
from spark_eos.protocol.state import State, Topic
from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition

OnCommit: TypeAlias = Callable[["dict[TopicPartition, OffsetAndMetadata]", "BaseException | None"], object]
"""A function of the offsets and an error, None if they are committed."""

_LOG = logging.getLogger(__name__)


class OffsetManager:
    """Committed offsets of one consumer. ``member`` is set while it subscribes: it commits in its name.

    ``subscription`` is what it subscribes to.
    ``assigned`` are the consumer's own partitions: it adds and removes them.
    """

    def __init__(
        self,
        log: Log,
        settings: Mapping[str, Any],
        assigned: Mapping[TopicPartition, PartitionState],
        metrics: ConsumerMetrics | None = None,
    ) -> None:
        self.member: GroupMember | None = None
        self.subscription: Subscription | None = None
        self._at_first: Mapping[str, Topic] | None = None
        """The topics that there were when this consumer began to read."""
        self._log = log
        self._settings = settings
        self._assigned = assigned
        self._group: str | None = settings["group.id"]
        self._reset: OffsetReset = settings["auto.offset.reset"]
        self._isolation: Isolation = settings["isolation.level"]
        self.is_automatic: bool = settings["enable.auto.commit"]
        self.metrics = metrics or ConsumerMetrics(log.clock.monotonic)
        self._background: InTurn | None = None
        self._called_back: deque[tuple[RecordFuture[None], CommitOffsets, OnCommit | None]] = deque()
        self._interval_s: float = settings["auto.commit.interval.ms"] / 1000
        self._next_commit = log.clock.monotonic() + self._interval_s

    def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group committed. Raises `UnstableOffsetCommitError` after ``default.api.timeout.ms``."""
        partitions = list(partitions)
        state = self.settled(partitions)
        return {at: self._stored_offset(state, at) for at in partitions}

    def settled(self, partitions: Iterable[TopicPartition]) -> State:
        """A state in which no open transaction carries an offset that a reader of stable ones waits for."""
        partitions = list(partitions)
        clock = self._log.clock
        deadline = clock.monotonic() + self._settings["default.api.timeout.ms"] / 1000
        idle = PollBackoff(self._log.store)
        while True:
            self._log.follow()
            state = self._log.end_overdue()
            pending = [at for at in partitions if self.is_pending(state, at)]
            if not pending:
                return state
            if clock.monotonic() >= deadline:
                raise UnstableOffsetCommitError(
                    f"an open transaction carries an offset of group {self._group!r} for {pending[0]}: wait for its "
                    "end"
                )
            clock.sleep(idle.wait_s())

    def commit(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        *,
        without_gone: bool = False,
    ) -> None:
        """Commit offsets, or the positions of all partitions. Raises `CommitFailedError`.

        Commits that are under way in the background come first: this one is newer. ``without_gone``: those of topics
        that are gone are left out, where they would stop the others.
        """
        action = self._action(offsets)
        if self._background is not None:
            self._background.wait()
            self.call_back()
        if action.offsets:
            self._commit(action, without_gone=without_gone)
            self._learn(action)

    def commit_async(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None, callback: OnCommit | None
    ) -> RecordFuture[None]:
        """The same in the background, as a member of the group that the consumer is now. See `call_back`."""
        check_callback(callback, "callback")
        action = self._action(offsets)
        future: RecordFuture[None] = RecordFuture()
        if self._background is None:
            self._background = InTurn(self._log.environment, "eoslog-commits")
        self._called_back.append((future, action, callback))
        self._background.add(future, lambda: self._commit(action) if action.offsets else None)
        return future

    def call_back(self) -> None:
        """Call what was to be called after commits in the background that are done. For the consumer's own thread.

        Of a commit that was cancelled nothing is called.
        """
        while self._called_back and self._called_back[0][0].done():
            future, action, callback = self._called_back.popleft()
            if future.cancelled():
                continue
            error = future.exception()
            if error is None:
                self._learn(action)
            if callback is not None:
                offsets = {
                    TopicPartition(at.topic, at.partition): OffsetAndMetadata(at.offset, at.metadata)
                    for at in action.offsets
                }
                callback(offsets, error)

    def finish(self, timeout_s: float | None = None) -> None:
        """Wait for commits in the background."""
        if self._background is not None:
            self._background.wait(timeout_s)
            self.call_back()

    def _action(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None) -> CommitOffsets:
        group = self._group
        assert group is not None
        positions = as_offsets(self._reached() if offsets is None else offsets)
        places = []
        # Of partitions that were never read here, whatever topic has the name now.
        state = self._log.state if positions.keys() <= self._assigned.keys() else self._log.follow()
        for at, offset in positions.items():
            assigned = self._assigned.get(at)
            topic = topic_of(state, at[0], self._log.url) if assigned is None else assigned.topic
            places.append(PartitionOffset(at[0], topic.topic_id, at[1], offset.offset, offset.metadata))
        member = None if self.member is None else self.member.membership
        return CommitOffsets(group, tuple(places), member=member)

    def _commit(self, action: CommitOffsets, *, without_gone: bool = False) -> None:
        begun = self._log.clock.monotonic()

        def propose(state: State) -> tuple[CommitOffsets, ...]:
            if not without_gone:
                return (action,)
            ids = {name: topic.topic_id for name, topic in state.topics.items()}
            readable = tuple(at for at in action.offsets if ids.get(at.topic) == at.topic_id)
            return (action._replace(offsets=readable),) if readable else ()

        self._log.commit(propose, writer=self._settings["client.id"] or self._group or "")
        self.metrics.committed(self._log.clock.monotonic() - begun)

    def _learn(self, action: CommitOffsets) -> None:
        for at in action.offsets:
            assigned = self._assigned.get(TopicPartition(at.topic, at.partition))
            if assigned is not None and assigned.topic.topic_id == at.topic_id:
                assigned.committed = at.offset

    def _reached(self) -> dict[TopicPartition, int]:
        return {
            at: assigned.reached for at, assigned in self._assigned.items() if assigned.reached is not None
        }

    def auto_commit(self, *, now: bool = False) -> None:
        """Commit positions that moved, if ``enable.auto.commit`` is on and it is time. A failure is logged."""
        if not self.is_automatic:
            return
        clock = self._log.clock
        if not now and clock.monotonic() < self._next_commit:
            return
        self._next_commit = clock.monotonic() + self._interval_s
        moved = {
            at: reached for at, reached in self._reached().items() if self._assigned[at].committed != reached
        }
        try:
            if moved:
                self.commit(moved, without_gone=True)
        except EosLogError as error:
            # As in Kafka: reading goes on, and the next commit covers these offsets too. If others have the
            # partitions by now, the poll that asked for it finds out.
            _LOG.warning("offsets of group %r were not committed: %s", self._group, error)

    def begin(self, state: State) -> None:
        """The consumer reads from here on: what is created later is new to it."""
        if self._at_first is None:
            self._at_first = state.topics

    def start(self, assigned: PartitionState, state: State) -> None:
        """Where reading begins: at what the group committed, else as ``auto.offset.reset`` says.

        ``latest`` passes over nothing that came after the consumer, or its group, had begun to read.
        """
        if self._group is not None:
            committed = self._stored_offset(state, assigned.at)
            if committed is not None:
                assigned.committed = committed.offset
                assigned.seek(committed.offset)
                return
        if not self.resets:
            why = (
                "there is no group.id" if self._group is None else f"group {self._group!r} has committed none"
            )
            raise NoOffsetForPartitionError(
                f"no offset to begin {assigned.at} at: {why}, and auto.offset.reset is none: seek, or set it to "
                "earliest or latest"
            )
        offset = self._of_newcomer(assigned.at, state) if self._reset.strategy == "latest" else None
        assigned.seek(self.reset_offset(assigned.at, state) if offset is None else offset)

    @property
    def resets(self) -> bool:
        """Whether ``auto.offset.reset`` says where to go on."""
        return self._reset.strategy != "none"

    def reset_offset(self, at: TopicPartition, state: State) -> int:
        """Where ``auto.offset.reset`` puts a position: start, end, or so long ago (KIP-1106)."""
        partition = partition_of(state, at)
        if self._reset.strategy == "earliest":
            return partition.start
        if self._reset.strategy == "by_duration":
            since_ms = self._log.time.record_ms(state) - self._reset.ago_ms
            position = self._log.offset_for_time(at, since_ms, self._isolation)
            if position is not None:
                return position[0]
        return end_offset(partition, self._isolation)

    def _of_newcomer(self, at: TopicPartition, state: State) -> int | None:
        """The first record that came after the consumer, or its group, began to read; None: the end is the place."""
        now, then = state.topics[at.topic], (self._at_first or {}).get(at.topic)
        if self._at_first is not None and (
            then is None or then.topic_id != now.topic_id or at.partition >= then.partitions
        ):
            return partition_of(state, at).start
        offsets = state.offsets.get(self._group or "", Map())
        of_topic = [committed.timestamp_ms for (topic, _), committed in offsets.items() if topic == at.topic]
        if not of_topic and (subscription := self.subscription) is not None:
            of_topic = [
                committed.timestamp_ms
                for (topic, _), committed in offsets.items()
                if subscription.together(topic, at.topic)
            ]
        if not of_topic:
            return None
        position = self._log.offset_for_time(at, min(of_topic), self._isolation)
        return None if position is None else position[0]

    def is_pending(self, state: State, at: TopicPartition) -> bool:
        """Whether a reader of stable offsets has to wait for the end of a transaction (KIP-447)."""
        stable = self._isolation is Isolation.READ_COMMITTED and self._group is not None
        return stable and is_pending(state, self._group or "", at.topic, at.partition)

    def _stored_offset(self, state: State, at: TopicPartition) -> OffsetAndMetadata | None:
        partition_of(state, at)
        committed = state.offset_of(self._group or "", at.topic, at.partition)
        return None if committed is None else committed.public
