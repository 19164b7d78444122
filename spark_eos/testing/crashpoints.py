"""Crash points: a job is run again and again, and dies or meets trouble at each of its store operations once.

    def job(store):  # a process: opens the log, works, notes what it was told
        producer = Producer(Log.open_or_create(store), {"transactional.id": "job"})
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("topic", "value")
        producer.commit_transaction()
        store.note("sent")

    def check(store):
        state = check_log(store)
        ...  # the value is there once, or not at all and "sent" is not in store.notes

    for point in crash_points(job, recover=lambda store: None, check=check):
        print(point)

The first run is left alone: its operations are counted. Then, for each operation and each `Trouble` it can
meet, the job runs on a store of its own, `recover` does what the application does afterwards in a new process
(if the job did not get to its end), and `check` says whether all is well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple, TypeVar

import pyarrow as pa

from spark_eos.errors import (
    ConfigError,
    EosLogError,
    IllegalStateError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreUnavailableError,
)
from spark_eos.log import paths
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.invariants import InvariantError, apply_checked
from spark_eos.protocol.state import EMPTY, State
from spark_eos.storage.memory import MemoryStore
from spark_eos.storage.store import Store
from spark_eos.testing.wrapped_store import WrappedStore

__all__ = [
    "CrashPoint",
    "CrashPointsError",
    "CrashStore",
    "Crashed",
    "Operation",
    "Trouble",
    "check_log",
    "crash_points",
]

T = TypeVar("T")


class Trouble(Enum):
    """What an operation can meet."""

    CRASH_BEFORE = "crash_before"
    """The process dies; nothing is done."""
    CRASH_AFTER = "crash_after"
    """It is done; the process dies before it hears so."""
    REPLY_LOST = "reply_lost"
    """`OutcomeUnknownError`, although it is done."""
    REQUEST_LOST = "request_lost"
    """`OutcomeUnknownError`, and nothing is done."""
    UNAVAILABLE = "unavailable"
    """`StoreUnavailableError`; nothing is done."""
    CONFLICT = "conflict"
    """`ObjectExistsError` for a free name; nothing is done. S3 says so of a create that ran into another request."""

    @property
    def is_crash(self) -> bool:
        """Whether the process dies."""
        return self in {Trouble.CRASH_BEFORE, Trouble.CRASH_AFTER}


_READING = frozenset({"read", "size", "age_s", "now_ms", "list", "ensure_durable"})
_IN_DOUBT = frozenset({Trouble.REPLY_LOST, Trouble.REQUEST_LOST})
"""Of changes only: who reads and hears nothing knows as much as before."""
_CREATING = frozenset({"create", "upload"})


class Operation(NamedTuple):
    """One call of the store: named as the methods of `Store`; ``list`` has the prefix for a name."""

    operation: str
    name: str


class Crashed(BaseException):
    """The process is dead: raised by the call that it dies in, and by whatever it still tries to do.

    No `Exception`, so that nothing that handles errors stops it. A thread ends with it without a word.
    """


class CrashPointsError(AssertionError):
    """Points that failed; the text names them and says how to run one of them alone."""


class CrashStore(WrappedStore):
    """``inner`` as one process sees it: counted, and with one trouble at operation number ``at``.

    After a crash every call raises `Crashed` and does nothing, also one of another thread or of a ``finally``.
    An upload is kept in memory and is one operation, at its end. ``process`` counts the processes, from 0 for
    the job itself. Safe to share between threads: one operation at a time.
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
        """What `note` was told, in this process and those before it."""
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
        """Remember, outside of the process, that something was promised or refused. The dead note nothing."""
        with self._lock:
            self._check_alive()
            self.notes = (*self.notes, what)

    def restarted(self) -> CrashStore:
        """The store as the next process sees it: no trouble any more. This process is dead from now on."""
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


