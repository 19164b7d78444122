"""How long calls took, as histograms: cheap to record, and read by `spark_eos.monitoring` when it is asked."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

from spark_eos.storage.forks import Lock

__all__ = ["Durations", "Spread"]

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
    """Histograms of seconds, by labels. Safe to share between threads."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._lock = Lock()
        self._known: dict[tuple[str, ...], _Histogram] = {}
        self.observers: tuple[Observer, ...] = ()
        """Called with the labels and the seconds of each record: OpenTelemetry has no other way to take histograms."""

    def record(self, labels: tuple[str, ...], seconds: float) -> None:
        """A call with these labels took so long."""
        at = bisect_left(self._bounds, seconds)
        with self._lock:
            one = self._known.get(labels)
            if one is None:
                one = self._known[labels] = _Histogram(len(self._bounds) + 1)
            one.counts[at] += 1
            one.sum += seconds
        for observer in self.observers:
            observer(labels, seconds)

    def spreads(self) -> dict[tuple[str, ...], Spread]:
        """All that was recorded, by labels."""
        with self._lock:
            return {
                labels: Spread(self._bounds, tuple(one.counts), one.sum)
                for labels, one in sorted(self._known.items())
            }
