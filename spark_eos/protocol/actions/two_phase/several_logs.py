"""One transaction in several logs: one log decides, the others follow (docs/design/0014).

The deciding log names the followers in its open transaction, whose end is the decision. Each follower has a prepared
transaction that names the deciding one (`PrepareTransaction.decider`), and ends as that did. The decision is kept until
each follower's end is noted, and the producer decides nothing else before: so a transaction that is not the newest
decision of its producer has no follower that still needs to know.
"""

from __future__ import annotations

from typing import NamedTuple

from spark_eos.errors import InvalidPidMappingError, InvalidRequestError, InvalidTxnStateError
from spark_eos.protocol.actions.declaration import Bounds, Effects, Fate, Field, declare
from spark_eos.protocol.actions.producers import complete, require_transaction
from spark_eos.protocol.encoding.avro import BOOLEAN, BYTES, STRING, array_of
from spark_eos.protocol.encoding.values import DECIDER, FOLLOWERS, STAMP
from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import Decision, State
from spark_eos.protocol.types import Decider, Follower, ProducerStamp

MAX_FOLLOWERS = 1000
"""Logs that follow one transaction."""


class AddFollowers(NamedTuple):
    """The transaction that ``producer`` names decides for these logs too. It begins here if it has not begun."""

    producer: ProducerStamp
    followers: tuple[Follower, ...]


def add_followers(state: State, action: AddFollowers) -> tuple[State, Decision]:
    """Name the followers, once. The result is the decision, which has not been made."""
    stamp, logs = action.producer, tuple(follower.log_id for follower in action.followers)
    if not logs or len(set(logs)) < len(logs) or state.log_id in logs:
        raise InvalidRequestError(
            f"the followers of a transaction of log {state.log_id} are other logs, each named once; these are: "
            f"{', '.join(logs) or 'none'}"
        )
    state, producer = require_transaction(state, stamp)
    last = producer.decision
    if last is not None and last.committed is None:
        raise InvalidTxnStateError(
            f"transaction {stamp.number} of transactional.id {producer.transactional_id!r} has its followers already"
        )
    if last is not None and last.waiting:
        raise InvalidTxnStateError(
            f"transaction {stamp.number} of transactional.id {producer.transactional_id!r} cannot decide for other "
            f"logs before all have followed transaction {last.number}. Not noted yet: {', '.join(last.waiting)}"
        )
    decision = Decision(producer.epoch, stamp.number, state.lineage, action.followers, logs)
    producer = replace(producer, decision=decision)
    return replace(state, producers=state.producers.set(stamp.producer_id, producer)), decision


def _fate_of_add(state: State, action: AddFollowers) -> Fate:
    stamp = action.producer
    producer = state.producers.get(stamp.producer_id)
    if producer is None:
        return Fate.UNKNOWN
    decision = producer.decision
    if decision is not None and (decision.epoch, decision.number) == (stamp.epoch, stamp.number):
        return Fate.APPLIED  # A transaction gets its followers once.
    return Fate.NOT_APPLIED if producer.number < stamp.number else Fate.UNKNOWN


declare(
    AddFollowers,
    number=30,
    fields=(
        Field("producer", STAMP),
        Field("followers", FOLLOWERS, bounds=Bounds(items=MAX_FOLLOWERS)),
    ),
    rule=add_followers,
    fate=_fate_of_add,
    effects=lambda action: Effects(producer=action.producer.producer_id),
)


class FollowDecision(NamedTuple):
    """The prepared transaction that ``producer`` names ends as ``decider`` did. Any process may say so.

    ``producer`` has the epoch at which it was prepared. A later one may have taken the id over since.
    """

    producer: ProducerStamp
    decider: Decider
    commit: bool


def follow_decision(state: State, action: FollowDecision) -> tuple[State, None]:
    """COMMIT or ABORT. The same decision again is success, the opposite one is refused."""
    stamp = action.producer
    producer = state.producers.get(stamp.producer_id)
    prepared = None if producer is None else producer.prepared
    if (
        producer is None
        or prepared is None
        or (prepared.epoch, prepared.decider) != (stamp.epoch, action.decider)
    ):
        kind = InvalidPidMappingError if producer is None else InvalidTxnStateError
        raise kind(
            f"producer {stamp.producer_id} has prepared no transaction at epoch {stamp.epoch} that follows "
            f"{action.decider}, or a later one since"
        )
    if prepared.committed is None and stamp.number == producer.number:
        return complete(state, producer, commit=action.commit), None
    if prepared.committed is not action.commit:
        raise InvalidTxnStateError(
            f"transaction {stamp.number} of transactional.id {producer.transactional_id!r} cannot "
            f"{'commit' if action.commit else 'abort'} with {action.decider}: transaction {producer.number} is "
            f"{producer.transaction.value}"
        )
    return state, None


def _fate_of_follow(state: State, action: FollowDecision) -> Fate:
    producer = state.producers.get(action.producer.producer_id)
    prepared = None if producer is None else producer.prepared
    if prepared is None or (prepared.epoch, prepared.decider) != (action.producer.epoch, action.decider):
        return Fate.UNKNOWN
    return Fate.APPLIED if prepared.committed is action.commit else Fate.NOT_APPLIED


declare(
    FollowDecision,
    number=31,
    fields=(Field("producer", STAMP), Field("decider", DECIDER), Field("commit", BOOLEAN)),
    rule=follow_decision,
    fate=_fate_of_follow,
    is_repeatable=lambda _: True,
    effects=lambda action: Effects(
        producer=action.producer.producer_id, ended=(action.producer, action.commit)
    ),
)


class NoteFollowers(NamedTuple):
    """These logs have ended what followed the decision, or can never prepare it any more: it need not be kept for them.

    ``producer`` names the deciding transaction by the epoch and number at which it got its followers.
    """

    producer: ProducerStamp
    history: bytes
    log_ids: tuple[str, ...]


def note_followers(state: State, action: NoteFollowers) -> tuple[State, None]:
    """Wait for these logs no more. Nothing, if a later decision was made since: they were noted before it."""
    stamp = action.producer
    producer = state.producers.get(stamp.producer_id)
    decision = None if producer is None else producer.decision
    key = (stamp.epoch, stamp.number, action.history)
    if producer is None or decision is None or (decision.epoch, decision.number, decision.history) != key:
        return state, None
    if decision.committed is None:
        raise InvalidTxnStateError(
            f"transaction {stamp.number} of transactional.id {producer.transactional_id!r} is not decided: no log can "
            "have followed it"
        )
    decision = replace(
        decision, waiting=tuple(log_id for log_id in decision.waiting if log_id not in action.log_ids)
    )
    producer = replace(producer, decision=decision)
    return replace(state, producers=state.producers.set(stamp.producer_id, producer)), None


declare(
    NoteFollowers,
    number=32,
    fields=(
        Field("producer", STAMP),
        Field("history", BYTES),
        Field("log_ids", array_of(STRING), bounds=Bounds(items=MAX_FOLLOWERS)),
    ),
    rule=note_followers,
    is_repeatable=lambda _: True,
    effects=lambda action: Effects(producer=action.producer.producer_id),
)
