"""What the files look like that rolling, compaction and sealing write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from spark_eos.config.compression import AUTO, Compression
from spark_eos.errors import ConfigError, SchemaMismatchError
from spark_eos.log.data.arrow_file import compression_of
from spark_eos.log.data.parquet.columns import check_columns
from spark_eos.log.data.parquet.writer import ParquetOptions
from spark_eos.log.log import Log
from spark_eos.log.schemas.conversion import names_under
from spark_eos.log.topics import compression_at_level, config_value, layout_of
from spark_eos.protocol.index import IndexRow, Kind
from spark_eos.protocol.state import Topic

BATCH_BYTES = 4 << 20
"""About the size of a new batch of an Arrow file, before compression.

Measured on a folder, records of 100 bytes, CPU: batches of 64 KiB are read at 1.1 GB/s, of 256 KiB at 2.9, of 1 MiB at
4.7, of 4 MiB at 6.0, of 16 MiB at 4.4; compressed by lz4 at 0.4, 0.7, 1.6, 1.9, 1.8.
"""

GROUP_BYTES = 32 << 20
"""About the size of a row group of a Parquet file, in memory."""

_WRITES_BLOOM_FILTERS = 24
"""The first major version of pyarrow that does."""


class Form(NamedTuple):
    """What new files look like: with a column of ``offsets`` or not, without the columns ``omitted``.

    A file that has grown to ``file_bytes`` is closed. With ``parquet`` records go into Parquet files, which have all
    columns; but for those of aborted transactions.
    """

    offsets: bool
    omitted: tuple[str, ...] = ()
    compression: Compression | None = None
    file_bytes: int = 1 << 30
    parquet: ParquetOptions | None = None


def is_sealed_in_parquet(topic: Topic) -> bool:
    """Whether maintenance writes Parquet files for a topic: ``segment.format``, and a schema that Parquet has."""
    if config_value(topic, "segment.format", str) != "parquet":
        return False
    try:
        check_columns(layout_of(topic).physical)
    except SchemaMismatchError:
        return False
    return True


def fits_parquet(row: IndexRow) -> bool:
    """Whether the records of a batch may be in a Parquet file."""
    return row.kind is Kind.DATA and row.batch is not None


def form_of(log: Log, topic: Topic, taken: Sequence[IndexRow], *, offsets: bool, parquet: bool) -> Form:
    """What new files look like that get the rows of the batches ``taken``.

    Arrow files have no column that none of the old ones has, and are compressed as ``compression.type`` says; for
    ``producer`` as the newest of the old ones, or, if that is plain, as ``auto``: it may have been too small to tell.
    Parquet files are compressed by zstd unless it names a codec.
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
        file_bytes=max(config_value(topic, "segment.bytes", int), 1),
        parquet=_parquet_options(topic) if parquet else None,
    )


def _parquet_options(topic: Topic) -> ParquetOptions:
    bloom = config_value(topic, "segment.bloom.filter.columns", tuple)
    if bloom and int(pa.__version__.partition(".")[0]) < _WRITES_BLOOM_FILTERS:
        raise ConfigError(
            f"topic {topic.name!r}, segment.bloom.filter.columns: pyarrow {pa.__version__} writes no bloom filters: "
            f"pip install 'pyarrow>={_WRITES_BLOOM_FILTERS}', or empty the setting"
        )
    codec = config_value(topic, "compression.type", str)
    if codec in {"producer", AUTO}:
        return ParquetOptions(bloom=bloom)
    return ParquetOptions(compression_at_level(topic, codec), bloom)


def _names(topic: Topic, version: int, omitted: tuple[str, ...]) -> set[str]:
    """What the columns of a file are called in the newest layout; the dropped ones are not in it."""
    layout = layout_of(topic, version)
    return names_under(layout, layout.stored(omitted).names, layout_of(topic))


def _compression(log: Log, topic: Topic, taken: Sequence[IndexRow]) -> Compression | None:
    codec = config_value(topic, "compression.type", str)
    if codec == "producer":
        newest = next(
            (row for row in reversed(taken) if row.file is not None and row.batch is not None), None
        )
        codec = AUTO if newest is None else _codec(log, newest)
    return compression_at_level(topic, codec)


def _codec(log: Log, row: IndexRow) -> str:
    assert row.file is not None
    assert row.batch is not None
    if row.file.is_parquet:
        return "zstd"
    return compression_of(log.store.read(row.file.name, row.batch.position, row.batch.length)) or AUTO
