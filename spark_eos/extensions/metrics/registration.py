"""Export the metrics of a client, a log, a store or a listener of queries from inside of a program."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from spark_eos.clients.consumer.consumer import Consumer
from spark_eos.clients.producer.producer import Producer
from spark_eos.errors import ConfigError
from spark_eos.errors.loading import Loading
from spark_eos.extensions.metrics.client_points import (
    ConsumerSource,
    LogSource,
    ProducerSource,
    QuerySource,
    StoreSource,
)
from spark_eos.extensions.metrics.opentelemetry import instruments_of
from spark_eos.extensions.metrics.points import Collected
from spark_eos.extensions.metrics.prometheus import sources_of
from spark_eos.log.log import Log
from spark_eos.monitoring.measured_store import MeasuredStore

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from prometheus_client import CollectorRegistry


class Registration:
    """What `register` has registered. Close it, or leave its ``with`` block, to export it no more.

    Parameters
    ----------
    undo
        What ends it.

    Examples
    --------
    >>> from prometheus_client import CollectorRegistry
    >>> from spark_eos import Producer
    >>> from spark_eos.monitoring import register
    >>> with Producer("memory://registration") as producer:
    ...     with register(producer, registry=CollectorRegistry()):
    ...         future = producer.send("orders", b"one")
    """

    def __init__(self, undo: list[Callable[[], None]]) -> None:
        self._undo = undo

    def __enter__(self) -> Registration:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Export it no more. A second call does nothing."""
        for undo in self._undo:
            undo()
        self._undo = []


def register(
    source: object,
    *,
    registry: CollectorRegistry | None = None,
    meter_provider: MeterProvider | None = None,
    name: str | None = None,
) -> Registration:
    """Export the metrics of a client, log, measured store or progress listener to Prometheus or OpenTelemetry.

    With a client, the commits of its log are exported, too. Nothing is recorded but what `Producer.metrics` and
    `Consumer.metrics` have anyway; a scrape reads it. No metric has a record's key or value, a secret, or a URL with
    user, password or query. A client that nothing else refers to is exported no more.

    Parameters
    ----------
    source
        A `Producer`, `Consumer`, `AIOProducer`, `AIOConsumer` (after ``start``), `Log`, `ProgressListener` or
        `MeasuredStore`.
    registry
        A registry of ``prometheus_client``, such as its ``REGISTRY``.
    meter_provider
        A meter provider of OpenTelemetry, such as that of ``opentelemetry.metrics.get_meter_provider()``.
    name
        The label ``client`` of a client. None: its ``client.id`` or ``transactional.id``, else a number.

    Returns
    -------
    Registration
        Ends it.

    Raises
    ------
    ConfigError
        There is neither registry nor meter provider, a package is missing, or ``source`` has no metrics.

    Examples
    --------
    >>> from prometheus_client import CollectorRegistry, generate_latest
    >>> from spark_eos import Producer
    >>> from spark_eos.monitoring import register
    >>> registry = CollectorRegistry()
    >>> with Producer("memory://register", {"client.id": "till"}) as producer:
    ...     registration = register(producer, registry=registry)
    ...     future = producer.send("orders", b"one")
    >>> for line in generate_latest(registry).decode().splitlines():
    ...     if line.startswith("messaging_client_sent_messages_total"):
    ...         print(line)
    messaging_client_sent_messages_total{client="till",error="",log="memory://register",topic="orders"} 1.0
    messaging_client_sent_messages_total{client="till",error="failed",log="memory://register",topic="orders"} 0.0

    Notes
    -----
    All metrics: docs/reference/metrics.md.
    """
    if registry is None and meter_provider is None:
        raise ConfigError(
            "register needs a registry of prometheus_client (registry=) or a meter provider of OpenTelemetry "
            "(meter_provider=)"
        )
    collected = _source(source, name)
    undo: list[Callable[[], None]] = []
    if registry is not None:
        with Loading("register with registry=", "metrics", "prometheus-client"):
            import prometheus_client.core  # noqa: F401
    if meter_provider is not None:
        with Loading("register with meter_provider=", "metrics", "opentelemetry-sdk"):
            import opentelemetry.metrics  # noqa: F401
    if registry is not None:
        sources = sources_of(registry)
        sources.add(collected)
        undo.append(lambda: sources.remove(collected))
    if meter_provider is not None:
        instruments = instruments_of(meter_provider)
        instruments.add(collected)
        undo.append(lambda: instruments.remove(collected))
    return Registration(undo)


def _source(source: Any, name: str | None) -> Collected:
    source = getattr(source, "client", source)  # Of a client for asyncio: the one that works for it.
    if isinstance(source, Producer):
        return ProducerSource(source, name)
    if isinstance(source, Consumer):
        return ConsumerSource(source, name)
    if isinstance(source, Log):
        return LogSource(source)
    if isinstance(source, MeasuredStore):
        return StoreSource(source)
    if callable(getattr(source, "figures", None)):  # A ProgressListener, without loading Spark.
        return QuerySource(source.figures)
    if callable(getattr(source, "points", None)) and callable(getattr(source, "histograms", None)):
        return cast("Collected", source)
    raise ConfigError(
        f"{type(source).__name__} has no metrics to register: give a Producer, Consumer, AIOProducer, AIOConsumer, "
        "Log, ProgressListener or MeasuredStore"
    )
