"""A store around another one: every call passes through one place."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

import pyarrow as pa

from spark_eos.storage.group_channel import GroupChannel
from spark_eos.storage.object_names import check_name
from spark_eos.storage.store import Data, EarlierPlace, ObjectInfo, Store, Upload
from spark_eos.storage.uploads import buffered

T = TypeVar("T")


class WrappedStore(Store):
    """``inner``, whose calls `_call` makes, spoils, or leaves.

    Operations are named as the methods of `Store`; ``list`` has the prefix for a name. An upload is kept in
    memory and is one call, at its end.
    """

    __slots__ = ("inner",)
    """All else is shared by the stores that `with_data` gives."""

    inner: Store

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.url = inner.url
        self.settings = inner.settings
        self.requests_are_free = inner.requests_are_free
        self.encryption_key_id = inner.encryption_key_id
        self.has_exact_conflicts = False  # Who knows what happens on the way.

    @abstractmethod
    def _call(self, operation: str, name: str, effect: Callable[[], T]) -> T:
        """Answer one call; ``effect`` does it. May be done later: what callers change then is not seen."""

    def create(self, name: str, data: Data) -> None:
        body = bytes(memoryview(data))
        self._call("create", name, lambda: self.inner.create(name, body))

    def upload(self, name: str, *, write_behind: bool = False) -> AbstractContextManager[Upload]:
        check_name(name)
        return buffered(lambda body: self._call("upload", name, lambda: self._upload(name, body)))

    def _upload(self, name: str, body: bytearray) -> None:
        with self.inner.upload(name) as file:
            file.write(body)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        return self._call("read", name, lambda: self.inner.read(name, offset, length))

    def with_data(self, url: str, before: EarlierPlace | None = None) -> Store:
        # The same store for all that use it, around another one.
        inner = self.inner.with_data(url, before)
        if inner is self.inner:
            return self
        twin = object.__new__(type(self))
        twin.__dict__ = self.__dict__  # What it counts and does is that of both, from now on, too.
        twin.inner = inner
        self.requests_are_free = self.requests_are_free and inner.requests_are_free
        return twin

    def key_of(self, name: str) -> str | None:
        return self._call("read", name, lambda: self.inner.key_of(name))

    def size(self, name: str) -> int:
        return self._call("size", name, lambda: self.inner.size(name))

    def age_s(self, name: str) -> float | None:
        return self._call("age_s", name, lambda: self.inner.age_s(name))

    def identity(self, name: str) -> Hashable | None:
        return (
            self.inner.identity(name) if self.requests_are_free else None
        )  # Nothing goes wrong with a system call.

    def now_ms(self) -> int | None:
        return self._call("now_ms", "", self.inner.now_ms)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._call("list", prefix, lambda: iter([*self.inner.list(prefix)]))

    def group_channel(self, name: str) -> GroupChannel | None:
        return self.inner.group_channel(name)

    def ensure_durable(self, name: str) -> None:
        self._call("ensure_durable", name, lambda: self.inner.ensure_durable(name))

    def delete(self, name: str) -> None:
        self._call("delete", name, lambda: self.inner.delete(name))

    def overwrite(self, name: str, data: Data) -> None:
        body = bytes(memoryview(data))
        self._call("overwrite", name, lambda: self.inner.overwrite(name, body))

    def retire(self, name: str) -> None:
        self._call("retire", name, lambda: self.inner.retire(name))
