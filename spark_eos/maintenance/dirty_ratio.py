"""The dirty ratio: how much of a partition was not compacted yet, which decides when compaction is due and where first.

As in Kafka's LogCleanerManager: the share of bytes that are dirty against ``min.cleanable.dirty.ratio``, and the
"filthiest log" first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from spark_eos.log.topics import config_value
from spark_eos.maintenance.cleaner import since
from spark_eos.maintenance.rewrite import CLEAN
from spark_eos.protocol.index import Index, IndexPage, IndexRow, PageContent
from spark_eos.protocol.state import Partition, Topic

_REMEMBERED = 10_000
"""Of so many pages the sums are kept."""

_LEAST = 1e-9
"""Of all that is due, tombstones come last."""


class _Sum(NamedTuple):
    """What is known of an index page: bytes that were compacted and that were not, and its oldest tombstones."""

    clean: int
    dirty: int
    first_dirty: int | None
    tombstones_ms: int | None


class DirtyRatios:
    """Looks at the sealed index pages of partitions, once at each. ``load`` gives a page's content."""

    def __init__(self, load: Callable[[IndexPage], PageContent]) -> None:
        self._load = load
        self._sums: dict[IndexPage, _Sum] = {}

    def gain(self, topic: Topic, partition: Partition, now_ms: int) -> float:
        """The share of what is dirty if that is enough, or tombstones are due; else 0."""
        clean = dirty = 0
        due = False
        expired_ms = now_ms - config_value(topic, "delete.retention.ms", int)
        for page in partition.index.pages:
            page_sum = self._sum(page)
            clean += page_sum.clean
            dirty += page_sum.dirty
            due = due or (page_sum.tombstones_ms is not None and page_sum.tombstones_ms <= expired_ms)
        if dirty and _lag_ms(topic):
            rows = self.rows(topic, partition, now_ms)
            dirty = sum(row.batch.length for row in rows if row.batch is not None)
        share = dirty / (clean + dirty) if dirty else 0.0
        if share > config_value(topic, "min.cleanable.dirty.ratio", float):
            return share
        return _LEAST if due else 0.0

    def _sum(self, page: IndexPage) -> _Sum:
        page_sum = self._sums.get(page)
        if page_sum is None:
            clean = dirty = 0
            first: int | None = None
            times = []
            for row in Index((page,)).scan(page.base_offset, self._load):
                if row.batch is None:
                    continue
                if is_clean(row):
                    clean += row.batch.length
                    times.append(since(row.batch.base_sequence))
                else:
                    dirty += row.batch.length
                    first = row.base_offset if first is None else first
            if len(self._sums) >= _REMEMBERED:
                self._sums.clear()
            oldest = min((time for time in times if time is not None), default=None)
            page_sum = self._sums[page] = _Sum(clean, dirty, first, oldest)
        return page_sum

    def rows(self, topic: Topic, partition: Partition, now_ms: int) -> Iterator[IndexRow]:
        """The sealed batches from the first one on that was not compacted, without those that are too young."""
        pages = partition.index.pages
        firsts = [first for page in pages if (first := self._sum(page).first_dirty) is not None]
        lag_ms = _lag_ms(topic)
        for row in Index(pages).scan(firsts[0], self._load) if firsts else ():
            if lag_ms and row.batch is not None and row.batch.max_timestamp_ms > now_ms - lag_ms:
                return
            yield row


def is_clean(row: IndexRow) -> bool:
    """Whether the batch of a row was compacted."""
    return row.batch is not None and row.batch.base_sequence <= CLEAN


def _lag_ms(topic: Topic) -> int:
    return config_value(topic, "min.compaction.lag.ms", int)
