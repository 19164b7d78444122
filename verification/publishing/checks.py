"""What a published version must be: the rows of the log as of its entry, of all topics up to one cut."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from spark_eos import read_arrow
from spark_eos.errors import InvalidRequestError, ObjectNotFoundError
from spark_eos.extensions.tables.tables import Tables, TableVersion
from spark_eos.log.log import Log
from verification.publishing.writer import EVENTS, NEWEST, ORDERS

__all__ = ["Checks", "rows_of"]

Row = tuple[Any, ...]


class Checks:
    """Compares each version once; ``counts`` says how, ``problems`` what was wrong.

    ``retention_s`` is the one of the publications. ``vacuumed`` says that Delta's own VACUUM has begun: files that only
    earlier versions have may be gone before that time.
    """

    def __init__(
        self,
        log: Log,
        publications: Mapping[str, tuple[str, ...]],
        retention_s: float,
        vacuumed: threading.Event,
    ) -> None:
        self._log = log
        self._tables = Tables(log)
        self._publications = publications
        self._retention_s = retention_s
        self._vacuumed = vacuumed
        self._seen: set[tuple[str, str, int]] = set()
        self._sets: dict[tuple[str, int, int], dict[str, set[int]]] = {}
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []

    def look(self) -> None:
        """Compare all versions that are new."""
        for name, topics in self._publications.items():
            places = {
                one.topic: one.location for one in self._tables.list_tables() if one.publication == name
            }
            for version in self._tables.versions(name):
                key = (name, version.topic, version.version)
                if key in self._seen or version.topic not in topics:
                    continue
                self._seen.add(key)
                self._compare(name, places[version.topic], version)

    def _compare(self, name: str, place: str, version: TableVersion) -> None:
        where = f"{name}: version {version.version} of {version.topic}, entry {version.entry}"
        try:
            found = rows_of(place, version.version)
        except FileNotFoundError as error:
            reason = self._why_gone(name, version)
            if reason is None:
                self.problems.append(f"{where}: {error}")
            else:
                self.counts[reason] += 1
            return
        starts, expected = self._expected(version, found.schema.names)
        if expected is None:
            self.counts["versions of which the log has forgotten too much"] += 1
            return
        rows = _rows(found)
        below = [row for row in rows if row[1] < starts.get(row[0], 0)]
        there = [row for row in rows if row[1] >= starts.get(row[0], 0)]
        if there != expected:
            more, less = Counter(there) - Counter(expected), Counter(expected) - Counter(there)
            self.problems.append(
                f"{where}: {more.total()} rows that the log has not, {less.total()} that the table has not; "
                f"for instance {[*more][:2]} and {[*less][:2]}"
            )
        self.counts[f"versions of {version.topic} compared"] += 1
        self.counts["rows compared"] += len(there)
        self.counts["rows that only the table has still"] += len(below)
        if version.topic in (EVENTS, ORDERS):
            self._cut(name, version, found)

    def _why_gone(self, name: str, version: TableVersion) -> str | None:
        """What may have deleted files of a version by now; None: they should be there.

        It is asked after a file was missing, and not before the read: publishers, vacuum and VACUUM go on meanwhile.
        """
        later = [one for one in self._tables.versions(name, version.topic) if one.version > version.version]
        if not later:
            return None
        if self._vacuumed.is_set():
            return "versions that Delta's VACUUM was faster to"
        # The next version was committed after its entry, so the retention ends later than this.
        is_past = time.time() - min(one.timestamp_ms for one in later) / 1000 >= self._retention_s
        return "versions past the retention" if is_past else None

    def _expected(self, version: TableVersion, names: list[str]) -> tuple[dict[int, int], list[Row] | None]:
        """The first offsets that the log has still, and its rows from there on."""
        try:
            rows = _rows(read_arrow(self._log, version.topic, as_of=version.entry, columns=names).read_all())
            self.counts["read as of their entry"] += 1
            # Committed records wait where a transaction that they belong to, or lie behind, is not whole.
            rows = [row for row in rows if row[1] < version.offsets[row[0]][1]]
            return {}, newest(rows) if version.topic == NEWEST else rows
        except (InvalidRequestError, ObjectNotFoundError):
            if version.topic == NEWEST:
                return {}, None
        # The entry is retired, or records were deleted, or files under the read, as vacuum may at age 0. What is left
        # is what it was: offsets never change.
        state = self._log.follow()
        topic_id = state.topics[version.topic].topic_id
        starts = {
            number: min(max(first, state.partitions[topic_id, number].start), end)
            for number, (first, end) in version.offsets.items()
        }
        ends = {number: end for number, (_, end) in version.offsets.items()}
        try:
            read = read_arrow(self._log, version.topic, start=starts, end=ends, columns=names).read_all()
        except (InvalidRequestError, ObjectNotFoundError):  # Deleted between the two calls.
            return {}, None
        return starts, _rows(read)

    def _cut(self, name: str, version: TableVersion, found: pa.Table) -> None:
        """Partition 0 of both topics has one row of each transaction, and nothing is deleted there."""
        column, part = ("tx", "_partition") if version.topic == ORDERS else ("value", "partition")
        numbers = found.column(part).to_pylist()
        first = {int(tx) for tx, at in zip(found.column(column).to_pylist(), numbers, strict=True) if at == 0}
        other = self._sets.setdefault((name, version.sequence, version.entry), {})
        other[version.topic] = first
        if len(other) == 2:
            if other[EVENTS] != other[ORDERS]:
                torn = sorted(other[EVENTS] ^ other[ORDERS])[:3]
                self.problems.append(f"{name}, sequence {version.sequence}: transactions are torn: {torn}")
            self.counts["cuts over two tables compared"] += 1


def rows_of(place: str, version: int | None = None) -> pa.Table:
    """A version of a Delta table."""
    return DeltaTable(place, version=version).to_pyarrow_dataset().to_table()


def newest(rows: list[Row]) -> list[Row]:
    """One row for each partition and key, the newest; none for a key that was deleted."""
    last = {(row[0], row[2]["key"]): row for row in rows}
    return sorted((row for row in last.values() if row[2]["value"] is not None), key=lambda row: row[:2])


class _Record(dict[str, Any]):
    """A row, which can be counted."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(map(repr, self.items())))


def _rows(table: pa.Table) -> list[Row]:
    """Partition, offset and the row, in that order; timestamps in milliseconds, as the log has them."""
    prefix = "" if "offset" in table.schema.names else "_"
    at = table.schema.get_field_index(f"{prefix}timestamp")
    if at >= 0:
        times = table.column(at).cast(pa.timestamp("ms", "UTC"))
        table = table.set_column(at, f"{prefix}timestamp", times)
    rows = [_Record(sorted(row.items())) for row in table.to_pylist()]
    return sorted(
        ((row[f"{prefix}partition"], row[f"{prefix}offset"], row) for row in rows), key=lambda row: row[:2]
    )
