"""Batches of staged files, read back: their bytes are checked, and rows have all columns of their layout.

A batch is read by its byte range. The file's own schema and footer are not needed. All bytes of a batch are read, since
one checksum covers them; but only the columns that are wanted are decoded.
"""

from __future__ import annotations

from collections.abc import Collection

import google_crc32c
import pyarrow as pa

from spark_eos.errors import CorruptRecordError, IllegalStateError
from spark_eos.log.data.layout import Layout
from spark_eos.log.data.parquet.reader import read_group
from spark_eos.protocol.types import BatchRef, FileRef
from spark_eos.storage.encrypted_files import check_plain
from spark_eos.storage.store import Readable


def read_batch(
    store: Readable,
    file: FileRef,
    batch: BatchRef,
    layout: Layout,
    *,
    context: str = "",
    columns: Collection[str] | None = None,
) -> pa.Table:
    """The rows of ``batch``, with exactly the columns of ``layout.physical``, by one ranged read.

    ``columns`` names those of them that are wanted (None: all). The result has these, or another one where there is
    none of them, so that it has rows. If the file has ``offsets``, their column is there too, in front: `SKIPPED`
    (`spark_eos.log.data.layout`), or the offsets themselves from a Parquet file.
    ``layout`` is that of the file's schema version (`spark_eos.log.schemas.conversion` brings rows to another one);
    ``context`` says in errors whose rows they are, for instance the partition and offset. Raises
    `CorruptRecordError` for bytes that are not the ones that were written, `ObjectNotFoundError`, and
    `IllegalStateError` for another version's layout.
    """
    if file.is_parquet:
        return read_group(store, file, batch, layout, context=context, columns=columns)
    data = store.read(file.name, batch.position, batch.length)
    try:
        return decode_batch(data, file, batch, layout, context=context, columns=columns)
    except CorruptRecordError:
        check_plain(store, file.name)
        raise


def decode_batch(
    data: pa.Buffer,
    file: FileRef,
    batch: BatchRef,
    layout: Layout,
    *,
    context: str = "",
    columns: Collection[str] | None = None,
) -> pa.Table:
    """The rows of ``batch`` of an Arrow file from its bytes, ``data``, which the result may go on using.

    As `read_batch`.
    """
    if file.schema_version != layout.version:
        raise IllegalStateError(
            f"file {file.name!r} has version {file.schema_version} of the topic's schema; it cannot be read "
            f"with the layout of version {layout.version}"
        )

    def corrupt(problem: str) -> CorruptRecordError:
        end = batch.position + batch.length
        return CorruptRecordError(
            f"file {file.name!r}, bytes {batch.position} to {end}{context and f' ({context})'}: {problem}; "
            "the storage does not hold what was written: restore the file from a backup"
        )

    if data.size != batch.length:
        raise corrupt(f"only {data.size} of {batch.length} bytes are there")
    crc = google_crc32c.value(data)
    if crc != batch.crc:
        raise corrupt(f"CRC32C is {crc:#010x}, not {batch.crc:#010x}")
    stored = layout.stored(file.omitted, offsets=file.offsets)
    try:
        batches = _decoded(data, stored) if columns is None else _decoded_columns(data, stored, file, columns)
        for decoded in batches:
            # The CRC only says that they are what was written: a faulty writer's offsets may point anywhere.
            decoded.validate(full=True)
            _check_nulls(decoded)
    except (pa.ArrowException, OSError, ValueError, TypeError, MemoryError) as error:
        raise corrupt(f"not record batches of {stored.names}: {error}") from error
    count = sum(decoded.num_rows for decoded in batches)
    if count != batch.count:
        raise corrupt(f"{count} rows instead of {batch.count}")
    if not file.omitted:
        return pa.Table.from_batches(batches, stored if columns is None else batches[0].schema)
    if layout.timestamp_column in file.omitted and batch.min_timestamp_ms != batch.max_timestamp_ms:
        raise corrupt("its rows have different timestamps, but the file has no column of them")
    whole = layout.stored((), offsets=file.offsets)
    if columns is not None:
        names = {*columns, *batches[0].schema.names}
        whole = pa.schema([field for field in whole if field.name in names])
    return pa.Table.from_batches(
        [_filled(decoded, layout, whole, batch.max_timestamp_ms) for decoded in batches], whole
    )


def _decoded(data: pa.Buffer, stored: pa.Schema) -> list[pa.RecordBatch]:
    return [
        pa.ipc.read_record_batch(message, stored)
        for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(data))
    ]


def _decoded_columns(
    data: pa.Buffer, stored: pa.Schema, file: FileRef, columns: Collection[str]
) -> list[pa.RecordBatch]:
    """The same with only these columns, or another one: what is left out is not decompressed either."""
    first = 1 if file.offsets else 0
    own = [at for at, name in enumerate(stored.names) if at >= first and name in columns]
    positions = [*range(first), *(own or [first])]
    # Arrow takes the choice only with a whole stream, which begins with the schema.
    options = pa.ipc.IpcReadOptions(included_fields=positions)
    with pa.ipc.open_stream(_Joined(stored.serialize(), data), options=options) as stream:
        return [*stream]


class _Joined:
    """Two buffers, one after the other, as a file that Arrow reads without a copy."""

    closed = False

    def __init__(self, *parts: pa.Buffer) -> None:
        self._parts = [*parts]
        self._position = 0

    def read_buffer(self, size: int) -> pa.Buffer:
        """``size`` bytes, which Arrow never asks for across a boundary; fewer at the end."""
        while self._parts and not self._parts[0].size:
            self._parts.pop(0)
        if not self._parts:
            return pa.py_buffer(b"")
        part = self._parts[0]
        self._parts[0] = part.slice(min(size, part.size))
        self._position += min(size, part.size)
        return part.slice(0, min(size, part.size))

    read = read_buffer

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        """Nothing is open."""


def _check_nulls(batch: pa.RecordBatch) -> None:
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            raise ValueError(
                f"column {field.name!r} is not nullable, and {column.null_count} rows have no value"
            )


def _filled(batch: pa.RecordBatch, layout: Layout, whole: pa.Schema, timestamp_ms: int) -> pa.RecordBatch:
    positions = {name: position for position, name in enumerate(batch.schema.names)}
    columns = [
        batch.column(positions[field.name])
        if field.name in positions
        else layout.fill(field, batch.num_rows, timestamp_ms)
        for field in whole
    ]
    return pa.RecordBatch.from_arrays(columns, schema=whole)
