"""Consumer groups, for the admin client: what ``kafka-consumer-groups.sh`` can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from immutables import Map

from spark_eos.clients.admin.base import WRITER, AdminBase, places
from spark_eos.clients.consumer.offset_resets import Reset, at_time, chosen_offset, offsets_at
from spark_eos.errors import ConfigError, GroupIdNotFoundError, GroupNotEmptyError
from spark_eos.log.data.planner import partition_of
from spark_eos.protocol.actions import Action, CommitOffsets, DeleteOffsets, LeaveGroup, PartitionOffset
from spark_eos.protocol.state import Group, Member, State
from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition

__all__ = ["GroupAdmin", "GroupDescription", "GroupPartition", "MemberDescription"]


@dataclass(frozen=True)
class MemberDescription:
    """A consumer of a group: the generation it has synced to, and the partitions it reads now."""

    member_id: str
    client_id: str
    instance_id: str | None
    generation: int
    topics: list[str]
    partitions: list[TopicPartition]


@dataclass(frozen=True)
class GroupPartition:
    """How far a group has come in a partition.

    ``end`` is the last stable offset: how far a reader of committed records can come. ``lag`` is what is
    left up to there; None if nothing is committed. ``member_id`` is who reads it now.
    """

    topic: str
    partition: int
    committed: OffsetAndMetadata | None
    end: int
    lag: int | None
    member_id: str | None


@dataclass(frozen=True)
class GroupDescription:
    """A consumer group. ``state`` is Kafka's: ``Empty``, ``Stable`` or ``PreparingRebalance``.

    ``partitions`` are those with a committed offset or a reader.
    """

    group: str
    state: str
    generation: int
    assignor: str
    members: list[MemberDescription]
    partitions: list[GroupPartition]


class GroupAdmin(AdminBase):
    """The calls about consumer groups."""

    def list_groups(self) -> list[str]:
        """The groups that have members or committed offsets, sorted."""
        return _groups(self._log().follow())

    def describe_group(self, group: str) -> GroupDescription:
        """State, members, and how far it has come. Raises `GroupIdNotFoundError` for an unknown one."""
        return self.describe_groups([group])[group]

    def describe_groups(self, groups: Iterable[str] | None = None) -> dict[str, GroupDescription]:
        """Several groups (default: all) at one moment. Raises `GroupIdNotFoundError` for an unknown one."""
        state = self._log().follow()
        names = {topic.topic_id: name for name, topic in state.topics.items()}
        chosen = _groups(state) if groups is None else list(groups)
        return {group: _described(state, names, group, _require(state, group)) for group in chosen}

    def list_group_offsets(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group committed; empty for an unknown group, as in Kafka."""
        offsets = self._log().follow().offsets.get(group)
        return {TopicPartition(*at): known.public for at, known in sorted((offsets or Map()).items())}

    def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> None:
        """Commit offsets in the name of a group. Raises `UnknownMemberIdError` while it has members."""
        if not group:
            raise ConfigError("alter_group_offsets needs the id of a group")
        log = self._log()
        action = CommitOffsets(group, places(log, offsets))
        log.commit(lambda _state: (action,), writer=WRITER)

    def reset_group_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition | str] | None = None,
        *,
        to_earliest: bool = False,
        to_latest: bool = False,
        to_current: bool = False,
        to_offset: int | None = None,
        shift_by: int | None = None,
        to_datetime: int | datetime | None = None,
        by_duration: str | timedelta | None = None,
        dry_run: bool = False,
    ) -> dict[TopicPartition, int]:
        """Put a group without members elsewhere; the new offsets, which ``dry_run`` only computes (KIP-122).

        ``partitions`` are partitions or whole topics (by name); default: all that the group committed.
        Exactly one way: ``to_earliest``; ``to_latest`` (the last stable offset); ``to_current`` (what is
        committed, else the latest); ``to_offset``; ``shift_by`` (records forward, negative: back);
        ``to_datetime`` (milliseconds since the epoch, or a datetime with its time zone); ``by_duration`` (a
        timedelta or ISO-8601 text, back from now). Where there is no record as late as that, the latest.
        Offsets out of range become the nearest one in it.

        Raises `GroupNotEmptyError` while the group has members, `GroupIdNotFoundError` for an unknown group
        without ``partitions``, `ConfigError`, `InvalidRequestError`, `UnknownTopicOrPartitionError`.
        """
        if not group:
            raise ConfigError("reset_group_offsets needs the id of a group")
        reset = Reset(
            to_earliest, to_latest, to_current, to_offset, shift_by, to_datetime, by_duration
        ).check()
        log = self._log()
        time_ms = at_time(reset, log.clock.now_ms())
        log.follow()
        state = log.end_overdue()  # The latest offset is the last stable one.
        wanted = _expanded(state, group, partitions)
        # The incarnations that are meant: a topic that is deleted and created again meanwhile is refused.
        topic_ids = {at.topic: state.topics[at.topic].topic_id for at in wanted}
        found = {} if time_ms is None else offsets_at(log, wanted, time_ms)

        def choose(state: State) -> dict[TopicPartition, int]:
            known = state.groups.get(group)
            if known is not None and known.members:
                raise GroupNotEmptyError(
                    f"offsets of group {group!r} can only be reset while it has no members: it is "
                    f"{known.status} with {len(known.members)}. Stop them first"
                )
            return {at: chosen_offset(reset, state, group, at, found) for at in wanted}

        if dry_run or not wanted:
            return choose(state)
        chosen: dict[TopicPartition, int] = {}

        def propose(state: State) -> tuple[Action, ...]:
            chosen.update(choose(state))
            return (
                CommitOffsets(
                    group,
                    tuple(
                        PartitionOffset(at.topic, topic_ids[at.topic], at.partition, offset)
                        for at, offset in chosen.items()
                    ),
                ),
            )

        log.commit(propose, writer=WRITER)
        return chosen

    def delete_group(self, group: str) -> None:
        """Forget a group and its offsets.

        Raises `GroupIdNotFoundError`, and `GroupNotEmptyError` while it has members.
        """
        self._forget(group, ())

    def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition | str]
    ) -> list[TopicPartition]:
        """Forget what a group committed for partitions or whole topics (by name).

        Gives those for which it had committed anything.

        Raises `GroupIdNotFoundError`, `GroupNotEmptyError` while members subscribe to the topic,
        `UnknownTopicOrPartitionError`.
        """
        wanted = _expanded(self._log().follow(), group, partitions)
        return self._forget(group, tuple((at.topic, at.partition) for at in wanted)) if wanted else []

    def remove_members_from_group(self, group: str, members: Iterable[str] | None = None) -> list[str]:
        """Make members leave, named by member id or ``group.instance.id`` (KIP-345); None: all of them.

        The member ids that left. A consumer that still runs joins again at its next poll. Raises
        `GroupIdNotFoundError` for an unknown group or member.
        """
        log = self._log()
        named = None if members is None else list(members)
        _require(log.follow(), group)

        def propose(state: State) -> tuple[Action, ...]:
            gone = _members(group, _require(state, group), named)
            return (LeaveGroup(group, gone),) if gone else ()

        committed = log.commit(propose, writer=WRITER)
        return list(committed.results[0]) if committed.results else []

    def _forget(self, group: str, partitions: tuple[tuple[str, int], ...]) -> list[TopicPartition]:
        log = self._log()
        _require(log.follow(), group)
        gone: list[TopicPartition] = []

        def propose(state: State) -> tuple[Action, ...]:
            committed = state.offsets.get(group, ())
            gone[:] = [TopicPartition(*at) for at in partitions if at in committed]
            return (DeleteOffsets(group, partitions),) if _is_known(state, group) else ()

        log.commit(propose, writer=WRITER)
        return gone


