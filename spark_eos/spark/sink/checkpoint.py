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
from typing import NamedTuple

from spark_eos.errors import CheckpointMismatchError, ConfigError, StorageError, UnsupportedVersionError
from spark_eos.spark.host import host
from spark_eos.spark.sink.checkpoint_files import local_spelling, remote_files
from spark_eos.spark.source.offsets import SourceOffset
from spark_eos.storage import NO_SETTINGS, Settings, as_hadoop

_VERSIONS = ("v1", "v2")
_NO_OFFSET = "-"
_NAME = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
_TRANSACTIONS, _FAILED = "eoslog", "eoslog-failed"
_SUMS = struct.Struct(">4si")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(.*)", re.DOTALL)


class Ends(NamedTuple):
    """Where the sources end in a batch, as JSON text by name, in the order of the file; None: no data yet.

    In version 1 of the file sources have no names, but places in the plan: ``named`` is false, and the names are
    numbers. In version 2 a name is the user's, or a number where the user gave none.
    """

    named: bool
    offsets: dict[str, str | None]


class SourceRange(NamedTuple):
    """From where to where a batch reads a source, as JSON text; ``name`` is None in version 1 of the file."""

    name: str | None
    start: str | None
    end: str | None


class Checkpoint:
    """The checkpoint in the folder ``location``: a path, or a URL with ``file:``, ``dbfs:``, or of `remote_files`.

    It is where Hadoop looks for it: a ``%`` stands for itself in all, and ``..`` takes the name before it away
    (`as_hadoop`). ``settings`` are those of an object store. Raises `ConfigError` if it is elsewhere; a store's errors
    come from each call.
    """

    def __init__(self, location: str, settings: Settings = NO_SETTINGS) -> None:
        location = as_hadoop(location)
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
            metadata = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CheckpointMismatchError(f"{path} is not JSON: {error}; {_DAMAGED}") from error
        query_id = metadata.get("id") if isinstance(metadata, dict) else None
        if not isinstance(query_id, str) or not query_id:
            raise CheckpointMismatchError(f"{path} names no query id; {_DAMAGED}")
        return query_id

    def offsets(self, batch_id: int) -> Ends | None:
        """Where the sources end in a batch; None without the file.

        Raises `UnsupportedVersionError` for another version of the file than v1 and v2, `CheckpointMismatchError` if
        it is not whole.
        """
        path, text = self._where(f"offsets/{batch_id}"), self._text(f"offsets/{batch_id}")
        if text is None:
            return None
        version, *lines = text.split("\n")
        if version not in _VERSIONS:
            if re.fullmatch(r"v[0-9]+", version):
                raise UnsupportedVersionError(
                    f"{path} has version {version}, this spark_eos reads {' and '.join(_VERSIONS)} only; run the "
                    "query with a Spark and a spark_eos that belong together"
                )
            raise CheckpointMismatchError(
                f"{path} begins with {version[:40]!r} instead of {_VERSIONS[0]}; {_DAMAGED}"
            )
        if len(lines) < 2:
            raise CheckpointMismatchError(f"{path} ends before the offsets of its first source; {_DAMAGED}")
        _check_json(path, "its second line", lines[0])
        named = version != _VERSIONS[0]
        sources: dict[str, str | None] = {}
        for number, line in enumerate(lines[1:]):
            name, colon, offset = line.partition(":") if named else (str(number), ":", line)
            if not colon or not _NAME.fullmatch(name) or name in sources:
                raise CheckpointMismatchError(f"{path}: line {number + 3} names no source; {_DAMAGED}")
            if offset != _NO_OFFSET:
                _check_json(path, f"the offset of source {name}", offset)
            sources[name] = None if offset == _NO_OFFSET else offset
        return Ends(named, sources)

    def finished(self, batch_id: int) -> bool:
        """Whether Spark has noted the batch as done."""
        name = f"commits/{batch_id}"
        return _exists(self._root / name) if self._remote is None else self._remote.exists(name)

    def begun(self) -> bool:
        """Whether Spark has noted any batch as done."""
        if self._remote is not None:
            return self._remote.has_folder("commits")
        return any(path.name.isdecimal() for path in (self._root / "commits").glob("*"))

    def stateful(self) -> bool:
        """Whether the query keeps state: Spark makes the folder before the first batch is done."""
        return _exists(self._root / "state") if self._remote is None else self._remote.has_folder("state")

    def transaction(self, log_id: str | None) -> int | None:
        """The last micro-batch in which a transaction of this log was begun; None if that is not known.

        ``log_id`` of None: the last one in which it was to begin, and failed.
        """
        text = self._text(_note(log_id))
        return int(text) if text is not None and text.isdecimal() else None

    def has_transactions(self) -> bool:
        """Whether a transaction of any log was begun."""
        if self._remote is not None:
            return self._remote.has_folder(_TRANSACTIONS)
        return _exists(self._root / _TRANSACTIONS)

    def note_transaction(self, log_id: str | None, batch_id: int) -> None:
        """Note durably for `transaction` that one is begun in a micro-batch, or failed. Raises `StorageError`.

        Spark notes batches as done, whatever their function did. Beside this note the log shows whether a batch that
        it does not have was left out, or was lost.
        """
        name, data = _note(log_id), str(batch_id).encode()
        if self._remote is not None:
            self._remote.write(name, data)
            return
        try:
            host().write_bytes(self._root / name, data)
        except OSError as error:
            raise StorageError(
                f"{self._root / name} cannot be written: {error}; let the driver write to the query's checkpoint"
            ) from error

    def require_offsets(self, batch_id: int) -> Ends:
        """As `offsets`; raises `CheckpointMismatchError`, naming the file, if it is missing."""
        ends = self.offsets(batch_id)
        if ends is None:
            raise CheckpointMismatchError(
                f"{self._where(f'offsets/{batch_id}')} is missing; Spark writes it before the batch runs, so this "
                "is not the checkpoint of this query, or files were removed from it"
            )
        return ends

    def _where(self, name: str) -> str:
        return str(self._root / name) if self._remote is None else f"{self._remote.location}/{name}"

    def _text(self, name: str) -> str | None:
        """The text of a file; None if it is not there."""
        if self._remote is None:
            return _read(self._root / name)
        data = self._remote.read(name)  # Without sums: those Hadoop writes for local files only.
        return None if data is None else _decoded(f"{self._remote.location}/{name}", data)


