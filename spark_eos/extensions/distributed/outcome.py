"""What became of a transaction, by the state of the log alone, and by its entries where the state cannot tell.

An epoch has one transaction. Its number is above that of the producer's last one, and the producer gets it with the end
of the transaction. So a producer that is at a later epoch, but not at that number, proves that it never ended. At that
number or above, its successor may have ended a transaction of its own: then only the entries can tell.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from spark_eos.errors import (
    CommitOutcomeLostError,
    InvalidRequestError,
    InvalidTxnStateError,
    NotALogError,
    ProducerFencedError,
)
from spark_eos.extensions.distributed.token import TransactionToken
from spark_eos.log.log import Log
from spark_eos.log.time_travel import replay, state_before
from spark_eos.protocol.actions import AppendBatches, EndTransaction
from spark_eos.protocol.rules.apply import Accepted, apply
from spark_eos.protocol.state import State, TransactionState


class Outcome(Enum):
    """What the state says of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    FENCED = "fenced"
    """A newer transaction of its transactional id has taken over. It never commits, and has not."""
    UNKNOWN = "unknown"
    """It is over. Whether it was committed before that, the state does not say (any more)."""


def outcome_of(state: State, token: TransactionToken) -> Outcome:
    """What the state says. Raises `NotALogError` if it is that of another log."""
    if state.log_id != token.log_id:
        raise NotALogError(
            f"this is log {state.log_id}, and the transaction token is of log {token.log_id}: the log was replaced, or "
            "this process sees another one there. Nothing was written"
        )
    producer = state.producers.get(token.producer_id)
    if producer is None:
        return Outcome.UNKNOWN
    if producer.epoch != token.epoch:
        return Outcome.FENCED if producer.number < token.number else Outcome.UNKNOWN
    if producer.number < token.number:
        return Outcome.OPEN
    committed = producer.transaction is TransactionState.COMPLETE_COMMIT
    return Outcome.COMMITTED if committed else Outcome.ABORTED


def require_open(state: State, token: TransactionToken) -> None:
    """Raise unless rows may still become visible under the token."""
    outcome = outcome_of(state, token)
    if outcome is Outcome.OPEN:
        return
    name = f"transaction {token.number} of transactional.id {token.transactional_id!r} (epoch {token.epoch})"
    if outcome is Outcome.FENCED:
        raise ProducerFencedError(
            f"{name} was fenced: a newer transaction of this id has begun. Nothing of it was or will be committed. "
            "Stop this task; the newer one goes on"
        )
    if outcome is Outcome.UNKNOWN:
        raise ProducerFencedError(
            f"{name} is over: a newer transaction of this id has begun, or the id has expired. Stop this task"
        )
    raise InvalidTxnStateError(
        f"{name} is {outcome.value}: nothing can be added to it any more. Stop this task, or begin a new transaction"
    )


def require_known(log: Log, token: TransactionToken) -> None:
    """Raise if the transaction is over, and nothing tells any more whether it was committed."""
    if outcome_of(log.state, token) is Outcome.UNKNOWN and ended(log, token) is None:
        raise CommitOutcomeLostError(
            f"it can no longer be found out whether transaction {token.number} of transactional.id "
            f"{token.transactional_id!r} (epoch {token.epoch}) was committed: a newer one of this id has begun, "
            "or the id has expired, and the entries of that time are retired. Do not repeat it: look in the log for "
            "its rows before they are written again; staged files stay"
        )


class Ended(NamedTuple):
    """How a transaction has ended, and the files that it has committed."""

    outcome: Outcome
    files: frozenset[str] = frozenset()


def ended(log: Log, token: TransactionToken) -> Ended | None:
    """How it ended, by the entries since its begin; None if they do not tell, or are retired.

    It reads all of them, and so is asked only after another process has gone on meanwhile.
    """
    try:
        end = log.follow().seq
        start = state_before(log, token.began_seq + 1)
        is_whole = start.seq <= token.began_seq
        for step in replay(log, start, end):
            state = step.before
            for request in step.entry.requests:
                state, outcome = apply(state, request)
                ends = [action for action in request.actions if isinstance(action, EndTransaction)]
                if not isinstance(outcome, Accepted) or token.stamp not in [
                    action.producer for action in ends
                ]:
                    continue
                if any(action.producer == token.stamp and not action.commit for action in ends):
                    return Ended(Outcome.ABORTED)
                appends = [action for action in request.actions if isinstance(action, AppendBatches)]
                names = frozenset(staged.file.name for action in appends for staged in action.files)
                return Ended(Outcome.COMMITTED, names)
    except InvalidRequestError:
        return None  # They are being retired.
    return Ended(Outcome.FENCED) if is_whole and outcome_of(log.state, token) is not Outcome.OPEN else None


def was_committed_with(log: Log, token: TransactionToken, files: frozenset[str]) -> bool:
    """Whether an earlier call, or another process, has committed it. Raises if that one had other files.

    If the entries that name the files are retired, what the state says counts.
    """
    outcome = outcome_of(log.state, token)
    if outcome not in {Outcome.COMMITTED, Outcome.UNKNOWN}:
        return False
    ending = ended(log, token)
    if ending is None:
        return outcome is Outcome.COMMITTED
    if ending.outcome is Outcome.COMMITTED and ending.files != files:
        raise InvalidTxnStateError(
            f"transaction {token.number} of transactional.id {token.transactional_id!r} was committed before, with "
            f"other receipts: they have {len(ending.files - files)} files that these do not have, and these have "
            f"{len(files - ending.files)} others, which are not in the log"
        )
    return ending.outcome is Outcome.COMMITTED
