"""Rewriting sealed rows of a partition: the new files, the rows of the index that refer to them, the commit.

Offsets stay. Those that have no record any more become holes of the batches around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_eos.config.compression import Compression
from spark_eos.errors import CommitOutcomeUnknownError, EosLogError
from spark_eos.log import paths
from spark_eos.log.data.arrow_file import PartitionRun, StagedFileWriter, compression_of, write_options
from spark_eos.log.data.layout import SKIPPED
from spark_eos.log.data.planner import Fetch
from spark_eos.log.data.records import Records, read
from spark_eos.log.log import Log
from spark_eos.log.schemas.conversion import names_under
from spark_eos.log.topics import compression_at_level, config_value, layout_of
from spark_eos.protocol.actions import ReplaceSegments
from spark_eos.protocol.encoding.index_pages import checksum
from spark_eos.protocol.index import IndexPage, IndexRow, Kind
from spark_eos.protocol.rules.sealing import sealed_to
from spark_eos.protocol.state import Partition, PartitionKey, State, Topic
from spark_eos.protocol.types import NO_PRODUCER, NO_SEQUENCE, FileRef, ProducerStamp, StagedFile

__all__ = [
    "BATCH_BYTES",
    "CLEAN",
    "SMALL_BYTES",
    "Form",
    "Rewriter",
    "form_of",
    "has_moved",
    "is_rewritten",
    "read_row",
]

BATCH_BYTES = 4 << 20
"""About the size of a new batch, before compression.

