"""The commit loop: a proposal becomes an entry, or is rejected, or stays in doubt. Nothing else.

One round is one slot. Read to the end of the log; let each proposal say what it wants, given that state; check it
against the rules; create the entry in the next slot. A create that succeeds proves that the state was the newest one.
If another process was faster, its entry is read, and the next slot is tried.

*A lost reply.* A create without a reply may have filled its slot. `spark_eos.log.commit.slots` creates the same bytes
in the same slot again, until they are in, or until another entry is found there: then this one can never get in. If
the store stays away too long, the caller gets `CommitOutcomeUnknownError`. The request stays in doubt
(`spark_eos.log.commit.in_doubt`), and the same call, repeated, finds its own entry.

*Threads.* The thread that holds the turn takes all waiting proposals into one entry.

*Processes.* A round has one of two strategies. Alone, a process creates the entry itself. Under contention
(`spark_eos.log.commit.group`) one process leads: its entries contain what the others have submitted. For its owner a
submitted request is in doubt as after a create without a reply; but it may be in more than one slot.
"""

from __future__ import annotations

import logging
import os

from spark_eos.errors import (
    DivergedLogError,
    EosLogError,
    IllegalStateError,
    NotALogError,
    StoreUnavailableError,
    UnsupportedVersionError,
)
from spark_eos.log.clock import Clock, Retry
from spark_eos.log.commit.answers import Answers
from spark_eos.log.commit.counts import CommitCounts
from spark_eos.log.commit.entry_builder import Committed, EntryBuilder, PendingCommit, Propose
from spark_eos.log.commit.group import CommitGroup
from spark_eos.log.commit.in_doubt import InDoubtRequests
from spark_eos.log.commit.lagging import LaggingWriter
from spark_eos.log.commit.slots import TAKEN, Slots
from spark_eos.log.commit.tail import Tail
from spark_eos.log.environment import PROCESS, Environment, refuse_second_call
from spark_eos.log.timekeeping import Timekeeper
from spark_eos.protocol.actions import Entry, Request
from spark_eos.protocol.encoding.entries import encode_entry
from spark_eos.protocol.rules.apply import apply, state_after
from spark_eos.storage import Store
from spark_eos.storage.forks import OfOneProcess

__all__ = ["Committed", "Committer", "Propose"]

_LOG = logging.getLogger(__name__)

IDLE_S = 5.0
"""A process that has not committed for so long looks for new entries first."""

ALONE_S = 60.0
"""The same for a process that was the only writer until now, where looking costs a request."""


