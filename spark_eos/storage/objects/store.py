"""A store in a bucket of S3, Azure Blob Storage, Google Cloud Storage, or whatever speaks like one of them.

The whole of ``create``: one PUT on the condition that the name is free. Each try is one request, and this module
tries again itself: so it knows of every try whether it did nothing, or may have done its work without a reply.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from functools import partial
from threading import Lock
from typing import Any, TypeVar

import pyarrow as pa

from spark_eos.errors import (
    EosLogError,
    InvalidRequestError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
)
from spark_eos.storage.forks import generation
from spark_eos.storage.group_channel import GroupChannel, local_group_channel
from spark_eos.storage.object_names import (
    MAX_NAME_BYTES,
    PROBES,
    TEMP_FOLDER,
    check_name,
    check_prefix,
    check_range,
    is_legal_name,
)
from spark_eos.storage.objects.clients import Location, check_process, connect, endpoint_of
from spark_eos.storage.objects.responses import Disposition, Response, meaning, read_response, response_error
from spark_eos.storage.settings import NO_SETTINGS, Settings
from spark_eos.storage.store import ROUNDED_S, Data, ObjectInfo, Store, Upload
from spark_eos.storage.uploads import UploadFile, as_bytes_view

__all__ = ["ObjectStore"]

T = TypeVar("T")

SINGLE_BYTES = 48 << 20
"""An upload of up to so many bytes is one PUT, and as good as a create: what a task's buffer makes, and a bit."""

PART_BYTES = 16 << 20
"""Larger ones go in parts of so many bytes, `PARTS_AT_ONCE` under way."""

PARTS_AT_ONCE = 4

RETRY_S = 8.0
"""After so many seconds nothing is tried again. A commit goes on trying longer, see `spark_eos.log.commit.loop`."""

_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 1.0
_LIST_PAGE = 1000

_MAKING = frozenset({"create", "overwrite", "upload"})
"""They need nothing to be there."""

_AGAIN = frozenset({Disposition.RETRYABLE, Disposition.AMBIGUOUS, Disposition.CONFLICT})


