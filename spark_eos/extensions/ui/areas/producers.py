"""Producers by transactional id, and by whom earlier ones of an id were fenced: zombies, if they still run."""

from __future__ import annotations

from collections import defaultdict

from spark_eos.extensions.ui.areas.audit import shown
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Answer, Question, page
from spark_eos.protocol.rules.takeovers import FENCED, TAKEN_OVER, TIMED_OUT
from spark_eos.protocol.state import Producer

_SHOWN = 10
"""Fencings of one producer that are shown at most, the newest ones: `eoslog audit` has all."""


def producers(follower: Follower, question: Question) -> Answer:
    """A page of all transactional ids with the last transaction of each, the last used first."""
    state = follower.state
    substring = question.text("filter", "", most=1000).casefold()
    order = question.choice("sort", ("last", "name", "epoch"))
    matches = [
        state.producers[producer_id]
        for name, producer_id in state.transactional_ids.items()
        if substring in name.casefold()
    ]
    matches.sort(key=lambda producer: producer.transactional_id or "")
    if order == "last":
        matches.sort(key=lambda producer: -producer.last_ms)
    elif order == "epoch":
        matches.sort(key=lambda producer: -producer.epoch)

    fencings: dict[str, list[Answer]] = defaultdict(list)
    for event in reversed(state.trail):
        if event.what in {FENCED, TIMED_OUT, TAKEN_OVER} and len(fencings[event.name]) < _SHOWN:
            fencings[event.name].append(shown(event))

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
            "fencings": fencings.get(producer.transactional_id or "", []),
        }

    return page(question, matches, row)
