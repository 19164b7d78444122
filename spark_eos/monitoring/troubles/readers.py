"""Groups and queries that are behind, have lost records, or have never committed, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spark_eos.monitoring.lag import Lag
from spark_eos.monitoring.members import SilentMember, not_asked
from spark_eos.monitoring.troubles.trouble import LOG, Command, Trouble, age, listed
from spark_eos.protocol.state import State

__all__ = ["behind", "lost", "silent", "unknown"]

_RECENT = 1000
"""Entries in which the last micro-batches of a query are shown."""


def lost(state: State, lags: Sequence[Lag]) -> Iterator[Trouble]:
    """Readers that retention has passed."""
    for (kind, name), parts in _readers(lags).items():
        gone = [one for one in parts if one.lost]
        if not gone:
            continue
        topics = sorted({one.topic for one in gone})
        cure: tuple[Command, ...] = ()
        advice = "load what was deleted again from where it came; raise the topic's retention.ms"
        if kind == "group":
            named = (word for topic in topics for word in ("--topic", topic))
            cure = (("groups", "reset-offsets", LOG, "--group", name, *named, "--to-earliest", "--execute"),)
            if name in state.groups and state.groups[name].members:
                advice += "; stop the group's consumers before its offsets are reset"
        yield Trouble(
            "critical",
            "records lost",
            f"{kind} {name!r} has not read {sum(one.lost for one in gone)} offsets that were deleted, of "
            f"{_places(gone)}",
            "runbooks/records-lost.md",
            (("lag", LOG, "--group", name), *(("describe", LOG, topic) for topic in topics[:3])),
            cure,
            advice,
            name,
        )


def silent(state: State, members: Sequence[SilentMember]) -> Iterator[Trouble]:
    """Groups with members that show no sign of life, and stay members; and of how many that is not known."""
    for group, found in _by_group(members).items():
        count = len(state.groups[group].members) if group in state.groups else len(found)
        told = listed(_member(one) for one in found)
        named = (word for one in found[:5] for word in ("--member", one.member_id))
        which = () if len(found) == count else tuple(named)
        is_seen = any(one.silent_ms is not None for one in found)
        yield Trouble(
            "warning" if is_seen else "note",
            "silent member",
            f"{len(found)} of {count} members of group {group!r} show no sign of life: {told}. No process reads "
            "what is assigned to them",
            "runbooks/silent-member.md",
            (("groups", "describe", LOG, "--group", group, "--members"),),
            (("groups", "remove-members", LOG, "--group", group, *which),),
            "a member whose process runs is stuck, cannot write to the store, or its clock is wrong: once it was "
            "removed it joins again",
            group,
        )
    if others := not_asked(state):
        count = sum(len(group.members) for group in state.groups.values())
        left = sum(others.values())
        yield Trouble(
            "note",
            "members not looked at",
            f"only the first {count - left} of {count} members were asked for a sign of life, by the names of their "
            f"groups: of {left} members it is not known whether they are silent, of groups "
            f"{listed(map(repr, others))}",
            "runbooks/silent-member.md",
            (("groups", "list", LOG),),
            (),
            "each costs a request. See by the lag of these groups whether they read, and remove members whose "
            "processes are gone",
        )


def unknown(lags: Sequence[Lag]) -> Iterator[Trouble]:
    """Groups that have committed nothing in partitions that have records: how far they are is not in the log."""
    for (kind, name), parts in _readers(lags).items():
        new = [one for one in parts if one.is_unknown]
        if new:
            yield Trouble(
                "note",
                "lag unknown",
                f"{kind} {name!r} reads {_places(new)} and has committed nothing there: how far it is behind is not "
                f"known, up to {sum(one.last_stable_offset - one.start for one in new)} offsets",
                "runbooks/lag-unknown.md",
                (("lag", LOG, "--group", name), ("groups", "describe", LOG, "--group", name, "--members")),
                (),
                "if it stays so, see whether its consumers get records, and commit",
                name,
            )


def behind(
    state: State, lags: Sequence[Lag], now_ms: int, longest_ms: int, members: Sequence[SilentMember]
) -> Iterator[Trouble]:
    """Readers whose first unread record is older than ``longest_ms``, the latest first."""
    found = []
    for (kind, name), parts in _readers(lags).items():
        late = [one for one in parts if one.offsets and (one.time_ms or 0) > longest_ms]
        if late:
            found.append((max(one.time_ms or 0 for one in late), kind, name, late))
    gone = {group: len(found) for group, found in _by_group(members).items()}
    for time_ms, kind, name, late in sorted(found, key=lambda one: (-one[0], one[2])):
        worst = max(late, key=lambda one: one.time_ms or 0)
        committed_ms = max((_committed_ms(state, one) for one in late), default=-1)
        text = (
            f"{kind} {name!r} is {sum(one.records or 0 for one in late)} records and {age(time_ms)} behind in "
            f"{_places([worst, *(one for one in late if one is not worst)])}"
        )
        if committed_ms >= 0:
            text += f"; it has committed offsets {age(now_ms - committed_ms)} ago"
        stands = committed_ms < now_ms - longest_ms
        look: tuple[Command, ...] = (("lag", LOG, "--group", name),)
        if kind == "query":
            look += (("history", LOG, "--since", str(max(state.seq - _RECENT, 0))),)
            page, advice = "runbooks/query-lag.md", _advice_of_query(stands=stands)
        else:
            look += (("groups", "describe", LOG, "--group", name, "--members"),)
            page = "runbooks/group-lag.md"
            group = state.groups.get(name)
            count = 0 if group is None else len(group.members)
            text += f", and has {count} members" if count else ", and has no members"
            advice = _advice_of_group(count, gone.get(name, 0), stands=stands)
        yield Trouble("warning", f"{kind} behind", text, page, look, (), advice, name)


def _advice_of_query(*, stands: bool) -> str:
    if stands:
        return "it has ended or hangs: look into its driver's log, and start it again on its checkpoint"
    return "it runs: give it more cores, or larger micro-batches"


def _advice_of_group(members: int, gone: int, *, stands: bool) -> str:
    if not members:
        return "start its consumers again"
    if gone:
        return f"{gone} of its {members} members show no sign of life: remove them, and start consumers again"
    if stands:
        return "its consumers are members, and do not commit: look into their logs"
    return "its consumers commit, and are too slow: add some, or partitions"


def _member(one: SilentMember) -> str:
    named = one.instance_id or one.client_id
    name = f"{one.member_id!r} ({named})" if named else repr(one.member_id)
    return (
        f"{name} for {age(one.silent_ms)}" if one.silent_ms is not None else f"{name}, none is in the store"
    )


def _by_group(members: Sequence[SilentMember]) -> dict[str, list[SilentMember]]:
    found: dict[str, list[SilentMember]] = {}
    for one in members:
        found.setdefault(one.group, []).append(one)
    return found


def _readers(lags: Sequence[Lag]) -> dict[tuple[str, str], list[Lag]]:
    found: dict[tuple[str, str], list[Lag]] = {}
    for one in lags:
        if one.kind != "publication":
            found.setdefault((one.kind, one.name), []).append(one)
    return found


def _places(parts: Sequence[Lag]) -> str:
    return listed(f"{one.topic}-{one.partition}" for one in parts)


def _committed_ms(state: State, one: Lag) -> int:
    """When the reader has committed the offset at which it stands."""
    offsets, topic = state.offsets.get(one.group or ""), state.topics.get(one.topic)
    if offsets is None or topic is None:
        return -1
    found = offsets.get((one.topic, one.partition))
    return -1 if found is None else found.timestamp_ms
