"""The log's time: how far a request may move it, what expires by it, and how it is set back.

A request says what time it is by its writer's clock, which may be wrong by years. So it moves the log's time ahead by
no more than ``entry.timestamp.after.max.ms``, unless its writer has compared its clock with the store's own
(`Request.clock_checked`). What expires goes by a checked time, or by the log's time before the request: never by an
unchecked clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from immutables import Map

from spark_eos.errors import InvalidRequestError
from spark_eos.protocol import actions as a
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.settings import setting
from spark_eos.protocol.state import CommittedOffset, Producer, State
from spark_eos.protocol.types import LATEST_MS

__all__ = ["at", "by_clock", "judge", "reset"]

_BY_CLOCK = (a.ExpireProducers, a.ExpireTransactionalIds, a.ExpireOffsets)

_K = TypeVar("_K")
_V = TypeVar("_V")


def by_clock(actions: tuple[a.Action, ...]) -> bool:
    """Whether what is asked for depends on what time it is."""
    return any(isinstance(action, (*_BY_CLOCK, a.ResetLogTime)) for action in actions)


def at(state: State, request: a.Request) -> State:
    """``state`` at the time of the request."""
    now_ms = request.timestamp_ms
    if state.rules >= 2:
        now_ms = min(now_ms, LATEST_MS)
        if state.log_id and not request.clock_checked:
            now_ms = min(now_ms, state.timestamp_ms + setting(state, "entry.timestamp.after.max.ms"))
    return replace(state, timestamp_ms=max(state.timestamp_ms, now_ms))


def judge(
    rule: Callable[[State, Any], tuple[State, Any]],
    before: State,
    state: State,
    request: a.Request,
    action: a.Action,
) -> tuple[State, Any]:
    """Apply the rule to ``state``, on the way from that ``before`` the request, at the time that counts for it."""
    if isinstance(action, a.ResetLogTime) and not request.clock_checked:
        raise InvalidRequestError(
            f"the time of log {state.log_id} is set back by the store's clock alone, and it was not asked"
        )
    if before.rules < 2 or not isinstance(action, _BY_CLOCK):
        return rule(state, action)
    idle_until = request.timestamp_ms if request.clock_checked else before.timestamp_ms
    after, result = rule(replace(state, timestamp_ms=idle_until), action)
    return replace(after, timestamp_ms=state.timestamp_ms), result


def reset(state: State, action: a.ResetLogTime) -> tuple[State, None]:
    """The log's time goes back; so do the times of what was used after it, as if it were used now."""
    now_ms = action.timestamp_ms
    if not 0 < now_ms < state.timestamp_ms:
        raise InvalidRequestError(
            f"the log's time is {state.timestamp_ms} ms since 1970: it is not ahead of {now_ms}, and stays"
        )
    offsets = {
        group: _mapped(known, lambda one: _offset_until(one, now_ms))
        for group, known in state.offsets.items()
    }
    groups = {
        name: replace(group, empty_since_ms=min(group.empty_since_ms, now_ms))
        for name, group in state.groups.items()
    }
    producers = _mapped(state.producers, lambda one: _producer_until(one, now_ms))
    new = replace(
        state,
        timestamp_ms=now_ms,
        time_resets=state.time_resets + 1,
        producers=producers,
        offsets=Map(offsets),
    )
    return replace(new, groups=Map(groups)), None


def _mapped(known: Map[_K, _V], change: Callable[[_V], _V]) -> Map[_K, _V]:
    with known.mutate() as changed:
        for key, value in known.items():
            new = change(value)
            if new is not value:
                changed[key] = new
    return changed.finish()


def _offset_until(known: CommittedOffset, now_ms: int) -> CommittedOffset:
    return replace(known, timestamp_ms=now_ms) if known.timestamp_ms > now_ms else known


def _producer_until(producer: Producer, now_ms: int) -> Producer:
    pending = _mapped(producer.pending, lambda one: _offset_until(one, now_ms))
    if max(producer.started_ms, producer.last_ms) <= now_ms and pending is producer.pending:
        return producer
    return replace(
        producer,
        started_ms=min(producer.started_ms, now_ms),
        last_ms=min(producer.last_ms, now_ms),
        pending=pending,
    )
