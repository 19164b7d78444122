"""The first page: how the log is, and what needs attention, each with where to look."""

from __future__ import annotations

from spark_eos.extensions.ui.answers import points, spark
from spark_eos.extensions.ui.areas.health import job_of
from spark_eos.extensions.ui.areas.troubles import as_found, troubles
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Answer, Question
from spark_eos.monitoring.places import consumer_groups
from spark_eos.protocol.rules.notes import VERIFY, noted_ms
from spark_eos.protocol.state import State


def pulse(follower: Follower) -> Answer:
    """What is sent to every browser after each poll: small, whatever the log holds."""
    state, series = follower.state, follower.series
    rates = series.log_rates()
    return {
        "version": follower.version,
        "seq": state.seq,
        "time": state.timestamp_ms,
        "read": follower.read_ms,
        "age": follower.age_ms,
        "error": follower.error,
        "topics": len(state.topics),
        "open": len(state.open_transactions),
        "rate": rates[-1].value if rates else 0,
    }


def overview(follower: Follower, _: Question) -> Answer:
    """The log at a glance."""
    state, series, now_ms = follower.state, follower.series, follower.now_ms()
    started = [state.producers[producer_id].started_ms for producer_id in state.open_transactions]
    totals = series.totals.values()
    return {
        **pulse(follower),
        "log_id": state.log_id,
        "partitions": sum(topic.partitions for topic in state.topics.values()),
        "offsets": sum(total.offsets for total in totals),
        "held": sum(total.held for total in totals),
        "groups": len(consumer_groups(state)),
        "queries": len(state.queries),
        "publications": len(state.publications),
        "oldest_ms": max(now_ms - min(started), 0) if started else None,
        "rates": points(series.log_rates()),
        "entry_rates": spark(series.entry_rates()),
        "lag": max(series.group_lags.values(), default=None),
        "unknown": len(series.unknown),
        "query_lag": max(series.query_lags.values(), default=None),
        "attention": _attention(follower, state),
        # As `eoslog status` says what it has not looked at: that is no trouble.
        "unverified": job_of(follower).shown.get("result") is None and noted_ms(state, VERIFY) is None,
    }


def _attention(follower: Follower, state: State) -> list[Answer]:
    """What an operator should look at, the worst first; ``to`` is the view that shows more."""
    hints: list[Answer] = []
    shown = job_of(follower).shown
    result = shown.get("result")
    if result is not None and not result["sound"]:
        count = result["found"]["wrong"]
        hints.append(
            {"level": "bad", "text": f"verify has found {count} damaged or missing objects", "to": "health"}
        )
    hints += [as_found(trouble, state) for trouble in troubles(follower)]
    return hints[:20]
