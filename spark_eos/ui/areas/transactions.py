"""Open transactions: their age, what they hold back, and the call that aborts one."""

from __future__ import annotations

from spark_eos.errors import InvalidRequestError, StorePermissionError
from spark_eos.protocol.actions import Action, InitProducer
from spark_eos.protocol.state import Producer, State, TransactionState
from spark_eos.protocol.types import ProducerStamp
from spark_eos.ui.follower import Follower
from spark_eos.ui.question import Answer, Question, page

__all__ = ["abort", "open_transactions", "overdue", "refuse_abort", "transactional_ids"]

WRITER = "ui"
"""The writer that the entry of an abort names."""

_SHOWN = 100
"""Partitions of one transaction that are listed; all are counted."""


def open_transactions(follower: Follower, question: Question) -> Answer:
    """A page of the open transactions, the longest open first."""
    state, now_ms = follower.state, follower.now_ms()
    found = sorted(
        (state.producers[producer_id] for producer_id in state.open_transactions),
        key=lambda producer: (producer.started_ms, producer.producer_id),
    )
    names = {topic.topic_id: topic.name for topic in state.topics.values()} if found else {}
    return {
        "seq": state.seq,
        **page(question, found, lambda producer: _shown(state, names, producer, now_ms)),
    }


def transactional_ids(follower: Follower, question: Question) -> Answer:
    """A page of all transactional ids, with the last transaction of each."""
    state = follower.state
    wanted = question.text("filter", "").casefold()
    found = sorted(name for name in state.transactional_ids if wanted in name.casefold())

    def row(name: str) -> Answer:
        producer = state.producers[state.transactional_ids[name]]
        return {
            "id": name,
            "producer": producer.producer_id,
            "epoch": producer.epoch,
            "number": producer.number,
            "state": producer.transaction.value,
            "last_ms": producer.last_ms,
            "timeout_ms": producer.timeout_ms,
        }

    return page(question, found, row)


def abort(follower: Follower, question: Question) -> Answer:
    """Abort the very transaction that the person was shown, and fence its producer."""
    transactional_id = question.text("id")
    seen = ProducerStamp(*(question.number(name, least=-1) for name in ("producer", "epoch", "number")))

    def propose(state: State) -> tuple[Action, ...]:
        producer = state.producer_of(transactional_id)
        if producer is None or producer.stamp != seen or producer.transaction is not TransactionState.ONGOING:
            return ()
        return (InitProducer(seen.producer_id, seen.epoch + 1, transactional_id, producer.timeout_ms),)

    log = follower.writer()
    if not propose(log.state):
        raise InvalidRequestError(_ended(transactional_id, seen))
    after = log.commit(propose, writer=WRITER).state.producer_of(transactional_id)
    if after is None or (after.number, after.transaction) != (seen.number, TransactionState.COMPLETE_ABORT):
        raise InvalidRequestError(_ended(transactional_id, seen))
    follower.asked()
    return {"id": transactional_id, "state": after.transaction.value, "epoch": after.epoch}


def _ended(transactional_id: str, seen: ProducerStamp) -> str:
    return f"transaction {seen.number} of {transactional_id!r} is not open any more; nothing was changed"


def refuse_abort(_: Follower, __: Question) -> Answer:
    """What `abort` is while the page only reads."""
    raise StorePermissionError(
        "this page only reads: start it with --allow-writes to abort transactions, or run "
        "`eoslog transactions abort`"
    )


def overdue(state: State, now_ms: int) -> list[Producer]:
    """Open transactions that are past their own timeout, the oldest first."""
    found = (state.producers[one] for one in state.open_transactions)
    late = [one for one in found if now_ms - one.started_ms > one.timeout_ms]
    return sorted(late, key=lambda one: one.started_ms)


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
        "overdue": age_ms > producer.timeout_ms,
        "entry": producer.started_seq,
        "held": sum(place["held"] for place in places),
        "partitions": len(places),
        "places": places[:_SHOWN],
        "groups": sorted({group for group, _, _ in producer.pending})[:_SHOWN],
    }
