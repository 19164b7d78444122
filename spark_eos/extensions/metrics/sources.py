"""Everything that one registry exports: sources that come and go, and their points under one roof."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from itertools import chain

from spark_eos.clients.durations import Spread
from spark_eos.extensions.metrics.client_points import commit_points, read_point
from spark_eos.extensions.metrics.points import Collected, Point

_LOG = logging.getLogger(__name__)


class Sources:
    """Sources of points. Safe to share between threads. A source whose object is gone is dropped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sources: tuple[Collected, ...] = ()

    def add(self, source: Collected) -> None:
        """Export it from now on."""
        with self._lock:
            self._sources = (*self._sources, source)

    def remove(self, source: Collected) -> None:
        """Export it no more; it is no error if it was removed before."""
        with self._lock:
            self._sources = tuple(registered for registered in self._sources if registered is not source)

    def collect(self) -> dict[str, dict[tuple[str, ...], Point]]:
        """All points by the metric's name and the labels. Of several with the same labels there is the sum."""
        collected: dict[str, dict[tuple[str, ...], Point]] = {}
        for point in self._points():
            by_labels = collected.setdefault(point.metric.name, {})
            before = by_labels.get(point.labels)
            by_labels[point.labels] = (
                point if before is None else point._replace(value=_added(before.value, point.value))
            )
        return collected

    def _points(self) -> Iterator[Point]:
        counted: set[int | str] = set()
        for source in self._sources:
            if getattr(source, "is_gone", False):
                self.remove(source)
                continue
            try:
                yield from [
                    *source.points(),
                    *chain.from_iterable(histogram.points() for histogram in source.histograms()),
                ]
                log = getattr(source, "log", None)
                # Clients of one process share a log, and so its counts.
                if log is not None and id(log.commit_counts) not in counted:
                    counted.add(id(log.commit_counts))
                    yield from [*commit_points(log)]
                if (
                    log is not None and log.url not in counted
                ):  # What was read is counted for all of the process.
                    counted.add(log.url)
                    yield read_point(log)
            except Exception as error:  # noqa: BLE001  (the other sources are exported all the same)
                _LOG.warning("metrics of %r cannot be had: %s", source, error)


def _added(value: float | Spread, other: float | Spread) -> float | Spread:
    if isinstance(value, Spread) and isinstance(other, Spread):
        counts = tuple(map(sum, zip(value.counts, other.counts, strict=True)))
        return Spread(value.bounds, counts, value.sum + other.sum)
    assert not isinstance(value, Spread)
    assert not isinstance(other, Spread)
    return value + other
