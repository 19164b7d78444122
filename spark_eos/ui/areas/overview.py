"""The first page: how the log is, and what needs attention, each with where to look."""

from __future__ import annotations

from spark_eos.protocol.state import State
from spark_eos.ui.answers import points, spark
from spark_eos.ui.areas.health import clock_problem, job_of
from spark_eos.ui.areas.transactions import overdue
from spark_eos.ui.follower import Follower
from spark_eos.ui.question import Answer, Question

__all__ = ["overview", "pulse"]

_QUIET_MS = 15 * 60 * 1000
"""A group or query that is behind and has not committed for so long stands still."""


def pulse(follower: Follower) -> Answer:
    """What is sent to every browser after each poll: small, whatever the log holds."""
    state, series = follower.state, follower.series
    rates = series.log_rates()
    return {
        "version": follower.version,
        "seq": state.seq,
        "time": state.timestamp_ms,
        "read": follower.read_ms,
        "now": follower.now_ms(),
        "error": follower.error,
        "topics": len(state.topics),
        "open": len(state.open_transactions),
        "rate": rates[-1].value if rates else 0,
    }


def overview(follower: Follower, _: Question) -> Answer:
    """The log at a glance."""
    state, series, now_ms = follower.state, follower.series, follower.now_ms()
    started = [state.producers[one].started_ms for one in state.open_transactions]
    totals = series.totals.values()
    return {
        **pulse(follower),
        "log_id": state.log_id,
        "partitions": sum(topic.partitions for topic in state.topics.values()),
        "offsets": sum(one.offsets for one in totals),
        "held": sum(one.held for one in totals),
        "groups": len({*state.groups, *state.offsets}),
        "queries": len(state.queries),
        "publications": len(state.publications),
        "oldest_ms": max(now_ms - min(started), 0) if started else None,
        "rates": points(series.log_rates()),
        "entry_rates": spark(series.entry_rates()),
        "lag": max(series.group_lags.values(), default=0),
        "query_lag": max(series.query_lags.values(), default=0),
        "attention": _attention(follower, state, now_ms),
    }


def _attention(follower: Follower, state: State, now_ms: int) -> list[Answer]:
    """What an operator should look at, the worst first; ``to`` is the view that shows more."""
    found: list[Answer] = []
    if follower.error is not None:
        found.append({"level": "bad", "text": follower.error, "to": "health"})
    shown = job_of(follower).shown
    result = shown.get("result")
    if result is not None and not result["sound"]:
        count = result["found"]["wrong"]
        found.append(
            {"level": "bad", "text": f"verify has found {count} damaged or missing objects", "to": "health"}
        )
    late = overdue(state, now_ms)
    for producer in late[:5]:
        held = sum(
            part.end - part.last_stable_offset
            for key in producer.touched
            if (part := state.partitions.get(key)) is not None
            and part.open.get(producer.producer_id) == part.last_stable_offset
        )
        text = (
            f"the transaction of {producer.transactional_id!r} is open for longer than its timeout and holds back "
            f"{held:,} offsets"
        )
        found.append({"level": "bad", "text": text, "to": "transactions"})
    if len(late) > 5:
        found.append(
            {
                "level": "bad",
                "text": f"{len(late) - 5} more transactions are past their timeout",
                "to": "transactions",
            }
        )
    ahead = clock_problem(state, now_ms)
    if ahead is not None:
        found.append({"level": "warn", "text": ahead, "to": "health"})
    found += _standing(follower, state, now_ms)
    for name in sorted(state.publications):
        if state.publications[name].begun is not None and state.publications[name].published is not None:
            text = f"publication {name!r} has a version that is not in all tables yet"
            found.append({"level": "note", "text": text, "to": "publications"})
    return found[:20]


def _standing(follower: Follower, state: State, now_ms: int) -> list[Answer]:
    """Groups and queries that are behind and have not moved for a while, those with the largest lag."""
    found: list[Answer] = []
    lags = sorted(follower.series.group_lags.items(), key=lambda one: -one[1])
    for name, lag in lags[:50]:
        offsets = state.offsets.get(name)
        if lag and offsets:
            last_ms = max(at.timestamp_ms for at in offsets.values())
            if now_ms - last_ms > _QUIET_MS:
                minutes = (now_ms - last_ms) // 60_000
                text = f"group {name!r} is {lag:,} offsets behind and has committed nothing for {minutes:,} minutes"
                found.append({"level": "warn", "text": text, "to": "group", "name": name})
    for name, lag in sorted(follower.series.query_lags.items(), key=lambda one: -one[1])[:50]:
        producer = state.producer_of(name)
        if lag and producer is not None and now_ms - producer.last_ms > _QUIET_MS:
            minutes = (now_ms - producer.last_ms) // 60_000
            text = (
                f"query {name!r} is {lag:,} offsets behind and has committed nothing for {minutes:,} minutes"
            )
            found.append({"level": "warn", "text": text, "to": "query", "name": name})
    return found[:8]
