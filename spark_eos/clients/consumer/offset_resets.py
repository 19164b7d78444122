"""Where ``kafka-consumer-groups.sh --reset-offsets`` puts a group: one way to choose, offsets in range."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from spark_eos.config.durations import parse_duration_ms
from spark_eos.config.isolation import Isolation
from spark_eos.config.values import NotAllowedError
from spark_eos.errors import ConfigError, InvalidRequestError
from spark_eos.log.data.planner import partition_of
from spark_eos.log.log import Log
from spark_eos.protocol.state import State
from spark_eos.protocol.types import TopicPartition

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Reset(NamedTuple):
    """The way to choose new offsets: exactly one field is set."""

    to_earliest: bool = False
    to_latest: bool = False
    to_current: bool = False
    to_offset: int | None = None
    shift_by: int | None = None
    to_datetime: int | datetime | None = None
    by_duration: str | timedelta | None = None

    def check(self) -> Reset:
        """Raise `ConfigError` unless exactly one way is named."""
        names = [
            name
            for name, value in zip(self._fields, self, strict=True)
            if value is not None and value is not False
        ]
        if len(names) != 1:
            raise ConfigError(
                f"reset_group_offsets takes exactly one of {', '.join(self._fields)}; given: "
                f"{', '.join(names) or 'none'}"
            )
        return self


def at_time(reset: Reset, now_ms: Callable[[], int]) -> int | None:
    """The time (milliseconds since the epoch) that ``reset`` asks for, or None if it is not about time.

    ``now_ms`` may ask the store: it is called only if it counts.
    """
    if reset.by_duration is not None:
        return now_ms() - _duration_ms(reset.by_duration)
    if isinstance(reset.to_datetime, datetime):
        if reset.to_datetime.tzinfo is None:
            raise ConfigError(f"to_datetime={reset.to_datetime}: say in which time zone (tzinfo)")
        return -(
            (_EPOCH - reset.to_datetime) // timedelta(milliseconds=1)
        )  # A record is not before the time.
    return reset.to_datetime


def chosen_offset(
    reset: Reset, state: State, group: str, at: TopicPartition, time_offsets: Mapping[TopicPartition, int]
) -> int:
    """The new offset of one partition, inside its range. ``time_offsets`` has the offsets for the time asked for.

    Raises `InvalidRequestError` where there is nothing to shift.
    """
    partition = partition_of(state, at)
    # Not the end, which Kafka's tool takes: records of an open transaction lie before it, and a group that is
    # put after them would never see them.
    latest = partition.last_stable_offset
    committed = state.offset_of(group, *at)
    if reset.to_earliest:
        offset = partition.start
    elif reset.to_offset is not None:
        offset = reset.to_offset
    elif reset.to_current:
        offset = latest if committed is None else committed.offset
    elif reset.shift_by is not None:
        if committed is None:
            raise InvalidRequestError(
                f"group {group!r} has committed nothing for {at}: there is no offset to shift. Nothing was changed"
            )
        offset = committed.offset + reset.shift_by
    else:
        offset = time_offsets.get(at, latest)
    return min(max(offset, partition.start), partition.end)


def offsets_at(log: Log, partitions: list[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
    """The first committed record at or after a time (milliseconds since the epoch), where there is one."""
    offsets = {}
    for at in partitions:
        record = log.offset_for_time(at, time_ms, Isolation.READ_COMMITTED)
        if record is not None:
            offsets[at] = record[0]
    return offsets


def _duration_ms(duration: str | timedelta) -> int:
    if isinstance(duration, str):
        try:
            return parse_duration_ms(duration)
        except NotAllowedError as error:
            raise ConfigError(f"by_duration={duration!r}: {error}") from None
    if duration < timedelta():
        raise ConfigError(f"by_duration={duration}: a duration cannot be negative")
    return duration // timedelta(milliseconds=1)
