"""Timestamps of records, held against the time that it is: Kafka's ``message.timestamp.after.max.ms`` (KIP-937).

A record from the next century would keep its neighbours from retention, and lead a reader that starts at a time astray.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_eos.errors import InvalidTimestampError
from spark_eos.log.clock import Clock
from spark_eos.log.data.value_ranges import least_and_most
from spark_eos.log.topics import config_value
from spark_eos.protocol.state import Topic
from spark_eos.protocol.types import LATEST_MS

_AFTER, _BEFORE = "message.timestamp.after.max.ms", "message.timestamp.before.max.ms"

_MS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
"""Milliseconds in a unit, and how many of it one has."""


class TimestampBounds:
    """What a topic allows. ``now_ms`` is asked as seldom as possible: with each answer more is allowed, not less."""

    def __init__(self, topic: Topic, now_ms: Callable[[], int]) -> None:
        self._topic = topic.name
        self._after = config_value(topic, _AFTER, int)
        self._before = config_value(topic, _BEFORE, int)
        self._is_one_sided = _BEFORE not in topic.config
        self._now_ms = now_ms
        self.certain_ms = -1
        """Up to here, from 0 on, all are allowed without a look at the time."""

    def check(self, *timestamps_ms: int) -> None:
        """Raise `InvalidTimestampError` for one that is out of bounds."""
        if max(timestamps_ms) <= self.certain_ms:
            return
        now_ms = self._now_ms()
        latest_ms = now_ms + self._after
        if self._is_one_sided:
            self.certain_ms = min(latest_ms, LATEST_MS)
        for timestamp_ms in timestamps_ms:
            if timestamp_ms > latest_ms:
                raise self._error(timestamp_ms, now_ms, f"{_AFTER}={self._after}", "ahead of")
            if timestamp_ms < now_ms - self._before:
                raise self._error(timestamp_ms, now_ms, f"{_BEFORE}={self._before}", "behind")

    def check_column(self, times: pa.Array | pa.ChunkedArray) -> None:
        """The same for a column of timestamps; null is the time of writing."""
        least, most = least_and_most(times.cast(pa.int64()))
        if least is not None and most is not None:
            times_ms, parts = _MS[times.type.unit]
            self.check(least * times_ms // parts, most * times_ms // parts)

    def _error(self, timestamp_ms: int, now_ms: int, setting: str, where: str) -> InvalidTimestampError:
        return InvalidTimestampError(
            f"a record for topic {self._topic!r} has the timestamp {timestamp_ms} ({_shown(timestamp_ms)}), further "
            f"{where} now ({_shown(now_ms)}) than {setting} allows. Set the clock that it comes from, leave the "
            "timestamp out, or change the topic's setting"
        )


def going_on(start_ms: int, clock: Clock) -> Callable[[], int]:
    """The time from ``start_ms``, now, on: by the monotonic clock."""
    started = clock.monotonic()
    return lambda: start_ms + int((clock.monotonic() - started) * 1000)


def own_times(times_ms: npt.NDArray[np.int64], clock_ms: int, now_ms: int, limit_ms: int) -> None:
    """Replace what a wrong clock gave to records that came without a timestamp by the time that it is.

    A clock that is wrong now may have been so all the time; one that is right may have been ahead before.
    """
    wrong = times_ms > now_ms + limit_ms
    if abs(clock_ms - now_ms) > limit_ms:
        wrong |= times_ms < now_ms - limit_ms
    times_ms[wrong] = now_ms


def _shown(timestamp_ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(timestamp_ms // 1000, timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return "in no calendar"
