"""Copies of the log's files for tables that lie elsewhere: byte for byte, under names that no other file has."""

from __future__ import annotations

import re
from collections.abc import Mapping

from spark_eos.errors import CorruptRecordError, ObjectExistsError, ObjectNotFoundError
from spark_eos.protocol.types import FileRef
from spark_eos.storage import Store

_COPY = re.compile(r"\d+-\d{20}-[0-9a-f]+(-[0-9a-f]{16})?\.parquet")
_PART_BYTES = 16 << 20


def copy_name(ref: FileRef, partition: int) -> str:
    """The name of a copy, below the table's own folder."""
    return f"{partition}-{ref.name.rpartition('/')[2]}"


def is_copy(name: str, *, marked: bool | None = None) -> bool:
    """Whether a file of a table is a copy of a file of the log: byte for byte, or ``marked``; None: either of them.

    Files of other names have merged rows.
    """
    match = _COPY.fullmatch(name)
    return match is not None and marked in (None, match[1] is not None)


def copy_files(source: Store, target: Store, files: Mapping[str, FileRef]) -> None:
    """Copy files of the log to these names. What is there already was copied before.

    A copy appears as a whole or not at all, so one that is there and has the size is the file.
    """
    for name, ref in files.items():
        try:
            size = target.size(name)
        except ObjectNotFoundError:
            _copy(source, target, name, ref)
        else:
            _check(target, name, ref, size)


def _copy(source: Store, target: Store, name: str, ref: FileRef) -> None:
    try:
        with target.upload(name) as upload:
            for start in range(0, ref.size, _PART_BYTES):
                upload.write(source.read(ref.name, start, min(_PART_BYTES, ref.size - start)))
    except ObjectExistsError:  # Another publisher copies it, too.
        _check(target, name, ref, target.size(name))


def _check(target: Store, name: str, ref: FileRef, size: int) -> None:
    if size != ref.size:
        raise CorruptRecordError(
            f"{target.url}/{name} should be a copy of {ref.name}, but has {size} bytes and not {ref.size}: remove it"
        )
