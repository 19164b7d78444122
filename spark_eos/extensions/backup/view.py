"""A backup as a store: the log as it was, without restoring it. Read-only."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from hashlib import sha256
from typing import NoReturn

import pyarrow as pa

from spark_eos.errors import CorruptRecordError, ObjectNotFoundError, StorePermissionError
from spark_eos.extensions.backup.manifest import Manifest, Pack, StoredFile
from spark_eos.log import paths
from spark_eos.storage import Data, EarlierPlace, ObjectInfo, Store, Upload

_SMALL = 16 * 1024 * 1024
"""A pack of entries up to this size is read at once."""


class BackupView(Store):
    """The files of a log as of a backup, up to entry ``last``."""

    def __init__(self, store: Store, manifest: Manifest, last: int | None = None) -> None:
        self._store = store
        self._name = manifest.backup.name
        self.last = manifest.backup.last if last is None else last
        self.url = f"{store.url}#{self._name}"
        self.requests_are_free = store.requests_are_free
        self._files = {
            file.name: file
            for file in manifest.files
            if (seq := paths.snapshot_seq(file.name)) is None or seq <= self.last
        }
        self._entries: dict[str, tuple[Pack, int, int]] = {}
        for pack in manifest.packs:
            at = 0
            for seq, size in enumerate(pack.sizes, pack.first):
                if seq <= self.last:
                    self._entries[paths.entry(seq, manifest.per_folder)] = pack, at, size
                at += size
        self._lock = threading.Lock()
        self._last_pack: tuple[Pack | None, pa.Buffer] = (None, pa.py_buffer(b""))

    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        """As `Store.read`; what is read as a whole is compared with its checksum."""
        if name in self._entries:
            pack, at, size = self._entries[name]
            data = (
                self._pack(pack).slice(at, size)
                if pack.file.size <= _SMALL
                else self._part(pack.file, at, size)
            )
            return data[offset:] if length is None else data[offset : offset + length]
        file = self._file(name)
        if offset or length is not None:
            return self._part(file, offset, length)
        return self._whole_file(file)

    def with_data(self, url: str, before: EarlierPlace | None = None) -> Store:
        """Itself: a backup has data files beside the entries, wherever the log had them."""
        return self

    def size(self, name: str) -> int:
        """As `Store.size`, by the manifest."""
        return self._entries[name][2] if name in self._entries else self._file(name).size

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """As `Store.list`, by the manifest."""
        for name, (_, _, size) in self._entries.items():
            if name.startswith(prefix):
                yield ObjectInfo(name, size)
        for name, file in self._files.items():
            if name.startswith(prefix):
                yield ObjectInfo(name, file.size)

    def _file(self, name: str) -> StoredFile:
        try:
            return self._files[name]
        except KeyError:
            raise ObjectNotFoundError(f"{self.url} has no {name!r}") from None

    def _pack(self, pack: Pack) -> pa.Buffer:
        with self._lock:
            last_pack, data = self._last_pack
            if last_pack is not pack:
                data = self._whole_file(pack.file)
                self._last_pack = pack, data
            return data

    def _whole_file(self, file: StoredFile) -> pa.Buffer:
        data = self._part(file, 0, None)
        if data.size != file.size or sha256(data).hexdigest() != file.sha256:
            raise damaged(self._store, self._name, file, "is not what was backed up")
        return data

    def _part(self, file: StoredFile, offset: int, length: int | None) -> pa.Buffer:
        try:
            return self._store.read(file.object_name, offset, length)
        except ObjectNotFoundError:
            raise damaged(self._store, self._name, file, "is missing") from None

    # -- What it is not for -------------------------------------------------------------------------------

    def create(self, name: str, data: Data) -> None:
        """Refused."""
        self._refuse()

    def upload(self, name: str, *, write_behind: bool = False) -> AbstractContextManager[Upload]:
        """Refused."""
        self._refuse()

    def delete(self, name: str) -> None:
        """Refused."""
        self._refuse()

    def overwrite(self, name: str, data: Data) -> None:
        """Refused."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise StorePermissionError(
            f"{self.url} is a backup, which never changes: restore it with eoslog restore"
        )


def damaged(store: Store, name: str, file: StoredFile, problem: str) -> CorruptRecordError:
    """The error for an object of a backup."""
    return CorruptRecordError(
        f"{store.url}/{file.object_name} {problem}: backup {name} is not whole any more. eoslog backups verify "
        f"{store.url} tells which ones are; restore from one of these, and back up again"
    )
