"""Who connects to the page or the metrics and asks nothing does not take them from others."""

from __future__ import annotations

import re
import socket
import threading
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest

from spark_eos import Producer
from spark_eos.extensions.metrics.cli import server as metrics_server
from spark_eos.extensions.metrics.cli.server import MetricsServer
from spark_eos.serving import door
from spark_eos.serving.door import Places
from tests.needing import needs
from tests.starting import start

LONGEST_S = 120
DESCRIPTORS = 256
SERVERS = {"ui": ["--port", "0"], "metrics": ["--serve", "0"]}
STRANGERS = {"idle": b"", "half a request": b"GET /metrics HTTP/1.1\r\nhost: x\r\n"}


def test_the_oldest_that_asked_nothing_leaves_for_a_new_one(monkeypatch):
    monkeypatch.setattr(metrics_server, "places_for", lambda _: Places(3, 10))
    go_on = threading.Event()

    def application(_, start):
        go_on.wait(LONGEST_S)
        start("200 OK", [])
        return [b"found"]

    server = MetricsServer("127.0.0.1", 0, application)
    with ExitStack() as stack:

        def connect():
            return stack.enter_context(socket.create_connection(server.server_address, timeout=LONGEST_S))

        asking = connect()
        asking.sendall(b"GET / HTTP/1.0\r\n\r\n")
        while not server._places._admitted:
            time.sleep(0.01)
        idle = [connect() for _ in range(5)]
        assert [one.recv(1) for one in idle[:2]] == [b"", b""]
        idle[-1].sendall(b"GET / HTTP/1.0\r\n\r\n")
        go_on.set()
        for one in (asking, idle[-1]):
            assert one.makefile("rb").read().endswith(b"found")
    server.stop()


def test_one_that_asks_nothing_leaves_after_a_while(monkeypatch):
    monkeypatch.setattr(door, "STRANGER_S", 0.0)
    monkeypatch.setattr(metrics_server._Handler, "timeout", None)  # That for its answer is longer.
    server = MetricsServer("127.0.0.1", 0, None)
    with socket.create_connection(server.server_address, timeout=LONGEST_S) as idle:
        assert idle.recv(1) == b""
    server.stop()


@pytest.fixture(params=["metrics", pytest.param("ui", marks=needs("ui"))])
def served(request, tmp_path):
    """The process and its address."""
    with Producer(str(tmp_path / "log")) as producer:
        producer.send("t", b"one").result()
    said = tmp_path / "said"
    with said.open("w") as file:
        process = start(
            "extensions/metrics/few_descriptors",
            request.param,
            tmp_path / "log",
            *SERVERS[request.param],
            stdout=file,
            stderr=file,
        )
    end = time.monotonic() + LONGEST_S
    while (found := re.search(r"http://[^\s]*\n", said.read_text())) is None:
        assert process.poll() is None, said.read_text()
        assert time.monotonic() < end
        time.sleep(0.05)
    yield process, found[0].strip(), said
    process.kill()
    process.wait()


@pytest.mark.deep
@pytest.mark.parametrize("kind", STRANGERS)
def test_who_asks_nothing_takes_no_descriptors(served, kind):
    process, url, said = served
    host, port = re.match(r"http://([^:]*):(\d+)", url).groups()
    folder = Path(f"/proc/{process.pid}")
    with ExitStack() as stack:
        found = []
        for _ in range(400):
            found.append(stack.enter_context(socket.create_connection((host, int(port)), timeout=LONGEST_S)))
            found[-1].sendall(STRANGERS[kind])
        for _ in range(3):
            with urllib.request.urlopen(url, timeout=LONGEST_S) as answer:
                assert answer.status == 200
            assert len([*(folder / "fd").iterdir()]) < DESCRIPTORS - 64, said.read_text()
            assert len([*(folder / "task").iterdir()]) < 100
        for one in found:
            one.settimeout(LONGEST_S)
            try:
                while one.recv(65536):
                    pass
            except TimeoutError:
                pytest.fail("it stays open")
            except OSError:
                pass
