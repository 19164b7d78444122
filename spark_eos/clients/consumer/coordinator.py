"""A subscribed consumer and its group's generations: what it gives up, what it gets, and its listener."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

from spark_eos.clients.consumer.group import GroupMember
from spark_eos.clients.consumer.heartbeat import Heartbeats, HeartbeatThread
from spark_eos.clients.consumer.offset_manager import OffsetManager
from spark_eos.clients.consumer.partition_state import PartitionState
from spark_eos.clients.consumer.subscriptions import Callback, Subscription
from spark_eos.clients.records import ConsumerGroupMetadata
from spark_eos.config.isolation import Isolation
from spark_eos.errors import EosLogError, IllegalGenerationError, IllegalStateError, UnknownMemberIdError
from spark_eos.log.log import Log
from spark_eos.protocol.assignors import EAGER
from spark_eos.protocol.state import Group, Member, PartitionKey, State
from spark_eos.protocol.types import TopicPartition

_LOG = logging.getLogger(__name__)


class ConsumerCoordinator:
    """Keeps a consumer's partitions those that its group lets it hold. For the consumer's own thread only.

    ``assigned`` are the consumer's partitions. The order of things: commit (if the consumer does that by
    itself), tell the listener what goes, let go of it, sync. Whatever fails in between is done again by the
    next `follow`, from where it stands.
    """

    def __init__(
        self,
        log: Log,
        settings: Mapping[str, Any],
        offsets: OffsetManager,
        assigned: MutableMapping[TopicPartition, PartitionState],
    ) -> None:
        self.subscription = Subscription(())
        self.beats = Heartbeats(log, settings)
        self._log = log
        self._isolation: Isolation = settings["isolation.level"]
        self._member = GroupMember(log, settings)
        self._thread: HeartbeatThread | None = None
        self._offsets = offsets
        self._assigned = assigned
        offsets.member = self._member
        self._synced = False
        """Whether the listener has yet to hear what the newest generation gives."""
        self._settled_group: Group | None = None
        """The group, when nothing was left to do."""
        self._telling = ""

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        """The group, the generation that the positions belong to, and the member."""
        return self._member.metadata

    def check_not_in_listener(self, call: str) -> None:
        """Raise `IllegalStateError` if the listener is being called now."""
        if self._telling:
            raise IllegalStateError(f"{call} is not possible inside {self._telling}")

    def follow(self, state: State) -> State:
        """Do what the group asks for, until there is nothing left; the state in which that is so.

        Raises `FencedInstanceIdError`, `InconsistentGroupProtocolError`, and what the listener raises.
        """
        member = self._member
        self.beats.polled()
        while True:
            if member.topics is not None and member.standing(state) is None:
                self._evicted(state)
            topics = self.subscription.topics(state)
            if member.topics != topics:
                state = self._join(topics)
            standing = member.standing(state)
            if standing is None:
                continue
            group, current = standing
            if group is self._settled_group:
                return state
            held = set(current.held)
            self._lose([at for at in self._assigned if self._key(at) not in held])
            if current.generation == group.generation:
                self._take(current, state)
                self._settled_group = group
                state = self._log.state  # The listener may have committed where to begin.
                continue
            self._revoke(self._going(group))
            self._offsets.finish()  # Behind the sync, commits that are on their way would be refused.
            try:
                state = member.sync(group.generation)
                self._synced = True
            except (IllegalGenerationError, UnknownMemberIdError):
                state = self._log.follow()  # There is a newer generation, or one without this member.

    def leave(self, timeout_s: float | None = None) -> None:
        """Commit, give everything back, and be no member any more; a static one stays (KIP-345).

        The end: errors of the log are logged, and those of the program's own functions are raised last. Commits in the
        background are waited for that long.
        """
        try:
            try:
                if self._is_out():
                    self._lose(list(self._assigned))
                else:
                    self._revoke(list(self._assigned))
            finally:
                self._offsets.finish(timeout_s)
        finally:
            self._drop(list(self._assigned))
            try:
                if self._member.instance_id is None:
                    self._member.leave()
            except EosLogError as error:
                _LOG.warning(
                    "member %s could not leave group %r; others take over when its session has timed out: %s",
                    self._member.member_id,
                    self._member.group_id,
                    error,
                )
            finally:
                self._member.forget()
                self._offsets.member = self._offsets.subscription = None
                if self._thread is not None:
                    self._thread.join()
                self.beats.end()

    # -- Inside -----------------------------------------------------------------------------------------

    def _join(self, topics: tuple[str, ...]) -> State:
        predecessor = self._member.successor(self._log.state)
        is_new = self._member.topics is None
        state = self._member.join(topics)
        if is_new:
            self._synced = True
            self.beats.begin(self._member.member_id)
            if self._thread is None:
                self._thread = HeartbeatThread(
                    self.beats, self._member.group_id, self._log.environment.thread
                )
                self._thread.start()
                self.beats.by_polls = self._thread.is_refused
                self.beats.polled()
                # A consumer that was dropped without close stops beating, and others take over.
                weakref.finalize(self, self._thread.stop).atexit = False
            if predecessor is not None:
                self.beats.clear(predecessor)
        return state

    def _is_out(self) -> bool:
        """Whether others have put it out of the group since it joined, as far as can be seen."""
        try:
            state = self._log.follow()
        except EosLogError:
            state = self._log.state
        return self._member.topics is not None and self._member.standing(state) is None

    def _evicted(self, state: State) -> None:
        """Others hold by now what it held: nothing is committed."""
        self._lose(list(self._assigned))
        self._member.check_not_fenced(state)
        self._member.forget()

    def _going(self, group: Group) -> list[TopicPartition]:
        """What the newest generation takes: everything, where the assignor is an eager one (KIP-429)."""
        if group.assignor in EAGER:
            return list(self._assigned)
        assigned_keys = set(group.assignment[self._member.member_id])
        return [at for at in self._assigned if self._key(at) not in assigned_keys]

    def _take(self, current: Member, state: State) -> None:
        """Read from now on what it holds and does not read yet. Positions come from the committed offsets."""
        own_keys = {self._key(at) for at in self._assigned}
        new = [key for key in current.held if key not in own_keys]
        if new:
            topics = {topic.topic_id: topic for topic in state.topics.values()}
            for topic_id, number in new:
                at = TopicPartition(topics[topic_id].name, number)
                self._assigned[at] = PartitionState(self._log, at, topics[topic_id], self._isolation)
        self._member.generation = current.generation
        synced, self._synced = self._synced, False
        if synced:
            self._offsets.metrics.rebalanced()
        if new or synced:
            names = {self._key(at): at for at in self._assigned}
            self._tell("on_partitions_assigned", self.subscription.listener.assigned, [names[k] for k in new])

    def _revoke(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            self._offsets.auto_commit(now=True)
            try:
                self._tell("on_partitions_revoked", self.subscription.listener.revoked, partitions)
            finally:
                self._drop(partitions)

    def _lose(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            listener = self.subscription.listener
            try:
                self._tell("on_partitions_lost", listener.lost or listener.revoked, partitions)
            finally:
                self._drop(partitions)

    def _drop(self, partitions: list[TopicPartition]) -> None:
        for at in partitions:
            self._assigned.pop(at, None)

    def _tell(self, name: str, callback: Callback | None, partitions: list[TopicPartition]) -> None:
        if callback is not None:
            with self._inside(name):
                callback(sorted(partitions))

    @contextmanager
    def _inside(self, name: str) -> Iterator[None]:
        self._telling = name
        try:
            yield
        finally:
            self._telling = ""

    def _key(self, at: TopicPartition) -> PartitionKey:
        return self._assigned[at].topic.topic_id, at.partition
