"""Consumer groups, for the admin client: what ``kafka-consumer-groups.sh`` shows of them, and their members."""

from __future__ import annotations

from collections.abc import Iterable

from immutables import Map

from spark_eos.clients.admin.base import WRITER, AdminBase
from spark_eos.clients.admin.descriptions import GroupDescription, GroupPartition, MemberDescription
from spark_eos.clients.validation import as_names
from spark_eos.config.nearest import suggestion
from spark_eos.errors import GroupIdNotFoundError
from spark_eos.log.data.planner import partition_of
from spark_eos.protocol.actions import Action, LeaveGroup
from spark_eos.protocol.rules.gone import gone
from spark_eos.protocol.state import Group, Member, State
from spark_eos.protocol.types import TopicPartition


class GroupAdmin(AdminBase):
    """The calls about consumer groups."""

    def list_groups(self) -> list[str]:
        """List the groups that have members or committed offsets.

        Returns
        -------
        list of str
            The ids, sorted.
        """
        return _groups(self._log().follow())

    def describe_group(self, group: str) -> GroupDescription:
        """Describe a group: state, members, and how far it has come.

        Parameters
        ----------
        group
            The id of the group.

        Returns
        -------
        GroupDescription
            The group as it is now.

        Raises
        ------
        GroupIdNotFoundError
            The log knows no such group.
        """
        return self.describe_groups([group])[group]

    def describe_groups(self, groups: Iterable[str] | None = None) -> dict[str, GroupDescription]:
        """Describe several groups at one moment.

        Parameters
        ----------
        groups
            The ids. None: all groups.

        Returns
        -------
        dict of str to GroupDescription
            The groups by id.

        Raises
        ------
        GroupIdNotFoundError
            The log knows no group of one of these ids.
        """
        state = self._log().follow()
        names = {topic.topic_id: name for name, topic in state.topics.items()}
        chosen = _groups(state) if groups is None else as_names(groups, "group")
        return {
            group: _group_description(state, names, group, required_group(state, group)) for group in chosen
        }

    def remove_members_from_group(self, group: str, members: Iterable[str] | None = None) -> list[str]:
        """Remove members from a group. A consumer that still runs joins again with its next ``poll``.

        Parameters
        ----------
        group
            The id of the group.
        members
            Member ids, or values of ``group.instance.id`` (KIP-345). None: all members.

        Returns
        -------
        list of str
            The member ids that were removed.

        Raises
        ------
        GroupIdNotFoundError
            The log knows no such group or member.
        """
        log = self._log()
        names = None if members is None else as_names(members, "member")
        required_group(log.follow(), group)

        def propose(state: State) -> tuple[Action, ...]:
            member_ids = _members(group, required_group(state, group), names)
            return (LeaveGroup(group, member_ids),) if member_ids else ()

        committed = log.commit(propose, writer=WRITER)
        return list(committed.results[0]) if committed.results else []


def _is_known(state: State, group: str) -> bool:
    return bool(state.offsets.get(group) or state.groups.get(group, Group()).members)


def _groups(state: State) -> list[str]:
    return sorted(group for group in {*state.offsets, *state.groups} if _is_known(state, group))


def required_group(state: State, group: str) -> Group:
    """The group. Raises `GroupIdNotFoundError` where it has neither members nor committed offsets."""
    if not _is_known(state, group):
        problem = f"the log knows no group {group!r}, with members or committed offsets{gone(state, group)}"
        raise GroupIdNotFoundError(f"{problem}; {suggestion(group, _groups(state))}")
    return state.groups.get(group, Group())


def _members(group: str, current: Group, names: list[str] | None) -> tuple[str, ...]:
    """The ids of members that are named by id or instance id."""
    if names is None:
        return tuple(sorted(current.members))
    by_instance = {
        member.instance_id: member.member_id for member in current.members.values() if member.instance_id
    }
    member_ids = []
    for name in names:
        member_id = name if name in current.members else by_instance.get(name)
        if member_id is None:
            raise GroupIdNotFoundError(
                f"group {group!r} has no member {name!r}, neither by member id nor by group.instance.id; it has: "
                f"{', '.join(sorted(current.members)) or 'none'}"
            )
        member_ids.append(member_id)
    return tuple(member_ids)


def _group_description(state: State, names: dict[str, str], group: str, current: Group) -> GroupDescription:
    members = [_member(names, current.members[member_id]) for member_id in sorted(current.members)]
    readers = {at: member.member_id for member in members for at in member.partitions}
    committed = {TopicPartition(*at): offset.public for at, offset in state.offsets.get(group, Map()).items()}
    partitions = []
    for at in sorted({*readers, *committed}):
        partition, offset = partition_of(state, at), committed.get(at)
        end = partition.last_stable_offset
        lag = None if offset is None else max(0, partition.readable_end(offset.offset) - offset.offset)
        partitions.append(GroupPartition(at.topic, at.partition, offset, end, lag, readers.get(at)))
    return GroupDescription(group, current.status, current.generation, current.assignor, members, partitions)


def _member(names: dict[str, str], member: Member) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.client_id,
        member.instance_id,
        member.generation,
        list(member.topics),
        sorted(TopicPartition(names[topic_id], number) for topic_id, number in member.held),
    )
