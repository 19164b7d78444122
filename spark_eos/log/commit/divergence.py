"""Divergence: the newest entry that a process has applied is gone, or another one stands in its place.

The files of a log can change under a running process: a folder is put back from a backup, moved, or removed. What the
process knows is then of another history, and no other process reads an entry that it creates. So this module looks at
the newest entry before anything rests on it. In a folder that is one system call, which tells a file from another one
in its place. In an object store it is a request, once a minute at most. If a file was exchanged, its lineage tells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import NoReturn

from spark_eos.errors import DivergedLogError, ObjectNotFoundError, StoreUnavailableError
from spark_eos.log import paths
from spark_eos.log.clock import Clock
from spark_eos.log.gc_pause import LARGE_BYTES, paused
from spark_eos.log.snapshots.snapshots import newest_snapshot
from spark_eos.protocol.actions import Entry
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.apply import is_in_history, lineage_after
from spark_eos.protocol.state import EMPTY, State
from spark_eos.storage import Store

EVERY_S = 60.0
"""How often the store is asked where that is a request."""


class DivergenceDetector:
    """Watches the newest entry that a process has applied. Guarded by the lock of `spark_eos.log.commit.tail.Tail`."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._last_entry: tuple[int, Hashable] = (-1, None)
        """The number of the entry that was last compared or read, and the identity of its file then."""
        self._pinned: State | None = None
        """In an object store: the state at the last look, of which only the history is kept."""
        self._sure_until = -math.inf
        self._unread: State | None = None
        """The newest entry that holds a request of this process and was not read yet: of its state only the history."""
        self._unread_identity: Hashable | None = None
        """Of the file of that entry, when its leader reported it."""

    def goes_on_from(self, other: DivergenceDetector) -> None:
        """Take over what ``other`` knows: this process was forked from the process of ``other``."""
        self._last_entry, self._sure_until, self._pinned = other._last_entry, other._sure_until, other._pinned

    def before_reading(self, name: str) -> Hashable | None:
        """The identity of the object, to be asked for before it is read. Raises `ObjectNotFoundError`."""
        return self._store.identity(name)

    def before_applying(self, state: State, away: Callable[[], bool]) -> None:
        """An entry was read that comes after ``state``: raise `DivergedLogError` if its predecessor was exchanged.

        A process that was frozen at its create may have left it behind the end of another history. To be asked after
        the read: while the predecessor is the same file, the log was not put back. Costs a system call in a folder,
        and nothing elsewhere.
        """
        if self._last_entry[0] == state.seq:
            self.check(state, away=away)

    def has_read(self, state: State, identity: Hashable | None) -> None:
        """The entry that led to ``state`` was read, and its predecessor is the one that this process knows.

        In an object store that proves no more: other processes may still write in a history that is gone.
        """
        if identity is not None:
            self._last_entry = state.seq, identity
        elif self._pinned is None:
            self._pin(state)

    def has_landed(self) -> None:
        """The state is from a snapshot now, past what this process had seen: the last look says nothing any more."""
        self._pinned = None
        self._sure_until = -math.inf

    def note_unread(self, seq: int, lineage: bytes, entries_per_folder: int) -> bool:
        """Entry ``seq`` was not read, but holds a request of this process; whether it is there.

        ``lineage`` is the one after it.
        """
        try:
            self._unread_identity = self._store.identity(paths.entry(seq, entries_per_folder))
        except ObjectNotFoundError:
            return False
        self._unread = replace(EMPTY, seq=seq, lineage=lineage, entries_per_folder=entries_per_folder)
        return True

    def is_undisturbed(self, state: State) -> bool:
        """Whether the newest entry that this process knows of is in the same file as before. Costs a system call.

        Raises `DivergedLogError` if that is the one that led to ``state``, and it is gone or another one. If it is one
        that this process has not read, reading on tells.
        """
        if self._unread is None:
            self.check(state)
            return True
        try:
            name = paths.entry(self._unread.seq, self._unread.entries_per_folder)
            return self._store.identity(name) == self._unread_identity
        except ObjectNotFoundError:
            return False

    @property
    def has_unread(self) -> bool:
        """Whether an entry that holds a request of this process was not read yet."""
        return self._unread is not None

    def check_unread(self, state: State) -> None:
        """Raise `DivergedLogError` if ``state`` has gone past the entry that was told of, in another history."""
        if self._unread is not None and self._unread.seq <= state.seq:
            if not is_in_history(state, self._unread):
                self._refuse(self._unread, f"entry {self._unread.seq} is another one now")
            self._unread = None

    def check_end(self, state: State) -> None:
        """The log ends with ``state``: raise `DivergedLogError` if it did not come to the entry that was told of."""
        if self._unread is None:
            return
        name = paths.entry(state.seq + 1, state.entries_per_folder)
        try:
            self._store.size(paths.entry(self._unread.seq, state.entries_per_folder))
        except ObjectNotFoundError as error:
            self._refuse(self._unread, f"entry {self._unread.seq} is not there any more", error)
        raise StoreUnavailableError(
            f"{self._store.url}/{name} cannot be read, but entry {self._unread.seq} is there: the store does not show "
            "its own objects. Look at its caching"
        )

    def check(self, state: State, *, away: Callable[[], bool] = lambda: False, at_once: bool = False) -> None:
        """Raise `DivergedLogError` unless the entry that led to ``state`` is in the store.

        ``away`` tells whether the state was last the newest one so long ago that names may have been deleted.
        ``at_once``: look though it costs a request, and the last one was less than a minute ago.
        """
        if state.seq < 0:
            return
        name = paths.entry(state.seq, state.entries_per_folder)
        try:
            identity = self._store.identity(name)
            if identity is None:
                self._check_far(state, away, at_once=at_once)
                return
            if (state.seq, identity) != self._last_entry:
                if away() and self._is_covered(state.seq):
                    return  # Its name may have been deleted, and filled again by a process that slept as well.
                self._compare(state, name)
        except ObjectNotFoundError as error:
            self._check_missing(state, error, away=away)
            return
        self._last_entry = state.seq, identity

    def _check_far(self, state: State, away: Callable[[], bool], *, at_once: bool) -> None:
        """Look at the entry that was the newest one at the last look.

        The newest one now proves nothing: this process may have created it in a history that is gone. It is looked at
        only if there was no look before, or if that entry is gone and a snapshot stands for it.
        """
        if self._clock.monotonic() < self._sure_until and not at_once:
            return
        for then in (self._pinned or state, state):
            try:
                self._compare(then, paths.entry(then.seq, then.entries_per_folder))
            except ObjectNotFoundError as error:
                if self._is_in_newest_snapshot(then, state):
                    continue
                self._check_missing(then, error, away=away)
                # Nothing was compared: the state is not known to be of the history that is there.
                self._sure_until = self._clock.monotonic() + EVERY_S
                return
            break
        self._pin(state)

    def _pin(self, state: State) -> None:
        self._pinned = replace(
            EMPTY, seq=state.seq, lineage=state.lineage, entries_per_folder=state.entries_per_folder
        )
        self._sure_until = self._clock.monotonic() + EVERY_S

    def _check_missing(self, state: State, error: ObjectNotFoundError, *, away: Callable[[], bool]) -> None:
        if away() and self._is_covered(state.seq):
            return  # Its name was deleted long after it was retired: this process goes on from a snapshot.
        if self._last_entry[0] != state.seq and self._pinned is None and self._is_a_copy(state):
            return
        self._refuse(state, f"entry {state.seq} is not there any more", error)

    def created(self, state: State, seq: int, away: Callable[[], bool]) -> None:
        """Entry ``seq`` was created after ``state``: look once more whether it has that predecessor.

        Files may have been exchanged since `check`. What was created then is in another history.
        """
        name = paths.entry(seq, state.entries_per_folder)
        try:
            identity = self._store.identity(name)
        except ObjectNotFoundError as error:
            if away() and self._is_covered(seq):
                return  # This process slept after the create, and the name was deleted.
            self._refuse(state, f"entry {seq}, which was just created, is not there any more", error)
        if identity is not None:
            self.check(state, away=away)
            self._last_entry = seq, identity
        elif self._sure_until == -math.inf:  # It has just opened the log, or made it.
            self._sure_until = self._clock.monotonic() + EVERY_S

    def _compare(self, state: State, name: str) -> None:
        data = self._store.read(name)
        if not data.size and state.seq:
            if self._is_covered(state.seq):
                return  # It is retired: others have gone on, and what comes after it tells.
            # A process that slept has retired it in a history that has not come so far.
            self._refuse(state, f"entry {state.seq} is empty, and no snapshot stands for it")
        with paused(when=data.size > LARGE_BYTES):
            entry = decode_entry(data, state.seq, f"{self._store.url}/{name}")
        if not _leads_to(entry, state):
            self._refuse(state, f"entry {state.seq} is another one now")

    def _is_covered(self, seq: int) -> bool:
        snapshot_seqs = (paths.snapshot_seq(info.name) for info in self._store.list(paths.SNAPSHOTS))
        return any(at is not None and at > seq for at in snapshot_seqs)

    def _is_in_newest_snapshot(self, then: State, state: State) -> bool:
        """Whether the newest snapshot is of the history of ``state``, and covers the entry of the last look.

        This process may have applied many entries since that look, within a minute. Others may have retired the entry
        of the look, and deleted its name a day later. So its absence says nothing of the newest entry.
        """
        snapshot = newest_snapshot(self._store) if then.seq < state.seq else None
        if snapshot is None or snapshot.seq <= then.seq:
            return False
        older, newer = sorted((snapshot, state), key=lambda history: history.seq)
        return is_in_history(newer, older)

    def _is_a_copy(self, state: State) -> bool:
        """Whether the log begins with the state, a snapshot, as one that was restored to an earlier entry."""
        try:
            self._store.size(paths.entry(1, state.entries_per_folder))
        except ObjectNotFoundError:
            return True
        return False

    def _refuse(self, state: State, problem: str, cause: BaseException | None = None) -> NoReturn:
        raise DivergedLogError(
            f"{self._store.url}: {problem}, though this process has applied entries up to {state.seq}. The log was put "
            "back from a copy, replaced, removed or unmounted under it. Nothing of this call is in the log that is "
            "there now, and what was written since that copy was made is lost. Open the log again: close this client "
            "and make a new one"
        ) from cause


def _leads_to(entry: Entry, state: State) -> bool:
    """Whether ``entry`` may have led to ``state``."""
    if not entry.previous or not state.lineage:
        return True
    return lineage_after(entry.previous, entry) == state.lineage
