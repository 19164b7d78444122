"""Rolling: many small batches of a partition become few large ones, in files of their own.

Sealed pages of the index are rolled, some at a time, and only where it pays; the newest batches with them once they
are many, sealed by the same commit. It puts the new batches in place of the old; readers that have planned before go
on with the old files, until these are vacuumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from spark_eos.errors import (
    ConfigError,
    CorruptRecordError,
    ObjectNotFoundError,
    SegmentsReplacedError,
    StagedFileExpiredError,
    StorePermissionError,
)
from spark_eos.log.encryption import check_writable
from spark_eos.log.log import Log
from spark_eos.log.topics import config_value, schema_error
from spark_eos.maintenance.rewrite import (
    ROWS,
    SMALL_BYTES,
    Rewriter,
    has_moved,
    is_rewritten,
    label_of_batch,
    read_row,
    stays,
)
from spark_eos.maintenance.segments.form import BATCH_BYTES, fits_parquet, form_of, is_sealed_in_parquet
from spark_eos.maintenance.segments.plan import GROWTH, Facts, is_large, plan_parquet
from spark_eos.maintenance.tails import SealedViews, is_past_segment_ms
from spark_eos.maintenance.unreadable import Unreadable
from spark_eos.protocol.index import Index, IndexPage, IndexRow
from spark_eos.protocol.rules.sealing import ready
from spark_eos.protocol.state import Partition, Topic
from spark_eos.protocol.types import TopicPartition

TAIL_ROWS = 64
"""Stable rows that are not sealed yet are rolled if there are so many of them, or past ``segment.ms``.

