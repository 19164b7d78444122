"""Records that were sent one by one, in lists until there are enough of them for columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from spark_eos.clients.futures import Outcome, SendFuture
from spark_eos.clients.records import Header

__all__ = ["Listed"]

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Listed:
    """Records of one topic, and the outcome that they share. Not for several threads at once.

    ``bytes`` is what they take.
    """

    def __init__(self, is_stuck: Callable[[], bool], now_ms: Callable[[], int]) -> None:
        self.outcome = Outcome(is_stuck)
        self.bytes = 0
        self._now_ms = now_ms
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._timestamps: list[int] = []
        self._headers: dict[int, tuple[Header, ...]] = {}
        self._partitions: dict[int, int] = {}

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
        if timestamp_ms is None:
            timestamp_ms = self._now_ms()
        try:
            values.append(value)
            self._keys.append(key)
            self._timestamps.append(timestamp_ms)
            if headers:
                self._headers[row] = tuple(headers)
            if partition is not None:
                self._partitions[row] = partition
            self.bytes += size
        except BaseException:
            self._keep(row)
            raise
        return SendFuture(self.outcome, row)

    def _keep(self, rows: int) -> None:
        """Forget the record behind so many: if an interrupt left half of it, the next one would get the rest."""
        for column in (self._values, self._keys, self._timestamps):
            del column[rows:]
        self._headers.pop(rows, None)
        self._partitions.pop(rows, None)

    def rows(self) -> pa.RecordBatch:
        """The records as columns, in the order in which they were added."""
        return pa.record_batch(
            {
                "key": pa.array(self._keys, pa.binary()),
                "value": pa.array(self._values, pa.binary()),
                "headers": self._column_of_headers(),
                "timestamp": pa.array(self._timestamps, pa.timestamp("ms", "UTC")),
            }
        )

    def partitions(self) -> pa.Array | None:
        """The partition that each record names, null if it names none; None if no record does."""
        if not self._partitions:
            return None
        return pa.array(map(self._partitions.get, range(len(self))), pa.int32())

    def _column_of_headers(self) -> pa.Array:
        if not self._headers:
            return pa.nulls(len(self), _HEADERS)
        listed = (self._headers.get(row) for row in range(len(self)))
        return pa.array(
            [headers and [{"key": key, "value": value} for key, value in headers] for headers in listed],
            _HEADERS,
        )
