"""What a metric is: a row of the table (`spark_eos.extensions.metrics.table`), and the names of labels."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """What a metric is. A counter only rises, until its process starts again."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Source(Enum):
    """Who exports a metric."""

    LOG = "eoslog metrics"
    CLIENT = "a producer, consumer or log that is registered"
    STORE = "a store that is measured; eoslog metrics measures its own"
    QUERY = "a ProgressListener that is registered"


LABELS = {
    "eoslog.log": ("log", "The log's URL, without user, password, query and fragment."),
    "messaging.destination.name": ("topic", "The topic's name."),
    "messaging.destination.partition.id": ("partition", "The partition's number."),
    "messaging.consumer.group.name": ("group", "The consumer group's id."),
    "messaging.client.id": ("client", "`client.id` or `transactional.id` of the client, else a number."),
    "messaging.operation.name": ("operation", "What the client did: `send`, `commit`, `abort`, …"),
    "db.system.name": ("system", "The kind of store: `file`, `s3`, `az`, `gs`, …"),
    "db.operation.name": ("operation", "The store's verb: `read`, `create`, `list`, …"),
    "error.type": ("error", "The error's code (`docs/reference/errors.md`); empty: none."),
    "eoslog.outcome": ("outcome", "What became of it."),
    "eoslog.query": ("query", "The query: its transactional id; of a listener its name or id."),
    "eoslog.publication": ("publication", "The publication's name."),
    "eoslog.trouble": ("trouble", "The trouble, as `eoslog status` calls it."),
    "eoslog.level": ("level", "`critical`, `warning` or `note`."),
    "eoslog.about": ("about", "The group, query, topic, publication or id that it is about; empty: the log."),
}
"""Labels by OpenTelemetry's name of the attribute: Prometheus's name, and the meaning."""

_UNITS = {"s": "seconds", "By": "bytes"}


class Metric(NamedTuple):
    """A row of the table. ``like`` is the metric of Kafka or OpenTelemetry that means the same.

    ``unit`` is UCUM's, as OpenTelemetry has it; in braces is what is counted. ``labels`` are attributes of `LABELS`.
    ``bounds`` are the upper bounds of a histogram's buckets, in the unit.
    """

    name: str
    kind: Kind
    unit: str
    labels: tuple[str, ...]
    source: Source
    meaning: str
    like: str = ""
    bounds: tuple[float, ...] = ()

    @property
    def prometheus_name(self) -> str:
        """The name that Prometheus has: with the unit, and ``_total`` at the end of a counter's."""
        parts = [self.name.replace(".", "_")]
        if self.unit in _UNITS:
            parts.append(_UNITS[self.unit])
        if self.kind is Kind.COUNTER:
            parts.append("total")
        return "_".join(parts)

    @property
    def prometheus_labels(self) -> tuple[str, ...]:
        """The names that Prometheus's labels have."""
        return tuple(LABELS[label][0] for label in self.labels)


def gauge(
    name: str, unit: str, labels: tuple[str, ...], meaning: str, like: str = "", source: Source = Source.LOG
) -> Metric:
    """A gauge whose name begins with ``eoslog.``."""
    return Metric(f"eoslog.{name}", Kind.GAUGE, unit, labels, source, meaning, like)


def counter(
    name: str, unit: str, labels: tuple[str, ...], meaning: str, like: str = "", source: Source = Source.LOG
) -> Metric:
    """A counter whose name begins with ``eoslog.``."""
    return Metric(f"eoslog.{name}", Kind.COUNTER, unit, labels, source, meaning, like)


def lags(noun: str, label: str, whose: str) -> tuple[Metric, ...]:
    """What there is of the lag of each kind of reader."""
    of, otel = (
        ("eoslog.log", label, "messaging.destination.name"),
        "OTel `kafka.consumer_group." if noun == "consumer_group" else "",
    )
    return (
        gauge(
            f"{noun}.lag",
            "{offset}",
            of,
            f"Offsets that {whose} not read yet, in all partitions of the topic",
            otel and f"{otel}lag_sum`",
        ),
        gauge(f"{noun}.lag_messages", "{message}", of, "Records among these offsets"),
        gauge(f"{noun}.lag_size", "By", of, "Bytes of these records as stored"),
        gauge(
            f"{noun}.lag_time",
            "s",
            of,
            "How old the first of these records is, by its own timestamp; 0 without one",
        ),
        gauge(f"{noun}.lag_limit", "s", of, "How old that may be: the reader is behind if it is older"),
        gauge(f"{noun}.lost", "{offset}", of, "Offsets that were deleted before they were read"),
        gauge(
            f"{noun}.partition.lag",
            "{offset}",
            (*of, "messaging.destination.partition.id"),
            f"Offsets that {whose} not read yet in a partition; with `--partitions`",
            otel and f"{otel}lag`, Kafka `records-lag`",
        ),
    )
