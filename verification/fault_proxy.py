"""A proxy that fails on demand: between the client of an object store and its server, over plain HTTP.

    with FaultProxy("127.0.0.1", 9000, plan=FaultPlan(reply_cut=0.02, slow_down=0.02), seed=7) as proxy:
        ...  # the client's endpoint is proxy.url
        print(proxy.counts, proxy.story())

It forwards each request as it came, with its ``Host`` (S3's signatures cover it), and spoils some: by chance, as the
plan says, or those that `FaultProxy.inject` names. The seed decides the fate of the n-th request, whatever it is; which
one comes as the n-th is up to the clients. For tests: bodies are held in memory, and it listens on the loopback alone.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, fields
from enum import Enum
from fnmatch import fnmatchcase
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from verification.latency import Latency

_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)
_CONDITIONS = ("If-None-Match", "If-Match", "x-goog-if-generation-match")
_REMEMBERED = 100_000
"""Exchanges that the story holds, the last ones."""


class HttpFault(Enum):
    """What can happen to a request."""

    RESET = "reset"
    """The connection is reset; the server never hears of it."""
    REPLY_CUT = "reply_cut"
    """The server does it; the connection ends before the reply."""
    TRUNCATED = "truncated"
    """The server does it; the connection ends in the middle of the reply's body, or before it if there is none."""
    DELAYED = "delayed"
    """The server gets it ``FaultProxy.delay_s`` later, whether or not the client still waits."""
    ERROR = "error"
    """500; the server never hears of it."""
    ERROR_AFTER = "error_after"
    """500, though the server has done it."""
    SLOW_DOWN = "slow_down"
    """503; the server never hears of it."""
    SLOW_DOWN_AFTER = "slow_down_after"
    """503, though the server has done it."""
    CONFLICT = "conflict"
    """409 to a conditional request; the server never hears of it."""
    CONFLICT_AFTER = "conflict_after"
    """409 to a conditional request, though the server has done it."""
    PRECONDITION = "precondition"
    """412 to a conditional request; the server never hears of it."""
    PRECONDITION_AFTER = "precondition_after"
    """412 to a conditional request, though the server has done it."""


_ANSWERS = {
    HttpFault.ERROR: (500, "InternalError"),
    HttpFault.ERROR_AFTER: (500, "InternalError"),
    HttpFault.SLOW_DOWN: (503, "SlowDown"),
    HttpFault.SLOW_DOWN_AFTER: (503, "SlowDown"),
    HttpFault.CONFLICT: (409, "ConditionalRequestConflict"),
    HttpFault.CONFLICT_AFTER: (409, "ConditionalRequestConflict"),
    HttpFault.PRECONDITION: (412, "PreconditionFailed"),
    HttpFault.PRECONDITION_AFTER: (412, "PreconditionFailed"),
}
_NOT_FORWARDED = {HttpFault.ERROR, HttpFault.SLOW_DOWN, HttpFault.CONFLICT, HttpFault.PRECONDITION}
_OF_CONDITIONS = {
    *(HttpFault.CONFLICT, HttpFault.CONFLICT_AFTER),
    *(HttpFault.PRECONDITION, HttpFault.PRECONDITION_AFTER),
}


@dataclass(frozen=True)
class FaultPlan:
    """How often each fault strikes, as a probability for each request. See `HttpFault`."""

    reset: float = 0.0
    reply_cut: float = 0.0
    truncated: float = 0.0
    delayed: float = 0.0
    error: float = 0.0
    error_after: float = 0.0
    slow_down: float = 0.0
    slow_down_after: float = 0.0
    conflict: float = 0.0
    conflict_after: float = 0.0
    precondition: float = 0.0
    precondition_after: float = 0.0

    @staticmethod
    def everything(probability: float) -> FaultPlan:
        """Each fault with the same probability."""
        return FaultPlan(**{field.name: probability for field in fields(FaultPlan)})

    def fate(self, seed: int, number: int) -> HttpFault | None:
        """What strikes request ``number``: decided by it, the seed and the plan alone."""
        left = random.Random(f"fate {seed} {number}").random()
        for field in fields(self):
            left -= getattr(self, field.name)
            if left < 0:
                return HttpFault(field.name)
        return None


