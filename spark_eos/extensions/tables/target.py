"""What the publisher asks of a table, of whatever format: its newest version, and to commit the next one.

A version of a table stands for one entry of the log. Its metadata has a `Stamp`, which says so, so that the way leads
from the version to the entry, and, by the list of all versions, from the entry to the version. Each commit is a
compare-and-set on the version before: of two publishers that commit at once, one is refused.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from spark_eos.errors import TableDamagedError
from spark_eos.storage import Store, open_store

PREFIX = "eoslog."
"""How the names of all properties begin that a published version has."""


class Stamp(NamedTuple):
    """What one version of one table stands for: the state of ``topic`` after log entry ``entry``.

    ``sequence`` numbers the versions of the publication, from 1 on, over all of its tables: tables with the same
    sequence stand for the same entry. ``offsets`` are the first offset and the end (exclusive) of each partition.
    ``timestamp_ms`` is the time of the entry. ``retention_ms`` is for how long the files of this version stay after the
    table has a newer one.
    """

    log_id: str
    publication: str
    sequence: int
    entry: int
    timestamp_ms: int
    topic: str
    topic_id: str
    offsets: Mapping[int, tuple[int, int]]
    retention_ms: int = 0

    def properties(self) -> dict[str, str]:
        """The stamp as properties of a version: names and texts."""
        offsets = {str(number): [*ends] for number, ends in sorted(self.offsets.items())}
        values = {
            "log": self.log_id,
            "publication": self.publication,
            "sequence": self.sequence,
            "entry": self.entry,
            "timestamp": self.timestamp_ms,
            "topic": self.topic,
            "topic.id": self.topic_id,
            "offsets": json.dumps(offsets, separators=(",", ":")),
            "retention.ms": self.retention_ms,
        }
        return {f"{PREFIX}{name}": str(value) for name, value in values.items()}

    @staticmethod
    def of(properties: Mapping[str, Any]) -> Stamp | None:
        """The stamp in the properties of a version. None: no publisher wrote this version.

        Raises `TableDamagedError` if they are there, but do not make sense.
        """
        if f"{PREFIX}sequence" not in properties:
            return None
        try:
            fields = {name: str(properties[f"{PREFIX}{name}"]) for name in _NAMES}
            offsets = {
                int(number): (int(a), int(b)) for number, (a, b) in json.loads(fields["offsets"]).items()
            }
            return Stamp(
                fields["log"],
                fields["publication"],
                int(fields["sequence"]),
                int(fields["entry"]),
                int(fields["timestamp"]),
                fields["topic"],
                fields["topic.id"],
                offsets,
                int(fields["retention.ms"]),
            )
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise TableDamagedError(
                f"the properties of a published version are damaged: {error!r}"
            ) from error


_NAMES = (
    "log",
    "publication",
    "sequence",
    "entry",
    "timestamp",
    "topic",
    "topic.id",
    "offsets",
    "retention.ms",
)


def application(log_id: str, publication: str) -> str:
    """By what name the tables know a publication (Delta's ``txn`` action)."""
    return f"eoslog:{log_id}:{publication}"


class DataFile(NamedTuple):
    """A Parquet file of a table. ``path`` is relative to `Target.root`; ``rows`` are all that the file has.

    ``footer`` is the length of its footer in bytes, with the length and the magic after it.
    """

    path: str
    size: int
    rows: int
    footer: int = 0


class Version(NamedTuple):
    """A version of a table: its number in the table's own format (Iceberg: the snapshot id) and its stamp."""

    native: int
    stamp: Stamp | None


Footers = Callable[[DataFile], Any]
"""The ``pyarrow.parquet.FileMetaData`` of a file."""


class FileChange(NamedTuple):
    """The files that a version has more and less than the one before, and the columns of the table from it on.

    ``replaces_all``: ``added`` are all files of the version. So it is for a new table, and where files of the
    version before do not fit the new columns.
    """

    schema: pa.Schema
    added: tuple[DataFile, ...]
    removed: tuple[DataFile, ...] = ()
    replaces_all: bool = False


class RowChange(NamedTuple):
    """Rows to be merged by their keys: for compacted topics, whose table has one row for each key of a partition.

    ``rows`` has the columns of ``schema``: the newest row of each key that changed, at most one of a key.
    ``keys`` are the columns that make the key. ``removed`` has the columns of ``keys``: the keys that are gone.
    ``starts`` are the first offsets of the partitions: older rows are gone, too (the columns of ``place`` say where a
    row is: partition, offset). ``replaces_all``: the table has these rows alone afterwards.
    """

    schema: pa.Schema
    keys: tuple[str, ...]
    place: tuple[str, str]
    rows: Callable[[], pa.Table]
    removed: Callable[[], pa.Table]
    starts: Mapping[int, int]
    replaces_all: bool = False


class Target(ABC):
    """One table. Calls that reach for the table raise the errors of `spark_eos.errors` alone.

    ``root`` is the URL of the folder that the paths of files are relative to, without a slash at the end; ``place`` is
    what to call the table in messages. Not for several threads.
    """

    root: str
    place: str
    path: str
    """What a user opens the table with: a URL, or the identifier in its catalog."""

    def files_store(self) -> Store:
        """Where the files of a table with copies are: its own, at `root`."""
        return open_store(self.root)

    @abstractmethod
    def check_schema(self, schema: pa.Schema) -> None:
        """Raise `SchemaMismatchError`, which names the column, for what this format cannot keep."""

    @abstractmethod
    def current(self) -> Version | None:
        """The newest version; None if there is no table.

        Raises `TableDamagedError` if there is one that cannot be read.
        """

    def is_here(self) -> bool:
        """Whether the table that `current` has found is where this target makes it; not so for a copy of a log."""
        return True

    @abstractmethod
    def files(self) -> tuple[str, ...]:
        """The paths of all files of the newest version, in any order."""

    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of the newest version, in the form that `check_schema` and `commit` take."""

    @abstractmethod
    def commit(
        self, expected: Version | None, change: FileChange | RowChange, stamp: Stamp, footers: Footers
    ) -> Version:
        """Make the next version, all of it or nothing, if the newest one is ``expected`` (None: no table).

        Raises `TableChangedError` if it is not: another process has committed. After any other error the version may
        have been made all the same: `current` knows.
        """

    @abstractmethod
    def versions(self) -> Iterator[Version]:
        """All versions that the table still knows, the newest first."""

    @abstractmethod
    def drop(self) -> None:
        """Remove the table, so that `current` is None. Files at `root` that are the log's stay."""

    def maintain(self) -> None:  # noqa: B027  (a format without such work need not have it)
        """Do after a commit what keeps the table quick to open. It need not succeed."""
