"""The commit loop: a proposal becomes an entry, or is refused, or stays in doubt. Nothing else.

Read to the tail, let the proposal say what it wants given that state, validate, create the next slot. A
successful create proves that the state was the newest one. If another process was faster, read its entry
and try the next slot.

*Three outcomes.* A create without a reply leaves slot N in doubt. It is resolved only by filling slot N:
the same bytes are created there again until they are in, or until another entry is found in it, after
which ours can never land. If the store stays away too long the caller gets `CommitOutcomeUnknownError`;
the request stays watched, so that the same call, repeated, finds its own entry.

*Threads.* The thread that holds the turn takes all waiting proposals into one entry.

*Processes.* Under contention (`spark_eos.log.commit.group`) one process leads: its entries contain what the others have
submitted. For its owner a submitted request is in doubt, as after a create without a reply; but not in one slot only.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import TypeVar

from spark_eos.errors import (
    CommitOutcomeUnknownError,
    DivergedLogError,
    EosLogError,
    IllegalStateError,
    InvalidRequestError,
    ObjectExistsError,
    OutcomeUnknownError,
    StorageError,
    StoreUnavailableError,
)
from spark_eos.log import paths
from spark_eos.log.clock import Clock, Retry
from spark_eos.log.commit.entry_builder import Committed, EntryBuilder, PendingCommit, Propose
from spark_eos.log.commit.group import CommitGroup
from spark_eos.log.commit.in_doubt import InDoubtRequests
from spark_eos.log.commit.tail import ClockReading, Tail
from spark_eos.log.commit.timekeeping import Timekeeper
from spark_eos.protocol.actions import Entry, Request
from spark_eos.protocol.encoding.entries import encode_entry
from spark_eos.protocol.rules import Rejected, apply, state_after
from spark_eos.protocol.rules.fate import Fate
from spark_eos.protocol.state import State
from spark_eos.storage import Store
from spark_eos.storage.forks import OfOneProcess

__all__ = ["Committed", "Committer", "Propose"]

T = TypeVar("T")
_LOG = logging.getLogger(__name__)

IDLE_S = 5.0
"""A process that has not committed for so long looks for new entries first."""

ALONE_S = 60.0
"""The same for a process that was the only writer until now, where looking costs a request."""


class Committer(OfOneProcess):
    """The only writer of entries in a process. Safe to share between threads. A child has one of its own."""

    _instead = "only that process goes on with what it was committing, and knows what came of it"

    def __init__(self, store: Store, tail: Tail, clock: Clock, retry: Retry, time: Timekeeper) -> None:
        super().__init__()
        self._pid = os.getpid()
        self._store = store
        self._tail = tail
        self._clock = clock
        self._retry = retry
        self._time = time
        self._group = CommitGroup(store, tail, clock)
        self._turn = threading.Lock()
        self._queue = threading.Lock()
        self._waiting: list[PendingCommit] = []
        self._in_doubt = InDoubtRequests(tail)
        self._used_s = clock.monotonic()
        self._alone_since = -1
        """How many entries had been read when this process wrote its last one."""
        self._alone = False
        """Whether no other process wrote between the last two."""
        self._durable = -1
        """The newest entry that is known to outlive a power cut: a create has returned or was refused there."""

    def commit(self, propose: Propose, *, writer: str = "", request_id: bytes | None = None) -> Committed:
        """Put the proposed actions into the log, all or none.

        Pass the ``request_id`` of a `CommitOutcomeUnknownError` to repeat that very call. Raises whatever
        rule the request breaks, `CommitOutcomeUnknownError` if it may or may not be in, and a
        `StorageError` or `StoreUnavailableError` if it certainly is not.
        """
        self._check_process("commit")
        if self._pid != os.getpid():
            raise IllegalStateError(
                "commit: this process was forked by a library that does not tell Python (PyOS_AfterFork_Child): open "
                "the log anew in the child"
            )
        ticket = PendingCommit(propose, request_id or self._clock.unique(), writer)
        try:
            with self._queue:
                self._waiting.append(ticket)
            with self._turn:
                if not ticket.done:
                    with self._queue:
                        tickets, self._waiting = self._waiting, []
                    if not any(other is ticket for other in tickets):
                        tickets.append(ticket)  # The thread that had taken it was interrupted.
                    self._drain(tickets)
        except BaseException:
            # Interrupted. A request that still waits must not go in later, with those of another thread.
            with self._queue:
                self._waiting = [other for other in self._waiting if other is not ticket]
            raise
        if ticket.error is not None:
            raise ticket.error
        assert ticket.result is not None
        return ticket.result

    def _drain(self, tickets: list[PendingCommit]) -> None:
        try:
            while open_tickets := [ticket for ticket in tickets if not ticket.done]:
                self._check_process("commit")
                self._attempt_slot(open_tickets)
        except BaseException as error:
            # Whatever went wrong: no caller waits for ever, and none is told "no" whose request may be in the log.
            for ticket in tickets:
                if not ticket.done:
                    # What is in doubt is so in another history.
                    if self._is_foreign or isinstance(error, DivergedLogError):
                        ticket.error = error
                    elif self._tail.is_watched(ticket.request_id):
                        ticket.error = self._unknown(ticket, error)
                    elif isinstance(error, Exception):
                        ticket.error = error
                    else:  # This thread's alone: it was interrupted.
                        ticket.error = StoreUnavailableError(
                            "another thread that wrote for this one was interrupted: nothing was done, try again"
                        )
            if not isinstance(error, Exception):
                raise
        finally:
            self._leave_group(tickets)

    def _leave_group(self, tickets: list[PendingCommit]) -> None:
        """Leave the others. What goes wrong there takes back no answer."""
        try:
            self._withdraw()
            self._group.release_lead()
        except Exception:
            if not all(ticket.done for ticket in tickets):
                raise
            _LOG.exception("leaving the commit group failed")

    def _attempt_slot(self, tickets: list[PendingCommit]) -> None:
        """One slot: create it, or, under contention, hand over what is to be in it; or learn what is newer."""
        if not self._group.is_contended:
            self._withdraw()
            self._draft_and_submit(tickets, self._create)
            return
        leads = self._group.try_lead()
        try:
            self._catch_up_with_group()
            if leads and self._store.is_local:
                self._follow()  # Cheaper than a create in vain: not every process publishes what it has written.
            self._draft_and_submit(tickets, self._lead if leads else self._submit)
        finally:
            if leads:
                self._group.release_lead()

    def _draft_and_submit(self, tickets: list[PendingCommit], submit: Callable[[EntryBuilder], None]) -> None:
        """Draft an entry on the state at hand and submit it, or learn what is newer."""
        now, age_s = self._clock.monotonic(), self._tail.age_s
        seen, state = self._tail.seen, self._tail.state
        if min(now - self._used_s, age_s) > (ALONE_S if self._alone else IDLE_S):
            # A create at a slot of long ago would be refused, and what is in it may be retired.
            seen, state = self._tail.clock_reading(), self._follow()
        self._used_s = now
        watched = [ticket.request_id for ticket in tickets if self._tail.is_watched(ticket.request_id)]
        if watched:
            if not all(map(self._group.is_submitted, watched)):
                # An earlier try is in doubt: it may have landed since.
                seen, state = self._tail.clock_reading(), self._follow()
                self._in_doubt.record_read(state)
            if self._resolve_found(tickets) or self._resolve_lost(tickets, state):
                return
        draft, refused = self._draft(EntryBuilder(state, seen), tickets)
        if refused and self._follow().seq != state.seq:
            return  # It was refused, or found done, on a state that is not the newest: ask again.
        if self._may_have_been_taken_along([ticket.request_id for ticket, _ in refused], draft):
            return
        for ticket, verdict in refused:
            if not isinstance(verdict, BaseException):
                self._ensure_entry_durable(state.seq)
                ticket.result = verdict
            else:
                self._reject(ticket, verdict, state)
        if draft.requests:
            submit(draft)

    # -- Group commit ------------------------------------------------------------------------------------------

    def _catch_up_with_group(self) -> bool:
        """Take over what other processes have announced: it is durable. Whether there was anything."""
        newest = self._group.catch_up()
        self._durable = max(self._durable, newest)
        return newest >= 0

    def _catch_up(self) -> None:
        """Read to the end, or to where others announce what they write: as fast as one reads, many may write."""
        while self._group.is_contended:
            before = self._tail.state.seq
            if self._follow(before + 1).seq == before or self._catch_up_with_group():
                return
        self._follow()

    def _lead(self, draft: EntryBuilder) -> None:
        """Create the next slot, with what the others want to be in it."""
        draft.state, gathered = self._group.collect(draft.state)
        draft.requests += gathered
        self._create(draft)

    def _submit(self, draft: EntryBuilder) -> None:
        """Submit the requests to the leader, and wait until they are in the log, or until there is no leader."""
        slot = draft.state.seq + 1
        if (offer := self._group.encode_submission(draft.requests)) is None:
            self._create(draft)
            return
        self._in_doubt.record_attempt(draft.requests, slot, self._group.submitted)
        dropped = self._group.submit(offer, draft.requests)
        if dropped is None:
            self._create(draft)
            return
        self._in_doubt.record_withdrawal(dropped)
        while not self._group.try_lead():
            self._group.backoff()
            self._catch_up_with_group()
            # The leader may have begun before. What it left out twice does not fit any more as it is.
            if self._resolve_found(draft.tickets) or self._tail.state.seq > slot:
                return

    def _may_have_been_taken_along(self, refused: list[bytes], draft: EntryBuilder) -> bool:
        """Find out whether what is about to be refused was handed over and is in the log: whether to ask again."""
        if any(map(self._group.is_submitted, refused)):
            self._withdraw()
            return not any(map(self._group.is_submitted, refused))
        state = self._tail.state
        if not any(self._in_doubt.is_settled_by_filling(one, state) for one in refused):
            return False
        now = self._time.stamp(state)
        nothing = Request(self._clock.unique(), now.timestamp_ms, (), "to fill the slot", now.clock_checked)
        filler = EntryBuilder(state, draft.seen, requests=[nothing])
        filler.state, _ = apply(filler.state, nothing)  # It moves the log's time on.
        self._create(filler)
        return self._tail.state.seq > state.seq

    def _withdraw(self) -> None:
        """Withdraw what was submitted. The leader may have read it a moment ago."""
        self._in_doubt.record_withdrawal(self._group.withdraw())

    def _draft(
        self, draft: EntryBuilder, tickets: list[PendingCommit]
    ) -> tuple[EntryBuilder, list[tuple[PendingCommit, BaseException | Committed]]]:
        refused: list[tuple[PendingCommit, BaseException | Committed]] = []
        for ticket in tickets:
            verdict = draft.add(ticket, self._time.stamp)
            # What rests on a draft that may never become an entry is no answer: ask again behind it.
            if verdict is not None and not draft.requests:
                refused.append((ticket, verdict))
        return draft, refused

    def _create(self, draft: EntryBuilder) -> None:
        """Fill the next slot: with this draft, or find what another process put there."""
        entry = Entry(draft.state.seq + 1, tuple(draft.requests), draft.state.lineage)
        try:
            data = encode_entry(entry)
        except EosLogError:
            self._refuse_unwritable(draft)
            return
        state = state_after(
            draft.state, entry
        )  # Before it is durable: what fails here fails for every reader.
        name = paths.entry(entry.seq, draft.state.entries_per_folder)
        self._retry_until(self._tail.check)
        # An entry is never put behind one that a power cut may take back: what lies beyond a gap was removed.
        self._retry_until(lambda: self._ensure_entry_durable(draft.state.seq))
        # A try of an earlier call may still land here, whatever the store says to this one.
        own = draft.requests[: len(draft.tickets)]
        doubted = {one.request_id for one in own if self._may_be_in(entry.seq, one.request_id)}
        self._in_doubt.record_attempt(own, entry.seq, self._group.submitted)
        attempt = 0
        deadline = self._clock.monotonic() + self._retry.deadline_s
        failure: EosLogError
        while True:
            self._check_process("commit")  # Before both send it, if this thread has forked meanwhile.
            since = self._tail.clock_reading()
            try:
                self._store.create(name, data)
            except ObjectExistsError:
                self._group.note_contention()
                self._catch_up()
                if self._tail.state.seq >= entry.seq:
                    self._slot_taken(draft, entry, doubted if attempt == 0 else None)
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
            except (StorageError, InvalidRequestError) as error:  # Such as a store that no child may use.
                self._fail(draft, error, doubted)
                return
            else:
                # Of what was not the end of the log any more, the state tells whether it was done.
                if not self._tail.is_covered_by_snapshot(entry.seq, draft.seen):
                    self._tail.check_created(draft.state, entry.seq)
                    self._succeed(draft, entry, state, since)
                    self._group.publish(entry.seq, data)
                return
            if self._clock.monotonic() >= deadline:
                self._fail(draft, failure, doubted)
                return
            self._clock.sleep(self._retry.wait_s(attempt, self._clock))
            attempt += 1

    def _slot_taken(self, draft: EntryBuilder, entry: Entry, doubted: set[bytes] | None) -> None:
        """The slot is taken: by another process, or by an attempt of ours whose reply was lost. The body tells.

        ``doubted`` are requests of earlier calls that may be in it; None: all may.
        """
        self._durable = entry.seq
        self._resolve_found(draft.tickets)
        for ticket in draft.tickets:
            # If it is another's, ours can never land; unless nothing tells any more whose it was.
            known = doubted is not None and ticket.request_id not in doubted
            certain = (self._store.has_exact_conflicts and known) or not self._tail.is_lost(ticket.request_id)
            if certain and not self._group.is_submitted(ticket.request_id):
                self._in_doubt.resolve(ticket.request_id)

    def _refuse_unwritable(self, draft: EntryBuilder) -> None:
        """A request that no entry can hold is its own caller's trouble; the others are asked again."""
        for ticket, request in zip(draft.tickets, draft.requests, strict=False):
            try:
                encode_entry(Entry(0, (request,)))
            except EosLogError as error:
                ticket.error = (
                    self._unknown(ticket, error) if self._in_doubt.is_open(ticket.request_id) else error
                )

    def _succeed(self, draft: EntryBuilder, entry: Entry, state: State, since: ClockReading) -> None:
        """The entry is durable: first of all its tickets get their answers, whatever fails behind them."""
        for ticket, results in zip(draft.tickets, draft.results, strict=True):
            ticket.result = Committed(entry.seq, results, state, ticket.request_id)
        self._durable = entry.seq
        self._alone = not self._store.is_local and self._tail.applied == self._alone_since
        self._alone_since = self._tail.applied
        self._tail.advance(state, entry, since)
        for ticket in draft.tickets:
            self._in_doubt.resolve(ticket.request_id)

    def _fail(self, draft: EntryBuilder, error: EosLogError, doubted: set[bytes]) -> None:
        for ticket in draft.tickets:
            if ticket.request_id in doubted:
                ticket.error = self._unknown(ticket, error)
            else:
                ticket.error = error
                self._in_doubt.resolve(ticket.request_id)

    def _unknown(self, ticket: PendingCommit, cause: BaseException) -> CommitOutcomeUnknownError:
        error = CommitOutcomeUnknownError(
            f"the store did not say whether a commit to {self._store.url} was written ({cause}). Repeat the same "
            "call; staged files stay until it is known",
            ticket.request_id,
        )
        error.__cause__ = cause
        return error

    def _resolve_found(self, tickets: list[PendingCommit]) -> bool:
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
                self._ensure_entry_durable(seq)
                ticket.result = Committed(seq, outcome.results, self._tail.state, ticket.request_id)
            self._in_doubt.resolve(ticket.request_id)
        return any_found

    def _resolve_lost(self, tickets: list[PendingCommit], state: State) -> bool:
        """Settle tickets whose slots were retired unread, as far as the state can tell; whether there were any.

        The others are asked again, which recognises what was done: by sequence, transaction or batch number.
        """
        any_settled = False
        for ticket in tickets:
            if self._in_doubt.is_unresolvable(state, ticket.request_id):
                lost = StorageError("its entry was retired before this process had read it")
                ticket.error = self._unknown(ticket, lost)
                any_settled = True
        return any_settled

    def _reject(self, ticket: PendingCommit, verdict: BaseException, state: State) -> None:
        """The rules say no; but an earlier try of the request may be in the log, or get there yet."""
        earlier = self._in_doubt.fate(state, ticket.request_id)
        if self._group.is_submitted(ticket.request_id):
            earlier = Fate.UNKNOWN
        if earlier is Fate.UNKNOWN:
            ticket.error = self._unknown(ticket, verdict)
            return
        if earlier is Fate.APPLIED:
            ticket.result = Committed(state.seq, (), state, ticket.request_id)
        else:
            ticket.error = verdict
        self._in_doubt.resolve(ticket.request_id)

    def _may_be_in(self, slot: int, request_id: bytes) -> bool:
        return self._group.is_submitted(request_id) or self._in_doubt.may_be_in(slot, request_id)

    def _ensure_entry_durable(self, seq: int) -> None:
        """Before "it is done" rests on an entry that was only read: its writer may have died before it synced."""
        if seq > self._durable:
            self._store.ensure_durable(paths.entry(seq, self._tail.state.entries_per_folder))
            self._durable = seq

    def _follow(self, until: int | None = None) -> State:
        """Follow the tail."""
        return self._retry_until(lambda: self._tail.follow(until))

    def _retry_until(self, read: Callable[[], T]) -> T:
        """What ``read`` gives: a read may be repeated at will."""
        deadline = self._clock.monotonic() + self._retry.deadline_s
        attempt = 0
        while True:
            try:
                return read()
            except (StoreUnavailableError, OutcomeUnknownError):
                if self._clock.monotonic() >= deadline:
                    raise
            self._clock.sleep(self._retry.wait_s(attempt, self._clock))
            attempt += 1
