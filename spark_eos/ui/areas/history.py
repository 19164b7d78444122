"""The transaction log as a time line: entries, their requests, and the writers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from spark_eos.errors import CorruptRecordError, InvalidRequestError, ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.log.time_travel import entry_at_time, replay, state_at, time_ms
from spark_eos.protocol.actions import DECLARED, AppendBatches, Entry, Request
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.rules.apply import Rejected, apply
from spark_eos.protocol.state import EMPTY, State
from spark_eos.ui.follower import Follower
from spark_eos.ui.question import Answer, Question

__all__ = ["entries", "entry_at", "show_entry"]

_NEAR = 1000
"""So many entries are applied at most to learn what the requests of a page came to."""

_KEPT = 5000
"""Entries that are kept as they were shown: they never change."""

_DETAIL = 20_000
"""Characters of an action in the view of one entry."""


def entries(follower: Follower, question: Question) -> Answer:
    """``count`` entries up to ``until`` (the newest), newest first; retired ones have nothing left to show."""
    state = follower.state
    count = question.number("count", 50, least=1, most=200)
    until = min(question.number("until", state.seq), state.seq)
    first = max(until - count + 1, 0)
    oldest = _oldest(follower)
    rows = _shown(follower, max(first, oldest), until) if until >= oldest else []
    if first == 0 and oldest > 0:
        rows = [*rows, *_shown(follower, 0, 0)]
    return {
        "newest": state.seq,
        "oldest": oldest,
        "until": until,
        "first": first,
        "rows": rows,
    }


def entry_at(follower: Follower, question: Question) -> Answer:
    """The number of the last entry at a time."""
    text = question.text("time", most=100)
    try:
        wanted = int(text) if text.lstrip("-").isdecimal() else time_ms(text)
    except (ValueError, OverflowError):
        raise InvalidRequestError(f"{text!r} is not a time such as 2026-11-21T16:30:00") from None
    return {"entry": entry_at_time(follower.log, wanted)}


def show_entry(follower: Follower, question: Question) -> Answer:
    """One entry with all its actions."""
    seq = question.number("entry", most=max(follower.state.seq, 0))
    entry, size = _read(follower, seq)
    if entry is None:
        raise InvalidRequestError(
            f"entry {seq} is retired: a snapshot stands for it, and nothing else is left of it"
        )
    return {
        **_plain(entry, size, _names(follower.state), {}),
        "actions": [
            {
                "request": at,
                "action": type(action).__name__,
                "fields": json.dumps(DECLARED[type(action)].show(action), default=str, indent=1)[:_DETAIL],
            }
            for at, request in enumerate(entry.requests)
            for action in request.actions[:200]
        ],
    }


def _oldest(follower: Follower) -> int:
    """The first entry, but for entry 0, that is not retired. They are retired in order."""
    low = int(follower.memory.get("oldest entry", 1))
    if low > follower.state.seq or _is_there(follower, low):
        return 0 if low == 1 else low
    high = follower.state.seq
    while low < high:
        middle = (low + high) // 2
        if _is_there(follower, middle):
            high = middle
        else:
            low = middle + 1
    follower.memory["oldest entry"] = low
    return low


def _is_there(follower: Follower, seq: int) -> bool:
    try:
        return follower.store.size(paths.entry(seq, follower.state.entries_per_folder)) > 0
    except ObjectNotFoundError:
        return False


def _read(follower: Follower, seq: int) -> tuple[Entry | None, int]:
    name = paths.entry(seq, follower.state.entries_per_folder)
    try:
        data = follower.store.read(name)
    except ObjectNotFoundError:
        return None, 0
    return (decode_entry(data, seq, f"{follower.url}/{name}"), data.size) if data.size else (None, 0)


def _shown(follower: Follower, first: int, last: int) -> list[Answer]:
    """Entries ``first`` to ``last``, newest first, each as it was shown before or read now."""
    kept: dict[int, Answer] = follower.memory.setdefault("entries", {})
    missing = [seq for seq in range(first, last + 1) if seq not in kept]
    if missing:
        for one in _made(follower, missing[0], missing[-1]):
            kept[one["seq"]] = one
        for seq in list(kept)[: max(len(kept) - _KEPT, 0)]:
            kept.pop(seq, None)
    return [kept[seq] for seq in range(last, first - 1, -1) if seq in kept]


def _made(follower: Follower, first: int, last: int) -> Iterator[Answer]:
    names = _names(follower.state)
    before = _state_before(follower, first)
    try:
        if before is not None:
            for step in replay(follower.log, before, last):
                if step.entry.seq >= first:
                    _, size = _read_size(follower, step.entry.seq)
                    yield _plain(
                        step.entry, size, {**_names(step.after), **names}, _refused(step.before, step.entry)
                    )
            return
    except InvalidRequestError:
        pass  # It was retired meanwhile.
    for seq in range(first, last + 1):
        try:
            entry, size = _read(follower, seq)
        except CorruptRecordError as error:
            yield {"seq": seq, "problem": str(error)}
            continue
        if entry is not None:
            yield {**_plain(entry, size, names, {}), "judged": False}


def _read_size(follower: Follower, seq: int) -> tuple[None, int]:
    try:
        return None, follower.store.size(paths.entry(seq, follower.state.entries_per_folder))
    except ObjectNotFoundError:
        return None, 0


def _state_before(follower: Follower, first: int) -> State | None:
    """The state before an entry, if a snapshot is near or the log begins there: it tells what was refused."""
    if first == 0:
        return EMPTY
    found = follower.remember(
        "snapshots",
        lambda: sorted(
            seq
            for info in follower.store.list(paths.SNAPSHOTS)
            if (seq := paths.snapshot_seq(info.name)) is not None
        ),
        for_s=30,
    )
    nearest = max((seq for seq in found if seq < first), default=-1)
    if first - nearest > _NEAR:
        return None
    try:
        return state_at(follower.log, first - 1)
    except InvalidRequestError:
        return None  # The entries on the way are retired.


def _refused(before: State, entry: Entry) -> dict[int, str]:
    """Why requests of an entry were refused, by their place in it."""
    found = {}
    for at, request in enumerate(entry.requests):
        before, outcome = apply(before, request)
        if isinstance(outcome, Rejected):
            found[at] = f"{type(outcome.error).__name__}: {outcome.error}"[:500]
    return found


def _names(state: State) -> dict[str, str]:
    return {topic.topic_id: topic.name for topic in state.topics.values()}


def _plain(entry: Entry, size: int, names: dict[str, str], refused: dict[int, str]) -> Answer:
    return {
        "seq": entry.seq,
        "time": max((request.timestamp_ms for request in entry.requests), default=0),
        "bytes": size,
        "judged": True,
        "requests": [
            {**_request(request, names), "refused": refused.get(at)}
            for at, request in enumerate(entry.requests[:50])
        ],
        "more": max(len(entry.requests) - 50, 0),
    }


def _request(request: Request, names: dict[str, str]) -> Answer:
    kinds = Counter(type(action).__name__ for action in request.actions)
    topics: set[str] = set()
    groups: set[str] = set()
    ends: list[str] = []
    for action in request.actions:
        effects = DECLARED[type(action)].effects(action)
        topics.update(names.get(topic_id, topic_id) for topic_id, _ in effects.partitions)
        groups |= effects.groups
        if effects.ended is not None and effects.ended[0].producer_id >= 0:
            ends.append("commit" if effects.ended[1] else "abort")
    return {
        "writer": request.writer,
        "time": request.timestamp_ms,
        "actions": [{"name": name, "count": count} for name, count in kinds.items()],
        "records": sum(_records(action) for action in request.actions),
        "topics": sorted(topics)[:20],
        "groups": sorted(groups)[:20],
        "ends": sorted(set(ends)),
    }


def _records(action: object) -> int:
    """Records that an action appends."""
    files = action.files if isinstance(action, AppendBatches) else ()
    return sum(batch.count for file in files for batch in file.batches)
