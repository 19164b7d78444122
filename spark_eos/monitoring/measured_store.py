"""A store whose requests are measured: by verb, how long they took and which errors came; bytes read and written."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import NoReturn, TypeVar

import pyarrow as pa

from spark_eos.clients.durations import MOST_NOTED, OF_REQUESTS, Durations, taken_out
from spark_eos.errors import EosLogError, IllegalStateError
from spark_eos.errors.hidden import safe_url
from spark_eos.storage import Data, EarlierPlace, ObjectInfo, Store, Upload
from spark_eos.storage.forks import Lock
from spark_eos.storage.group_channel import GroupChannel
from spark_eos.storage.no_writes import NoWrites

T = TypeVar("T")

_SCHEMES = {"s3a": "s3", "abfs": "az", "abfss": "az", "azure": "az", "adl": "az"}


class MeasuredStore(Store):
    """A store around another one, which measures its requests, for `register`.

    It costs some microseconds for each request. A log whose store is measured is opened with it, and clients take that
    log: ``Producer(Log.open(MeasuredStore(open_store(url))))``. Its bytes, promises and errors are those of the other
    store.

    Parameters
    ----------
    inner
        The store.

    Examples
    --------
    >>> from spark_eos import Log, Producer
    >>> from spark_eos.monitoring import MeasuredStore
    >>> from spark_eos.storage import open_store
    >>> store = MeasuredStore(open_store("memory://measured"))
    >>> with Producer(Log.open_or_create(store)) as producer:
    ...     future = producer.send("orders", b"one")
    >>> sorted({verb for verb, _ in store.durations.spreads()})[:2]
    ['create', 'delete']
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.url = inner.url
        self.settings = inner.settings
        self.requests_are_free = inner.requests_are_free
        self.encryption_key_id = inner.encryption_key_id
        self.has_exact_conflicts = inner.has_exact_conflicts
        self._durations = Durations(OF_REQUESTS)
        self._lock = Lock()
        self._noted: deque[tuple[str, int]] = deque()
        self._bytes: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.inner,)

    @property
    def system(self) -> str:
        """The kind of store, by the scheme of its URL; ``file``: a folder.

        Returns
        -------
        str
            ``file``, ``s3``, ``az``, ``gs``, …
        """
        scheme, colon, _ = self.url.partition("://")
        return _SCHEMES.get(scheme.lower(), scheme.lower()) if colon else "file"

    @property
    def durations(self) -> Durations:
        """How long requests took, by their verb and the code of their error.

        Returns
        -------
        Durations
            They go on.
        """
        return self._durations

    def bytes_by_verb(self) -> list[tuple[str, int]]:
        """Give the bytes that were read and written.

        Returns
        -------
        list of (str, int)
            By verb, in their order.
        """
        self._add_up()
        with self._lock:
            return sorted(self._bytes.items())

    def _measured(self, verb: str, request: Callable[..., T], *arguments: object) -> T:
        start_s = time.perf_counter()
        try:
            result = request(*arguments)
        except BaseException as error:
            code = error.code if isinstance(error, EosLogError) else type(error).__name__
            self._durations.record((verb, code), time.perf_counter() - start_s)
            raise
        self._durations.record((verb, ""), time.perf_counter() - start_s)
        return result

    def _count(self, verb: str, size: int) -> None:
        self._noted.append((verb, size))
        if len(self._noted) >= MOST_NOTED:
            self._add_up()

    def _add_up(self) -> None:
        with self._lock:
            for verb, size in taken_out(self._noted):
                self._bytes[verb] = self._bytes.get(verb, 0) + size

    # -- The store ------------------------------------------------------------------------------------------

    def create(self, name: str, data: Data) -> None:
        self._measured("create", self.inner.create, name, data)
        self._count("create", memoryview(data).nbytes)

    def upload(self, name: str, *, write_behind: bool = False) -> AbstractContextManager[Upload]:
        return _MeasuredUpload(self, self.inner.upload(name, write_behind=write_behind))

    def ended(self, upload: AbstractContextManager[Upload], size: int) -> None:
        """End an upload of so many bytes, and measure that.

        Parameters
        ----------
        upload
            The one of the other store.
        size
            Its bytes.
        """
        self._measured("upload", upload.__exit__, None, None, None)
        self._count("upload", size)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        data = self._measured("read", self.inner.read, name, offset, length)
        self._count("read", data.size)
        return data

    def with_data(self, url: str, before: EarlierPlace | None = None) -> Store:
        """As `Store.with_data`: another one, which counts into the same figures. This one stays as it is."""
        inner = self.inner.with_data(url, before)
        if inner is self.inner:
            return self
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        twin.inner = inner
        twin.requests_are_free = self.requests_are_free and inner.requests_are_free
        return twin

    def key_of(self, name: str) -> str | None:
        return self._measured("read", self.inner.key_of, name)

    def size(self, name: str) -> int:
        return self._measured("size", self.inner.size, name)

    def identity(self, name: str) -> Hashable | None:
        return self.inner.identity(name)  # A system call, asked for three times in each commit.

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        infos = self.inner.list(prefix)
        spent, error = 0.0, ""
        try:
            while True:
                start_s = time.perf_counter()
                try:
                    info = next(infos, None)
                except EosLogError as failure:
                    error = failure.code
                    raise
                finally:
                    spent += time.perf_counter() - start_s
                if info is None:
                    return
                yield info
        finally:
            self._durations.record(("list", error), spent)

    def next_name(self, prefix: str, after: str) -> str | None:
        return self._measured("list", self.inner.next_name, prefix, after)

    def ensure_durable(self, name: str) -> None:
        self._measured("ensure_durable", self.inner.ensure_durable, name)

    def delete(self, name: str) -> None:
        self._measured("delete", self.inner.delete, name)

    def overwrite(self, name: str, data: Data) -> None:
        self._measured("overwrite", self.inner.overwrite, name, data)
        self._count("overwrite", memoryview(data).nbytes)

    def age_s(self, name: str) -> float | None:
        return self._measured("age", self.inner.age_s, name)

    def now_ms(self) -> int | None:
        return self._measured("now", self.inner.now_ms)

    def group_channel(self, name: str) -> GroupChannel | None:
        return self.inner.group_channel(name)

    def retire(self, name: str) -> None:
        self._measured("retire", self.inner.retire, name)


class _MeasuredUpload(AbstractContextManager[Upload]):
    """An upload whose end is measured, which makes the object."""

    def __init__(self, store: MeasuredStore, upload: AbstractContextManager[Upload]) -> None:
        self._store = store
        self._upload = upload
        self._file: Upload | None = None

    def __enter__(self) -> Upload:
        self._file = self._upload.__enter__()
        return self._file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if error is not None or self._file is None:
            return self._upload.__exit__(kind, error, trace)
        size = self._file.tell()
        self._store.ended(self._upload, size)
        return None


class LookingStore(NoWrites, MeasuredStore):
    """A measured store that refuses all that writes. It does not tell the time, for which stores make an object.

    Its requests count as requests, also those to a folder: who looks asks for nothing twice.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.requests_are_free = False

    def ensure_durable(self, name: str) -> None:
        """Nothing: no write rests on what was seen."""

    def age_s(self, name: str) -> float | None:
        self.size(name)
        return None

    def now_ms(self) -> int | None:
        return None

    def group_channel(self, name: str) -> GroupChannel | None:
        return None

    def _refuse(self, verb: str, name: str) -> NoReturn:
        raise IllegalStateError(
            f"{verb} of {name} in {safe_url(self.url)}: monitoring only reads; open the log to write"
        )
