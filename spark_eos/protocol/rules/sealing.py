"""Sealing: at each boundary, the older rows of long indexes go into index pages (docs/design/0005).

A boundary is an entry whose number is a multiple of the log's snapshot interval. Sealing is a function of the state
alone, so all processes that have read the same entries have the same pages: else two of them would store different
pages under one name. Only rows below the last stable offset are sealed. Their transactions have ended, and which of
them were aborted is written into the rows.
"""

from __future__ import annotations

from immutables import Map

from spark_eos.protocol.encoding.index_pages import seal_pages, seal_tail
from spark_eos.protocol.index import Index, IndexPage, Kind, Rows
from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import Partition, PartitionKey, State
from spark_eos.protocol.types import ProducerStamp

PAGE_ROWS = 512
"""Rows of a page. A part of the format, as `FAN_OUT` is: another number gives other states."""

FAN_OUT = 64
"""Pages in a page of the next level. As many stay beside it, since the newest ones are read most."""


def is_boundary(state: State, seq: int) -> bool:
    """Whether indexes are sealed, and a snapshot may be taken, after entry ``seq``."""
    return seq > 0 and seq % state.snapshot_interval == 0


def seal(state: State) -> State:
    """The state with long indexes sealed."""
    changed = {}
    for key, before in state.partitions.items():
        partition = trimmed(before)
        if len(partition.index.tail) >= PAGE_ROWS:
            partition = _sealed(key, partition)
        if partition is not before:
            changed[key] = partition
    return replace(state, partitions=state.partitions.update(changed)) if changed else state


def trimmed(partition: Partition) -> Partition:
    """The partition without the aborted transactions that no row in the tail needs any more.

    A sealed row says itself that it was aborted, and a transaction has no rows after the control batch that ended it.
    """
    if not partition.aborted:
        return partition
    tail = partition.index.tail
    ended = {(stamp.producer_id, stamp.number) for _, stamp in _ends(tail, len(tail))}
    if ended.issuperset(partition.aborted):
        return partition
    return replace(partition, aborted=Map({mark: True for mark in partition.aborted if mark in ended}))


def ready(partition: Partition) -> int:
    """How many rows of the tail lie below the last stable offset."""
    tail, stable = partition.index.tail, partition.last_stable_offset
    return len(tail) if partition.end == stable else tail.find(stable)


def sealed_to(key: PartitionKey, partition: Partition, offset: int) -> Partition:
    """The partition with its stable rows up to ``offset`` sealed.

    For replacing the newest segments without waiting for a boundary. The last page may have fewer rows.
    """
    tail = partition.index.tail
    count = min(ready(partition), tail.find(offset))
    pages, aborted = _cut(key, partition, count)
    index = Index((*partition.index.pages, *pages), tail.without_first(count))
    return replace(partition, index=index, aborted=aborted)


def _sealed(key: PartitionKey, partition: Partition) -> Partition:
    count = ready(partition) // PAGE_ROWS * PAGE_ROWS
    if not count:
        return partition
    cut, aborted = _cut(key, partition, count)
    pages = [*partition.index.pages]
    for page in cut:
        pages.append(page)
        _join(pages)
    tail = partition.index.tail.without_first(count)
    return replace(partition, index=Index(tuple(pages), tail), aborted=aborted)


def _cut(
    key: PartitionKey, partition: Partition, count: int
) -> tuple[list[IndexPage], Map[tuple[int, int], bool]]:
    """The first ``count`` rows of the tail as pages, and the aborted transactions that are left to remember."""
    tail, aborted = partition.index.tail, partition.aborted
    pages = [
        seal_tail(key, tail, first, min(first + PAGE_ROWS, count), aborted)
        for first in range(0, count, PAGE_ROWS)
    ]
    if aborted:
        for _, stamp in sorted(_ends(tail, count)):
            if (mark := (stamp.producer_id, stamp.number)) in aborted:
                aborted = aborted.delete(mark)
    return pages, aborted


def _ends(tail: Rows, count: int) -> set[tuple[int, ProducerStamp]]:
    """The ends of aborted transactions among the first ``count`` rows."""
    return {head[:2] for head in tail.heads(count) if head[0] == Kind.ABORT}


def _join(pages: list[IndexPage]) -> None:
    """If a level has two times `FAN_OUT` pages, the older half becomes one page of the next level."""
    level = 0
    while True:
        end = len(pages)
        while end and pages[end - 1].level < level:
            end -= 1
        start = end
        while start and pages[start - 1].level == level:
            start -= 1
        if end - start < 2 * FAN_OUT:
            return
        pages[start : start + FAN_OUT] = [seal_pages(tuple(pages[start : start + FAN_OUT]))]
        level += 1
