"""The log's time, set back after a wrong clock has driven it ahead (docs/design/0004).

The log's time never goes back by itself, and nothing expires early or late by a clock that jumps. So a clock that was
years ahead once leaves the log's time there, and what expires by it would stay for years.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from immutables import Map

from spark_eos.errors import InvalidRequestError
from spark_eos.protocol.actions.declaration import Bounds, Clock, Field, declare
from spark_eos.protocol.encoding.avro import LONG
from spark_eos.protocol.packed_map import PackedMap
from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import AppVersion, CommittedOffset, Member, Producer, State
from spark_eos.protocol.types import LATEST_MS, TrailNote

_M = TypeVar("_M", Map[Any, Any], PackedMap[Any, Any])
_U = TypeVar("_U", CommittedOffset, AppVersion)


TIME_SET_BACK = "log's time set back"
"""What the trail says of it."""


class ResetLogTime(NamedTuple):
    """The log's time goes back to ``timestamp_ms``, and so does every later time in the state.

    For a log whose time a wrong clock has driven ahead. ``timestamp_ms`` is the time by the store's own clock.
    """

    timestamp_ms: int


def reset(state: State, action: ResetLogTime) -> tuple[State, None]:
    """The log's time goes back; so do the times of what was used after it, as if it were used now."""
    now_ms = action.timestamp_ms
    if not 0 < now_ms < state.timestamp_ms:
        raise InvalidRequestError(
            f"the log's time is {state.timestamp_ms} ms since 1970: it is not ahead of {now_ms}, and stays"
        )
    offsets = {
        group: _mapped(of_group, lambda committed: _until(committed, now_ms))
        for group, of_group in state.offsets.items()
    }
    groups = {
        name: replace(
            group,
            empty_since_ms=min(group.empty_since_ms, now_ms),
            members=_mapped(group.members, lambda member: _member_until(member, now_ms)),
        )
        for name, group in state.groups.items()
    }
    producers = _mapped(state.producers, lambda producer: _producer_until(producer, now_ms))
    new = replace(
        state,
        timestamp_ms=now_ms,
        time_resets=state.time_resets + 1,
        producers=producers,
        offsets=Map(offsets),
        app_versions=_mapped(state.app_versions, lambda version: _until(version, now_ms)),
    )
    trail = tuple(
        event._replace(timestamp_ms=min(event.timestamp_ms, now_ms), first_ms=min(event.first_ms, now_ms))
        for event in state.trail
    )
    return replace(new, groups=Map(groups), trail=trail), None


declare(
    ResetLogTime,
    number=21,
    fields=(Field("timestamp_ms", LONG, bounds=Bounds(-LATEST_MS, LATEST_MS)),),
    rule=reset,
    clock=Clock.CHECKED,
    tell=lambda before, after, _action, _writer: [
        TrailNote(TIME_SET_BACK, "", f"by {before.timestamp_ms - after.timestamp_ms} ms")
    ],
)


def _mapped(values: _M, change: Callable[[Any], Any]) -> _M:
    for key, value in values.items():
        new = change(value)
        if new is not value:
            values = values.set(key, new)
    return values


def _until(used: _U, now_ms: int) -> _U:
    return replace(used, timestamp_ms=now_ms) if used.timestamp_ms > now_ms else used


def _member_until(member: Member, now_ms: int) -> Member:
    return replace(member, joined_ms=now_ms) if member.joined_ms > now_ms else member


def _producer_until(producer: Producer, now_ms: int) -> Producer:
    pending = _mapped(producer.pending, lambda committed: _until(committed, now_ms))
    if max(producer.started_ms, producer.last_ms) <= now_ms and pending is producer.pending:
        return producer
    return replace(
        producer,
        started_ms=min(producer.started_ms, now_ms),
        last_ms=min(producer.last_ms, now_ms),
        pending=pending,
    )
