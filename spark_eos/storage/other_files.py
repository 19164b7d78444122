"""Single files of folders that are no log, such as the checkpoint of a Spark query."""

from __future__ import annotations

import re

from spark_eos.errors import ObjectNotFoundError
from spark_eos.storage.settings import NO_SETTINGS, Settings
from spark_eos.storage.urls import shared_store

_HEAD = re.compile(r"((?:[a-zA-Z][a-zA-Z0-9+.-]*:)?(?://[^/]*)?)(.*)", re.DOTALL)


def as_hadoop(location: str) -> str:
    """``location`` as Hadoop's ``Path`` spells it, which Spark uses: ``..`` takes the name before it away.

    The kernel would follow that name: to another place if it is a symbolic link, and to none if it is missing.
    """
    match = _HEAD.fullmatch(location)
    assert match is not None
    head, path = match.groups()
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in {"", "."}:
            parts.append(part)
    root = "/" if path.startswith("/") else ""
    return head + root + "/".join(parts)


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
