"""Metrics of a log, by the command, and of a producer, for Prometheus and OpenTelemetry."""

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest

from spark_eos import Producer
from spark_eos.monitoring import register

reader, registry = InMemoryMetricReader(), CollectorRegistry()
with Producer("log") as producer:
    register(producer, registry=registry, meter_provider=MeterProvider([reader]))
    producer.send("orders", b"one").result()
    assert b"eoslog_commit_entries" in generate_latest(registry)
    assert reader.get_metrics_data().resource_metrics
eoslog = Path(sys.executable).with_name("eoslog")
printed = subprocess.run([eoslog, "metrics", "log"], check=True, capture_output=True, text=True).stdout
assert "eoslog_up" in printed, printed


class Collector(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.end_headers()
        heard.set()


heard = threading.Event()
with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    command = [
        eoslog,
        "metrics",
        "log",
        "--otlp",
        f"http://127.0.0.1:{collector.server_port}",
        "--interval",
        "1",
    ]
    with subprocess.Popen(command) as running:
        assert heard.wait(120)
        running.terminate()
    collector.shutdown()
