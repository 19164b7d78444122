"""A Spark checkpoint, as far as the sink needs it: whose it is, what a batch reads, whether it is done.

Spark writes ``offsets/<batch>`` before the batch runs and ``commits/<batch>`` after it, each under a
temporary name (it begins with a dot) that is then renamed; beside them lie ``.crc`` files. So a file that can
be opened under its plain number is whole, unless the file system broke that promise: then reading it fails,
also by the sums in the ``.crc`` file if there is one: a digit of an offset that changed is still JSON.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from pathlib import Path

from spark_eos.errors import CheckpointMismatchError, ConfigError, UnsupportedVersionError
from spark_eos.log.stores import NO_SETTINGS, Settings
from spark_eos.spark.checkpoint_files import local_spelling, remote_files

__all__ = ["Checkpoint", "sources_of_batch"]

_VERSION = "v1"
_NO_OFFSET = "-"
_SUMS = struct.Struct(">4si")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(.*)", re.DOTALL)


class Checkpoint:
    """The checkpoint in the folder ``location``: a path, or a URL with ``file:``, ``dbfs:``, or of `remote_files`.

    A ``%`` stands for itself in all: Hadoop does not decode a path that it is given as text. ``settings`` are those
    of an object store. Raises `ConfigError` if it is elsewhere; a store's errors come from each call.
    """

    def __init__(self, location: str, settings: Settings = NO_SETTINGS) -> None:
        self._remote = remote_files(location, settings)
        self._root = _local(local_spelling(location)) if self._remote is None else Path()

    def __repr__(self) -> str:
        return f"Checkpoint({str(self._root) if self._remote is None else self._remote.location!r})"

    def query_id(self) -> str:
        """The id of the query the checkpoint belongs to. Raises `CheckpointMismatchError` if it has none."""
        path, text = self._where("metadata"), self._text("metadata")
        if text is None:
            raise CheckpointMismatchError(
                f"{path} is missing, so the checkpoint does not say which query it belongs to; give the "
                "checkpointLocation with which the query was started"
            )
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CheckpointMismatchError(f"{path} is not JSON: {error}; {_DAMAGED}") from error
        query_id = found.get("id") if isinstance(found, dict) else None
        if not isinstance(query_id, str) or not query_id:
            raise CheckpointMismatchError(f"{path} names no query id; {_DAMAGED}")
        return query_id

    def offsets(self, batch_id: int) -> list[str | None] | None:
        """Where the sources end in a batch, as JSON text in the order of the plan; None without the file.

        An entry is None for a source that had no data yet. Raises `UnsupportedVersionError` for another
        version of the file than v1, `CheckpointMismatchError` if it is not whole.
        """
        path, text = self._where(f"offsets/{batch_id}"), self._text(f"offsets/{batch_id}")
        if text is None:
            return None
        version, *lines = text.split("\n")
        if version != _VERSION:
            if re.fullmatch(r"v[0-9]+", version):
                raise UnsupportedVersionError(
                    f"{path} has version {version}, this spark_eos reads {_VERSION} only; run the query with "
                    "a Spark and a spark_eos that belong together"
                )
            raise CheckpointMismatchError(
                f"{path} begins with {version[:40]!r} instead of {_VERSION}; {_DAMAGED}"
            )
        if len(lines) < 2:
            raise CheckpointMismatchError(f"{path} ends before the offsets of its first source; {_DAMAGED}")
        _check_json(path, "its second line", lines[0])
        sources = [None if line == _NO_OFFSET else line for line in lines[1:]]
        for number, line in enumerate(sources):
            if line is not None:
                _check_json(path, f"the offset of source {number}", line)
        return sources

    def finished(self, batch_id: int) -> bool:
        """Whether Spark has noted the batch as done."""
        name = f"commits/{batch_id}"
        return _exists(self._root / name) if self._remote is None else self._remote.exists(name)

    def require_offsets(self, batch_id: int) -> list[str | None]:
        """As `offsets`; raises `CheckpointMismatchError`, naming the file, if it is missing."""
        found = self.offsets(batch_id)
        if found is None:
            raise CheckpointMismatchError(
                f"{self._where(f'offsets/{batch_id}')} is missing; Spark writes it before the batch runs, so this "
                "is not the checkpoint of this query, or files were removed from it"
            )
        return found

    def _where(self, name: str) -> str:
        return str(self._root / name) if self._remote is None else f"{self._remote.location}/{name}"

    def _text(self, name: str) -> str | None:
        """The text of a file; None if it is not there."""
        if self._remote is None:
            return _read(self._root / name)
        data = self._remote.read(name)  # Without sums: those Hadoop writes for local files only.
        return None if data is None else _decoded(f"{self._remote.location}/{name}", data)


def sources_of_batch(checkpoint: Checkpoint, batch_id: int) -> tuple[tuple[str | None, str | None], ...]:
    """From where to where a batch reads each source, as JSON text in the order of the plan.

    The start is where the batch before ended, None in batch 0 and where the source had no data yet. Raises
    `CheckpointMismatchError`, naming the file, if the file of one of the two batches is missing, or if they
    have different numbers of sources.
    """
    ends = checkpoint.require_offsets(batch_id)
    if batch_id == 0:
        return tuple((None, end) for end in ends)
    starts = checkpoint.require_offsets(batch_id - 1)
    if len(starts) != len(ends):
        raise CheckpointMismatchError(
            f"{checkpoint!r} has {len(starts)} sources in batch {batch_id - 1} and {len(ends)} in batch "
            f"{batch_id}; a query keeps its sources, use a new checkpoint for another one"
        )
    return tuple(zip(starts, ends, strict=True))


_DAMAGED = "the checkpoint is damaged: restore it, or start the query with a new one"


def _local(location: str) -> Path:
    if not location:
        raise ConfigError("checkpointLocation is empty; give the folder of the query's checkpoint")
    match = _SCHEME.fullmatch(location)
    path = location
    if match:
        path = match[2]
        host, slash, rest = path[2:].partition("/") if path.startswith("//") else ("", "/", path[1:])
        if host not in {"", "localhost"} or not slash or not path.startswith("/"):
            raise ConfigError(
                f"checkpointLocation={location!r} is not a local folder; write it as file:///folder"
            )
        path = "/" + rest
    if "\0" in path:
        raise ConfigError(f"checkpointLocation={location!r} holds a zero byte")
    return Path(path)


def _read(path: Path) -> str | None:
    """The text of a file; None if it is not there."""
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(path, error) from error
    _check_sums(path, data)
    return _decoded(str(path), data)


def _decoded(path: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointMismatchError(f"{path} is not UTF-8 text: {error}; {_DAMAGED}") from error


def _check_sums(path: Path, data: bytes) -> None:
    """Compare the file with the sums beside it as Hadoop does, which ignores a ``.crc`` without a header.

    ``crc`` and a zero byte, the bytes per sum, and a CRC32 of each such piece; numbers are big-endian.
    """
    try:
        sums = path.with_name(f".{path.name}.crc").read_bytes()
    except OSError:
        return  # a copy of a checkpoint may have none
    if len(sums) < _SUMS.size:
        return
    magic, size = _SUMS.unpack_from(sums)
    if magic != b"crc\0" or size <= 0:
        return
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    expected = b"".join(zlib.crc32(piece).to_bytes(4, "big") for piece in pieces)
    if sums[_SUMS.size :][: len(expected)] != expected:
        raise CheckpointMismatchError(f"{path} does not fit its checksums in .{path.name}.crc; {_DAMAGED}")


def _exists(path: Path) -> bool:
    """Whether the file is there. `Path.exists` answers no where the folder may not be looked into."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _unreadable(path, error) from error
    return True


def _unreadable(path: Path, error: OSError) -> CheckpointMismatchError:
    return CheckpointMismatchError(
        f"{path} cannot be read: {error}; let the driver read the query's checkpoint"
    )


def _check_json(path: str, what: str, text: str) -> None:
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointMismatchError(f"{path}: {what} is not whole: {error}; {_DAMAGED}") from error