def _is_known(state: State, group: str) -> bool:
    known = state.groups.get(group)
    return bool(state.offsets.get(group)) or (known is not None and bool(known.members))


def _groups(state: State) -> list[str]:
    return sorted(group for group in {*state.offsets, *state.groups} if _is_known(state, group))


def _require(state: State, group: str) -> Group:
    if not _is_known(state, group):
        raise GroupIdNotFoundError(
            f"the log knows no group {group!r}: it has neither members nor committed offsets. list_groups names "
            "those it knows"
        )
    return state.groups.get(group, Group())


def _expanded(
    state: State, group: str, partitions: Iterable[TopicPartition | str] | None
) -> list[TopicPartition]:
    """Partitions, sorted, where topics stand for all of theirs; default: those with committed offsets."""
    if partitions is None:
        _require(state, group)
        return sorted(TopicPartition(*at) for at in state.offsets.get(group, ()))
    wanted: set[TopicPartition] = set()
    for named in partitions:
        if isinstance(named, str):
            partition_of(state, TopicPartition(named, 0))
            wanted.update(TopicPartition(named, number) for number in range(state.topics[named].partitions))
        else:
            partition_of(state, TopicPartition(*named))
            wanted.add(TopicPartition(*named))
    return sorted(wanted)


def _members(group: str, known: Group, named: list[str] | None) -> tuple[str, ...]:
    """The ids of members that are named by id or instance id."""
    if named is None:
        return tuple(sorted(known.members))
    by_instance = {
        member.instance_id: member.member_id for member in known.members.values() if member.instance_id
    }
    found = []
    for name in named:
        member_id = name if name in known.members else by_instance.get(name)
        if member_id is None:
            raise GroupIdNotFoundError(
                f"group {group!r} has no member {name!r}, neither by member id nor by group.instance.id; it has: "
                f"{', '.join(sorted(known.members)) or 'none'}"
            )
        found.append(member_id)
    return tuple(found)


def _described(state: State, names: dict[str, str], group: str, known: Group) -> GroupDescription:
    members = [_member(names, known.members[member_id]) for member_id in sorted(known.members)]
    readers = {at: member.member_id for member in members for at in member.partitions}
    committed = {TopicPartition(*at): offset.public for at, offset in state.offsets.get(group, Map()).items()}
    partitions = []
    for at in sorted({*readers, *committed}):
        end = partition_of(state, at).last_stable_offset
        offset = committed.get(at)
        lag = None if offset is None else max(0, end - offset.offset)
        partitions.append(GroupPartition(at.topic, at.partition, offset, end, lag, readers.get(at)))
    return GroupDescription(group, known.status, known.generation, known.assignor, members, partitions)


def _member(names: dict[str, str], member: Member) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.client_id,
        member.instance_id,
        member.generation,
        list(member.topics),
        sorted(TopicPartition(names[topic_id], number) for topic_id, number in member.held),
    )
