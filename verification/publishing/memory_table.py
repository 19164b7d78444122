"""A published table in memory: for tests of publishers, and as the model of what the tables of a format do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from spark_eos.errors import TableChangedError, TableDamagedError
from spark_eos.extensions.tables.target import FileChange, Footers, RowChange, Stamp, Target, Version

_Rows = dict[tuple[Any, ...], dict[str, Any]]


@dataclass
class MemoryTable(Target):
    """A table in memory.

    ``before_commit`` and ``after_commit`` are called around the moment at which a commit is decided: tests raise
    there, or commit by another hand.
    """

    root: str = "memory://files"
    place: str = "table in memory"
    path: str = "memory"
    before_commit: Callable[[], None] = lambda: None
    after_commit: Callable[[], None] = lambda: None
    history: list[Version] = field(default_factory=list)
    contents: list[tuple[str, ...]] = field(default_factory=list)
    rows: list[_Rows] = field(default_factory=list)
    schemas: list[pa.Schema] = field(default_factory=list)
    is_damaged: bool = False

    def check_schema(self, schema: pa.Schema) -> None:
        """All types are taken."""

    def current(self) -> Version | None:
        if self.is_damaged:
            raise TableDamagedError(f"{self.place} cannot be read")
        return self.history[-1] if self.history else None

    def files(self) -> tuple[str, ...]:
        return self.contents[-1]

    def schema(self) -> pa.Schema:
        return self.schemas[-1]

    def commit(
        self, expected: Version | None, change: FileChange | RowChange, stamp: Stamp, footers: Footers
    ) -> Version:
        self.before_commit()
        current = self.current()
        if current != expected:
            raise TableChangedError(f"{self.place} is at {current}, and not at {expected}")
        is_whole = change.replaces_all or current is None
        files: tuple[str, ...] = ()
        rows: _Rows = {}
        if isinstance(change, RowChange):
            rows = _merged({} if is_whole else self.rows[-1], change)
        else:
            files = _files(() if is_whole else self.contents[-1], change)
            for file in change.added:
                footers(file)
        self.contents.append(files)
        self.rows.append(rows)
        self.schemas.append(change.schema)
        self.history.append(Version(len(self.history), stamp))
        self.after_commit()
        return self.history[-1]

    def versions(self) -> Iterator[Version]:
        return iter([*reversed(self.history)])

    def drop(self) -> None:
        self.history, self.contents, self.rows, self.schemas = [], [], [], []
        self.is_damaged = False


def _files(before: tuple[str, ...], change: FileChange) -> tuple[str, ...]:
    removed, added = {file.path for file in change.removed}, {file.path for file in change.added}
    if not removed <= {*before} or added & {*before} or len(added) != len(change.added):
        raise TableDamagedError("files are added twice, or removed though they are not there")
    return tuple(sorted({*before} - removed | added))


def _merged(before: _Rows, change: RowChange) -> _Rows:
    partition, offset = change.place
    by_key = {key: row for key, row in before.items() if row[offset] >= change.starts[row[partition]]}
    for row in change.removed().to_pylist():
        by_key.pop(tuple(row[name] for name in change.keys), None)
    return by_key | {tuple(row[name] for name in change.keys): row for row in change.rows().to_pylist()}
