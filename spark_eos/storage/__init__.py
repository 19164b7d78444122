"""Floor 1: bytes and names. Knows nothing of logs.

`open_store` turns a URL into a `Store`; `probe` proves that a store is fit to carry a log.
"""

from __future__ import annotations

from spark_eos.storage.memory import MemoryStore
from spark_eos.storage.object_names import PROBES
from spark_eos.storage.other_files import as_hadoop, file_exists, folder_exists, read_file, write_file
from spark_eos.storage.posix.store import PosixStore
from spark_eos.storage.probe import probe
from spark_eos.storage.registry import register_store
from spark_eos.storage.settings import NO_SETTINGS, Settings, split_settings
from spark_eos.storage.store import Data, EarlierPlace, ObjectInfo, Readable, Store, Upload
from spark_eos.storage.urls import is_object_store, log_settings_of, open_store, settings_of, shared_store

__all__ = [
    "NO_SETTINGS",
    "PROBES",
    "Data",
    "EarlierPlace",
    "MemoryStore",
    "ObjectInfo",
    "PosixStore",
    "Readable",
    "Settings",
    "Store",
    "Upload",
    "as_hadoop",
    "file_exists",
    "folder_exists",
    "is_object_store",
    "log_settings_of",
    "open_store",
    "probe",
    "read_file",
    "register_store",
    "settings_of",
    "shared_store",
    "split_settings",
    "write_file",
]
