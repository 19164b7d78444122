"""``eoslog metrics``: the metrics of logs, for Prometheus and OpenTelemetry."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from spark_eos.cli.maintain import seconds, stoppable, until_stopped
from spark_eos.cli.options import ConfigFile, Json, Urls, refuse_twice, settings_of_each, store_settings
from spark_eos.cli.output import print_json
from spark_eos.cli.parsing import Command
from spark_eos.cli.usage.added import Added
from spark_eos.errors import ConfigError
from spark_eos.errors.loading import Loading

if TYPE_CHECKING:
    from spark_eos.extensions.metrics.watch import LogWatch

app = typer.Typer()

_ADDRESS = re.compile(r"(?:(?P<host>[^:\[\]]*|\[[0-9A-Fa-f:.]+\]):)?(?P<port>[0-9]{1,5})")

_LOOPBACK = "127.0.0.1"

_GARBAGE_S, _INTERVAL_S = 3600.0, 15.0


def _address_of(text: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise typer.BadParameter(
            f"{text!r} is not HOST:PORT, such as 127.0.0.1:9464, or PORT", param_hint="'--serve'"
        )
    return (match["host"] or _LOOPBACK).strip("[]"), int(match["port"])


@app.command("metrics", cls=Command)
def metrics(
    urls: Urls,
    serve: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve them to Prometheus there; PORT alone: on 127.0.0.1."),
    ] = None,
    otlp: Annotated[
        str | None,
        typer.Option(
            metavar="ENDPOINT", help="Send them there by OTLP over HTTP, such as http://localhost:4318."
        ),
    ] = None,
    interval: Annotated[
        float,
        seconds("With --otlp: how often they are sent (default: 15)."),
    ] = _INTERVAL_S,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="Offsets, sizes and lag of single partitions, too.")
    ] = False,
    garbage: Annotated[
        float,
        seconds("List all files once in so many seconds, to find garbage (default: 3600); 0: never."),
    ] = _GARBAGE_S,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Print the metrics of logs, serve them to Prometheus (--serve), or send them to OpenTelemetry (--otlp).

    Each log is polled once a second at most, however many scrape. Nothing is written.
    """
    from spark_eos.extensions.metrics.watch import LogWatch

    if as_json and (serve or otlp):
        raise typer.BadParameter("it cannot be used with --serve and --otlp", param_hint="'--json'")
    address = None if serve is None else _address_of(serve)
    settings = settings_of_each(urls, store_settings(command_config))
    watches = [
        LogWatch(url, of, by_partition=partitions, garbage_s=garbage or None)
        for url, of in zip(urls, settings, strict=True)
    ]
    refuse_twice([watch.label for watch in watches])
    if serve or otlp:
        _run(watches, address, otlp, interval)
    else:
        _print(watches, as_json=as_json)


# -- Once -----------------------------------------------------------------------------------------------


def _print(watches: Sequence[LogWatch], *, as_json: bool) -> None:
    # An error is the command's own, and needs no warning beside it.
    logging.getLogger("spark_eos.monitoring").addHandler(logging.NullHandler())
    if as_json:
        for watch in watches:
            _print_json(watch)
    else:
        with Loading("eoslog metrics without --json", "metrics", "prometheus-client"):
            from prometheus_client import CollectorRegistry, generate_latest
        from spark_eos.extensions.metrics.prometheus import sources_of

        registry = CollectorRegistry()
        for watch in watches:
            watch.points(wait=True)  # A registry waits for nothing: what it asks for is there then.
            sources_of(registry).add(watch)
        sys.stdout.write(generate_latest(registry).decode())
    sys.stdout.flush()
    errors = [watch.error for watch in watches if watch.error is not None]
    if errors:
        raise errors[0]


def _print_json(watch: LogWatch) -> None:
    from spark_eos.clients.durations import Spread

    points = watch.points(wait=True)
    for point in [*points, *(point for histogram in watch.histograms() for point in histogram.points())]:
        value = point.value._asdict() if isinstance(point.value, Spread) else point.value
        print_json(
            {
                "metric": point.metric.name,
                "kind": point.metric.kind.value,
                "unit": point.metric.unit,
                "labels": dict(zip(point.metric.prometheus_labels, point.labels, strict=True)),
                "value": value,
            }
        )


# -- For as long as it runs -----------------------------------------------------------------------------


def _run(
    watches: Sequence[LogWatch], address: tuple[str, int] | None, otlp: str | None, interval_s: float
) -> None:
    with stoppable() as stop, _served(watches, address), _sent(watches, otlp, interval_s):
        until_stopped(stop)


@contextmanager
def _served(watches: Sequence[LogWatch], address: tuple[str, int] | None) -> Iterator[None]:
    if address is None:
        yield
        return
    with Loading("--serve", "metrics", "prometheus-client"):
        from prometheus_client import CollectorRegistry, make_wsgi_app

    from spark_eos.extensions.metrics.cli.server import MetricsServer
    from spark_eos.extensions.metrics.prometheus import sources_of
    from spark_eos.serving.address import url_of

    registry = CollectorRegistry()
    for watch in watches:
        sources_of(registry).add(watch)
    host, port = address
    try:
        server = MetricsServer(host, port, make_wsgi_app(registry))
    except OSError as error:
        raise ConfigError(f"--serve {host}:{port}: {error.strerror or error}; choose another one") from error
    print(f"serving {url_of(host, server.server_port)}/metrics", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        server.stop()


@contextmanager
def _sent(watches: Sequence[LogWatch], endpoint: str | None, interval_s: float) -> Iterator[None]:
    if endpoint is None:
        yield
        return
    from spark_eos.extensions.metrics.opentelemetry import sender

    provider = sender(endpoint, watches, interval_s)
    try:
        yield
    finally:
        provider.shutdown()


ADDED = Added(
    app,
    {
        "metrics": ("eoslog metrics LOG", "eoslog metrics LOG --partitions --json"),
    },
)
