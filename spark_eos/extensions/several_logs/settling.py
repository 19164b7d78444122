"""What a coordinator before this one has left: followers of its last decision that may not have ended."""

from __future__ import annotations

from spark_eos.clients.producer.member import decider_of
from spark_eos.errors import NotALogError
from spark_eos.log.deciding.following import follow, note
from spark_eos.log.log import Log
from spark_eos.protocol.actions import Action, InitProducer
from spark_eos.protocol.state import Producer, State
from spark_eos.protocol.types import Decider, Follower


def settle(log: Log, transactional_id: str, logs_by_id: dict[str, Log]) -> None:
    """See that all follow the last decision of an id, and note it. ``logs_by_id`` are logs by their ids that are open.

    One that is not prepared after an abort is fenced: its coordinator may be slow, and would prepare it later, when
    the decision is forgotten.
    """
    state = log.follow()
    producer = state.producer_of(transactional_id)
    decision = None if producer is None else producer.decision
    if producer is None or decision is None or decision.committed is None or not decision.waiting:
        return
    decider = decider_of(log, producer.producer_id, decision, state.seq)
    for follower in decision.followers:
        if follower.log_id in decision.waiting:
            _end(
                logs_by_id.get(follower.log_id) or _follower_log(follower),
                follower,
                decider,
                commit=decision.committed,
            )
            note(log, decider, follower.log_id)


def _follower_log(follower: Follower) -> Log:
    log = Log.open(follower.url)
    if log.log_id != follower.log_id:
        raise NotALogError(
            f"{follower.url} holds log {log.log_id}. Log {follower.log_id}, which was there, follows a transaction "
            "that has to end first. Make it a member of the MultiLogProducer, opened where it is now"
        )
    return log


def _end(log: Log, follower: Follower, decider: Decider, *, commit: bool) -> None:
    producer = log.follow().producer_of(follower.transactional_id)
    if producer is not None and _same(producer.follows, decider):
        assert producer.follows is not None
        follow(log.commit, producer, producer.follows, commit=commit)
    elif not commit:

        def propose(state: State) -> tuple[Action, ...]:
            current = state.producer_of(follower.transactional_id)
            if current is None or current.follows is not None or _has_ended(current, decider):
                return ()
            return (
                InitProducer(
                    current.producer_id, current.epoch + 1, current.transactional_id, current.timeout_ms
                ),
            )

        state = log.commit(propose, writer=follower.transactional_id).state
        current = state.producer_of(follower.transactional_id)
        if current is not None and _same(current.follows, decider):
            assert current.follows is not None
            follow(log.commit, current, current.follows, commit=False)


def _has_ended(producer: Producer, decider: Decider) -> bool:
    return producer.prepared is not None and _same(producer.prepared.decider, decider)


def _same(decider: Decider | None, other: Decider) -> bool:
    """Whether both are the same transaction. The entry and the place in them may be others."""
    return decider is not None and decider._replace(seq=0, url="") == other._replace(seq=0, url="")
