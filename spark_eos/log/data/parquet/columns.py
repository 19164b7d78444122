"""The columns that a topic's rows have in Parquet files: those that Spark's source gives with metadata.

A Kafka-shaped topic: ``key``, ``value``, ``headers``, ``timestamp``, ``partition``, ``offset``. A topic with a schema:
its own columns, then ``_partition``, ``_offset``, ``_timestamp``. Timestamps have microseconds, as tables want them.
Parquet has no durations: they are stored as numbers of microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy.typing as npt
import pyarrow as pa

from spark_eos.errors import SchemaMismatchError
from spark_eos.log.data.arrow import constant_array
from spark_eos.log.data.layout import Layout

STORED_TIMESTAMP = pa.timestamp("us", "UTC")
"""Type of a row's timestamp in Parquet."""


def offset_column(layout: Layout) -> str:
    """The name of the column with the rows' offsets."""
    return "offset" if layout.is_kafka else "_offset"


def partition_column(layout: Layout) -> str:
    """The name of the column with the number of the partition, the same in all rows of a file."""
    return "partition" if layout.is_kafka else "_partition"


def stored_schema(layout: Layout) -> pa.Schema:
    """The columns of a Parquet file with rows of this layout. Raises `SchemaMismatchError` as `check_columns`."""
    return _stored(layout.physical, partition_column(layout), offset_column(layout), layout.timestamp_column)


@cache
def _stored(physical: pa.Schema, partition: str, offset: str, timestamp: str) -> pa.Schema:
    check_columns(physical)
    *own, last = physical
    places = [
        pa.field(partition, pa.int32(), nullable=False),
        pa.field(offset, pa.int64(), nullable=False),
    ]
    time = pa.field(timestamp, STORED_TIMESTAMP, nullable=False)
    columns = [pa.field(field.name, _stored_type(field.type), field.nullable) for field in own]
    # As Spark's source has them: the timestamp of a Kafka-shaped topic comes before the place.
    return pa.schema([*columns, time, *places] if last.name == "timestamp" else [*columns, *places, time])


def check_columns(schema: pa.Schema) -> None:
    """Raise `SchemaMismatchError`, naming the column, for one whose type Parquet does not have."""
    for field in schema:
        problem = next(_problems(field.type, field.name), None)
        if problem is not None:
            raise SchemaMismatchError(
                f"{problem}: Parquet files cannot have such a column; set segment.format=arrow for the topic, or "
                "change the column's type"
            )


def _problems(type_: pa.DataType, path: str) -> Iterator[str]:
    if pa.types.is_struct(type_) and not type_.num_fields:
        yield f"column {path!r} is a struct without fields"
    if pa.types.is_decimal(type_) and not 0 <= type_.scale <= type_.precision:
        yield f"column {path!r} is a {type_}, whose scale is not from 0 to {type_.precision}"
    for name, inner in _inner(type_):
        yield from _problems(inner, f"{path}.{name}")


def _inner(type_: pa.DataType) -> list[tuple[str, pa.DataType]]:
    if pa.types.is_struct(type_):
        return [(type_.field(n).name, type_.field(n).type) for n in range(type_.num_fields)]
    if pa.types.is_list(type_):
        return [("element", type_.value_type)]
    if pa.types.is_map(type_):
        return [("key", type_.key_type), ("value", type_.item_type)]
    return []


def _stored_type(type_: pa.DataType) -> pa.DataType:
    """The type in a Parquet file: the same one, with numbers for durations, however deep."""
    if pa.types.is_duration(type_):
        return pa.int64()
    if pa.types.is_struct(type_):
        fields = [type_.field(n) for n in range(type_.num_fields)]
        return pa.struct([field.with_type(_stored_type(field.type)) for field in fields])
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_stored_type(type_.value_type)))
    if pa.types.is_map(type_):
        key, item = type_.key_field, type_.item_field
        return pa.map_(key.with_type(_stored_type(key.type)), item.with_type(_stored_type(item.type)))
    return type_


def leaves(schema: pa.Schema) -> list[str]:
    """The paths of all columns that Parquet makes of these, in its order."""
    return [path for field in schema for path, _ in _leaves(field.type, field.name)]


def bounded_leaves(schema: pa.Schema) -> list[str]:
    """Those of `leaves` that have a least and a greatest value for all readers: not floating-point numbers.

    Parquet's bounds leave NaN out, which is the greatest number of Spark: by them it would pass over rows that have it.
    """
    return [
        path
        for field in schema
        for path, type_ in _leaves(field.type, field.name)
        if not pa.types.is_floating(type_)
    ]


def _leaves(type_: pa.DataType, path: str) -> Iterator[tuple[str, pa.DataType]]:
    inner = _inner(type_)
    if not inner:
        yield path, type_
    # Parquet's own names of what is repeated.
    between = "list." if pa.types.is_list(type_) else "key_value." if pa.types.is_map(type_) else ""
    for name, field_type in inner:
        yield from _leaves(field_type, f"{path}.{between}{name}")


def to_file(table: pa.Table, layout: Layout, partition: int, offsets: npt.NDArray[Any]) -> pa.Table:
    """Rows in the columns of ``layout`` as those of `stored_schema`."""
    rows = table.num_rows
    places = {
        partition_column(layout): constant_array(partition, pa.int32(), rows),
        offset_column(layout): pa.array(offsets, pa.int64()),
    }
    schema = stored_schema(layout)
    columns = [
        places[field.name] if field.name in places else _cast(table.column(field.name), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def from_file(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Columns of a file in the types of ``schema``. Raises Arrow's errors for types that were never written."""
    columns = [_cast(table.column(field.name), field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _cast(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if column.type == type_:
        return column
    # Milliseconds become microseconds and back: nothing is lost that was there.
    return column.cast(type_)
