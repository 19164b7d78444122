"""Compaction: of each key the newest record stays (Kafka's LogCleaner; KIP-58, KIP-354, KIP-534).

A pass reads the keys of what came new since the last one, as many as a map of bounded size holds. Then it rewrites the
partition from its start, in steps: a step is a stretch of sealed pages and one commit. Records that go were replaced by
newer ones that are committed, and sealed; so a pass may end anywhere.

- Aborted records never count, and go. Control batches go as well: which records were aborted is in the index, and
  the offsets stay as holes.
- A tombstone (``value`` is null; in a topic with a schema all columns but ``key.columns``) stays for
  ``delete.retention.ms`` after the pass that removed the older records of its key, and goes with a pass after that.
- A record without a key stays: nothing says that it was replaced. Producers of a compacted topic are refused it
  (`RowConverter`), but one may be older than the topic's ``cleanup.policy``, or come from a mirror.
- A topic with a schema but without ``key.columns`` is not compacted.
- What the newest batch of a producer was is part of the log's state: no record is needed to know it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import NamedTuple

import pyarrow as pa

from spark_eos.errors import (
    ConfigError,
    CorruptRecordError,
    ObjectNotFoundError,
    SegmentsReplacedError,
    StagedFileExpiredError,
    StorePermissionError,
)
from spark_eos.log.data.records import Records
from spark_eos.log.encryption import check_writable
from spark_eos.log.log import Log
from spark_eos.log.topics import config_value, is_compacted, key_columns, layout_of, schema_error
from spark_eos.maintenance.cleaner import Flags, KeyMap, Keys, is_kept, keys_of, label_of, since
from spark_eos.maintenance.dirty_ratio import DirtyRatios, is_clean
from spark_eos.maintenance.rewrite import SMALL_BYTES, Rewriter, has_moved, read_row
from spark_eos.maintenance.segments.form import fits_parquet, form_of, is_sealed_in_parquet
from spark_eos.maintenance.tails import SealedViews, is_past_segment_ms
from spark_eos.maintenance.unreadable import Unreadable
from spark_eos.protocol.index import Index, IndexPage, IndexRow, Kind
from spark_eos.protocol.state import Partition, State, Topic
from spark_eos.protocol.types import TopicPartition

KEYS = 4_000_000
"""Keys that a pass looks at, at most: some 100 MB, and three times that for a moment. Kafka: 128 MB by default."""

ROWS = 32 * 1024
"""Rows of the index that one step takes at most, unless one page has more."""


class Compacted(NamedTuple):
    """One step: offsets ``base_offset`` to ``next_offset - 1``, in so many records and bytes before and after it."""

    topic: str
    partition: int
    base_offset: int
    next_offset: int
    records_before: int
    records_after: int
    bytes_before: int
    bytes_after: int


class _Stays(NamedTuple):
    """Which records of a batch stay, and whether there are tombstones among them."""

    flags: Flags
    tombstones: bool

    def is_all(self, row: IndexRow) -> bool:
        """Whether that is the whole batch: of one that begins before the log's start only a part was read."""
        assert row.batch is not None
        return bool(self.flags.all()) and len(self.flags) == row.batch.count


@dataclass
class _Pass:
    """A pass on its way: ``at`` is where the next step begins, ``end`` how far the map of keys goes."""

    topic: Topic
    number: int
    newest: KeyMap
    end: int
    now_ms: int
    expired_ms: int
    at: int = -1


