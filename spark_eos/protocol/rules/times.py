"""The log's time: how far a request may move it, and which time an action is judged by (docs/design/0004).

A request carries the time of its writer's clock, which may be wrong by years. So it moves the log's time ahead by
no more than ``entry.timestamp.after.max.ms``, unless its writer has compared its clock with the store's own
(`Request.clock_checked`). What expires goes by a checked time, or by the log's time before the request: never by an
unchecked clock. Else one wrong clock could make ids and offsets expire that are in use.
"""

from __future__ import annotations

from typing import Any

from spark_eos.errors import InvalidRequestError
from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.declaration import DECLARED, Clock
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.settings import setting
from spark_eos.protocol.state import State


def by_clock(actions: tuple[a.Action, ...]) -> bool:
    """Whether the outcome of these actions depends on the time."""
    return any(DECLARED[type(action)].clock is not Clock.REQUEST for action in actions)


def at(state: State, request: a.Request) -> State:
    """``state`` at the time of the request."""
    now_ms = request.timestamp_ms
    if state.log_id and not request.clock_checked:
        now_ms = min(now_ms, state.timestamp_ms + setting(state, "entry.timestamp.after.max.ms"))
    return replace(state, timestamp_ms=max(state.timestamp_ms, now_ms))


def judge(before: State, state: State, request: a.Request, action: a.Action) -> tuple[State, Any]:
    """Apply the rule of an action to ``state`` at the time that counts for it. ``before`` is before the request."""
    declared = DECLARED[type(action)]
    clock = declared.clock
    if clock is Clock.CHECKED and not request.clock_checked:
        raise InvalidRequestError(
            f"the time of log {state.log_id} is set back by the store's clock alone, and it was not asked"
        )
    if clock is not Clock.IDLE:
        return declared.rule(state, action)
    idle_until = request.timestamp_ms if request.clock_checked else before.timestamp_ms
    after, result = declared.rule(replace(state, timestamp_ms=idle_until), action)
    return replace(after, timestamp_ms=state.timestamp_ms), result