class Committer(OfOneProcess):
    """The only writer of entries in a process. Safe to share between threads. A child has one of its own."""

    _instead = "only that process goes on with what it was committing, and knows what came of it"

    def __init__(
        self,
        store: Store,
        tail: Tail,
        in_doubt: InDoubtRequests,
        clock: Clock,
        retry: Retry,
        time: Timekeeper,
        environment: Environment = PROCESS,
    ) -> None:
        super().__init__()
        self._pid = os.getpid()
        self._store = store
        self._tail = tail
        self._clock = clock
        self._time = time
        self._in_doubt = in_doubt
        self._group = CommitGroup(store, tail, in_doubt, clock, environment)
        self._slots = Slots(
            store, tail, in_doubt, self._group, clock, retry, lambda: self._check_process("commit")
        )
        self._lagging = LaggingWriter(tail, in_doubt, self._group, clock, time, environment)
        self._answers = Answers(store.url, tail, in_doubt, self._slots)
        self._turn = environment.lock("commit")
        self._queue = environment.lock("commit")
        self._waiting: list[PendingCommit] = []
        self._used_s = clock.monotonic()
        self._alone_since = -1
        """How many entries had been read when this process wrote its last one."""
        self._alone = False
        """Whether no other process wrote between the last two."""

    def commit(
        self, propose: Propose, *, writer: str = "", request_id: bytes | None = None, alone: bool = False
    ) -> Committed:
        """Put the proposed actions into the log, all or none.

        ``alone``: no other process adds them to an entry, so that they follow the very state they were proposed on.
        Pass the ``request_id`` of a `CommitOutcomeUnknownError` to repeat that very call. Raises whatever
        rule the request breaks, `CommitOutcomeUnknownError` if it may or may not be in, and a
        `StorageError` or `StoreUnavailableError` if it certainly is not.
        """
        self._check_process("commit")
        if self._pid != os.getpid():
            raise IllegalStateError(
                "commit: this process was forked by a library that does not tell Python (PyOS_AfterFork_Child): open "
                "the log again in the child"
            )
        refuse_second_call(self._turn)
        self._tail.refuse_second_call()
        ticket = PendingCommit(propose, request_id or self._clock.unique(), writer, alone)
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
            # Every caller gets an answer, and none gets a "no" whose request may be in the log.
            broken = [ticket for ticket in tickets if not ticket.done]
            for ticket in broken:
                self._answer_broken(ticket, error)
            # Where all have their answer the entry is durable: what failed behind it is nothing to its writers.
            if not isinstance(error, Exception) or (broken and not isinstance(error, EosLogError)):
                raise
        finally:
            self._leave_group(tickets)

    def _answer_broken(self, ticket: PendingCommit, error: BaseException) -> None:
        """The round broke off with ``error``."""
        if self._is_foreign:  # A child knows nothing of what is in doubt here.
            ticket.error = error
        elif isinstance(error, DivergedLogError):
            self._answers.diverged(ticket, error)
        elif isinstance(error, NotALogError):
            self._answers.closed(ticket, error)
        elif isinstance(error, UnsupportedVersionError):
            self._answers.overtaken(ticket, error)
        elif isinstance(error, EosLogError) or ticket.request_id in self._in_doubt:
            self._answers.given_up(ticket, error)
        else:  # The interrupt is this thread's alone.
            ticket.error = StoreUnavailableError(
                "another thread that wrote for this one was interrupted: nothing was done, try again"
            )

    def _leave_group(self, tickets: list[PendingCommit]) -> None:
        """Leave the others. What goes wrong there takes back no answer."""
        try:
            self._group.withdraw()
            self._group.release_lead()
        except Exception:
            if not all(ticket.done for ticket in tickets):
                raise
            _LOG.exception("leaving the commit group failed")

    @property
    def counts(self) -> CommitCounts:
        """What this process has done since it opened the log."""
        return self._slots.counts

    # -- The two strategies --------------------------------------------------------------------------------

    def _attempt_slot(self, tickets: list[PendingCommit]) -> None:
        """One round: fill the next slot, or submit what is to be in it, or learn what is newer."""
        contended = self._group.is_contended
        if contended and self._lagging.attempt(tickets):
            return
        if self._tail.has_unread:
            # Else a leader of another history, which has all that was read here, would take along what is submitted.
            self._slots.follow()
        if contended:
            self._attempt_in_group(tickets)
        else:
            self._group.withdraw()
            draft = self._drafted(tickets)
            if draft is not None:
                self._create(draft)

    def _attempt_in_group(self, tickets: list[PendingCommit]) -> None:
        leads = self._group.try_lead()
        try:
            self._slots.catch_up_with_group()
            if leads and self._store.requests_are_free:
                self._slots.follow()  # Cheaper than a create in vain: not every process publishes its entries.
            draft = self._drafted(tickets)
            if draft is not None and leads:
                self._lead(draft)
            elif draft is not None:
                self._submit(draft)
        finally:
            if leads:
                self._group.release_lead()

    def _lead(self, draft: EntryBuilder) -> None:
        """Create the next slot, with what the others want to be in it."""
        draft.state, submitted, draft.collected = self._group.collect(draft.state, draft.requests)
        draft.requests += submitted
        self._create(draft)

    def _submit(self, draft: EntryBuilder) -> None:
        """Submit the requests to the leader, and wait until they are in the log, or until there is no leader."""
        slot = draft.state.seq + 1
        # A leader adds what is submitted to whatever state it has.
        if draft.is_alone or not self._group.submit(draft.requests):
            self._create(draft)
            return
        while not self._group.try_lead():
            self._group.backoff()
            self._slots.catch_up_with_group()
            # The leader may have begun before. What it left out twice does not fit any more as it is.
            if self._answers.settle(draft.tickets) or self._tail.state.seq > slot:
                return

    def _create(self, draft: EntryBuilder) -> None:
        """Fill the next slot: with this draft, or find what another process put there."""
        entry = Entry(draft.state.seq + 1, tuple(draft.requests), draft.state.lineage)
        try:
            data = encode_entry(entry, is_checked=True)
        except EosLogError:
            self._answers.unencodable(draft)
            return
        # Before the create: what fails here would fail for every reader of the entry.
        state = state_after(draft.state, entry)
        sent = self._slots.fill(draft.state, data, draft.requests[: len(draft.tickets)])
        if sent is TAKEN:
            self._answers.slot_taken(draft.tickets)
        elif isinstance(sent, EosLogError):
            self._answers.failed(draft.tickets, sent)
        # If others may have gone past the slot long ago, the state tells whether it was done.
        elif not self._tail.is_covered_by_snapshot(entry.seq, draft.as_of):
            self._tail.check_created(draft.state, entry.seq, draft.as_of)
            self._answers.created(draft, entry.seq, state)
            self._slots.filled(entry.seq, len(draft.requests), len(draft.tickets))
            self._alone = not self._store.requests_are_free and self._tail.applied == self._alone_since
            self._alone_since = self._tail.applied
            self._tail.advance(state, entry, sent)
            for ticket in draft.tickets:
                self._in_doubt.resolve(ticket.request_id)
            self._lagging.note_led(entry.seq)
            self._group.publish(state, data, draft.collected, len(draft.tickets))

    # -- One draft -----------------------------------------------------------------------------------------

    def _drafted(self, tickets: list[PendingCommit]) -> EntryBuilder | None:
        """Draft an entry on the state at hand; None after what is newer was learned, or if all have their answer."""
        now, age_s = self._clock.monotonic(), self._tail.age_s
        as_of, state = self._tail.as_of, self._tail.state
        if min(now - self._used_s, age_s) > (ALONE_S if self._alone else IDLE_S):
            # A create at a slot of long ago would be refused, and what is in it may be retired.
            as_of, state = self._tail.clock_reading(), self._slots.follow()
        self._used_s = now
        if earlier := [ticket.request_id for ticket in tickets if ticket.request_id in self._in_doubt]:
            if not all(map(self._in_doubt.is_submitted, earlier)):
                # It may have got into the log since.
                as_of, state = self._tail.clock_reading(), self._slots.follow()
                self._in_doubt.record_read(state)
            if self._answers.settle(tickets):
                return None
        draft, refused = self._draft(EntryBuilder(state, as_of), tickets)
        if refused and self._slots.follow().seq != state.seq:
            return None  # It was refused, or found done, on a state that is not the newest: ask again.
        if self._may_have_been_taken_along([ticket.request_id for ticket, _ in refused], draft):
            return None
        for ticket, verdict in refused:
            if isinstance(verdict, BaseException):
                self._answers.rejected(ticket, verdict, state)
            else:
                self._slots.ensure_durable(state.seq)
                ticket.result = verdict
        return draft if draft.requests else None

    def _draft(
        self, draft: EntryBuilder, tickets: list[PendingCommit]
    ) -> tuple[EntryBuilder, list[tuple[PendingCommit, BaseException | Committed]]]:
        refused: list[tuple[PendingCommit, BaseException | Committed]] = []
        for ticket in tickets:
            verdict = draft.add(ticket, self._time.stamp)
            # What rests on a draft that may never become an entry is no answer: ask again after it.
            if verdict is not None and not draft.requests:
                refused.append((ticket, verdict))
        return draft, refused

    def _may_have_been_taken_along(self, refused: list[bytes], draft: EntryBuilder) -> bool:
        """Find out whether what is about to be refused was submitted and is in the log: whether to ask again."""
        if any(map(self._in_doubt.is_submitted, refused)):
            self._group.withdraw()
            return not any(map(self._in_doubt.is_submitted, refused))
        state = self._tail.state
        if not any(self._in_doubt.is_settled_by_filling(request_id, state) for request_id in refused):
            return False
        now = self._time.stamp(state)
        nothing = Request(self._clock.unique(), now.timestamp_ms, (), "to fill the slot", now.clock_checked)
        filler = EntryBuilder(state, draft.as_of, requests=[nothing])
        filler.state, _ = apply(filler.state, nothing)  # It moves the log's time on.
        self._create(filler)
        return self._tail.state.seq > state.seq
