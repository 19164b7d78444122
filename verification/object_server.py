"""A small object store in this process, behind HTTP on loopback: the requests that Google's and Amazon's have alike.

It knows conditional PUT (``x-goog-if-generation-match: 0`` and ``If-None-Match: *``), GET with ranges, HEAD, DELETE,
LIST with pages, and uploads in parts. It can be told to answer with errors, or to ignore conditions, as stores do
that cannot carry a log. Signatures are not checked.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import format_datetime
from fnmatch import fnmatchcase
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_LONG_AGO_S = 1_795_262_400.0
"""When objects were made that were there from the beginning."""

_RANGE = re.compile(r"bytes=([0-9]+)-([0-9]*)")
_PART_NUMBER = re.compile(rb"<PartNumber>([0-9]+)</PartNumber>")


class Request(NamedTuple):
    """One line of the journal: the verb of a store, the key (or prefix), and the status it was answered with."""

    verb: str
    key: str
    status: int


@dataclass
class _Refusal:
    verb: str
    key: str
    status: int
    code: str
    message: str
    times: int | None


@dataclass
class ObjectServer:
    """What it holds, how it behaves, and what it was asked.

    ``page`` objects are in one answer to a LIST. ``ignores_conditions``: every PUT is done. ``loses``: the verb whose
    next request is served, and gets no reply. By ``clock`` objects are made, in seconds since 1970.
    """

    buckets: dict[str, dict[str, bytes]] = field(default_factory=dict)
    page: int = 1000
    ignores_conditions: bool = False
    loses: str = ""
    address: str = ""
    clock: Callable[[], float] = time.time
    journal: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lock = threading.Lock()
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.ids = itertools.count(1)
        self._made_s: dict[tuple[int, str], float] = {}
        self._refusals: list[_Refusal] = []

    def put(self, objects: dict[str, bytes], key: str, body: bytes) -> None:
        """An object of a bucket, made now by ``clock``."""
        objects[key] = body
        self._made_s[id(objects), key] = self.clock()

    def made_at(self, objects: dict[str, bytes], key: str) -> datetime:
        """When it was made, to the second."""
        made_s = self._made_s.get((id(objects), key), _LONG_AGO_S)
        return datetime.fromtimestamp(int(made_s), timezone.utc)

    def refuse(
        self,
        verb: str,
        status: int,
        code: str = "",
        message: str = "",
        *,
        key: str = "*",
        times: int | None = None,
    ) -> None:
        """Answer the next ``times`` requests (None: all) that match with an error, and do nothing.

        ``verb`` is one of create, overwrite, read, size, list, delete, begin, part, complete, abort, or a pattern.
        """
        with self.lock:
            self._refusals.append(_Refusal(verb, key, status, code, message, times))

    def heal(self) -> None:
        """Refuse nothing any more."""
        with self.lock:
            self._refusals.clear()

    def count(self, verb: str = "*", key: str = "*") -> int:
        """How many requests of the journal match."""
        return sum(fnmatchcase(r.verb, verb) and fnmatchcase(r.key, key) for r in self.journal)

    def refusal_of(self, verb: str, key: str) -> _Refusal | None:
        """The error that a request is to be answered with; counts it."""
        for refusal in self._refusals:
            if refusal.times != 0 and fnmatchcase(verb, refusal.verb) and fnmatchcase(key, refusal.key):
                if refusal.times is not None:
                    refusal.times -= 1
                return refusal
        return None


@contextmanager
def serving(server: ObjectServer | None = None) -> Iterator[ObjectServer]:
    """Run ``server`` (else a new one) on a free port of loopback, at its ``address``, until the context ends."""
    server = server or ObjectServer()
    handler = type("_Handler", (_Handler,), {"store": server})
    http = _Http(("127.0.0.1", 0), handler)
    server.address = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news."""


