"""Statistics of a Parquet file as Delta's log keeps them, made from its footer: readers leave files out by them.

A bound that is too narrow hides rows from readers, one that is missing costs time alone. So a bound is left out where
readers of the table might understand it differently: for floating-point numbers (NaN has no place among the bounds of
Parquet, and is the largest number of Spark), booleans and bytes (Delta keeps none), decimals of more digits than a
double has, and times before the year 1 or after 9999. A property of the table says which columns have bounds
(`bounded_columns`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

__all__ = ["INDEXED", "bounded_columns", "statistics"]

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
        low, high, missing = _of_leaf(footer, leaf, type_)
        for found, value in ((lowest, low), (highest, high), (nulls, missing)):
            if value is not None:
                _put(found, path, value)
    return _json(
        {"numRecords": footer.num_rows, "minValues": lowest, "maxValues": highest, "nullCount": nulls}
    )


def bounded_columns(schema: pa.Schema) -> str:
    """The columns of a table of which files have bounds, as ``delta.dataSkippingStatsColumns`` names them.

    delta-rs takes a bound that is missing for one that no value lies within, and its datasets then hide all rows of the
    file from a filter on that column. It does not look at columns that this property leaves out.
    """
    paths = (path for _, path, type_ in _indexed(schema, None) if _has_bounds(type_))
    return ",".join(".".join(f"`{name.replace('`', '``')}`" for name in path) for path in paths)


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
        found = group.column(leaf).statistics
        if found is None or not found.has_null_count:
            nulls, bounded = None, bounded and found is not None and found.has_min_max
        elif nulls is not None:
            nulls += found.null_count
        if not bounded:
            continue
        if found.has_min_max:
            low, high = _bounds(found, type_)
            lows.append(low)
            highs.append(high)
        elif found.null_count != group.num_rows:
            bounded = False
    if not bounded or not lows:
        if pa.types.is_string(type_) and nulls != footer.num_rows:
            return (
                *_ANY_TEXT,
                nulls,
            )  # Parquet has no bounds of long texts, and readers need some (`bounded_columns`).
        return None, None, nulls
    return _written(min(lows), type_, upper=False), _written(max(highs), type_, upper=True), nulls


def _has_bounds(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(type_)
        or types.is_string(type_)
        or types.is_date32(type_)
        or types.is_timestamp(type_)
        or (types.is_decimal(type_) and type_.precision <= _EXACT_DIGITS)
    )


def _bounds(found: Any, type_: pa.DataType) -> tuple[Any, Any]:
    """As numbers that can be compared; a calendar need not have the times."""
    if pa.types.is_timestamp(type_) or pa.types.is_date32(type_):
        return found.min_raw, found.max_raw
    return found.min, found.max


def _written(value: Any, type_: pa.DataType, *, upper: bool) -> Any:
    """A bound as Delta writes it, never narrower than it is; None if it cannot."""
    if pa.types.is_string(type_):
        return _cut(value, upper=upper)
    if pa.types.is_decimal(type_):
        return value
    try:
        if pa.types.is_date32(type_):
            return (_EPOCH + timedelta(days=value)).date().isoformat()
        if pa.types.is_timestamp(type_):
            micros = value * {"s": 1_000_000, "ms": 1000, "us": 1}[type_.unit]
            millis = -(-micros // 1000) if upper else micros // 1000
            text = (_EPOCH + timedelta(milliseconds=millis)).isoformat(timespec="milliseconds")
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


def _put(found: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        found = found.setdefault(name, {})
    found[path[-1]] = value


def _json(value: Any) -> str:
    """JSON in which decimals are numbers with all of their digits."""
    if isinstance(value, dict):
        return f"{{{','.join(f'{json.dumps(name)}:{_json(inner)}' for name, inner in value.items())}}}"
    return f"{value:f}" if isinstance(value, Decimal) else json.dumps(value)
