"""A Parquet file while it is written: each batch is one row group, whose bytes lie together."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from spark_eos.config.compression import Compression
from spark_eos.log.data.arrow_file import UploadedFile
from spark_eos.log.data.layout import Layout
from spark_eos.log.data.parquet.columns import bounded_leaves, leaves, offset_column, stored_schema, to_file
from spark_eos.protocol.types import BatchRef, FileRef
from spark_eos.storage.store import Store

_MAGIC_BYTES = 4
"""``PAR1``, at the start of every Parquet file."""


_FALSE_POSITIVES = 0.05
"""Share of the row groups without a value that a bloom filter does not rule out: a filter has 6 bits a row for it."""


class ParquetOptions(NamedTuple):
    """How a file is written: its compression, and the columns that get bloom filters."""

    compression: Compression | None = Compression("zstd", 3)
    bloom: tuple[str, ...] = ()


class ParquetFileWriter(UploadedFile):
    """A Parquet file with rows of one partition: all columns of ``layout``, and the place of each row.

    With ``offsets`` there may be offsets without a row (`FileRef`). Raises `SchemaMismatchError` for a layout that
    Parquet cannot store (`spark_eos.log.data.parquet.columns.check_columns`).
    """

    def __init__(
        self,
        store: Store,
        name: str,
        layout: Layout,
        partition: int,
        options: ParquetOptions,
        *,
        offsets: bool = False,
    ) -> None:
        self._layout = layout
        self._partition = partition
        self._offsets = offsets
        self._schema = stored_schema(layout)
        self._options = options
        self._writer: pq.ParquetWriter | None = None
        self._footer = (0, 0)
        super().__init__(store, name, _MAGIC_BYTES)

    def append(self, rows: pa.Table, offsets: npt.NDArray[Any], times_ms: tuple[int, int]) -> None:
        """Write rows, at least one, in the columns of the layout, as one row group.

        ``times_ms`` are the least and the greatest of their timestamps.
        """
        table = to_file(rows, self._layout, self._partition, offsets)
        if self._writer is None:
            settings = _settings(self._layout, self._schema, self._options, table.num_rows)
            self._writer = pq.ParquetWriter(self._sink, self._schema, **settings)
        self._sink.mark()
        start = self._sink.position
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._note(start, self._partition, table.num_rows, *times_ms)

    def close(self) -> tuple[FileRef, tuple[BatchRef, ...]]:
        """Write the footer and make the file durable. Raises the errors of `Store.create`."""
        writer = self._writer
        assert writer is not None
        self._sink.mark()
        start = self._sink.position

        def write_footer() -> None:
            writer.close()
            self._footer = (self._sink.position - start, self._sink.crc)

        self._end(write_footer)
        file = FileRef(self._name, self.size, self._layout.version, (), self._offsets, *self._footer)
        return file, tuple(self._batches)

    def _ranges(self) -> list[tuple[int, int, int]]:
        length, crc = self._footer
        return [*super()._ranges(), (self.size - length, length, crc)]


def _settings(layout: Layout, schema: pa.Schema, options: ParquetOptions, rows: int) -> dict[str, Any]:
    rising = {offset_column(layout), layout.timestamp_column}
    codec, level = options.compression[:2] if options.compression else ("none", None)
    filters = {path: {"ndv": rows, "fpp": _FALSE_POSITIVES} for path in _leaves_of(schema, options.bloom)}
    return {
        "compression": codec,
        "compression_level": level,
        # Rising numbers take a fraction as differences; everything else has a dictionary as long as that is small.
        "use_dictionary": [path for path in leaves(schema) if path not in rising],
        "column_encoding": dict.fromkeys(rising, "DELTA_BINARY_PACKED"),
        "write_statistics": bounded_leaves(schema),
        "write_page_checksum": True,
        "store_schema": False,
        # pyarrow knows the argument since 24; without it maintenance refuses columns with filters.
        **({"bloom_filter_options": filters} if filters else {}),
    }


def _leaves_of(schema: pa.Schema, names: Collection[str]) -> list[str]:
    # Floating-point numbers have none, as they have no bounds: readers look for the bits, and -0.0 equals 0.0.
    return bounded_leaves(pa.schema([field for field in schema if field.name in names]))
