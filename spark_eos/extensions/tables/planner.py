"""Which files a version of a table has: pure, from the pages that the version pins.

A file can be in a table only as a whole. So each file that has rows of the version must have these alone: its row
groups lie one after the other from its first byte to its footer, and the rows of the index that the version has must be
just those. Where that does not hold, the place must be sealed again first (`Unsealed`).

What a page comes to is remembered by the page, so that the next version is planned in the time of what has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from spark_eos.extensions.tables.copies import copy_name
from spark_eos.extensions.tables.target import DataFile
from spark_eos.protocol.index import IndexPage, IndexRow, Load
from spark_eos.protocol.index_rows import Kind
from spark_eos.protocol.publication import Pin
from spark_eos.protocol.types import FileRef

_FIRST = 4
"""Where the first row group of a Parquet file begins: after the magic."""


class Unsealed(NamedTuple):
    """Offsets ``base_offset`` to ``next_offset - 1`` are not in a file that a table can have, and why."""

    base_offset: int
    next_offset: int
    why: str


class Run(NamedTuple):
    """Row groups of one file that follow one another in the index and in the file; ``file`` None: an Arrow file's."""

    file: FileRef | None
    position: int
    end: int
    base_offset: int
    next_offset: int
    rows: int


class SealedFile(NamedTuple):
    """A whole Parquet file: offsets ``base_offset`` to ``next_offset - 1`` of its partition, ``rows`` of them."""

    ref: FileRef
    partition: int
    base_offset: int
    next_offset: int
    rows: int

    def at(self, folder: str) -> DataFile:
        """The file by its path relative to ``folder`` of the log, which ends with a slash."""
        return DataFile(self.ref.name.removeprefix(folder), self.ref.size, self.rows, self.ref.footer)

    def copied(self) -> DataFile:
        """A copy of the file in the table's own folder."""
        return DataFile(copy_name(self.ref, self.partition), self.ref.size, self.rows, self.ref.footer)


class Planner:
    """Plans versions of the tables of one log. ``load`` gives the content of index pages."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._cached: dict[IndexPage, tuple[Run, ...]] = {}
        self._recent: dict[IndexPage, tuple[Run, ...]] = {}

    def files(self, partition: int, pin: Pin, fits: Callable[[int], bool]) -> list[SealedFile] | Unsealed:
        """The files with the rows of a pin, by their offsets, or the first place that must be sealed again.

        ``fits`` says whether a table can have files of that version of the topic's schema.
        """
        sealed_files: list[SealedFile] = []
        for run in _joined(self._runs(pin.pages, pin.start, pin.end)):
            if run.file is None:
                return Unsealed(run.base_offset, run.next_offset, "it is in an Arrow file")
            if run.base_offset < pin.start or run.next_offset > pin.end:
                return Unsealed(run.base_offset, run.next_offset, f"{run.file.name} has more offsets")
            if (run.position, run.end) != (_FIRST, run.file.size - run.file.footer):
                return Unsealed(run.base_offset, run.next_offset, f"{run.file.name} has more row groups")
            if not fits(run.file.schema_version):
                return Unsealed(run.base_offset, run.next_offset, f"{run.file.name} has other columns")
            sealed_files.append(SealedFile(run.file, partition, run.base_offset, run.next_offset, run.rows))
        return sealed_files

    def forget(self) -> None:
        """Keep only what the plans since the last call have used."""
        self._cached, self._recent = self._recent, {}

    def _runs(self, pages: Iterable[IndexPage], start: int, end: int) -> Iterator[Run]:
        for page in pages:
            if page.next_offset <= start or page.base_offset >= end:
                continue
            if start <= page.base_offset and page.next_offset <= end:
                yield from self._of_page(page)
            elif page.level:
                yield from self._runs(self._load(page), start, end)  # type: ignore[arg-type]  # pages, from level 1
            else:
                rows: Iterable[IndexRow] = self._load(page)  # type: ignore[assignment]  # rows, on level 0
                yield from _of_rows(row for row in rows if row.next_offset > start and row.base_offset < end)

    def _of_page(self, page: IndexPage) -> tuple[Run, ...]:
        runs = self._recent.get(page, self._cached.get(page))
        if runs is None:
            content = self._load(page)
            if page.level:
                runs = tuple(_joined(run for inner in content for run in self._of_page(inner)))  # type: ignore[arg-type]
            else:
                runs = tuple(_joined(_of_rows(content)))  # type: ignore[arg-type]
        self._recent[page] = runs
        return runs


def difference(
    has: Iterable[str], target: Mapping[str, DataFile]
) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
    """What to add to a table with the files ``has``, and what to remove from it, so that it has those wanted."""
    paths = {*has}
    added = tuple(file for path, file in target.items() if path not in paths)
    return added, tuple(DataFile(path, 0, 0) for path in sorted(paths - target.keys()))


def _of_rows(rows: Iterable[IndexRow]) -> Iterator[Run]:
    for row in rows:
        if row.kind is not Kind.DATA:
            continue  # Ends of transactions, records of aborted ones, and offsets without a record.
        file, batch = row.file, row.batch
        assert file is not None
        assert batch is not None
        end = batch.position + batch.length
        yield Run(
            file if file.is_parquet else None,
            batch.position,
            end,
            row.base_offset,
            row.next_offset,
            batch.count,
        )


def _joined(runs: Iterable[Run]) -> Iterator[Run]:
    """Runs of the same file that lie side by side there as one."""
    last: Run | None = None
    for run in runs:
        if last is not None and run.file == last.file and (run.file is None or run.position == last.end):
            last = last._replace(end=run.end, next_offset=run.next_offset, rows=last.rows + run.rows)
            continue
        if last is not None:
            yield last
        last = run
    if last is not None:
        yield last
