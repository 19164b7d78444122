"""Statistics of a Parquet file as Delta's log keeps them, made from its footer: readers leave files out by them.

A bound that is too narrow hides rows from readers, one that is missing costs time alone. So no column has bounds that
readers of the table might understand differently: floating-point numbers (NaN has no place among the bounds of Parquet,
and is the largest number of Spark), booleans and bytes (Delta keeps none), and decimals of more digits than a double
has. A property of the table says which columns have bounds (`bounded_columns`). delta-rs takes one of theirs that is
missing for a bound that no value lies within; so a file with values that cannot be written, such as times before the
year 1 or after 9999, has no statistics at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

INDEXED = 32
"""Bounds are kept of so many columns, counted as Delta counts them (``delta.dataSkippingNumIndexedCols``)."""

_PREFIX = 32
"""Characters of a bound of a text, as Delta cuts them off."""

_EXACT_DIGITS = 15
"""Digits of a decimal that every reader gets back exactly, also one that makes a double of it."""

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  (both kinds of timestamps are counted from it)
_LAST_CHARACTER = 0x10FFFF
_ANY_TEXT = ("", chr(_LAST_CHARACTER) * _PREFIX)
_SURROGATES = range(0xD800, 0xE000)


def statistics(footer: Any, table: pa.Schema | None = None) -> str:
    """The statistics of a file in Delta's JSON, for the columns of the ``table`` (None: those of the file).

    ``footer`` is its ``pyarrow.parquet.FileMetaData``. A column that the file does not have is null in all rows.
    """
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    stored = footer.schema.to_arrow_schema()
    names = frozenset(stored.names if table is None else table.names)
    for _, path, _ in () if table is None else _indexed(table, names - {*stored.names}):
        _put(nulls, path, footer.num_rows)
    for leaf, path, type_ in _indexed(stored, names):
        low, high, null_count = _of_leaf(footer, leaf, type_)
        if _has_bounds(type_) and null_count != footer.num_rows and (low is None or high is None):
            return _json({"numRecords": footer.num_rows})
        for bounds, value in ((lowest, low), (highest, high), (nulls, null_count)):
            if value is not None:
                _put(bounds, path, value)
    return _json(
        {"numRecords": footer.num_rows, "minValues": lowest, "maxValues": highest, "nullCount": nulls}
    )


def bounded_columns(schema: pa.Schema, *, by_delta_rs: bool) -> str:
    """The columns of a table of which files have bounds, as ``delta.dataSkippingStatsColumns`` names them.

    delta-rs does not look at columns that this property leaves out. Where it writes the files itself (``by_delta_rs``),
    only whole numbers and texts have bounds: those that it makes of small decimals, and of dates and times that no
    calendar has, hide rows, or end the commit.
    """
    paths = (
        path
        for _, path, type_ in _indexed(schema, None)
        if (_has_bounds_by_delta_rs(path, type_) if by_delta_rs else _has_bounds(type_))
    )
    return ",".join(".".join(map(quoted, path)) for path in paths)


def quoted(name: str) -> str:
    """The name of a column where delta-rs reads it out of a text."""
    return f"`{name.replace('`', '``')}`"


def writer_properties(schema: pa.Schema) -> Any:
    """How delta-rs writes files itself: with the bounds of `bounded_columns`, and no others in the files either.

    Spark passes over row groups by what it finds there, and those of floating-point numbers leave NaN out.
    """
    from deltalake import ColumnProperties, WriterProperties

    bounded = [path[0] for _, path, type_ in _indexed(schema, None) if _has_bounds_by_delta_rs(path, type_)]
    return WriterProperties(
        compression="ZSTD",
        default_column_properties=ColumnProperties(statistics_enabled="NONE"),
        column_properties=dict.fromkeys(bounded, ColumnProperties(statistics_enabled="CHUNK")),
    )


def _indexed(
    schema: pa.Schema, names: frozenset[str] | None
) -> Iterator[tuple[int, tuple[str, ...], pa.DataType]]:
    """The leaves of which statistics are kept, with their numbers."""
    counted = 0
    for leaf, (path, type_) in enumerate(_leaves(schema)):
        if type_ is None or (names is not None and path[0] not in names):
            continue
        counted += 1
        if counted <= INDEXED or path[0].startswith("_"):
            yield leaf, path, type_


def _leaves(schema: pa.Schema) -> Iterator[tuple[tuple[str, ...], pa.DataType | None]]:
    """The leaves of a schema in the order of the file's columns; without a type, if there may be several in a row."""
    for field in schema:
        yield from _inside((field.name,), field.type, repeated=False)


