"""The points of a store whose requests are measured."""

from __future__ import annotations

from collections.abc import Iterable

from spark_eos.errors.hidden import safe_url
from spark_eos.extensions.metrics.points import Histogram, Point, point
from spark_eos.monitoring.measured_store import MeasuredStore


class StoreSource:
    """A measured store."""

    def __init__(self, store: MeasuredStore) -> None:
        self._store = store

    def points(self) -> Iterable[Point]:
        """Bytes that were read and written."""
        url = safe_url(self._store.url)
        return [point("eoslog.storage.io", size, url, verb) for verb, size in self._store.bytes_by_verb()]

    def histograms(self) -> Iterable[Histogram]:
        """How long requests took."""
        at = (safe_url(self._store.url), self._store.system)
        return (Histogram("db.client.operation.duration", at, self._store.durations),)
