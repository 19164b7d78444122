"""Figures of clients, under the names of Kafka's metrics: totals since the start, and rates of the last minute."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TypeAlias

from spark_eos.clients.durations import Durations
from spark_eos.storage.forks import Lock

Metrics: TypeAlias = dict[str, dict[str, float]]
"""Figures by name, by group of metrics: as `metrics()` of kafka-python."""

_SAMPLE_S = 30.0
_SAMPLES = 2
"""Kafka's metrics.sample.window.ms and metrics.num.samples."""

_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""Seconds: what OpenTelemetry's conventions for messaging advise."""


class _Sample:
    """What was recorded in half a minute."""

    __slots__ = ("count", "largest", "start", "sum")

    def __init__(self, start: float) -> None:
        self.start, self.count, self.sum, self.largest = start, 0, 0.0, 0.0


class _Figure:
    """Numbers that were recorded: their sum since the start; rate, average and largest of the last minute."""

    __slots__ = ("_now", "_samples", "count", "total")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.total = 0.0
        self.count = 0
        self._samples = [_Sample(now())]

    def record(self, value: float = 1.0) -> None:
        sample = self._recent()[-1]
        if self._now() - sample.start >= _SAMPLE_S:
            sample = _Sample(self._now())
            self._samples.append(sample)
        sample.count += 1
        sample.sum += value
        sample.largest = max(sample.largest, value)
        self.total += value
        self.count += 1

    def _recent(self) -> list[_Sample]:
        now = self._now()
        recent = [sample for sample in self._samples if now - sample.start < _SAMPLES * _SAMPLE_S]
        self._samples = recent or [_Sample(now)]
        return self._samples

    @property
    def rate(self) -> float:
        """Per second. Over half a minute at least, as Kafka's: a figure that is new does not seem fast."""
        samples = self._recent()
        return sum(sample.sum for sample in samples) / max(self._now() - samples[0].start, _SAMPLE_S)

    @property
    def average(self) -> float:
        samples = self._recent()
        count = sum(sample.count for sample in samples)
        return sum(sample.sum for sample in samples) / count if count else 0.0

    @property
    def largest(self) -> float:
        return max(sample.largest for sample in self._recent())


class _Figures:
    """Figures by name, made when they are first recorded. Safe to share between threads."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = Lock()
        self._by_name: dict[str, _Figure] = {}

    def record(self, values: Mapping[str, float]) -> None:
        """Record a value of each of these figures."""
        with self._lock:
            for name, value in values.items():
                figure = self._by_name.get(name)
                if figure is None:
                    figure = self._by_name[name] = _Figure(self._now)
                figure.record(value)

    def of(self, name: str) -> _Figure:
        """The figure of a name; zero if nothing was recorded."""
        with self._lock:
            return self._by_name.get(name) or _Figure(self._now)


class ProducerMetrics:
    """What a producer has sent, and how long that took. ``now`` is a monotonic clock, in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self._figures = _Figures(now)
        self._topics: dict[str, _Figures] = {}
        self._lock = threading.Lock()
        self.durations = Durations(_BOUNDS)
        """Of the calls, as histograms."""

    def sent(self, topic: str, records: int, size: int) -> None:
        """So many records of a topic are in the log, in files of so many bytes."""
        self._record(topic, {"record-send": records, "byte": size})

    def failed(self, topic: str, records: int) -> None:
        """So many records of a topic are not in the log, or it is not known."""
        self._record(topic, {"record-error": records})

    def requested(self, seconds: float, records: int) -> None:
        """A request with so many records was answered: staging and commit took so long."""
        self._figures.record({"request-latency": seconds * 1000, "records-per-request": records})
        self.durations.record(("send",), seconds)

    def took(self, call: str, seconds: float) -> None:
        """A call about transactions, or a flush, took so long (KIP-761)."""
        self._figures.record({call: int(seconds * 1e9)})
        self.durations.record((call.removeprefix("txn-"),), seconds)

    def _record(self, topic: str, values: Mapping[str, float]) -> None:
        if not any(values.values()):
            return
        with self._lock:
            figures = self._topics.setdefault(topic, _Figures(self.now))
        self._figures.record(values)
        figures.record(values)

    def shown(self, waiting_bytes: int, buffer_bytes: int) -> Metrics:
        """All figures by group."""
        latency, records = self._figures.of("request-latency"), self._figures.of("records-per-request")
        groups: Metrics = {
            "producer-metrics": {
                **_sends(self._figures),
                "request-total": float(latency.count),
                "request-latency-avg": latency.average,
                "request-latency-max": latency.largest,
                "records-per-request-avg": records.average,
                "buffer-total-bytes": float(buffer_bytes),
                "buffer-available-bytes": float(max(0, buffer_bytes - waiting_bytes)),
                **{
                    f"{call}-time-ns-total": self._figures.of(call).total
                    for call in (
                        "flush",
                        "txn-init",
                        "txn-begin",
                        "txn-send-offsets",
                        "txn-commit",
                        "txn-abort",
                    )
                },
            }
        }
        with self._lock:
            topics = sorted(self._topics.items())
        for topic, figures in topics:
            groups[f"producer-topic-metrics.{topic}"] = _sends(figures)
        return groups


