"""Rewriting sealed rows of a partition: the new files, the rows of the index that refer to them, the commit.

Offsets stay. Those that have no record any more become holes of the batches around them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_eos.errors import CommitOutcomeUnknownError, EosLogError
from spark_eos.log import paths
from spark_eos.log.data.planner import Fetch
from spark_eos.log.data.records import Records, read
from spark_eos.log.log import Log
from spark_eos.log.topics import layout_of
from spark_eos.maintenance.segments.form import BATCH_BYTES, GROUP_BYTES, Form, fits_parquet
from spark_eos.maintenance.segments.output import Output
from spark_eos.protocol.actions import ReplaceSegments
from spark_eos.protocol.encoding.index_pages import checksum
from spark_eos.protocol.index import IndexPage, IndexRow, Kind
from spark_eos.protocol.rules.sealing import PAGE_ROWS, sealed_to
from spark_eos.protocol.state import Partition, PartitionKey, State, Topic
from spark_eos.protocol.types import NO_PRODUCER, NO_SEQUENCE, FileRef, ProducerStamp, StagedFile

ROWS = 32 * 1024
"""Rows of the index that one step takes at most, unless one page has more: what is lost if it is killed."""

SMALL_BYTES = 1 << 20
"""A batch of so many bytes is read nearly as fast as any larger one: to rewrite it does not pay."""

CLEAN = -2
"""Stands for the sequence of a batch that was compacted and has no tombstones; lower: with some, and since when."""

_JOIN = 512
"""Tables that wait for their batch are joined in such numbers: a small one takes a hundred times its bytes."""

_LONGEST = 2**16 - 1
"""Offsets without a record in front of one, inside of a batch: what the column of them can say."""


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


def stays(row: IndexRow) -> bool:
    """Whether rolling leaves a batch as it is: it is large, or in Parquet, or was compacted, and is known by that."""
    return row.batch is not None and (
        row.batch.length >= SMALL_BYTES
        or row.batch.base_sequence <= CLEAN
        or (row.file is not None and row.file.is_parquet)
    )


def label_of_batch(row: IndexRow) -> int:
    """What a batch that was compacted is known by; `NO_SEQUENCE` for any other."""
    if row.batch is None or row.batch.base_sequence > CLEAN:
        return NO_SEQUENCE
    return row.batch.base_sequence


def has_moved(log: Log, key: PartitionKey, earlier: Partition) -> bool:
    """Whether files of a partition may be gone by right: its start moved since, or pages of it were replaced."""
    newer = log.follow().partitions.get(key)
    if newer is None or newer.start > earlier.start:
        return True
    if earlier.index.pages:
        newer = sealed_to(key, newer, earlier.index.pages[-1].next_offset)
    return not {*earlier.index.pages} <= {*newer.index.pages}


Check = Callable[[State], None]
"""Raises if the rows are not to be put in place of the old ones in this state."""


class _Written(NamedTuple):
    """A row of the index whose batch is in a file that is not closed yet: the ``number``-th one of that output."""

    base_offset: int
    next_offset: int
    kind: Kind
    producer: ProducerStamp
    label: int
    output: Output
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
        log.prepare_to_stage()
        self._base_seq = log.state.seq + 1
        self._rows: list[IndexRow | _Written] = []
        self._outputs: dict[bool, Output] = {}
        """The files that are open: a Parquet one, an Arrow one, or both."""
        self._staged: list[StagedFile] = []
        self._written_to = self._seen_to = pages[0].base_offset
        self._kind = Kind.DATA
        self._label = NO_SEQUENCE
        self._parquet = False
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
            parquet = self._form.parquet is not None and fits_parquet(row)
            if self._tables and (row.kind is not self._kind or parquet is not self._parquet or not joins):
                self._flush()
            self._label = min(label, self._label) if self._tables else label
            self._kind = row.kind
            self._parquet = parquet
            # An Arrow file says how many offsets are skipped, and has few bits for it; a Parquet file has the offsets.
            holes = [] if parquet else _long_holes(records.offsets)
            for first, end in pairwise([0, *holes, records.num_rows]):
                self._add(row.producer, records.slice(first, end - first))
        self._seen_to = row.next_offset

    def _add(self, producer: ProducerStamp, records: Records) -> None:
        first, last = records.offset(0), records.offset(records.num_rows - 1)
        before = int(self._offsets[-1][-1]) + 1 if self._offsets else self._written_to
        if first - before > _LONGEST and not self._parquet:
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
        if self._bytes >= (GROUP_BYTES if self._parquet else BATCH_BYTES):
            self._flush()

    def keep(self, row: IndexRow) -> None:
        """The batch ``row`` stays where it is."""
        self._flush()
        self._bridge(row.base_offset)
        if row.file is not None and row.file.is_parquet:
            self._close(parquet=True)  # The offsets of two Parquet files do not mix.
        self._rows.append(row)
        self._written_to = self._seen_to = row.next_offset

    def skip(self, next_offset: int) -> None:
        """Nothing is left of the offsets before ``next_offset``."""
        self._seen_to = max(self._seen_to, next_offset)

    def cut(self, offset: int) -> None:
        """The rows from ``offset`` on go into other batches, and other Parquet files, than those before."""
        self._flush()
        self._bridge(offset)
        self._seen_to = max(self._seen_to, offset)
        self._close(parquet=True)

    def _join(self) -> None:
        self._tables = [pa.concat_tables(self._tables).combine_chunks()]
        self._bytes = self._tables[0].nbytes

    def _flush(self) -> None:
        """Write what waits as one batch, which ends where the next one begins."""
        if not self._tables:
            return
        offsets = np.concatenate(self._offsets)
        assert self._form.offsets or int(offsets[-1]) - self._written_to + 1 == len(offsets)
        table = pa.concat_tables(self._tables).combine_chunks()
        times = table.column(self._layout.timestamp_column).cast(pa.int64())
        lowest, highest = pc.min_max(times).as_py().values()
        output = self._output()
        output.append(table, offsets, self._written_to, (lowest, highest))
        stamp = next(iter(self._stamps)) if len(self._stamps) == 1 else NO_PRODUCER
        self._rows.append(
            _Written(
                self._written_to, self._seen_to, self._kind, stamp, self._label, output, output.batches - 1
            )
        )
        self._written_to = self._seen_to
        self._tables, self._offsets, self._stamps, self._bytes = [], [], set(), 0
        # A Parquet file is rewritten as a whole, so it does not lie in two pages.
        if output.is_full or (self._parquet and len(self._rows) % PAGE_ROWS == 0):
            self._close(parquet=self._parquet)

    def _bridge(self, offset: int) -> None:
        """Nothing is left before ``offset``, and no batch there can say so."""
        if self._written_to < offset:
            self._rows.append(_nothing(self._written_to, offset))
            self._written_to = offset

    # -- Files ------------------------------------------------------------------------------------------

    def _output(self) -> Output:
        """The file that the next batch goes into."""
        output = self._outputs.get(self._parquet)
        if output is None:
            output = self._outputs[self._parquet] = Output(
                self._log, self._topic, self._partition, self._base_seq, self._form, parquet=self._parquet
            )
        return output

    def _close(self, *, parquet: bool) -> None:
        output = self._outputs.pop(parquet, None)
        if output is None:
            return
        staged = output.close()
        self._staged.append(staged)
        ref, batches = staged.file, staged.batches
        self._rows = [
            row
            if isinstance(row, IndexRow) or row.output is not output
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
        outputs, self._outputs = self._outputs, {}
        for output in outputs.values():
            output.discard()
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
        for parquet in [*self._outputs]:
            self._close(parquet=parquet)
        return tuple(row for row in self._rows if isinstance(row, IndexRow))

    def action(self) -> ReplaceSegments:
        """What puts the new rows in place of the old, after `finish`."""
        rows = tuple(row for row in self._rows if isinstance(row, IndexRow))
        assert len(rows) == len(self._rows)
        return ReplaceSegments(
            self._topic.name,
            self._topic.topic_id,
            self._partition,
            self._pages[0].base_offset,
            self._pages[-1].next_offset,
            checksum(self._pages),
            rows,
            tuple(staged.file.name for staged in self._staged),
        )

    def commit(self, writer: str, check: Check | None = None) -> State:
        """Put the new rows in place of the old. As `commit_all`."""
        return commit_all(self._log, (self,), writer, check)

    def staged(self) -> tuple[StagedFile, ...]:
        """The files that are written, after `finish`."""
        return tuple(self._staged)

    def hand_over(self) -> None:
        """From here on the files may have been committed: the end of the context does not remove them."""
        self._is_over = True


def commit_all(log: Log, rewriters: Sequence[Rewriter], writer: str, check: Check | None = None) -> State:
    """Put the new rows of several rewriters in place of the old by one entry: all, or none of them.

    Each of another partition. ``check`` is called with the very state to which they are applied; without it the rows
    are the same ones, whatever has happened to their topic. Raises `SegmentsReplacedError` if the old rows of one are
    gone already. After an error no file is left but where it says that the outcome is not known.
    """
    for rewriter in rewriters:
        rewriter.finish()
    actions = tuple(rewriter.action() for rewriter in rewriters)
    log.check_visible(tuple(staged for rewriter in rewriters for staged in rewriter.staged()))
    for rewriter in rewriters:  # From here on only a refusal says that the files have no reference.
        rewriter.hand_over()

    def propose(state: State) -> tuple[ReplaceSegments, ...]:
        if check is not None:
            check(state)
        return actions

    try:
        return log.commit(propose, writer=writer, alone=check is not None).state
    except CommitOutcomeUnknownError:
        raise
    except EosLogError:
        for rewriter in rewriters:
            rewriter.discard()
        raise


def _long_holes(offsets: npt.NDArray[np.int64]) -> list[int]:
    """The rows before which more offsets are skipped than an Arrow file can say."""
    return [int(row) for row in np.flatnonzero(np.diff(offsets) > _LONGEST + 1) + 1]


def _nothing(base_offset: int, next_offset: int) -> IndexRow:
    return IndexRow(base_offset, next_offset - base_offset, Kind.HOLE, NO_PRODUCER, -1)
