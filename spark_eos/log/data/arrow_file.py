"""One file while it is written, mostly Arrow IPC: the byte range and CRC32C of every run of rows in it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import NamedTuple

import google_crc32c
import pyarrow as pa

from spark_eos.config.compression import Compression
from spark_eos.errors import (
    CorruptRecordError,
    EosLogError,
    ObjectExistsError,
    ObjectNotFoundError,
    StoreUnavailableError,
)
from spark_eos.log.data.arrow import size_of
from spark_eos.log.data.layout import Layout
from spark_eos.protocol.flatbuffer import Table, uint32
from spark_eos.protocol.types import BatchRef, FileRef
from spark_eos.storage.store import Store, Upload

RECORD_BATCH_BYTES = 8 << 20
"""About the largest record batch: what a reader hands on in one piece."""

_TRIED_BYTES = 256 << 10
"""So much of the first batch is compressed to see whether that pays, where the compression may be left out."""

_LEAST_BYTES = 4 << 10
"""A batch of less is not worth a codec's work: each buffer of it is compressed by itself. It is when it is rolled."""

_PAYS = 0.7
"""Compression pays if lz4 leaves no more than this: it finds repetitions alone.

zstd also makes random digits smaller, by half, and takes as long for that as writing them does; lz4 leaves 0.95 of
those, and 0.56 of flights as Avro.
"""

_MAGIC_BYTES = 8
"""``ARROW1`` and two bytes of padding, at the start of every Arrow file."""


class PartitionRun(NamedTuple):
    """Rows of one partition, in order, and the bounds of their timestamps."""

    partition: int
    batches: list[pa.RecordBatch]
    min_timestamp_ms: int
    max_timestamp_ms: int


class UploadedFile:
    """A file of the store that is there, and durable, once it is closed, and not before."""

    def __init__(self, store: Store, name: str, rows_start: int, *, write_behind: bool = False) -> None:
        self._store = store
        self._name = name
        self._batches: list[BatchRef] = []
        with ExitStack() as stack:
            upload = stack.enter_context(store.upload(name, write_behind=write_behind))
            self._sink = _Sink(upload, rows_start)
            self._stack = stack.pop_all()

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._sink.position

    def _note(self, start: int, partition: int, rows: int, least_ms: int, most_ms: int) -> None:
        """What was written since byte ``start``, where the sink was marked, are these rows."""
        length = self._sink.position - start
        self._batches.append(BatchRef(partition, rows, start, length, self._sink.crc, least_ms, most_ms))

    def _end(self, write_footer: Callable[[], object]) -> None:
        """Make the file durable. Raises the errors of `Store.create`."""
        try:
            with self._sink, self._stack:
                write_footer()
        except ObjectExistsError:
            # A library below may send a request twice and meet its own object: the bytes say whose it is.
            if not self._is_there():
                raise

    def _is_there(self) -> bool:
        """Whether the object of this name holds these very rows. Raises `StoreUnavailableError` if there is none."""
        try:
            if self._store.size(self._name) != self.size:
                return False
        except ObjectNotFoundError as error:
            raise StoreUnavailableError(
                f"{self._store.url}/{self._name} could not be created, as if it existed, and is not there: write it "
                "again"
            ) from error
        return all(
            google_crc32c.value(bytes(self._store.read(self._name, position, length))) == crc
            for position, length, crc in self._ranges()
        )

    def _ranges(self) -> list[tuple[int, int, int]]:
        """Position, length and CRC32C of what is the file's own."""
        return [(batch.position, batch.length, batch.crc) for batch in self._batches]

    def discard(self) -> None:
        """End the upload so that no file is left. Nothing to do if `close` was called."""
        reason = _DiscardedError(self._name)
        with suppress(_DiscardedError, EosLogError), self._sink, self._stack:
            raise reason


