"""A store as one process sees it, with one trouble at one operation; `crash_points` makes them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from enum import Enum
from typing import NamedTuple, TypeVar

from spark_eos.errors import EosLogError, ObjectExistsError, OutcomeUnknownError, StoreUnavailableError
from spark_eos.storage.store import Store
from spark_eos.testing.wrapped_store import WrappedStore

T = TypeVar("T")


class Trouble(Enum):
    """What one operation of a store can meet."""

    CRASH_BEFORE = "crash_before"
    """The process dies; nothing is done."""
    CRASH_AFTER = "crash_after"
    """It is done; the process dies before it gets the reply."""
    REPLY_LOST = "reply_lost"
    """`OutcomeUnknownError`, although it is done."""
    REQUEST_LOST = "request_lost"
    """`OutcomeUnknownError`, and nothing is done."""
    UNAVAILABLE = "unavailable"
    """`StoreUnavailableError`; nothing is done."""
    CONFLICT = "conflict"
    """`ObjectExistsError` for a free name; nothing is done. S3 answers so to a create that ran into another request."""

    @property
    def is_crash(self) -> bool:
        """Whether the process dies."""
        return self in {Trouble.CRASH_BEFORE, Trouble.CRASH_AFTER}


class Operation(NamedTuple):
    """One call of the store."""

    operation: str
    """The name of the method of `Store`."""
    name: str
    """The name of the object; for ``list`` the prefix."""


class Crashed(BaseException):
    """The process is dead: raised by the call in which it dies, and by every later call.

    It is no `Exception`, so that nothing that handles errors stops it. A thread ends with it silently.
    """


class CrashStore(WrappedStore):
    """A store as one process sees it, with one trouble at one operation. Safe to share between threads.

    After a crash every call raises `Crashed` and does nothing, also a call of another thread or of a ``finally``. An
    upload is kept in memory and is one operation, at its end.

    Parameters
    ----------
    inner
        The store behind it.
    process
        The number of the process, from 0 for the job itself.
    notes
        What earlier processes have noted.
    at
        The number of the operation that meets the trouble, from 0; -1: none.
    trouble
        The trouble.
    """

    def __init__(
        self,
        inner: Store,
        process: int = 0,
        notes: tuple[Hashable, ...] = (),
        *,
        at: int = -1,
        trouble: Trouble | None = None,
    ) -> None:
        super().__init__(inner)
        self.process = process
        self.notes = notes
        """The notes of this process and of those before it."""
        self.operations: list[Operation] = []
        self.noted: list[int] = []
        """How many notes there were at each operation."""
        self.is_dead = False
        self._at = at
        self._trouble = trouble
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"CrashStore({self.inner!r}, process={self.process})"

    def note(self, what: Hashable) -> None:
        """Note that something was promised or refused. Notes survive the process; a dead process notes nothing.

        Parameters
        ----------
        what
            Any hashable value.
        """
        with self._lock:
            self._check_alive()
            self.notes = (*self.notes, what)

    def restarted(self) -> CrashStore:
        """Give the store to the next process, without trouble. This process is dead from now on.

        Returns
        -------
        CrashStore
            The same objects and notes.
        """
        with self._lock:
            self.is_dead = True
        return CrashStore(self.inner, self.process + 1, self.notes)

    def _check_alive(self) -> None:
        if self.is_dead:
            raise Crashed(f"process {self.process} is dead")

    def _call(self, operation: str, name: str, effect: Callable[[], T]) -> T:
        # The lock is held throughout, so that nothing of a process happens after its death.
        with self._lock:
            self._check_alive()
            self.operations.append(Operation(operation, name))
            self.noted.append(len(self.notes))
            trouble = self._trouble if len(self.operations) - 1 == self._at else None
            if trouble is None:
                return effect()
            if trouble in {Trouble.CRASH_AFTER, Trouble.REPLY_LOST}:
                with suppress(EosLogError):  # A refusal is lost with the reply, too.
                    effect()
            if trouble.is_crash:
                self.is_dead = True
                self._check_alive()
            said = f"{self.url}: injected {trouble.value}: {operation} {name!r}"
            if trouble is Trouble.UNAVAILABLE:
                raise StoreUnavailableError(f"{said} was not done; try again")
            if trouble is Trouble.CONFLICT:
                raise ObjectExistsError(f"{said} was not done; read it to see whose it is")
            raise OutcomeUnknownError(f"{said} may or may not be done; repeat the call")
