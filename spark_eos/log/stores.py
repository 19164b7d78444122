"""What the floors above need of stores, whose business they are not: their settings, and single files of others."""

from __future__ import annotations

from spark_eos.errors import ObjectNotFoundError
from spark_eos.storage import (
    NO_SETTINGS,
    Settings,
    is_object_store,
    settings_of,
    shared_store,
    split_settings,
)

__all__ = [
    "NO_SETTINGS",
    "Settings",
    "file_exists",
    "folder_exists",
    "is_object_store",
    "read_file",
    "settings_of",
    "split_settings",
]


def read_file(folder: str, name: str, settings: Settings = NO_SETTINGS) -> bytes | None:
    """The bytes of a file in a folder that is no log, such as a checkpoint; None if it is not there."""
    try:
        return bytes(shared_store(folder, settings).read(name).to_pybytes())
    except ObjectNotFoundError:
        return None


def file_exists(folder: str, name: str, settings: Settings = NO_SETTINGS) -> bool:
    """Whether there is a file of that name in such a folder."""
    try:
        shared_store(folder, settings).size(name)
    except ObjectNotFoundError:
        return False
    return True


def folder_exists(folder: str, name: str, settings: Settings = NO_SETTINGS) -> bool:
    """Whether there is anything in a folder below such a folder."""
    return any(True for _ in shared_store(folder, settings).list(f"{name}/"))