class Compactor:
    """Compacts the topics of a log, step by step. Not for several threads; several processes may.

    ``topics``: those alone; None: all. ``keys`` are as many as a pass looks at. It may be stopped or killed between
    any two calls of the store: what it did not commit is as if it had not been begun, but for a file.
    """

    def __init__(self, log: Log, topics: Iterable[str] | None = None, *, keys: int = KEYS) -> None:
        self._log = log
        self._topics = None if topics is None else frozenset(topics)
        self._keys = keys
        self._views = SealedViews()
        self._dirty = DirtyRatios(log.load)
        self._pass: _Pass | None = None
        self._unreadable = Unreadable()

    def run(self, progress: Callable[[Compacted], None] | None = None) -> list[Compacted]:
        """All passes that are due, to their ends; ``progress`` is called after each step."""
        steps: list[Compacted] = []
        while (step := self.step()) is not None:
            steps.append(step)
            if progress is not None:
                progress(step)
        return steps

    def step(self) -> Compacted | None:
        """The next stretch that changes. None if there is nothing to do now.

        Raises the errors of the store, `CommitOutcomeUnknownError`, and, once nothing else is left to do,
        `CorruptRecordError`, `StorePermissionError` for files that this process may not read (or has no key for), and
        `ConfigError` for a stored setting of a topic: it can be called again.
        """
        while True:
            state = self._log.follow()
            check_writable(self._log.store, state)
            before = state.partitions
            under_way, self._pass = self._pass, None  # An error ends the pass.
            at = None if under_way is None else (under_way.topic, under_way.number)
            try:
                if under_way is None:
                    due = self._due()
                    if due is None:
                        self._unreadable.say()
                        return None
                    topic, number, now_ms = due
                    at = topic, number
                    under_way = self._begin(topic, number, now_ms)
                compacted = self._step(under_way)
            except (SegmentsReplacedError, StagedFileExpiredError):
                continue  # Another process was faster, or the floor rose: look again.
            except ObjectNotFoundError as error:
                if at is None:
                    raise
                key = at[0].topic_id, at[1]
                if key not in before or not has_moved(self._log, key, before[key]):
                    self._unreadable.add(*at, error)
                continue
            except (CorruptRecordError, ConfigError, StorePermissionError) as error:
                if at is None:
                    raise
                self._unreadable.add(*at, error)
                continue
            if compacted is not None:
                return compacted

    # -- Which partition --------------------------------------------------------------------------------

    def look(self) -> list[TopicPartition]:
        """The partitions that are due."""
        self._log.follow()
        gains = self._gains(self._log.time.now_ms(self._log.state))
        partitions = [TopicPartition(topic.name, number) for _, topic, number in gains]
        self._unreadable.say()
        return partitions

    def _due(self) -> tuple[Topic, int, int] | None:
        """The partition that has most to gain (Kafka's filthiest log), and the time; None if none is due."""
        now_ms = self._log.time.now_ms(self._log.state)
        best = max(self._gains(now_ms), key=itemgetter(0), default=None)
        return None if best is None else (*best[1:], now_ms)

    def _gains(self, now_ms: int) -> Iterator[tuple[float, Topic, int]]:
        topics = self._log.state.topics
        chosen = (topics[name] for name in sorted(topics) if self._topics is None or name in self._topics)
        yield from self._unreadable.each(chosen, partial(self._gains_of, now_ms))

    def _gains_of(self, now_ms: int, topic: Topic) -> Iterator[tuple[float, Topic, int]]:
        for number in range(topic.partitions) if is_compacted(topic) else ():
            key = topic.topic_id, number
            if key in self._unreadable:
                continue
            partition = self._view(topic, number, self._log.state.partitions[key], now_ms)
            gain = self._dirty.gain(topic, partition, now_ms)
            if gain and schema_error(topic) is None:
                yield gain, topic, number

    def _begin(self, topic: Topic, number: int, now_ms: int) -> _Pass:
        """A pass, with the keys of what is new."""
        newest = KeyMap(self._keys)
        partition = self._log.state.partitions[topic.topic_id, number]
        partition = self._view(topic, number, partition, now_ms)
        expired_ms = now_ms - config_value(topic, "delete.retention.ms", int)
        end = self._read_keys(topic, number, partition, newest, now_ms)
        return _Pass(topic, number, newest, end, now_ms, expired_ms)

    def _read_keys(self, topic: Topic, number: int, partition: Partition, newest: KeyMap, now_ms: int) -> int:
        """Fill the map with the keys of what is new; the offset after what it knows all keys of."""
        end = partition.index.pages[0].base_offset
        for row in self._dirty.rows(topic, partition, now_ms):
            if row.kind is Kind.DATA and row.next_offset > partition.start:
                records = read_row(self._log, topic, number, row, partition.start)
                keys = _keys(topic, records)
                if not newest.add(keys.hashes[keys.present], records.offsets[keys.present]):
                    return end
            end = row.next_offset
        return end

    # -- One step ---------------------------------------------------------------------------------------

    def _partition(self, under_way: _Pass) -> Partition | None:
        partition = self._log.state.partitions.get((under_way.topic.topic_id, under_way.number))
        if partition is None:
            return None
        return self._view(under_way.topic, under_way.number, partition, under_way.now_ms)

    def _view(self, topic: Topic, number: int, partition: Partition, now_ms: int) -> Partition:
        """The partition as it is, or with the tail sealed if that is past ``segment.ms``."""
        if not is_past_segment_ms(topic, partition, now_ms):
            return partition
        return self._views((topic.topic_id, number), partition)

    def _step(self, under_way: _Pass) -> Compacted | None:
        """Rewrite the next stretch, if anything changes in it. Keeps the pass if there are more."""
        topic, partition = under_way.topic, self._partition(under_way)
        # The map has keys of the columns that were it when the pass began.
        if partition is None or self._log.state.topics.get(topic.name) != topic:
            return None
        pages = self._stretch(under_way, topic, partition)
        if not pages:
            return None
        compacted = self._compact(under_way, topic, partition, pages)
        under_way.at = pages[-1].next_offset
        self._pass = under_way
        return compacted

    def _stretch(self, under_way: _Pass, topic: Topic, partition: Partition) -> tuple[IndexPage, ...]:
        """The next pages; none if the pass is over. Some that were replaced may hold what it has seen already."""
        pages = partition.index.pages
        first = next((n for n, page in enumerate(pages) if page.next_offset > under_way.at), len(pages))
        limit = config_value(topic, "segment.bytes", int)
        last, rows, size = first, 0, 0
        while last < len(pages) and (pages[last].base_offset < under_way.end or not len(under_way.newest)):
            rows, size = rows + pages[last].rows, size + pages[last].bytes
            if last > first and (rows > ROWS or size > limit):
                break
            last += 1
        return pages[first:last]

    def _compact(
        self, under_way: _Pass, topic: Topic, partition: Partition, pages: Sequence[IndexPage]
    ) -> Compacted | None:
        rows = [*Index(tuple(pages)).scan(pages[0].base_offset, self._log.load)]
        start, number = partition.start, under_way.number
        row_stays = [self._records_that_stay(under_way, topic, row, start) for row in rows]
        if not any(_changes(under_way, row, stays) for row, stays in zip(rows, row_stays, strict=True)):
            return None
        taken = [
            row for row, stays in zip(rows, row_stays, strict=True) if stays is not None and stays.flags.any()
        ]
        before = sum(row.batch.count for row in rows if row.batch is not None)
        after = 0
        parquet = is_sealed_in_parquet(topic)
        moved = _moved(rows, row_stays, parquet=parquet)
        form = form_of(self._log, topic, taken, offsets=True, parquet=parquet)
        with Rewriter(self._log, topic, number, pages, form) as new:
            for row, stays in zip(rows, row_stays, strict=True):
                if row.batch is not None and _is_later(under_way, row):
                    new.keep(row)
                    after += row.batch.count
                elif stays is None or not stays.flags.any():
                    new.skip(row.next_offset)
                else:
                    after += self._rewrite(under_way, topic, row, stays, start, new, moved)
            written = new.finish()
            new.commit("compact", partial(_check_unaltered, topic))
        return Compacted(
            topic.name,
            number,
            pages[0].base_offset,
            pages[-1].next_offset,
            before,
            after,
            sum(page.bytes for page in pages),
            sum(row.batch.length for row in written if row.batch is not None),
        )

    def _records_that_stay(self, under_way: _Pass, topic: Topic, row: IndexRow, start: int) -> _Stays | None:
        """Which records of a batch stay; None if it has none that can, or is not looked at."""
        if (
            row.batch is None
            or row.kind is not Kind.DATA
            or row.next_offset <= start
            or _is_later(under_way, row)
        ):
            return None
        records = read_row(self._log, topic, under_way.number, row, start)
        keys = _keys(topic, records)
        first_ms = since(row.batch.base_sequence)
        expired = first_ms is not None and first_ms <= under_way.expired_ms
        flags = is_kept(keys, records.offsets, under_way.newest, tombstones=not expired)
        return _Stays(flags, bool(keys.tombstones[flags].any()))

    def _rewrite(
        self,
        under_way: _Pass,
        topic: Topic,
        row: IndexRow,
        stays: _Stays,
        start: int,
        new: Rewriter,
        moved: AbstractSet[str],
    ) -> int:
        """Take over the records of a batch that stay; how many they are. Nothing stays in the files ``moved``."""
        assert row.batch is not None
        assert row.file is not None
        first_ms = since(row.batch.base_sequence)
        if first_ms is None:
            first_ms = under_way.now_ms
        flags, label = stays.flags, label_of(first_ms if stays.tombstones else None)
        if stays.is_all(row) and row.batch.length >= SMALL_BYTES and row.file.name not in moved:
            new.keep(row._replace(batch=row.batch._replace(base_sequence=label)))
        else:
            records = read_row(self._log, topic, under_way.number, row, start)
            table = records.table if flags.all() else records.table.filter(pa.array(flags))
            new.take(row, Records(table, 0, records.offsets[flags]), label)
        return int(flags.sum())


