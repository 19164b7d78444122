"""Crash points: a job runs again and again, and dies or meets trouble at each of its store operations once.

The first run is left alone, and its operations are counted. Then, for each operation and each `Trouble` that it can
meet, the job runs on a store of its own. If the job did not get to its end, ``recover`` does what the application does
in a new process. ``check`` says whether all is well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from spark_eos.errors import ConfigError, EosLogError, IllegalStateError, ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.invariants import InvariantError, apply_checked
from spark_eos.protocol.state import EMPTY, State
from spark_eos.storage.memory import MemoryStore
from spark_eos.storage.store import Store
from spark_eos.testing.crash_store import Crashed, CrashStore, Operation, Trouble

_READING = frozenset({"read", "size", "age_s", "now_ms", "list", "ensure_durable"})
_IN_DOUBT = frozenset({Trouble.REPLY_LOST, Trouble.REQUEST_LOST})
"""Of changes only: a read without a reply changes nothing."""
_CREATING = frozenset({"create", "upload"})


class CrashPointsError(AssertionError):
    """Points that failed; the text names them and says how to run one of them alone."""


@dataclass(frozen=True)
class CrashPoint:
    """One run of the job with one trouble.

    Attributes
    ----------
    index
        The number of the operation, from 0.
    operation, name
        The operation, and the name of its object.
    trouble
        What the operation met.
    number, total
        The number of this run, from 1, and the number of all runs.
    failure
        What went wrong; None: all was well.
    same_as
        The `key` of a crash that leaves the same objects and notes: that run stands for both.
    """

    index: int
    operation: str
    name: str
    trouble: Trouble
    number: int
    total: int
    failure: BaseException | None = None
    same_as: str | None = None

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
    """Run a job with each trouble at each of its operations, and yield each point when it is done.

    Parameters
    ----------
    scenario
        The job: one process. It gets a `CrashStore`, gives it to `Log.open_or_create`, and calls again what raises a
        `RetriableError`, as the application does. ``store.note(...)`` notes what the job was promised. The job has to
        do the same operations in the same order in each run; names may differ.
    recover
        Runs as the next process if the job crashed or ended with an `EosLogError`.
    check
        Runs last, as one more process, and raises `AssertionError` if something is wrong; ``store.notes`` has the
        notes.
    store_factory
        Makes the store of each run: empty, or always with the same objects. A producer that fills it waits for each
        record: else time decides how many files there are.
    troubles
        The troubles to try.
    only
        Run one point alone, by its `CrashPoint.key`.

    Yields
    ------
    CrashPoint
        In the order of the operations.

    Raises
    ------
    CrashPointsError
        At the end, if a point failed; the first failure is its cause.
    ConfigError
        ``only`` names no point.
    IllegalStateError
        A run did other operations than the one before.

    Examples
    --------
    >>> from spark_eos import Log, Producer
    >>> from spark_eos.testing import Trouble, check_log, crash_points
    >>> def job(store):
    ...     with Producer(Log.open_or_create(store), {"linger.ms": 0}) as producer:
    ...         future = producer.send("orders", b"one")
    ...     future.result()
    ...     store.note("sent")
    >>> def check(store):
    ...     ends = [partition.end for partition in check_log(store).partitions.values()]
    ...     assert ends == [1] if "sent" in store.notes else sum(ends) <= 1
    >>> points = crash_points(job, recover=lambda store: None, check=check, troubles=[Trouble.CRASH_AFTER])
    >>> all(point.failure is None for point in points)
    True

    Notes
    -----
    docs/quality/testing.md.
    """
    _hush_dead_threads()
    calm = CrashStore(store_factory())
    scenario(calm)
    check(calm.restarted())
    points = _points(calm, troubles, only)
    results: dict[str, CrashPoint] = {}
    for number, point in enumerate(points, 1):
        earlier = results.get(point.same_as or "")
        if earlier is None:
            store = CrashStore(store_factory(), at=point.index, trouble=point.trouble)
            failure = _run(store, scenario, recover, check)
            _check_same(calm.operations, store.operations, point)
            point = replace(point, same_as=None, failure=failure)  # noqa: PLW2901  (what is known of it grows)
        else:
            point = replace(point, failure=earlier.failure)  # noqa: PLW2901  (the same)
        results[point.key] = replace(point, number=number, total=len(points))
        yield results[point.key]
    failed = [point for point in results.values() if point.failure is not None]
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
            f"trouble ({', '.join(trouble.value for trouble in troubles)}; calls that change nothing cannot lose their "
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


def _check_same(counted: list[Operation], actual: list[Operation], point: CrashPoint) -> None:
    """The run was the counted one, up to its trouble."""
    end = point.index + 1
    if [call.operation for call in actual[:end]] != [call.operation for call in counted[:end]]:
        place = next(
            (n for n in range(end) if n >= len(actual) or actual[n].operation != counted[n].operation), end
        )
        raise IllegalStateError(
            f"the scenario is not the same in each run: operation {place} was {counted[place]}, and is "
            f"{actual[place] if place < len(actual) else 'missing'} now. Let no thread, time or chance decide what it "
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
    """Report no thread that ended because its process is dead; pytest reports threads that fail."""
    hook = threading.excepthook
    if getattr(hook, "hushes", None) is Crashed:
        return

    def hush(args: threading.ExceptHookArgs) -> None:
        if not issubclass(args.exc_type, Crashed):
            hook(args)

    hush.hushes = Crashed  # type: ignore[attr-defined]  # to be known by
    threading.excepthook = hush  # For good: threads may wake up, and die, any time later.


def check_log(store: Store) -> State:
    """Read the log in a store from its first entry, and check every step.

    Parameters
    ----------
    store
        The store. It may be empty.

    Returns
    -------
    State
        The state after the newest entry: ``topics``, ``partitions``, ``offsets`` and more.

    Raises
    ------
    AssertionError
        A step breaks an invariant of the protocol, or a file that the log lists is missing or has another size.

    Examples
    --------
    >>> from spark_eos import Admin, Log
    >>> from spark_eos.storage import MemoryStore
    >>> from spark_eos.testing import check_log
    >>> store = MemoryStore()
    >>> Admin(Log.create(store)).create_topic("orders")
    >>> list(check_log(store).topics)
    ['orders']
    """
    state = EMPTY
    while (data := _read(store, paths.entry(state.seq + 1))) is not None:
        seq = state.seq + 1
        name = paths.entry(seq)
        try:
            state, _ = apply_checked(state, decode_entry(data, seq, name))
        except InvariantError as error:
            raise AssertionError(f"{name}: {error}") from error
    sizes = {info.name: info.size for folder in (paths.DATA, paths.TABLES) for info in store.list(folder)}
    for key, partition in state.partitions.items():
        for row in partition.index.scan(0):
            if row.file is not None and sizes.get(row.file.name) != row.file.size:
                size = sizes.get(row.file.name)
                raise AssertionError(
                    f"{row.file.name}, which partition {key} lists at offset {row.base_offset} with "
                    f"{row.file.size} bytes, {'is missing' if size is None else f'has {size} bytes'}"
                )
    return state


def _read(store: Store, name: str) -> pa.Buffer | None:
    try:
        return store.read(name)
    except ObjectNotFoundError:
        return None
