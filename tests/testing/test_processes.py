"""What is known of a process while it runs."""

from __future__ import annotations

import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace

import pytest

from verification import cloud_servers
from verification.cloud_servers import free_port
from verification.processes import running

HALF = 'import time; print("did 1\\ndid", end="", flush=True); time.sleep(600)'


def test_a_line_that_is_half_written_is_none_yet(tmp_path):
    with running([sys.executable, "-c", HALF], tmp_path / "out") as process:
        process.until(lambda: process.text.endswith("did"), "half of the second line")
        assert process.lines == ["did 1"]
    assert process.lines == ["did 1"]


def test_one_that_does_not_end_is_shown_with_all_it_has_started(tmp_path):
    script = 'echo begun; "$0" -c "import signal; signal.pause()" & wait'
    with running(["sh", "-c", script, sys.executable], tmp_path / "out") as process:
        process.until(lambda: "-c import signal" in process.state(), "the process that it starts")
        with pytest.raises(AssertionError, match="still running after 0 s") as raised:
            process.succeed(0)
    told = str(raised.value)
    assert "begun" in told
    assert f"process {process.pid} (S, " in told
    assert "-c import signal; signal.pause()" in told
    assert process.family() == []


def test_a_free_port_is_kept_for_the_server_that_was_told_it():
    """Between the choice and the start of the server nobody else gets it by chance."""
    port = free_port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    with socket.create_server(("127.0.0.1", port)) as server:
        assert server.getsockname()[1] == port


def test_a_minio_is_waited_for_until_it_knows_its_users():
    """Before that it says that it is ready, and to all who sign that they may try again."""
    said = []

    class Beginning(BaseHTTPRequestHandler):
        def do_GET(self):
            said.append(200 if "Authorization" not in self.headers else 503 if len(said) < 3 else 403)
            self.send_response(said[-1])
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Beginning) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        cloud_servers._await(SimpleNamespace(poll=lambda: None), "minio", address)
        server.shutdown()
    assert said == [503, 503, 503, 403]
