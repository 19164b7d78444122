"""A store that fails on demand, in every way a real one does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeVar

from spark_eos.errors import ConfigError, EosLogError, OutcomeUnknownError, StoreUnavailableError
from spark_eos.storage.store import Store
from spark_eos.testing.wrapped_store import WrappedStore

T = TypeVar("T")

_CHANGING = frozenset({"create", "upload", "delete", "overwrite", "retire"})
_READING = frozenset({"read", "size", "age_s", "now_ms", "list", "ensure_durable"})


class Fault(Enum):
    """What can go wrong with one call."""

    FAIL_BEFORE = auto()
    """`StoreUnavailableError`; nothing is done."""
    FAIL_AFTER = auto()
    """`OutcomeUnknownError`, although it is done: the reply was lost."""
    LOST = auto()
    """`OutcomeUnknownError`, and nothing is done: the request was lost."""
    DELAYED = auto()
    """`OutcomeUnknownError` now; done when `FaultyStore.release` is called: the request was slow."""
    DUPLICATE = auto()
    """Done twice, and answered as the second time: a create meets its own object (`ObjectExistsError`)."""


class Call(NamedTuple):
    """One line of the journal: a call of the store that was answered.

    Attributes
    ----------
    operation
        The name of the method of `Store`.
    name
        The name of the object; for ``list`` the prefix.
    error
        The class of the error that the caller got; None: it got none.
    """

    operation: str
    name: str
    error: type[BaseException] | None


@dataclass
class _Rule:
    fault: Fault | BaseException
    operation: str
    name: str
    skip: int
    times: int | None

    def fires(self, operation: str, name: str) -> bool:
        """True if this call is one to spoil; counts it."""
        if not (fnmatchcase(operation, self.operation) and fnmatchcase(name, self.name)) or self.times == 0:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True


class FaultyStore(WrappedStore):
    """A store that fails on demand, around another one. Safe to share between threads.

    ``journal`` lists the calls. ``before(operation, name)`` and ``after(operation, name)`` can be set: they are called
    around each call that reaches the other store (``after``: only if the call succeeded there), outside of all locks.
    They may block, to interleave callers, or raise, to kill one. An upload is kept in memory and is one call, at its
    end.

    Parameters
    ----------
    inner
        The store behind it.

    Examples
    --------
    >>> from spark_eos import Log, Producer
    >>> from spark_eos.storage import MemoryStore
    >>> from spark_eos.testing import Fault, FaultyStore
    >>> store = FaultyStore(MemoryStore())
    >>> with Producer(Log.create(store)) as producer:
    ...     store.inject(Fault.FAIL_AFTER, "create", "_log/*")
    ...     future = producer.send("orders", b"one")
    >>> future.result().offset
    0
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.journal: list[Call] = []
        self.before: Callable[[str, str], None] = _do_nothing
        self.after: Callable[[str, str], None] = _do_nothing
        self._rules: list[_Rule] = []
        self._delayed: list[tuple[str, str, Callable[[], object]]] = []
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"FaultyStore({self.inner!r})"

    # -- Programming ------------------------------------------------------------------------------------

    def inject(
        self,
        fault: Fault | BaseException,
        operation: str = "create",
        name: str = "*",
        *,
        times: int | None = 1,
        skip: int = 0,
    ) -> None:
        """Spoil the next calls that match.

        Of several matching faults the oldest one that is not used up happens.

        Parameters
        ----------
        fault
            What happens; an exception is raised in place of the call.
        operation, name
            Shell patterns for the call and its object; ``*`` matches slashes, too.
        times
            How many calls to spoil. None: all.
        skip
            How many matching calls to let pass before.

        Raises
        ------
        ConfigError
            No operation matches, or a fault other than ``FAIL_BEFORE`` is asked of a call that changes nothing.
        """
        matching = {candidate for candidate in _CHANGING | _READING if fnmatchcase(candidate, operation)}
        if not matching:
            raise ConfigError(f"no operation matches {operation!r}; there are {sorted(_CHANGING | _READING)}")
        if isinstance(fault, Fault) and fault is not Fault.FAIL_BEFORE and matching & _READING:
            raise ConfigError(
                f"{fault} of {sorted(matching & _READING)} means nothing: they change nothing; "
                f"name one of {sorted(_CHANGING)}, or inject Fault.FAIL_BEFORE"
            )
        with self._lock:
            self._rules.append(_Rule(fault, operation, name, skip, times))

    def heal(self) -> None:
        """Forget all faults that have not fired. Delayed calls stay delayed."""
        with self._lock:
            self._rules.clear()

    @property
    def delayed(self) -> list[tuple[str, str]]:
        """Operation and name of the calls that wait for `release`, oldest first."""
        with self._lock:
            return [(operation, name) for operation, name, _ in self._delayed]

    def release(self, name: str = "*") -> list[EosLogError | None]:
        """Let delayed calls happen now.

        Parameters
        ----------
        name
            A shell pattern for their objects.

        Returns
        -------
        list of EosLogError or None
            How each call ended, the oldest first.
        """
        with self._lock:
            due = [call for call in self._delayed if fnmatchcase(call[1], name)]
            self._delayed = [call for call in self._delayed if call not in due]
        return [_outcome(call) for _, _, call in due]

    def count(self, operation: str = "*", name: str = "*") -> int:
        """Count calls of the journal.

        Parameters
        ----------
        operation, name
            Shell patterns for the call and its object.

        Returns
        -------
        int
            How many match.
        """
        with self._lock:
            return sum(
                fnmatchcase(c.operation, operation) and fnmatchcase(c.name, name) for c in self.journal
            )

    # -- One call ---------------------------------------------------------------------------------------

    def _call(self, operation: str, name: str, call: Callable[[], T]) -> T:
        with self._lock:
            fault = next((rule.fault for rule in self._rules if rule.fires(operation, name)), None)
        error: type[BaseException] | None = None
        try:
            return self._spoil(fault, operation, name, lambda: self._hooked(operation, name, call))
        except BaseException as raised:
            error = type(raised)
            raise
        finally:
            with self._lock:
                self.journal.append(Call(operation, name, error))

    def _hooked(self, operation: str, name: str, call: Callable[[], T]) -> T:
        self.before(operation, name)
        result = call()
        self.after(operation, name)
        return result

    def _spoil(
        self, fault: Fault | BaseException | None, operation: str, name: str, call: Callable[[], T]
    ) -> T:
        if isinstance(fault, BaseException):
            raise fault
        if fault is None:
            return call()
        if fault is Fault.DUPLICATE:
            with suppress(EosLogError):
                call()
            return call()
        said = f"{self.url}: injected {fault}: {operation} {name!r}"
        if fault is Fault.FAIL_BEFORE:
            raise StoreUnavailableError(f"{said} was not done; try again")
        if fault is Fault.FAIL_AFTER:
            with suppress(EosLogError):  # a refusal would be lost with the reply too
                call()
        if fault is Fault.DELAYED:
            with self._lock:
                self._delayed.append((operation, name, call))
        raise OutcomeUnknownError(f"{said} may or may not be done; repeat the call")


def _outcome(call: Callable[[], object]) -> EosLogError | None:
    try:
        call()
    except EosLogError as error:
        return error
    return None


def _do_nothing(operation: str, name: str) -> None:
    pass