class ObjectStore(Store):
    """Objects under a prefix of a bucket or container; ``settings`` as in `spark_eos.storage.settings`.

    Nothing is sent before the first call. ``single_bytes`` and ``retry_s`` are for tests.
    """

    is_local = False
    has_exact_conflicts = False  # What this module does not send twice, a proxy may.

    def __init__(
        self,
        location: Location,
        settings: Settings = NO_SETTINGS,
        *,
        single_bytes: int = SINGLE_BYTES,
        retry_s: float = RETRY_S,
    ) -> None:
        self.url = location.url
        self._location = location
        self._prefix = location.prefix
        self._settings = settings
        self._single_bytes = single_bytes
        self._part_bytes = min(PART_BYTES, single_bytes)  # Of less than one part the library makes no parts.
        self._retry_s = retry_s
        self._client = connect(location, settings)
        self._patient: Any = None
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"ObjectStore({self.url!r}, {self._settings!r})"

    def __reduce__(self) -> tuple[object, ...]:
        made = partial(ObjectStore, single_bytes=self._single_bytes, retry_s=self._retry_s)
        return made, (self._location, self._settings)

    # -- Create -----------------------------------------------------------------------------------------

    def create(self, name: str, data: Data) -> None:
        self._create(name, self._key(name), bytes(as_bytes_view(data)))

    def _create(self, name: str, key: str, body: bytes | bytearray) -> None:
        def put() -> None:
            self._client.put(key, body, mode="create", use_multipart=False)

        self._ask("create", name, put, changes=True, conflict=lambda: self._is_there(name))

    def _is_there(self, name: str) -> bool:
        """Whether a create that was refused for a conflict lost against another, or against a delete."""
        try:
            self.size(name)
        except ObjectNotFoundError:
            return False
        return True

    def upload(self, name: str, *, write_behind: bool = False) -> AbstractContextManager[Upload]:
        """As `Store.upload`. A large one is no create at its end: see docs/design/0007.

        Its name is looked for just before the end, and no other process may use it.
        """
        return self._upload(name, self._key(name))

    @contextmanager
    def _upload(self, name: str, key: str) -> Iterator[Upload]:
        parts = _Parts(self, name, key, self._single_bytes)
        try:
            with UploadFile(parts.write) as file:
                yield file
                file.finish()
        except BaseException:
            parts.abort()
            raise
        parts.finish()

    # -- Read -------------------------------------------------------------------------------------------

    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        key = self._key(name)
        check_range(name, offset, length)
        if length == 0:
            self.size(name)
            return pa.py_buffer(b"")
        options: dict[str, Any] = {}
        if length is not None:
            options["range"] = (offset, offset + length)
        elif offset:
            options["range"] = {"offset": offset}
        body = self._ask("read", name, lambda: self._client.get(key, options=options).bytes(), beyond=b"")
        return pa.py_buffer(body)

    def size(self, name: str) -> int:
        return int(self._head(name)["size"])

    def _head(self, name: str) -> Any:
        key = self._key(name)
        return self._ask("look at", name, lambda: self._client.head(key))

    def age_s(self, name: str) -> float | None:
        """As `Store.age_s`: the object's ``Last-Modified``, and that of a probe, which is deleted again.

        Four requests. A probe that cannot be deleted is for the vacuum.
        """
        found = self._head(name)
        if not found["size"]:
            return None
        return max(float((self._now() - found["last_modified"]).total_seconds()) - ROUNDED_S, 0.0)

    def now_ms(self) -> int:
        """As `Store.now_ms`: ``Last-Modified`` of a probe. Three requests."""
        return int(self._now().timestamp() * 1000)

    def _now(self) -> datetime:
        probe = f"{PROBES}{uuid.uuid4().hex}"
        try:
            with suppress(ObjectExistsError):  # Its own, by a library that has sent it twice.
                self.create(probe, b"now")
            now: datetime = self._head(probe)["last_modified"]
        finally:
            with suppress(EosLogError):
                self.delete(probe)
        return now

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        return self._list(prefix)

    def _list(self, prefix: str) -> Iterator[ObjectInfo]:
        start = len(self._prefix)
        # The library lists folders only.
        folder = (self._prefix + self._escaped(prefix)).rpartition("/")[0]
        pages: Any = None
        last: str | None = None

        def next_page() -> Any:
            nonlocal pages
            if pages is None:
                pages = self._client.list(folder, offset=last, chunk_size=_LIST_PAGE)
            try:
                return next(pages, None)
            except BaseException:
                pages = None  # The stores list in the order of keys: go on behind the last one.
                raise

        while page := self._ask("list", prefix, next_page):
            for found in page:
                last = found["path"]
                name = self._unescaped(found["path"][start:])
                if name.startswith(prefix) and is_legal_name(name) and name.partition("/")[0] != TEMP_FOLDER:
                    yield ObjectInfo(name, int(found["size"]))

    # -- Remove and replace -----------------------------------------------------------------------------

    def group_channel(self, name: str) -> GroupChannel | None:
        # A copy of the log has the same name and perhaps the same URL, elsewhere.
        return local_group_channel(f"{endpoint_of(self._location, self._settings)} {self.url}", name)

    def delete(self, name: str) -> None:
        key = self._key(name)
        with suppress(ObjectNotFoundError):
            self._ask("delete", name, lambda: self._client.delete(key), changes=True)

    def overwrite(self, name: str, data: Data) -> None:
        key, body = self._key(name), bytes(as_bytes_view(data))
        self._ask(
            "overwrite",
            name,
            lambda: self._client.put(key, body, mode="overwrite", use_multipart=False),
            changes=True,
        )

    # -- Requests ---------------------------------------------------------------------------------------

    def _key(self, name: str) -> str:
        check_name(name)
        key = self._prefix + self._escaped(name)
        if len(key.encode()) > MAX_NAME_BYTES or any(c < " " or c == "\x7f" for c in name):
            raise InvalidRequestError(
                f"{self.url}: {name!r} cannot name an object here: with the URL's path it has more than "
                f"{MAX_NAME_BYTES} bytes in UTF-8, or it has control characters; use a shorter or simpler one"
            )
        return key

    def _escaped(self, name: str) -> str:
        """Azure takes a backslash for a slash; elsewhere a name is its key."""
        return name.replace("%", "%25").replace("\\", "%5C") if self._location.cloud == "adls" else name

    def _unescaped(self, key: str) -> str:
        return key.replace("%5C", "\\").replace("%25", "%") if self._location.cloud == "adls" else key

    def _where(self, name: str) -> str:
        return f"{self.url}/{name}" if name else self.url

    def _ask(
        self,
        verb: str,
        name: str,
        call: Callable[[], T],
        *,
        changes: bool = False,
        beyond: Any = None,
        conflict: Callable[[], bool] | None = None,
    ) -> T:
        """The answer to a request, which is sent again for `RETRY_S` if it makes sense.

        ``changes``: a try without a reply may have done its work. ``beyond``: the answer for a range behind the
        end. ``conflict``: asked after a 409 whether the name is taken.
        """
        check_process(self.url)
        deadline = time.monotonic() + self._retry_s
        in_doubt = False
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                return call()
            except (TypeError, AttributeError):
                raise  # Our own mistake, and no reply.
            except Exception as error:  # noqa: BLE001  (the library's errors have no common root)
                reply = read_response(error)
            # From here on outside of the block: the library's texts must not hang on to ours.
            what = meaning(reply)
            if what is Disposition.EXISTS and conflict is None:
                what = Disposition.CONFLICT  # Nothing was asked on a condition.
            in_doubt = in_doubt or (changes and what is Disposition.AMBIGUOUS)
            if what is Disposition.OUT_OF_RANGE and beyond is not None:
                return beyond  # type: ignore[no-any-return]  # it is what the caller wants for a T
            if what is Disposition.EXISTS or (
                what is Disposition.CONFLICT and conflict is not None and conflict()
            ):
                raise ObjectExistsError(
                    f"{self._where(name)}: cannot {verb}: it exists already; read it to see whose it is"
                )
            if what not in _AGAIN or time.monotonic() + wait_s > deadline:
                raise self._failure(reply, verb, name, in_doubt=in_doubt)
            time.sleep(wait_s * random.uniform(0.5, 1))  # noqa: S311  (to spread requests, no secret)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    def _guard(self, name: str, call: Callable[[], T], *, ends: bool = False) -> T:
        """The answer to a part of an upload, which the library tries again by itself. ``ends``: it is the last one."""
        check_process(self.url)
        try:
            return call()
        except Exception as error:  # noqa: BLE001  (the library's errors have no common root)
            reply = read_response(error)
        certain = meaning(reply) is Disposition.REJECTED and not reply.was_retried
        raise self._failure(reply, "upload", name, in_doubt=ends and not certain)

    def _failure(self, reply: Response, verb: str, name: str, *, in_doubt: bool = False) -> EosLogError:
        if meaning(reply) is Disposition.NOT_FOUND and verb not in _MAKING:
            return ObjectNotFoundError(
                f"{self._where(name)}: there is no such object; check the name and the URL"
            )
        reply = reply._replace(message=self._settings.scrub(reply.message))
        return response_error(reply, verb, self._where(name), in_doubt=in_doubt)

    def _patiently(self) -> Any:
        """A client that tries again by itself: for what is many requests, each of which may be repeated."""
        with self._lock:
            if self._patient is None:
                self._patient = connect(self._location, self._settings, patient=True)
            return self._patient


