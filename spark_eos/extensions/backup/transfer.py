"""A file of the log becomes an object of the repository: its bytes are compared with what the log says of them."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

import google_crc32c
import pyarrow as pa

from spark_eos.errors import CorruptRecordError
from spark_eos.extensions.backup.contents import Part
from spark_eos.extensions.backup.manifest import StoredFile
from spark_eos.extensions.backup.repository import put
from spark_eos.log.snapshots.derived import idempotent_upload
from spark_eos.storage import Store
from spark_eos.storage.encrypted_files import is_stored_size

PART = 16 * 1024 * 1024
"""Bytes of a file that are held in memory."""


def store_bytes(target: Store, owner: str, name: str, data: pa.Buffer | bytes) -> StoredFile:
    """Store these bytes as file ``name`` in the folder of a backup."""
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    file = StoredFile(name, owner, buffer.size, sha256(buffer).hexdigest())
    put(target, file.object_name, buffer)
    return file


def copy_file(
    source: Store, target: Store, owner: str, name: str, size: int | None = None, parts: Iterable[Part] = ()
) -> StoredFile:
    """Copy a file of the log, which has ``size`` bytes, into the folder of a backup; an encrypted one as it is stored.

    The checksums of its ``parts`` are those of the plain bytes: of an encrypted file they are not compared.
    Raises `ObjectNotFoundError` if it is gone, `CorruptRecordError` if it is not what the log says.
    """
    check = _Check(f"{source.url}/{name}", parts)
    if size is None or size <= PART:
        data = source.read(name)
        check = _compare(source, name, data.size, size, check)
        check.feed(data)
        check.end()
        return store_bytes(target, owner, name, data)
    stored_size = source.size(name)
    check, size = _compare(source, name, stored_size, size, check), stored_size
    digest = sha256()
    file = StoredFile(name, owner, size, "")
    with idempotent_upload(target, file.object_name) as out:
        for offset in range(0, size, PART):
            data = source.read(name, offset, PART)
            digest.update(data)
            check.feed(data)
            out.write(data)
        check.end()
    return file._replace(sha256=digest.hexdigest())


def _compare(source: Store, name: str, stored_size: int, size: int | None, check: _Check) -> _Check:
    """The check of the bytes: ``check``, or one without parts for an encrypted file."""
    if size is not None and stored_size != size:
        if is_stored_size(source, name, size, stored_size):
            return _Check(f"{source.url}/{name}", ())
        raise _damaged(f"{source.url}/{name}", f"has {stored_size} bytes, not {size}")
    return check


class _Check:
    """Computes the checksums of parts of a file while its bytes go by."""

    def __init__(self, where: str, parts: Iterable[Part]) -> None:
        self._where = where
        self._waiting = sorted(parts, reverse=True)
        self._open: list[tuple[Part, int]] = []
        self._at = 0

    def feed(self, data: pa.Buffer) -> None:
        end = self._at + data.size
        while self._waiting and self._waiting[-1].position < end:
            self._open.append((self._waiting.pop(), 0))
        still = []
        for part, crc in self._open:
            first = max(part.position, self._at) - self._at
            last = min(part.position + part.length, end) - self._at
            new_crc = google_crc32c.extend(crc, bytes(data.slice(first, last - first)))
            if part.position + part.length > end:
                still.append((part, new_crc))
            elif new_crc != part.crc:
                raise _damaged(
                    self._where,
                    f"bytes {part.position} to {part.position + part.length}: CRC32C is 0x{new_crc:08x}, not "
                    f"0x{part.crc:08x}",
                )
        self._open = still
        self._at = end

    def end(self) -> None:
        for part in (*(part for part, _ in self._open), *self._waiting):
            raise _damaged(self._where, f"ends before byte {part.position + part.length}")


def _damaged(where: str, problem: str) -> CorruptRecordError:
    return CorruptRecordError(
        f"{where}: {problem}. The log itself is damaged: run eoslog verify on it. Nothing of this backup can be "
        "restored"
    )
