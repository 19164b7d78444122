"""How much partitions hold, from their indexes alone. What did not change since the last look is not read again."""

from __future__ import annotations

from typing import NamedTuple

from spark_eos.maintenance.rewrite import SMALL_BYTES
from spark_eos.maintenance.rolling import TAIL_ROWS
from spark_eos.maintenance.segments.form import BATCH_BYTES
from spark_eos.protocol.index import Index, IndexPage
from spark_eos.protocol.state import Partition, PartitionKey, State


class Size(NamedTuple):
    """Batches of a partition and their bytes as stored.

    ``unsealed`` are the batches that are in no index page, ``small`` those that rolling would save: about, as far as
    index pages tell without their content. Rolling leaves a few unsealed ones as they are (`TAIL_ROWS`).
    """

    batches: int = 0
    bytes: int = 0
    unsealed: int = 0
    small: int = 0


class _KnownSize(NamedTuple):
    rows: Index
    pages: Size
    tail: Size
    """Batches and bytes of the tail; ``small`` are all its batches that are smaller than rolling leaves alone."""
    small_bytes: int
    """Of the small batches in the tail."""


class Sizes:
    """Sizes of all partitions of one log. For one thread at a time."""

    def __init__(self) -> None:
        self._last: dict[PartitionKey, _KnownSize] = {}

    def of(self, state: State) -> dict[PartitionKey, Size]:
        """The sizes of all partitions in ``state``."""
        last = self._last
        self._last = {key: _measured(partition, last.get(key)) for key, partition in state.partitions.items()}
        return {key: _size(sums) for key, sums in self._last.items()}


def _size(sums: _KnownSize) -> Size:
    pages, tail = sums.pages, sums.tail
    saved = max(tail.small - 1 - sums.small_bytes // BATCH_BYTES, 0) if tail.batches >= TAIL_ROWS else 0
    return Size(pages.batches + tail.batches, pages.bytes + tail.bytes, tail.batches, pages.small + saved)


def _measured(partition: Partition, earlier: _KnownSize | None) -> _KnownSize:
    index = partition.index
    if earlier is not None and earlier.rows is index:
        return earlier
    same_pages = earlier is not None and earlier.rows.pages is index.pages
    pages = earlier.pages if earlier is not None and same_pages else _of_pages(index.pages)
    tail, small_bytes, first = Size(), 0, 0
    if earlier is not None and same_pages and _goes_on(earlier.rows, index):
        tail, small_bytes, first = earlier.tail, earlier.small_bytes, len(earlier.rows.tail)
    batches, size, small = tail.batches, tail.bytes, tail.small
    for row in index.tail.rows(first):
        batches += 1
        if row.batch is not None:
            size += row.batch.length
            if row.batch.length < SMALL_BYTES:
                small += 1
                small_bytes += row.batch.length
    return _KnownSize(index, pages, Size(batches, size, batches, small), small_bytes)


def _goes_on(before: Index, after: Index) -> bool:
    """Whether the tail has the rows that it had, and perhaps more: offsets of one start never change their rows."""
    return before.tail.start == after.tail.start and len(before.tail) <= len(after.tail)


def _of_pages(pages: tuple[IndexPage, ...]) -> Size:
    batches = size = small = 0
    for page in pages:
        batches += page.rows
        size += page.bytes
        if page.bytes < SMALL_BYTES * page.rows:
            small += max(page.rows - 1 - page.bytes // BATCH_BYTES, 0)
    return Size(batches, size, 0, small)
