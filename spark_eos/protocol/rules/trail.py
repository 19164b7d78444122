"""The trail: what was done to the log, and by whom, kept in its state for days, when the entries are long retired.

An action declares what it has to tell (`spark_eos.protocol.actions.declaration.declare`, ``tell``). Nothing is decided
by the trail; but all processes write the same snapshots, so its words are part of the rules. It is bounded: what a
writer does to the same thing again, within an hour of the first time, is one event, which says how often; events older
than ``audit.retention.ms`` go when another one comes, and above `MOST` the oldest ones.
"""

from __future__ import annotations

from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.declaration import DECLARED
from spark_eos.protocol.actions.log import LOG_ALTERED
from spark_eos.protocol.actions.log_time import TIME_SET_BACK
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.joins import MEMBER_JOINED
from spark_eos.protocol.rules.settings import setting
from spark_eos.protocol.rules.takeovers import TAKEN_OVER
from spark_eos.protocol.state import Event, State

MOST = 1000
"""Events that the state has at most."""

_AGAIN_MS = 3_600_000
_NAME, _TEXT = 249, 500

_RESTARTS = frozenset((TAKEN_OVER, MEMBER_JOINED))
"""What programs leave that are only started again: it goes first."""


def added(before: State, state: State, request: a.Request) -> State:
    """``state`` with what the request, which has led to it from ``before``, has to tell."""
    notes = [
        note
        for action in request.actions
        if (tell := DECLARED[type(action)].tell) is not None
        for note in tell(before, state, action, request.writer)
    ]
    if not notes:
        return state
    entry, now_ms, writer = state.seq + 1, state.timestamp_ms, _cut(request.writer, _NAME)
    oldest_ms = now_ms - setting(state, "audit.retention.ms")
    trail = [event for event in state.trail if event.timestamp_ms >= oldest_ms]
    for what, name, text in notes:
        _add(trail, Event(entry, now_ms, writer, what, _cut(name, _NAME), _cut(text, _TEXT), 1, now_ms))
    return replace(state, trail=tuple(trail))


def goes_back_to(state: State, entry: int, timestamp_ms: int) -> bool:
    """Whether all is known that was told after an entry of that time, but for restarts.

    By a shorter ``audit.retention.ms``, or a time that was ahead, more may have gone than what is old by those of now.
    """
    is_old = state.timestamp_ms - timestamp_ms >= setting(state, "audit.retention.ms")
    is_same = not any(
        event.entry > entry and event.what in {LOG_ALTERED, TIME_SET_BACK} for event in state.trail
    )
    return not is_old and is_same and (len(state.trail) < MOST or state.trail[0].entry <= entry)


def _add(trail: list[Event], event: Event) -> None:
    for at in range(len(trail) - 1, -1, -1):
        earlier = trail[at]
        if event.timestamp_ms - earlier.timestamp_ms > _AGAIN_MS:
            break
        if (earlier.what, earlier.name, earlier.writer) == (event.what, event.name, event.writer):
            # From the first time on: else what comes back each half hour is one event for ever.
            if event.timestamp_ms - earlier.first_ms <= _AGAIN_MS:
                del trail[at]
                event = event._replace(times=earlier.times + 1, first_ms=earlier.first_ms)
            break
    trail.append(event)
    if len(trail) > MOST:
        restarts = (at for at, earlier in enumerate(trail) if earlier.what in _RESTARTS)
        del trail[next(restarts, 0)]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
