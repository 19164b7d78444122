"""Groups and queries that are behind, have lost records, or have never committed, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spark_eos.errors.counting import counted
from spark_eos.monitoring.elsewhere import query_commits
from spark_eos.monitoring.lag import Lag, limit_ms
from spark_eos.monitoring.members import SilentMember, not_asked
from spark_eos.monitoring.places import Kind, deleted_sources
from spark_eos.monitoring.troubles.trouble import LOG, Command, Trouble, age, in_one_line
from spark_eos.protocol.rules.settings import setting
from spark_eos.protocol.state import State

_RECENT = 1000
"""Entries in which the last micro-batches of a query are shown."""


def lost(state: State, lags: Sequence[Lag]) -> Iterator[Trouble]:
    """Readers that retention has passed."""
    for (kind, name), parts in _readers(lags).items():
        lost_parts = [lag for lag in parts if lag.lost]
        if not lost_parts:
            continue
        topics = sorted({lag.topic for lag in lost_parts})
        cure: tuple[Command, ...] = ()
        advice = "load what was deleted again from where it came; raise the topic's retention.ms"
        if kind == "group":
            # Those partitions alone: of others it would read again what it has read.
            options = (
                word
                for topic in topics
                for word in (
                    "--topic",
                    f"{topic}:{','.join(str(lag.partition) for lag in lost_parts if lag.topic == topic)}",
                )
            )
            cure = (
                ("groups", "reset-offsets", LOG, "--group", name, *options, "--to-earliest", "--execute"),
            )
            if name in state.groups and state.groups[name].members:
                advice += "; stop the group's consumers before its offsets are reset"
        yield Trouble(
            "critical",
            "records lost",
            f"{kind} {name!r} has not read {counted(sum(lag.lost for lag in lost_parts), 'deleted offset')} of "
            f"{_places(lost_parts)}",
            "runbooks/records-lost.md",
            (("lag", LOG, "--group", name), *(("describe", LOG, topic) for topic in topics[:3])),
            cure,
            advice,
            name,
        )


def deleted(state: State, now_ms: int) -> Iterator[Trouble]:
    """Queries whose topic was deleted: they are refused, and have no lag any more that would tell."""
    for name in sorted(state.queries):
        for topic, event in sorted(deleted_sources(state, state.queries[name]).items()):
            again = topic in state.topics
            groups = {source.group or "" for source in state.queries[name].sources}
            yield Trouble(
                "warning" if again else "note",
                "topic deleted",
                f"query {name!r} reads topic {topic!r}, which was deleted {age(now_ms - event.timestamp_ms)} ago"
                f"{' and created again' if again else ''}: its next micro-batch is refused",
                "runbooks/topic-deleted.md",
                (("audit", LOG, "--name", topic),),
                # One that has offsets of other topics may be in use.
                tuple(
                    ("groups", "delete", LOG, "--group", group)
                    for group in sorted(groups)
                    if group in state.offsets and not state.offsets[group]
                ),
                (
                    "start the query with a new checkpoint and another transactional.id, if it is to read the new topic"
                    if again
                    else "stop the query, if it runs on"
                )
                + "; then delete its group, unless another query goes on for it",
                name,
            )


def silent(state: State, members: Sequence[SilentMember]) -> Iterator[Trouble]:
    """Groups with members that show no sign of life, and stay members; and of how many that is not known."""
    for group, group_members in _by_group(members).items():
        count = len(state.groups[group].members) if group in state.groups else len(group_members)
        text = in_one_line(_member(member) for member in group_members)
        member_options = (word for member in group_members[:5] for word in ("--member", member.member_id))
        selection = () if len(group_members) == count else tuple(member_options)
        is_seen = any(member.silent_ms is not None for member in group_members)
        yield Trouble(
            "warning" if is_seen else "note",
            "silent member",
            f"{len(group_members):,} of {count:,} members of group {group!r} show no sign of life: {text}. No "
            "process reads what is assigned to them",
            "runbooks/silent-member.md",
            (("groups", "describe", LOG, "--group", group, "--members"),),
            (("groups", "remove-members", LOG, "--group", group, *selection),),
            "a member whose process runs is stuck, cannot write to the store, or its clock is wrong: once it was "
            "removed it joins again",
            group,
        )
    if unasked := not_asked(state):
        count = sum(len(group.members) for group in state.groups.values())
        unasked_count = sum(unasked.values())
        yield Trouble(
            "note",
            "members not looked at",
            f"only the first {count - unasked_count:,} of {count:,} members were asked for a sign of life, by the "
            f"names of their groups: of {counted(unasked_count, 'member')} it is not known whether they are silent, of "
            f"groups {in_one_line(map(repr, unasked))}",
            "runbooks/silent-member.md",
            (("groups", "list", LOG),),
            (),
            "each costs a request. See by the lag of these groups whether they read, and remove members whose "
            "processes are gone",
        )


def unknown(lags: Sequence[Lag]) -> Iterator[Trouble]:
    """Groups that have committed nothing in partitions that have records: how far they are is not in the log."""
    for (kind, name), parts in _readers(lags).items():
        new = [lag for lag in parts if lag.is_unknown]
        if new:
            yield Trouble(
                "note",
                "lag unknown",
                f"{kind} {name!r} reads {_places(new)} and has committed nothing there: how far it is behind is not "
                f"known, up to {counted(sum(lag.last_stable_offset - lag.start for lag in new), 'offset')}",
                "runbooks/lag-unknown.md",
                (("lag", LOG, "--group", name), ("groups", "describe", LOG, "--group", name, "--members")),
                (),
                "if it stays so, see whether its consumers get records, and commit",
                name,
            )


def silent_queries(state: State, now_ms: int) -> Iterator[Trouble]:
    """Queries that read elsewhere, and have committed nothing for longer than is set for their names.

    There is no default: a query with nothing to read is silent, too.
    """
    for query in query_commits(state):
        limit = f"health.lag.max.ms:{query.name}"
        if query.reads_here or query.timestamp_ms is None or limit not in state.config:
            continue
        silent_ms = now_ms - query.timestamp_ms
        if silent_ms > setting(state, limit):
            yield Trouble(
                "warning",
                "query silent",
                f"query {query.name!r}, which reads elsewhere, has committed nothing for {age(silent_ms)}, and {limit} "
                f"is {age(setting(state, limit))}",
                "runbooks/query-lag.md",
                (("history", LOG),),
                (),
                "it has ended, hangs, or has nothing to read: look into the log of its process, and start it again",
                query.name,
            )


def behind(
    state: State, lags: Sequence[Lag], now_ms: int, members: Sequence[SilentMember]
) -> Iterator[Trouble]:
    """Readers whose first unread record is older than their limits, the latest first."""
    late_readers = []
    for (kind, name), parts in _readers(lags).items():
        late = [lag for lag in parts if lag.offsets and (lag.time_ms or 0) > limit_ms(state, kind, name)]
        if late:
            crowded = _crowded(parts)
            late_readers.append((max(lag.time_ms or 0 for lag in late), kind, name, late, crowded))
    silent_counts = {group: len(of_group) for group, of_group in _by_group(members).items()}
    for time_ms, kind, name, late, crowded in sorted(
        late_readers, key=lambda reader: (-reader[0], reader[2])
    ):
        worst = max(late, key=lambda lag: lag.time_ms or 0)
        committed_ms = max((_committed_ms(state, lag) for lag in late), default=-1)
        text = (
            f"{kind} {name!r} is {counted(sum(lag.records or 0 for lag in late), 'record')} and {age(time_ms)} behind "
            f"in {_places([worst, *(lag for lag in late if lag is not worst)])}"
        )
        if committed_ms >= 0:
            text += f"; it has committed offsets {age(now_ms - committed_ms)} ago"
        stands = committed_ms < now_ms - limit_ms(state, kind, name)
        look: tuple[Command, ...] = (("lag", LOG, "--group", name),)
        if kind == "query":
            look += (("history", LOG, "--since", str(max(state.seq - _RECENT, 0))),)
            page, advice = "runbooks/query-lag.md", _advice_of_query(name, stands=stands)
        else:
            look += (("groups", "describe", LOG, "--group", name, "--members"),)
            page = "runbooks/group-lag.md"
            group = state.groups.get(name)
            count = 0 if group is None else len(group.members)
            text += f", and has {counted(count, 'member')}" if count else ", and has no members"
            advice = _advice_of_group(name, count, silent_counts.get(name, 0), crowded, stands=stands)
        yield Trouble("warning", f"{kind} behind", text, page, look, (), advice, name)


def _advice_of_query(name: str, *, stands: bool) -> str:
    if stands:
        return (
            "it has ended or hangs: look into its driver's log, and start it again on its checkpoint. "
            f"{_seldom(name)}"
        )
    return "it runs: give it more cores, or larger micro-batches"


def _crowded(parts: Sequence[Lag]) -> Lag | None:
    """The one of several partitions that has nearly all of what is not read."""
    most = max(parts, key=lambda lag: lag.records or 0)
    is_most = (most.records or 0) * 10 > sum(lag.records or 0 for lag in parts) * 9
    return most if is_most and len(parts) > 1 else None


def _advice_of_group(name: str, members: int, silent_count: int, crowded: Lag | None, *, stands: bool) -> str:
    if not members:
        return (
            "start its consumers again; if they end again, their logs say at which record. "
            f"{_seldom(name)}. A group that is done with is deleted: eoslog groups delete"
        )
    if silent_count:
        silent_members = f"{silent_count:,} of its {members:,} members"
        return f"{silent_members} show no sign of life: remove them, and start consumers again"
    if stands:
        return "its consumers are members, and do not commit: they hang, are paused, or commits fail. See their logs"
    if crowded is not None:
        return (
            f"its consumers commit; nearly all that they have not read is in {_places([crowded])}, which one of them "
            "reads alone, so more do not help: make it faster, or give that partition's records several keys"
        )
    return "its consumers commit, and are too slow: add some, or partitions"


def _seldom(name: str) -> str:
    return f"If it is meant to run less often, give it a limit of its own, the log's setting health.lag.max.ms:{name}"


def _member(member: SilentMember) -> str:
    client = member.instance_id or member.client_id
    name = f"{member.member_id!r} ({client})" if client else repr(member.member_id)
    return (
        f"{name} for {age(member.silent_ms)}"
        if member.silent_ms is not None
        else f"{name}, none is in the store"
    )


def _by_group(members: Sequence[SilentMember]) -> dict[str, list[SilentMember]]:
    by_group: dict[str, list[SilentMember]] = {}
    for member in members:
        by_group.setdefault(member.group, []).append(member)
    return by_group


def _readers(lags: Sequence[Lag]) -> dict[tuple[Kind, str], list[Lag]]:
    by_reader: dict[tuple[Kind, str], list[Lag]] = {}
    for lag in lags:
        if lag.kind != "publication":
            by_reader.setdefault((lag.kind, lag.name), []).append(lag)
    return by_reader


def _places(parts: Sequence[Lag]) -> str:
    return in_one_line(f"{lag.topic}-{lag.partition}" for lag in parts)


def _committed_ms(state: State, lag: Lag) -> int:
    """When the reader has committed the offset at which it stands."""
    offsets, topic = state.offsets.get(lag.group or ""), state.topics.get(lag.topic)
    if offsets is None or topic is None:
        return -1
    committed = offsets.get((lag.topic, lag.partition))
    return -1 if committed is None else committed.timestamp_ms
