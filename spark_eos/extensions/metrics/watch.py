"""A log that is watched: its points, for any number of scrapes at the cost of one poll of the log a second."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

from spark_eos.errors import CorruptRecordError, DivergedLogError, EosLogError, ObjectNotFoundError
from spark_eos.errors.hidden import safe_url
from spark_eos.extensions.metrics.client_points import StoreSource
from spark_eos.extensions.metrics.debt import Snapshots, garbage
from spark_eos.extensions.metrics.entry_counts import EntryCounts
from spark_eos.extensions.metrics.periodic import Periodic
from spark_eos.extensions.metrics.points import Histogram, Point, point
from spark_eos.extensions.metrics.state_points import LogLook, state_points, trouble_points
from spark_eos.log import paths
from spark_eos.log.clock import SYSTEM, Clock, Retry
from spark_eos.log.environment import Environment
from spark_eos.log.log import Log
from spark_eos.monitoring.lag import lags_at
from spark_eos.monitoring.measured_store import LookingStore
from spark_eos.monitoring.sizes import Sizes
from spark_eos.monitoring.status import Space, of_error, of_space, silent_or_refused, space_of
from spark_eos.monitoring.troubles import of_state
from spark_eos.monitoring.troubles.trouble import Trouble
from spark_eos.protocol.state import State
from spark_eos.storage import NO_SETTINGS, Settings, Store, open_store
from spark_eos.storage.two_stores import is_apart
from spark_eos.storage.urls import data_store

POLL_S = 1.0
"""A log is polled once in so many seconds at most."""

DEBT_S = 60.0
"""Snapshots are listed once in so many seconds at most."""

GARBAGE_S = 3600.0
"""All files are listed once in so many seconds at most."""

TIMEOUT_S = 5.0
"""A scrape waits so long for a look at the log. Prometheus waits 10 s for a scrape."""

_RETRY = Retry(deadline_s=1.0)
_LOG = logging.getLogger(__name__)


class _LookResult(NamedTuple):
    """What a look found: the points of the log; those of its disk and of what is wrong alone, if it failed."""

    points: tuple[Point, ...]
    took_s: float
    is_up: bool


class LogWatch:
    """Watches one log. Looking never writes: the store that it uses refuses to.

    Nothing happens until `points` is called. Each look is made in a thread of its own, so that a store that hangs holds
    up no scrape: ``eoslog.up`` is 0 then, and the other metrics of the log are left out until it answers.

    ``by_partition``: also points of single partitions. ``garbage_s``: all files of the log are listed once in so many
    seconds at most; None: never.
    """

    def __init__(
        self,
        url: str | Store,
        settings: Settings = NO_SETTINGS,
        *,
        by_partition: bool = False,
        garbage_s: float | None = GARBAGE_S,
        timeout_s: float = TIMEOUT_S,
        clock: Clock = SYSTEM,
        now: Callable[[], float] = time.monotonic,
        space: Callable[[Store], Space | None] = space_of,
    ) -> None:
        self.store = LookingStore(url if isinstance(url, Store) else open_store(url, settings))
        self._requests = StoreSource(self.store)
        self.label = safe_url(self.store.url)
        self._settings = settings
        self._by_partition = by_partition
        self._timeout_s = timeout_s
        self._clock = clock
        self._space = space
        self._counts, self._sizes, self._snapshots = EntryCounts(), Sizes(), Snapshots()
        self._log: Log | None = None
        self._first: Hashable | None = None
        self._errors: dict[str, int] = {}
        self._reported = ""
        self.error: Exception | None = None
        """Why a look has failed; None once the log was read again."""
        self._newest = Periodic(self._look, POLL_S, now)
        self._debt = Periodic(lambda: self._look_seldom(self._look_at_debt), DEBT_S, now)
        self._garbage = (
            None
            if garbage_s is None
            else Periodic(lambda: self._look_seldom(lambda log: garbage(log, self.label)), garbage_s, now)
        )

    def histograms(self) -> Iterable[Histogram]:
        """How long the requests of the looks took."""
        return self._requests.histograms()

    def points(self, *, wait: bool = False) -> list[Point]:
        """All points now. ``wait``: for what is looked at seldom, too, however long that takes.

        Raises nothing.
        """
        in_time = self._newest.get(None if wait else self._timeout_s)
        latest = self._newest.latest
        is_up = in_time and latest is not None and latest.is_up
        points = [point("eoslog.up", int(is_up), self.label)]
        if latest is not None:
            points.append(point("eoslog.look.duration", latest.took_s, self.label))
        if latest is not None and in_time:
            points += latest.points
        if is_up:
            for seldom in (self._debt, self._garbage):
                if seldom is not None:
                    # A scrape takes what there is: a listing may last for minutes.
                    seldom.get(None if wait else 0.0)
                    points += seldom.latest or ()
        errors = sorted(self._errors.items())
        points += [point("eoslog.look.errors", count, self.label, error) for error, count in errors]
        points += self._requests.points()
        return points

    # -- Looking, in the threads ----------------------------------------------------------------------------

    def _look(self) -> _LookResult:
        begun = time.perf_counter()
        try:
            points = tuple(self._points())
        except Exception as error:  # noqa: BLE001  (a scrape that fails tells nothing)
            self._failed(error)
            troubles = [of_error(error, self._settings)] if isinstance(error, EosLogError) else []
            points = tuple(self._wrong(troubles, self._spaces(None)))
            if isinstance(error, (CorruptRecordError, DivergedLogError)):
                self._log = None  # Else it goes on where it stands: what was opened again would miss entries.
            return _LookResult(points, time.perf_counter() - begun, is_up=False)
        self._reported, self.error = "", None
        return _LookResult(points, time.perf_counter() - begun, is_up=True)

    def _points(self) -> Iterable[Point]:
        log = self._log
        if log is None or not self._is_there() or not log.is_believed():
            log = Log.open(self.store, self._clock, _RETRY, environment=Environment(apply=self._counts.apply))
            self._counts.begin(log.state)
            self._log, self._first = log, self._first_entry()
        state = log.follow()
        now_ms = self._clock.now_ms()
        self._counts.forget(state)
        sizes = self._sizes.of(state)
        lags = tuple(lags_at(log, state, now_ms))
        silent, refused = silent_or_refused(log, state, now_ms, self._settings)
        seen = LogLook(self.label, state, now_ms, self._counts, sizes, lags, silent, self._by_partition)
        small = {key: size.small for key, size in sizes.items()}
        troubles = of_state.troubles_of(of_state.LogView(state, now_ms, lags, small, silent or ()))
        return [*state_points(seen), *self._wrong([*refused, *troubles], self._spaces(state))]

    def _spaces(self, state: State | None) -> list[Space]:
        """Of the disk, and of that of the data, if it is apart."""
        inner = self.store.inner
        spaces = [self._space(inner)]
        if state is not None and is_apart(state.data_url):
            spaces.append(self._space(data_store(state.data_url, inner.settings)))
        return [space for space in spaces if space is not None and space.total]

    def _wrong(self, troubles: Iterable[Trouble], spaces: Sequence[Space]) -> Iterable[Point]:
        of_disks = (trouble for space in spaces for trouble in of_space(space))
        yield from trouble_points(self.label, [*troubles, *of_disks])
        if spaces:
            fuller = min(spaces, key=lambda space: space.free / space.total)
            yield point("eoslog.disk.free", fuller.free, self.label)
            yield point("eoslog.disk.size", fuller.total, self.label)

    def _first_entry(self) -> Hashable | None:
        """Of a log that is gone no file: opening it again says what is there."""
        try:
            return self.store.identity(paths.entry(0))
        except ObjectNotFoundError:
            return None

    def _is_there(self) -> bool:
        """Whether the first entry is still the same file: where that costs no request, it is asked each time."""
        return self._first_entry() == self._first

    def _look_at_debt(self, log: Log) -> list[Point]:
        return self._snapshots.look(log, self._clock.now_ms(), self.label)

    def _look_seldom(self, look: Callable[[Log], list[Point]]) -> list[Point]:
        log = self._log
        try:
            return [] if log is None else look(log)
        except Exception as error:  # noqa: BLE001  (the other metrics are good)
            self._failed(error)
            return []

    def _failed(self, error: Exception) -> None:
        """Count it, and say it once: it may come back with each scrape."""
        code = error.code if isinstance(error, EosLogError) else type(error).__name__
        self.error = error
        self._errors[code] = self._errors.get(code, 0) + 1
        text = self._settings.scrub(str(error))
        if text != self._reported:
            self._reported = text
            _LOG.warning("%s cannot be looked at: %s", self.label, text)
