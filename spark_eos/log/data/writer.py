"""Staged files: rows of many partitions, sorted into one Arrow IPC file.

A file is written before the offsets of its rows are known. It is a valid Arrow file for any tool. The log reads it by
byte ranges (`BatchRef`), each a run of record batches of one partition (`spark_eos.log.data.reader`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_eos.config.compression import Compression
from spark_eos.errors import ConfigError, EosLogError, IllegalStateError
from spark_eos.log.data.arrow import take_rows
from spark_eos.log.data.arrow_file import PartitionRun, StagedFileWriter, slices
from spark_eos.log.data.convert import Columns, RowConverter
from spark_eos.log.data.layout import Layout
from spark_eos.log.data.partitioners import Partitions, Rows, check_partitions
from spark_eos.log.data.timestamps import TimestampBounds
from spark_eos.protocol.types import StagedFile
from spark_eos.storage.forks import OfOneProcess
from spark_eos.storage.store import Store

BUFFER_BYTES = 32 << 20
"""Rows gathered before they are sorted by partition and written."""

RUN_BYTES = 8 << 20
"""So many for each partition are enough: with few of them the disk begins earlier, while rows still come."""

LARGE_BATCH_BYTES = 512 << 10
"""A batch of as much, all for one partition, is written as it is: to wait for more of that partition gains nothing."""

MAX_BUFFER_BYTES = 1 << 30
"""Arrow's offsets into text and bytes have 31 bits, and a flush gathers all its rows in one array."""

SMALL_BATCH_BYTES = 64 << 10
"""Batches smaller than this, on average, are joined before they are written."""

BATCH_OVERHEAD_BYTES = 2 << 10
"""What a batch that waits takes in memory beyond its values: many of one row must not outgrow the buffer."""

FILE_BYTES = 1 << 30
"""A file that has grown to this size is closed and a next one begun (Kafka's segment.bytes)."""


class _AbandonsOnError:
    """Rows may be missing in the middle after an error: nothing of the writer may ever be committed then."""

    def __init__(self, writer: SegmentWriter) -> None:
        self._writer = writer

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._writer.abandon()


