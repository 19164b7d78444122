"""Open transactions: their age, and what they hold back."""

from __future__ import annotations

from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Answer, Question, page
from spark_eos.protocol.state import Producer, State

_SHOWN = 100
"""Partitions of one transaction that are listed; all are counted."""

_SORTS = ("id", "age_ms", "timeout_ms", "started_ms", "held")


def open_transactions(follower: Follower, question: Question) -> Answer:
    """A page of the open transactions, the longest open first."""
    state, now_ms = follower.state, follower.now_ms()
    producers = sorted(
        (state.producers[producer_id] for producer_id in state.open_transactions),
        key=lambda producer: (producer.started_ms, producer.producer_id),
    )
    names = {topic.topic_id: topic.name for topic in state.topics.values()} if producers else {}
    return {
        "seq": state.seq,
        **page(question, producers, lambda producer: _shown(state, names, producer, now_ms), _SORTS),
    }


def _shown(state: State, names: dict[str, str], producer: Producer, now_ms: int) -> Answer:
    places: list[Answer] = []
    for key in producer.touched:
        part = state.partitions.get(key)
        if part is None or producer.producer_id not in part.open:
            continue
        first = part.open[producer.producer_id]
        places.append(
            {
                "topic": names.get(key[0], key[0]),
                "partition": key[1],
                "first": first,
                # It decides where committed readers stop only if no older transaction does.
                "held": part.end - first if first == part.last_stable_offset else 0,
            }
        )
    places.sort(key=lambda place: (-place["held"], place["topic"], place["partition"]))
    age_ms = max(now_ms - producer.started_ms, 0)
    return {
        "id": producer.transactional_id or "",
        "producer": producer.producer_id,
        "epoch": producer.epoch,
        "number": producer.number,
        "query": producer.transactional_id in state.queries,
        "started_ms": producer.started_ms,
        "last_ms": producer.last_ms,
        "age_ms": age_ms,
        "timeout_ms": producer.timeout_ms,
        "overdue": producer.has_timeout and age_ms > producer.timeout_ms,
        "entry": producer.started_seq,
        "held": sum(place["held"] for place in places),
        "partitions": len(places),
        "places": places[:_SHOWN],
        "groups": sorted({group for group, _, _ in producer.pending})[:_SHOWN],
    }
