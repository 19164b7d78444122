"""Rows picked by their numbers, as `pyarrow.RecordBatch.take` does; values that are equally long by a shorter way."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_eos.log.data.arrow import array_from_numpy

__all__ = ["take_rows"]


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


def _width(column: pa.Array) -> int:
    """How many bytes each value has, if it is text or bytes and they all have as many; else 0."""
    types = pa.types
    if not (types.is_binary(column.type) or types.is_string(column.type)):
        return 0
    if not len(column) or column.null_count:
        return 0
    ends = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
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
