"""Parquet files as Iceberg's manifests describe them: sizes, counts and bounds of their columns, from their footers.

Counts and bounds are those of all rows of a file, or are left out: pyiceberg adds up what it finds, and takes a row
group of which there are no bounds for one without rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from spark_eos.extensions.tables.iceberg.columns import Columns
from spark_eos.log.data.parquet.columns import bounded_leaves

_HIDDEN = -1
"""The id by which a file's column goes that the table does not have."""


_LAST_BEFORE_SURROGATES = "\ud7ff"
"""pyiceberg cuts a long text off, and takes the next character for an upper bound: what comes after this is none."""


class FoundFile(NamedTuple):
    """A file: its address, its size in bytes, and its footer (``pyarrow.parquet.FileMetaData``)."""

    address: str
    size: int
    footer: Any


def arrow_schemas(files: Iterable[FoundFile]) -> list[pa.Schema]:
    """The columns that files have: each set of columns once."""
    by_paths: dict[tuple[str, ...], pa.Schema] = {}
    for file in files:
        schema = file.footer.schema
        paths = tuple(schema.column(number).path for number in range(len(schema)))
        if paths not in by_paths:
            by_paths[paths] = schema.to_arrow_schema()
    return [*by_paths.values()]


def data_files(files: Iterable[FoundFile], columns: Columns, metadata: Any) -> list[Any]:
    """The entries of a manifest for files of a table with these ``columns`` and this (pyiceberg's) ``metadata``."""
    from pyiceberg.io.pyarrow import compute_statistics_plan, parquet_path_to_id_mapping

    plan = _Plan(compute_statistics_plan(columns.table, metadata.properties))
    ids = _Ids(parquet_path_to_id_mapping(columns.file))
    return [_data_file(file, plan, ids, metadata) for file in files]


def write(io: Any, address: str, rows: pa.Table) -> FoundFile:
    """Write a file of a table with copies. ``io`` is pyiceberg's."""
    output = io.new_output(address)
    footers: list[Any] = []
    with (
        output.create() as stream,
        pq.ParquetWriter(
            stream,
            rows.schema,
            compression="zstd",
            store_schema=False,
            write_statistics=bounded_leaves(rows.schema),
            metadata_collector=footers,
        ) as writer,
    ):
        writer.write_table(rows)
    return FoundFile(address, len(output.to_input_file()), footers[0])


def _data_file(file: FoundFile, plan: _Plan, ids: _Ids, metadata: Any) -> Any:
    from pyiceberg.io.pyarrow import data_file_statistics_from_parquet_metadata
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    whole = _Plan(
        {number: plan[number] for number in _columns_with_bounds(file.footer, ids) if number in plan}
    )
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=file.footer, stats_columns=whole, parquet_column_mapping=ids
    )
    statistics.column_sizes.pop(_HIDDEN, None)
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.address,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        file_size_in_bytes=file.size,
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def _columns_with_bounds(footer: Any, ids: Mapping[str, int]) -> Iterator[int]:
    """The ids of the columns of which every row group has counts and bounds, and pyiceberg makes bounds of the file."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    for at in range(footer.num_columns):
        if all(_is_whole(group.column(at)) for group in groups):
            yield ids[footer.schema.column(at).path]


def _is_whole(column: Any) -> bool:
    statistics = column.statistics
    if statistics is None or not statistics.has_null_count:
        return False
    if not statistics.has_min_max:  # Of long values, or because all are null.
        return bool(statistics.null_count == column.num_values)
    try:
        _, greatest = statistics.min, statistics.max
    except (OverflowError, ValueError):  # Of times and dates that no calendar has.
        return False
    return not isinstance(greatest, str) or _LAST_BEFORE_SURROGATES not in greatest


class _Ids(dict[str, int]):
    """Ids by the paths of columns in Parquet files."""

    def __missing__(self, path: str) -> int:
        return _HIDDEN


class _Plan(dict[int, Any]):
    """What to note of each column, by its id."""

    def __missing__(self, number: int) -> Any:
        from pyiceberg.io.pyarrow import MetricModeTypes, MetricsMode, StatisticsCollector
        from pyiceberg.types import BinaryType

        return StatisticsCollector(number, BinaryType(), MetricsMode(MetricModeTypes.NONE), "")
