"""Requests and entries are applied here: ``apply(state, request) -> (state, outcome)``, total and deterministic.

All of a request is applied or nothing of it. A request that breaks a rule is rejected and changes nothing, so a faulty
client can never poison a log. The rule of each action is in its module in `spark_eos.protocol.actions`.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

from spark_eos.errors import CorruptRecordError, DivergedLogError, EosLogError, InvalidRequestError
from spark_eos.protocol import actions as a
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules import bounds, sealing, times, trail
from spark_eos.protocol.state import State
from spark_eos.protocol.types import RULES


class Accepted(NamedTuple):
    """The result of each action of the request, in their order (None: the action has no result)."""

    results: tuple[Any, ...]


class Rejected(NamedTuple):
    """The rule that the request broke."""

    error: EosLogError


Outcome = Accepted | Rejected

_SHORT = 4
"""Bytes that the state keeps of each lineage. Two histories have the same ones by chance once in 2**32 times."""

KEPT_LINEAGES = 1024
"""The state keeps the lineages of so many entries. A process that was paused for longer cannot compare its own."""


_MISTAKES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def apply(state: State, request: a.Request) -> tuple[State, Outcome]:
    """The state after ``request`` and its outcome; the same state if it is rejected.

    The log's time never goes back: an earlier timestamp counts as the one before it. Nor does it run ahead
    (`spark_eos.protocol.rules.times`).

    Raises `CorruptRecordError` if what has to be read of the state is damaged: the snapshot that this process has
    opened may be, and others have accepted the request.
    """
    results = []
    try:
        bounds.check(request)
        new = times.at(state, request)
        if not state.log_id and not (request.actions and isinstance(request.actions[0], a.CreateLog)):
            raise InvalidRequestError("the first action of a log is CreateLog")
        for action in request.actions:
            new, result = times.judge(state, new, request, action)
            results.append(result)
        return trail.added(state, new, request), Accepted(tuple(results))
    except CorruptRecordError:
        raise
    except EosLogError as error:
        return state, Rejected(error)
    except _MISTAKES as error:
        # A request that a rule or the trail fails on must not stop the readers of the log. It fails in every reader
        # alike: these errors follow from the values, not from the machine as MemoryError and RecursionError do.
        return state, Rejected(InvalidRequestError(f"the request makes no sense to a rule: {error!r}"))


def apply_entry(state: State, entry: a.Entry) -> tuple[State, tuple[Outcome, ...]]:
    """The state after ``entry``, which must be the next one, and the outcome of each of its requests.

    Raises `DivergedLogError` if its writer applied it to a state of another history.
    """
    check_history(state, entry)
    state = judged_by(state, entry.rules)
    outcomes = []
    for request in entry.requests:
        state, outcome = apply(state, request)
        outcomes.append(outcome)
    return state_after(state, entry), tuple(outcomes)


def check_history(state: State, entry: a.Entry) -> None:
    """Raise `CorruptRecordError` if ``entry`` is not the next one, `DivergedLogError` if it is of another history."""
    if entry.seq != state.seq + 1:
        raise CorruptRecordError(f"entry {entry.seq} cannot follow entry {state.seq}")
    if entry.previous and state.lineage and entry.previous != state.lineage:
        raise DivergedLogError(
            f"entry {entry.seq} was written after another entry {state.seq} than the one that is there: the log's "
            "files were put back from a copy, or exchanged, while a process wrote to it"
        )


def judged_by(state: State, rules: int = RULES) -> State:
    """The state to which an entry of these rules is applied: a log never goes back to earlier rules."""
    if state.seq >= 0 and rules <= state.rules:
        return state
    return replace(state, rules=rules)


def state_after(state: State, entry: a.Entry) -> State:
    """The state after ``entry``, given the one that its requests led to."""
    lineage = lineage_after(state.lineage, entry)
    lineages = (state.lineages + lineage[:_SHORT])[-KEPT_LINEAGES * _SHORT :]
    state = replace(state, seq=entry.seq, lineage=lineage, lineages=lineages)
    return sealing.seal(state) if sealing.is_boundary(state, entry.seq) else state


def lineage_after(lineage: bytes, entry: a.Entry) -> bytes:
    """The lineage after ``entry``, given the one before it. Request ids are random, so no two histories share one."""
    digest = blake2b(lineage, digest_size=16)
    for request in entry.requests:
        digest.update(request.request_id)
    digest.update(b"%d" % entry.seq)
    return digest.digest()


def is_in_history(state: State, earlier: State) -> bool:
    """Whether ``earlier`` belongs to the history of ``state``; True if that is not known any more."""
    end = len(state.lineages) - (state.seq - earlier.seq) * _SHORT
    if not earlier.lineage or not _SHORT <= end <= len(state.lineages):
        return True
    return state.lineages[end - _SHORT : end] == earlier.lineage[:_SHORT]
