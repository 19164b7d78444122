"""A Spark checkpoint, as far as a move needs it. It is read without Spark: the mirror's machine may have none.

Spark writes ``offsets/<batch>`` before a micro-batch runs and ``commits/<batch>`` after it, each by a rename, so a file
that can be opened under its plain number is whole.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from spark_eos.errors import CheckpointMismatchError, ConfigError, UnsupportedVersionError
from spark_eos.storage import NO_SETTINGS, Settings, file_exists, folder_exists, is_object_store, read_file

_VERSIONS = ("v1", "v2")
_NO_OFFSET = "-"


class Ends(NamedTuple):
    """Where the sources end in a micro-batch, as JSON text by name or number; None: no data yet."""

    offsets: dict[str, str | None]


class SparkFiles:
    """The checkpoint at ``location``: a folder, a ``file:`` URL, or a place in an object store."""

    def __init__(self, location: str, settings: Settings = NO_SETTINGS) -> None:
        self._location = location.rstrip("/")
        self._settings = settings
        self._root: Path | None = None
        if not is_object_store(location):
            parts = urlsplit(location)
            if parts.scheme not in {"", "file"}:
                raise ConfigError(
                    f"--checkpoint {location!r} cannot be read here: give a folder, file:/, s3a://, abfss:// or gs://, "
                    "or a copy of the checkpoint's folders offsets, commits and state"
                )
            self._root = Path(location if not parts.scheme else unquote(parts.path))

    def __repr__(self) -> str:
        return f"the checkpoint {self._location}"

    def last_batch(self) -> int | None:
        """The newest micro-batch that Spark has begun; None if there is none. Raises `ConfigError` for a bucket."""
        if self._root is None:
            raise ConfigError(
                f"the files of {self!r} are not listed here: give the number of the newest one in its folder offsets "
                "(--batch)"
            )
        names = (path.name for path in (self._root / "offsets").glob("*"))
        return max((int(name) for name in names if name.isdecimal()), default=None)

    def offsets(self, batch_id: int) -> Ends | None:
        """Where the sources end in the batch; None: there is no such batch."""
        name = f"offsets/{batch_id}"
        data = self._read(name)
        if data is None:
            return None
        version, *lines = data.decode("utf-8", "replace").split("\n")
        if version not in _VERSIONS:
            raise UnsupportedVersionError(
                f"{name} of {self!r} has version {version[:20]!r}, and {' and '.join(_VERSIONS)} are known here"
            )
        by_source: dict[str, str | None] = {}
        for number, line in enumerate(lines[1:]):
            source, _, text = line.partition(":") if version == "v2" else (str(number), ":", line)
            try:
                if text != _NO_OFFSET:
                    json.loads(text)
            except ValueError as error:
                raise CheckpointMismatchError(
                    f"{name} of {self!r}: the offset of source {source} is not whole ({error})"
                ) from error
            by_source[source] = None if text == _NO_OFFSET else text
        return Ends(by_source)

    def require_offsets(self, batch_id: int) -> Ends:
        """As `offsets`; a batch that is not there is an error."""
        ends = self.offsets(batch_id)
        if ends is None:
            raise CheckpointMismatchError(f"{self!r} has no file offsets/{batch_id}")
        return ends

    def finished(self, batch_id: int) -> bool:
        """Whether Spark has noted the batch as done."""
        name = f"commits/{batch_id}"
        if self._root is None:
            return file_exists(self._location, name, self._settings)
        return (self._root / name).exists()

    def stateful(self) -> bool:
        """Whether the query keeps state."""
        if self._root is None:
            return folder_exists(self._location, "state", self._settings)
        return (self._root / "state").exists()

    def _read(self, name: str) -> bytes | None:
        if self._root is None:
            return read_file(self._location, name, self._settings)
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None