class SegmentWriter(OfOneProcess):
    """Writes the rows of one task for one topic: one file, whatever the number of partitions.

    ``name`` is the object to create; in the rare case that another file is needed (a column turned out
    not to be empty after all, or ``file_bytes`` was reached), its name has ``-1``, ``-2``, … before the
    ending. ``now_ms`` is the timestamp of rows that have none; ``times`` bounds the others.
    ``keys`` and ``max_message_bytes`` are as in `RowConverter`.
    ``write_behind`` is as in `Store.upload`.

    Nothing is created before the first flush, nor if there are no rows. A context manager: leaving it
    without `finish` discards. Not for several threads at once.
    """

    def __init__(
        self,
        store: Store,
        topic: str,
        name: str,
        layout: Layout,
        partitions: int,
        *,
        now_ms: int,
        buffer_bytes: int = BUFFER_BYTES,
        compression: Compression | None = None,
        max_message_bytes: int | None = None,
        keys: Sequence[str] = (),
        file_bytes: int = FILE_BYTES,
        write_behind: bool = False,
        times: TimestampBounds | None = None,
    ) -> None:
        if buffer_bytes < 1:
            raise ConfigError(
                f"buffer_bytes={buffer_bytes}: a writer needs room for a row; use a positive size"
            )
        super().__init__()
        self._store = store
        self._topic = topic
        self._name = name
        self._layout = layout
        self._partitions = partitions
        self._now_ms = now_ms
        self._buffer_bytes = min(buffer_bytes, MAX_BUFFER_BYTES, RUN_BYTES * partitions)
        self._file_bytes = file_bytes
        self._write_behind = write_behind
        self._compression = compression
        self._intake = RowConverter(
            topic, layout, now_ms=now_ms, max_message_bytes=max_message_bytes, keys=keys, times=times
        )
        self._pending: list[_Pending] = []
        self._pending_bytes = 0
        self._all_stand_alone = True
        """Whether none of what is pending gains by waiting for more."""
        self._file: StagedFileWriter | None = None
        self._staged: list[StagedFile] = []
        self._state = "open"

    def __enter__(self) -> SegmentWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._state != "finished":
            self.abandon()

    def append(self, rows: Rows, partitions: Partitions) -> None:
        """Add ``rows`` to one partition, or each to its own (one integer per row); order is kept.

        Columns are taken as `RowConverter.accept` says. All rows are taken or, if one of them is refused, none:
        `SchemaMismatchError`, `InvalidRecordError` and `RecordTooLargeError` leave the writer as it was.
        An error of the store ends it.
        """
        self._check_open("append")
        target = check_partitions(
            partitions, rows.num_rows, self._partitions, f"rows for topic {self._topic!r}"
        )
        accepted = []
        first = 0
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
            for piece in slices(batch, self._buffer_bytes):
                columns, count = self._intake.convert(piece, first), piece.num_rows
                if count:
                    part = target if isinstance(target, int) else target[first : first + count]
                    values = sum(column.nbytes for column in columns if column is not None)
                    size = values + BATCH_OVERHEAD_BYTES
                    accepted.append(_Pending(columns, part, count, size))
                first += count
        for entry in accepted:
            if self._pending and self._pending_bytes + entry.size > self._room(entry):
                self._flush()
            self._pending.append(entry)
            self._pending_bytes += entry.size
            self._all_stand_alone = self._all_stand_alone and entry.stands_alone

    def finish(self) -> tuple[StagedFile, ...]:
        """Write what is left and make it durable. The files in order of append; none if there were no rows.

        Calling it again gives the same answer. Raises the errors of `Store.create`.
        """
        if self._state != "finished":
            self._check_open("finish")
            if self._pending:
                self._flush()
            with _AbandonsOnError(self):
                self._close_file()
            self._state = "finished"
        return tuple(self._staged)

    def abandon(self) -> None:
        """Discard everything; no file stays. After `finish` it is too late: the files are the caller's."""
        if self._state == "finished":
            raise IllegalStateError(
                f"the writer of {self._name!r} has finished: its files may be committed by now"
            )
        self._state = "abandoned"
        self._pending.clear()
        if self._is_foreign:
            return  # The files are those of the process that this one was forked from.
        file, self._file = self._file, None
        if file is not None:
            file.discard()
        staged, self._staged = self._staged, []
        for entry in staged:
            # No other process knows these names. What cannot be deleted now, vacuum deletes.
            with suppress(EosLogError):
                self._store.delete(entry.file.name)

    def _room(self, entry: _Pending) -> int:
        """How many bytes may wait, with ``entry``, for the next flush."""
        if self._all_stand_alone and entry.stands_alone:
            return min(self._buffer_bytes, RUN_BYTES)
        return self._buffer_bytes

    def _check_open(self, call: str) -> None:
        self._check_process(call)
        if self._state != "open":
            raise IllegalStateError(f"the writer of {self._name!r} is {self._state}; make a new one")

    def _flush(self) -> None:
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        self._all_stand_alone = True
        with _AbandonsOnError(self):
            file = self._file_for(pending)
            batches = [self._record_batch(entry, file.schema) for entry in pending]
            targets = [entry.partition for entry in pending]
            for run in self._runs(batches, targets):
                file.append(run)
            if file.size >= self._file_bytes:
                self._close_file()

    def _file_for(self, pending: list[_Pending]) -> StagedFileWriter:
        """The open file, if it has all columns that ``pending`` needs, else a new one."""
        names = self._layout.physical.names
        needed = {
            name
            for position, name in enumerate(names)
            if any(entry.columns[position] is not None for entry in pending)
        }
        if self._file is not None and not needed.issubset(self._file.schema.names):
            self._close_file()
        if self._file is None:
            omitted = tuple(name for name in self._layout.omittable if name not in needed)
            self._file = StagedFileWriter(
                self._store,
                self._next_name(),
                self._layout,
                omitted,
                self._compression,
                write_behind=self._write_behind,
            )
        return self._file

    def _next_name(self) -> str:
        if not self._staged:
            return self._name
        stem, dot, ending = self._name.rpartition(".")
        if not dot or "/" in ending:
            return f"{self._name}-{len(self._staged)}"
        return f"{stem}-{len(self._staged)}.{ending}"

    def _close_file(self) -> None:
        # Taken out first: a file whose close failed is neither staged nor open any more.
        file, self._file = self._file, None
        if file is not None:
            self._staged.append(StagedFile(self._topic, *file.close()))

    def _record_batch(self, entry: _Pending, schema: pa.Schema) -> pa.RecordBatch:
        columns, stored = [], set(schema.names)
        for field, column in zip(self._layout.physical, entry.columns, strict=True):
            if field.name in stored:
                columns.append(
                    self._layout.fill(field, entry.rows, self._now_ms) if column is None else column
                )
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _runs(self, batches: list[pa.RecordBatch], targets: list[Partitions]) -> list[PartitionRun]:
        """The rows by partition, in ascending order of partitions; each one's rows keep their order."""
        whole = [target for target in targets if isinstance(target, int)]
        if len(whole) == len(targets):
            groups: dict[int, list[pa.RecordBatch]] = {}
            for batch, partition in zip(batches, whole, strict=True):
                groups.setdefault(partition, []).append(batch)
            return [self._run(partition, _joined(group)) for partition, group in sorted(groups.items())]
        rows = np.concatenate(
            [
                np.full(batch.num_rows, target, np.int32) if isinstance(target, int) else target
                for batch, target in zip(batches, targets, strict=True)
            ]
        )
        order, partitions, starts = _sorted(rows)
        # One take for all partitions: a filter for each would read all rows as many times.
        sorted_rows = take_rows(_combined(batches), order)
        ends = [*starts[1:], len(rows)]
        lowest, highest = self._bounds(sorted_rows, starts)
        return [
            PartitionRun(partition, [sorted_rows.slice(start, end - start)], low, high)
            for partition, start, end, low, high in zip(
                partitions, starts, ends, lowest, highest, strict=True
            )
        ]

    def _run(self, partition: int, batches: list[pa.RecordBatch]) -> PartitionRun:
        bounds = [self._bounds(batch, [0]) for batch in batches]
        return PartitionRun(
            partition, batches, min(low for (low,), _ in bounds), max(high for _, (high,) in bounds)
        )

    def _bounds(self, batch: pa.RecordBatch, starts: list[int]) -> tuple[list[int], list[int]]:
        """Lowest and highest timestamp of the rows from each start to the next."""
        position = batch.schema.get_field_index(self._layout.timestamp_column)
        if position < 0:
            return [self._now_ms] * len(starts), [self._now_ms] * len(starts)
        times: npt.NDArray[np.int64] = batch.column(position).view(pa.int64()).to_numpy()
        if len(starts) == 1:
            return [int(times.min())], [int(times.max())]
        return np.minimum.reduceat(times, starts).tolist(), np.maximum.reduceat(times, starts).tolist()


class _Pending(NamedTuple):
    """Rows that wait for the next flush: ``size`` is their bytes."""

    columns: Columns
    partition: Partitions
    rows: int
    size: int

    @property
    def stands_alone(self) -> bool:
        return isinstance(self.partition, int) and self.size >= LARGE_BATCH_BYTES


def _combined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return batch


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The same rows, in one batch if the many are small: each costs a reader more than its rows do."""
    if len(batches) == 1 or sum(batch.nbytes for batch in batches) >= SMALL_BATCH_BYTES * len(batches):
        return batches
    return [_combined(batches)]


def _sorted(partitions: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int64], list[int], list[int]]:
    """The stable order by partition; the partitions there are; where each one's rows start in that order."""
    highest = int(partitions.max())
    # A stable sort of 16-bit numbers is a radix sort, ten times as fast as that of wider ones.
    narrow = partitions.astype(np.uint16) if highest < 1 << 16 else partitions
    order = np.argsort(narrow, kind="stable")
    ordered = narrow[order]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(ordered)) + 1])
    return order, ordered[starts].tolist(), starts.tolist()
