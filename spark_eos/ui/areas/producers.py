"""Producers by transactional id, and by whom earlier ones of an id were fenced: zombies, if they still run."""

from __future__ import annotations

from spark_eos.protocol.state import Producer
from spark_eos.ui.areas.history import oldest_entry, shown_entries
from spark_eos.ui.follower import Follower
from spark_eos.ui.question import Answer, Question, page

__all__ = ["fencings", "producers"]

_SEARCHED = 200
"""Entries that one call reads at most. A search that has not ended says where to go on."""


def producers(follower: Follower, question: Question) -> Answer:
    """A page of all transactional ids with the last transaction of each, the last used first."""
    state = follower.state
    wanted = question.text("filter", "", most=1000).casefold()
    order = question.choice("sort", ("last", "name", "epoch"))
    found = [
        state.producers[producer_id]
        for name, producer_id in state.transactional_ids.items()
        if wanted in name.casefold()
    ]
    found.sort(key=lambda one: one.transactional_id or "")
    if order == "last":
        found.sort(key=lambda one: -one.last_ms)
    elif order == "epoch":
        found.sort(key=lambda one: -one.epoch)

    def row(producer: Producer) -> Answer:
        return {
            "id": producer.transactional_id,
            "producer": producer.producer_id,
            "epoch": producer.epoch,
            "number": producer.number,
            "state": producer.transaction.value,
            "last_ms": producer.last_ms,
            "timeout_ms": producer.timeout_ms,
            "query": producer.transactional_id in state.queries,
            "run": producer.run_id or "",
        }

    return page(question, found, row)


def fencings(follower: Follower, question: Question) -> Answer:
    """When the producers of a transactional id were fenced, newest first, and which writer did it.

    It looks at entries up to ``until`` (the newest), and says where to go on (``next``). Epoch 0 fenced nothing, so the
    search is done when it has found epoch 1.
    """
    state = follower.state
    producer = state.producer_of(question.text("id"))
    until = min(question.number("until", state.seq), state.seq)
    oldest = max(oldest_entry(follower), 1)
    first = max(until - _SEARCHED + 1, oldest)
    found = [
        {
            "entry": row["seq"],
            "time": row["time"],
            "judged": row["judged"],
            **{name: one[name] for name in ("epoch", "writer", "why")},
        }
        for row in shown_entries(follower, first, until)
        for one in row.get("fences", ())
        if producer is not None and one["producer"] == producer.producer_id
    ]
    begun = producer is None or producer.epoch == 0 or any(one["epoch"] == 1 for one in found)
    return {
        "rows": found,
        "searched": max(until - first + 1, 0),
        "next": first - 1,
        "retired": oldest > 1 and first <= oldest and not begun,
        "done": begun or first <= oldest,
    }
