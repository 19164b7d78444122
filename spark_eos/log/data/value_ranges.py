"""Values that not every reader can show.

Times outside of the years 1 to 9999, where Python's ``datetime`` ends, and headers without a name, which Kafka does not
have.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eos.protocol.types import EARLIEST_MS, LATEST_MS

_SECONDS = (EARLIEST_MS // 1000, LATEST_MS // 1000 + 1)
"""The first second of year 1, and the one after year 9999."""

_DAYS = (EARLIEST_MS // 86_400_000, LATEST_MS // 86_400_000)
"""The first day of year 1 and the last one of year 9999, since 1970."""

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def has_times(type_: pa.DataType) -> bool:
    """Whether values of this type hold dates or timestamps, however deep."""
    if pa.types.is_timestamp(type_) or pa.types.is_date32(type_):
        return True
    return any(has_times(type_.field(at).type) for at in range(type_.num_fields))


def outside(array: pa.Array) -> str | None:
    """What lies outside of the years 1 to 9999 among the values of ``array``, or in them; None if nothing does."""
    for times in _times(array):
        if pa.types.is_date32(times.type):
            numbers, (low, high), unit = times.view(pa.int32()), _DAYS, "days"
        else:
            scale = _PER_SECOND[times.type.unit]
            numbers, unit = times.view(pa.int64()), times.type.unit
            low, high = _SECONDS[0] * scale, _SECONDS[1] * scale - 1
        for value in least_and_most(numbers):
            if value is not None and not low <= value <= high:
                return f"{value} {unit} since 1970"
    return None


def least_and_most(numbers: pa.Array | pa.ChunkedArray) -> tuple[int | None, int | None]:
    """The least and the largest of whole numbers; None if there are none, or nulls alone."""
    if len(numbers) and not numbers.null_count:  # A third of the time for one row, and for many.
        values = numbers.to_numpy()
        return values.min().item(), values.max().item()
    bounds = pc.min_max(numbers).as_py()
    return bounds["min"], bounds["max"]


def first_without_name(headers: pa.Array | pa.ChunkedArray) -> int | None:
    """The number of the first row with a header that is null, or whose name is; None if there is none."""
    first = 0
    for chunk in headers.chunks if isinstance(headers, pa.ChunkedArray) else [headers]:
        names = chunk.flatten().flatten()[0]  # Of a header that is null, the name is.
        if names.null_count:
            at = pc.index(names.is_null(), True).as_py()
            lengths = pc.list_value_length(chunk).fill_null(0).to_numpy(zero_copy_only=False)
            return first + int(np.searchsorted(np.cumsum(lengths), at, side="right"))
        first += len(chunk)
    return None


def _times(array: pa.Array) -> Iterator[pa.Array]:
    """The dates and timestamps in ``array``, without those inside of values that are null."""
    type_ = array.type
    if pa.types.is_timestamp(type_) or pa.types.is_date32(type_):
        yield array
    elif not has_times(type_):
        return
    elif pa.types.is_struct(type_):
        for child in array.flatten():
            yield from _times(child)
    else:
        if pa.types.is_map(type_):
            entry = pa.struct([type_.key_field, type_.item_field])
            array = array.cast(pa.list_(pa.field("entries", entry, nullable=False)))
        yield from _times(array.flatten())
