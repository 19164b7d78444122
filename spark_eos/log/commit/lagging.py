"""Lagging processes: under contention, a process that does not lead leaves off applying what the others write.

Where sixteen processes write to one log, each entry holds the requests of many of them. If each process applied each
entry, they would spend most of their time with that. A process that only waits for its own requests need not: the
leader judges them by the rules, and reports what came of them (`spark_eos.log.commit.outcomes`).

*Proposals.* A lagging process drafts on the state that it has read last, with its own requests since. It knows nothing
newer, but its own producers change by its own requests alone, so its drafts fit. If not, the leader leaves them out.

*Only "yes" is taken over.* In all other cases the process reads the log to its end before it answers: if a draft is
refused, a request is not in the next entries, the leader is silent, or an attempt is repeated.

*Slots.* A request that was made when entry N was known to be there is in no entry up to N. So it is submitted for slot
N + 1, though its process has not read so far.

*The history.* If the log is put back from a copy, a process that has read its requests finds out by the entries that
are gone. A lagging process remembers the newest entry that holds a request of its own, its file, and the lineage after
it. It looks at the file before each "yes". If that is another file, or gone, it reads on, and finds out by the lineage.

*The lead.* A process that takes the lead has to catch up before. So one that lags waits before it does, the longer the
more it has to apply: a process that has led of late comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from spark_eos.errors import StorageError, StoreUnavailableError
from spark_eos.log.clock import Clock
from spark_eos.log.commit.entry_builder import Committed, EntryBuilder, PendingCommit
from spark_eos.log.commit.group import CommitGroup
from spark_eos.log.commit.in_doubt import InDoubtRequests
from spark_eos.log.commit.outcomes import (
    FoundRequest,
    are_reportable,
    mean_requests,
    read_newest,
    read_results,
)
from spark_eos.log.commit.tail import Tail
from spark_eos.log.environment import PROCESS, Environment
from spark_eos.log.timekeeping import Timekeeper
from spark_eos.protocol.actions import Request
from spark_eos.protocol.rules.apply import Rejected, apply, judged_by
from spark_eos.protocol.state import EMPTY, State

_TOO_FAR = 4
"""A process lags no further than so many times the entries after which it looks for a snapshot."""

_LEFT_OUT = 3
"""A leader may have begun an entry before a request was submitted. What so many leave out does not fit as it is."""


class _Reported(NamedTuple):
    """A request that leaders reported to be in the log."""

    ticket: PendingCommit
    request: Request
    report: FoundRequest


class LaggingWriter:
    """The commits of a process that lags behind a group of writers. For one thread at a time."""

    def __init__(
        self,
        tail: Tail,
        in_doubt: InDoubtRequests,
        group: CommitGroup,
        clock: Clock,
        time: Timekeeper,
        environment: Environment = PROCESS,
    ) -> None:
        self._tail = tail
        self._in_doubt = in_doubt
        self._group = group
        self._clock = clock
        self._time = time
        self._lag = environment.lag
        self._led = -1
        """The newest entry that this process has created."""
        self._skipped_at = -1
        """The newest entry when it last looked for a snapshot."""
        self._newest = -1
        """The newest entry that leaders reported, and the lineage after it."""
        self._lineage = b""
        self._own: list[tuple[int, Request]] = []
        """The requests of this process in entries that it has not read, with the entries."""
        self._report = b""
        self._is_news = False
        """Whether that was another report than at the look before."""
        self._read, self._drafted = -1, EMPTY
        """The entry up to which this process had read, and the state there with what it has written since."""

    def note_led(self, seq: int) -> None:
        """This process has created entry ``seq``."""
        self._led = seq

    def attempt(self, tickets: Sequence[PendingCommit]) -> bool:
        """Have the leader write what the tickets ask for; whether one of them was answered.

        If not, the log is to be read to its end, and the tickets are drafted once more. They may be submitted by then.
        """
        if not self._lags(tickets) or not self._tail.is_undisturbed():
            return False
        base = self._tail.state
        if (state := self._with_own(base)) is None:
            return False
        draft = EntryBuilder(state, self._tail.as_of)
        for ticket in tickets:
            if ticket.alone or draft.add(ticket, self._time.stamp) is not None:
                return False
        if not are_reportable(action for request in draft.requests for action in request.actions):
            return False
        if not self._group.submit(draft.requests, self._newest, self._lineage):
            return False
        reported = self._wait_for(draft)
        if not reported or not self._tail.is_undisturbed() or not self._answer(draft, reported):
            return False
        # If the answer of one is still out, the next draft is made from those that have theirs.
        self._read = base.seq if all(ticket.done for ticket in tickets) else -1
        self._drafted = draft.state
        return True

    def _with_own(self, base: State) -> State | None:
        """What this process has read, with all that it has written since and has answers to; None if that does not fit.

        A client takes the numbers of its next batches from the state of its last answer. If that lacked an earlier
        answer, a new batch would get the numbers of an old one, and count as its repetition.
        """
        if self._read == base.seq:
            return self._drafted
        self._own = [logged for logged in self._own if logged[0] > base.seq]
        state = judged_by(base)
        for _, request in self._own:
            state, outcome = apply(state, request)
            if isinstance(outcome, Rejected):
                return None
        return state

    def _lags(self, tickets: Sequence[PendingCommit]) -> bool:
        """Whether this process need not read what the others write, for what the tickets ask for."""
        if any(ticket.request_id in self._in_doubt for ticket in tickets) or not self._look():
            return False
        if self._newest - self._led < self._lag.after or mean_requests(self._report) < self._lag.requests:
            return False
        since = max(self._tail.state.seq, self._skipped_at)
        if self._newest - since >= self._lag.skips and not self._in_doubt.ids:
            self._skipped_at = self._newest  # Where no newer snapshot is, not each commit looks for one.
            try:
                self._tail.skip_to_snapshot()
            except (StorageError, StoreUnavailableError):
                return False
        return self._newest - self._tail.state.seq < self._lag.skips * _TOO_FAR

    def _wait_for(self, draft: EntryBuilder) -> list[_Reported]:
        """Wait until a request of the draft is reported: those that are. This process may lead by then, if none is."""
        self._look()
        submitted_at = newest = self._newest
        heard_s = self._clock.monotonic()
        while not (self._is_news and (reported := self._reported(draft))):
            if newest < self._newest:
                newest, heard_s = self._newest, self._clock.monotonic()
                self._group.note_news()
            if newest >= submitted_at + _LEFT_OUT:
                return []
            lacks = newest - self._tail.state.seq
            hesitates_s = min(self._group.pace_s, self._lag.most_s) + self._lag.each_s * lacks
            if self._clock.monotonic() - heard_s > hesitates_s and self._group.try_lead():
                return []
            self._group.backoff()
            self._look()
        return reported

    def _look(self) -> bool:
        """Read what leaders reported last; whether they did of late."""
        report = self._group.outcomes()
        if report is None:
            return False
        self._is_news = report is not self._report
        self._report = report
        self._newest, self._lineage = read_newest(report)
        return True

    def _reported(self, draft: EntryBuilder) -> list[_Reported]:
        """The requests of the draft that leaders reported to be in the log."""
        return [
            _Reported(ticket, request, report)
            for ticket, request in zip(draft.tickets, draft.requests, strict=True)
            if (report := read_results(self._report, request.request_id, request.actions)) is not None
        ]

    def _answer(self, draft: EntryBuilder, reported: Iterable[_Reported]) -> bool:
        """Answer the tickets that leaders reported to be in the log; whether there are any."""
        for ticket, request, report in reported:
            if not self._tail.note_unread(report.seq, report.lineage):
                break
            self._own.append((report.seq, request))
            results, state = report.results, draft.state
            ticket.result = Committed(report.seq, results, state, ticket.request_id, is_lagging=True)
            self._in_doubt.resolve(ticket.request_id)
        return any(ticket.done for ticket in draft.tickets)
