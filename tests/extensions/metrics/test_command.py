"""``eoslog metrics``: once as text and JSON, served to Prometheus, and sent to OpenTelemetry."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import urlopen

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.metrics import export
from prometheus_client.parser import text_string_to_metric_families

from spark_eos import Log, Producer
from spark_eos.cli.command import main
from spark_eos.extensions.metrics.cli.command import _address_of
from spark_eos.extensions.metrics.metric import Source
from spark_eos.extensions.metrics.opentelemetry import sender
from spark_eos.extensions.metrics.points import point
from spark_eos.extensions.metrics.table import METRICS


@pytest.fixture
def log(log_url):
    with Producer(log_url) as producer:
        producer.send("orders", b"one").result()
    return log_url


@contextmanager
def running(*arguments):
    """The command, and the lines that it writes to standard error."""
    command = [sys.executable, "-m", "spark_eos", "metrics", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def samples(text):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_once_as_text(log, capsys):
    assert main(["metrics", log]) == 0
    shown = capsys.readouterr()
    found = samples(shown.out)
    assert found["eoslog_up", ("log", log)] == 1
    assert found["eoslog_topic_offsets", ("log", log), ("topic", "orders")] == 1
    assert ("eoslog_maintenance_garbage_objects", ("log", log)) in found
    assert "eoslog_partition_size_bytes" not in shown.out
    assert shown.err == ""


def test_once_as_json(log, capsys):
    assert main(["metrics", log, "--json", "--partitions"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(METRICS[one["metric"]].kind.value == one["kind"] for one in found)
    (size,) = [one for one in found if one["metric"] == "eoslog.partition.size"]
    assert (size["unit"], size["labels"]) == ("By", {"log": log, "topic": "orders", "partition": "0"})
    assert size["value"] > 0
    reads = [one for one in found if one["metric"] == "db.client.operation.duration"]
    assert sum(reads[0]["value"]["counts"]) > 0
    exported = {metric.name for metric in METRICS.values() if metric.source in {Source.LOG, Source.STORE}}
    assert {one["metric"] for one in found} <= exported


def test_several_logs(log, tmp_path, capsys):
    other = str(tmp_path / "other")
    Log.create(other)
    assert main(["metrics", log, other]) == 0
    found = samples(capsys.readouterr().out)
    assert [found["eoslog_topics", ("log", url)] for url in (log, other)] == [1, 0]


def test_without_a_look_for_garbage(log, capsys):
    assert main(["metrics", log, "--garbage", "0"]) == 0
    assert "eoslog_maintenance_garbage" not in capsys.readouterr().out


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_a_log_that_is_not_there(log, tmp_path, option, capsys):
    gone = str(tmp_path / "gone")
    assert main(["metrics", log, gone, *option]) == 1
    shown = capsys.readouterr()
    assert "eoslog_topics" in shown.out or "eoslog.topics" in shown.out
    assert shown.err.count("is not a log") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--serve", "x"], "'--serve': 'x' is not HOST:PORT"),
        (["--serve", "host:65536"], "'--serve'"),
        (["--serve", "9464", "--json"], "'--json': it cannot be used with --serve"),
        (["--interval", "soon"], "'--interval': soon is not a number of seconds"),
    ],
)
def test_wrong_usage(arguments, words, log, capsys):
    with pytest.raises(SystemExit):
        main(["metrics", log, *arguments])
    assert words in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--otlp", "localhost:4318"], "it must be an HTTP URL"),
        (["--otlp", "ftp://user:secret@host"], "--otlp ftp://host: it must be an HTTP URL"),
        (["--serve", "192.0.2.1:80"], "--serve 192.0.2.1:80: "),
    ],
)
def test_an_address_that_cannot_be_used(arguments, words, log, capsys):
    assert main(["metrics", log, *arguments]) == 1
    error = capsys.readouterr().err
    assert words in error
    assert "secret" not in error


def test_a_log_that_is_named_twice(log, capsys):
    assert main(["metrics", log, f"{log}/"]) == 1
    assert "a log is named twice" in capsys.readouterr().err


def test_a_library_that_is_missing(log, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert main(["metrics", log]) == 1
    assert "'spark-eos[metrics]'" in capsys.readouterr().err
    assert main(["metrics", log, "--json"]) == 0


@pytest.mark.parametrize(
    ("text", "address"),
    [("9464", ("127.0.0.1", 9464)), (":9464", ("127.0.0.1", 9464)), ("0.0.0.0:1", ("0.0.0.0", 1)),
     ("host:9464", ("host", 9464)), ("[::1]:9464", ("::1", 9464))],
)  # fmt: skip
def test_addresses(text, address):
    assert _address_of(text) == address


def test_it_is_served_to_prometheus(log):
    with running(log, "--serve", "0", "--garbage", "0") as process:
        (address,) = re.findall(r"http://127\.0\.0\.1:\d+/metrics", process.stderr.readline())
        found = samples(urlopen(address).read().decode())
        assert found["eoslog_up", ("log", log)] == 1
        assert found["eoslog_log_entries_total", ("log", log)] == Log.open(log).state.seq + 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
        assert "stopped by SIGTERM" in process.stderr.read()


class Receiver:
    """What OpenTelemetry's collector is for this: it takes OTLP over HTTP, and decodes it."""

    def __init__(self):
        self.requests, self.arrived = [], threading.Semaphore(0)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.requests.append(
                    (self.path, self.headers["Content-Type"], ExportMetricsServiceRequest.FromString(body))
                )
                self.send_response(200)
                self.end_headers()
                outer.arrived.release()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver():
    found = Receiver()
    yield found
    found.server.shutdown()
    found.server.server_close()


