"""A log as it was: the state after an earlier entry, as long as the entries are there that lead to it.

Retired entries lead nowhere any more (`spark_eos.log.snapshots.horizon`). The oldest state that can be had is that of
the oldest snapshot, or of entry 0 while nothing is retired.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from itertools import takewhile
from typing import NamedTuple

from spark_eos.config.isolation import Isolation
from spark_eos.errors import (
    CorruptRecordError,
    InvalidRequestError,
    ObjectNotFoundError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from spark_eos.errors.hidden import safe_url
from spark_eos.log import paths
from spark_eos.log.data.planner import Fetch, partition_of, plan, planned_rows
from spark_eos.log.data.records import read
from spark_eos.log.data_place import as_placed_now
from spark_eos.log.log import Log
from spark_eos.protocol.actions import Entry
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.encoding.snapshots import decode_snapshot
from spark_eos.protocol.index import IndexRow, Kind
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.apply import apply_entry
from spark_eos.protocol.state import EMPTY, State, Topic
from spark_eos.protocol.types import TopicPartition
from spark_eos.storage import Store

_LOG = logging.getLogger(__name__)


class Step(NamedTuple):
    """An entry, and the states before and after it."""

    entry: Entry
    before: State
    after: State


def state_at(log: Log, seq: int) -> State:
    """The state after entry ``seq``: of the nearest snapshot, and the entries from there on.

    Raises `InvalidRequestError`, naming the earliest one there is, if ``seq`` is retired or not there yet.
    """
    check_entry(log, seq)
    newest = log.state  # Looked at once: another thread may move the handle on meanwhile.
    if newest.seq == seq:
        return newest
    state = next(_decoded(log, _stored(log, seq)), EMPTY)
    for step in replay(log, state, seq):
        state = step.after
    return state


def check_entry(log: Log, seq: int) -> None:
    """Raise `InvalidRequestError`, naming the newest entry, if ``seq`` is none of the log. It may be retired."""
    newest = log.state if log.state.seq >= seq else log.follow()
    if not 0 <= seq <= newest.seq:
        raise InvalidRequestError(f"{log.url} has no entry {seq}: its entries are 0 to {newest.seq}")


def state_before(log: Log, first: int) -> State:
    """The state before entry ``first``, or the oldest one that there is: what to read on from."""
    oldest = earliest(log)
    if first - 1 > oldest.seq:
        return state_at(log, min(first - 1, log.state.seq))
    return EMPTY if oldest.seq == 0 else oldest


def entry_at_time(log: Log, timestamp_ms: int) -> int:
    """The last entry whose time is not after ``timestamp_ms``: what there was at that time.

    An entry's time is its writer's, but never before that of the entry before it, unless a wrong clock had driven it
    ahead and it was set back (`eoslog clock --mend`). Raises `InvalidRequestError`,
    naming the earliest time, if that entry is retired or the log began later; and for a time to come.
    """
    newest = log.follow()
    if newest.timestamp_ms <= timestamp_ms:
        now_ms = log.time.record_ms(newest)
        if timestamp_ms > max(now_ms, newest.timestamp_ms):
            raise InvalidRequestError(
                f"{iso(timestamp_ms)} is yet to come ({iso(now_ms)} now): what {log.url} will hold then is not known"
            )
        return newest.seq
    state, last = EMPTY, newest.seq
    for snapshot in _decoded(log, _stored(log, newest.seq)):
        if snapshot.timestamp_ms <= timestamp_ms:
            state = snapshot
            break
        if snapshot.time_resets == newest.time_resets:  # After it the log's time did not go back.
            last = snapshot.seq
    seq = state.seq
    try:
        for step in replay(log, state, last):
            if step.after.timestamp_ms <= timestamp_ms:
                seq = step.entry.seq
            elif newest.time_resets == step.after.time_resets:
                break  # Else the log's time may go back once more.
    except InvalidRequestError:
        if state is not EMPTY:
            raise
    if seq < 0 or (state is EMPTY and _is_retired(log, 1)):
        first = earliest(log)
        raise InvalidRequestError(
            f"what {log.url} held at {iso(timestamp_ms)} is not there any more, or was not yet: the earliest is entry "
            f"{first.seq}, of {iso(first.timestamp_ms)}"
        )
    return seq


def earliest(log: Log) -> State:
    """The oldest state that can be had."""
    if log.follow().seq < 1 or not _is_retired(log, 1):
        return next(replay(log, EMPTY, 0)).after
    usable = []
    for seq in _stored(log, log.state.seq):
        if _is_retired(log, seq + 1):
            break  # Nothing can be read on from there.
        usable.append(seq)
    return next(_decoded(log, reversed(usable)), log.state)


def replay(log: Log, state: State, last: int) -> Iterator[Step]:
    """The steps from ``state`` to that after entry ``last``.

    Raises `InvalidRequestError` if one of the entries is retired, `CorruptRecordError`.
    """
    for seq in range(state.seq + 1, last + 1):
        name = paths.entry(seq, log.state.entries_per_folder)
        try:
            data = log.store.read(name)
        except ObjectNotFoundError:
            data = None
        if data is None or not data.size:
            first = earliest(log)
            raise InvalidRequestError(
                f"entry {seq} of {log.url} is retired: what the log was like after it is not known any more. The "
                f"earliest is entry {first.seq}, of {iso(first.timestamp_ms)}"
            )
        entry = decode_entry(data, seq, f"{log.url}/{name}")
        before, (state, _) = state, apply_entry(state, entry)
        yield Step(entry, before, state)


def replay_what_is_left(log: Log, state: State, last: int) -> Iterator[Step]:
    """As `replay`, but go on after entries that were retired while those before them were read, with a warning.

    For who begins with the oldest entry that there is: that is the next one to be retired. After a gap, the state
    before a step is another one than that after the step before.
    """
    while True:
        try:
            for step in replay(log, state, last):
                yield step
                state = step.after
            return
        except InvalidRequestError:
            onward = earliest(log)
            if onward.seq <= state.seq:
                raise
            gap = f"entries {state.seq + 1} to {min(onward.seq, last)}"
            _LOG.warning("%s: %s were retired while it was read, and are left out", safe_url(log.url), gap)
            state = onward


def as_of(log: Log, seq: int) -> Log:
    """A handle that shows the log as it was after entry ``seq``. For reading; do not `Log.follow` it."""
    past = as_placed_now(state_at(log, seq), log.state)
    return Log(log.store, log.clock, state=past)


def topic_as_of(now: Topic, past: Topic) -> Topic:
    """A topic with the columns that it had once, whose files of all versions can be read: some were rewritten since."""
    if now.topic_id != past.topic_id or len(now.schemas) == len(past.schemas):
        return now
    return replace(now, schemas=(*now.schemas, past.schemas[-1]))


def plan_as_of(
    log: Log, state: State, past: Log, at: TopicPartition, start: int, end: int, isolation: Isolation
) -> list[Fetch]:
    """The fetches for offsets ``start`` to ``end`` as ``past`` (`as_of`) shows them.

    ``state`` is the one of now that all of the read is planned on: other threads may move the handle ``log`` on.

    What was rolled since is read from the new files: offsets are the same. What was compacted or deleted since, as an
    overwrite does, is read from the old ones, until a vacuum has removed them. Raises `OffsetOutOfRangeError` for
    records that are gone.
    """
    then, now = past.state.topics[at.topic], state.topics.get(at.topic)
    if now is None or now.topic_id != then.topic_id:
        raise UnknownTopicOrPartitionError(
            f"topic {at.topic!r} was deleted{' and created again' if now else ''} since entry {past.state.seq}: its "
            "records are gone. Read as of a later entry"
        )
    deleted: list[Fetch] = []
    first = partition_of(state, at).start
    if start < first:
        middle = min(first, end)
        try:
            deleted = _as_it_was(log, past, at, start, middle, isolation)
        except ObjectNotFoundError as error:
            raise OffsetOutOfRangeError(
                f"{at} had offsets {start} to {end} at entry {past.state.seq}; those before {first} were deleted since "
                f"(overwritten, or by retention), and a vacuum has removed their files ({error}). Read from {first} on "
                "(startingOffsets), or as of a later entry"
            ) from error
        if middle == end:
            return deleted
        start = middle
    try:
        if _has_all(log, state, past, at, start, end, isolation):
            return deleted + plan(state, at, start, end, isolation, log.load)
        return deleted + _as_it_was(log, past, at, start, end, isolation)
    except ObjectNotFoundError as error:
        raise OffsetOutOfRangeError(
            f"{at} was compacted after entry {past.state.seq}, and what it had then is removed ({error}). Read as of a "
            "later entry"
        ) from error


def _as_it_was(
    log: Log, past: Log, at: TopicPartition, start: int, end: int, isolation: Isolation
) -> list[Fetch]:
    """The fetches of the old files. Raises `ObjectNotFoundError` if one of them is not there any more."""
    fetches = plan(past.state, at, start, end, isolation, past.load)
    for name in {fetch.file.name for fetch in fetches}:
        log.store.size(name)
    return fetches


def _has_all(
    log: Log, state: State, past: Log, at: TopicPartition, start: int, end: int, isolation: Isolation
) -> bool:
    """Whether every record that was in the range is there still: none was compacted away.

    None comes, so as many are the same ones. The marks at the ends of transactions leave holes where they are rolled.
    """
    if not any(
        row.kind is Kind.HOLE or (row.file is not None and row.file.offsets)
        for row in takewhile(
            lambda row: row.base_offset < end, partition_of(state, at).index.scan(start, log.load)
        )
    ):
        return True
    rows_now = planned_rows(state, at, start, end, isolation, log.load)
    rows_then = planned_rows(past.state, at, start, end, isolation, past.load)
    now = _count(log.store, state.topics[at.topic], rows_now)
    return now == _count(log.store, past.state.topics[at.topic], rows_then)


def _count(store: Store, topic: Topic, rows: Iterable[tuple[IndexRow, Fetch]]) -> int:
    """How many records the batches have between the offsets that are wanted of each."""
    count = 0
    for row, fetch in rows:
        if not fetch.file.offsets:
            count += fetch.count
        elif fetch.count == row.next_offset - row.base_offset:
            count += fetch.batch.count
        else:  # Which offsets of a part have a record is only in the file.
            count += read(store, topic, fetch, ()).num_rows
    return count


def _stored(log: Log, last: int) -> list[int]:
    """The entries after which the state is stored, newest first, from ``last`` on."""
    seqs = (paths.snapshot_seq(info.name) for info in log.store.list(paths.SNAPSHOTS))
    return sorted((seq for seq in seqs if seq is not None and seq <= last), reverse=True)


def _decoded(log: Log, seqs: Iterable[int]) -> Iterator[State]:
    """The states after these entries that can be read; damaged ones are passed over."""
    for seq in seqs:
        name = paths.snapshot(seq)
        try:
            yield decode_snapshot(log.store.read(name), seq, f"{log.url}/{name}")
        except (ObjectNotFoundError, CorruptRecordError):
            continue


def _is_retired(log: Log, seq: int) -> bool:
    try:
        return not log.store.size(paths.entry(seq, log.state.entries_per_folder))
    except ObjectNotFoundError:
        return seq <= log.state.seq


# -- Times ----------------------------------------------------------------------------------------------


def parse_time(text: str) -> datetime:
    """An ISO 8601 date or time, in UTC unless it has a time zone. Raises ``ValueError``."""
    # Python 3.10 does not know the Z.
    time = datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in {"Z", "z"} else text)
    return time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)


def time_ms(text: str) -> int:
    """The same (`parse_time`) as milliseconds since 1970. Raises ``ValueError``."""
    time = parse_time(text)
    whole = int(time.replace(microsecond=0).timestamp())
    return whole * 1000 + time.microsecond // 1000


def iso(timestamp_ms: int) -> str:
    """Milliseconds since 1970 as people read them, in UTC; as a number, if no calendar has them."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"
