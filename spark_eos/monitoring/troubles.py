"""What is wrong with a log, as its state tells: each with the commands that show more, and what to do. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from spark_eos.log.timekeeping import is_ahead
from spark_eos.monitoring.activity import OpenTransaction, open_transactions
from spark_eos.monitoring.lag import Lag
from spark_eos.protocol.state import PartitionKey, State

__all__ = ["LEVELS", "LOG", "Level", "Trouble", "age", "troubles_of", "worst_first"]

Level: TypeAlias = "Literal['critical', 'warning', 'note']"
Command: TypeAlias = "tuple[str, ...]"

LEVELS: tuple[Level, ...] = ("critical", "warning", "note")

LOG = "\0LOG"
"""Stands for the log's URL in commands. No name has a NUL."""

_BEHIND_MS = 5 * 60_000
_HELD_MS = 15 * 60_000
_PUBLISHED_MS = 2 * 3_600_000
"""As the alerts have it."""

_RECENT = 1000
"""Entries in which the last micro-batches of a query are shown."""

_WORST = 5
"""Troubles of one kind that are listed; of others their number is."""


class Trouble(NamedTuple):
    """Something that is wrong, or worth knowing (``note``).

    ``look`` and ``cure`` are commands without ``eoslog``, with `LOG` for the log. ``advice`` is what no command can do.
    ``page`` is a page of docs/.
    """

    level: Level
    name: str
    text: str
    page: str
    look: tuple[Command, ...] = ()
    cure: tuple[Command, ...] = ()
    advice: str = ""


def troubles_of(
    state: State, lags: Sequence[Lag], now_ms: int, small: Mapping[PartitionKey, int]
) -> list[Trouble]:
    """What is wrong, the worst first. ``small``: batches that rolling would save, by partition."""
    opened = open_transactions(state, now_ms)
    found = [
        *_at_most(_transactions(opened, lags), "transactions", ("transactions", "list", LOG)),
        *_at_most(_lost(state, lags), "readers", ("lag", LOG)),
        *_at_most(_behind(state, lags, now_ms), "readers", ("lag", LOG, "--totals")),
        *_publications(state, lags),
        *_clock(state, now_ms),
        *_small(state, small),
    ]
    return worst_first(found)


def worst_first(found: Iterable[Trouble]) -> list[Trouble]:
    """Sort by the level."""
    return sorted(found, key=lambda one: LEVELS.index(one.level))


def _at_most(found: Iterable[Trouble], what: str, more: Command) -> Iterator[Trouble]:
    """The first of them, and how many more there are of each kind."""
    counts: dict[str, int] = defaultdict(int)
    last = {}
    for one in found:
        counts[one.name] += 1
        if counts[one.name] <= _WORST:
            yield one
        last[one.name] = one
    for name, count in counts.items():
        if count > _WORST:
            text = f"{count - _WORST} more {what} have the same trouble"
            yield last[name]._replace(text=text, look=(more,), cure=())