Fewer do not slow down a reader.
"""

_OVERHEAD_BYTES = 256
"""What a batch of one row takes in a file, beyond its row."""

_REMEMBERED = 10_000


class Rolled(NamedTuple):
    """One step: offsets ``base_offset`` to ``next_offset - 1``, in so many batches before and after it."""

    topic: str
    partition: int
    base_offset: int
    next_offset: int
    rows_before: int
    rows_after: int
    bytes_before: int
    bytes_after: int


# -- Planning: pure ---------------------------------------------------------------------------------------


def rows_after(rows: Iterable[IndexRow], start: int = 0) -> int:
    """How many rows of the index are left of ``rows``, however small their batches are, if they are rolled.

    Large batches stay, and aborted records keep apart from others: only read_uncommitted may see them. Batches
    of one file that was rolled stay apart too: they were as large as could be, before they were compressed.
    """
    count = 0
    before: IndexRow | None = None
    for row in rows:
        if row.file is None or row.next_offset <= start:
            continue
        joins = (
            before is not None
            and row.kind is before.kind
            and not stays(before)
            and not (row.file == before.file and is_rewritten(row.file))
        )
        count += not joins or stays(row)
        before = row
    return max(count, 1)


def plan_roll(
    pages: Sequence[IndexPage], after: Callable[[IndexPage], int], file_bytes: int
) -> tuple[int, int] | None:
    """The pages to roll next, as a range of their numbers; None if it does not pay anywhere.

    It pays where it halves the number of batches at least. ``after`` gives `rows_after` of a page's rows; it
    is asked of pages that seem to have small ones alone. A page without small batches, one that was rolled
    for instance, is taken only if all that it is rolled with has `GROWTH` times its bytes: so no byte is
    rewritten more than O(log n) times.
    """
    judged_pages = [_Judged.of(page, after) for page in pages]
    at = 0
    while at < len(pages):
        end, rows, size = at, 0, 0
        while end < len(pages) and not judged_pages[end].settled:
            rows, size = rows + pages[end].rows, size + pages[end].bytes
            if end > at and (rows > ROWS or size > file_bytes):
                break
            end += 1
        page_range = _best(judged_pages, at, end)
        if page_range is not None:
            return page_range
        at = max(end, at + 1)
    return None


class _Judged(NamedTuple):
    """A page as the plan sees it: ``dirty`` if rolling it pays by itself, ``settled`` if it never does.

    ``need`` is what is left of its rows, as a share of those of the whole it becomes a part of.
    """

    page: IndexPage
    dirty: bool
    settled: bool
    need: float

    @staticmethod
    def of(page: IndexPage, after: Callable[[IndexPage], int]) -> _Judged:
        if page.bytes >= SMALL_BYTES * page.rows:
            return _Judged(page, dirty=False, settled=True, need=page.rows)
        share = max(0, page.bytes - _OVERHEAD_BYTES * page.rows) / BATCH_BYTES
        if 2 * (share + 1) > page.rows:
            return _Judged(page, dirty=False, settled=False, need=share)
        need = after(page) - 1 + share
        return _Judged(page, dirty=2 * (need + 1) <= page.rows, settled=False, need=need)


def _best(judged_pages: Sequence[_Judged], first: int, end: int) -> tuple[int, int] | None:
    """The leftmost part of a range that may be rolled as a whole; None if there is none."""
    if first >= end:
        return None
    part = judged_pages[first:end]
    size = sum(judged.page.bytes for judged in part)
    rows = sum(judged.page.rows for judged in part)
    clean = [n for n, judged in enumerate(part) if not judged.dirty]
    largest = max(clean, key=lambda n: part[n].page.bytes, default=None)
    if largest is not None and part[largest].page.bytes * GROWTH > size:
        worst = largest
    elif 2 * (1 + sum(judged.need for judged in part)) <= rows:
        return first, end
    else:
        worst = max(range(len(part)), key=lambda n: part[n].need / part[n].page.rows)
    return _best(judged_pages, first, first + worst) or _best(judged_pages, first + worst + 1, end)


def _stays_in_parquet(row: IndexRow, file_bytes: int) -> bool:
    """The same in a topic whose files are Parquet: what can go from Arrow files into them never stays."""
    if row.file is not None and row.file.is_parquet:
        return is_large(row, file_bytes)
    return not fits_parquet(row) and stays(row)


# -- Doing it ---------------------------------------------------------------------------------------------


class Roller:
    """Rolls the partitions of a log, one step after the other. Not for several threads; several processes may.

    ``topics``: those alone; None: all. ``tail_rows``: see `TAIL_ROWS`. Each step is an entry of the log, so who
    rolls all the time leaves the newest rows to be sealed at a boundary.

    It may be stopped or killed between any two calls of the store: what it
    did not commit is as if it had not been begun, but for a file that vacuum removes.
    """

    def __init__(self, log: Log, topics: Iterable[str] | None = None, *, tail_rows: int = TAIL_ROWS) -> None:
        self._log = log
        self._topics = None if topics is None else frozenset(topics)
        self._tail_rows = tail_rows
        self._after: dict[tuple[IndexPage, int], int] = {}
        self._facts: dict[tuple[IndexPage, int, int], Facts] = {}
        self._views = SealedViews()
        self._unreadable = Unreadable()

    def run(self, progress: Callable[[Rolled], None] | None = None) -> list[Rolled]:
        """All steps that pay, one after the other; ``progress`` is called after each."""
        steps: list[Rolled] = []
        while (step := self.step()) is not None:
            steps.append(step)
            if progress is not None:
                progress(step)
        return steps

    def step(self) -> Rolled | None:
        """The next step: one file, mostly, and one commit. None if there is nothing to do now.

        Raises the errors of the store, `CommitOutcomeUnknownError`, and, once nothing else is left to do,
        `CorruptRecordError`, `StorePermissionError` for files that this process may not read (or has no key for), and
        `ConfigError` for a stored setting of a topic: it can be called again.
        """
        while True:
            check_writable(self._log.store, self._log.follow())
            plan = next(self._plans(), None)
            if plan is None:
                self._unreadable.say()
                return None
            topic, number, partition, pages = plan
            try:
                return self._roll(topic, number, partition, pages)
            except (SegmentsReplacedError, StagedFileExpiredError):
                continue  # Another process was faster, or the floor rose: look again.
            except ObjectNotFoundError as error:
                if not has_moved(self._log, (topic.topic_id, number), partition):
                    self._unreadable.add(topic, number, error)
            except (CorruptRecordError, ConfigError, StorePermissionError) as error:
                self._unreadable.add(topic, number, error)

    def look(self) -> list[TopicPartition]:
        """Where there is something to do now."""
        self._log.follow()
        partitions = [TopicPartition(topic.name, number) for topic, number, *_ in self._plans()]
        self._unreadable.say()
        return partitions

    def _plans(self) -> Iterator[tuple[Topic, int, Partition, tuple[IndexPage, ...]]]:
        """The next pages to roll of every partition that has some."""
        topics = self._log.state.topics
        chosen = (topics[name] for name in sorted(topics) if self._topics is None or name in self._topics)
        yield from self._unreadable.each(chosen, self._plan)

    def _plan(self, topic: Topic) -> Iterator[tuple[Topic, int, Partition, tuple[IndexPage, ...]]]:
        if schema_error(topic) is not None:
            return
        file_bytes = max(config_value(topic, "segment.bytes", int), 1)
        parquet = is_sealed_in_parquet(topic)
        for number in range(topic.partitions):
            if (topic.topic_id, number) in self._unreadable:
                continue
            partition = self._view(topic, number)
            pages = partition.index.pages
            if parquet:
                facts = [self._facts_of(page, partition.start, file_bytes) for page in pages]
                span = plan_parquet(facts, ROWS, file_bytes)
            else:
                span = plan_roll(pages, partial(self._rows_after, partition.start), file_bytes)
            if span is not None:
                yield topic, number, partition, pages[span[0] : span[1]]

    def _view(self, topic: Topic, number: int) -> Partition:
        """The partition as it is, or with the tail sealed if that is long, or past ``segment.ms``."""
        key = topic.topic_id, number
        partition = self._log.state.partitions[key]
        if ready(partition) >= self._tail_rows:
            return self._views(key, partition)
        if is_past_segment_ms(topic, partition, self._log.time.now_ms(self._log.state)):
            return self._views(key, partition)
        return partition

    def _rows_after(self, start: int, page: IndexPage) -> int:
        key = page, max(start, page.base_offset)
        rows = self._after.get(key)
        if rows is None:
            if len(self._after) >= _REMEMBERED:
                self._after.clear()
            rows = self._after[key] = rows_after(Index((page,)).scan(0, self._log.load), start)
        return rows

    def _facts_of(self, page: IndexPage, start: int, file_bytes: int) -> Facts:
        key = page, max(start, page.base_offset), file_bytes
        facts = self._facts.get(key)
        if facts is None:
            if len(self._facts) >= _REMEMBERED:
                self._facts.clear()
            rows = Index((page,)).scan(0, self._log.load)
            facts = self._facts[key] = Facts.of(rows, start, file_bytes, _is_rolled)
        return facts

    def _rows_that_stay(self, topic: Topic) -> Callable[[IndexRow], bool]:
        """What tells the rows that stay in their files."""
        file_bytes = max(config_value(topic, "segment.bytes", int), 1)
        return partial(_stays_in_parquet, file_bytes=file_bytes) if is_sealed_in_parquet(topic) else stays

    def _roll(self, topic: Topic, number: int, partition: Partition, pages: tuple[IndexPage, ...]) -> Rolled:
        rows = [*Index(pages).scan(0, self._log.load)]
        parquet = is_sealed_in_parquet(topic)
        is_kept = self._rows_that_stay(topic)
        taken = [row for row in rows if row.next_offset > partition.start and not is_kept(row)]
        holes = partition.start > rows[0].base_offset or any(
            row.batch is None or row.batch.count != row.count for row in rows
        )
        form = form_of(self._log, topic, taken, offsets=holes, parquet=parquet)
        with Rewriter(self._log, topic, number, pages, form) as new:
            if parquet and partition.start > rows[0].base_offset:
                new.cut(partition.start)  # A table that has the files begins there.
            for row in rows:
                if row.file is None or row.next_offset <= partition.start:
                    new.skip(row.next_offset)
                elif is_kept(row):
                    new.keep(row)
                else:
                    records = read_row(self._log, topic, number, row, partition.start)
                    new.take(row, records, label_of_batch(row))
            new_rows = new.finish()
            new.commit("roll")
        return Rolled(
            topic.name,
            number,
            pages[0].base_offset,
            pages[-1].next_offset,
            len(rows),
            len(new_rows),
            sum(page.bytes for page in pages),
            sum(row.batch.length for row in new_rows if row.batch is not None),
        )


def _is_rolled(row: IndexRow) -> bool:
    return row.file is not None and is_rewritten(row.file)
