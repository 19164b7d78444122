"""A second log inside of the store of another one, so that both have the same faults, crashes and delays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from spark_eos.storage.store import Data, ObjectInfo, Store, Upload
from spark_eos.testing.wrapped_store import WrappedStore

__all__ = ["PartStore"]

_PART = "_two/"
T = TypeVar("T")


class PartStore(WrappedStore):
    """The objects of ``inner`` whose names begin with a folder of their own."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.url = f"{inner.url}/{_PART}"

    def _call(self, operation: str, name: str, effect: Callable[[], T]) -> T:
        raise NotImplementedError

    def create(self, name: str, data: Data) -> None:
        self.inner.create(_PART + name, data)

    def upload(self, name: str, *, write_behind: bool = False) -> AbstractContextManager[Upload]:
        return self.inner.upload(_PART + name, write_behind=write_behind)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        return self.inner.read(_PART + name, offset, length)

    def key_of(self, name: str) -> str | None:
        return self.inner.key_of(_PART + name)

    def size(self, name: str) -> int:
        return self.inner.size(_PART + name)

    def age_s(self, name: str) -> float | None:
        return self.inner.age_s(_PART + name)

    def identity(self, name: str) -> Hashable | None:
        return self.inner.identity(_PART + name)

    def now_ms(self) -> int | None:
        return self.inner.now_ms()

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        for info in self.inner.list(_PART + prefix):
            yield replace(info, name=info.name.removeprefix(_PART))

    def group_channel(self, name: str) -> None:
        return None

    def ensure_durable(self, name: str) -> None:
        self.inner.ensure_durable(_PART + name)

    def delete(self, name: str) -> None:
        self.inner.delete(_PART + name)

    def overwrite(self, name: str, data: Data) -> None:
        self.inner.overwrite(_PART + name, data)

    def retire(self, name: str) -> None:
        self.inner.retire(_PART + name)
