"""Whether the entry that a process's state rests on is still the one that it applied.

The files of a log can change under a running process: a folder is put back from a backup, moved, or removed. What the
process knows is then of another history, and an entry that it creates is one that others never reach. So before
anything rests on the newest entry, this looks at it: in a folder by one system call, which tells a file from another
one in its place; where looking is a request, once a minute at most. If a file was exchanged, its lineage tells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import NoReturn

from spark_eos.errors import DivergedLogError, ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.log.clock import Clock
from spark_eos.protocol.actions import Entry
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.apply import lineage_after
from spark_eos.protocol.state import EMPTY, State
from spark_eos.storage import Store

__all__ = ["DivergenceDetector"]

EVERY_S = 60.0
"""How often the store is asked where that is a request."""


class DivergenceDetector:
    """Watches the newest entry that a process has applied. Guarded by the lock of `spark_eos.log.commit.tail.Tail`."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: tuple[int, Hashable] = (-1, None)
        """The entry that was last compared, or read, and what told its file from others then."""
        self._pinned: State | None = None
        """Where looking is a request: what was the newest one at the last look, without all but its history."""
        self._sure_until = -math.inf

    def goes_on_from(self, other: DivergenceDetector) -> None:
        """It is of another process, forked from that of ``other``."""
        self._known, self._sure_until, self._pinned = other._known, other._sure_until, other._pinned

    def before_reading(self, name: str) -> Hashable | None:
        """What tells the object from others; to be asked for before it is read. Raises `ObjectNotFoundError`."""
        return self._store.identity(name)

    def has_read(self, state: State, identity: Hashable | None) -> None:
        """The entry behind which ``state`` is was read, and fits what is behind it.

        Where looking is a request that proves nothing but that: others may write in the same history that is gone.
        """
        if identity is not None:
            self._known = state.seq, identity
        elif self._pinned is None:
            self._pin(state)

    def has_landed(self) -> None:
        """The state is from a snapshot that has gone past what this process had seen: that says nothing any more."""
        self._pinned = None
        self._sure_until = -math.inf

    def check(self, state: State, *, away: Callable[[], bool] = lambda: False, at_once: bool = False) -> None:
        """Raise `DivergedLogError` unless the entry behind which ``state`` is is in the store.

        ``away`` tells whether it is so long since the state was the newest one that names may have been deleted.
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
            if (state.seq, identity) != self._known:
                self._compare(state, name)
        except ObjectNotFoundError as error:
            self._missing(state, error, away=away)
            return
        self._known = state.seq, identity

    def _check_far(self, state: State, away: Callable[[], bool], *, at_once: bool) -> None:
        """Look at the entry that was the newest one at the last look.

        At the newest one only if there was none: this process may have created that in a history that is gone.
        """
        if self._clock.monotonic() < self._sure_until and not at_once:
            return
        then = self._pinned or state
        try:
            self._compare(then, paths.entry(then.seq, then.entries_per_folder))
        except ObjectNotFoundError as error:
            self._missing(then, error, away=away)
        self._pin(state)

    def _pin(self, state: State) -> None:
        self._pinned = replace(
            EMPTY, seq=state.seq, lineage=state.lineage, entries_per_folder=state.entries_per_folder
        )
        self._sure_until = self._clock.monotonic() + EVERY_S

    def _missing(self, state: State, error: ObjectNotFoundError, *, away: Callable[[], bool]) -> None:
        if away() and self._is_covered(state.seq):
            return  # Its name was deleted long after it was retired: this process goes on from a snapshot.
        if self._known[0] != state.seq and self._pinned is None and self._is_a_copy(state):
            return
        self._refuse(state, f"entry {state.seq} is not there any more", error)

    def created(self, state: State, seq: int) -> None:
        """Entry ``seq`` was created behind ``state``: make sure, once more, that it was put behind that one.

        Files may have been exchanged since `check`. What was created then is in another history.
        """
        name = paths.entry(seq, state.entries_per_folder)
        try:
            identity = self._store.identity(name)
        except ObjectNotFoundError as error:
            self._refuse(state, f"entry {seq}, which was just created, is not there any more", error)
        if identity is not None:
            self.check(state)
            self._known = seq, identity
        elif self._sure_until == -math.inf:  # It has just opened the log, or made it.
            self._sure_until = self._clock.monotonic() + EVERY_S

    def _compare(self, state: State, name: str) -> None:
        data = self._store.read(name)
        if not data.size and state.seq:
            return  # It is retired: others have gone on, and what comes behind it tells.
        entry = decode_entry(data, state.seq, f"{self._store.url}/{name}")
        if not _leads_to(entry, state):
            self._refuse(state, f"entry {state.seq} is another one now")

    def _is_covered(self, seq: int) -> bool:
        found = (paths.snapshot_seq(info.name) for info in self._store.list(paths.SNAPSHOTS))
        return any(at is not None and at > seq for at in found)

    def _is_a_copy(self, state: State) -> bool:
        """Whether the state is from a snapshot with which a log begins: `eoslog copy` once left it so."""
        try:
            self._store.size(paths.entry(1, state.entries_per_folder))
        except ObjectNotFoundError:
            return True
        return False

    def _refuse(self, state: State, what: str, cause: BaseException | None = None) -> NoReturn:
        raise DivergedLogError(
            f"{self._store.url}: {what}, though this process has applied entries up to {state.seq}. The log was put "
            "back from a copy, replaced, removed or unmounted under it. Nothing of this call is in the log that is "
            "there now, and what was written since that copy was made is lost. Open the log again: close this client "
            "and make a new one"
        ) from cause


def _leads_to(entry: Entry, state: State) -> bool:
    """Whether ``entry`` may be the one behind which ``state`` is; entries of earlier versions do not tell."""
    if not entry.previous or not state.lineage:
        return True
    return lineage_after(entry.previous, entry) == state.lineage
