"""The transaction log as a time line: entries, their requests, and the writers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from spark_eos.errors import InvalidRequestError, ObjectNotFoundError
from spark_eos.extensions.ui.areas.kinds import kind_of
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Answer, Question
from spark_eos.extensions.ui.timeline import ReadEntry, TimeLine, names_of, read_entry
from spark_eos.log import paths
from spark_eos.log.time_travel import entry_at_time, time_ms
from spark_eos.protocol.actions import (
    DECLARED,
    AppendBatches,
    CommitMicroBatch,
    Entry,
    ExpireTransaction,
    InitProducer,
    Request,
)
from spark_eos.protocol.rules.apply import Outcome, Rejected
from spark_eos.protocol.types import PartitionOffset

_FOR_S = 30.0
"""What is retired and which snapshots there are is looked up again after so many seconds at the earliest."""

_DETAIL = 20_000
"""Characters of an action in the view of one entry."""


def entries(follower: Follower, question: Question) -> Answer:
    """``count`` entries up to ``until`` (the newest), newest first; retired ones have nothing left to show."""
    state = follower.state
    count = question.number("count", 50, least=1, most=200)
    until = min(question.number("until", state.seq), state.seq)
    first = max(until - count + 1, 0)
    oldest = oldest_entry(follower)
    rows = shown_entries(follower, max(first, oldest), until) if until >= oldest else []
    if first == 0 and oldest > 0:
        rows = [*rows, *shown_entries(follower, 0, 0)]
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
        timestamp_ms = int(text) if text.lstrip("-").isdecimal() else time_ms(text)
    except (ValueError, OverflowError):
        raise InvalidRequestError(f"{text!r} is not a time such as 2026-11-21T16:30:00") from None
    return {"entry": entry_at_time(follower.log, timestamp_ms)}


def show_entry(follower: Follower, question: Question) -> Answer:
    """One entry with all its actions."""
    seq = question.number("entry", most=max(follower.state.seq, 0))
    entry, size = read_entry(follower.log, seq)
    if entry is None:
        raise InvalidRequestError(
            f"entry {seq} is retired: a snapshot stands for it, and nothing else is left of it"
        )
    return {
        **_plain(entry, size, names_of(follower.state), ()),
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


def oldest_entry(follower: Follower) -> int:
    """The first entry, but for entry 0, that is not retired; 0 if none is."""
    seq: int = follower.remember("oldest", lambda: _oldest(follower), for_s=_FOR_S)
    return seq


def _oldest(follower: Follower) -> int:
    """The same, looked up: they are retired in order."""
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


def shown_entries(follower: Follower, first: int, last: int) -> list[Answer]:
    """Entries ``first`` to ``last``, newest first, each as it was shown before or read now."""
    log, memory = follower.log, follower.memory
    line: TimeLine | None = memory.get("time line")
    if line is None or line.log is not log:
        made = TimeLine(log, _row, lambda: _snapshots(follower))
        line = memory["time line"] = made if line is not None else memory.setdefault("time line", made)
    return line.rows(first, last)


def _snapshots(follower: Follower) -> list[int]:
    def listed() -> list[int]:
        numbers = (paths.snapshot_seq(info.name) for info in follower.store.list(paths.SNAPSHOTS))
        return sorted(seq for seq in numbers if seq is not None)

    seqs: list[int] = follower.remember("snapshots", listed, for_s=_FOR_S)
    return seqs


def _row(seen: ReadEntry) -> Answer:
    row = _plain(seen.entry, seen.size, seen.names, seen.outcomes or ())
    return {**row, "judged": seen.outcomes is not None}


def _plain(entry: Entry, size: int, names: Mapping[str, str], outcomes: Sequence[Outcome]) -> Answer:
    """An entry as JSON has it, with why requests were refused."""
    refused = {
        at: f"{type(outcome.error).__name__}: {outcome.error}"[:500]
        for at, outcome in enumerate(outcomes)
        if isinstance(outcome, Rejected)
    }
    return {
        "seq": entry.seq,
        "time": max((request.timestamp_ms for request in entry.requests), default=0),
        "bytes": size,
        "requests": [
            {**_request(request, names), "refused": refused.get(at)}
            for at, request in enumerate(entry.requests[:50])
        ],
        "more": max(len(entry.requests) - 50, 0),
        "kinds": sorted({kind_of(request) for request in entry.requests}),
        "fences": [
            fence
            for at, request in enumerate(entry.requests)
            if at not in refused
            for fence in _fences(request)
        ],
    }


def _request(request: Request, names: Mapping[str, str]) -> Answer:
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
        "batches": [_batch(action) for action in request.actions if isinstance(action, CommitMicroBatch)],
    }


def _of(offsets: Sequence[PartitionOffset]) -> set[tuple[str, int]]:
    return {(at.topic_id, at.partition) for at in offsets}


def _batch(action: CommitMicroBatch) -> Answer:
    """A micro-batch as its entry has it; ``read`` is None unless all sources, and where they began, are known."""
    is_known = all(
        source.end_offsets and _of(source.start_offsets) == _of(source.end_offsets)
        for source in action.sources
    )
    ends = [sum(at.offset for at in source.end_offsets) for source in action.sources]
    starts = [sum(at.offset for at in source.start_offsets) for source in action.sources]
    return {
        "query": action.transactional_id,
        "batch": action.batch_id,
        "run": action.run_id,
        "read": sum(ends) - sum(starts) if is_known and action.sources else None,
        "sources": [
            ", ".join(sorted({at.topic for at in source.end_offsets})) or (source.end or "unknown")[:200]
            for source in action.sources
        ],
    }


def _fences(request: Request) -> Iterator[Answer]:
    """The producers whose earlier epochs a request fences, if it is accepted."""
    for action in request.actions:
        if isinstance(action, InitProducer) and action.epoch > 0:
            why = (
                f"query run {action.run_id} began"
                if action.run_id
                else "another producer took over, or an abort"
            )
            yield {
                "producer": action.producer_id,
                "epoch": action.epoch,
                "writer": request.writer,
                "why": why,
            }
        elif isinstance(action, ExpireTransaction):
            stamp = action.producer
            why = f"transaction {stamp.number} timed out"
            yield {
                "producer": stamp.producer_id,
                "epoch": stamp.epoch + 1,
                "writer": request.writer,
                "why": why,
            }


def _records(action: object) -> int:
    """Records that an action appends."""
    files = action.files if isinstance(action, AppendBatches) else ()
    return sum(batch.count for file in files for batch in file.batches)
