"""A store whose requests are measured: by verb, how long they took and which errors came; bytes read and written."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NoReturn, TypeVar

import pyarrow as pa

from spark_eos.clients.durations import Durations
from spark_eos.errors import EosLogError, IllegalStateError
from spark_eos.monitoring.metrics.points import Histogram, Point, point, safe_url
from spark_eos.monitoring.metrics.table import METRICS
from spark_eos.storage import Data, ObjectInfo, Store, Upload
from spark_eos.storage.forks import Lock
from spark_eos.storage.group_channel import GroupChannel

__all__ = ["LookingStore", "MeasuredStore"]

T = TypeVar("T")

_DURATION = "db.client.operation.duration"

_SCHEMES = {"s3a": "s3", "abfs": "az", "abfss": "az", "azure": "az", "adl": "az"}


class MeasuredStore(Store):
    """A store around another one, which measures its requests for `register`.

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
    >>> sorted({point.labels[2] for point in store.histograms()[0].points()})[:2]
    ['create', 'delete']
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.url = inner.url
        self.settings = inner.settings
        self.requests_are_free = inner.requests_are_free
        self.has_exact_conflicts = inner.has_exact_conflicts
        self._durations = Durations(METRICS[_DURATION].bounds)
        self._lock = Lock()
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

    def points(self) -> Iterable[Point]:
        """Give the bytes that were read and written, for the exporters.

        Returns
        -------
        iterable of Point
            By verb.
        """
        with self._lock:
            known = sorted(self._bytes.items())
        return [point("eoslog.storage.io", size, safe_url(self.url), verb) for verb, size in known]

    def histograms(self) -> tuple[Histogram, ...]:
        """Give how long requests took, for the exporters.

        Returns
        -------
        tuple of Histogram
            One.
        """
        return (Histogram(_DURATION, (safe_url(self.url), self.system), self._durations),)

    def _measured(self, verb: str, request: Callable[[], T]) -> T:
        begun, error = time.perf_counter(), ""
        try:
            return request()
        except EosLogError as failure:
            error = failure.code
            raise
        except BaseException as failure:
            error = type(failure).__name__
            raise
        finally:
            self._durations.record((verb, error), time.perf_counter() - begun)

    def _count(self, verb: str, size: int) -> None:
        with self._lock:
            self._bytes[verb] = self._bytes.get(verb, 0) + size

    # -- The store ------------------------------------------------------------------------------------------

    def create(self, name: str, data: Data) -> None:
        self._measured("create", lambda: self.inner.create(name, data))
        self._count("create", memoryview(data).nbytes)

    @contextmanager
    def _upload(self, name: str, write_behind: bool) -> Iterator[Upload]:
        upload = self.inner.upload(name, write_behind=write_behind)
        file = self._measured("upload-begin", upload.__enter__)
        try:
            yield file
            size = file.tell()
        except BaseException as error:
            if not upload.__exit__(type(error), error, error.__traceback__):
                raise
            return
        self._measured("upload", lambda: upload.__exit__(None, None, None))
        self._count("upload", size)

    def upload(self, name: str, *, write_behind: bool = False) -> AbstractContextManager[Upload]:
        return self._upload(name, write_behind)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        data = self._measured("read", lambda: self.inner.read(name, offset, length))
        self._count("read", data.size)
        return data

    def size(self, name: str) -> int:
        return self._measured("size", lambda: self.inner.size(name))

    def identity(self, name: str) -> Hashable | None:
        return self.inner.identity(name)  # A system call, asked for three times in each commit.

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        found = self.inner.list(prefix)
        spent, error = 0.0, ""
        try:
            while True:
                begun = time.perf_counter()
                try:
                    info = next(found, None)
                except EosLogError as failure:
                    error = failure.code
                    raise
                finally:
                    spent += time.perf_counter() - begun
                if info is None:
                    return
                yield info
        finally:
            self._durations.record(("list", error), spent)

    def ensure_durable(self, name: str) -> None:
        self._measured("ensure_durable", lambda: self.inner.ensure_durable(name))

    def delete(self, name: str) -> None:
        self._measured("delete", lambda: self.inner.delete(name))

    def overwrite(self, name: str, data: Data) -> None:
        self._measured("overwrite", lambda: self.inner.overwrite(name, data))
        self._count("overwrite", memoryview(data).nbytes)

    def age_s(self, name: str) -> float | None:
        return self._measured("age", lambda: self.inner.age_s(name))

    def now_ms(self) -> int | None:
        return self._measured("now", self.inner.now_ms)

    def group_channel(self, name: str) -> GroupChannel | None:
        return self.inner.group_channel(name)

    def retire(self, name: str) -> None:
        self._measured("retire", lambda: self.inner.retire(name))


class LookingStore(MeasuredStore):
    """A measured store that refuses all that writes. It does not tell the time, for which stores make an object.

    Its requests count as requests, also those to a folder: who looks asks for nothing twice.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.requests_are_free = False

    def create(self, name: str, data: Data) -> None:
        self._refuse("create", name)

    def upload(self, name: str, *, write_behind: bool = False) -> AbstractContextManager[Upload]:
        self._refuse("upload", name)

    def delete(self, name: str) -> None:
        self._refuse("delete", name)

    def overwrite(self, name: str, data: Data) -> None:
        self._refuse("overwrite", name)

    def retire(self, name: str) -> None:
        self._refuse("retire", name)

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
