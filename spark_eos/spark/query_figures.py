"""What a listener has heard of queries, as metrics (`spark_eos.monitoring.register`)."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from spark_eos.errors import CorruptRecordError


class QueryFigures:
    """Sums over the progress reports of each query, and what the last one said.

    Of a query that ended it is kept alone how often it has met damage.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._figures: dict[str, tuple[str, dict[str, float]]] = {}
        self._damaged: dict[str, tuple[str, float]] = {}

    def add(self, report: dict[str, Any]) -> None:
        """A progress, as `spark_eos.spark.progress` reports it."""
        sources = [source.get("metrics") or {} for source in report["sources"]]
        sink = report["sink"].get("metrics") or {}
        sums = {
            "input.messages": float(report.get("numInputRows") or 0),
            "input.io": _sum(sources, "numInputBytes"),
            "output.messages": float(sink.get("numOutputRecords", 0)),
            "output.io": float(sink.get("numOutputBytes", 0)),
        }
        newest = {
            "batch": float(report["batchId"]),
            "batch.duration": (report.get("durationMs") or {}).get("triggerExecution", 0) / 1000,
        }
        behind = [
            float(metrics["maxOffsetsBehindLatest"])
            for metrics in sources
            if "maxOffsetsBehindLatest" in metrics
        ]
        if behind:
            newest["lag"] = max(behind)
        if any("estimatedTotalBytesBehindLatest" in metrics for metrics in sources):
            newest["lag.size"] = _sum(sources, "estimatedTotalBytesBehindLatest")
        with self._lock:
            _, before = self._figures.get(report["id"], ("", {}))
            added = {name: before.get(name, 0.0) + value for name, value in sums.items()}
            self._figures[report["id"]] = (report.get("name") or report["id"], {**before, **added, **newest})

    def begin(self, query_id: str, name: str) -> None:
        """The query has begun, and has met no damage yet: without a figure the first time would be no increase."""
        with self._lock:
            self._damaged.setdefault(query_id, (name, 0.0))

    def end(self, query_id: str, error: str) -> None:
        """The query has ended, with this error; empty if with none."""
        with self._lock:
            self._figures.pop(query_id, None)
            name, times = self._damaged.pop(query_id, (query_id, 0.0))
            times += CorruptRecordError.__name__ in error
            if times:
                self._damaged[query_id] = name, times

    def all(self) -> list[tuple[str, str, float]]:
        """The query, what it is, and how much."""
        with self._lock:
            figures, damaged = [*self._figures.values()], [*self._damaged.values()]
        all_figures = [(query, name, value) for query, values in figures for name, value in values.items()]
        return all_figures + [(query, "corrupt", times) for query, times in damaged]


def _sum(metrics: Iterable[dict[str, Any]], name: str) -> float:
    return sum(float(source.get(name, 0)) for source in metrics)
