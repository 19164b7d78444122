"""Points: values of metrics at one moment, as all collectors give them and both exporters take them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from spark_eos.clients.durations import Durations, Spread
from spark_eos.extensions.metrics.metric import Kind, Metric
from spark_eos.extensions.metrics.table import METRICS


class Point(NamedTuple):
    """A value of a metric, with the values of its labels in the order of the table."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | Spread


class Histogram(NamedTuple):
    """A histogram's records: its metric's name, and the first labels; those of the records are the others."""

    name: str
    first: tuple[str, ...]
    durations: Durations

    def points(self) -> Iterable[Point]:
        """What was recorded until now."""
        return [
            point(self.name, spread, *self.first, *labels)
            for labels, spread in self.durations.spreads().items()
        ]


class Collected(Protocol):
    """What can be exported."""

    def points(self) -> Iterable[Point]:
        """The values now, but for histograms. Raises nothing, and does not wait for long."""

    def histograms(self) -> Iterable[Histogram]:
        """The histograms."""


def point(name: str, value: float | Spread, *labels: str | int) -> Point:
    """A point of the metric ``name`` of the table. Raises ``KeyError`` or ``ValueError`` for what is not in it."""
    metric = METRICS[name]
    if len(labels) != len(metric.labels) or isinstance(value, Spread) != (metric.kind is Kind.HISTOGRAM):
        raise ValueError(
            f"{name} has the labels {metric.labels} and is a {metric.kind.value}: {labels}, {value}"
        )
    return Point(metric, tuple(map(_clean, labels)), value)


def _clean(label: str | int) -> str:
    """A label that can be encoded: a path may have bytes that are no UTF-8."""
    return str(label).encode("utf-8", "replace").decode("utf-8")
