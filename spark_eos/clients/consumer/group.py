"""A consumer's place in its group: it joins, follows the generations, and leaves. Entries, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_eos.clients.records import ConsumerGroupMetadata
from spark_eos.errors import CommitOutcomeUnknownError, FencedInstanceIdError
from spark_eos.log.commit.loop import Committed
from spark_eos.log.log import Log
from spark_eos.protocol.actions import Action, JoinGroup, LeaveGroup, Membership, SyncGroup
from spark_eos.protocol.state import Group, Member, State


class GroupMember:
    """``member_id`` is empty until it has joined. ``generation`` is the one that the positions belong to.

    The caller follows the log and says when: nothing here looks for news by itself.
    """

    def __init__(self, log: Log, settings: Mapping[str, Any]) -> None:
        self.group_id: str = settings["group.id"]
        self.instance_id: str | None = settings["group.instance.id"]
        self.member_id = ""
        self.generation = -1
        self.topics: tuple[str, ...] | None = None
        """What it joined for; None if it did not."""
        self._log = log
        self._client_id: str = settings["client.id"]
        self._assignors: tuple[str, ...] = settings["partition.assignment.strategy"]
        self._session_timeout_ms: int = settings["session.timeout.ms"]
        self._in_doubt: dict[JoinGroup | SyncGroup | LeaveGroup, bytes] = {}
        """Request ids of those whose outcome is not known: the same action is sent as the same request."""

    @property
    def membership(self) -> Membership:
        """In whose name it commits."""
        return Membership(self.member_id, self.generation, self.instance_id)

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        """The same, as applications hand it to a producer."""
        return ConsumerGroupMetadata(self.group_id, self.generation, self.member_id, self.instance_id)

    def standing(self, state: State) -> tuple[Group, Member] | None:
        """The group, and what it knows of this member; None if it is no member (any more)."""
        group = state.groups.get(self.group_id)
        member = None if group is None else group.members.get(self.member_id)
        return None if group is None or member is None else (group, member)

    def successor(self, state: State) -> str | None:
        """The member that goes by this one's instance id, if that is another one."""
        group = state.groups.get(self.group_id)
        if group is None or self.instance_id is None:
            return None
        for member in group.members.values():
            if member.instance_id == self.instance_id and member.member_id != self.member_id:
                return member.member_id
        return None

    def check_not_fenced(self, state: State) -> None:
        """Raise `FencedInstanceIdError` if another consumer took the place of this static member (KIP-345)."""
        successor = self.successor(state) if self.member_id else None
        if successor is not None:
            raise FencedInstanceIdError(
                f"group.instance.id {self.instance_id!r} of group {self.group_id!r} belongs to member {successor} "
                f"now, not to {self.member_id}: another consumer with this id was started. Close this one"
            )

    def join(self, topics: tuple[str, ...]) -> State:
        """Become a member, or say again what it subscribes to. Raises `InconsistentGroupProtocolError`."""
        if not self.member_id:
            name = self._client_id or "consumer"
            self.member_id = f"{name}-{self._log.clock.unique().hex()}"
        joined = self._commit(
            JoinGroup(
                self.group_id,
                self.member_id,
                topics,
                self._assignors,
                self._session_timeout_ms,
                self.instance_id,
                self._client_id,
            )
        )
        self.topics = topics
        return joined.state

    def sync(self, generation: int) -> State:
        """Say that it has let go of what ``generation`` takes from it.

        Raises `IllegalGenerationError` if there is a newer one by now, `UnknownMemberIdError`.
        """
        return self._commit(SyncGroup(self.group_id, self.member_id, generation)).state

    def leave(self) -> None:
        """Be a member no more; what it held passes on at once."""
        if self.member_id:
            self._commit(LeaveGroup(self.group_id, (self.member_id,)))

    def forget(self) -> None:
        """It is no member any more: the next join is a new member's."""
        self.member_id, self.generation, self.topics = "", -1, None
        self._in_doubt.clear()

    def _commit(self, action: JoinGroup | SyncGroup | LeaveGroup) -> Committed:
        request_id = self._in_doubt.pop(action, None) or self._log.clock.unique()

        def propose(state: State) -> tuple[Action, ...]:
            gone = isinstance(action, LeaveGroup) and self.standing(state) is None
            return () if gone else (action,)

        try:
            return self._log.commit(propose, writer=self._client_id or self.group_id, request_id=request_id)
        except CommitOutcomeUnknownError as error:
            if not error.is_final:  # Else a new request tells more.
                self._in_doubt[action] = request_id
            raise