@dataclass(frozen=True)
class CrashPoint:
    """One run with one trouble. ``failure`` is what went wrong in it, None if all was well."""

    index: int
    """The number of the operation, from 0."""
    operation: str
    name: str
    trouble: Trouble
    number: int
    """Which run this is, from 1, of ``total``."""
    total: int
    failure: BaseException | None = None
    same_as: str | None = None
    """The `key` of a crash that leaves the same objects and the same notes: that one was run for both."""

    @property
    def key(self) -> str:
        """What `crash_points` takes as ``only``."""
        return f"{self.index}:{self.trouble.value}"

    def __str__(self) -> str:
        failure = self.failure
        said = str(failure).split("\n", 1)[0]
        verdict = "ok" if failure is None else f"FAILED: {type(failure).__name__}: {said}"
        same = "" if self.same_as is None else f", same as {self.same_as}"
        return f"[{self.number}/{self.total}] {self.key} ({self.operation} {self.name!r}{same}): {verdict}"


def crash_points(
    scenario: Callable[[CrashStore], object],
    recover: Callable[[CrashStore], object],
    check: Callable[[CrashStore], object],
    store_factory: Callable[[], Store] = MemoryStore,
    *,
    troubles: Collection[Trouble] = tuple(Trouble),
    only: str | None = None,
) -> Iterator[CrashPoint]:
    """Run ``scenario`` with each trouble at each of its operations, and yield each point when it is done.

    ``scenario`` is one process. It gets a `CrashStore`, which it may pass to `Log.open_or_create`, and calls
    again what raises a `RetriableError`, as the application does; if an `EosLogError` ends it all the same, or
    a crash does, ``recover`` runs as the next process. ``check`` comes last, as one more, and raises
    `AssertionError` (or anything) if something is wrong. What the job was promised is in ``store.notes``.

    ``store_factory`` makes the store of each run: empty, or always with the same contents. The job has to do
    the same operations, in the same order, in each run; names may differ. ``troubles`` narrows what is tried,
    and ``only`` runs one point, by its `CrashPoint.key`.

    Raises `CrashPointsError` at the end if any point failed, the first failure being its cause, `ConfigError`
    if ``only`` names no point, `IllegalStateError` if a run differs from the one before, and whatever the
    undisturbed run raises.
    """
    _hush_dead_threads()
    calm = CrashStore(store_factory())
    scenario(calm)
    check(calm.restarted())
    points = _points(calm, troubles, only)
    done: dict[str, CrashPoint] = {}
    for number, point in enumerate(points, 1):
        known = done.get(point.same_as or "")
        if known is None:
            store = CrashStore(store_factory(), at=point.index, trouble=point.trouble)
            failure = _run(store, scenario, recover, check)
            _check_same(calm.operations, store.operations, point)
            point = replace(point, same_as=None, failure=failure)  # noqa: PLW2901  (what is known of it grows)
        else:
            point = replace(point, failure=known.failure)  # noqa: PLW2901  (the same)
        done[point.key] = replace(point, number=number, total=len(points))
        yield done[point.key]
    failed = [point for point in done.values() if point.failure is not None]
    if failed:
        raise CrashPointsError(_report(failed, len(points))) from failed[0].failure


def _points(calm: CrashStore, troubles: Collection[Trouble], only: str | None) -> list[CrashPoint]:
    """What is to be run, and what need not be, because an earlier crash leaves exactly the same behind."""
    points = []
    changes = 0
    crashes: dict[tuple[int, int], str] = {}
    for index, (call, noted) in enumerate(zip(calm.operations, calm.noted, strict=True)):
        reads = call.operation in _READING
        for trouble in Trouble:
            if trouble not in troubles or (reads and trouble in _IN_DOUBT):
                continue
            if trouble is Trouble.CONFLICT and call.operation not in _CREATING:
                continue
            point = CrashPoint(index, call.operation, call.name, trouble, 0, 0)
            if trouble.is_crash:
                left = (changes + (trouble is Trouble.CRASH_AFTER and not reads), noted)
                point = replace(point, same_as=crashes.setdefault(left, point.key))
            points.append(point)
        changes += not reads
    if only is None:
        return points
    chosen = [point for point in points if point.key == only]
    if not chosen:
        raise ConfigError(
            f"only={only!r} is no crash point: there are {len(calm.operations)} operations, from 0, each with a "
            f"trouble ({', '.join(one.value for one in troubles)}; calls that change nothing cannot lose their "
            "outcome, and only creates have conflicts), for instance '0:crash_before'"
        )
    return chosen


