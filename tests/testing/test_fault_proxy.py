"""The proxy that spoils requests: what the server sees and what the client is told, fault by fault."""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from verification.fault_proxy import Exchange, FaultPlan, FaultProxy, HttpFault, verb_of
from verification.latency import OBJECT_STORE, Delay, Latency

CREATE = {"If-None-Match": "*"}


class Objects(BaseHTTPRequestHandler):
    """As little of an object store as will do: PUT, GET, HEAD, DELETE, and a create that is refused."""

    protocol_version = "HTTP/1.1"

    def handle_any(self):
        seen, objects = self.server.seen, self.server.objects
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        seen.append((self.command, self.path, self.headers["Host"]))
        if self.command == "PUT":
            exists = self.path in objects and "If-None-Match" in self.headers
            if not exists:
                objects[self.path] = body
            return self.reply(412 if exists else 200, b"")
        if self.command == "DELETE":
            objects.pop(self.path, None)
            return self.reply(204, b"")
        found = objects.get(self.path)
        return self.reply(404 if found is None else 200, found or b"")

    do_PUT = do_GET = do_HEAD = do_DELETE = do_POST = handle_any  # noqa: N815  (the base's names)

    def reply(self, status, body):
        self.send_response(status)
        self.send_header("ETag", '"tag"')
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Objects) as server:
        server.daemon_threads = True
        server.seen, server.objects = [], {}
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@contextmanager
def between(server, *arguments, **options):
    with FaultProxy("127.0.0.1", server.server_port, *arguments, **options) as proxy:
        yield proxy


def ask(proxy, method, path, body=None, headers=None):
    """Status, body and headers; or the name of what went wrong on the way."""
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=60)
    try:
        connection.request(method, path, body, headers or {})
        reply = connection.getresponse()
        return reply.status, reply.read(), reply.headers
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__, b"", {}
    finally:
        connection.close()


def test_requests_pass_as_they_are(server):
    with between(server) as proxy:
        assert ask(proxy, "PUT", "/b/a%20b?x=%2F", b"1" * 3000)[0] == 200
        status, body, headers = ask(proxy, "GET", "/b/a%20b?x=%2F")
        assert (status, body, headers["ETag"]) == (200, b"1" * 3000, '"tag"')
        status, body, headers = ask(proxy, "HEAD", "/b/a%20b?x=%2F")
        assert (status, body, headers["Content-Length"]) == (200, b"", "3000")
        assert ask(proxy, "DELETE", "/b/a%20b?x=%2F")[0] == 204
        assert ask(proxy, "GET", "/b/a%20b?x=%2F")[0] == 404
        # S3 signs the host that the client sees, so the server must see the same.
        assert {host for _, _, host in server.seen} == {f"127.0.0.1:{proxy.port}"}
        assert proxy.counts == proxy.served == {"PUT": 1, "GET": 2, "HEAD": 1, "DELETE": 1}


def test_many_requests_of_one_connection(server):
    with between(server) as proxy:
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=60)
        for number in range(5):
            connection.request("PUT", f"/{number}", b"x" * number)
            assert connection.getresponse().read() == b""
            connection.request("GET", f"/{number}")
            assert connection.getresponse().read() == b"x" * number
        connection.close()


def test_a_chunked_body_arrives_whole(server):
    with between(server) as proxy:
        assert ask(proxy, "PUT", "/a", iter([b"12", b"345"]))[0] == 200
        assert server.objects == {"/a": b"12345"}


@pytest.mark.parametrize(
    ("fault", "told", "served"),
    [
        (HttpFault.RESET, "ConnectionResetError", 0),
        (HttpFault.REPLY_CUT, "RemoteDisconnected", 200),
        (HttpFault.TRUNCATED, "RemoteDisconnected", 200),
        (HttpFault.DELAYED, 200, 200),
        (HttpFault.ERROR, 500, 0),
        (HttpFault.ERROR_AFTER, 500, 200),
        (HttpFault.SLOW_DOWN, 503, 0),
        (HttpFault.SLOW_DOWN_AFTER, 503, 200),
        (HttpFault.CONFLICT, 409, 0),
        (HttpFault.CONFLICT_AFTER, 409, 200),
        (HttpFault.PRECONDITION, 412, 0),
        (HttpFault.PRECONDITION_AFTER, 412, 200),
    ],
)
def test_faults_of_a_create(server, fault, told, served):
    with between(server, delay_s=0.01) as proxy:
        proxy.inject(fault, "PUT")
        assert ask(proxy, "PUT", "/b/o?signature=secret", b"body", CREATE)[0] == told
        assert (len(server.objects) == 1) is (served == 200)
        proxy.heal()
        assert ask(proxy, "PUT", "/b/o?signature=secret", b"body", CREATE)[0] == (412 if served else 200)
        status = told if isinstance(told, int) else 0
        assert proxy.exchanges[0] == Exchange(1, "PUT", "/b/o", fault, served, status)
        assert "secret" not in proxy.story()


