"""The form of an encrypted file: a header of 256 bytes, then chunks of 64 KiB, each sealed with AES-256-GCM.

=======  ======================================================================================================
bytes    header
=======  ======================================================================================================
0-7      ``EOSENC``, version 1, algorithm 1 (AES-256-GCM)
8-128    length of the master key's id, and the id, filled up with zeros
129-136  check of the master key: tells a wrong key from a damaged file
137-196  the data key, sealed with the master key: nonce (12), key (32), tag (16)
252-255  CRC32C of the bytes before
=======  ======================================================================================================

Each file has a data key of its own. The nonce of a chunk is its number (11 bytes) and 1 if it is the last one, so a
chunk that was cut off, moved or repeated is refused. What is sealed with either key is bound to the name of the file.
There is at least one chunk; the last one may be shorter, and each has a tag of 16 bytes.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

import google_crc32c

from spark_eos.errors import ConfigError, CorruptRecordError, StorePermissionError
from spark_eos.errors.loading import Loading
from spark_eos.extensions.encryption.keys import KEY_BYTES, KeyProvider, check_key_id, shown
from spark_eos.storage.encrypted_files import CHUNK, HEADER, ID_BYTES, MAGIC, TAG, is_encrypted

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

SEALED = CHUNK + TAG
_VERSION = 1
_AES_256_GCM = 1
_CHECK_AT, _KEY_AT, _KEY_END, _CRC_AT = 129, 137, 197, 252
_NONCE = 12


def check_installed() -> None:
    """Load the library: not behind the mark of a log. Raise `ConfigError` if it is missing."""
    with Loading("encryption of data files", "encryption", "cryptography"):
        from cryptography.hazmat.primitives.ciphers import aead  # noqa: F401


def _aesgcm(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _check_value(key: bytes) -> bytes:
    return hmac.new(key, b"spark_eos: check of a master key", hashlib.sha256).digest()[:8]


def _master_key(keys: KeyProvider, key_id: str, where: str) -> bytes:
    key = keys.key(key_id)
    if key is None:
        raise StorePermissionError(
            f"{where}: there is no encryption key {key_id!r} in {shown(keys)}; add it there"
        )
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise ConfigError(f"encryption key {key_id!r} of {shown(keys)} is not {KEY_BYTES} bytes")
    return key


class FileCipher:
    """Seals and opens the chunks of one file."""

    def __init__(self, cipher: AESGCM, name: str, key_id: str) -> None:
        self._cipher = cipher
        self._bound = name.encode()
        self.key_id = key_id

    def seal(self, number: int, data: bytes | bytearray | memoryview, *, is_last: bool) -> bytes:
        """The stored form of a chunk."""
        return self._cipher.encrypt(_nonce(number, is_last), data, self._bound)

    def open(self, number: int, data: bytes | bytearray | memoryview, *, is_last: bool) -> bytes:
        """The bytes of a chunk. Raises `ValueError` if they are not the ones that were sealed."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(_nonce(number, is_last), data, self._bound)
        except (InvalidTag, ValueError):
            raise ValueError(f"chunk {number} is not the one that was written") from None


def _nonce(number: int, is_last: bool) -> bytes:
    return number.to_bytes(_NONCE - 1, "big") + (b"\1" if is_last else b"\0")


def new_file(name: str, keys: KeyProvider, key_id: str) -> tuple[bytes, FileCipher]:
    """The header of a new file, and its cipher. Raises `StorePermissionError` if there is no such key."""
    check_key_id(key_id)
    master = _master_key(keys, key_id, f"file {name!r} cannot be written")
    data_key = os.urandom(KEY_BYTES)
    body = bytearray(HEADER)
    struct.pack_into(
        f"<6sBBB{ID_BYTES}s8s",
        body,
        0,
        MAGIC,
        _VERSION,
        _AES_256_GCM,
        len(key_id),
        key_id.encode(),
        _check_value(master),
    )
    nonce = os.urandom(_NONCE)
    body[_KEY_AT:_KEY_END] = nonce + _aesgcm(master).encrypt(nonce, data_key, _bound(body, name))
    struct.pack_into("<I", body, _CRC_AT, google_crc32c.value(bytes(body[:_CRC_AT])))
    return bytes(body), FileCipher(_aesgcm(data_key), name, key_id)


def open_file(name: str, header: bytes, keys: KeyProvider) -> FileCipher:
    """The cipher of a file from its header.

    Raises `CorruptRecordError` for a damaged header, and for one of another file; `StorePermissionError` without the
    key, or with another key of its id.
    """
    if len(header) != HEADER or not is_encrypted(header):
        raise _corrupt(name, f"its header has {len(header)} of {HEADER} bytes")
    (crc,) = struct.unpack_from("<I", header, _CRC_AT)
    if google_crc32c.value(header[:_CRC_AT]) != crc:
        raise _corrupt(name, "its header has another checksum")
    version, algorithm, length = header[6:9]
    if (version, algorithm) != (_VERSION, _AES_256_GCM):
        raise _corrupt(
            name, f"version {version}, algorithm {algorithm} of the encryption is unknown to this version"
        )
    key_id = header[9 : 9 + min(length, ID_BYTES)].decode("ascii", "replace")
    master = _master_key(keys, key_id, f"file {name!r} is encrypted")
    if not hmac.compare_digest(_check_value(master), header[_CHECK_AT:_KEY_AT]):
        raise StorePermissionError(
            f"file {name!r} was encrypted with another key than {key_id!r} of {shown(keys)}: the id names two keys; "
            "give the one with which the file was written"
        )
    sealed = header[_KEY_AT:_KEY_END]
    from cryptography.exceptions import InvalidTag

    try:
        data_key = _aesgcm(master).decrypt(sealed[:_NONCE], sealed[_NONCE:], _bound(header, name))
    except InvalidTag:
        raise _corrupt(name, "its header was made for a file of another name, or changed") from None
    return FileCipher(_aesgcm(data_key), name, key_id)


def _bound(header: bytes | bytearray, name: str) -> bytes:
    """What the sealed data key is bound to."""
    return bytes(header[:_KEY_AT]) + name.encode()


class ChunkSealer:
    """Bytes of a file as they come, as sealed chunks. The last one is known only at the end."""

    def __init__(self, cipher: FileCipher) -> None:
        self._cipher = cipher
        self._pending = bytearray()
        self._number = 0

    def add(self, data: memoryview) -> Iterator[bytes]:
        """The chunks that are whole, and certainly not the last one."""
        self._pending += data
        whole = max(len(self._pending) - 1, 0) // CHUNK
        for at in range(whole):
            piece = bytes(self._pending[at * CHUNK : (at + 1) * CHUNK])
            yield self._cipher.seal(self._number, piece, is_last=False)
            self._number += 1
        del self._pending[: whole * CHUNK]

    def end(self) -> bytes:
        """The last chunk."""
        return self._cipher.seal(self._number, self._pending, is_last=True)


def _corrupt(name: str, problem: str) -> CorruptRecordError:
    return CorruptRecordError(f"encrypted file {name!r}: {problem}; restore the file from a backup")