class _Handler(BaseHTTPRequestHandler):
    store: ObjectServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (named by the class above)
        pass

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path.removeprefix("/")).partition("/")
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        verb = self._verb(key, query)
        with self.store.lock:
            refusal = self.store.refusal_of(verb, key or query.get("prefix", ""))
            if refusal is not None:
                answer = _error(refusal.status, refusal.code, refusal.message)
            elif bucket not in self.store.buckets:
                answer = _error(404, "NoSuchBucket", "The specified bucket does not exist.")
            else:
                answer = getattr(self, f"_{verb}")(self.store.buckets[bucket], key, query, body)
            status, headers, content = answer
            self.store.journal.append(Request(verb, key or query.get("prefix", ""), status))
        if verb == self.store.loses:
            self.store.loses = ""
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", headers.pop("Content-Length", str(len(content))))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        # What came behind a 304 would be taken for the next answer on this connection.
        if self.command != "HEAD" and status != 304:
            self.wfile.write(content)

    def _verb(self, key: str, query: dict[str, str]) -> str:
        if "uploads" in query:
            return "begin"
        if "uploadId" in query:
            return {"PUT": "part", "POST": "complete", "DELETE": "abort"}[self.command]
        if not key:
            return "list"
        conditional = "If-None-Match" in self.headers or "x-goog-if-generation-match" in self.headers
        return {
            "PUT": "create" if conditional else "overwrite",
            "GET": "read",
            "HEAD": "size",
            "DELETE": "delete",
        }[self.command]

    def _create(self, objects: dict[str, bytes], key: str, query: dict[str, str], body: bytes) -> _Answer:
        if key in objects and not self.store.ignores_conditions:
            return _error(
                412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold."
            )
        return self._overwrite(objects, key, query, body)

    def _overwrite(self, objects: dict[str, bytes], key: str, query: dict[str, str], body: bytes) -> _Answer:
        self.store.put(objects, key, body)
        return 200, self._about(objects, key), b""

    def _read(self, objects: dict[str, bytes], key: str, query: dict[str, str], body: bytes) -> _Answer:
        data = objects.get(key)
        if data is None:
            return _error(404, "NoSuchKey", "The specified key does not exist.")
        byte_range = _RANGE.fullmatch(self.headers.get("Range", ""))
        if byte_range is None:
            return 200, self._about(objects, key), data
        start, end = int(byte_range[1]), min(int(byte_range[2] or len(data)), len(data) - 1)
        if start >= len(data):
            return _error(416, "InvalidRange", "The requested range cannot be satisfied.")
        span = f"bytes {start}-{end}/{len(data)}"
        return 206, {**self._about(objects, key), "Content-Range": span}, data[start : end + 1]

    def _size(self, objects: dict[str, bytes], key: str, query: dict[str, str], body: bytes) -> _Answer:
        data = objects.get(key)
        if data is None:
            return 404, {}, b""
        return 200, {**self._about(objects, key), "Content-Length": str(len(data))}, b""

    def _delete(self, objects: dict[str, bytes], key: str, query: dict[str, str], body: bytes) -> _Answer:
        if objects.pop(key, None) is None:
            return _error(404, "NoSuchKey", "The specified key does not exist.")
        return 204, {}, b""

    def _list(self, objects: dict[str, bytes], key: str, query: dict[str, str], body: bytes) -> _Answer:
        after = query.get("continuation-token") or query.get("start-after") or ""
        names = sorted(name for name in objects if name.startswith(query.get("prefix", "")) and name > after)
        page = names[: self.store.page]
        rows = "".join(
            f"<Contents><Key>{escape(name)}</Key>"
            f"<LastModified>{self.store.made_at(objects, name):%Y-%m-%dT%H:%M:%S.000Z}</LastModified>"
            f"<ETag>{escape(_etag(objects[name]))}</ETag><Size>{len(objects[name])}</Size></Contents>"
            for name in page
        )
        more = len(names) > len(page)
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        truncated = str(more).lower()
        return _xml(
            200, f"<ListBucketResult><IsTruncated>{truncated}</IsTruncated>{token}{rows}</ListBucketResult>"
        )

    # -- Uploads in parts ---------------------------------------------------------------------------------

    def _begin(self, objects: dict[str, bytes], key: str, query: dict[str, str], body: bytes) -> _Answer:
        upload = f"upload-{next(self.store.ids)}"
        self.store.uploads[upload] = {}
        return _xml(
            200,
            f"<InitiateMultipartUploadResult><Key>{escape(key)}</Key><UploadId>{upload}</UploadId>"
            "</InitiateMultipartUploadResult>",
        )

    def _part(self, objects: dict[str, bytes], key: str, query: dict[str, str], body: bytes) -> _Answer:
        parts = self.store.uploads.get(query["uploadId"])
        if parts is None:
            return _error(404, "NoSuchUpload", "The requested upload was not found.")
        parts[int(query["partNumber"])] = body
        return 200, {"ETag": _etag(body)}, b""

    def _complete(self, objects: dict[str, bytes], key: str, query: dict[str, str], body: bytes) -> _Answer:
        parts = self.store.uploads.pop(query["uploadId"], None)
        if parts is None:
            return _error(404, "NoSuchUpload", "The requested upload was not found.")
        self.store.put(objects, key, b"".join(parts[int(number)] for number in _PART_NUMBER.findall(body)))
        return _xml(
            200,
            f"<CompleteMultipartUploadResult><ETag>{escape(_etag(objects[key]))}</ETag></CompleteMultipartUploadResult>",
        )

    def _abort(self, objects: dict[str, bytes], key: str, query: dict[str, str], body: bytes) -> _Answer:
        self.store.uploads.pop(query["uploadId"], None)
        return 204, {}, b""

    def _about(self, objects: dict[str, bytes], key: str) -> dict[str, str]:
        made = format_datetime(self.store.made_at(objects, key), usegmt=True)
        return {"ETag": _etag(objects[key]), "Last-Modified": made, "x-goog-generation": "1"}


_Answer = tuple[int, dict[str, str], bytes]


def _etag(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def _xml(status: int, text: str) -> _Answer:
    return status, {"Content-Type": "application/xml"}, f'<?xml version="1.0"?>{text}'.encode()


def _error(status: int, code: str, message: str) -> _Answer:
    if not code:
        return status, {}, b""
    return _xml(status, f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>")
