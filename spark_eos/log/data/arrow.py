"""Arrow arrays straight from numbers, rows taken by their numbers, and how large they are.

``pa.array`` and ``pa.scalar`` import pandas before they do anything: 0.3 s in every new worker of Spark, and 30,000
objects more for each of its garbage collections.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_eos.errors import InvalidRequestError

_LENGTH_BYTES = 4

Bytes: TypeAlias = "int | npt.NDArray[Any]"
"""One number if it is the same for all."""


def array_from_numpy(values: npt.NDArray[Any], type_: pa.DataType) -> pa.Array:
    """An array of ``type_``, none of them null, in the memory of ``values``: as wide as the type, without gaps."""
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(values)])


def constant_array(value: int | str, type_: pa.DataType, count: int) -> pa.Array:
    """``count`` times the same value: of text, or of a type that holds whole numbers.

    Raises `InvalidRequestError` for more text than one array can have: its offsets would go round.
    """
    if isinstance(value, int):
        return array_from_numpy(np.full(count, value, f"i{type_.bit_width // 8}"), type_)
    text = value.encode()
    if len(text) * count >= 2**31:
        raise InvalidRequestError(
            f"{count:,} rows with the text {value!r} in each are more than the 2 GiB that one array of Arrow can have: "
            "leave out the column that has it, such as topic"
        )
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(len(text))
    return pa.Array.from_buffers(type_, count, [None, pa.py_buffer(ends), pa.py_buffer(text * count)])


def take_rows(batch: pa.RecordBatch, order: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The rows of ``batch`` whose numbers are ``order``, in that order; none of them twice.

    Raises `IndexError` for the number of a row that is not there.
    """
    rows = array_from_numpy(order, pa.int64())
    columns = []
    for column in batch.columns:
        width = _width(column)
        columns.append(_of_width(column, width, rows) if width else column.take(rows))
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def size_of(rows: pa.Table | pa.RecordBatch) -> int:
    """How many bytes rows of any type have."""
    try:
        size = rows.nbytes
    except pa.ArrowTypeError:  # An older pyarrow cannot tell it of views.
        size = rows.get_total_buffer_size()
    return int(size)


def bytes_of_rows(column: pa.Array) -> Bytes:
    """How many bytes each row has in it. The types are those in which rows are stored.

    A null has none; text and bytes have as many as there are; all else is as wide as its type. In lists, maps and
    structs each text, bytes and list has 4 more, for its length, and a null is as wide as its type.
    """
    sizes: Bytes
    if _is_text(column.type):
        sizes = np.diff(_offsets(column))
    else:
        sizes = _ends(column)
        if not isinstance(sizes, int):
            sizes = np.diff(sizes) - (0 if pa.types.is_struct(column.type) else _LENGTH_BYTES)
    if column.null_count:
        sizes = sizes * np.from_dlpack(column.is_valid().cast(pa.int64()))
    return sizes


def _ends(column: pa.Array) -> Bytes:
    """How many bytes there are before each value, and after the last one; or, if they all have as many, how many."""
    types, type_, count = pa.types, column.type, len(column)
    if types.is_struct(type_):
        parts = [_ends(column.field(at)) for at in range(type_.num_fields)]
        if all(isinstance(part, int) for part in parts):
            return int(sum(parts))
        return sum((_risen(part, count) for part in parts), np.zeros(count + 1, np.int64))
    if not _is_text(type_) and not types.is_list(type_) and not types.is_map(type_):
        return max(int(type_.bit_width) // 8, 1)
    offsets = _offsets(column)
    first = int(offsets[0])
    until = offsets.astype(np.int64) - first
    if not _is_text(type_):
        inner = _ends(column.values.slice(first, int(until[-1])))
        until = until * inner if isinstance(inner, int) else inner[until]
    return until + _risen(_LENGTH_BYTES, count)


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))


def _offsets(column: pa.Array) -> npt.NDArray[np.int32]:
    """Where each value begins, and the last one ends."""
    if not len(column):
        return np.zeros(1, np.int32)
    return np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]


def _risen(each: Bytes, count: int) -> npt.NDArray[np.int64]:
    return np.arange(count + 1) * each if isinstance(each, int) else each


def _width(column: pa.Array) -> int:
    """How many bytes each value has, if it is text or bytes and they all have as many; else 0."""
    if not _is_text(column.type) or not len(column) or column.null_count:
        return 0
    ends = _offsets(column)
    width = int(ends[1] - ends[0])
    # Most columns are told apart by their ends alone.
    if ends[-1] - ends[0] != width * len(column) or (np.diff(ends) != width).any():
        return 0
    return width


def _of_width(column: pa.Array, width: int, rows: pa.Array) -> pa.Array:
    """`take` of values that all have ``width`` bytes: Arrow needs half the time where it need not look for them."""
    _, ends, data = column.buffers()
    start = int(np.frombuffer(ends, np.int32)[column.offset])
    fixed = pa.Array.from_buffers(pa.binary(width), len(column), [None, data.slice(start)])
    ends = np.arange(len(rows) + 1, dtype=np.int32) * np.int32(width)
    return pa.Array.from_buffers(
        column.type, len(rows), [None, pa.py_buffer(ends), fixed.take(rows).buffers()[1]]
    )
