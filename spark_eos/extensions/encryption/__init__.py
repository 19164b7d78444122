"""Data files that the clients encrypt: the form of a file, the keys, and a store around another one.

`spark_eos.extensions.encryption.store.EncryptedStore` encrypts what lies in ``data/`` and the segments of tables.
Entries, snapshots and index pages stay as they are. Needs the extra ``encryption``.
"""

from __future__ import annotations

from spark_eos.extending import Extension

__all__ = ["EXTENSION"]

EXTENSION = Extension(
    commands={"encryption": "cli:ADDED"},
    store_wrappers={"encryption.": "store:encrypted"},
)
