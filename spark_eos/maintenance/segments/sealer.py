"""Sealing for tables: what is committed up to some offset goes into Parquet files that have nothing else.

A table that shares the log's files takes them as a whole. So a file ends where the table ends, and begins where the log
begins. Several partitions are sealed by one entry.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from spark_eos.errors import (
    ObjectNotFoundError,
    SegmentsReplacedError,
    StagedFileExpiredError,
    UnknownTopicOrPartitionError,
)
from spark_eos.log.data.parquet.columns import check_columns
from spark_eos.log.data.parquet.plan import SealedPlan, plan_sealed
from spark_eos.log.log import Log
from spark_eos.log.topics import config_value, layout_of
from spark_eos.maintenance.rewrite import (
    ROWS,
    Rewriter,
    commit_all,
    has_moved,
    label_of_batch,
    read_row,
    stays,
)
from spark_eos.maintenance.segments.form import form_of
from spark_eos.maintenance.segments.plan import GROWTH, SHRINKS
from spark_eos.protocol.index import Index, IndexPage, IndexRow, Kind
from spark_eos.protocol.rules.sealing import sealed_to
from spark_eos.protocol.state import Partition, State, Topic
from spark_eos.protocol.types import TopicPartition

_PARTITIONS = 256
"""Partitions that one entry replaces segments of, at most."""
_IN_VAIN = 16
"""Entries in a row after which a partition is at the offset where it was, before `seal` gives up."""


class Cut(NamedTuple):
    """What a table has of a partition: the offsets from ``start`` to before ``end``.

    ``version``: files whose rows have an older version of the topic's schema are written again.
    """

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    version: int = 0


def seal(log: Log, cuts: Iterable[Cut], *, writer: str = "seal") -> State:
    """Put the committed records of every cut into Parquet files of their own. The state of the log in which they are.

    `spark_eos.log.data.parquet.plan.plan_sealed` finds the files there, and nothing but files. They may be gone in a
    later state: retention moves the log's start, and compaction replaces files.

    Raises `OffsetOutOfRangeError` if a partition begins after its cut by now or is not stable up to its end,
    `UnknownTopicOrPartitionError`, `SchemaMismatchError` and `InvalidTimestampError` for what no Parquet file can have,
    `SegmentsReplacedError` if a partition gets no further because another process replaces its segments each time,
    and what reading and committing raise. What was sealed before an error stays sealed.
    """
    left = [*cuts]
    progress = _Progress()
    while True:
        state = log.follow()
        todo = [(cut, work) for cut in left if (work := _Work.of(log, state, cut)) is not None]
        if not todo:
            return state
        left = [cut for cut, _ in todo]
        try:
            sealed = _seal(log, [work for _, work in todo], writer)
        except (SegmentsReplacedError, StagedFileExpiredError):
            continue  # Another process was faster, or the floor rose: look again.
        except ObjectNotFoundError:
            moved = (has_moved(log, (cut.topic_id, cut.partition), work.partition) for cut, work in todo)
            if not any(moved):
                raise
        else:
            progress.note(sealed)


class _Progress:
    """Ends what gets no further: each step moves on the first offset that is left, unless the new files go again."""

    def __init__(self) -> None:
        self._at: dict[tuple[str, int], tuple[int, int]] = {}

    def note(self, works: Sequence[_Work]) -> None:
        """A step was committed for these. Raises `SegmentsReplacedError` if one was at the same offset too often."""
        for work in works:
            key = work.topic.topic_id, work.cut.partition
            furthest, times = self._at.get(key, (-1, 0))
            times = 0 if work.first > furthest else times + 1
            self._at[key] = max(furthest, work.first), times
            if times >= _IN_VAIN:
                raise SegmentsReplacedError(
                    f"{work.cut.topic}-{work.cut.partition}: {times} entries in a row have put the records from offset "
                    f"{work.first} on into files of their own, and still they are not in such files. Another process "
                    "replaces the partition's segments each time; run one maintainer of a topic at a time"
                )


def _seal(log: Log, todo: Sequence[_Work], writer: str) -> list[_Work]:
    """One commit, with as many of them as one step may have. These."""
    works = []
    rows = size = 0
    with ExitStack() as stack:
        new: list[Rewriter] = []
        for work in todo[:_PARTITIONS]:
            rows, size = rows + work.rows, size + work.size
            if new and (rows > ROWS or size > work.limit):
                break
            new.append(work.write(log, stack))
            works.append(work)
        commit_all(log, new, writer)
    return works


class _Work(NamedTuple):
    """The pages of one partition that are replaced next."""

    cut: Cut
    topic: Topic
    partition: Partition
    first: int
    """The first offset that is not in a file of the cut."""
    pages: tuple[IndexPage, ...]
    written: int
    """About how many bytes of Parquet are to be written."""
    whole: frozenset[str]
    """The files that have nothing but records of the cut."""
    broken: frozenset[str]
    """Those that have other records as well, or are no Parquet files."""

    @property
    def rows(self) -> int:
        """Rows of the index."""
        return sum(page.rows for page in self.pages)

    @property
    def size(self) -> int:
        """Bytes to be read, at most."""
        return sum(page.bytes for page in self.pages)

    @property
    def limit(self) -> int:
        """Bytes of one step."""
        return _file_bytes(self.topic)

    @staticmethod
    def of(log: Log, state: State, cut: Cut) -> _Work | None:
        """What to do for a cut next; None if nothing is left."""
        topic = state.topics.get(cut.topic)
        if topic is None or topic.topic_id != cut.topic_id:
            raise UnknownTopicOrPartitionError(
                f"topic {cut.topic!r} with the id {cut.topic_id} is not there any more"
            )
        at = TopicPartition(cut.topic, cut.partition)
        plan = plan_sealed(state, at, cut.start, cut.end, load=log.load, version=cut.version)
        if not plan.rest:
            return None
        check_columns(layout_of(topic).physical)
        key = topic.topic_id, cut.partition
        partition = state.partitions[key]
        last = partition.index.find(cut.end - 1, log.load)  # It may lie on both sides of the end.
        partition = sealed_to(key, partition, cut.end if last is None else max(cut.end, last.next_offset))
        pages = [
            page
            for page in partition.index.pages
            if page.next_offset > cut.start and page.base_offset < cut.end
        ]
        first, end, written = _stretch(pages, plan, _file_bytes(topic))
        whole = frozenset(sealed_file.file.name for sealed_file in plan.files)
        broken = frozenset(fetch.file.name for fetch in plan.rest)
        return _Work(
            cut, topic, partition, plan.rest[0].offset, tuple(pages[first:end]), written, whole, broken
        )

    def write(self, log: Log, stack: ExitStack) -> Rewriter:
        """Write the new files. The rewriter with everything that is to be committed."""
        start = self.partition.start
        rows = [*Index(self.pages).scan(0, log.load)]
        taken = [row for row in rows if row.next_offset > start and not self._is_kept(row)]
        holes = start > rows[0].base_offset or any(
            row.batch is None or row.batch.count != row.count for row in rows
        )
        form = form_of(log, self.topic, taken, offsets=holes, parquet=True)
        new = stack.enter_context(Rewriter(log, self.topic, self.cut.partition, self.pages, form))
        ends = sorted({start, self.cut.start, self.cut.end})
        ends = [end for end in ends if rows[0].base_offset < end < rows[-1].next_offset]
        for row in rows:
            while ends and ends[0] <= row.base_offset:
                new.cut(ends.pop(0))
            if row.file is None or row.next_offset <= start:
                new.skip(row.next_offset)
            elif self._is_kept(row):
                new.keep(row)
            else:
                inside = [end for end in ends if end < row.next_offset]
                self._take(log, new, row, inside)
                ends = ends[len(inside) :]
        new.finish()
        return new

    def _take(self, log: Log, new: Rewriter, row: IndexRow, ends: Sequence[int]) -> None:
        """The records of a batch go into new ones; none of these lies on both sides of one of the ``ends``."""
        records = read_row(log, self.topic, self.cut.partition, row, self.partition.start)
        for first, last in pairwise([row.base_offset, *ends, row.next_offset]):
            if first > row.base_offset:
                new.cut(first)
            at, end = np.searchsorted(records.offsets, (first, last)).tolist()
            part = row._replace(base_offset=first, count=last - first)
            new.take(part, records.slice(at, end - at), label_of_batch(row))

    def _is_kept(self, row: IndexRow) -> bool:
        """Whether a batch stays where it is: in a file that is right, and much of what is to be written."""
        if row.file is None or row.kind is Kind.ABORTED:
            return stays(row)
        if not row.file.is_parquet or row.file.name in self.broken:
            return False
        return row.file.name not in self.whole or row.file.size * GROWTH > self.written


def _stretch(pages: Sequence[IndexPage], plan: SealedPlan, limit: int) -> tuple[int, int, int]:
    """The pages to replace next, and about how many bytes are written: the first ones with something left to do.

    Those before are joined to them if they have small files, and all of them `GROWTH` times as much as the largest.
    """
    ends = [page.next_offset for page in pages]
    todo, small = [0] * len(pages), [0] * len(pages)
    for fetch in plan.rest:
        todo[bisect_right(ends, fetch.offset)] += (
            fetch.size if fetch.file.is_parquet else 1 + fetch.size // SHRINKS
        )
    for sealed_file in plan.files:
        small[bisect_right(ends, sealed_file.base_offset)] += sealed_file.file.size
    first = next(n for n, size in enumerate(todo) if size)
    end = first + 1
    while end < len(pages) and todo[end] and sum(page.bytes for page in pages[first : end + 1]) <= limit:
        end += 1
    written = total = sum(todo[first:end])
    largest, joined = 0, first
    for at in range(first - 1, -1, -1):
        total, largest = total + small[at], max(largest, small[at])
        if not small[at] or total > limit:
            break
        if largest * GROWTH <= total:
            joined, written = at, total
    return joined, end, written


def _file_bytes(topic: Topic) -> int:
    return max(config_value(topic, "segment.bytes", int), 1)