class Exchange(NamedTuple):
    """One line of the story. ``status`` is what the client was told, 0 if nothing; ``served`` what the server said.

    ``path`` has no query: there may be a signature in it.
    """

    number: int
    verb: str
    path: str
    fault: HttpFault | None
    served: int
    status: int

    def __str__(self) -> str:
        fault = "" if self.fault is None else f" {self.fault.value}"
        return f"{self.number:6} {self.verb:6} {self.path}: served {self.served}, told {self.status}{fault}"


@dataclass
class _Rule:
    fault: HttpFault
    verb: str
    path: str
    skip: int
    times: int | None

    def fires(self, verb: str, path: str) -> bool:
        if not (fnmatchcase(verb, self.verb) and fnmatchcase(path, self.path)) or self.times == 0:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True


class FaultProxy:
    """Forwards to the server at ``host`` and ``port`` while its context is open. Safe to use from any thread.

    ``latency`` is added to every request; ``delay_s`` is for those that `HttpFault.DELAYED` strikes.
    """

    def __init__(
        self,
        host: str,
        port: int,
        plan: FaultPlan | None = None,
        *,
        seed: int = 0,
        latency: Latency | None = None,
        delay_s: float = 0.5,
    ) -> None:
        self.plan = plan or FaultPlan()
        self.seed = seed
        self.delay_s = delay_s
        self._upstream = (host, port)
        self._latency = latency
        self._lock = threading.Lock()
        self._rules: list[_Rule] = []
        self._number = 0
        self._story: deque[Exchange] = deque(maxlen=_REMEMBERED)
        self._counts: Counter[str] = Counter()
        self._served: Counter[str] = Counter()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        """Where it listens, on the loopback."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The endpoint for clients."""
        return f"http://127.0.0.1:{self.port}"

    # -- Programming ------------------------------------------------------------------------------------

    def inject(
        self, fault: HttpFault, verb: str = "*", path: str = "*", *, times: int | None = 1, skip: int = 0
    ) -> None:
        """Spoil the next ``times`` requests (None: all) that match, after letting ``skip`` of them pass.

        ``verb`` (see `verb_of`) and ``path`` (without its query) are shell patterns; ``*`` matches slashes, too.
        """
        with self._lock:
            self._rules.append(_Rule(fault, verb, path, skip, times))

    def heal(self) -> None:
        """No more faults, neither of the plan nor injected ones."""
        with self._lock:
            self._rules.clear()
            self.plan = FaultPlan()

    def clear(self) -> None:
        """Begin to count from zero, and a new story. The numbers of requests go on."""
        with self._lock:
            self._counts.clear()
            self._served.clear()
            self._story.clear()

    # -- What happened ----------------------------------------------------------------------------------

    @property
    def counts(self) -> dict[str, int]:
        """How many requests came, by verb (`verb_of`)."""
        with self._lock:
            return dict(self._counts)

    @property
    def served(self) -> dict[str, int]:
        """How many the server did, by verb."""
        with self._lock:
            return dict(self._served)

    @property
    def exchanges(self) -> list[Exchange]:
        """What became of each, in the order in which they were answered."""
        with self._lock:
            return [*self._story]

    def story(self) -> str:
        """The same to be read."""
        return "\n".join(map(str, self.exchanges))

    # -- One request ------------------------------------------------------------------------------------

    def begin(self, verb: str, path: str, *, conditional: bool) -> tuple[int, HttpFault | None, float]:
        """Count a request; its number, its fate, and how many seconds it takes longer."""
        with self._lock:
            self._number += 1
            self._counts[verb] += 1
            wait = 0.0 if self._latency is None else self._latency.draw(verb)
            fault = next((rule.fault for rule in self._rules if rule.fires(verb, path)), None)
            if fault is None:
                fault = self.plan.fate(self.seed, self._number)
            if fault in _OF_CONDITIONS and not conditional:
                fault = None
            return self._number, fault, wait + (self.delay_s if fault is HttpFault.DELAYED else 0.0)

    def end(self, exchange: Exchange) -> None:
        """Note what became of it."""
        with self._lock:
            self._served[exchange.verb] += exchange.served > 0
            self._story.append(exchange)

    def forward(self, handler: BaseHTTPRequestHandler, body: bytes) -> _Reply:
        """Let the server do it. A connection for each: none may go stale and be retried."""
        connection = HTTPConnection(*self._upstream, timeout=60)
        try:
            connection.putrequest(handler.command, handler.path, skip_host=True, skip_accept_encoding=True)
            for name, value in handler.headers.items():
                if name.lower() not in {*_HOP_BY_HOP, "content-length", "expect"}:
                    connection.putheader(name, value)
            if body or "Content-Length" in handler.headers or "Transfer-Encoding" in handler.headers:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            reply = connection.getresponse()
            headers = [(name, value) for name, value in reply.getheaders() if name.lower() not in _HOP_BY_HOP]
            return _Reply(reply.status, reply.reason, headers, reply.read())
        finally:
            connection.close()


