"""How long calls took, as histograms: cheap to record, and read by `spark_eos.monitoring` when it is asked."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from spark_eos.storage.forks import Lock

T = TypeVar("T")

MOST_NOTED = 10_000
"""So many calls are noted at most before they are sorted: some 1 MB."""

OF_REQUESTS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
"""The bounds, in seconds, for requests to a store."""

Observer = Callable[[tuple[str, ...], float], None]


class Spread(NamedTuple):
    """How many values there were up to each bound, and above the last one; their sum."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float


class _Histogram:
    __slots__ = ("counts", "sum")

    def __init__(self, buckets: int) -> None:
        self.counts, self.sum = [0] * buckets, 0.0


class Durations:
    """Histograms of seconds, by labels. Safe to share between threads.

    A call is only noted, without a lock; it is sorted into its bucket when the histograms are read, or many are noted.
    """

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._lock = Lock()
        self._noted: deque[tuple[tuple[str, ...], float]] = deque()
        self._histograms: dict[tuple[str, ...], _Histogram] = {}
        self.observers: tuple[Observer, ...] = ()
        """Called with the labels and the seconds of each record: OpenTelemetry has no other way to take histograms."""

    def record(self, labels: tuple[str, ...], seconds: float) -> None:
        """A call with these labels took so long."""
        self._noted.append((labels, seconds))
        if len(self._noted) >= MOST_NOTED:
            self._sort()
        for observer in self.observers:
            observer(labels, seconds)

    def spreads(self) -> dict[tuple[str, ...], Spread]:
        """All that was recorded, by labels."""
        self._sort()
        with self._lock:
            return {
                labels: Spread(self._bounds, tuple(histogram.counts), histogram.sum)
                for labels, histogram in sorted(self._histograms.items())
            }

    def _sort(self) -> None:
        with self._lock:
            for labels, seconds in taken_out(self._noted):
                histogram = self._histograms.get(labels)
                if histogram is None:
                    histogram = self._histograms[labels] = _Histogram(len(self._bounds) + 1)
                histogram.counts[bisect_left(self._bounds, seconds)] += 1
                histogram.sum += seconds


def taken_out(noted: deque[T]) -> Iterator[T]:
    """What is in a queue now, taken out of it; other threads may go on filling it."""
    for _ in range(len(noted)):
        yield noted.popleft()