class One:
    """A source with one value."""

    def points(self):
        return [point("eoslog.up", 1.0, "memory://log")]

    def histograms(self):
        return ()


def test_where_and_how_often_it_is_sent(receiver, monkeypatch):
    intervals_ms = []

    class Reader(export.PeriodicExportingMetricReader):
        def __init__(self, exporter, export_interval_millis):
            intervals_ms.append(export_interval_millis)
            super().__init__(exporter, export_interval_millis)

    monkeypatch.setattr(export, "PeriodicExportingMetricReader", Reader)
    source = One()
    sender(receiver.url, [source], 15.0).shutdown()  # What there is then is sent, too.
    assert (receiver.requests[-1][0], intervals_ms) == ("/v1/metrics", [15_000])
    assert values(receiver)["eoslog.up", ("eoslog.log", "memory://log")] == 1


@pytest.mark.deep
def test_it_is_sent_to_opentelemetry(log, receiver):
    with running(log, "--otlp", receiver.url, "--interval", "1") as process:
        assert receiver.arrived.acquire(timeout=60)
        with Producer(log) as producer:
            producer.send("orders", b"two").result()
        end = time.monotonic() + 60
        while values(receiver).get(("eoslog.topic.offsets", ("eoslog.log", log), TOPIC)) != 2:
            assert time.monotonic() < end
            assert receiver.arrived.acquire(timeout=60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    path, content_type, last = receiver.requests[-1]
    assert (path, content_type) == ("/v1/metrics", "application/x-protobuf")
    (resource,) = last.resource_metrics
    assert ("service.name", "eoslog") in [
        (one.key, one.value.string_value) for one in resource.resource.attributes
    ]
    found = values(receiver)
    assert found["eoslog.up", ("eoslog.log", log)] == 1
    assert found["eoslog.topic.messages", ("eoslog.log", log), TOPIC] == 1
    (scope,) = resource.scope_metrics
    metrics = {metric.name: metric for metric in scope.metrics}
    assert {*metrics} <= {*METRICS}
    assert metrics["eoslog.log.entries"].sum.is_monotonic
    assert metrics["eoslog.topic.size"].unit == "By"
    (first, *_) = metrics["db.client.operation.duration"].histogram.data_points
    assert list(first.explicit_bounds) == list(METRICS["db.client.operation.duration"].bounds)
    assert first.count == sum(first.bucket_counts) > 0


TOPIC = ("messaging.destination.name", "orders")


def values(receiver):
    """The newest values that were received, by the metric's name and the attributes."""
    found = {}
    for metric in receiver.requests[-1][2].resource_metrics[0].scope_metrics[0].metrics:
        for one in (*metric.gauge.data_points, *metric.sum.data_points):
            labels = sorted((each.key, each.value.string_value) for each in one.attributes)
            found[(metric.name, *labels)] = one.as_int if one.HasField("as_int") else one.as_double
    return found
