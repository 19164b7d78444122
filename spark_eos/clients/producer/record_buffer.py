"""Records that were sent one by one, in lists until there are enough of them for columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from spark_eos.clients.producer.futures import Outcome, SendFuture
from spark_eos.clients.records import Header
from spark_eos.log.data.arrow import array_from_numpy
from spark_eos.log.data.layout import TIMESTAMP_TYPE
from spark_eos.log.data.timestamps import own_times

_NS_PER_MS = 1_000_000
_new = object.__new__
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class RecordBuffer:
    """Records of one topic, and the outcome that they share. Not for several threads at once.

    ``bytes`` is what they take; ``now_ns`` is the clock.
    """

    def __init__(self, is_stuck: Callable[[], bool], now_ns: Callable[[], int]) -> None:
        self.outcome = Outcome(is_stuck)
        self.bytes = 0
        self._now_ns = now_ns
        self._values: list[bytes | None] = []
        self._times_ns: list[int] = []
        """When each was added: milliseconds are made of them all at once."""
        self._keys: list[bytes | None] = []
        """Empty as long as no record has one."""
        # What few records have, by row.
        self._headers: dict[int, tuple[Header, ...]] = {}
        self._partitions: dict[int, int] = {}
        self._timestamps: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._values)

    def add(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] | None,
        partition: int | None,
        timestamp_ms: int | None,
        size: int,
    ) -> SendFuture:
        """One record that takes ``size`` bytes; without ``timestamp_ms`` it is of now."""
        values = self._values
        row = len(values)
        try:
            values.append(value)
            self._times_ns.append(self._now_ns())
            keys = self._keys
            if key is not None and not keys:
                keys.extend([None] * row)
            if key is not None or keys:
                keys.append(key)
            if headers:
                self._headers[row] = tuple(headers)
            if partition is not None:
                self._partitions[row] = partition
            if timestamp_ms is not None:
                self._timestamps[row] = timestamp_ms
            self.bytes += size
        except BaseException:
            self._keep(row)
            raise
        future = _new(SendFuture)
        future.outcome, future.row = self.outcome, row
        return future

    def _keep(self, rows: int) -> None:
        """Forget the record after so many: if an interrupt left half of it, the next one would get the rest."""
        for column in (self._values, self._times_ns, self._keys):
            del column[rows:]
        for by_row in (self._headers, self._partitions, self._timestamps):
            by_row.pop(rows, None)

    def rows(self, clock_ms: int, now_ms: int, limit_ms: int) -> pa.RecordBatch:
        """The records as columns, in the order in which they were added.

        The numbers are those of `spark_eos.log.timekeeping.Timekeeper.stamp_records`.
        """
        return pa.record_batch(
            {
                "key": pa.array(self._keys, pa.binary()) if self._keys else pa.nulls(len(self), pa.binary()),
                "value": pa.array(self._values, pa.binary()),
                "headers": self._column_of_headers(),
                "timestamp": self._column_of_timestamps(clock_ms, now_ms, limit_ms),
            }
        )

    def partitions(self) -> pa.Array | None:
        """The partition that each record names, null if it names none; None if no record does."""
        if not self._partitions:
            return None
        return pa.array(map(self._partitions.get, range(len(self))), pa.int32())

    def _column_of_timestamps(self, clock_ms: int, now_ms: int, limit_ms: int) -> pa.Array:
        try:
            times = np.array(self._times_ns, np.int64) // _NS_PER_MS
        except OverflowError:  # A clock beyond the year 2262: there are more nanoseconds than 64 bits hold.
            times = np.array([time_ns // _NS_PER_MS for time_ns in self._times_ns], np.int64)
        own_times(times, clock_ms, now_ms, limit_ms)
        for row, timestamp_ms in self._timestamps.items():
            times[row] = timestamp_ms
        return array_from_numpy(times, TIMESTAMP_TYPE)

    def _column_of_headers(self) -> pa.Array:
        if not self._headers:
            return pa.nulls(len(self), _HEADERS)
        listed = (self._headers.get(row) for row in range(len(self)))
        return pa.array(
            [headers and [{"key": key, "value": value} for key, value in headers] for headers in listed],
            _HEADERS,
        )
