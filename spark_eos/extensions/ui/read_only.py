"""A store that only reads: what the page looks at, it cannot change."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable, Iterator
from typing import NoReturn

import pyarrow as pa

from spark_eos.errors import StorePermissionError
from spark_eos.storage import Store
from spark_eos.storage.no_writes import NoWrites
from spark_eos.storage.store import EarlierPlace, ObjectInfo


class ReadOnlyStore(NoWrites):
    """Passes reads on to another store and counts them; every write is refused before it reaches that store.

    It tells the time, for which that store makes an object of the moment.
    """

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self._requests: Counter[str] = Counter()
        self.url = inner.url
        self.settings = inner.settings
        self.requests_are_free = inner.requests_are_free
        self.encryption_key_id = inner.encryption_key_id
        self.has_exact_conflicts = inner.has_exact_conflicts

    @property
    def requests(self) -> dict[str, int]:
        """How often the store was asked, by verb."""
        with self._lock:
            return dict(self._requests)

    def _count(self, verb: str) -> None:
        with self._lock:
            self._requests[verb] += 1

    def with_data(self, url: str, before: EarlierPlace | None = None) -> Store:
        self._inner = self._inner.with_data(url, before)
        self.requests_are_free = self.requests_are_free and self._inner.requests_are_free
        return self

    def key_of(self, name: str) -> str | None:
        self._count("read")
        return self._inner.key_of(name)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        self._count("read")
        return self._inner.read(name, offset, length)

    def size(self, name: str) -> int:
        self._count("size")
        return self._inner.size(name)

    def identity(self, name: str) -> Hashable | None:
        if self._inner.requests_are_free:
            self._count("size")
        return self._inner.identity(name)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        self._count("list")
        return self._inner.list(prefix)

    def next_name(self, prefix: str, after: str) -> str | None:
        self._count("list")
        return self._inner.next_name(prefix, after)

    def ensure_durable(self, name: str) -> None:
        self._inner.ensure_durable(name)

    def now_ms(self) -> int | None:
        return self._inner.now_ms()

    def _refuse(self, verb: str, name: str) -> NoReturn:
        raise StorePermissionError(f"{self.url}/{name}: the page only reads, and does not {verb} objects")
