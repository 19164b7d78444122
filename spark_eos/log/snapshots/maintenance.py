"""Background maintenance: what keeps a log quick to open, done in small shares by the processes that write to it.

After a boundary a snapshot is stored, and entries that it has made unnecessary are retired. Nothing needs any of
it to be correct, so it never fails a commit, and it takes a tenth of the time that passes at most. The snapshot of a
log with many partitions is made in a thread of its own, so that no commit waits for it.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable

from spark_eos.errors import (
    DivergedLogError,
    EosLogError,
    NotALogError,
    ObjectNotFoundError,
    StorePermissionError,
)
from spark_eos.log import paths
from spark_eos.log.clock import Clock
from spark_eos.log.snapshots.snapshots import Snapshots
from spark_eos.log.snapshots.worker import in_background
from spark_eos.protocol.state import State
from spark_eos.storage import Store

SHARE = 0.1
"""Of the time that passes, what maintenance may take."""

_SMALLEST_S = 0.002
"""Time that has to be saved up before anything is begun: not something in every commit, but now and then."""

_LARGEST_S = 2.0
"""Time that can be saved up."""

_PAUSE_S = 30.0
"""After an error, nothing is done for so long."""

_SURE_S = 1.0
"""For so long the log is believed to be the one that was opened, as what is overwritten or deleted was its own."""

_LOG = logging.getLogger(__name__)


class Retirer:
    """Overwrites entries with nothing, from the oldest on: those that no reader needs any more.

    These are the entries up to the floor (`spark_eos.log.snapshots.horizon`), and before the newest snapshot but one.
    Entry 0 is never retired: it says what log this is.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._next: int | None = None

    def step(self, state: State, limit: int, look: Callable[[], None]) -> int | None:
        """Retire one entry, up to ``limit`` (`retirable`); which one, or None if there is none.

        ``look`` is called right before, and raises if the store holds another history.
        """
        if limit <= 0:
            return None
        if self._next is None or not self._goes_on(state):
            self._next = self._find(state, limit)
        if self._next > limit:
            return None
        look()
        self._store.retire(paths.entry(self._next, state.entries_per_folder))
        self._next += 1
        return self._next - 1

    def _goes_on(self, state: State) -> bool:
        """Whether the entry that was retired last still is: a copy of the log may have been put back.

        That costs nothing in a folder. Elsewhere the entries that are back stay, and do no harm.
        """
        if not self._store.requests_are_free or self._next is None or self._next <= 1:
            return True
        return self._is_retired(self._next - 1, state)

    def _is_retired(self, seq: int, state: State) -> bool:
        try:
            return self._store.size(paths.entry(seq, state.entries_per_folder)) == 0
        except ObjectNotFoundError:
            return True  # Names of retired entries may be deleted.

    def left(self, state: State, limit: int) -> int:
        """How many entries `step` would retire by and by."""
        if limit <= 0:
            return 0
        if self._next is None:
            self._next = self._find(state, limit)
        return max(limit + 1 - self._next, 0)

    def last(self, state: State, snapshot: int) -> int:
        """The newest entry that is retired, with all before it; 0 if there is none. All are before the snapshot."""
        return self._find(state, snapshot) - 1 if snapshot > 0 else 0

    def _find(self, state: State, limit: int) -> int:
        """The first entry that is not retired: they are retired in order."""
        low, high = 1, limit + 1
        while low < high:
            middle = (low + high) // 2
            if self._is_retired(middle, state):
                low = middle + 1
            else:
                high = middle
        return low


def retirable(state: State, snapshot: int, floor: int) -> int:
    """The newest entry that no reader needs any more, given the newest snapshot that is stored, and the floor."""
    return min(snapshot - state.snapshot_interval, floor)


