"""Batches of staged files, read back: their bytes are checked, and rows have all columns of their layout.

A batch is read by its byte range. The file's own schema and footer are not needed.
"""

from __future__ import annotations

import google_crc32c
import pyarrow as pa

from spark_eos.errors import CorruptRecordError, IllegalStateError
from spark_eos.log.data.layout import Layout
from spark_eos.protocol.types import BatchRef, FileRef
from spark_eos.storage.store import Readable

__all__ = ["decode_batch", "read_batch"]


def read_batch(
    store: Readable, file: FileRef, batch: BatchRef, layout: Layout, *, context: str = ""
) -> pa.Table:
    """The rows of ``batch``, with exactly the columns of ``layout.physical``, by one ranged read.

    If the file has ``offsets``, their column (`spark_eos.log.data.layout.SKIPPED`) is there too, in front.
    ``layout`` is that of the file's schema version (see `upgrade`); ``context`` says in errors whose rows
    they are, for instance the partition and offset. Raises `CorruptRecordError` for bytes that are not
    the ones that were written, `ObjectNotFoundError`, and `IllegalStateError` for another version's layout.
    """
    return decode_batch(
        store.read(file.name, batch.position, batch.length), file, batch, layout, context=context
    )


def decode_batch(
    data: pa.Buffer, file: FileRef, batch: BatchRef, layout: Layout, *, context: str = ""
) -> pa.Table:
    """The rows of ``batch`` from its bytes, ``data``, which the result may go on using. As `read_batch`."""
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
        batches = [
            pa.ipc.read_record_batch(message, stored)
            for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(data))
        ]
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
        return pa.Table.from_batches(batches, stored)
    if layout.timestamp_column in file.omitted and batch.min_timestamp_ms != batch.max_timestamp_ms:
        raise corrupt("its rows have different timestamps, but the file has no column of them")
    whole = layout.stored((), offsets=file.offsets)
    return pa.Table.from_batches(
        [_filled(decoded, layout, whole, batch.max_timestamp_ms) for decoded in batches], whole
    )


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
