"""Single files of folders that are no log, such as the checkpoint of a Spark query."""

from __future__ import annotations

from spark_eos.errors import ObjectNotFoundError
from spark_eos.storage.settings import NO_SETTINGS, Settings
from spark_eos.storage.urls import shared_store

__all__ = ["file_exists", "folder_exists", "read_file", "write_file"]


def read_file(folder: str, name: str, settings: Settings = NO_SETTINGS) -> bytes | None:
    """The bytes of a file in such a folder; None if it is not there."""
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
    """Whether there is anything in a folder inside such a folder."""
    return any(True for _ in shared_store(folder, settings).list(f"{name}/"))


def write_file(folder: str, name: str, data: bytes, settings: Settings = NO_SETTINGS) -> None:
    """Write a file in such a folder, or replace its bytes."""
    shared_store(folder, settings).overwrite(name, data)
