"""How much of a partition lies before its end: records, bytes and the time of the first record, from the index alone.

The newest rows of an index are in memory. What they say is exact. The older ones are in index pages, of which the state
keeps offsets, bytes and the newest timestamp. So bytes of whole pages are exact, their records are taken to be as many
as their offsets, and of a page in its middle a share counts. Nothing is read from the store for that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

from spark_eos.protocol.index import IndexPage
from spark_eos.protocol.index_rows import IndexRow, Kind
from spark_eos.protocol.state import Partition


class Backlog(NamedTuple):
    """What offsets of a partition hold.

    ``first_ms`` is the time of the first record, to within its batch (`time_in`); None if there is no record.
    ``is_exact`` is False if something of it is estimated: from index pages, or the rest of a compacted batch.
    """

    records: int
    bytes: int
    first_ms: int | None
    is_exact: bool


NOTHING = Backlog(0, 0, None, True)


class RowSums:
    """Sums over rows of an index, so that any number of positions in them are looked up quickly."""

    __slots__ = ("_bases", "_bytes", "_records", "_rows")

    def __init__(self, partition: Partition, rows: Iterable[IndexRow]) -> None:
        self._rows = [row for row in rows if is_record_batch(partition, row)]
        self._bases = [row.base_offset for row in self._rows]
        batches = [row.batch for row in self._rows if row.batch is not None]
        self._records = [0, *accumulate(batch.count for batch in batches)]
        self._bytes = [0, *accumulate(batch.length for batch in batches)]

    def between(self, start: int, stop: int) -> Backlog:
        """What the offsets ``start`` to ``stop - 1`` of these rows hold; no batch reaches over ``stop``."""
        last = bisect_right(self._bases, stop - 1)
        first = min(max(bisect_right(self._bases, start) - 1, 0), last)
        if first < last and self._rows[first].next_offset <= start:
            first += 1
        if first == last:
            return NOTHING
        records = self._records[last] - self._records[first]
        size = self._bytes[last] - self._bytes[first]
        exact, row = True, self._rows[first]
        skip = start - row.base_offset
        if skip > 0 and row.batch is not None and row.file is not None:
            records -= row.batch.count * skip // row.count
            size -= row.batch.length * skip // row.count
            exact = not row.file.offsets  # Which of its offsets have a record is only in the file.
        return Backlog(records, size, time_in(row, start), exact)


def time_in(row: IndexRow, start: int) -> int:
    """The time of the record of a batch at ``start``, or of its first one after that.

    In the middle of the batch it is taken to have as large a share of the batch's time as of its offsets. Rolling joins
    batches of hours also under a reader that has read all but the newest: it is not behind by these hours.
    """
    batch = row.batch
    assert batch is not None
    passed = max(start - row.base_offset, 0)
    return batch.min_timestamp_ms + (batch.max_timestamp_ms - batch.min_timestamp_ms) * passed // row.count


def is_record_batch(partition: Partition, row: IndexRow) -> bool:
    """Whether a row stands for records that readers see, or will see if their transaction is committed."""
    if row.kind is not Kind.DATA or row.batch is None:
        return False
    stamp = row.producer
    return not partition.aborted or (stamp.producer_id, stamp.number) not in partition.aborted


class PageSums:
    """Sums over the index pages of a partition. There are some hundred of them, and many readers."""

    __slots__ = ("_bases", "_bytes", "_offsets", "pages")

    def __init__(self, pages: tuple[IndexPage, ...]) -> None:
        self.pages = pages
        self._bases = [page.base_offset for page in pages]
        self._bytes = [0, *accumulate(page.bytes for page in pages)]
        self._offsets = [0, *accumulate(page.next_offset - page.base_offset for page in pages)]

    def find(self, start: int) -> int:
        """The number of the first page that ends after ``start``; that of pages if there is none."""
        at = max(bisect_right(self._bases, start) - 1, 0)
        return at + 1 if at < len(self.pages) and self.pages[at].next_offset <= start else at

    def since(self, start: int) -> tuple[int, int]:
        """Offsets and bytes from ``start`` on; of the page that holds it, the share of the offsets counts."""
        at = self.find(start)
        page = self.pages[at]
        span = page.next_offset - page.base_offset
        inside = page.next_offset - max(start, page.base_offset)
        offsets = self._offsets[-1] - self._offsets[at + 1]
        return inside + offsets, page.bytes * inside // span + self._bytes[-1] - self._bytes[at + 1]

    def time_at(self, start: int) -> int:
        """The time of the record at ``start``, between the newest ones of the page before and of the page itself."""
        at = self.find(start)
        page = self.pages[at]
        newest = page.max_timestamp_ms
        before = self.pages[at - 1].max_timestamp_ms if at else newest
        share = max(start - page.base_offset, 0)
        passed = max(newest - before, 0) * share // (page.next_offset - page.base_offset)
        return min(before, newest) + passed


def backlog(pages: PageSums, tail: RowSums, start: int, stop: int, first_ms: int | None) -> Backlog:
    """What the offsets ``start`` to ``stop - 1`` hold, in index pages, which all end before ``stop``, and after them.

    ``first_ms`` is the time of the first record, if ``start`` is in a page and the caller knows it. Else it is
    estimated.
    """
    if pages.find(start) == len(pages.pages):
        return tail.between(start, stop)
    records, size = pages.since(start)
    of_tail = tail.between(pages.pages[-1].next_offset, stop)
    if not size:  # Pages of control batches and holes alone.
        return of_tail._replace(is_exact=False)
    time_ms = pages.time_at(start) if first_ms is None else first_ms
    return Backlog(records + of_tail.records, size + of_tail.bytes, time_ms, False)


def appended(partition: Partition, since: int) -> Backlog:
    """What was appended from offset ``since`` on. It costs what is new, not what is there."""
    tail = partition.index.tail
    new = RowSums(partition, tail.rows(tail.find(since)))
    pages = tuple(page for page in partition.index.pages if page.next_offset > since)
    return backlog(PageSums(pages), new, since, partition.end, None)
