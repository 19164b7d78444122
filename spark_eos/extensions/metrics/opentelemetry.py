"""Points for OpenTelemetry: instruments of a meter provider, whose callbacks give the points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from spark_eos.clients.durations import Durations, Spread
from spark_eos.errors import ConfigError
from spark_eos.errors.hidden import safe_url
from spark_eos.errors.loading import Loading
from spark_eos.extensions.metrics.metric import Kind, Metric
from spark_eos.extensions.metrics.points import Collected, Histogram, Point
from spark_eos.extensions.metrics.sources import Sources
from spark_eos.extensions.metrics.table import METRICS
from spark_eos.storage.forks import Lock

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from opentelemetry.sdk.metrics import MeterProvider as SdkProvider


class Instruments:
    """All metrics of the table as instruments of one meter provider.

    Counters and gauges are asked for when they are exported. Histograms are recorded as it happens, since
    OpenTelemetry has no other way: `Durations` calls an observer for each value.
    """

    def __init__(self, provider: MeterProvider) -> None:
        meter = provider.get_meter("spark_eos")
        self._sources = Sources()
        self._collected: dict[str, dict[tuple[str, ...], Point]] = {}
        self._recorders: dict[str, Any] = {}
        self._observed: list[tuple[Collected, Durations, Callable[[tuple[str, ...], float], None]]] = []
        self._lock = Lock()
        observable = [metric for metric in METRICS.values() if metric.kind is not Kind.HISTOGRAM]
        for metric in observable:
            make = (
                meter.create_observable_counter
                if metric.kind is Kind.COUNTER
                else meter.create_observable_gauge
            )
            # All instruments are asked in turn; the first one looks for all of them.
            callback = self._callback(metric, looks=metric is observable[0])
            make(metric.name, callbacks=[callback], unit=metric.unit, description=metric.meaning)
        for metric in METRICS.values():
            if metric.kind is Kind.HISTOGRAM:
                self._recorders[metric.name] = meter.create_histogram(
                    metric.name,
                    unit=metric.unit,
                    description=metric.meaning,
                    explicit_bucket_boundaries_advisory=metric.bounds,
                )

    def add(self, source: Collected) -> None:
        """Export it from now on."""
        self._sources.add(source)
        for histogram in source.histograms():
            observer = self._observer(histogram)
            with self._lock:
                self._observed.append((source, histogram.durations, observer))
                histogram.durations.observers += (observer,)

    def remove(self, source: Collected) -> None:
        """Export it no more."""
        self._sources.remove(source)
        with self._lock:
            for observed, durations, observer in self._observed:
                if observed is source:
                    durations.observers = tuple(
                        other for other in durations.observers if other is not observer
                    )
            self._observed = [entry for entry in self._observed if entry[0] is not source]

    def _callback(self, metric: Metric, *, looks: bool) -> Callable[[CallbackOptions], Iterable[Observation]]:
        from opentelemetry.metrics import Observation

        def observe(_options: CallbackOptions) -> Iterator[Observation]:
            if looks:
                self._collected = self._sources.collect()
                with self._lock:
                    self._observed = [
                        entry for entry in self._observed if not getattr(entry[0], "is_gone", False)
                    ]
            for point in self._collected.get(metric.name, {}).values():
                assert not isinstance(point.value, Spread)
                yield Observation(point.value, _attributes(metric, point.labels))

        return observe

    def _observer(self, histogram: Histogram) -> Callable[[tuple[str, ...], float], None]:
        recorder, metric = self._recorders[histogram.name], METRICS[histogram.name]

        def observe(labels: tuple[str, ...], value: float) -> None:
            recorder.record(value, _attributes(metric, (*histogram.first, *labels)))

        return observe


def _attributes(metric: Metric, labels: tuple[str, ...]) -> dict[str, str]:
    """The labels that have a value: an attribute without one is left out."""
    return {name: value for name, value in zip(metric.labels, labels, strict=True) if value}


def instruments_of(provider: MeterProvider) -> Instruments:
    """The instruments of a meter provider, made the first time."""
    with _KNOWN_LOCK:
        instruments = _KNOWN.get(provider)
        if instruments is None:
            instruments = _KNOWN[provider] = Instruments(provider)
    return instruments


def sender(endpoint: str, sources: Iterable[Collected], interval_s: float) -> SdkProvider:
    """A meter provider that sends the metrics of ``sources`` by OTLP over HTTP; ``shutdown`` ends it.

    Headers, certificates and the timeout are those of OpenTelemetry's environment variables
    (``OTEL_EXPORTER_OTLP_HEADERS``, …). Raises `ConfigError` for an endpoint that is no HTTP URL.
    """
    with Loading("--otlp", "metrics", "opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"):
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import MeterProvider as SdkProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource

    url = urlsplit(endpoint)
    if url.scheme not in {"http", "https"} or not url.hostname:
        raise ConfigError(
            f"--otlp {safe_url(endpoint)}: it must be an HTTP URL, such as http://localhost:4318"
        )
    path = url.path if url.path.strip("/") else "/v1/metrics"
    exporter = OTLPMetricExporter(endpoint=url._replace(path=path).geturl())
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=max(interval_s, 1.0) * 1000)
    resource = Resource.create({"service.name": "eoslog"})
    provider = SdkProvider([reader], resource=resource)
    instruments = instruments_of(provider)
    for source in sources:
        instruments.add(source)
    return provider


_KNOWN: WeakKeyDictionary[Any, Instruments] = WeakKeyDictionary()
_KNOWN_LOCK = Lock()
