"""The commit loop: a proposal becomes an entry, or is refused, or stays in doubt. Nothing else.

Read to the tail, let the proposal say what it wants given that state, validate, create the next slot. A
successful create proves that the state was the newest one. If somebody was faster, read what they wrote
and try the next slot.

*Three outcomes.* A create without a reply leaves slot N in doubt. It is resolved only by filling slot N:
the same bytes are created there again until they are in, or until another entry is found in it, after
which ours can never land. If the store stays away too long the caller gets `CommitOutcomeUnknownError`;
the request stays watched, so that the same call, repeated, finds its own entry.

*Threads.* Whoever holds the turn takes all waiting proposals into one entry.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from spark_eos.errors import (
    CommitOutcomeUnknownError,
    EosLogError,
    ObjectExistsError,
    OutcomeUnknownError,
    StorageError,
    StoreUnavailableError,
)
from spark_eos.log import names
from spark_eos.log.clock import Clock, Retry
from spark_eos.log.tail import Moment, Tail
from spark_eos.protocol.actions import Action, Entry, Request
from spark_eos.protocol.codec import encode_entry
from spark_eos.protocol.rules import Rejected, apply, behind
from spark_eos.protocol.rules.evidence import Evidence, evidence, is_repeatable
from spark_eos.protocol.state import State
from spark_eos.storage import Store

__all__ = ["Committed", "Committer", "Propose"]

IDLE_S = 5.0
"""Whoever has not committed for so long looks for news first."""

ALONE_S = 60.0
"""The same for whoever was alone with the log until now, where looking costs a request."""

Propose = Callable[[State], Sequence[Action]]
"""What to ask for, given a state; nothing, if nothing is left to do. May raise to refuse.

