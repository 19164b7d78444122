"""Records that were sent one by one, in a list until there are enough of them for columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_eos.clients.producer.futures import Outcome
from spark_eos.clients.records import Header
from spark_eos.log.data.arrow import array_from_numpy
from spark_eos.log.data.layout import TIMESTAMP_TYPE
from spark_eos.log.data.timestamps import own_times

WIDTH = 6

_NS_PER_MS = 1_000_000
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Meter:
    """How many bytes wait. `Producer.send` has something to do beside adding a record once there are ``limit``."""

    __slots__ = ("bytes", "limit")

    def __init__(self, limit: int = 0) -> None:
        self.bytes = 0
        self.limit = limit


class RecordBuffer:
    """Records of one topic, and the outcome that they share. Not for several threads at once.

    `Producer.send` adds to ``entries`` itself, by one ``+=``, which no interrupt leaves half done: `WIDTH` items for
    each record, and no object for all of them, which the garbage collector would have to visit. They are its key, its
    value, the time at which it was added in nanoseconds, and what few records have: headers, partition and timestamp.
    Before the first one that has one of these, ``has_more`` is set.
    """

    __slots__ = ("entries", "has_more", "meter", "outcome")

    def __init__(self, is_stuck: Callable[[], bool], meter: Meter) -> None:
        self.outcome = Outcome(is_stuck)
        self.meter = meter
        self.entries: list[Any] = []
        self.has_more = False

    def __len__(self) -> int:
        return len(self.entries) // WIDTH

    def columns(self, clock_ms: int, now_ms: int, limit_ms: int) -> tuple[pa.RecordBatch, pa.Array | None]:
        """The records in the order in which they were added; the partition that each names, None if none does.

        The numbers are those of `spark_eos.log.timekeeping.Timekeeper.stamp_records`.
        """
        count = len(self)
        keys, times = self.entries[0::WIDTH], _milliseconds(self.entries[2::WIDTH])
        own_times(times, clock_ms, now_ms, limit_ms)
        partitions, headers = None, pa.nulls(count, _HEADERS)
        if self.has_more:
            of_headers = self.entries[3::WIDTH]
            if any(of_headers):
                headers = _column_of_headers(of_headers)
            partitions = pa.array(self.entries[4::WIDTH], pa.int32())
            given_ms = pa.array(self.entries[5::WIDTH], pa.int64()).fill_null(-1).to_numpy()
            times = np.where(given_ms < 0, times, given_ms)
        rows = {
            "key": pa.nulls(count, pa.binary()) if keys.count(None) == count else pa.array(keys, pa.binary()),
            "value": pa.array(self.entries[1::WIDTH], pa.binary()),
            "headers": headers,
            "timestamp": array_from_numpy(times, TIMESTAMP_TYPE),
        }
        if partitions is not None and partitions.null_count == count:
            partitions = None
        return pa.record_batch(rows), partitions


def _milliseconds(times_ns: list[int]) -> npt.NDArray[np.int64]:
    try:
        return np.array(times_ns, np.int64) // _NS_PER_MS
    except OverflowError:  # A clock beyond the year 2262: there are more nanoseconds than 64 bits hold.
        return np.array([time_ns // _NS_PER_MS for time_ns in times_ns], np.int64)


def _column_of_headers(listed: list[Sequence[Header] | None]) -> pa.Array:
    """All of them at once: one column of the names, one of the values, and where those of each record begin."""
    pairs = list(chain.from_iterable(filter(None, listed)))
    ends = np.cumsum([len(headers or ()) for headers in listed])
    offsets = pa.array(
        np.append(0, ends).astype(np.int32), mask=np.array([*(not headers for headers in listed), False])
    )
    struct = pa.StructArray.from_arrays(
        [
            pa.array([name for name, _ in pairs], pa.string()),
            pa.array([value for _, value in pairs], pa.binary()),
        ],
        fields=list(_HEADERS.value_type),
    )
    return pa.ListArray.from_arrays(offsets, struct, type=_HEADERS)
