"""Consumer groups without a broker: members, generations, and who may read and commit what (KIP-447, KIP-345).

A change of members, subscriptions or partitions makes a new generation, with a new assignment, in one entry.
A member goes on in the generation it has synced to, and holds what it held, until it says that it has released it
(`SyncGroup`). What no member holds any more passes to the member that the newest assignment names. So a
partition never has two holders, and members that lose nothing never stop: what Kafka does by a barrier
(eager) or by two rebalances (KIP-429) falls out of one rule. Without generations, a member that lost a partition while
it was paused would commit over the offsets of its successor, and records would be read twice or never.

The assignment is computed here, by every reader alike: an assignor must never give another result for the
same input, and a new one needs a new version of the entries' schema.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from immutables import Map

from spark_eos.errors import (
    FencedInstanceIdError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidRequestError,
    UnknownMemberIdError,
)
from spark_eos.errors.counting import counted
from spark_eos.protocol.actions.declaration import INT32, Bounds, Field, declare
from spark_eos.protocol.assignors import ASSIGNORS, Subscriber
from spark_eos.protocol.encoding.avro import LONG, STRING, array_of, optional_of
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules import joins
from spark_eos.protocol.state import Group, Member, PartitionKey, State
from spark_eos.protocol.types import ADMIN, Membership, TrailNote


class JoinGroup(NamedTuple):
    """A consumer joins a group, or changes what it subscribes to.

    ``assignors`` are the names of the assignments it knows, the preferred one first. ``instance_id``
    makes it a static member, which takes the place of its predecessor (KIP-345).
    """

    group: str
    member_id: str
    topics: tuple[str, ...]
    assignors: tuple[str, ...]
    session_timeout_ms: int
    instance_id: str | None = None
    client_id: str = ""


def join(state: State, action: JoinGroup) -> tuple[State, int]:
    """A new member, a new subscription, or the successor of a static member; the generation it is in.

    A new member is synced at once: it holds nothing that it would have to release.
    """
    _check_join(action)
    group = state.groups.get(action.group, Group())
    joined = Member(
        action.member_id,
        tuple(sorted(action.topics)),
        action.assignors,
        action.session_timeout_ms,
        action.instance_id,
        action.client_id,
        joined_ms=state.timestamp_ms,
    )
    before = group.members.get(action.member_id)
    if before is not None and before.instance_id != action.instance_id:
        # Else it could become an instance that another member is.
        raise InvalidRequestError(
            f"member {action.member_id} of group {action.group!r} has group.instance.id {before.instance_id!r} and "
            f"cannot change it to {action.instance_id!r}: leave the group and join it as a new member"
        )
    members = group.members
    if before is None and (old := _holder_of_instance(group, action.instance_id)) is not None:
        members = members.delete(old.member_id)
        if _same_subscription(old, joined):
            # KIP-345: the successor goes on where the static member stood; no other member notices.
            joined = replace(joined, generation=old.generation, held=old.held)
            assignment = group.assignment.set(joined.member_id, group.assignment[old.member_id])
            group = replace(
                group,
                members=members.set(joined.member_id, joined),
                assignment=assignment.delete(old.member_id),
            )
            return _with(state, action.group, group), joined.generation
    if before is not None:
        joined = replace(joined, generation=before.generation, held=before.held, joined_ms=before.joined_ms)
        if joined == before:
            return state, before.generation
    else:
        joined = replace(joined, generation=group.generation + 1)
    group = replace(group, members=members.set(joined.member_id, joined), empty_since_ms=-1)
    return _with(state, action.group, _rebalanced(state, action.group, group)), joined.generation


declare(
    JoinGroup,
    number=12,
    fields=(
        Field("group", STRING),
        Field("member_id", STRING),
        Field("topics", array_of(STRING)),
        Field("assignors", array_of(STRING), bounds=Bounds(items=100)),
        Field("session_timeout_ms", LONG, bounds=INT32),
        Field("instance_id", optional_of(STRING)),
        Field("client_id", STRING),
    ),
    rule=join,
    tell=joins.joined,
)


class SyncGroup(NamedTuple):
    """A member has released the partitions that the assignment of this generation takes from it."""

    group: str
    member_id: str
    generation: int


def sync(state: State, action: SyncGroup) -> tuple[State, tuple[PartitionKey, ...]]:
    """The member releases what it loses in the newest generation. The result is what it holds from now on."""
    group = state.groups.get(action.group, Group())
    member = group.members.get(action.member_id)
    if member is None:
        raise _unknown(action.group, action.member_id)
    if action.generation != group.generation:
        raise IllegalGenerationError(
            f"group {action.group!r} is at generation {group.generation}: member {action.member_id} cannot sync "
            f"to {action.generation}"
        )
    members = group.members.set(action.member_id, replace(member, generation=action.generation))
    group = _handed_out(replace(group, members=members))
    return _with(state, action.group, group), group.members[action.member_id].held


declare(
    SyncGroup,
    number=13,
    fields=(Field("group", STRING), Field("member_id", STRING), Field("generation", LONG)),
    rule=sync,
)


class LeaveGroup(NamedTuple):
    """Members leave: by their own call, by an administrator's, or because their heartbeats stopped.

    ``silent_ms`` is for how long the member that removes them has seen no heartbeat of theirs, by its own monotonic
    clock; -1 where no wait was needed.
    """

    group: str
    members: tuple[str, ...]
    silent_ms: int = -1


def leave(state: State, action: LeaveGroup) -> tuple[State, tuple[str, ...]]:
    """Members leave, and others get what they held. Members that had left before are ignored."""
    group = state.groups.get(action.group, Group())
    gone = tuple(sorted({member for member in action.members if member in group.members}))
    if not gone:
        return state, ()
    members = group.members
    for member_id in gone:
        timeout_ms = members[member_id].session_timeout_ms
        if 0 <= action.silent_ms < timeout_ms:
            raise InvalidRequestError(
                f"member {member_id} of group {action.group!r} has been silent for {action.silent_ms} ms: it is "
                f"only lost after its session.timeout.ms of {timeout_ms}"
            )
        members = members.delete(member_id)
    group = replace(group, members=members, empty_since_ms=-1 if members else state.timestamp_ms)
    return _with(state, action.group, _rebalanced(state, action.group, group)), gone


def _tell_left(before: State, _after: State, action: LeaveGroup, writer: str) -> Iterator[TrailNote]:
    """Members that others have removed; not those that left by their own call."""
    group = before.groups.get(action.group)
    if action.silent_ms < 0 and writer != ADMIN:
        return
    for member_id in dict.fromkeys(action.members):
        member = None if group is None else group.members.get(member_id)
        if member is not None:
            why = "" if action.silent_ms < 0 else f", silent for {action.silent_ms} ms"
            yield TrailNote("member removed", action.group, f"{member.client_id or member_id}{why}")


declare(
    LeaveGroup,
    number=14,
    fields=(Field("group", STRING), Field("members", array_of(STRING)), Field("silent_ms", LONG)),
    rule=leave,
    tell=_tell_left,
)


def check_committer(
    state: State, group_id: str, member: Membership | None, partitions: Collection[PartitionKey]
) -> None:
    """Raise unless ``member`` may commit offsets of these partitions for the group now."""
    group = state.groups.get(group_id)
    members = Group().members if group is None else group.members
    if member is None:
        if members:
            raise UnknownMemberIdError(
                f"group {group_id!r} has {counted(len(members), 'member')} that subscribed: only they commit for it. "
                "Commit with the member's own group metadata, use another group.id, stop them first, or remove those "
                "whose processes are gone (eoslog groups remove-members)"
            )
        return
    current = members.get(member.member_id)
    if current is None:
        successor = None if group is None else _holder_of_instance(group, member.instance_id)
        if successor is not None:
            raise FencedInstanceIdError(
                f"group.instance.id {member.instance_id!r} of group {group_id!r} belongs to member "
                f"{successor.member_id} now, not to {member.member_id}: another consumer took over. Close this one"
            )
        raise _unknown(group_id, member.member_id)
    if member.generation != current.generation:
        raise IllegalGenerationError(
            f"member {member.member_id} of group {group_id!r} commits for generation {member.generation}, but it is "
            f"in generation {current.generation}: the group was rebalanced in between. Nothing was committed"
        )
    foreign = set(partitions).difference(current.held)
    if not foreign:
        return
    for other in members.values():
        if other.member_id != current.member_id and not foreign.isdisjoint(other.held):
            raise IllegalGenerationError(
                f"member {member.member_id} of group {group_id!r} commits for a partition that member "
                f"{other.member_id} holds now. Nothing was committed"
            )


def topic_changed(state: State, name: str, gone: Collection[PartitionKey] = ()) -> State:
    """A topic was created, has more partitions, or was deleted with those that are ``gone``: its groups rebalance."""
    for group_id in sorted(state.groups):
        group = before = state.groups[group_id]
        if gone:
            group = _without(group, frozenset(gone))
        if any(name in member.topics for member in group.members.values()):
            group = _rebalanced(state, group_id, group)
        if group is not before:
            state = _with(state, group_id, group)
    return state


# -- Generations ----------------------------------------------------------------------------------------


def _rebalanced(state: State, group_id: str, group: Group) -> Group:
    """The next generation: which member should read what, and which may read it already."""
    generation = group.generation + 1
    if not group.members:
        return replace(group, generation=generation, assignor="", assignment=Map())
    assignor = _elected(group_id, list(group.members.values()))
    topics = {topic for member in group.members.values() for topic in member.topics}
    existing = [state.topics[name] for name in sorted(topics) if name in state.topics]
    names = {topic.topic_id: topic.name for topic in existing}
    ids = {topic.name: topic.topic_id for topic in existing}
    subscribers = {
        member_id: Subscriber(
            member.topics,
            member.instance_id,
            tuple((names[key[0]], key[1]) for key in group.assignment.get(member_id, ()) if key[0] in names),
        )
        for member_id, member in group.members.items()
    }
    shares = ASSIGNORS[assignor](subscribers, {topic.name: topic.partitions for topic in existing})
    assignment = Map(
        {who: tuple(sorted((ids[at[0]], at[1]) for at in share)) for who, share in shares.items()}
    )
    return _handed_out(replace(group, generation=generation, assignor=assignor, assignment=assignment))


def _handed_out(group: Group) -> Group:
    """Members that have synced hold their share, except what another member has yet to release."""
    held_by_others = {
        key
        for member in group.members.values()
        if member.generation != group.generation
        for key in member.held
    }
    members = group.members
    for member_id, member in group.members.items():
        if member.generation == group.generation:
            held = tuple(key for key in group.assignment[member_id] if key not in held_by_others)
            if held != member.held:
                members = members.set(member_id, replace(member, held=held))
    return replace(group, members=members)


def _elected(group_id: str, members: Collection[Member]) -> str:
    """Every member votes for the first assignor of its list that all members know (as in Kafka)."""
    common = set.intersection(*(set(member.assignors) for member in members))
    if not common:
        raise InconsistentGroupProtocolError(
            f"the members of group {group_id!r} have no partition.assignment.strategy in common: they know "
            + "; ".join(sorted({", ".join(member.assignors) for member in members}))
        )
    votes: dict[str, int] = {}
    for member in members:
        choice = next(name for name in member.assignors if name in common)
        votes[choice] = votes.get(choice, 0) + 1
    return min(votes, key=lambda name: (-votes[name], name))


def _holder_of_instance(group: Group, instance_id: str | None) -> Member | None:
    if instance_id is None:
        return None
    return next((member for member in group.members.values() if member.instance_id == instance_id), None)


def _same_subscription(old: Member, new: Member) -> bool:
    return (old.topics, old.assignors) == (new.topics, new.assignors)


def _check_join(action: JoinGroup) -> None:
    if not action.group or not action.member_id:
        raise InvalidRequestError("a consumer joins a group with a group.id and a member id")
    if action.instance_id == "":
        raise InvalidRequestError(f"group.instance.id of a member of group {action.group!r} cannot be empty")
    if action.session_timeout_ms < 1:
        raise InvalidRequestError(f"session.timeout.ms must be at least 1, not {action.session_timeout_ms}")
    unknown = [name for name in action.assignors if name not in ASSIGNORS]
    if unknown or not action.assignors:
        raise InconsistentGroupProtocolError(
            f"partition.assignment.strategy {', '.join(unknown) or 'is empty'}: known are {', '.join(ASSIGNORS)}"
        )


def _unknown(group_id: str, member_id: str) -> UnknownMemberIdError:
    return UnknownMemberIdError(
        f"{member_id!r} is no member of group {group_id!r}: it left, or was silent for longer than its "
        "session.timeout.ms and others took over. Nothing was committed; poll joins again"
    )


def _without(group: Group, gone: Collection[PartitionKey]) -> Group:
    """The group, where no member holds partitions that are gone."""
    members = group.members
    for member_id, member in group.members.items():
        held = tuple(key for key in member.held if key not in gone)
        if held != member.held:
            members = members.set(member_id, replace(member, held=held))
    return group if members is group.members else replace(group, members=members)


def _with(state: State, group_id: str, group: Group) -> State:
    return replace(state, groups=state.groups.set(group_id, group))


def is_gone(before: State, after: State, group_id: str) -> bool:
    """Whether nothing is left of a group that ``before`` has."""
    return any(group_id in by_group for by_group in (before.groups, before.offsets)) and not any(
        group_id in by_group for by_group in (after.groups, after.offsets)
    )


def offsets_gone(before: State, after: State, group_id: str) -> list[str]:
    """The partitions, for people, for which the group has no offset any more."""
    had, has = (state.offsets.get(group_id, Map()) for state in (before, after))
    return [f"{topic}-{at}" for topic, at in sorted(had) if (topic, at) not in has]


def forgotten(state: State, group_id: str) -> State:
    """The state without anything of the group."""
    groups, offsets = state.groups, state.offsets
    if group_id in groups:
        groups = groups.delete(group_id)
    if group_id in offsets:
        offsets = offsets.delete(group_id)
    return replace(state, groups=groups, offsets=offsets)
