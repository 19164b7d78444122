"""Parquet files as Iceberg's manifests describe them: sizes, counts and bounds of their columns, from their footers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa

from spark_eos.tables.iceberg.columns import Columns

__all__ = ["Found", "arrow_schemas", "data_files"]

_HIDDEN = -1
"""The id by which a file's column goes that the table does not have."""


class Found(NamedTuple):
    """A file: its address, its size in bytes, and its footer (``pyarrow.parquet.FileMetaData``)."""

    address: str
    size: int
    footer: Any


def arrow_schemas(files: Iterable[Found]) -> list[pa.Schema]:
    """The columns that files have: each set of columns once."""
    found: dict[tuple[str, ...], pa.Schema] = {}
    for one in files:
        schema = one.footer.schema
        paths = tuple(schema.column(number).path for number in range(len(schema)))
        if paths not in found:
            found[paths] = schema.to_arrow_schema()
    return [*found.values()]


def data_files(files: Iterable[Found], columns: Columns, metadata: Any) -> list[Any]:
    """The entries of a manifest for files of a table with these ``columns`` and this (pyiceberg's) ``metadata``."""
    from pyiceberg.io.pyarrow import compute_statistics_plan, parquet_path_to_id_mapping

    plan = _Plan(compute_statistics_plan(columns.table, metadata.properties))
    ids = _Ids(parquet_path_to_id_mapping(columns.file))
    return [_data_file(one, plan, ids, metadata) for one in files]


def _data_file(one: Found, plan: _Plan, ids: _Ids, metadata: Any) -> Any:
    from pyiceberg.io.pyarrow import data_file_statistics_from_parquet_metadata
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=one.footer, stats_columns=plan, parquet_column_mapping=ids
    )
    statistics.column_sizes.pop(_HIDDEN, None)
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=one.address,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        file_size_in_bytes=one.size,
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


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
