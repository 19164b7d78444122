"""Which pages of a Parquet topic are rolled: those with records in Arrow files, or with small Parquet files. Pure.

Small files are merged only into something `GROWTH` times as large as the largest of them: so no byte is rewritten more
than O(log n) times. A large file stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from spark_eos.maintenance.segments.form import fits_parquet
from spark_eos.protocol.index import IndexRow, Kind

GROWTH = 4
"""What was rolled is rolled again only into something at least so many times as large."""

LARGE_FILE = 128 << 20
"""A Parquet file of so many bytes stays as it is. Engines read larger ones no faster."""

SHRINKS = 4
"""Records in Arrow files take about so many times the bytes that they have in Parquet."""


class Facts(NamedTuple):
    """What one page of the index has, as far as rolling is concerned."""

    arrow: int = 0
    """Bytes of the batches that are to become Parquet."""
    small: int = 0
    """Bytes in small Parquet files."""
    files: int = 0
    """How many these are."""
    aborted: int = 0
    """Batches of aborted records that were never rolled."""
    rows: int = 1

    @staticmethod
    def of(
        rows: Iterable[IndexRow], start: int, file_bytes: int, is_rolled: Callable[[IndexRow], bool]
    ) -> Facts:
        """Of these rows, those before the log's ``start`` left out; ``is_rolled``: it was."""
        arrow = small = aborted = count = 0
        files = set()
        for row in rows:
            count += 1
            if row.file is None or row.batch is None or row.next_offset <= start:
                continue
            if row.file.is_parquet:
                if not is_large(row, file_bytes):
                    small += row.batch.length
                    files.add(row.file.name)
            elif fits_parquet(row):
                arrow += row.batch.length
            elif row.kind is Kind.ABORTED and not is_rolled(row):
                aborted += 1
        return Facts(arrow, small, len(files), aborted, max(count, 1))

    @property
    def is_dirty(self) -> bool:
        """Whether rolling it pays by itself."""
        return self.arrow > 0 or self.aborted > 1

    @property
    def is_settled(self) -> bool:
        """Whether rolling it changes nothing."""
        return not self.is_dirty and not self.files

    @property
    def moved(self) -> int:
        """About how many bytes it has in the files that it is rolled into."""
        return self.small + self.arrow // SHRINKS


def is_large(row: IndexRow, file_bytes: int) -> bool:
    """Whether a batch stays in its Parquet file, which is as large as they get, or as pays."""
    return row.file is not None and row.file.is_parquet and row.file.size >= min(LARGE_FILE, file_bytes)


def plan_parquet(pages: Sequence[Facts], most_rows: int, most_bytes: int) -> tuple[int, int] | None:
    """The pages to roll next, as a range of their numbers; None if it does not pay anywhere.

    They have at most so many rows and bytes, unless one page alone has more.
    """
    at = 0
    while at < len(pages):
        end, rows, size = at, 0, 0
        while end < len(pages) and not pages[end].is_settled:
            rows, size = rows + pages[end].rows, size + pages[end].arrow + pages[end].small
            if end > at and (rows > most_rows or size > most_bytes):
                break
            end += 1
        page_range = _best(pages, at, end)
        if page_range is not None:
            return page_range
        at = max(end, at + 1)
    return None


def _best(pages: Sequence[Facts], first: int, end: int) -> tuple[int, int] | None:
    """The leftmost part of a range that may be rolled as a whole; None if there is none."""
    part = pages[first:end]
    dirty = any(facts.is_dirty for facts in part)
    if not dirty and sum(facts.files for facts in part) < 2:
        return None
    clean = [n for n, facts in enumerate(part) if not facts.is_dirty]
    largest = max(clean, key=lambda n: part[n].small, default=None)
    if largest is not None and part[largest].small * GROWTH > sum(facts.moved for facts in part):
        return _best(pages, first, first + largest) or _best(pages, first + largest + 1, end)
    return first, end
