"""When producers were fenced, and by whom: a fenced producer that still runs is a zombie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from spark_eos.errors import CorruptRecordError
from spark_eos.log.log import Log
from spark_eos.log.time_travel import Step, replay_what_is_left, state_before
from spark_eos.protocol.actions import ExpireTransaction, InitProducer, Request
from spark_eos.protocol.rules.apply import Rejected, apply, judged_by
from spark_eos.protocol.types import ProducerStamp

__all__ = ["Fence", "Fencing", "fences", "fencings"]


class Fence(NamedTuple):
    """What a request does to a producer: all epochs before ``epoch`` are fenced."""

    producer_id: int
    epoch: int
    why: str


class Fencing(NamedTuple):
    """A producer was fenced: by which entry, at which time, by which writer (its ``client.id``).

    ``epoch`` is the new one: what has a smaller one is refused since. It ``is_restart`` if the producer before had
    nothing open that was aborted, and nothing of it was refused since: a program has ended, and was started again.
    """

    entry: int
    timestamp_ms: int
    transactional_id: str | None
    producer_id: int
    epoch: int
    writer: str
    why: str
    is_restart: bool


def fences(request: Request) -> Iterator[Fence]:
    """The producers that a request fences, if it is accepted. Pure."""
    for action in request.actions:
        if isinstance(action, InitProducer) and action.epoch > 0:
            why = (
                f"query run {action.run_id} began"
                if action.run_id
                else "another producer took over, or an abort"
            )
            yield Fence(action.producer_id, action.epoch, why)
        elif isinstance(action, ExpireTransaction):
            stamp = action.producer
            yield Fence(stamp.producer_id, stamp.epoch + 1, f"transaction {stamp.number} timed out")


def fencings(log: Log, first: int, last: int) -> list[Fencing]:
    """What was fenced in entries ``first`` to ``last``, oldest first.

    It reads each of them; retired ones have nothing, nor have those after a damaged one: `eoslog verify` names it.
    """
    found: list[Fencing] = []
    try:
        for step in replay_what_is_left(log, state_before(log, first), min(last, log.state.seq)):
            if step.entry.seq >= first:
                found = _added(found, step)
    except CorruptRecordError:
        pass
    return found


def _added(found: list[Fencing], step: Step) -> list[Fencing]:
    """Those that were found, with what one more entry tells. Pure."""
    state = judged_by(step.before, step.entry.rules)
    for request in step.entry.requests:
        before, (state, outcome) = state, apply(state, request)
        if isinstance(outcome, Rejected):
            stamps = (getattr(action, "producer", None) for action in request.actions)
            late = [one for one in stamps if isinstance(one, ProducerStamp)]
            found = [
                one._replace(is_restart=False)
                if any(stamp.producer_id == one.producer_id and stamp.epoch < one.epoch for stamp in late)
                else one
                for one in found
            ]
            continue
        for fence in fences(request):
            known, producer = before.producers.get(fence.producer_id), state.producers.get(fence.producer_id)
            if known is None or producer is None or not known.epoch < fence.epoch <= producer.epoch:
                continue  # It was done before.
            aborted = known.is_open and not producer.is_open
            found = [
                *found,
                Fencing(
                    step.entry.seq,
                    request.timestamp_ms,
                    producer.transactional_id,
                    fence.producer_id,
                    fence.epoch,
                    request.writer,
                    f"{fence.why}; it had {'a transaction open' if aborted else 'nothing open'}",
                    not aborted,
                ),
            ]
    return found