Measured on a folder, records of 100 bytes, CPU: batches of 64 KiB are read at 1.1 GB/s, of 256 KiB at 2.9, of 1 MiB at
4.7, of 4 MiB at 6.0, of 16 MiB at 4.4; compressed by lz4 at 0.4, 0.7, 1.6, 1.9, 1.8.
"""

SMALL_BYTES = 1 << 20
"""A batch of so many bytes is read nearly as fast as any larger one: to rewrite it does not pay."""

CLEAN = -2
"""Stands for the sequence of a batch that was compacted and has no tombstones; lower: with some, and since when."""

_JOIN = 512
"""Tables that wait for their batch are joined in such numbers: a small one takes a hundred times its bytes."""

_LONGEST = 2**16 - 1
"""Offsets without a record in front of one, inside of a batch: what the column of them can say."""


class Form(NamedTuple):
    """What new files look like: with a column of ``offsets`` or not, without the columns ``omitted``.

    A file that has grown to ``file_bytes`` is closed.
    """

    offsets: bool
    omitted: tuple[str, ...] = ()
    compression: Compression | None = None
    file_bytes: int = 1 << 30


def read_row(log: Log, topic: Topic, partition: int, row: IndexRow, start: int) -> Records:
    """The records of a batch from offset ``start`` on, in the newest layout. As `spark_eos.log.data.records.read`."""
    assert row.file is not None
    assert row.batch is not None
    first = max(start, row.base_offset)
    skip = first - row.base_offset
    fetch = Fetch(topic.name, partition, first, row.count - skip, skip, row.file, row.batch)
    return read(log.store, topic, fetch)


def is_rewritten(file: FileRef) -> bool:
    """Whether a file was written here: it lies in a folder of its partition."""
    return file.name.count("/") > paths.data_file("", "", 0, "").count("/")


def form_of(log: Log, topic: Topic, taken: Sequence[IndexRow], *, offsets: bool) -> Form:
    """What new files look like that get the rows of the batches ``taken``.

    They have no column that none of the old ones has, and are compressed as ``compression.type`` says; for
    ``producer`` as the newest of the old ones.
    """
    layout = layout_of(topic)
    files = {row.file for row in taken if row.file is not None}
    had = {
        name
        for version, omitted in {(file.schema_version, file.omitted) for file in files}
        for name in _names(topic, version, omitted)
    }
    batches = [row.batch for row in taken if row.batch is not None]
    times = {time for batch in batches for time in (batch.min_timestamp_ms, batch.max_timestamp_ms)}
    if len(times) > 1:
        had.add(layout.timestamp_column)
    return Form(
        offsets=offsets,
        omitted=tuple(name for name in layout.omittable if name not in had),
        compression=_compression(log, topic, taken),
        file_bytes=max(int(config_value(topic, "segment.bytes")), 1),
    )


def _names(topic: Topic, version: int, omitted: tuple[str, ...]) -> set[str]:
    """What the columns of a file are called in the newest layout; the dropped ones are not in it."""
    layout = layout_of(topic, version)
    return names_under(layout, layout.stored(omitted).names, layout_of(topic))


def _compression(log: Log, topic: Topic, taken: Sequence[IndexRow]) -> Compression | None:
    codec = config_value(topic, "compression.type")
    if codec == "producer":
        newest = next(
            (row for row in reversed(taken) if row.file is not None and row.batch is not None), None
        )
        codec = "none" if newest is None else _codec(log, newest)
    return compression_at_level(topic, codec)


def _codec(log: Log, row: IndexRow) -> str:
    assert row.file is not None
    assert row.batch is not None
    return compression_of(log.store.read(row.file.name, row.batch.position, row.batch.length)) or "none"


def has_moved(log: Log, key: PartitionKey, known: Partition) -> bool:
    """Whether files of a partition may be gone by right: its start moved since, or pages of it were replaced."""
    newer = log.follow().partitions.get(key)
    if newer is None or newer.start > known.start:
        return True
    if known.index.pages:
        newer = sealed_to(key, newer, known.index.pages[-1].next_offset)
    return not {*known.index.pages} <= {*newer.index.pages}


class _Written(NamedTuple):
    """A row of the index whose batch is in a file that is not closed yet: the ``number``-th one there."""

    base_offset: int
    next_offset: int
    kind: Kind
    producer: ProducerStamp
    label: int
    number: int


class Rewriter:
    """Replaces some sealed pages of a partition. Not for several threads.

    Give it everything in the order of the offsets: `take`, `keep`, `skip`. Nothing is created before the first
    batch is full. A context manager: what was not committed is discarded.
    """

    def __init__(
        self, log: Log, topic: Topic, partition: int, pages: Sequence[IndexPage], form: Form
    ) -> None:
        self._log = log
        self._topic = topic
        self._partition = partition
        self._pages = tuple(pages)
        self._form = form
        self._layout = layout_of(topic)
        self._base_seq = log.state.seq + 1
        self._options = write_options(form.compression)
        self._rows: list[IndexRow | _Written] = []
        self._file: StagedFileWriter | None = None
        self._in_file = 0
        self._staged: list[StagedFile] = []
        self._written_to = self._seen_to = pages[0].base_offset
        self._kind = Kind.DATA
        self._label = NO_SEQUENCE
        self._stamps: set[ProducerStamp] = set()
        self._tables: list[pa.Table] = []
        self._offsets: list[npt.NDArray[np.int64]] = []
        self._bytes = 0
        self._is_over = False

    def __enter__(self) -> Rewriter:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_over:
            self.discard()

    # -- Rows -------------------------------------------------------------------------------------------

    def take(self, row: IndexRow, records: Records, label: int = NO_SEQUENCE) -> None:
        """These records of the old batch ``row`` go into a new one; where others were, there are holes.

        Those with another ``label`` go into another batch, but `CLEAN` ones join any that was compacted.
        """
        if records.num_rows:
            joins = label == self._label or (
                CLEAN in {label, self._label} and max(label, self._label) == CLEAN
            )
            if self._tables and (row.kind is not self._kind or not joins):
                self._flush()
            self._label = min(label, self._label) if self._tables else label
            self._kind = row.kind
            holes = np.flatnonzero(np.diff(records.offsets) > _LONGEST + 1) + 1
            for first, end in pairwise([0, *holes.tolist(), records.num_rows]):
                self._add(row.producer, records.slice(first, end - first))
        self._seen_to = row.next_offset

    def _add(self, producer: ProducerStamp, records: Records) -> None:
        first, last = records.offset(0), records.offset(records.num_rows - 1)
        if first - (int(self._offsets[-1][-1]) + 1 if self._offsets else self._written_to) > _LONGEST:
            self._seen_to = first
            self._flush()
            self._bridge(first)
        self._stamps.add(producer)
        self._tables.append(records.table)
        self._offsets.append(records.offsets)
        self._bytes += records.table.nbytes
        self._seen_to = last + 1
        if len(self._tables) >= _JOIN:
            self._join()
        if self._bytes >= BATCH_BYTES:
            self._flush()

    def keep(self, row: IndexRow) -> None:
        """The batch ``row`` stays where it is."""
        self._flush()
        self._bridge(row.base_offset)
        self._rows.append(row)
        self._written_to = self._seen_to = row.next_offset

    def skip(self, next_offset: int) -> None:
        """Nothing is left of the offsets before ``next_offset``."""
        self._seen_to = next_offset

    def _join(self) -> None:
        self._tables = [pa.concat_tables(self._tables).combine_chunks()]
        self._bytes = self._tables[0].nbytes

    def _flush(self) -> None:
        """Write what waits as one batch, which ends where the next one begins."""
        if not self._tables:
            return
        offsets = np.concatenate(self._offsets)
        skipped = np.diff(offsets, prepend=self._written_to - 1) - 1
        assert self._form.offsets or not skipped.any()
        table = pa.concat_tables(self._tables).combine_chunks()
        times = table.column(self._layout.timestamp_column).cast(pa.int64())
        lowest, highest = pc.min_max(times).as_py().values()
        if self._form.omitted:
            table = table.drop_columns(list(self._form.omitted))
        if self._form.offsets:
            table = table.add_column(0, SKIPPED, pa.array(skipped, SKIPPED.type))
        if self._file is None:
            self._open()
        assert self._file is not None
        batches = [
            pa.RecordBatch.from_arrays(batch.columns, schema=self._file.schema)
            for batch in table.to_batches()
        ]
        self._file.append(PartitionRun(self._partition, batches, lowest, highest))
        stamp = next(iter(self._stamps)) if len(self._stamps) == 1 else NO_PRODUCER
        self._rows.append(
            _Written(self._written_to, self._seen_to, self._kind, stamp, self._label, self._in_file)
        )
        self._in_file += 1
        self._written_to = self._seen_to
        self._tables, self._offsets, self._stamps, self._bytes = [], [], set(), 0
        if self._file.size >= self._form.file_bytes:
            self._close()

    def _bridge(self, offset: int) -> None:
        """Nothing is left before ``offset``, and no batch there can say so."""
        if self._written_to < offset:
            self._rows.append(_nothing(self._written_to, offset))
            self._written_to = offset

    # -- Files ------------------------------------------------------------------------------------------

    def _open(self) -> None:
        topic = self._topic
        # The base seq comes last, as in every name: vacuum knows by it what can still be committed.
        unique = self._log.clock.unique().hex()
        name = paths.data_file(topic.name, topic.topic_id, self._base_seq, unique, self._partition)
        form = self._form
        self._file = StagedFileWriter(
            self._log.store, name, self._layout, form.omitted, self._options, offsets=form.offsets
        )
        self._in_file = 0

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        ref, batches = file.close()
        self._staged.append(StagedFile(self._topic.name, ref, batches))
        self._rows = [
            row
            if isinstance(row, IndexRow)
            else IndexRow(
                row.base_offset,
                row.next_offset - row.base_offset,
                row.kind,
                row.producer,
                batches[row.number].max_timestamp_ms,
                ref,
                batches[row.number]._replace(base_sequence=row.label),
            )
            for row in self._rows
        ]

    def discard(self) -> None:
        """Leave no file. Not for files that may have been committed."""
        self._is_over = True
        file, self._file = self._file, None
        if file is not None:
            file.discard()
        staged, self._staged = self._staged, []
        with suppress(EosLogError):  # What cannot be deleted now, vacuum will.
            self._log.discard(tuple(staged))

    # -- Commit -----------------------------------------------------------------------------------------

    def finish(self) -> tuple[IndexRow, ...]:
        """Make the files durable. The rows that take the place of the old ones."""
        self._flush()
        end = self._pages[-1].next_offset
        if self._written_to < end:
            last = self._rows[-1] if self._rows else None
            if isinstance(last, _Written) and self._form.offsets:
                self._rows[-1] = last._replace(next_offset=end)
                self._written_to = end
            self._bridge(end)
        self._close()
        return tuple(row for row in self._rows if isinstance(row, IndexRow))

    def commit(self, writer: str) -> State:
        """Put the new rows in place of the old. Raises `SegmentsReplacedError` if these are gone already.

        After an error nothing is left but where it says that the outcome is not known.
        """
        rows = self.finish()
        action = ReplaceSegments(
            self._topic.name,
            self._topic.topic_id,
            self._partition,
            self._pages[0].base_offset,
            self._pages[-1].next_offset,
            checksum(self._pages),
            rows,
            tuple(staged.file.name for staged in self._staged),
        )
        self._log.check_visible(tuple(self._staged))
        self._is_over = True  # From here on only a refusal says that the files have no reference.
        try:
            return self._log.commit(lambda _: (action,), writer=writer).state
        except CommitOutcomeUnknownError:
            raise
        except EosLogError:
            self.discard()
            raise


def _nothing(base_offset: int, next_offset: int) -> IndexRow:
    return IndexRow(base_offset, next_offset - base_offset, Kind.HOLE, NO_PRODUCER, -1)
