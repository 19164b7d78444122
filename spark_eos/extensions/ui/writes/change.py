"""A change of the log that a person has confirmed: one request, which is in the log once however often it is asked for.

The browser chooses the id of the request, and says which entry was the newest one when it did. So nothing has to be
remembered: the log itself tells whether the request is in it, after a lost reply, to another server, after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from typing import Any, TypeAlias

from spark_eos.errors import (
    CommitOutcomeUnknownError,
    EosLogError,
    InvalidRequestError,
    StorePermissionError,
)
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Answer, Question
from spark_eos.extensions.ui.timeline import read_entry
from spark_eos.log.commit.loop import Committed, Propose
from spark_eos.log.log import Log
from spark_eos.log.time_travel import state_at
from spark_eos.protocol.actions import Action, AppendBatches
from spark_eos.protocol.rules.apply import Rejected, apply_entry
from spark_eos.protocol.state import State
from spark_eos.protocol.types import ADMIN

WRITER = "ui"
"""Whom entries name that no call of the admin client has written."""

_MOST_ENTRIES = 1000
"""Entries that are looked through for a request."""

Results: TypeAlias = "tuple[Any, ...]"


class _AlreadyThereError(InvalidRequestError):
    """The request is in the log."""


class _Change:
    """One request: its id, the entry after which it may be, and what has to hold of the state that it changes."""

    def __init__(self, question: Question, check: Callable[[State], None] = lambda _: None) -> None:
        text = question.text("attempt", most=32)
        try:
            self.request_id = bytes.fromhex(text)
        except ValueError:
            self.request_id = b""
        if len(self.request_id) != 16:
            raise InvalidRequestError("'attempt' must be 32 hexadecimal digits")
        self.since = question.number("since")
        self.check = check
        self.results: Results = ()
        self._searched_to = self.since
        """It is in no entry up to this one."""

    def find(self, log: Log, until: int) -> tuple[int, int] | None:
        """The entry that has the request, and its place there; None if no entry up to ``until`` has it."""
        if until - self.since > _MOST_ENTRIES:
            raise InvalidRequestError(
                f"more than {_MOST_ENTRIES} entries were written since this page has heard of the log, so whether this "
                "was done before is not looked for: look at what it would have changed, and load the page again"
            )
        if until < self.since:
            raise InvalidRequestError(
                f"the log has {until + 1} entries, and this page has shown entry {self.since}: its files were put back "
                "or exchanged. Load the page again; nothing was changed"
            )
        for seq in range(self._searched_to + 1, until + 1):
            entry, _ = read_entry(log, seq)
            if entry is None:
                raise InvalidRequestError(
                    f"whether this was done cannot be told: entry {seq}, which may have it, is retired. Look at "
                    "what it would have changed"
                )
            for at, request in enumerate(entry.requests):
                if request.request_id == self.request_id:
                    return seq, at
            self._searched_to = seq
        return None

    def outcome(self, log: Log) -> Results | None:
        """The results of the request if it is in the log. Raises the error with which the rules refused it there."""
        place = self.find(log, log.follow().seq)
        if place is None:
            return None
        seq, at = place
        entry, _ = read_entry(log, seq)
        assert entry is not None
        outcome = apply_entry(state_at(log, seq - 1), entry)[1][at]
        if isinstance(outcome, Rejected):
            raise outcome.error
        return outcome.results


class Changing(Log):
    """A handle whose commits are one change. Other commits, such as what ends overdue transactions, are as ever."""

    change: _Change

    def commit(
        self, propose: Propose, *, writer: str = "", request_id: bytes | None = None, alone: bool = False
    ) -> Committed:
        """As `Log.commit`; the change goes in under its own id, on a state that was looked at."""
        change = self.change
        if writer != ADMIN and not (writer == WRITER and _appends(propose(self.state))):
            return super().commit(propose, writer=writer, request_id=request_id, alone=alone)

        def checked(state: State) -> Sequence[Action]:
            if change.find(self, state.seq) is not None:
                raise _AlreadyThereError("this was done already, by an earlier press")
            change.check(state)
            return propose(state)

        committed = super().commit(checked, writer=writer, request_id=change.request_id, alone=True)
        change.results = committed.results
        return committed


def _appends(actions: Sequence[Action]) -> bool:
    return any(isinstance(action, AppendBatches) for action in actions)


def change(
    follower: Follower,
    question: Question,
    work: Callable[[Changing], None],
    tell: Callable[[Results], Answer],
    check: Callable[[State], None] = lambda _: None,
) -> Answer:
    """Do ``work``, of which one commit is the change, unless the log has that change; ``tell`` says what was done.

    ``check`` is called with the very state that is changed, and raises if it is not the one that a person was shown.
    Raises `CommitOutcomeUnknownError` if it may have been done: the same call again is safe, `change_outcome` looks.
    """
    attempt = _Change(question, check)
    log = follower.writer(Changing)
    log.change = attempt
    try:
        work(log)
        results = attempt.results
    except CommitOutcomeUnknownError as error:
        raise CommitOutcomeUnknownError(
            f"the store did not say whether this was written ({error.__cause__ or error}). Look what became of it; "
            "to do the same again is safe: it is the same request",
            error.request_id,
        ) from error
    except EosLogError as error:
        results = _by_an_earlier_call(attempt, log, error)
    follower.asked()
    return tell(results)


def _by_an_earlier_call(attempt: _Change, log: Log, error: EosLogError) -> Results:
    """The results of an earlier call, which may be why this one was refused; raises ``error`` if there was none."""
    results = None
    with nullcontext() if isinstance(error, _AlreadyThereError) else suppress(EosLogError):
        results = attempt.outcome(log)
    if results is None:
        raise error
    return results


def change_outcome(follower: Follower, question: Question) -> Answer:
    """What became of a change, in the log as it is now: ``done``, ``refused``, or ``open``."""
    try:
        results = _Change(question).outcome(follower.log)
    except EosLogError as error:
        return {"outcome": "refused", "text": str(error)}
    if results is not None:
        return {"outcome": "done", "text": "it was done: its entry is in the log"}
    return {
        "outcome": "open",
        "text": "it is not in the log so far. A write that the store delays may still arrive; to do the same again is "
        "safe: it is the same request",
    }


def refuse(_: Follower, __: Question) -> Answer:
    """What every change is while the page only reads."""
    raise StorePermissionError(
        "this page only reads: start it with --allow-writes to change anything, or use the command `eoslog`"
    )


def typed(question: Question, name: str) -> None:
    """Raise unless the person has typed the name of what is destroyed."""
    if question.text("typed", "") != name:
        raise InvalidRequestError(f"type the name {name!r} to do this; nothing was changed")
