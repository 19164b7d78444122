"""In-doubt requests: those that this process has sent and has no answer to, and what became of each. One owner.

The commit loop records here what it sends, group commit what it submits, and the tail what it reads. A request is

*sent* to a slot. It is *unanswered* if the store did not say whether the create was done. It may be in its slot then,
and in no other.

*submitted* to other processes (`spark_eos.log.commit.group`). It may be in any slot from its own on.

*withdrawn*. A leader may have read it just before. So it may be in a slot up to the one that is free when this process
reads the log next, and in none after that. If leaders may be on other machines, nothing tells when a leader has read it
last. Then it may be in any slot up to the last one that its submission allows (``until``), and in none after it.

*found* in an entry that the tail has read. If its slot was filled and it was not found there, it never gets into the
log. If its slot was retired before this process could read it, it is *lost*: only the state may tell what became of it
(`spark_eos.protocol.rules.fate`).

*resolved* at last: its caller has an answer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spark_eos.protocol.actions import Action, Entry, Request
from spark_eos.protocol.rules.apply import Outcome
from spark_eos.protocol.rules.fate import Fate, fate_of, is_repeatable
from spark_eos.protocol.state import State

Found = tuple[int, Outcome]
"""The entry in which a request was found, and what the rules made of it there."""

_NEXT_FREE = -1
"""In place of a slot: the one that is free when this process reads the log next."""


@dataclass(slots=True)
class _InDoubt:
    slot: int
    """The newest one that the request may be in, or is about to be sent to."""
    variants: tuple[tuple[Action, ...], ...] = ()
    """What it may be there: a proposal asks for other actions on another state."""
    until: int = -1
    """The last slot that leaders on other machines may put it into, also after it was withdrawn."""
    is_unanswered: bool = False
    is_troubled: bool = False
    """A reply was lost, or its caller has given up: it is not merely under way."""
    is_submitted: bool = False
    was_submitted: bool = False
    entry_outcome: Found | None = None
    is_lost: bool = False

    def may_come(self, state: State) -> bool:
        """Whether it may still get into a slot after ``state``, after others that it depended on.

        Also if it was lost, and sent again.
        """
        return self.slot == _NEXT_FREE or self.slot > state.seq or self.until > state.seq

    def told_by(self, state: State) -> Fate:
        fates = {fate_of(state, actions) for actions in self.variants}
        if Fate.UNKNOWN in fates:
            return Fate.UNKNOWN
        return Fate.APPLIED if Fate.APPLIED in fates else Fate.NOT_APPLIED


class InDoubtRequests:
    """The in-doubt requests of one process, by request id. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[bytes, _InDoubt] = {}

    # -- The commit loop -----------------------------------------------------------------------------------

    def record_attempt(self, requests: Iterable[Request], slot: int) -> None:
        """``requests`` are about to be sent to ``slot``, perhaps not for the first time."""
        with self._lock:
            for request in requests:
                doubt = self._open.get(request.request_id)
                if doubt is None:
                    self._open[request.request_id] = _InDoubt(slot, (request.actions,))
                    continue
                if not doubt.is_submitted and max(doubt.slot, doubt.until) < slot:
                    # The slots of earlier tries were read: no earlier variant can get into the log any more.
                    doubt.variants, doubt.was_submitted = (), False
                doubt.is_unanswered = doubt.is_submitted or doubt.slot == slot or doubt.until >= slot
                doubt.slot = slot
                if request.actions not in doubt.variants:
                    doubt.variants = (*doubt.variants, request.actions)

    def record_lost_reply(self, requests: Iterable[Request]) -> None:
        """The store did not say whether it has filled the slot to which ``requests`` were sent."""
        for request in requests:
            doubt = self._open[request.request_id]
            doubt.is_unanswered = doubt.is_troubled = True

    def record_giving_up(self, request_id: bytes) -> None:
        """The caller of this request gets an error: the outcome is not known."""
        if (doubt := self._open.get(request_id)) is not None:
            doubt.is_troubled = True

    def record_submission(self, requests: Sequence[Request], slot: int) -> None:
        """From here on leaders may read ``requests``. The slot that is free now is ``slot``."""
        self.record_attempt(requests, slot)
        for request in requests:
            doubt = self._open[request.request_id]
            doubt.is_submitted = doubt.was_submitted = True

    def record_withdrawal(self, request_ids: Iterable[bytes], until: int = -1) -> None:
        """Leaders that have not read these requests by now do not find them any more.

        Leaders on other machines may put them into slots up to ``until`` all the same.
        """
        for request_id in request_ids:
            if (doubt := self._open.get(request_id)) is not None:
                doubt.is_submitted, doubt.slot = False, _NEXT_FREE
                doubt.until = max(doubt.until, until)

    def record_read(self, state: State) -> None:
        """This process has read the log to its end, which is ``state``."""
        with self._lock:
            for doubt in self._open.values():
                if doubt.slot == _NEXT_FREE:
                    doubt.slot = state.seq + 1

    def resolve(self, request_id: bytes) -> None:
        """Its caller has an answer."""
        with self._lock:
            self._open.pop(request_id, None)

    # -- The tail ------------------------------------------------------------------------------------------

    def record_entry(self, entry: Entry, outcomes: Sequence[Outcome]) -> None:
        """The tail has read an entry. It reads one only after it was created, and so after `record_attempt`."""
        if not self._open:
            return
        for request, outcome in zip(entry.requests, outcomes, strict=True):
            if (doubt := self._open.get(request.request_id)) is not None:
                doubt.entry_outcome = entry.seq, outcome

    def record_skip(self) -> None:
        """The tail goes on from a snapshot, past entries that it has not read: they may have held any request."""
        with self._lock:
            for doubt in self._open.values():
                doubt.is_lost = doubt.is_lost or doubt.entry_outcome is None

    # -- Questions -----------------------------------------------------------------------------------------

    @property
    def ids(self) -> frozenset[bytes]:
        """The requests without an answer."""
        # Without the lock: a forked child asks, where a thread of its parent may have held it.
        return frozenset(self._open)

    def unknown(self, state: State) -> int:
        """How many have no known outcome in ``state``; those that are merely under way are not among them."""
        # Without the lock, as above.
        troubled = [(request_id, doubt) for request_id, doubt in [*self._open.items()] if doubt.is_troubled]
        return sum(
            doubt.entry_outcome is None and self.fate(state, request_id) is Fate.UNKNOWN
            for request_id, doubt in troubled
        )

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._open

    def entry_outcome(self, request_id: bytes) -> Found | None:
        """The entry in which it was found; None if it was not."""
        doubt = self._open.get(request_id)
        return None if doubt is None else doubt.entry_outcome

    def is_submitted(self, request_id: bytes) -> bool:
        """Whether leaders may read it now."""
        doubt = self._open.get(request_id)
        return doubt is not None and doubt.is_submitted

    def was_submitted(self, request_id: bytes) -> bool:
        """Whether leaders may have read it at some time."""
        doubt = self._open.get(request_id)
        return doubt is not None and doubt.was_submitted

    def is_unanswered(self, request_id: bytes) -> bool:
        """Whether it may be in the slot to which it was sent last, whatever the store says to the newest create."""
        doubt = self._open.get(request_id)
        return doubt is not None and doubt.is_unanswered

    def is_lost(self, request_id: bytes) -> bool:
        """Whether it may be in an entry that was retired before this process could read it."""
        doubt = self._open.get(request_id)
        return doubt is not None and doubt.is_lost

    def may_have_got_in(self, request_id: bytes) -> bool:
        """Whether it was found in an entry, or may be in one that was retired before this process could read it.

        Else it is in no entry up to the newest one that this process knows.
        """
        doubt = self._open.get(request_id)
        return doubt is not None and (doubt.is_lost or doubt.entry_outcome is not None)

    def may_be_taken_along(self, request_id: bytes, state: State) -> bool:
        """Whether a leader may still put it into a slot after ``state``."""
        doubt = self._open.get(request_id)
        return doubt is not None and (doubt.is_submitted or doubt.until > state.seq)

    def is_settled_by_filling(self, request_id: bytes, state: State) -> bool:
        """Whether it was submitted, and is either in one of the next slots after ``state`` or nowhere."""
        doubt = self._open.get(request_id)
        return doubt is not None and doubt.was_submitted and max(doubt.slot, doubt.until) > state.seq

    def may_come_after(self, state: State, request_id: bytes) -> bool:
        """Whether it may be in an entry of others after ``state``. The next slot has one that cannot be read here."""
        doubt = self._open.get(request_id)
        if doubt is None:
            return False
        is_next = doubt.is_submitted or doubt.slot == _NEXT_FREE or max(doubt.slot, doubt.until) > state.seq
        return doubt.is_lost or (doubt.was_submitted and is_next)

    def fate(self, state: State, request_id: bytes) -> Fate:
        """What became of it, told by ``state``, the end of the log, whose rules refuse it."""
        doubt = self._open.get(request_id)
        if doubt is None:
            return Fate.NOT_APPLIED
        if doubt.is_submitted:
            return Fate.UNKNOWN
        fate = doubt.told_by(state) if doubt.is_lost else Fate.NOT_APPLIED
        return Fate.UNKNOWN if fate is Fate.NOT_APPLIED and doubt.may_come(state) else fate

    def is_lost_for_good(self, state: State, request_id: bytes) -> bool:
        """Whether nothing will ever tell what became of it: its entry is gone, and ``state`` does not say."""
        doubt = self._open.get(request_id)
        if (
            doubt is None
            or not doubt.is_lost
            or doubt.is_submitted
            or doubt.entry_outcome is not None
            or doubt.may_come(state)
        ):
            return False
        return doubt.told_by(state) is Fate.UNKNOWN

    def is_unresolvable(self, state: State, request_id: bytes) -> bool:
        """Whether it is lost, ``state`` does not tell what became of it, and doing it twice would be wrong."""
        doubt = self._open.get(request_id)
        if doubt is None or not doubt.is_lost:
            return False
        return doubt.told_by(state) is Fate.UNKNOWN and not all(map(is_repeatable, doubt.variants))
