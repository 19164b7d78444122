"""The call that aborts an open transaction, and what became of one if its reply was lost."""

from __future__ import annotations

from spark_eos.errors import CommitOutcomeUnknownError, InvalidRequestError, StorePermissionError
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Answer, Question
from spark_eos.log.log import Log
from spark_eos.protocol.actions import Action, InitProducer
from spark_eos.protocol.state import State, TransactionState
from spark_eos.protocol.types import ProducerStamp

WRITER = "ui"
"""The writer that the entry of an abort names."""


def abort(follower: Follower, question: Question) -> Answer:
    """Abort the very transaction that the person was shown, and fence its producer.

    The same call again changes nothing more, and says that the transaction is aborted. Raises
    `CommitOutcomeUnknownError` if the store did not say whether the abort was written: `abort_outcome` looks.
    """
    transactional_id, stamp = _asked_transaction(question)

    def propose(state: State) -> tuple[Action, ...]:
        if not _is_open(state, stamp):
            return ()
        timeout_ms = state.producers[stamp.producer_id].timeout_ms
        return (InitProducer(stamp.producer_id, stamp.epoch + 1, transactional_id, timeout_ms),)

    log = follower.writer(Log)
    outcome, text = _became(log.state, transactional_id, stamp)
    if outcome != "open":
        return _ended(outcome, text, transactional_id)
    try:
        state = log.commit(propose, writer=WRITER, alone=True).state
    except CommitOutcomeUnknownError as error:
        raise CommitOutcomeUnknownError(
            f"it is not known whether the abort of transaction {stamp.number} of {transactional_id!r} was written: the "
            f"store did not answer ({error.__cause__}). Look what became of it; to abort again is safe, too",
            error.request_id,
        ) from error
    outcome, text = _became(state, transactional_id, stamp)
    if outcome != "aborted":
        return _ended(outcome, text, transactional_id)
    follower.asked()
    return {"id": transactional_id, "outcome": outcome, "already": False, "text": text}


def abort_outcome(follower: Follower, question: Question) -> Answer:
    """What became of a transaction, in the log as it is now: ``open``, ``aborted``, ``committed`` or ``unknown``."""
    transactional_id, stamp = _asked_transaction(question)
    outcome, text = _became(follower.log.follow(), transactional_id, stamp)
    if outcome == "open":
        text += ": no abort was written so far. A write that the store delays may still arrive; to abort again is safe"
    return {"id": transactional_id, "outcome": outcome, "text": text}


def refuse_abort(_: Follower, __: Question) -> Answer:
    """What `abort` is while the page only reads."""
    raise StorePermissionError(
        "this page only reads: start it with --allow-writes to abort transactions, or run "
        "`eoslog transactions abort`"
    )


def _asked_transaction(question: Question) -> tuple[str, ProducerStamp]:
    numbers = (question.number(name, least=-1) for name in ("producer", "epoch", "number"))
    return question.text("id"), ProducerStamp(*numbers)


def _is_open(state: State, stamp: ProducerStamp) -> bool:
    producer = state.producers.get(stamp.producer_id)
    return (
        producer is not None and producer.stamp == stamp and producer.transaction is TransactionState.ONGOING
    )


def _ended(outcome: str, text: str, transactional_id: str) -> Answer:
    """The answer for a transaction that had ended before. Raises `InvalidRequestError` unless it is aborted."""
    if outcome != "aborted":
        raise InvalidRequestError(f"{text}; nothing was changed")
    text += ". That was so before: by an earlier press, by its timeout or by its producer. Nothing more was changed"
    return {"id": transactional_id, "outcome": outcome, "already": True, "text": text}


def _became(state: State, transactional_id: str, stamp: ProducerStamp) -> tuple[str, str]:
    """What became of a transaction, as a word and as a sentence."""
    name = f"transaction {stamp.number} of {transactional_id!r}"
    producer = state.producers.get(stamp.producer_id)
    if producer is None or producer.transactional_id != transactional_id:
        return "unknown", f"{name} is not open any more: the log does not know its producer"
    if stamp.number > producer.number or stamp.epoch > producer.epoch:
        return (
            "unknown",
            f"{name} is not open any more: the log knows no transaction of that number and epoch",
        )
    if _is_open(state, stamp):
        return "open", f"{name} is open"
    mark = (stamp.producer_id, stamp.number)
    is_newest = producer.number == stamp.number
    if (is_newest and producer.transaction is TransactionState.COMPLETE_ABORT) or any(
        mark in part.aborted for part in state.partitions.values()
    ):
        fenced = f", and its producer is fenced: the epoch is {producer.epoch} now"
        return "aborted", f"{name} is aborted{fenced if producer.epoch > stamp.epoch else ''}"
    if is_newest and producer.transaction is TransactionState.COMPLETE_COMMIT:
        return "committed", f"{name} is not open any more: it was committed"
    return (
        "unknown",
        f"{name} is not open any more: a later one of its producer began. The history shows how it ended",
    )
