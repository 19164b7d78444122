"""Everything that one registry exports: sources that come and go, and their points under one roof."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from itertools import chain

from spark_eos.clients.durations import Spread
from spark_eos.extensions.metrics.client_points import commit_points, read_point
from spark_eos.extensions.metrics.points import Collected, Point

__all__ = ["Sources"]

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
            self._sources = tuple(one for one in self._sources if one is not source)

    def collect(self) -> dict[str, dict[tuple[str, ...], Point]]:
        """All points by the metric's name and the labels. Of several with the same labels there is the sum."""
        found: dict[str, dict[tuple[str, ...], Point]] = {}
        for one in self._points():
            known = found.setdefault(one.metric.name, {})
            before = known.get(one.labels)
            known[one.labels] = one if before is None else one._replace(value=_added(before.value, one.value))
        return found

    def _points(self) -> Iterator[Point]:
        counted: set[int | str] = set()
        for source in self._sources:
            if getattr(source, "is_gone", False):
                self.remove(source)
                continue
            try:
                yield from [
                    *source.points(),
                    *chain.from_iterable(one.points() for one in source.histograms()),
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


def _added(one: float | Spread, other: float | Spread) -> float | Spread:
    if isinstance(one, Spread) and isinstance(other, Spread):
        counts = tuple(map(sum, zip(one.counts, other.counts, strict=True)))
        return Spread(one.bounds, counts, one.sum + other.sum)
    assert not isinstance(one, Spread)
    assert not isinstance(other, Spread)
    return one + other