It is called again for every slot that is tried, so it must depend on the state alone.
"""


class Committed(NamedTuple):
    """A request that is in the log: its entry, what each action came to, and a state that contains it.

    ``results`` is empty if the proposal found that there was nothing to do.
    """

    seq: int
    results: tuple[Any, ...]
    state: State
    request_id: bytes


@dataclass(slots=True)
class _Ticket:
    propose: Propose
    request_id: bytes
    writer: str
    result: Committed | None = None
    error: BaseException | None = None

    @property
    def done(self) -> bool:
        return self.result is not None or self.error is not None


@dataclass(slots=True)
class _Draft:
    """An entry in the making: the requests that passed, and the state each of them would lead to."""

    state: State
    seen: Moment
    tickets: list[_Ticket] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    results: list[tuple[Any, ...]] = field(default_factory=list)


class _Sent(NamedTuple):
    slot: int
    actions: tuple[Action, ...]


class Committer:
    """The only writer of entries in a process. Safe to share between threads."""

    def __init__(self, store: Store, tail: Tail, clock: Clock, retry: Retry) -> None:
        self._store = store
        self._tail = tail
        self._clock = clock
        self._retry = retry
        self._turn = threading.Lock()
        self._queue = threading.Lock()
        self._waiting: list[_Ticket] = []
        self._sent: dict[bytes, _Sent] = {}
        """What each watched request was when it was last sent, and to which slot."""
        self._used_s = clock.monotonic()
        self._alone_since = -1
        """How many entries had been read when this process wrote its last one."""
        self._alone = False
        """Whether nobody else wrote between the last two."""
        self._durable = -1
        """The newest entry that is known to outlive a power cut: a create has returned or was refused there."""

    def commit(self, propose: Propose, *, writer: str = "", request_id: bytes | None = None) -> Committed:
        """Put the proposed actions into the log, all or none.

        Pass the ``request_id`` of a `CommitOutcomeUnknownError` to repeat that very call. Raises whatever
        rule the request breaks, `CommitOutcomeUnknownError` if it may or may not be in, and a
        `StorageError` or `StoreUnavailableError` if it certainly is not.
        """
        ticket = _Ticket(propose, request_id or self._clock.unique(), writer)
        with self._queue:
            self._waiting.append(ticket)
        with self._turn:
            if not ticket.done:
                with self._queue:
                    tickets, self._waiting = self._waiting, []
                self._settle(tickets)
        if ticket.error is not None:
            raise ticket.error
        assert ticket.result is not None
        return ticket.result

    def _settle(self, tickets: list[_Ticket]) -> None:
        try:
            while open_tickets := [ticket for ticket in tickets if not ticket.done]:
                self._attempt(open_tickets)
        except BaseException as error:
            # Whatever went wrong, nobody may wait for ever, and nobody is told "no" who may be in.
            for ticket in tickets:
                if not ticket.done:
                    watched = self._tail.is_watched(ticket.request_id)
                    ticket.error = self._unknown(ticket, error) if watched else error
            if not isinstance(error, Exception):
                raise

    def _attempt(self, tickets: list[_Ticket]) -> None:
        """One slot: draft an entry on the state at hand and create it, or learn what is newer."""
        now, age_s = self._clock.monotonic(), self._tail.age_s
        seen, state = self._tail.seen, self._tail.state
        if min(now - self._used_s, age_s) > (ALONE_S if self._alone else IDLE_S):
            # A create at a slot of long ago would be refused, and what is in it may be retired.
            seen, state = self._tail.moment(), self._follow()
        self._used_s = now
        if any(self._tail.is_watched(ticket.request_id) for ticket in tickets):
            # An earlier try is in doubt: it may have landed since.
            seen, state = self._tail.moment(), self._follow()
            if self._answer_found(tickets) or self._answer_lost(tickets, state):
                return
        draft, refused = self._draft(_Draft(state, seen), tickets)
        if refused and self._follow().seq != state.seq:
            return  # It was refused, or found done, on a state that is not the newest: ask again.
        for ticket, verdict in refused:
            if not isinstance(verdict, BaseException):
                self._settle_entry(state.seq)
                ticket.result = verdict
            else:
                self._refuse(ticket, verdict, state)
        if draft.requests:
            self._create(draft)

    def _draft(
        self, draft: _Draft, tickets: list[_Ticket]
    ) -> tuple[_Draft, list[tuple[_Ticket, BaseException | Committed]]]:
        refused: list[tuple[_Ticket, BaseException | Committed]] = []
        now_ms = self._clock.now_ms()
        for ticket in tickets:
            verdict = self._judge(draft, ticket, now_ms)
            # What rests on a draft that may never become an entry is no answer: ask again behind it.
            if verdict is not None and not draft.requests:
                refused.append((ticket, verdict))
        return draft, refused

    def _judge(self, draft: _Draft, ticket: _Ticket, now_ms: int) -> BaseException | Committed | None:
        """Add the request to the draft, or say why it is not to be added."""
        try:
            actions = tuple(ticket.propose(draft.state))
        except Exception as error:  # noqa: BLE001  (it belongs to this ticket's caller alone)
            return error
        if not actions:
            return Committed(draft.state.seq, (), draft.state, ticket.request_id)
        request = Request(ticket.request_id, now_ms, actions, ticket.writer)
        after, outcome = apply(draft.state, request)
        if isinstance(outcome, Rejected):
            return outcome.error
        draft.state = after
        draft.tickets.append(ticket)
        draft.requests.append(request)
        draft.results.append(outcome.results)
        return None

    def _create(self, draft: _Draft) -> None:
        """Fill the next slot: with this draft, or with what somebody else put there."""
        entry = Entry(draft.state.seq + 1, tuple(draft.requests))
        try:
            data = encode_entry(entry)
        except EosLogError:
            self._refuse_unwritable(draft)
            return
        name = names.entry(entry.seq, draft.state.entries_per_folder)
        # A try of an earlier call may still land here, whatever the store says to this one.
        doubted = {r.request_id for r in draft.requests if self._is_sent_to(r.request_id, entry.seq)}
        for request in draft.requests:
            self._tail.watch(request.request_id)
            self._sent[request.request_id] = _Sent(entry.seq, request.actions)
        attempt = 0
        deadline = self._clock.monotonic() + self._retry.deadline_s
        failure: EosLogError
        while True:
            since = self._tail.moment()
            try:
                self._store.create(name, data)
            except ObjectExistsError:
                if self._follow().seq >= entry.seq:
                    self._taken(draft, entry, doubted if attempt == 0 else None)
                    return
                # S3 refuses a create that ran into another request, and nothing is done; some file systems show what
                # is there a moment later, and it may be ours. The same again, into the same slot, is right for both.
                doubted = {request.request_id for request in draft.requests}
                failure = StoreUnavailableError(
                    f"{self._store.url}/{name} exists but cannot be read: the store does not show its own objects. "
                    "Look at its caching"
                )
            except OutcomeUnknownError as error:
                doubted = {request.request_id for request in draft.requests}
                failure = error
            except StoreUnavailableError as error:
                failure = error
            except StorageError as error:
                self._fail(draft, error, doubted)
                return
            else:
                # Of what was not the end of the log any more, the state tells whether it was done.
                if not self._tail.is_past(entry.seq, draft.seen):
                    self._succeed(draft, entry, since)
                return
            if self._clock.monotonic() >= deadline:
                self._fail(draft, failure, doubted)
                return
            self._clock.sleep(self._retry.wait_s(attempt, self._clock))
            attempt += 1

    def _taken(self, draft: _Draft, entry: Entry, doubted: set[bytes] | None) -> None:
        """The slot is somebody's, or our own from a try whose reply was lost: the body tells.

        ``doubted`` are requests of earlier calls that may be in it; None: all may.
        """
        self._durable = entry.seq
        self._answer_found(draft.tickets)
        for ticket in draft.tickets:
            # If it is another's, ours can never land; unless nobody can tell any more whose it was.
            known = doubted is not None and ticket.request_id not in doubted
            if (self._store.knows_its_own and known) or not self._tail.is_lost(ticket.request_id):
                self._forget(ticket)

    def _refuse_unwritable(self, draft: _Draft) -> None:
        """A request that no entry can hold is its own caller's trouble; the others are asked again."""
        for ticket, request in zip(draft.tickets, draft.requests, strict=True):
            try:
                encode_entry(Entry(0, (request,)))
            except EosLogError as error:
                ticket.error = self._unknown(ticket, error) if ticket.request_id in self._sent else error

    def _succeed(self, draft: _Draft, entry: Entry, since: Moment) -> None:
        state = behind(draft.state, entry.seq)
        self._durable = entry.seq
        self._alone = not self._store.is_local and self._tail.applied == self._alone_since
        self._alone_since = self._tail.applied
        self._tail.advance(state, since)
        for ticket, results in zip(draft.tickets, draft.results, strict=True):
            ticket.result = Committed(entry.seq, results, state, ticket.request_id)
            self._forget(ticket)

    def _fail(self, draft: _Draft, error: EosLogError, doubted: set[bytes]) -> None:
        for ticket in draft.tickets:
            if ticket.request_id in doubted:
                ticket.error = self._unknown(ticket, error)
            else:
                ticket.error = error
                self._forget(ticket)

    def _forget(self, ticket: _Ticket) -> None:
        """The outcome of the request is known."""
        self._tail.unwatch(ticket.request_id)
        self._sent.pop(ticket.request_id, None)

    def _unknown(self, ticket: _Ticket, cause: BaseException) -> CommitOutcomeUnknownError:
        error = CommitOutcomeUnknownError(
            f"the store did not say whether a commit to {self._store.url} was written ({cause}). Repeat the same "
            "call; staged files stay until it is known",
            ticket.request_id,
        )
        error.__cause__ = cause
        return error

    def _answer_found(self, tickets: list[_Ticket]) -> bool:
        """Settle the tickets whose requests were found in the log; whether there were any."""
        any_found = False
        for ticket in tickets:
            if (found := self._tail.found(ticket.request_id)) is None:
                continue
            any_found = True
            seq, outcome = found
            if isinstance(outcome, Rejected):
                ticket.error = outcome.error
            else:
                self._settle_entry(seq)
                ticket.result = Committed(seq, outcome.results, self._tail.state, ticket.request_id)
            self._forget(ticket)
        return any_found

    def _answer_lost(self, tickets: list[_Ticket], state: State) -> bool:
        """Settle tickets whose slots were retired unread, as far as the state can tell; whether there were any.

        The others are asked again, which recognises what was done: by sequence, transaction or batch number.
        """
        any_settled = False
        for ticket in tickets:
            if not self._tail.is_lost(ticket.request_id):
                continue
            sent = self._sent[ticket.request_id].actions
            if evidence(state, sent) is Evidence.UNKNOWN and not is_repeatable(sent):
                lost = StorageError("its entry was retired before this process had read it")
                ticket.error = self._unknown(ticket, lost)
                any_settled = True
        return any_settled

    def _refuse(self, ticket: _Ticket, verdict: BaseException, state: State) -> None:
        """The rules say no; but an earlier try of the request may be in the log, or get there yet."""
        sent = self._sent.get(ticket.request_id)
        earlier = Evidence.NOT_APPLIED
        if sent is not None and self._tail.is_lost(ticket.request_id):
            earlier = evidence(state, sent.actions)
        elif sent is not None and sent.slot > state.seq:
            earlier = Evidence.UNKNOWN  # It may still land in its slot, behind others that it depended on.
        if earlier is Evidence.UNKNOWN:
            ticket.error = self._unknown(ticket, verdict)
            return
        if earlier is Evidence.APPLIED:
            ticket.result = Committed(state.seq, (), state, ticket.request_id)
        else:
            ticket.error = verdict
        self._forget(ticket)

    def _is_sent_to(self, request_id: bytes, slot: int) -> bool:
        sent = self._sent.get(request_id)
        return sent is not None and sent.slot == slot

    def _settle_entry(self, seq: int) -> None:
        """Before "it is done" rests on an entry that was only read: its writer may have died before it synced."""
        if seq > self._durable:
            self._store.settle(names.entry(seq, self._tail.state.entries_per_folder))
            self._durable = seq

    def _follow(self) -> State:
        """Follow the tail, patiently: a read may be repeated at will."""
        deadline = self._clock.monotonic() + self._retry.deadline_s
        attempt = 0
        while True:
            try:
                return self._tail.follow()
            except (StoreUnavailableError, OutcomeUnknownError):
                if self._clock.monotonic() >= deadline:
                    raise
            self._clock.sleep(self._retry.wait_s(attempt, self._clock))
            attempt += 1