def _inside(
    path: tuple[str, ...], type_: pa.DataType, *, repeated: bool
) -> Iterator[tuple[tuple[str, ...], pa.DataType | None]]:
    if pa.types.is_struct(type_):
        for number in range(type_.num_fields):
            field = type_.field(number)
            yield from _inside((*path, field.name), field.type, repeated=repeated)
    elif pa.types.is_map(type_):
        yield from _inside((*path, "key"), type_.key_type, repeated=True)
        yield from _inside((*path, "value"), type_.item_type, repeated=True)
    elif pa.types.is_list(type_) or pa.types.is_large_list(type_):
        yield from _inside((*path, "element"), type_.value_type, repeated=True)
    else:
        yield path, None if repeated else type_


def _of_leaf(footer: Any, leaf: int, type_: pa.DataType) -> tuple[Any, Any, int | None]:
    """The lowest and the highest value of a column as Delta writes them, and how many are null; None: not known."""
    nulls: int | None = 0
    lows, highs, bounded = [], [], _has_bounds(type_)
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        column_stats = group.column(leaf).statistics
        if column_stats is None or not column_stats.has_null_count:
            nulls, bounded = None, bounded and column_stats is not None and column_stats.has_min_max
        elif nulls is not None:
            nulls += column_stats.null_count
        if not bounded:
            continue
        if column_stats.has_min_max:
            low, high = _bounds(column_stats, type_)
            lows.append(low)
            highs.append(high)
        elif column_stats.null_count != group.num_rows:
            bounded = False
    if not bounded or not lows:
        if pa.types.is_string(type_) and nulls != footer.num_rows:
            # Parquet has no bounds of long texts. Such files are many, and the bounds of their other columns needed.
            return *_ANY_TEXT, nulls
        return None, None, nulls
    if pa.types.is_string(type_):
        return _cut(min(lows), upper=False), _cut(max(highs), upper=True), nulls
    return _written(min(lows), type_), _written(max(highs), type_), nulls


def _has_bounds(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(type_)
        or types.is_string(type_)
        or types.is_date32(type_)
        or types.is_timestamp(type_)
        or (types.is_decimal(type_) and type_.precision <= _EXACT_DIGITS)
    )


def _has_bounds_by_delta_rs(path: tuple[str, ...], type_: pa.DataType) -> bool:
    return len(path) == 1 and (pa.types.is_integer(type_) or pa.types.is_string(type_))


def _bounds(column_stats: Any, type_: pa.DataType) -> tuple[Any, Any]:
    """As numbers that can be compared; a calendar need not have the times."""
    if pa.types.is_timestamp(type_) or pa.types.is_date32(type_):
        return column_stats.min_raw, column_stats.max_raw
    return column_stats.min, column_stats.max


def _written(value: Any, type_: pa.DataType) -> Any:
    """A bound as Delta writes it, with all of its digits; None if it cannot."""
    try:
        if pa.types.is_date32(type_):
            return (_EPOCH + timedelta(days=value)).date().isoformat()
        if pa.types.is_timestamp(type_):
            micros = value * {"s": 1_000_000, "ms": 1000, "us": 1}[type_.unit]
            text = (_EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds")
            return text if type_.tz is None else f"{text}Z"
    except (OverflowError, KeyError):
        return None
    return value


def _cut(text: str, *, upper: bool) -> str:
    """The beginning of a long text; as an upper bound, the next larger one, or the text where there is none."""
    if len(text) <= _PREFIX or not upper:
        return text[:_PREFIX]
    for end in range(_PREFIX, 0, -1):
        point = ord(text[end - 1]) + 1
        if point in _SURROGATES:
            point = _SURROGATES.stop
        if point <= _LAST_CHARACTER:
            return text[: end - 1] + chr(point)
    return text


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        values = values.setdefault(name, {})
    values[path[-1]] = value


def _json(value: Any) -> str:
    """JSON in which decimals are numbers with all of their digits, and characters are themselves.

    Two surrogates in the place of one are taken for a smaller character by delta-rs and Polars, from U+100000 on.
    """
    if isinstance(value, dict):
        return f"{{{','.join(f'{_json(name)}:{_json(inner)}' for name, inner in value.items())}}}"
    return f"{value:f}" if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)
