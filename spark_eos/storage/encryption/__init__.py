"""Data files that the clients encrypt: the form of a file, the keys, and a store around another one.

`EncryptedStore` encrypts what lies in ``data/`` and the segments of tables. Entries, snapshots and index pages stay as
they are. Needs the extra ``encryption``.
"""

from __future__ import annotations

from spark_eos.storage.encryption.keys import EnvironmentKeys, FileKeys, KeyProvider, open_keys
from spark_eos.storage.encryption.store import EncryptedStore, as_stored, is_encrypted_name

__all__ = [
    "EncryptedStore",
    "EnvironmentKeys",
    "FileKeys",
    "KeyProvider",
    "as_stored",
    "is_encrypted_name",
    "open_keys",
]