def age(time_ms: int) -> str:
    """How long something takes, roughly."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if time_ms >= 2 * size:
            return f"{time_ms // size} {unit}"
    return f"{max(time_ms, 0) / 1000:.1f} s"


# -- Transactions -----------------------------------------------------------------------------------


def _transactions(opened: Sequence[OpenTransaction], lags: Sequence[Lag]) -> Iterator[Trouble]:
    for one in opened:
        if not one.is_overdue and not (one.age_ms > _HELD_MS and one.held_back):
            continue
        who = (
            f"transactional.id {one.transactional_id!r}"
            if one.transactional_id
            else f"producer {one.producer_id}"
        )
        timeout = f"{'past' if one.is_overdue else 'within'} its timeout of {age(one.timeout_ms)}"
        text = f"the transaction of {who} is open for {age(one.age_ms)}, {timeout}"
        text += f", and holds back {one.held_back} offsets"
        places = [held for held in one.partitions if held.offsets]
        if places:
            text += (
                f" of {_listed(f'{at.topic}-{at.partition} from offset {at.first_offset}' for at in places)}"
            )
        waiting = _waiting({(at.topic, at.partition) for at in places}, lags)
        if waiting:
            text += f"; {_listed(waiting)} read no further"
        if one.groups:
            text += f"; it has offsets of {_listed(f'group {group!r}' for group in one.groups)}"
        yield Trouble(
            "critical" if one.is_overdue else "warning",
            "hanging transaction" if one.is_overdue else "held back",
            text,
            "runbooks/hanging-transaction.md" if one.is_overdue else "runbooks/lso-stuck.md",
            _look_at(one),
            _abort(one),
            "stop the program if it hangs, then abort the transaction",
        )


def _waiting(places: set[tuple[str, int]], lags: Sequence[Lag]) -> list[str]:
    found = {(one.kind, one.name) for one in lags if (one.topic, one.partition) in places and one.held_back}
    return [f"{kind} {name!r}" for kind, name in sorted(found)]


def _look_at(one: OpenTransaction) -> tuple[Command, ...]:
    if one.transactional_id:
        return (("transactions", "describe", LOG, "--transactional-id", one.transactional_id),)
    return (("transactions", "find-hanging", LOG, "--max-transaction-timeout", "0"),)


def _abort(one: OpenTransaction) -> tuple[Command, ...]:
    if one.transactional_id:
        return (("transactions", "abort", LOG, "--transactional-id", one.transactional_id),)
    if one.partitions:
        at = one.partitions[0]
        place = (
            "--topic",
            at.topic,
            "--partition",
            str(at.partition),
            "--start-offset",
            str(at.first_offset),
        )
        return (("transactions", "abort", LOG, *place),)
    return (("expire", LOG),)


# -- Readers ----------------------------------------------------------------------------------------


def _readers(lags: Sequence[Lag]) -> dict[tuple[str, str], list[Lag]]:
    found: dict[tuple[str, str], list[Lag]] = {}
    for one in lags:
        if one.kind != "publication":
            found.setdefault((one.kind, one.name), []).append(one)
    return found


def _lost(state: State, lags: Sequence[Lag]) -> Iterator[Trouble]:
    for (kind, name), parts in _readers(lags).items():
        lost = [one for one in parts if one.lost]
        if not lost:
            continue
        topics = sorted({one.topic for one in lost})
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
            f"{kind} {name!r} has not read {sum(one.lost for one in lost)} offsets that were deleted, of "
            f"{_listed(f'{one.topic}-{one.partition}' for one in lost)}",
            "runbooks/records-lost.md",
            (("lag", LOG, "--group", name), *(("describe", LOG, topic) for topic in topics[:3])),
            cure,
            advice,
        )


def _behind(state: State, lags: Sequence[Lag], now_ms: int) -> Iterator[Trouble]:
    found = []
    for (kind, name), parts in _readers(lags).items():
        late = [one for one in parts if one.offsets and (one.time_ms or 0) > _BEHIND_MS]
        if late:
            found.append((max(one.time_ms or 0 for one in late), kind, name, late))
    for time_ms, kind, name, late in sorted(found, key=lambda one: (-one[0], one[2])):
        records = sum(one.records or 0 for one in late)
        worst = max(late, key=lambda one: one.time_ms or 0)
        committed_ms = max((_committed_ms(state, one) for one in late), default=-1)
        text = (
            f"{kind} {name!r} is {records} records and {age(time_ms)} behind in "
            f"{_listed(f'{one.topic}-{one.partition}' for one in (worst, *(o for o in late if o is not worst)))}"
        )
        if committed_ms >= 0:
            text += f"; it has committed offsets {age(now_ms - committed_ms)} ago"
        is_query = kind == "query"
        stands = committed_ms < now_ms - _BEHIND_MS
        if is_query:
            advice = (
                "it has ended or hangs: look into its driver's log, and start it again on its checkpoint"
                if stands
                else "it runs: give it more cores, or larger micro-batches"
            )
        else:
            group = state.groups.get(name)
            members = 0 if group is None else len(group.members)
            text += f", and has {members} members" if members else ", and has no members"
            advice = (
                "its consumers commit, and are too slow: add some, or partitions"
                if members and not stands
                else "its consumers are members, and do not commit: look into their logs"
                if members
                else "start its consumers again"
            )
        look: tuple[Command, ...] = (("lag", LOG, "--group", name),)
        if is_query:
            look += (("history", LOG, "--since", str(max(state.seq - _RECENT, 0))),)
        else:
            look += (("groups", "describe", LOG, "--group", name, "--members"),)
        page = "runbooks/query-lag.md" if is_query else "runbooks/group-lag.md"
        yield Trouble("warning", f"{kind} behind", text, page, look, (), advice)


def _committed_ms(state: State, one: Lag) -> int:
    """When the reader has committed the offset at which it stands."""
    offsets, topic = state.offsets.get(one.group or ""), state.topics.get(one.topic)
    if offsets is None or topic is None:
        return -1
    found = offsets.get((one.topic, one.partition))
    return -1 if found is None else found.timestamp_ms


# -- The rest ---------------------------------------------------------------------------------------


def _publications(state: State, lags: Sequence[Lag]) -> Iterator[Trouble]:
    for name in sorted(state.publications):
        one = state.publications[name]
        publish: Command = ("tables", "publish", LOG, "--name", name)
        look: Command = ("tables", "versions", LOG, "--name", name)
        behind = max(
            (lag.time_ms or 0 for lag in lags if (lag.kind, lag.name) == ("publication", name)), default=0
        )
        if one.begun is not None:
            text = f"version {one.begun.sequence} of publication {name!r} was begun, and is not in all tables"
            page = "runbooks/publication-unfinished.md"
            yield Trouble("warning", "publication unfinished", text, page, (look,), (publish,))
        elif behind > _PUBLISHED_MS:
            text = f"the tables of publication {name!r} are {age(behind)} behind"
            page = "runbooks/publication-behind.md"
            yield Trouble("warning", "publication behind", text, page, (look,), (publish,))


def _clock(state: State, now_ms: int) -> Iterator[Trouble]:
    if is_ahead(state, now_ms):
        text = f"the log's time is {age(state.timestamp_ms - now_ms)} ahead of this machine's clock"
        page = "runbooks/clock-trouble.md"
        advice = "set the clock that differs from the store's"
        yield Trouble("warning", "clock", text, page, (("clock", LOG),), (("clock", LOG, "--mend"),), advice)


_SMALL_BATCHES = 10_000


def _small(state: State, small: Mapping[PartitionKey, int]) -> Iterator[Trouble]:
    for name in sorted(state.topics):
        topic = state.topics[name]
        count = sum(small.get((topic.topic_id, number), 0) for number in range(topic.partitions))
        if count > _SMALL_BATCHES:
            yield Trouble(
                "warning",
                "small batches",
                f"topic {name!r} has {count} small batches that could be joined",
                "runbooks/small-batches.md",
                (("maintain", LOG, "--only", "roll", "--dry-run"),),
                (("maintain", LOG, "--only", "roll"),),
            )


def _listed(texts: Iterable[str], most: int = 5) -> str:
    found = list(texts)
    if len(found) > most:
        return f"{', '.join(found[:most])} and {len(found) - most} more"
    return ", ".join(found)