def test_every_fault_is_tried_and_can_be_planned():
    (marked,) = test_faults_of_a_create.pytestmark
    assert {fault for fault, _, _ in marked.args[1]} == {*HttpFault}
    assert {FaultPlan(**{fault.value: 1.0}).fate(0, 1) for fault in HttpFault} == {*HttpFault}


def test_a_truncated_body_is_noticed(server):
    server.objects["/a"] = b"0123456789"
    with between(server) as proxy:
        proxy.inject(HttpFault.TRUNCATED, "GET")
        assert ask(proxy, "GET", "/a")[0] == "IncompleteRead"
        assert ask(proxy, "GET", "/a")[1] == b"0123456789"


def test_conflicts_are_for_conditional_requests_alone(server):
    with between(server) as proxy:
        proxy.inject(HttpFault.CONFLICT, times=None)
        assert ask(proxy, "PUT", "/a", b"1")[0] == 200
        assert ask(proxy, "GET", "/a")[0] == 200
        assert ask(proxy, "PUT", "/a", b"1", CREATE)[0] == 409


def test_what_is_delayed_is_done_although_nobody_waits(server):
    with between(server, delay_s=0.05) as proxy:
        proxy.inject(HttpFault.DELAYED)
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=60)
        connection.request("PUT", "/late", b"1")
        connection.close()
        while not proxy.exchanges:
            threading.Event().wait(0.005)
        assert server.objects == {"/late": b"1"}


def test_injected_faults_match_verb_and_path_and_run_out(server):
    with between(server) as proxy:
        proxy.inject(HttpFault.SLOW_DOWN, "GET", "*/log/*", skip=1, times=2)
        told = [ask(proxy, "GET", path)[0] for path in ["/log/a", "/data/a", "/log/a", "/log/b", "/log/b"]]
        assert told == [404, 404, 503, 503, 404]
        assert proxy.counts == {"GET": 5}
        assert proxy.served == {"GET": 3}
        proxy.clear()
        assert (proxy.counts, proxy.exchanges) == ({}, [])


def test_a_server_that_is_away_is_told(server):
    with between(server) as proxy:
        server.shutdown()
        server.server_close()
        assert ask(proxy, "GET", "/a")[0] == 502
        assert proxy.served == {"GET": 0}


def test_the_seed_decides():
    plan = FaultPlan.everything(0.02)
    fates = [plan.fate(7, number) for number in range(4000)]
    assert fates == [plan.fate(7, number) for number in range(4000)]
    assert fates != [plan.fate(8, number) for number in range(4000)]
    struck = Counter(fates)
    assert {*struck} == {None, *HttpFault}
    assert all(40 < struck[fault] < 130 for fault in HttpFault)


def test_a_plan_strikes(server):
    with between(server, FaultPlan(slow_down=0.5), seed=1) as proxy:
        told = Counter(ask(proxy, "GET", "/a")[0] for _ in range(40))
        assert told[503] + told[404] == 40
        assert 8 < told[503] < 32
        assert [exchange.fault for exchange in proxy.exchanges] == [
            proxy.plan.fate(1, exchange.number) for exchange in proxy.exchanges
        ]


@pytest.mark.parametrize(
    ("method", "target", "verb"),
    [
        ("GET", "/bucket?list-type=2&prefix=a", "LIST"),
        ("GET", "/account/container?restype=container&comp=list", "LIST"),
        ("GET", "/storage/v1/b/bucket/o?prefix=a", "LIST"),
        ("GET", "/bucket/a?list-typed=1", "GET"),
        ("GET", "/bucket/data/o", "GET"),
        ("GET", "/account/container/a?comp=metadata", "GET"),
        ("PUT", "/bucket/a?list-type=2", "PUT"),
        ("POST", "/bucket?delete", "POST"),
    ],
)
def test_verbs(method, target, verb):
    assert verb_of(method, target) == verb


def test_latency_is_added_to_each_request(server):
    latency = Latency({"GET": Delay(0.01, 0.02)}, seed=3)
    with between(server, latency=latency) as proxy:
        for _ in range(3):
            assert ask(proxy, "GET", "/a")[0] == 404
        assert ask(proxy, "PUT", "/a", b"1")[0] == 200


@pytest.mark.parametrize("verb", OBJECT_STORE)
def test_latencies_have_the_median_and_the_99th_percentile_they_are_said_to_have(verb):
    latency = Latency(scale=0.1, seed=5)
    drawn = sorted(latency.draw(verb) for _ in range(20_000))
    assert drawn[10_000] == pytest.approx(OBJECT_STORE[verb].median_s / 10, rel=0.02)
    assert drawn[19_800] == pytest.approx(OBJECT_STORE[verb].p99_s / 10, rel=0.06)
    assert Latency(seed=5).draw(verb) == pytest.approx(10 * Latency(scale=0.1, seed=5).draw(verb))
    assert Latency().draw("PATCH") == 0
