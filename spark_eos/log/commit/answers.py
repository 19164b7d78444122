"""What the caller of a commit gets: the entry that holds its request, the error of the rules, or "unknown".

"No" is answered only if no earlier attempt of the request is in the log, or can still get there. "Yes" only if the
entry outlives a power cut. Else the answer is `CommitOutcomeUnknownError`, and the request stays in doubt: the same
call, repeated, finds its own entry.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_eos.errors import (
    CommitOutcomeUnknownError,
    DivergedLogError,
    EosLogError,
    FatalError,
    NotALogError,
    StorageError,
    UnsupportedVersionError,
)
from spark_eos.log.commit.entry_builder import Committed, EntryBuilder, PendingCommit
from spark_eos.log.commit.in_doubt import InDoubtRequests
from spark_eos.log.commit.slots import Slots
from spark_eos.log.commit.tail import Tail
from spark_eos.protocol.actions import Entry
from spark_eos.protocol.encoding.entries import encode_entry
from spark_eos.protocol.rules.apply import Rejected
from spark_eos.protocol.rules.fate import Fate
from spark_eos.protocol.state import State


class Answers:
    """Answers tickets, and resolves what was in doubt. For one thread at a time."""

    def __init__(self, url: str, tail: Tail, in_doubt: InDoubtRequests, slots: Slots) -> None:
        self._url = url
        self._tail = tail
        self._in_doubt = in_doubt
        self._slots = slots

    def settle(self, tickets: Sequence[PendingCommit]) -> bool:
        """Answer the tickets whose outcome earlier attempts have decided. Returns whether there were any.

        The request was found in an entry, or it is lost for good. A lost one that does no harm twice is sent again: the
        rules recognise by sequence, transaction or batch number what was done already.
        """
        state = self._tail.state
        for ticket in tickets:
            if not self._answer_if_logged(ticket) and self._in_doubt.is_unresolvable(
                state, ticket.request_id
            ):
                self._retired(
                    ticket, StorageError("its entry was retired before this process had read it"), state
                )
        return any(ticket.done for ticket in tickets)

    def _answer_if_logged(self, ticket: PendingCommit) -> bool:
        """Answer the ticket if its request was found in an entry."""
        if (entry_outcome := self._in_doubt.entry_outcome(ticket.request_id)) is None:
            return False
        seq, outcome = entry_outcome
        if isinstance(outcome, Rejected):
            ticket.error = outcome.error
        else:
            self._slots.ensure_durable(seq)
            ticket.result = Committed(seq, outcome.results, self._tail.state, ticket.request_id)
        self._in_doubt.resolve(ticket.request_id)
        return True

    def created(self, draft: EntryBuilder, seq: int, state: State) -> None:
        """Entry ``seq`` is durable: the tickets get their answers first, whatever fails after that."""
        for ticket, results in zip(draft.tickets, draft.results, strict=True):
            ticket.result = Committed(seq, results, state, ticket.request_id)

    def slot_taken(self, tickets: Sequence[PendingCommit]) -> None:
        """The slot has an entry, which was read. If it is another process's, ours can never get into it."""
        for ticket in tickets:
            if self._answer_if_logged(ticket):
                continue
            request_id = ticket.request_id
            # Whether it is known whose entry that is: not if it was retired before this process could read it.
            certain = not self._in_doubt.is_unanswered(request_id) or not self._in_doubt.is_lost(request_id)
            if certain and not self._in_doubt.may_be_taken_along(request_id, self._tail.state):
                self._in_doubt.resolve(request_id)

    def failed(self, tickets: Sequence[PendingCommit], error: EosLogError) -> None:
        """The slot could not be filled."""
        for ticket in tickets:
            request_id = ticket.request_id
            # This create was not done; but an earlier one may be in an entry that was retired before it was read.
            if self._in_doubt.is_unanswered(request_id) or self._in_doubt.is_lost(request_id):
                self.unknown(ticket, error)
            else:
                ticket.error = error
                self._in_doubt.resolve(ticket.request_id)

    def rejected(self, ticket: PendingCommit, error: BaseException, state: State) -> None:
        """The rules say no; but an earlier attempt of the request may be in the log, or get there yet."""
        fate = self._in_doubt.fate(state, ticket.request_id)
        if fate is Fate.UNKNOWN:
            self._retired(ticket, error, state)
            return
        if fate is Fate.APPLIED:
            ticket.result = Committed(state.seq, (), state, ticket.request_id)
        else:
            ticket.error = error
        self._in_doubt.resolve(ticket.request_id)

    def unencodable(self, draft: EntryBuilder) -> None:
        """No entry can hold a request of ``draft``: its own caller gets the error, the others are asked again."""
        for ticket, request in zip(draft.tickets, draft.requests, strict=False):
            try:
                encode_entry(Entry(0, (request,)))
            except EosLogError as error:
                self.given_up(ticket, error)

    def given_up(self, ticket: PendingCommit, error: BaseException) -> None:
        """This attempt was not sent; an earlier one may have been."""
        if ticket.request_id in self._in_doubt:
            self.unknown(ticket, error)
        else:
            ticket.error = error

    def _is_settled(self, ticket: PendingCommit) -> bool:
        """Whether it has an answer: by the entries that were read, or by the error with which reading them ended."""
        try:
            return self.settle([ticket])
        except EosLogError as failure:
            self.given_up(ticket, failure)
            return True

    def closed(self, ticket: PendingCommit, error: NotALogError) -> None:
        """The log takes nothing more. An earlier attempt may be in one of its last entries, which were read."""
        if self._is_settled(ticket):
            return
        if self._in_doubt.is_lost(ticket.request_id):
            self.unknown(ticket, error, is_final=True)
        else:
            ticket.error = error

    def overtaken(self, ticket: PendingCommit, error: UnsupportedVersionError) -> None:
        """A newer version has written what this process cannot read. All entries before that were read."""
        if self._is_settled(ticket):
            return
        # This process could read what it has created itself; but a newer leader may have taken in what was submitted.
        ends_at_newer = self._tail.ends_at_newer
        if ends_at_newer and not self._in_doubt.may_come_after(self._tail.state, ticket.request_id):
            ticket.error = error
            self._in_doubt.resolve(ticket.request_id)
        else:
            self.given_up(ticket, error)

    def diverged(self, ticket: PendingCommit, error: DivergedLogError) -> None:
        """The newest entry known here is not in the log that is there now, and so none that comes after it.

        But earlier ones may be: a copy that was put back holds the entries up to some point. And what was submitted
        may have been read by a leader, which writes it into the log that is there now.
        """
        request_id = ticket.request_id
        if self._in_doubt.may_have_got_in(request_id) or self._in_doubt.was_submitted(request_id):
            self.unknown(ticket, error)
        else:
            ticket.error = error

    def _retired(self, ticket: PendingCommit, cause: BaseException, state: State) -> None:
        """An earlier attempt may be in the log, or get there yet, and nothing that was read tells."""
        is_final = self._in_doubt.is_lost_for_good(state, ticket.request_id)
        self.unknown(ticket, cause, is_final=is_final)

    def unknown(self, ticket: PendingCommit, cause: BaseException, *, is_final: bool = False) -> None:
        """The request stays in doubt; ``is_final``: for ever, whatever this process reads."""
        self._in_doubt.record_giving_up(ticket.request_id)
        if isinstance(cause, UnsupportedVersionError):
            said = (
                f"only a newer version of spark_eos can tell whether a commit to {self._url} was written ({cause}). "
                "Upgrade this program, then repeat the call if it was not; staged files stay until it is known"
            )
        elif isinstance(cause, DivergedLogError):
            said = (
                f"the files of {self._url} were exchanged under this process, and an earlier attempt of this commit "
                "may be in those that are there now. Open the log again (close this client and make a new one), and "
                "look whether it was written; staged files stay"
            )
        elif is_final:
            said = (
                f"it can no longer be found out whether a commit to {self._url} was written: its reply was lost, and "
                f"its entry may have been retired before this process could read it. The same call now: {cause}. Do "
                "not repeat it: look in the log for what it would have written; staged files stay"
            )
        else:
            # A fatal error says what to do when it stands alone.
            why = f"now it is refused: {type(cause).__name__}" if isinstance(cause, FatalError) else cause
            said = (
                f"the store did not say whether a commit to {self._url} was written ({why}). Repeat the same "
                "call; staged files stay until it is known"
            )
        is_final = is_final or isinstance(cause, (UnsupportedVersionError, DivergedLogError))
        ticket.error = CommitOutcomeUnknownError(said, ticket.request_id, is_final=is_final)
        ticket.error.__cause__ = cause