def _sends(figures: _Figures) -> dict[str, float]:
    return {
        f"{name}-{kind}": getattr(figures.of(name), kind)
        for name in ("record-send", "record-error", "byte")
        for kind in ("total", "rate")
    }


class ConsumerMetrics:
    """What a consumer has read, and what its group made it do. ``now`` is a monotonic clock, in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self._figures = _Figures(now)
        self._last_poll: float | None = None
        self.durations = Durations(_BOUNDS)
        """Of the commits, as a histogram."""

    def polled(self) -> None:
        """A poll begins."""
        now = self.now()
        if self._last_poll is not None:
            self._figures.record({"time-between-poll": (now - self._last_poll) * 1000})
        self._last_poll = now

    def fetched(self, records: int) -> None:
        """A poll returns so many records."""
        if records:
            self._figures.record({"records-consumed": records})

    def met_damage(self) -> None:
        """A poll ends with `CorruptRecordError`."""
        self._figures.record({"corrupt-record": 1})

    def committed(self, seconds: float) -> None:
        """Offsets were committed."""
        self._figures.record({"commit-latency": seconds * 1000})
        self.durations.record(("commit",), seconds)

    def rebalanced(self) -> None:
        """The consumer has synced to a new generation of its group."""
        self._figures.record({"rebalance": 1})

    def shown(self, assigned: int, lags: Mapping[str, int], generation: int, read: int) -> Metrics:
        """All figures by group; ``lags`` by partition, where there is a position; ``read`` bytes since the start."""
        records, between = self._figures.of("records-consumed"), self._figures.of("time-between-poll")
        commits = self._figures.of("commit-latency")
        groups: Metrics = {
            "consumer-metrics": {
                "time-between-poll-avg": between.average,
                "time-between-poll-max": between.largest,
                "last-poll-seconds-ago": -1.0 if self._last_poll is None else self.now() - self._last_poll,
            },
            "consumer-fetch-manager-metrics": {
                "records-consumed-total": records.total,
                "records-consumed-rate": records.rate,
                "records-per-request-avg": records.average,
                "bytes-consumed-total": float(read),
                "fetch-total": float(records.count),
                "corrupt-record-total": self._figures.of("corrupt-record").total,
                "records-lag-max": float(max(lags.values(), default=0)),
            },
            "consumer-coordinator-metrics": {
                "assigned-partitions": float(assigned),
                "commit-total": float(commits.count),
                "commit-latency-avg": commits.average,
                "commit-latency-max": commits.largest,
                "rebalance-total": self._figures.of("rebalance").total,
                "generation-id": float(generation),
            },
        }
        for at, lag in sorted(lags.items()):
            groups[f"consumer-fetch-manager-metrics.{at}"] = {"records-lag": float(lag)}
        return groups
