"""What tells an encrypted data file from a plain one, and its size: all that is known of it without keys.

=======  ======================================================================================================
bytes    header
=======  ======================================================================================================
0-7      ``EOSENC``, version 1, algorithm 1 (AES-256-GCM)
8-128    length of the master key's id, and the id, filled up with zeros
129-255  what the extension ``encryption`` needs to open the file (`spark_eos.extensions.encryption.file`)
=======  ======================================================================================================

Then chunks of 64 KiB follow, each with a tag of 16 bytes. There is at least one; the last one may be shorter.
"""

from __future__ import annotations

from abc import abstractmethod

from spark_eos.errors import ConfigError, StorePermissionError
from spark_eos.storage.store import Readable, Store

HEADER = 256
CHUNK = 64 << 10
TAG = 16
MAGIC = b"EOSENC"
ID_BYTES = 120


class EncryptingStore(Store):
    """A store around another one, which encrypts data files; the extension ``encryption`` brings the one that does."""

    inner: Store

    @abstractmethod
    def around(self, inner: Store) -> Store:
        """The same around another store."""


def as_stored(store: Store) -> Store:
    """The store whose bytes are those that are stored: what is moved from there stays encrypted, and needs no keys."""
    inner = store.inner if isinstance(store, EncryptingStore) else store
    if inner.encryption_key_id is not None:
        raise ConfigError(
            f"{store.url}: a {type(store).__name__} around an encrypted store hands on plain bytes, which are not to "
            "be copied: give the store without encryption"
        )
    return inner


def is_encrypted_name(name: str) -> bool:
    """Whether an object of that name holds records: those in ``data/``, and the log's segments in ``tables/``."""
    parts = name.split("/", 3)
    return parts[0] == "data" or (len(parts) == 4 and parts[0] == "tables" and parts[2] == "_segments")


def is_encrypted(start: bytes) -> bool:
    """Whether a file that begins with these bytes is encrypted."""
    return start.startswith(MAGIC)


def key_id_of(start: bytes) -> str | None:
    """The id of the key of a file that begins with these bytes; None if it is not encrypted."""
    if not is_encrypted(start):
        return None
    return start[9 : 9 + ID_BYTES].rstrip(b"\0").decode("ascii", "replace")


def stored_size(size: int) -> int:
    """How long the encrypted file is of ``size`` plain bytes."""
    return HEADER + size + TAG * max(-(-size // CHUNK), 1)


def is_stored_size(store: Store, name: str, size: int, stored_bytes: int) -> bool:
    """Whether the file is encrypted, and its ``stored_bytes`` bytes are those of ``size`` plain ones."""
    return stored_bytes == stored_size(size) and store.key_of(name) is not None


def check_plain(store: Readable, name: str) -> None:
    """Raise `StorePermissionError` if the file is encrypted, and ``store`` hands on what is stored."""
    key_id = key_id_of(bytes(store.read(name, 0, HEADER)))
    if key_id is not None:
        raise StorePermissionError(
            f"file {name!r} is encrypted with key {key_id!r}, and this reader has no keys: give the settings "
            "encryption.keys (file:/path, env:NAME or module:attribute) and encryption.key.id"
        )
