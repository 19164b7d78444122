"""A store that behaves as if it were far away: every call is a request, which is counted, and takes its time."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from spark_eos.storage.group_channel import GroupChannel, local_group_channel
from spark_eos.storage.store import ObjectInfo, Store
from spark_eos.testing.wrapped_store import WrappedStore
from verification.latency import Latency

T = TypeVar("T")

PAGE = 1000
"""Names that one request lists, as with S3."""

_VERBS = {
    "create": "PUT",
    "upload": "PUT",
    "overwrite": "PUT",
    "retire": "PUT",
    "read": "GET",
    "size": "HEAD",
    "age_s": "HEAD",
    "now_ms": "HEAD",
    "delete": "DELETE",
}


class Request(NamedTuple):
    """``verb`` is what the call would be over HTTP, ``LIST`` for a page of a listing."""

    verb: str
    name: str


class RemoteStore(WrappedStore):
    """``inner``, as an object store would be: nothing is local, nothing is known to be one's own, `settle` is free.

    Each call is one request (a listing one for each `PAGE` names, an upload one whatever its size), kept in
    ``requests``, and takes as long as ``latency`` says. Safe to share between threads; they wait side by side.
    """

    def __init__(self, inner: Store, latency: Latency | None = None) -> None:
        super().__init__(inner)
        self.requests_are_free = False
        self.requests: list[Request] = []
        self._latency = latency
        self._lock = threading.Lock()

    def group_channel(self, name: str) -> GroupChannel | None:
        return local_group_channel(self.url, name)

    def __repr__(self) -> str:
        return f"RemoteStore({self.inner!r})"

    @property
    def counts(self) -> dict[str, int]:
        """How many requests there were, by verb."""
        with self._lock:
            return dict(Counter(request.verb for request in self.requests))

    def clear(self) -> None:
        """Begin to count from zero."""
        with self._lock:
            self.requests.clear()

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        infos = [*self.inner.list(prefix)]
        for _ in range(0, max(len(infos), 1), PAGE):
            time.sleep(self._request("LIST", prefix))
        return iter(infos)

    def ensure_durable(self, name: str) -> None:
        """Nothing: an object store shows only what is durable."""

    def _call(self, operation: str, name: str, effect: Callable[[], T]) -> T:
        wait = self._request(_VERBS[operation], name)
        # It is done half-way: the request has travelled, the reply has yet to.
        time.sleep(wait / 2)
        try:
            return effect()
        finally:
            time.sleep(wait / 2)

    def _request(self, verb: str, name: str) -> float:
        """Count it; how many seconds it takes."""
        with self._lock:
            self.requests.append(Request(verb, name))
            return 0.0 if self._latency is None else self._latency.draw(verb)
