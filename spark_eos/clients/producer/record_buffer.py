"""Records that were sent one by one, in a list until there are enough of them for columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_eos.clients.producer.futures import Outcome
from spark_eos.clients.records import Header
from spark_eos.log.data.arrow import array_from_numpy
from spark_eos.log.data.layout import TIMESTAMP_TYPE
from spark_eos.log.data.timestamps import own_times

__all__ = ["Meter", "RecordBuffer"]

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

    `Producer.send` adds to ``entries`` itself, by one ``+=``, which no interrupt leaves half done: three items for each
    record. They are its key, its value, and the time at which it was added in nanoseconds: milliseconds are made of
    them all at once. Of the few records that have more, the third is a tuple of this time, headers, partition and
    timestamp; then ``has_more`` was set before.
    """

    __slots__ = ("entries", "has_more", "meter", "outcome")

    def __init__(self, is_stuck: Callable[[], bool], meter: Meter) -> None:
        self.outcome = Outcome(is_stuck)
        self.meter = meter
        self.entries: list[object] = []
        self.has_more = False

    def __len__(self) -> int:
        return len(self.entries) // 3

    def columns(self, clock_ms: int, now_ms: int, limit_ms: int) -> tuple[pa.RecordBatch, pa.Array | None]:
        """The records in the order in which they were added; the partition that each names, None if none does.

        The numbers are those of `spark_eos.log.timekeeping.Timekeeper.stamp_records`.
        """
        count = len(self)
        keys, times_ns = self.entries[0::3], self.entries[2::3]
        partitions, headers = None, pa.nulls(count, _HEADERS)
        given_ms: npt.NDArray[np.int64] | None = None
        if self.has_more:
            more = [at if type(at) is tuple else (at, None, None, None) for at in times_ns]
            times_ns, of_headers, of_partitions, of_timestamps = map(list, zip(*more, strict=True))
            headers = _column_of_headers(of_headers)
            partitions = pa.array(of_partitions, pa.int32())
            given_ms = pa.array(of_timestamps, pa.int64()).fill_null(-1).to_numpy()
        times = _milliseconds(times_ns)
        own_times(times, clock_ms, now_ms, limit_ms)
        if given_ms is not None:
            times = np.where(given_ms < 0, times, given_ms)
        rows = {
            "key": pa.nulls(count, pa.binary()) if keys.count(None) == count else pa.array(keys, pa.binary()),
            "value": pa.array(self.entries[1::3], pa.binary()),
            "headers": headers,
            "timestamp": array_from_numpy(times, TIMESTAMP_TYPE),
        }
        return pa.record_batch(
            rows
        ), None if partitions is None or partitions.null_count == count else partitions


def _milliseconds(times_ns: list[object]) -> npt.NDArray[np.int64]:
    try:
        return np.array(times_ns, np.int64) // _NS_PER_MS
    except OverflowError:  # A clock beyond the year 2262: there are more nanoseconds than 64 bits hold.
        return np.array([time_ns // _NS_PER_MS for time_ns in times_ns], np.int64)  # type: ignore[operator]


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
