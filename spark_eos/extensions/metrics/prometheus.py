"""Points for Prometheus, by its own client library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from spark_eos.clients.durations import Spread
from spark_eos.extensions.metrics.metric import Kind, Metric
from spark_eos.extensions.metrics.points import Point
from spark_eos.extensions.metrics.sources import Sources
from spark_eos.extensions.metrics.table import METRICS
from spark_eos.storage.forks import Lock

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class SourcesCollector:
    """A collector of Prometheus's client: all sources of one registry, each metric once."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def describe(self) -> Iterable[Any]:
        """Nothing: the registry must not collect to learn the names."""
        return ()

    def collect(self) -> Iterator[Any]:
        """The metrics that have points, in the order of the table."""
        collected = self._sources.collect()
        for name, metric in METRICS.items():
            if name in collected:
                yield _family(metric, collected[name].values())


def sources_of(registry: CollectorRegistry) -> Sources:
    """What is exported by a registry. The first time, a collector is registered."""
    with _KNOWN_LOCK:
        sources = _KNOWN.get(registry)
        if sources is None:
            sources = _KNOWN[registry] = Sources()
            registry.register(SourcesCollector(sources))
    return sources


def _family(metric: Metric, points: Iterable[Point]) -> Any:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    name, labels, text = metric.prometheus_name, metric.prometheus_labels, f"{metric.meaning}."
    if metric.kind is Kind.HISTOGRAM:
        histogram = HistogramMetricFamily(name, text, labels=labels)
        for point in points:
            assert isinstance(point.value, Spread)
            histogram.add_metric(point.labels, *_buckets(point.value))
        return histogram
    made = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = made(name, text, labels=labels)
    for point in points:
        assert not isinstance(point.value, Spread)
        family.add_metric(point.labels, point.value)
    return family


def _buckets(spread: Spread) -> tuple[list[tuple[str, float]], float]:
    bounds = [*map(str, spread.bounds), "+Inf"]
    return list(zip(bounds, map(float, accumulate(spread.counts)), strict=True)), spread.sum


_KNOWN: WeakKeyDictionary[Any, Sources] = WeakKeyDictionary()
_KNOWN_LOCK = Lock()