def _check_unaltered(topic: Topic, state: State) -> None:
    """Raise `SegmentsReplacedError` if the topic may have other keys by now, or is not to be compacted any more."""
    if state.topics.get(topic.name) != topic:
        raise SegmentsReplacedError(f"topic {topic.name!r} was altered meanwhile; plan again")


def _moved(rows: Sequence[IndexRow], row_stays: Sequence[_Stays | None], *, parquet: bool) -> set[str]:
    """The files of which no batch may stay where it is.

    A Parquet file stays as a whole or not at all, as other programs read all of it. In a topic of Parquet files
    nothing stays in an Arrow file that can leave it.
    """
    moved = set()
    for row, stays in zip(rows, row_stays, strict=True):
        if row.file is None or row.batch is None:
            continue
        if row.file.is_parquet:
            if stays is None or not stays.is_all(row):
                moved.add(row.file.name)
        elif parquet and fits_parquet(row):
            moved.add(row.file.name)
    return moved


def _keys(topic: Topic, records: Records) -> Keys:
    names = key_columns(topic)
    layout = layout_of(topic)
    if layout.is_kafka:
        return keys_of(records, names, ("value",))
    values = [name for name in layout.physical.names if name not in {*names, layout.timestamp_column}]
    return keys_of(records, names, values)


def _is_later(under_way: _Pass, row: IndexRow) -> bool:
    """Whether the map of keys does not know all of a batch that was not compacted: that is for the next pass.

    One that was rolled in the meantime may lie on both sides of the end.
    """
    return not is_clean(row) and row.next_offset > under_way.end


def _changes(under_way: _Pass, row: IndexRow, stays: _Stays | None) -> bool:
    """Whether a batch is not left as it is: records of it go, or it is new, and is compacted from now on."""
    if row.batch is None or _is_later(under_way, row):
        return False
    return not is_clean(row) or stays is None or not stays.is_all(row)
