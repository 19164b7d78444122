"""Row groups of Parquet files, read back: their bytes are checked, and rows have the types of their layout.

Two ranges are read: the footer, once for all batches of a file, and the row group. Each has its checksum in the index.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from threading import Lock
from typing import NamedTuple

import google_crc32c
import numpy as np
import pyarrow as pa

from spark_eos.errors import CorruptRecordError, IllegalStateError
from spark_eos.log.data.layout import Layout
from spark_eos.log.data.parquet.columns import from_file, offset_column, partition_column, stored_schema
from spark_eos.protocol.types import BatchRef, FileRef
from spark_eos.storage.encrypted_files import check_plain
from spark_eos.storage.store import Readable

_REMEMBERED = 32
"""Footers of so many files stay in memory, the last ones that were used."""


class Footer(NamedTuple):
    """What a file says of itself."""

    metadata: object
    """A ``pyarrow.parquet.FileMetaData``."""
    groups: dict[int, int]
    """The number of each row group, by the position of its first byte."""


class _Footers:
    """The footers that were used last. For several threads."""

    def __init__(self) -> None:
        self._footers: OrderedDict[FileRef, Footer] = OrderedDict()
        self._lock = Lock()

    def get(self, file: FileRef) -> Footer | None:
        with self._lock:
            footer = self._footers.get(file)
            if footer is not None:
                self._footers.move_to_end(file)
            return footer

    def clear(self) -> None:
        with self._lock:
            self._footers.clear()

    def forget(self, file: FileRef) -> None:
        with self._lock:
            self._footers.pop(file, None)

    def put(self, file: FileRef, footer: Footer) -> None:
        with self._lock:
            self._footers[file] = footer
            while len(self._footers) > _REMEMBERED:
                self._footers.popitem(last=False)


_FOOTERS = _Footers()


def forget_footers() -> None:
    """Drop all footers from memory: for simulations, whose runs must not know of one another."""
    _FOOTERS.clear()


def read_footer(store: Readable, file: FileRef, *, context: str = "") -> Footer:
    """The footer of a file, from memory if it was used lately: two files never have one name and one checksum.

    Raises `CorruptRecordError` for bytes that are not the ones that were written, `ObjectNotFoundError`.
    """
    footer = _FOOTERS.get(file)
    if footer is None:
        start = file.size - file.footer
        data = store.read(file.name, start, file.footer)
        _check(data, file, start, file.footer, file.footer_crc, context)
        try:
            footer = _parsed(data)
        except _ERRORS as error:
            raise _corrupt(
                file, start, file.footer, context, f"not the footer of a Parquet file: {error}"
            ) from error
        _FOOTERS.put(file, footer)
    return footer


def _parsed(data: pa.Buffer) -> Footer:
    from pyarrow.parquet import ParquetFile

    metadata = ParquetFile(pa.BufferReader(data)).metadata
    groups = {}
    for number in range(metadata.num_row_groups):
        first = metadata.row_group(number).column(0)
        groups[min(first.dictionary_page_offset or first.data_page_offset, first.data_page_offset)] = number
    return Footer(metadata, groups)


def read_group(
    store: Readable,
    file: FileRef,
    batch: BatchRef,
    layout: Layout,
    *,
    context: str = "",
    columns: Collection[str] | None = None,
) -> pa.Table:
    """The rows of one row group. As `spark_eos.log.data.reader.read_batch`.

    If the file has ``offsets``, the column in front has the offsets themselves.
    """
    try:
        footer = read_footer(store, file, context=context)
        data = store.read(file.name, batch.position, batch.length)
        return decode_group(data, footer, file, batch, layout, context=context, columns=columns)
    except CorruptRecordError:
        check_plain(store, file.name)
        raise


def check_group(store: Readable, file: FileRef, batch: BatchRef, layout: Layout, offsets: range) -> str:
    """What is wrong with a row group as other programs read it; empty if nothing is.

    Other programs do not look at the index of the log: the file has to say the ``offsets``, the partition and the times
    of its rows. Reads the footer again. Raises `CorruptRecordError` as `read_group` does.
    """
    _FOOTERS.forget(file)
    footer = read_footer(store, file)
    data = store.read(file.name, batch.position, batch.length)
    _check(data, file, batch.position, batch.length, batch.crc, "")
    places = [partition_column(layout), offset_column(layout), layout.timestamp_column]
    schema = pa.schema([stored_schema(layout).field(name) for name in places])
    try:
        table = _read(data, footer, footer.groups[batch.position], batch, file.size, places)
        partitions, row_offsets, times = (
            np.from_dlpack(pa.concat_arrays(column.cast(pa.int64()).chunks))
            for column in from_file(table, schema).columns
        )
    except _ERRORS as error:
        raise _corrupt(
            file, batch.position, batch.length, "", f"not a row group of {places}: {error!r}"
        ) from error
    if (
        not len(row_offsets)
        or row_offsets[0] < offsets.start
        or row_offsets[-1] >= offsets.stop
        or (np.diff(row_offsets) < 1).any()
    ):
        return f"its rows do not have rising offsets from {offsets.start} to {offsets.stop - 1}"
    if not file.offsets and row_offsets[0] != offsets.start:
        return f"its rows begin at offset {row_offsets[0]}, not {offsets.start}"
    if (partitions != batch.partition).any():
        return f"its rows say that they are of partition {partitions[0]}, not {batch.partition}"
    if (times.min(), times.max()) != (batch.min_timestamp_ms * 1000, batch.max_timestamp_ms * 1000):
        return f"its timestamps are not from {batch.min_timestamp_ms} to {batch.max_timestamp_ms} ms"
    return ""


def decode_group(
    data: pa.Buffer,
    footer: Footer,
    file: FileRef,
    batch: BatchRef,
    layout: Layout,
    *,
    context: str = "",
    columns: Collection[str] | None = None,
) -> pa.Table:
    """The rows of a row group from its bytes. As `read_group`."""
    if file.schema_version != layout.version:
        raise IllegalStateError(
            f"file {file.name!r} has version {file.schema_version} of the topic's schema; it cannot be read "
            f"with the layout of version {layout.version}"
        )
    _check(data, file, batch.position, batch.length, batch.crc, context)
    fields = [field for field in layout.physical if columns is None or field.name in columns]
    fields = fields or [layout.physical.field(layout.timestamp_column)]
    if file.offsets:
        fields.insert(0, pa.field(offset_column(layout), pa.int64(), nullable=False))
    schema = pa.schema(fields)
    try:
        number = footer.groups[batch.position]
        table = from_file(_read(data, footer, number, batch, file.size, schema.names), schema)
        # The CRC only says that they are what was written: a faulty writer's texts may be none.
        table.validate(full=True)
        _check_nulls(table)
    except _ERRORS as error:
        raise _corrupt(
            file, batch.position, batch.length, context, f"not a row group of {schema.names}: {error!r}"
        ) from error
    if table.num_rows != batch.count:
        raise _corrupt(
            file,
            batch.position,
            batch.length,
            context,
            f"{table.num_rows} rows instead of {batch.count}",
        )
    return table


_ERRORS = (
    pa.ArrowException,
    OSError,
    ValueError,
    TypeError,
    LookupError,
    OverflowError,
    MemoryError,
    RuntimeError,
)
"""What pyarrow raises for bytes that are no Parquet."""


def _read(
    data: pa.Buffer, footer: Footer, number: int, batch: BatchRef, size: int, names: list[str]
) -> pa.Table:
    from pyarrow.parquet import ParquetFile

    window = pa.PythonFile(_Window(data, batch.position, size), "r")
    with ParquetFile(window, metadata=footer.metadata, pre_buffer=False) as file:
        return file.read_row_group(number, columns=names, use_threads=False)


def _check_nulls(table: pa.Table) -> None:
    for field, column in zip(table.schema, table.columns, strict=True):
        if not field.nullable and column.null_count:
            raise ValueError(
                f"column {field.name!r} is not nullable, and {column.null_count} rows have no value"
            )


def _check(data: pa.Buffer, file: FileRef, position: int, length: int, expected: int, context: str) -> None:
    if data.size != length:
        raise _corrupt(file, position, length, context, f"only {data.size} of {length} bytes are there")
    crc = google_crc32c.value(data)
    if crc != expected:
        raise _corrupt(file, position, length, context, f"CRC32C is {crc:#010x}, not {expected:#010x}")


def _corrupt(file: FileRef, position: int, length: int, context: str, problem: str) -> CorruptRecordError:
    return CorruptRecordError(
        f"file {file.name!r}, bytes {position} to {position + length}{context and f' ({context})'}: {problem}; "
        "the storage does not hold what was written: restore the file from a backup"
    )


class _Window:
    """The bytes of a row group at their place in the file, as a file that Arrow reads without a copy."""

    closed = False

    def __init__(self, data: pa.Buffer, start: int, size: int) -> None:
        self._data = data
        self._start = start
        self._size = size
        self._position = 0

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        return self._size

    def read_buffer(self, size: int) -> pa.Buffer:
        """``size`` bytes, fewer where the window ends."""
        at = self._position - self._start
        if not 0 <= at <= self._data.size:
            raise OSError(f"byte {self._position} does not belong to the row group")
        part = self._data.slice(at, min(size, self._data.size - at))
        self._position += part.size
        return part

    read = read_buffer

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        """Nothing is open."""