class StagedFileWriter(UploadedFile):
    """An Arrow IPC file while it is written.

    ``schema`` are the columns it has: those of ``layout`` without ``omitted``, with the column of offsets in
    front if it shall have ``offsets`` (`FileRef`). If the ``compression`` may be left out, the first batch decides.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        layout: Layout,
        omitted: tuple[str, ...],
        compression: Compression | None,
        *,
        offsets: bool = False,
        write_behind: bool = False,
    ) -> None:
        self.schema = layout.stored(omitted, offsets=offsets)
        self._version = layout.version
        self._omitted = omitted
        self._offsets = offsets
        # Arrow writes the schema in front of the first record batch: its bytes are not part of that one.
        super().__init__(store, name, _MAGIC_BYTES + self.schema.serialize().size, write_behind=write_behind)
        self._compression = compression
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    def append(self, run: PartitionRun) -> None:
        """Write the rows of ``run``, at least one, and note where they are."""
        writer = self._writer or self._open_writer(run.batches[0])
        self._sink.mark()
        start = max(self._sink.position, self._sink.rows_start)
        count = 0
        for batch in run.batches:
            for piece in slices(batch, RECORD_BATCH_BYTES):
                writer.write_batch(piece)
            count += batch.num_rows
        self._note(start, run.partition, count, run.min_timestamp_ms, run.max_timestamp_ms)

    def close(self) -> tuple[FileRef, tuple[BatchRef, ...]]:
        """Write the footer and make the file durable. Raises the errors of `Store.create`."""
        assert self._writer is not None
        self._end(self._writer.close)
        file = FileRef(self._name, self.size, self._version, self._omitted, self._offsets)
        return file, tuple(self._batches)

    def _open_writer(self, first: pa.RecordBatch) -> pa.ipc.RecordBatchFileWriter:
        compression = self._compression
        if compression is not None and compression.may_stay_plain and not _pays(first):
            compression = None
        self._writer = pa.ipc.new_file(self._sink, self.schema, options=_write_options(compression))
        return self._writer


class _DiscardedError(Exception):
    """Tells an upload that it has not succeeded; never leaves this module."""


class _Sink:
    """What Arrow and Parquet write into: hands bytes on as they come, and keeps the CRC32C of those since `mark`.

    Bytes before ``rows_start`` count for the position alone. After its context nothing is handed on.
    """

    closed = False

    def __init__(self, upload: Upload, rows_start: int) -> None:
        self._upload = upload
        self.rows_start = rows_start
        self.position = 0
        self.crc = 0
        self._is_over = False

    def mark(self) -> None:
        self.crc = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._is_over = True

    def write(self, data: bytes | pa.Buffer) -> int:
        size = len(data)
        if self._is_over:  # A writer of Parquet that was given up writes its footer when it is collected.
            return size
        if self.position >= self.rows_start:
            self.crc = google_crc32c.extend(self.crc, data)
        # A write across the boundary would leave its rows out of the CRC.
        assert self.position >= self.rows_start or self.position + size <= self.rows_start
        self._upload.write(data)
        self.position += size
        return size

    def tell(self) -> int:
        return self.position

    def flush(self) -> None:
        """Nothing to do: the end of the upload decides."""


def slices(batch: pa.RecordBatch, size: int) -> list[pa.RecordBatch]:
    """``batch`` in equal slices of about ``size`` bytes, of at least one row each."""
    pieces = -(-size_of(batch) // size)
    if pieces <= 1:
        return [batch]
    rows = -(-batch.num_rows // pieces)
    return [batch.slice(first, rows) for first in range(0, batch.num_rows, rows)]


def _pays(batch: pa.RecordBatch) -> bool:
    """Whether rows like those of ``batch`` are worth compressing."""
    (sample, *_) = slices(batch, _TRIED_BYTES)
    size = size_of(sample)
    if size < _LEAST_BYTES:
        return False
    compressed = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(compressed, sample.schema, options=options) as writer:
        writer.write_batch(sample)
    return bool(compressed.tell() <= _PAYS * size)


def _write_options(compression: Compression | None) -> pa.ipc.IpcWriteOptions:
    """How Arrow writes record batches."""
    if compression is None:
        return pa.ipc.IpcWriteOptions()
    codec, level, _ = compression
    return pa.ipc.IpcWriteOptions(compression=pa.Codec(codec, compression_level=level))


def compression_of(data: pa.Buffer) -> str | None:
    """How the record batches in the bytes of a batch are compressed: None, "lz4" or "zstd".

    Arrow says it in their metadata, two tables of a FlatBuffer (``Message.header``, ``RecordBatch.compression``).
    Raises `CorruptRecordError` for other bytes.
    """
    try:
        message = pa.ipc.read_message(data)
        if message.type != "record batch":
            raise CorruptRecordError(f"{len(data)} bytes are no record batch, but a {message.type}")
        metadata = bytes(message.metadata)
        header = Table(metadata, uint32(metadata, 0)).reference(2)
        compression = None if header is None else Table(metadata, header).reference(3)
        if compression is None:
            return None
        return "zstd" if Table(metadata, compression).byte(0) else "lz4"
    except (pa.ArrowException, OSError, ValueError, struct.error) as error:
        raise CorruptRecordError(f"{len(data)} bytes are no record batch: {error}") from error
