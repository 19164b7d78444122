"""Whether the entry that a process's state rests on is still the one that it applied.

The files of a log can change under a running process: a folder is put back from a backup, moved, or removed. What the
process knows is then of another history, and an entry that it creates is one that others never reach. So before
anything rests on the newest entry, this looks at it: in a folder by one system call, which tells a file from another
one in its place; where looking is a request, once a minute at most. If a file was exchanged, its lineage tells.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import NoReturn

from spark_eos.errors import DivergedLogError, ObjectNotFoundError
from spark_eos.log import names
from spark_eos.log.clock import Clock
from spark_eos.protocol.actions import Entry
from spark_eos.protocol.codec import decode_entry
from spark_eos.protocol.rules import lineage_behind
from spark_eos.protocol.state import State
from spark_eos.storage import Store

__all__ = ["Anchor"]

EVERY_S = 60.0
"""How often the store is asked where that is a request."""


class Anchor:
    """The newest entry that a process has applied. For who holds the lock of `spark_eos.log.tail.Tail`."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: tuple[int, Hashable] = (-1, None)
        """The entry that was last compared, or read, and what told its file from others then."""
        self._sure_until = -math.inf

    def goes_on_from(self, other: Anchor) -> None:
        """It is of another process, forked from that of ``other``."""
        self._known, self._sure_until = other._known, other._sure_until

    def before_reading(self, name: str) -> Hashable | None:
        """What tells the object from others; to be asked for before it is read. Raises `ObjectNotFoundError`."""
        return self._store.identity(name)

    def has_read(self, seq: int, identity: Hashable | None) -> None:
        """Entry ``seq`` was read and fits what is behind it."""
        self._known = seq, identity
        self._sure_until = self._clock.monotonic() + EVERY_S

    def check(self, state: State) -> None:
        """Raise `DivergedLogError` unless the entry behind which ``state`` is is in the store."""
        if state.seq < 0:
            return
        name = names.entry(state.seq, state.entries_per_folder)
        try:
            identity = self._store.identity(name)
            if identity is not None:
                if (state.seq, identity) != self._known:
                    self._compare(state, name)
            elif self._clock.monotonic() >= self._sure_until:
                self._compare(state, name)
            else:
                return
        except ObjectNotFoundError as error:
            if self._is_covered(state.seq):
                return  # Its name was deleted long after it was retired: this process goes on from a snapshot.
            if self._known[0] != state.seq and self._is_a_copy(state):
                return
            self._refuse(state, f"entry {state.seq} is not there any more", error)
        self.has_read(state.seq, identity)

    def created(self, state: State, seq: int) -> None:
        """Entry ``seq`` was created behind ``state``: make sure, once more, that it was put behind that one.

        Files may have been exchanged since `check`. What was created then is in another history.
        """
        name = names.entry(seq, state.entries_per_folder)
        try:
            identity = self._store.identity(name)
        except ObjectNotFoundError as error:
            self._refuse(state, f"entry {seq}, which was just created, is not there any more", error)
        if identity is not None:
            self.check(state)
            self._known = seq, identity

    def _compare(self, state: State, name: str) -> None:
        data = self._store.read(name)
        if not data.size and state.seq:
            return  # It is retired: others have gone on, and what comes behind it tells.
        entry = decode_entry(data, state.seq, f"{self._store.url}/{name}")
        if not _leads_to(entry, state):
            self._refuse(state, f"entry {state.seq} is another one now")

    def _is_covered(self, seq: int) -> bool:
        found = (names.snapshot_seq(info.name) for info in self._store.list(names.SNAPSHOTS))
        return any(at is not None and at > seq for at in found)

    def _is_a_copy(self, state: State) -> bool:
        """Whether the state is from a snapshot with which a log begins: `eoslog copy` once left it so."""
        try:
            self._store.size(names.entry(1, state.entries_per_folder))
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
    return lineage_behind(entry.previous, entry) == state.lineage
