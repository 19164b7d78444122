"""What a log has decided for others, and how a following log looks once that is known. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from spark_eos.errors import DivergedLogError, NotALogError
from spark_eos.protocol.actions.producers import with_offsets
from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import NO_OPEN, Decision, Producer, State
from spark_eos.protocol.types import Decider


def followers(state: State) -> Iterator[tuple[Producer, Decider]]:
    """The producers whose open transaction follows another log, by id."""
    for producer_id in sorted(state.open_transactions):
        producer = state.producers[producer_id]
        if producer.follows is not None:
            yield producer, producer.follows


def decision_of(state: State, decider: Decider, url: str) -> Decision:
    """What the log at ``url`` says of the transaction that ``decider`` names. ``committed`` is None: not decided.

    A log keeps a decision until all have followed it. So one that does not know it is none that can tell: nothing is
    concluded from that.

    Raises
    ------
    NotALogError
        Another log is there.
    DivergedLogError
        The log is not the one that decides, or not any more: it was put back.
    """
    if state.log_id != decider.log_id:
        raise NotALogError(
            f"{url} holds log {state.log_id}, and {decider} decides: tell where that log is now "
            "(Log.register_decider, eoslog transactions resolve --decider)"
        )
    producer = state.producers.get(decider.producer_id)
    decision = None if producer is None else producer.decision
    named_by_decider = (decider.epoch, decider.number, decider.history)
    if (
        decision is None
        or state.seq < decider.seq
        or (decision.epoch, decision.number, decision.history) != named_by_decider
    ):
        raise DivergedLogError(
            f"log {state.log_id} at {url}, entry {state.seq}, does not know {decider}, which it had at entry "
            f"{decider.seq}: it or the log that follows it was put back from a backup or a copy. What was decided is "
            "not known here; look at the other followers, and end it by hand (eoslog transactions force-terminate)"
        )
    return decision


def as_decided(state: State, decided: Mapping[tuple[int, Decider], bool]) -> State:
    """The state as it is to be read: what ``decided`` names has ended, though no entry says so yet.

    There are no control batches, so the end of a partition is that of the log.
    """
    for (producer_id, decider), commit in decided.items():
        producer = state.producers.get(producer_id)
        if producer is None or producer.follows != decider:
            continue
        mark = (producer_id, producer.number)
        with state.partitions.mutate() as partitions:
            for key in producer.touched:
                partition = partitions[key]
                aborted = partition.aborted if commit else partition.aborted.set(mark, True)
                opened = partition.open.delete(producer_id) or NO_OPEN
                partitions[key] = partition._replace(open=opened, aborted=aborted)
            state = replace(state, partitions=partitions.finish())
        if commit:
            state = with_offsets(state, producer)
    return state
