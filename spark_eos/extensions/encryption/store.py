"""A store around another one that encrypts data files, and no other objects."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pyarrow as pa

from spark_eos.errors import ConfigError, CorruptRecordError
from spark_eos.extensions.encryption.file import (
    SEALED,
    ChunkSealer,
    FileCipher,
    check_installed,
    new_file,
    open_file,
)
from spark_eos.extensions.encryption.keys import KeyProvider, check_key_id, open_keys, shown
from spark_eos.storage.encrypted_files import (
    CHUNK,
    HEADER,
    TAG,
    EncryptingStore,
    is_encrypted,
    is_encrypted_name,
)
from spark_eos.storage.forks import Lock
from spark_eos.storage.group_channel import GroupChannel
from spark_eos.storage.object_names import check_name, check_range
from spark_eos.storage.settings import ENCRYPTION, Settings
from spark_eos.storage.store import Data, EarlierPlace, ObjectInfo, Store, Upload
from spark_eos.storage.uploads import UploadFile, as_bytes_view

_REMEMBERED = 1024
"""Ciphers of so many files stay in memory, the last ones that were used."""


def encrypted(inner: Store, settings: Settings) -> EncryptedStore:
    """``inner``, encrypted as ``settings`` say; it has all of them. Raises `ConfigError` for half of a pair."""
    missing = [name for name in ("encryption.keys", "encryption.key.id") if name not in settings]
    if missing:
        raise ConfigError(
            f"setting {missing[0]} is missing: encryption needs encryption.keys (where the keys are) and "
            "encryption.key.id (the key of new files)"
        )
    store = EncryptedStore(inner, open_keys(settings["encryption.keys"]), settings["encryption.key.id"])
    store.settings = settings
    return store


class EncryptedStore(EncryptingStore):
    """``inner``, with data files encrypted by `KeyProvider`'s key of ``key_id``.

    Sizes and ranges are those of the plain bytes, but in listings: `list` tells what is stored. Files that are not
    encrypted are read as they are. A handle takes it in place of a URL.

    A handle with such a store marks the log before its first file (`Log.prepare_to_stage`).
    Backups and copies pass by it (`as_stored`).
    """

    def __init__(self, inner: Store, keys: KeyProvider, key_id: str) -> None:
        check_installed()
        check_key_id(key_id)
        self.inner = inner
        self.keys = keys
        self.encryption_key_id: str = key_id
        self.url = inner.url
        self.settings = inner.settings
        self.requests_are_free = inner.requests_are_free
        self.has_exact_conflicts = inner.has_exact_conflicts
        self._ciphers: OrderedDict[str, FileCipher | None] = OrderedDict()
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"EncryptedStore({self.inner!r}, {shown(self.keys)}, {self.encryption_key_id!r})"

    def __reduce__(self) -> tuple[object, ...]:
        if self.settings.of(ENCRYPTION):  # By reference: a provider's object may have its keys in it.
            return encrypted, (self.inner, self.settings)
        return EncryptedStore, (self.inner, self.keys, self.encryption_key_id)

    # -- Writing ----------------------------------------------------------------------------------------

    def create(self, name: str, data: Data) -> None:
        self.inner.create(name, self._sealed(name, data))

    def overwrite(self, name: str, data: Data) -> None:
        self.inner.overwrite(name, self._sealed(name, data))
        self._forget(name)

    def upload(self, name: str, *, write_behind: bool = False) -> AbstractContextManager[Upload]:
        if not is_encrypted_name(name):
            return self.inner.upload(name, write_behind=write_behind)
        check_name(name)
        return self._upload(name, write_behind=write_behind)

    @contextmanager
    def _upload(self, name: str, *, write_behind: bool) -> Iterator[Upload]:
        header, cipher = new_file(name, self.keys, self.encryption_key_id)
        chunks = ChunkSealer(cipher)
        with self.inner.upload(name, write_behind=write_behind) as out:

            def pour(data: memoryview) -> None:
                for chunk in chunks.add(data):
                    out.write(chunk)

            out.write(header)
            file = UploadFile(pour)
            try:
                yield file
                file.finish()
                out.write(chunks.end())
            finally:
                file.close()

    def _sealed(self, name: str, data: Data) -> Data:
        if not is_encrypted_name(name):
            return data
        header, cipher = new_file(name, self.keys, self.encryption_key_id)
        chunks = ChunkSealer(cipher)
        return b"".join([header, *chunks.add(as_bytes_view(data)), chunks.end()])

    # -- Reading ----------------------------------------------------------------------------------------

    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        cipher = self._cipher(name)
        if cipher is None:
            return self.inner.read(name, offset, length)
        check_range(name, offset, length)
        try:
            return self._decrypted(cipher, name, offset, length)
        except ValueError:
            # The object may be another one than before, with another key.
            self._forget(name)
        cipher = self._cipher(name)
        if cipher is None:
            return self.inner.read(name, offset, length)
        try:
            return self._decrypted(cipher, name, offset, length)
        except ValueError as error:
            raise CorruptRecordError(
                f"encrypted file {name!r}: {error}; restore the file from a backup"
            ) from None

    def _decrypted(self, cipher: FileCipher, name: str, offset: int, length: int | None) -> pa.Buffer:
        """Raises `ValueError`. One byte more is asked for: where it is missing, the file ends."""
        if length == 0:
            return pa.py_buffer(b"")
        first, skipped = divmod(offset, CHUNK)
        start, requested = HEADER + first * SEALED, None
        if length is not None:
            requested = (-(-(skipped + length) // CHUNK)) * SEALED + 1
        data = as_bytes_view(self.inner.read(name, start, requested))
        if not data:
            if not first:
                raise ValueError("it ends after its header")
            last = max(self.inner.size(name) - HEADER - 1, 0) // SEALED
            self._decrypted(cipher, name, last * CHUNK, None)  # It has to say that it is the last one.
            return pa.py_buffer(b"")
        goes_on = requested is not None and len(data) == requested
        if goes_on:
            data = data[:-1]
        pieces = range(0, len(data), SEALED)
        opened = b"".join(
            cipher.open(
                first + at // SEALED,
                data[at : at + SEALED],
                is_last=at + SEALED >= len(data) and not goes_on,
            )
            for at in pieces
        )
        whole = pa.py_buffer(opened)
        skipped = min(skipped, whole.size)
        available = whole.size - skipped
        return whole.slice(skipped, available if length is None else min(length, available))

    def size(self, name: str) -> int:
        stored = self.inner.size(name)
        if self._cipher(name) is None:
            return stored
        chunks, remainder = divmod(stored - HEADER, SEALED)
        if stored < HEADER + TAG or 0 < remainder < TAG:
            raise CorruptRecordError(
                f"encrypted file {name!r}: it ends after {stored} bytes; restore the file from a backup"
            )
        return chunks * CHUNK + (remainder - TAG if remainder else 0)

    def _cipher(self, name: str) -> FileCipher | None:
        """That of the file; None if it is not encrypted."""
        if not is_encrypted_name(name):
            return None
        with self._lock:
            if name in self._ciphers:
                self._ciphers.move_to_end(name)
                return self._ciphers[name]
        header = bytes(self.inner.read(name, 0, HEADER))
        cipher = open_file(name, header, self.keys) if is_encrypted(header) else None
        with self._lock:
            self._ciphers[name] = cipher
            while len(self._ciphers) > _REMEMBERED:
                self._ciphers.popitem(last=False)
        return cipher

    def _forget(self, name: str) -> None:
        with self._lock:
            self._ciphers.pop(name, None)

    def around(self, inner: Store) -> Store:
        return EncryptedStore(inner, self.keys, self.encryption_key_id)

    # -- As the store inside ----------------------------------------------------------------------------

    def with_data(self, url: str, before: EarlierPlace | None = None) -> Store:
        """As `Store.with_data`. This store stays as it is: a handle that has not read of a move goes on with it."""
        inner = self.inner.with_data(url, before)
        if inner is self.inner:
            return self
        twin = EncryptedStore(inner, self.keys, self.encryption_key_id)
        twin.settings = self.settings
        twin._ciphers, twin._lock = self._ciphers, self._lock  # A file has one header, wherever it is.
        return twin

    def key_of(self, name: str) -> str | None:
        return self.inner.key_of(name)

    def identity(self, name: str) -> Hashable | None:
        return self.inner.identity(name)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self.inner.list(prefix)

    def next_name(self, prefix: str, after: str) -> str | None:
        return self.inner.next_name(prefix, after)

    def ensure_durable(self, name: str) -> None:
        self.inner.ensure_durable(name)

    def delete(self, name: str) -> None:
        self._forget(name)
        self.inner.delete(name)

    def age_s(self, name: str) -> float | None:
        return self.inner.age_s(name)

    def now_ms(self) -> int | None:
        return self.inner.now_ms()

    def group_channel(self, name: str) -> GroupChannel | None:
        return self.inner.group_channel(name)

    def retire(self, name: str) -> None:
        self._forget(name)
        self.inner.retire(name)