def sources_of_batch(checkpoint: Checkpoint, batch_id: int) -> tuple[SourceRange, ...]:
    """From where to where a batch reads each source, in the order of the file.

    The start is where the batch before ended, None in batch 0 and where the source was not there or had no data yet.
    Raises `CheckpointMismatchError`, naming the file, if the file of one of the two batches is missing, or if they
    have different numbers of sources without names.
    """
    ends = checkpoint.require_offsets(batch_id)
    starts = checkpoint.require_offsets(batch_id - 1) if batch_id > 0 else Ends(ends.named, {})
    if batch_id > 0 and not ends.named and len(starts.offsets) != len(ends.offsets):
        raise CheckpointMismatchError(
            f"{checkpoint!r} has {len(starts.offsets)} sources in batch {batch_id - 1} and {len(ends.offsets)} in "
            f"batch {batch_id}; a query without names of sources keeps them, use a new checkpoint for another one"
        )
    back = ends.named and batch_id > 1 and not set(ends.offsets) <= set(starts.offsets)
    earlier = checkpoint.offsets(batch_id - 2) if back else None
    if earlier is not None:
        # Spark begins with the offsets of the last two batches, so a source that was away for one goes on where it was.
        # This is done for our sources alone: of others nothing proves that a replay of the batch began there, too.
        earlier_offsets = {
            name: at for name, at in earlier.offsets.items() if at is not None and SourceOffset.is_ours(at)
        }
        starts = Ends(True, {**earlier_offsets, **starts.offsets})
    return tuple(
        SourceRange(name if ends.named else None, starts.offsets.get(name), end)
        for name, end in ends.offsets.items()
    )


_DAMAGED = "the checkpoint is damaged: restore it, or start the query with a new one"


def _note(log_id: str | None) -> str:
    return _FAILED if log_id is None else f"{_TRANSACTIONS}/{log_id}"


def _local(location: str) -> Path:
    if not location:
        raise ConfigError("checkpointLocation is empty; give the folder of the query's checkpoint")
    match = _SCHEME.fullmatch(location)
    path = location
    if match:
        path = match[2]
        host, slash, relative = path[2:].partition("/") if path.startswith("//") else ("", "/", path[1:])
        if host not in {"", "localhost"} or not slash or not path.startswith("/"):
            raise ConfigError(
                f"checkpointLocation={location!r} is not a local folder; write it as file:///folder"
            )
        path = "/" + relative
    if "\0" in path:
        raise ConfigError(f"checkpointLocation={location!r} holds a zero byte")
    return Path(path)


def _read(path: Path) -> str | None:
    """The text of a file; None if it is not there."""
    try:
        data = host().read_bytes(path)
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
        sums = host().read_bytes(path.with_name(f".{path.name}.crc"))
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
    """Whether the file is there. Raises `CheckpointMismatchError` if that cannot be told."""
    try:
        return host().exists(path)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> CheckpointMismatchError:
    return CheckpointMismatchError(
        f"{path} cannot be read: {error}; let the driver read the query's checkpoint"
    )


def _check_json(path: str, part: str, text: str) -> None:
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointMismatchError(f"{path}: {part} is not whole: {error}; {_DAMAGED}") from error
