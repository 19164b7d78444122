"""The entries of one log as the history shows them: each is read and applied once, however many browsers watch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from spark_eos.errors import CorruptRecordError, InvalidRequestError, ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.log.time_travel import state_at
from spark_eos.protocol.actions import Entry
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.rules.apply import Outcome, apply_entry
from spark_eos.protocol.state import EMPTY, State

_NEAR = 1000
"""So many entries are applied at most to learn what the requests of an older page came to."""

_GAP = 200
"""Entries that are passed over at most to go on from the last one that was shown; else a snapshot is nearer."""

_KEPT = 5000
"""Entries that are kept as they were shown: they never change."""


class ReadEntry(NamedTuple):
    """An entry that was read. ``outcomes`` is None if it is not known what its requests came to."""

    entry: Entry
    size: int
    names: Mapping[str, str]
    """Of topics, by id."""
    outcomes: Sequence[Outcome] | None = None


class TimeLine:
    """What browsers were shown of the entries of one log, and the state to go on from. Safe to share between threads.

    A poll that brought new entries costs one read of each of them: the first browser that asks goes on from the state
    after the last entry that was shown, the others get the same rows. An older page is read once, from the nearest
    snapshot on.

    Parameters
    ----------
    log
        The log, of which nothing but its store and its newest state is used.
    show
        Makes a row of an entry.
    snapshots
        The entries that have a snapshot, in their order.
    """

    def __init__(
        self, log: Log, show: Callable[[ReadEntry], dict[str, Any]], snapshots: Callable[[], Sequence[int]]
    ) -> None:
        self.log = log
        self._show, self._snapshots = show, snapshots
        self._rows: dict[int, dict[str, Any] | None] = {}
        """By entry; None for one that is retired."""
        self._tip = log.state
        """Entries after this state are read by going on from it."""
        self._names: dict[str, str] = {}
        self._named_topics: object = None
        self._kept_lock, self._new_lock, self._old_lock = (threading.Lock() for _ in range(3))

    def rows(self, first: int, last: int) -> list[dict[str, Any]]:
        """Entries ``first`` to ``last``, newest first. Raises the errors of the store."""
        if self._missing_entries(first, last):
            if last > self._tip.seq:
                with self._new_lock:
                    self._go_on(first, last)
            # Going on passes over nothing that is asked for, unless it broke off.
            if self._missing_entries(first, last):
                with self._old_lock:
                    self._look_back(self._missing_entries(first, last))
        with self._kept_lock:
            rows = [self._rows.get(seq) for seq in range(last, first - 1, -1)]
        return [row for row in rows if row is not None]

    def _missing_entries(self, first: int, last: int) -> list[int]:
        """Those that are to be read. To keep them does not drop the others, which are asked for as well."""
        with self._kept_lock:
            kept = [seq for seq in range(first, last + 1) if seq in self._rows]
            self._rows.update([(seq, self._rows.pop(seq)) for seq in kept])
            return [seq for seq in range(first, last + 1) if seq not in self._rows]

    def _keep(self, seq: int, row: dict[str, Any] | None) -> None:
        with self._kept_lock:
            self._rows[seq] = row
            if len(self._rows) > _KEPT:
                del self._rows[next(iter(self._rows))]

    def _go_on(self, first: int, last: int) -> None:
        """Read and apply what came after the last entry that was shown."""
        if first > self._tip.seq + _GAP:
            self._tip = self.log.state
        while self._tip.seq < last:
            after = self._step(self._tip)
            self._tip = self.log.state if after is None else after

    def _look_back(self, missing: Sequence[int]) -> None:
        """Read older entries, and apply them if the state before them is to be had."""
        if not missing:
            return  # Another browser asked for them, too.
        state = self._state_before(missing[0])
        for seq in range(missing[0], missing[-1] + 1):
            if state is not None:
                state = self._step(state)
            elif seq in missing:
                self._read(seq, None)

    def _step(self, state: State) -> State | None:
        """The state after the next entry, which is kept; None if that entry is retired or damaged."""
        result = self._read(state.seq + 1, state)
        return result and result[1]

    def _read(self, seq: int, before: State | None) -> tuple[ReadEntry, State | None] | None:
        """Read an entry and keep its row, with the outcomes if the state before it is known."""
        try:
            entry, size = read_entry(self.log, seq)
        except CorruptRecordError as error:
            self._keep(seq, {"seq": seq, "problem": str(error)})
            return None
        if entry is None:
            self._keep(seq, None)
            return None
        after, outcomes = (None, None) if before is None else apply_entry(before, entry)
        seen = ReadEntry(entry, size, self._names_at(after or self.log.state), outcomes)
        self._keep(seq, self._show(seen))
        return seen, after

    def _state_before(self, seq: int) -> State | None:
        """The state before an entry, if a snapshot is near or the log begins there."""
        if seq == 0:
            return EMPTY
        nearest = max((snapshot for snapshot in self._snapshots() if snapshot < seq), default=-1)
        if seq - nearest > _NEAR:
            return None
        try:
            return state_at(self.log, seq - 1)
        except (InvalidRequestError, CorruptRecordError):
            return None  # Entries on the way are retired, or damaged.

    def _names_at(self, state: State) -> Mapping[str, str]:
        """The names of topics, and of those that were deleted since; made again only if topics changed."""
        with self._kept_lock:
            if self._named_topics is not state.topics:
                self._names = {**self._names, **names_of(self.log.state), **names_of(state)}
                self._named_topics = state.topics
            return self._names


def read_entry(log: Log, seq: int) -> tuple[Entry | None, int]:
    """An entry and its size; None if it is retired. Raises `CorruptRecordError`."""
    name = paths.entry(seq, log.state.entries_per_folder)
    try:
        data = log.store.read(name)
    except ObjectNotFoundError:
        return None, 0
    return (decode_entry(data, seq, f"{log.url}/{name}"), data.size) if data.size else (None, 0)


def names_of(state: State) -> dict[str, str]:
    """The names of topics, by id."""
    return {topic.topic_id: topic.name for topic in state.topics.values()}