class _Parts:
    """The bytes of an upload: kept up to ``single_bytes``, and from then on sent in parts."""

    def __init__(self, store: ObjectStore, name: str, key: str, single_bytes: int) -> None:
        self._store = store
        self._name = name
        self._key = key
        self._single_bytes = single_bytes
        self._kept = bytearray()
        self._size = 0
        self._writer: Any = None
        self._made_in = generation()

    def write(self, view: memoryview) -> None:
        self._size += view.nbytes
        if self._writer is None and self._size <= self._single_bytes:
            self._kept += view
            return
        if self._writer is None:
            self._writer = self._open()
            kept, self._kept = self._kept, bytearray()
            if kept:
                self._send(bytes(kept))
        self._send(bytes(view))

    def _open(self) -> Any:
        import obstore

        store = self._store
        return store._guard(  # noqa: SLF001  (one class in two halves)
            self._name,
            lambda: obstore.open_writer(
                store._patiently(),  # noqa: SLF001
                self._key,
                buffer_size=store._part_bytes,  # noqa: SLF001
                max_concurrency=PARTS_AT_ONCE,
            ),
        )

    def _send(self, data: bytes) -> None:
        self._store._guard(self._name, lambda: self._writer.write(data))  # noqa: SLF001

    def abort(self) -> None:
        """Take back what was sent; what cannot be taken back is never visible, and goes by the bucket's own rule."""
        writer, self._writer = self._writer, None
        self._kept = bytearray()
        if (
            writer is not None and self._made_in == generation()
        ):  # Else it is the parent's, and so are its threads.
            with suppress(Exception):
                writer.__exit__(InterruptedError, InterruptedError(), None)

    def finish(self) -> None:
        """Make the object. Of parts no store makes one on a condition, as far as the library goes."""
        store, name = self._store, self._name
        if self._writer is None:
            kept, self._kept = self._kept, bytearray()
            store._create(name, self._key, kept)  # noqa: SLF001
            return
        try:
            taken = store._is_there(name)  # noqa: SLF001
        except BaseException:
            self.abort()
            raise
        if taken:
            self.abort()
            raise ObjectExistsError(
                f"{store.url}/{name}: cannot upload: it exists already; read it to see whose it is"
            )
        writer, self._writer = self._writer, None
        try:
            store._guard(name, writer.close, ends=True)  # noqa: SLF001
            return
        except OutcomeUnknownError as error:
            failure = error
        # The last request may have done its work all the same: then the object is there.
        taken = False
        with suppress(EosLogError):
            taken = store._is_there(name)  # noqa: SLF001
        if taken:
            raise ObjectExistsError(
                f"{store.url}/{name}: its upload got no reply, but it is there; read it"
            ) from failure
        raise failure
