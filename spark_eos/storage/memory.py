"""A store in the memory of this process: for tests, examples and throw-away logs."""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple, NoReturn
from weakref import WeakValueDictionary

import pyarrow as pa

from spark_eos.errors import IllegalStateError, ObjectExistsError, ObjectNotFoundError
from spark_eos.storage.forks import Lock, generation
from spark_eos.storage.object_names import check_name, check_prefix, check_range
from spark_eos.storage.store import Data, ObjectInfo, Store, Upload
from spark_eos.storage.uploads import buffered


class _Object(NamedTuple):
    body: pa.Buffer
    number: int
    """No two objects of a space have the same one."""


class _Space:
    """What all stores of one name share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.folders: dict[str, dict[str, _Object]] = {}
        """The objects by folder: a listing copies the names of its own folders alone."""
        self.made_in = generation()
        self._numbers = itertools.count()

    def folder(self, name: str) -> dict[str, _Object]:
        """All objects of the folder that one is in."""
        return self.folders.setdefault(_folder(name), {})

    def new_object(self, data: Data) -> _Object:
        """An object of the bytes as they are now: the caller may go on changing a bytearray."""
        return _Object(pa.py_buffer(bytes(memoryview(data))), next(self._numbers))


_spaces: WeakValueDictionary[str, _Space] = WeakValueDictionary()
_kept: set[_Space] = set()
"""Spaces that users named: they live as long as the process, as a folder would."""
_spaces_lock = Lock()


class MemoryStore(Store):
    """Objects in this process. Stores of one ``name`` share their objects; without a name it is private.

    Nothing outlives the process, and no other process (no Spark executor either) sees it. A forked process would have
    a copy of its own: it is refused there (`IllegalStateError`).
    """

    requests_are_free = True
    has_exact_conflicts = True

    def __init__(self, name: str | None = None) -> None:
        with _spaces_lock:
            key = f"private-{uuid.uuid4().hex}" if name is None else name
            self._space = _spaces.setdefault(key, _Space())
            if name is not None:
                _kept.add(self._space)
        self.url = f"memory://{key}"

    def __repr__(self) -> str:
        return f"MemoryStore({self.url!r})"

    def create(self, name: str, data: Data) -> None:
        check_name(name)
        object_ = self._space.new_object(data)
        with self._lock:
            folder = self._space.folder(name)
            if name in folder:
                raise ObjectExistsError(
                    f"{self.url}: object {name!r} exists already; read it to see whose it is"
                )
            folder[name] = object_

    def upload(self, name: str, *, write_behind: bool = False) -> AbstractContextManager[Upload]:
        check_name(name)
        return buffered(lambda body: self.create(name, body))

    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        check_name(name)
        check_range(name, offset, length)
        body = self._object(name).body
        start = min(offset, body.size)
        return body.slice(start, body.size - start if length is None else min(length, body.size - start))

    def size(self, name: str) -> int:
        check_name(name)
        size: int = self._object(name).body.size
        return size

    def identity(self, name: str) -> int:
        return self._object(name).number

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        with self._lock:
            folders = [
                [*objects.items()]
                for folder, objects in self._space.folders.items()
                if folder.startswith(_folder(prefix))
            ]
        return (
            ObjectInfo(name, object_.body.size)
            for objects in folders
            for name, object_ in objects
            if name.startswith(prefix)
        )

    def delete(self, name: str) -> None:
        check_name(name)
        with self._lock:
            self._space.folder(name).pop(name, None)

    def overwrite(self, name: str, data: Data) -> None:
        check_name(name)
        object_ = self._space.new_object(data)
        with self._lock:
            self._space.folder(name)[name] = object_

    def __copy__(self) -> MemoryStore:
        return self

    def __deepcopy__(self, memo: object) -> MemoryStore:
        return self

    def __reduce__(self) -> NoReturn:
        raise IllegalStateError(
            f"{self.url} is in the memory of this process and cannot be pickled: use a folder"
        )

    @property
    def _lock(self) -> threading.Lock:
        """That of the objects, in the process that has them."""
        if self._space.made_in != generation():
            raise IllegalStateError(
                f"{self.url} is in the memory of the process that this one was forked from, which would not see what "
                "is written here: use a folder, or another name in the child"
            )
        return self._space.lock

    def _object(self, name: str) -> _Object:
        with self._lock:
            object_ = self._space.folders.get(_folder(name), {}).get(name)
        if object_ is None:
            raise ObjectNotFoundError(f"{self.url}: there is no object {name!r}; check the name and the URL")
        return object_


def _folder(name: str) -> str:
    return name[: name.rfind("/") + 1]