class BackgroundMaintenance:
    """One process's share. Safe to share between threads; only one of them does something at a time."""

    def __init__(
        self,
        store: Store,
        snapshots: Snapshots,
        clock: Clock,
        is_same: Callable[[], bool],
        check: Callable[..., None],
        newest: Callable[[], State],
    ) -> None:
        """``is_same`` tells whether the store still holds this log: its folder may have been replaced.

        ``check`` raises `DivergedLogError` if the newest entry is not the one that was applied; it costs little.
        ``newest`` gives the newest state that this process knows.
        """
        self._url = store.url
        self._is_same = is_same
        self._check = check
        self._newest = newest
        self._sure_until = -math.inf
        self._clock = clock
        self._snapshots = snapshots
        self._retirer = Retirer(store)
        self._lock = threading.Lock()
        self._seen_s = clock.monotonic()
        self._saved_s = 0.0
        self._rest_until = 0.0

    def run_slice(self, state: State) -> None:
        """Do something if there is time for it; to be called after a commit. Raises nothing."""
        if not self._lock.acquire(blocking=False):
            return
        handed_on = False
        try:
            now = self._clock.monotonic()
            self._saved_s = min(self._saved_s + SHARE * (now - self._seen_s), _LARGEST_S)
            self._seen_s = now
            if self._saved_s < _SMALLEST_S or now < self._rest_until:
                return
            if self._is_snapshot_work_due and self._snapshots.is_large:
                in_background(self._snapshot_work_aside)
                handed_on = True
                return
            while self._saved_s > 0 and self._step(state):
                spent, now = self._clock.monotonic() - now, self._clock.monotonic()
                self._saved_s -= spent
            # What the work itself took does not count as time in which something may be saved.
            self._seen_s = self._clock.monotonic()
        except Exception as error:  # noqa: BLE001  (the commit that it follows is durable)
            self._rest(error)
        finally:
            if not handed_on:
                self._lock.release()

    @property
    def _is_snapshot_work_due(self) -> bool:
        return self._snapshots.is_due or self._snapshots.is_floor_due

    def _snapshot_work(self) -> None:
        """Store the snapshot that is due, or look up the floor that a newer one has moved."""
        self._make_sure()
        if self._snapshots.is_due:
            self._write()
        if self._snapshots.is_floor_due:
            self._snapshots.find_floor(self._newest())

    def _snapshot_work_aside(self) -> None:
        """The same, with the lock that `run_slice` has taken: nothing else is done meanwhile."""
        begun = self._clock.monotonic()
        try:
            self._snapshot_work()
            self._seen_s = self._clock.monotonic()
            self._saved_s -= self._seen_s - begun
        except Exception as error:  # noqa: BLE001  (no caller waits for this thread)
            self._rest(error)
        finally:
            self._lock.release()

    def _rest(self, error: Exception) -> None:
        self._rest_until = self._clock.monotonic() + _PAUSE_S
        _LOG.warning(
            "maintenance of the log failed, and will be tried again: %s",
            error,
            exc_info=not isinstance(error, EosLogError),
        )

    def look(self, state: State) -> tuple[int | None, int]:
        """What `snapshot` and `retire` would do: the entry after which one is missing, and entries to retire."""
        with self._lock:
            stored = self._snapshots.look()
            missing = self._snapshots.missing
            self._snapshots.find_floor(state, missing)
            newest = stored if missing is None else missing
            return missing, self._retirer.left(state, retirable(state, newest, self._snapshots.floor))

    def snapshot(self) -> int | None:
        """Store the newest snapshot that this process can make, if there is none; after which entry that was.

        No matter which process created the boundary, and whether this one does its share. Older ones are dropped.
        Raises what the store raises.
        """
        with self._lock:
            self._make_sure()
            self._snapshots.look()
            missing = self._snapshots.missing
            written = self._write()
            return missing if written else None

    def retire(self, state: State, count: int) -> int:
        """Retire up to ``count`` entries that are old enough, and covered by the newest stored snapshot; how many."""
        with self._lock:
            self._make_sure()
            self._snapshots.look()
            self._snapshots.find_floor(state)
            count_retired = 0
            while count_retired < count and self._retire_one(state):
                count_retired += 1
            return count_retired

    def _retirable(self, state: State) -> int:
        return retirable(state, self._snapshots.stored, self._snapshots.floor)

    def _retire_one(self, state: State) -> bool:
        """Look, retire one entry, and look again; whether there was one.

        Files may be exchanged between the look and the retirement. So no more than one entry of another history is
        ever overwritten, and it is named.
        """
        seq = self._retirer.step(state, self._retirable(state), self._make_sure)
        if seq is None:
            return False
        try:
            self._check()
        except DivergedLogError as error:
            raise DivergedLogError(
                f"{error}. Entry {seq} was retired at that moment, perhaps in the log that is there now: run "
                "`eoslog verify`, and if it names that entry, put it back from the copy"
            ) from error
        return True

    def retired(self, state: State) -> int:
        """The newest entry that is retired, with all before it; 0 if there is none. Raises what the store raises."""
        with self._lock:
            return self._retirer.last(state, self._snapshots.look())

    def _write(self) -> bool:
        """Store the snapshot that is missing, and delete older ones; whether this process stored it."""
        written = self._snapshots.write(self._check)
        try:
            self._snapshots.drop_old(self._newest())
        except StorePermissionError as error:
            # A writer need not have the right to delete: maintenance drops them later.
            _LOG.debug("older snapshots stay: %s", error)
        return written

    def _step(self, state: State) -> bool:
        """One piece of work; whether there was any."""
        if self._is_snapshot_work_due:
            self._snapshot_work()
            return True
        if not self._retirer.left(state, self._retirable(state)):
            return False
        return self._retire_one(state)

    def _make_sure(self) -> None:
        """Raise `NotALogError` if another log is there by now: a process may have slept since its commit.

        `DivergedLogError` if it is the same log with other entries.
        """
        self._check()
        now = self._clock.monotonic()
        if now < self._sure_until:
            return
        if not self._is_same():
            raise NotALogError(f"the log that was opened at {self._url} is not there any more: open it again")
        # Before anything is overwritten: what this process would retire may be what tells.
        self._check(at_once=True)
        self._sure_until = now + _SURE_S
