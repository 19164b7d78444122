"""A store in a bucket of S3, Azure Blob Storage, Google Cloud Storage, or whatever speaks like one of them.

The whole of ``create``: one PUT on the condition that the name is free. `spark_eos.storage.objects.requests` sends it
again, and knows of every attempt whether it did nothing, or may have done its work without a reply.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from functools import partial
from threading import Lock
from typing import Any

import pyarrow as pa

from spark_eos.errors import (
    EosLogError,
    InvalidRequestError,
    ObjectExistsError,
    ObjectNotFoundError,
)
from spark_eos.extending import needed
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
from spark_eos.storage.objects.clients import Location, connect, endpoint_of
from spark_eos.storage.objects.multipart import SINGLE_BYTES, MultipartUpload
from spark_eos.storage.objects.requests import RETRY_S, Requests
from spark_eos.storage.probe import is_there
from spark_eos.storage.settings import NO_SETTINGS, Settings
from spark_eos.storage.store import ROUNDED_S, Data, ObjectInfo, Store, Upload
from spark_eos.storage.uploads import UploadFile, as_bytes_view

_LIST_PAGE = 1000


class ObjectStore(Store):
    """Objects under a prefix of a bucket or container; ``settings`` as in `spark_eos.storage.settings`.

    Nothing is sent before the first call. ``single_bytes`` and ``retry_s`` are for tests.
    """

    requests_are_free = False
    has_exact_conflicts = False  # What this module does not send twice, a proxy may.

    def __init__(
        self,
        location: Location,
        settings: Settings = NO_SETTINGS,
        *,
        single_bytes: int = SINGLE_BYTES,
        retry_s: float = RETRY_S,
        listen: str | None = None,
    ) -> None:
        self._over_network: Callable[[Store, GroupChannel], GroupChannel] | None = None
        if listen is not None:
            context = f"{location.url}: the setting machines.listen"
            self._over_network = needed("group_channels", "machines.listen", context)(listen)
        self.url = location.url
        self._location = location
        self._prefix = location.prefix
        self.settings = settings
        self._single_bytes = single_bytes
        self._retry_s = retry_s
        self._listen = listen
        self._requests = Requests(location.url, settings, retry_s)
        self._client = connect(location, settings)
        self._patient: Any = None
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"ObjectStore({self.url!r}, {self.settings!r})"

    def __reduce__(self) -> tuple[object, ...]:
        factory = partial(
            ObjectStore, single_bytes=self._single_bytes, retry_s=self._retry_s, listen=self._listen
        )
        return factory, (self._location, self.settings)

    # -- Create -----------------------------------------------------------------------------------------

    def create(self, name: str, data: Data) -> None:
        self._create(name, self._key(name), bytes(as_bytes_view(data)))

    def _create(self, name: str, key: str, body: bytes | bytearray) -> None:
        def put() -> None:
            self._client.put(key, body, mode="create", use_multipart=False)

        # A conflict: it has lost against another create, or against a delete.
        self._requests.ask("create", name, put, changes=True, conflict=lambda: is_there(self, name))

    def upload(self, name: str, *, write_behind: bool = False) -> AbstractContextManager[Upload]:
        """As `Store.upload`. A large one is no create at its end: see docs/design/0007.

        Its name is looked for just before the end, and no other process may use it.
        """
        return self._upload(name, self._key(name))

    @contextmanager
    def _upload(self, name: str, key: str) -> Iterator[Upload]:
        parts = MultipartUpload(
            self.url,
            name,
            key,
            self._requests,
            self._patiently,
            create=lambda body: self._create(name, key, body),
            is_there=lambda: is_there(self, name),
            single_bytes=self._single_bytes,
        )
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
        body = self._requests.ask(
            "read", name, lambda: self._client.get(key, options=options).bytes(), beyond=b""
        )
        return pa.py_buffer(body)

    def size(self, name: str) -> int:
        return int(self._head(name)["size"])

    def _head(self, name: str) -> Any:
        key = self._key(name)
        return self._requests.ask("look at", name, lambda: self._client.head(key))

    def age_s(self, name: str) -> float | None:
        """As `Store.age_s`: the object's ``Last-Modified``, and that of a probe, which is deleted again.

        Four requests. A probe that cannot be deleted is for the vacuum.
        """
        head = self._head(name)
        if not head["size"]:
            return None
        return max(float((self._now() - head["last_modified"]).total_seconds()) - ROUNDED_S, 0.0)

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

    def next_name(self, prefix: str, after: str) -> str | None:
        if not self._location.lists_in_order:
            return super().next_name(prefix, after)
        check_prefix(prefix)
        return next((info.name for info in self._list(prefix, after)), None)

    def _list(self, prefix: str, after: str = "") -> Iterator[ObjectInfo]:
        start = len(self._prefix)
        first = self._prefix + self._escaped(prefix)
        # The library lists folders only.
        folder = first.rpartition("/")[0]
        pages: Any = None
        last = self._prefix + self._escaped(after) if after else None
        # What was given, where a list that was interrupted cannot go on behind the last name.
        paths: set[str] | None = None if self._location.lists_in_order else set()

        def next_page() -> Any:
            nonlocal pages
            if pages is None:
                pages = self._client.list(folder, offset=last, chunk_size=_LIST_PAGE)
            try:
                return next(pages, None)
            except BaseException:
                pages = None  # Lists in the order of keys go on after the last one, others begin again.
                raise

        while page := self._requests.ask("list", prefix, next_page):
            for info in page:
                if paths is None:
                    last = info["path"]
                    if last[: len(first)] > first:
                        return  # What comes after that in the folder may be all indexes of a log.
                elif info["path"] in paths:
                    continue
                else:
                    paths.add(info["path"])
                name = self._unescaped(info["path"][start:])
                if name.startswith(prefix) and is_legal_name(name) and name.partition("/")[0] != TEMP_FOLDER:
                    yield ObjectInfo(name, int(info["size"]))

    # -- Remove and replace -----------------------------------------------------------------------------

    def group_channel(self, name: str) -> GroupChannel | None:
        # A copy of the log has the same name and perhaps the same URL, elsewhere.
        place = f"{endpoint_of(self._location, self.settings)} {self.url}"
        if self._over_network is None:
            return local_group_channel(place, name)
        # Processes without the setting meet elsewhere: they take a withdrawal for certain (`GroupChannel.reach`).
        local = local_group_channel(place, f"{name} machines")
        return None if local is None else self._over_network(self, local)

    def delete(self, name: str) -> None:
        key = self._key(name)
        with suppress(ObjectNotFoundError):
            self._requests.ask("delete", name, lambda: self._client.delete(key), changes=True)

    def overwrite(self, name: str, data: Data) -> None:
        key, body = self._key(name), bytes(as_bytes_view(data))
        self._requests.ask(
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

    def _patiently(self) -> Any:
        """A client that tries again by itself: for what is many requests, each of which may be repeated."""
        with self._lock:
            if self._patient is None:
                self._patient = connect(self._location, self.settings, patient=True)
            return self._patient
