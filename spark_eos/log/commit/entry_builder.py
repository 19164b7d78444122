"""Drafts: what a commit asks for, becoming an entry, request by request. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from spark_eos.log.commit.outcomes import Report
from spark_eos.log.commit.tail import ClockReading
from spark_eos.log.gc_pause import MANY, paused
from spark_eos.log.timekeeping import Stamp
from spark_eos.protocol.actions import Action, AppendBatches, Request
from spark_eos.protocol.rules.apply import Rejected, apply, judged_by
from spark_eos.protocol.rules.bounds import in_plain_types
from spark_eos.protocol.state import State

Propose = Callable[[State], Sequence[Action]]
"""What to ask for, given a state; nothing, if nothing is left to do. May raise to refuse.

It is called again for every slot that is tried, so it must depend on the state alone.
"""


class Committed(NamedTuple):
    """A request that is in the log: its entry, what each action came to, and a state that contains it.

    ``results`` is empty if the proposal found that there was nothing to do. ``is_lagging``: this process has not
    applied what others wrote; the state is the one that it has, with all that it has written itself
    (`spark_eos.log.commit.lagging`).
    """

    seq: int
    results: tuple[Any, ...]
    state: State
    request_id: bytes
    is_lagging: bool = False


@dataclass(slots=True)
class PendingCommit:
    """A call of `Committer.commit` that waits for its answer. ``alone`` is as in `LogWriter.commit`."""

    propose: Propose
    request_id: bytes
    writer: str
    alone: bool = False
    result: Committed | None = None
    error: BaseException | None = None

    @property
    def done(self) -> bool:
        """Whether it has its answer."""
        return self.result is not None or self.error is not None


@dataclass(slots=True)
class EntryBuilder:
    """An entry in the making: the requests that passed, and the state to which they would lead.

    The first ones are those of ``tickets``, in order, with their ``results``. Requests of other processes may follow
    (`CommitGroup.collect`), ``collected`` with their results.
    """

    state: State
    as_of: ClockReading
    tickets: list[PendingCommit] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    results: list[tuple[Any, ...]] = field(default_factory=list)
    collected: list[Report] = field(default_factory=list)

    @property
    def is_alone(self) -> bool:
        """Whether a request of it may only be added to the state on which it was proposed."""
        return any(ticket.alone for ticket in self.tickets)

    def __post_init__(self) -> None:
        self.state = judged_by(self.state)  # As the entry will be.

    def add(
        self, ticket: PendingCommit, stamp: Callable[[State, Sequence[Action]], Stamp]
    ) -> BaseException | Committed | None:
        """Add what the ticket asks for, or say why it is not to be added."""
        try:
            actions = tuple(ticket.propose(self.state))
        except Exception as error:  # noqa: BLE001  (it belongs to this ticket's caller alone)
            return error
        if not actions:
            return Committed(self.state.seq, (), self.state, ticket.request_id)
        now = stamp(self.state, actions)
        request = Request(ticket.request_id, now.timestamp_ms, actions, ticket.writer, now.clock_checked)
        with paused(when=_batches(actions) > MANY):
            after, outcome = apply(self.state, request)
            if isinstance(outcome, Rejected) and (plain := in_plain_types(request)) is not request:
                request = plain
                after, outcome = apply(self.state, request)
        if isinstance(outcome, Rejected):
            return outcome.error
        self.state = after
        self.tickets.append(ticket)
        self.requests.append(request)
        self.results.append(outcome.results)
        return None


def _batches(actions: Sequence[Action]) -> int:
    appends = (action for action in actions if isinstance(action, AppendBatches))
    return sum(len(file.batches) for append in appends for file in append.files)
