"""The tail: the newest state this process has seen, brought forward entry by entry, or from a snapshot.

An entry that a snapshot covers may be retired: it is empty then, and its name stays taken for ever. So a process that
slept for any time, and reads on or writes where it stood, meets the empty entry and goes on from the newest snapshot.

The names of retired entries may be deleted in the end (`spark_eos.maintenance.name_deletion`), a day after they were
retired at the earliest. So a process that was away for more than an hour, by any of its clocks, first looks whether a
newer snapshot covers the slot where it stood. Before that it believes neither an entry in that slot, nor that the slot
is free, nor that it has filled it.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Hashable
from typing import NamedTuple, Protocol

import pyarrow as pa

from spark_eos.errors import (
    CorruptRecordError,
    DivergedLogError,
    ObjectNotFoundError,
    UnsupportedVersionError,
)
from spark_eos.log import paths
from spark_eos.log.clock import SYSTEM, Clock
from spark_eos.log.commit.closing import closed_error, is_closing
from spark_eos.log.commit.divergence import DivergenceDetector
from spark_eos.log.commit.in_doubt import InDoubtRequests
from spark_eos.log.commit.read_ahead import BELIEVED_S, likely, read_slots
from spark_eos.log.environment import PROCESS, Environment, refuse_second_call
from spark_eos.log.gc_pause import LARGE_BYTES, paused
from spark_eos.log.snapshots.snapshots import newest_snapshot
from spark_eos.protocol.actions import Entry
from spark_eos.protocol.rules.apply import is_in_history
from spark_eos.protocol.rules.sealing import is_boundary
from spark_eos.protocol.state import EMPTY, State
from spark_eos.storage import Store

_LOG = logging.getLogger(__name__)

_FEW = 8
"""Of so many entries it is looked up which files they are in, one by one: each may be the newest one."""

REMEMBERED = 64
"""Of so many of the newest entries it is known which requests are in them."""


class ClockReading(NamedTuple):
    """Seconds on both clocks: one may stand still while a machine is suspended, the other one may be set."""

    monotonic_s: float
    wall_s: float


class Passed(Protocol):
    """Called with the state after every boundary, and whether this process ``created`` its entry."""

    def __call__(self, state: State, *, created: bool) -> None: ...


class Tail:
    """Follows the chain of entries. Safe to share between threads; ``state`` is immutable.

    It reports what it reads to ``in_doubt``. That is how a writer whose create got no reply recognises its own entry by
    its body, never by the error it got.
    """

    def __init__(
        self,
        store: Store,
        state: State = EMPTY,
        passed: Passed | None = None,
        clock: Clock = SYSTEM,
        in_doubt: InDoubtRequests | None = None,
        environment: Environment = PROCESS,
    ) -> None:
        self._store = store
        self._clock = clock
        self._environment = environment
        self._lock = environment.lock("tail")
        self._state = state
        self._passed = passed
        self._in_doubt = InDoubtRequests() if in_doubt is None else in_doubt
        self._recent: deque[tuple[int, tuple[bytes, ...]]] = deque(maxlen=REMEMBERED)
        """The newest entries without a gap, each with the ids of its requests."""
        self._newest_s = -math.inf
        self._divergence = DivergenceDetector(store, clock)
        self._identity: Hashable | None = None
        """Of the entry that was read last."""
        self._is_large = False
        self._newer = -1
        """The slot whose entry could not be read, as a newer version has written it."""
        self.applied = 0
        """Entries that were read, which others wrote, or this process without hearing so."""
        self._as_of = self.clock_reading()
        """Before the request that told that the state was the newest one, or that it had a successor."""

    @property
    def state(self) -> State:
        """The newest state seen so far, without looking at the store."""
        return self._state

    def follow(self, until: int | None = None) -> State:
        """Read what was added since; one read if nothing was. No further than to entry ``until``, if there is one.

        Raises `CorruptRecordError` and `UnsupportedVersionError` for what cannot be read, and `DivergedLogError` if
        the log is not the one that was read so far.
        """
        self.refuse_second_call()
        with self._lock:
            opening = self._state.seq < 0
            if opening:
                self._as_of = self.clock_reading()
                self._state = newest_snapshot(self._store) or self._state
            left, in_a_row = _FEW, 0
            reading, ahead = self._as_of, deque[pa.Buffer | None]()
            while True:
                if not ahead or self._is_past(reading, BELIEVED_S):
                    reading = self.clock_reading()
                    announced = 0 if until is None else until - self._state.seq
                    ahead = self._read(likely(self._store, in_a_row, announced), identify=left > 0)
                data = self._decoded(ahead.popleft())
                if self._skipped_ahead(reading) or (data is None and opening and self._has_become_a_log()):
                    ahead.clear()
                    continue
                self._as_of = reading
                if data is None:
                    self._divergence.check_end(self._state)
                    self._divergence.check(self._state)
                    self._newest_s = reading.monotonic_s
                    return self._state
                if data:
                    self._divergence.before_applying(self._state, self._was_away)
                    self._apply(data)
                    if left > 0:
                        self._divergence.has_read(self._state, self._identity)
                    # Of many entries only the last one matters; `DivergenceDetector.check` reads it once more.
                    left -= self._store.requests_are_free
                    in_a_row += 1
                else:
                    self._load_newest_snapshot()
                    ahead.clear()
                if until is not None and self._state.seq >= until:
                    return self._state

    def refuse_second_call(self) -> None:
        """Raise `RuntimeError` in the middle of another call of this thread."""
        refuse_second_call(self._lock)

    def advance(self, state: State, entry: Entry, since: ClockReading) -> None:
        """Take over the state after ``entry``, which this process has created itself, ``since`` when it tried to."""
        with self._lock:
            if self._state.seq == entry.seq - 1:
                self._as_of = since
                self._newest_s = since.monotonic_s
                self._take(state, entry, created=True)

    def check(self, *, at_once: bool = False) -> None:
        """Raise `DivergedLogError` if the newest entry is not there any more, or is another one by now.

        ``at_once``: also where that is a request, and there was one less than a minute ago.
        """
        self.refuse_second_call()
        with self._lock:
            self._divergence.check(self._state, away=self._was_away, at_once=at_once)

    def check_created(self, before: State, seq: int, as_of: ClockReading) -> None:
        """The same for the entry before entry ``seq``, which this process has just created.

        ``as_of``: when the state of its draft was known to be the newest one.
        """
        with self._lock:
            self._divergence.created(before, seq, away=lambda: self._is_long_ago(as_of))

    def take(self, entry: Entry) -> None:
        """Take over an entry that this process was told of, as if it had read it from the store."""
        with self._lock:
            if self._state.seq == entry.seq - 1:
                self._as_of = self.clock_reading()
                self._apply(entry)

    def ids_from(self, seq: int) -> set[bytes] | None:
        """The ids of the requests in entry ``seq`` and after it, as far as was read; None if they are forgotten."""
        with self._lock:
            if seq <= self._state.seq and (not self._recent or self._recent[0][0] > seq):
                return None
            return {request_id for at, ids in self._recent if at >= seq for request_id in ids}

    @property
    def age_s(self) -> float:
        """How long ago the state was the newest one for certain. To be asked for before the state is."""
        return self._clock.monotonic() - self._newest_s

    @property
    def ends_at_newer(self) -> bool:
        """Whether a newer version has filled the next slot, with an entry that this process cannot read."""
        return self._newer == self._state.seq + 1

    def goes_on_from(self, other: Tail) -> None:
        """It was made with the state of ``other``: take over when that was seen, and in which file."""
        self._as_of = other._as_of
        self._divergence.goes_on_from(other._divergence)

    def clock_reading(self) -> ClockReading:
        """Now."""
        return ClockReading(self._clock.monotonic(), self._clock.now_ms() / 1000)

    @property
    def as_of(self) -> ClockReading:
        """When this process last knew the state to be the newest. To be asked for before the state is."""
        return self._as_of

    def is_covered_by_snapshot(self, seq: int, as_of: ClockReading) -> bool:
        """Whether a snapshot covers a slot that this process has just filled, and last saw free (``as_of``) long ago.

        It may have been filled before, retired and deleted, or others went on while the reply was on its way:
        nothing tells. So what is in doubt counts as lost (`InDoubtRequests.is_lost`).
        """
        if not self._is_long_ago(as_of):
            return False
        snapshot = newest_snapshot(self._store)
        if snapshot is None or snapshot.seq < seq:
            return False
        with self._lock:
            self._install_snapshot(snapshot if snapshot.seq > self._state.seq else self._state)
        return True

    def note_unread(self, seq: int, lineage: bytes) -> bool:
        """An entry that this process has not read holds a request of its own; whether it is there.

        It is to be there when this process reads on.
        """
        with self._lock:
            return seq <= self._state.seq or self._divergence.note_unread(
                seq, lineage, self._state.entries_per_folder
            )

    @property
    def has_unread(self) -> bool:
        """Whether an entry that holds a request of this process was not read yet."""
        return self._divergence.has_unread

    def is_undisturbed(self) -> bool:
        """Whether the newest entry that this process has read, or that holds a request of its own, is as it was.

        For folders. Raises `DivergedLogError`. No if this process was away: names may have been deleted meanwhile, and
        the newest snapshot tells.
        """
        with self._lock:
            return not self._was_away() and self._divergence.is_undisturbed(self._state)

    def skip_to_snapshot(self) -> None:
        """Go on from the newest snapshot, if it is of a later entry. For a process with nothing in doubt.

        What is in the entries between stays unread: of a request that may be in one of them only the state would tell.
        """
        with self._lock:
            reading = self.clock_reading()
            snapshot = newest_snapshot(self._store)
            if snapshot is not None and snapshot.seq > self._state.seq:
                self._install_snapshot(snapshot)
                self._as_of = reading

    @property
    def was_away(self) -> bool:
        """Whether it was long ago that the state was known to be the newest: no entry is believed as it stands."""
        return self._was_away()

    def _was_away(self) -> bool:
        return self._is_long_ago(self._as_of)

    def _is_long_ago(self, reading: ClockReading) -> bool:
        return self._is_past(reading, self._environment.away_s)

    def _is_past(self, reading: ClockReading, seconds: float) -> bool:
        now = self.clock_reading()
        return now.monotonic_s - reading.monotonic_s > seconds or now.wall_s - reading.wall_s > seconds

    def _has_become_a_log(self) -> bool:
        """Whether there is a snapshot by now: a copy's entry 0 comes after it, and none before the snapshot's need be.

        Without this look a process that opens a log while a copy of it is finished could take entry 0 for its end.
        """
        snapshot = newest_snapshot(self._store) if self._state.seq == 0 else None
        if snapshot is None or not snapshot.seq:
            return False
        self._install_snapshot(snapshot)
        return True

    def _skipped_ahead(self, reading: ClockReading) -> bool:
        """Whether this process was away, and goes on from a snapshot that has gone past it."""
        if not self._is_long_ago(self._as_of):
            return False
        snapshot = newest_snapshot(self._store)
        if snapshot is None or snapshot.seq <= self._state.seq:
            return False
        self._install_snapshot(snapshot)
        self._as_of = reading
        return True

    def _apply(self, entry: Entry) -> None:
        with paused(when=self._is_large):
            state, outcomes = self._environment.apply(self._state, entry)
        self._in_doubt.record_entry(entry, outcomes)
        self.applied += 1
        self._take(state, entry, created=False)

    def _take(self, state: State, entry: Entry, *, created: bool) -> None:
        self._divergence.check_unread(state)
        self._state = state
        self._recent.append((entry.seq, tuple(request.request_id for request in entry.requests)))
        if self._passed is not None and is_boundary(state, state.seq):
            try:
                self._passed(state, created=created)
            except Exception:  # noqa: BLE001  (the entry is durable: its writer gets that answer)
                _LOG.exception("maintenance after entry %d failed", state.seq)

    def _load_newest_snapshot(self) -> None:
        """Go on past retired entries. What they held cannot be read any more."""
        snapshot = newest_snapshot(self._store)
        if snapshot is None or snapshot.seq <= self._state.seq:
            raise CorruptRecordError(
                f"{self._store.url}/{self._name(self._state.seq + 1)} is retired, but no snapshot stands for it: "
                "snapshots were removed. Put them back from a copy"
            )
        self._install_snapshot(snapshot)

    def _install_snapshot(self, snapshot: State) -> None:
        """Go on from a snapshot. Raises `DivergedLogError` if it is of a history without the newest entry here."""
        self._divergence.check_unread(snapshot)
        if not is_in_history(snapshot, self._state):
            raise DivergedLogError(
                f"{self._store.url}: entry {self._state.seq}, which this process has applied, is not in the history of "
                f"the snapshot after entry {snapshot.seq}. The log was put back from a copy while this process was "
                "paused, and others have gone on since. Nothing of this call is in the log that is there now. Open the "
                "log again: close this client and make a new one"
            )
        self._state = snapshot
        self._divergence.has_landed()
        self._recent.clear()
        self._in_doubt.record_skip()

    def _name(self, seq: int) -> str:
        return paths.entry(seq, self._state.entries_per_folder)

    def _read(self, count: int, *, identify: bool) -> deque[pa.Buffer | None]:
        """The next ``count`` entries, or the next one at least; None for a slot that is free."""
        names = [self._name(self._state.seq + 1 + at) for at in range(count)]
        try:
            self._identity = self._divergence.before_reading(names[0]) if identify and count == 1 else None
        except ObjectNotFoundError:
            return deque([None])
        return read_slots(self._store, names, self._environment.pool)

    def _decoded(self, data: pa.Buffer | None) -> Entry | tuple[()] | None:
        """The next entry, nothing if it is retired, None if the slot is free."""
        seq = self._state.seq + 1
        if data is None:
            self._newer = -1
            return None
        if not data.size and seq:  # The first entry says what log this is, and is never retired.
            return ()
        if is_closing(data):
            raise closed_error(self._store, seq - 1)
        try:
            with paused(when=data.size > LARGE_BYTES):
                entry = self._environment.decode(data, seq, f"{self._store.url}/{self._name(seq)}")
        except UnsupportedVersionError:
            if not self._is_long_ago(self._as_of):  # Else another one may have been there before.
                self._newer = seq
            raise
        self._is_large = data.size > LARGE_BYTES
        return entry