def verb_of(method: str, target: str) -> str:
    """The kind of a request: its method, but ``LIST`` for a GET that lists (S3, Azure, and both APIs of GCS)."""
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)
    lists = "list-type" in query or query.get("comp") == ["list"] or fnmatchcase(parts.path, "*/b/*/o")
    return "LIST" if method == "GET" and lists else method


class _Reply(NamedTuple):
    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, proxy: FaultProxy) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.proxy = proxy

    def shutdown_request(self, request: Any) -> None:
        # Without the polite end that the base class sends first, where a reset is wanted.
        if request.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8) == _AT_ONCE:
            request.close()
        else:
            super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: clients that go away are what this is about."""


_AT_ONCE = struct.pack("ii", 1, 0)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def _handle(self) -> None:
        body = self._body()
        path, verb = urlsplit(self.path).path, verb_of(self.command, self.path)
        conditional = any(name in self.headers for name in _CONDITIONS) or "ifGenerationMatch=" in self.path
        number, fault, wait = self.server.proxy.begin(verb, path, conditional=conditional)
        time.sleep(wait)
        reply, served = None, 0
        if fault is not HttpFault.RESET and fault not in _NOT_FORWARDED:
            try:
                reply = self.server.proxy.forward(self, body)
                served = reply.status
            except (OSError, HTTPException) as error:
                reply = _Reply(502, "Bad Gateway", [], f"no answer from the server: {error!r}".encode())
        if fault in _ANSWERS:
            reply = _error(*_ANSWERS[fault])
        cut = fault is HttpFault.REPLY_CUT or (fault is HttpFault.TRUNCATED and not (reply and reply.body))
        status = 0 if reply is None or cut else reply.status
        # Before the client hears of it, so that it finds its own request counted.
        self.server.proxy.end(Exchange(number, verb, path, fault, served, status))
        if reply is None:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        if reply is None or cut:
            self.close_connection = True
        else:
            self._answer(reply, truncated=fault is HttpFault.TRUNCATED)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PATCH = do_OPTIONS = _handle  # noqa: N815  (the base's names)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(chunks)

    def _answer(self, reply: _Reply, *, truncated: bool) -> None:
        body = b"" if self.command == "HEAD" else reply.body
        self.send_response_only(reply.status, reply.reason)
        for name, value in reply.headers:
            if name.lower() != "content-length" or self.command == "HEAD":
                self.send_header(name, value)
        if self.command != "HEAD" and reply.status not in {204, 304}:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if truncated:
            body = body[: len(body) // 2]
            self.close_connection = True
        self.wfile.write(body)

    def handle(self) -> None:
        with suppress(ConnectionError):  # The client has gone away.
            super().handle()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base's name)
        """Nothing: `FaultProxy.story` tells."""


def _error(status: int, code: str) -> _Reply:
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>injected</Message></Error>'
    return _Reply(status, code, [("Content-Type", "application/xml")], body.encode())