def _run(
    store: CrashStore,
    scenario: Callable[[CrashStore], object],
    recover: Callable[[CrashStore], object],
    check: Callable[[CrashStore], object],
) -> BaseException | None:
    """One run, and what went wrong in it."""
    ended = False
    try:
        scenario(store)
        ended = True
    except EosLogError:
        pass  # The application gave up, which it may.
    except (Exception, Crashed) as error:  # noqa: BLE001  (it is handed to the caller)
        if not store.is_dead:
            return error
    try:
        if store.is_dead or not ended:
            store = store.restarted()
            recover(store)
        check(store.restarted())
    except Exception as error:  # noqa: BLE001  (the same)
        return error
    return None


def _check_same(counted: list[Operation], seen: list[Operation], point: CrashPoint) -> None:
    """The run was the counted one, up to its trouble."""
    end = point.index + 1
    if [call.operation for call in seen[:end]] != [call.operation for call in counted[:end]]:
        place = next(
            (n for n in range(end) if n >= len(seen) or seen[n].operation != counted[n].operation), end
        )
        raise IllegalStateError(
            f"the scenario is not the same in each run: operation {place} was {counted[place]}, and is "
            f"{seen[place] if place < len(seen) else 'missing'} now. Let no thread, time or chance decide what it "
            "does, and let the store factory give equal stores"
        )


def _report(failed: list[CrashPoint], total: int) -> str:
    shown = "\n".join(f"  {point}" for point in failed[:20])
    more = f"\n  ... and {len(failed) - 20} more" if len(failed) > 20 else ""
    return (
        f"{len(failed)} of {total} crash points failed:\n{shown}{more}\n"
        f"To run the first of them alone: crash_points(..., only={failed[0].key!r})"
    )


def _hush_dead_threads() -> None:
    """A thread whose process is dead is no news, whoever wants to hear of threads that fail (pytest does)."""
    hook = threading.excepthook
    if getattr(hook, "hushes", None) is Crashed:
        return

    def hush(args: threading.ExceptHookArgs) -> None:
        if not issubclass(args.exc_type, Crashed):
            hook(args)

    hush.hushes = Crashed  # type: ignore[attr-defined]  # to be known by
    threading.excepthook = hush  # For good: threads may wake up, and die, any time later.


def check_log(store: Store) -> State:
    """Read the log in ``store`` from its first entry; the state it comes to (`EMPTY` if there is no log).

    Raises `AssertionError` if a step breaks an invariant (`spark_eos.protocol.invariants`), or a file that the
    log lists is missing or has another size than it was listed with.
    """
    state = EMPTY
    while (data := _read(store, paths.entry(state.seq + 1))) is not None:
        seq = state.seq + 1
        name = paths.entry(seq)
        try:
            state, _ = apply_checked(state, decode_entry(data, seq, name))
        except InvariantError as error:
            raise AssertionError(f"{name}: {error}") from error
    sizes = {info.name: info.size for info in store.list(paths.DATA)}
    for key, partition in state.partitions.items():
        for row in partition.index.scan(0):
            if row.file is not None and sizes.get(row.file.name) != row.file.size:
                found = sizes.get(row.file.name)
                raise AssertionError(
                    f"{row.file.name}, which partition {key} lists at offset {row.base_offset} with "
                    f"{row.file.size} bytes, {'is missing' if found is None else f'has {found} bytes'}"
                )
    return state


def _read(store: Store, name: str) -> pa.Buffer | None:
    try:
        return store.read(name)
    except ObjectNotFoundError:
        return None
