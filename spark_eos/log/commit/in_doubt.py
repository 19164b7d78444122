"""In-doubt requests: which requests of this process may be in the log, though no reply has said so, and where.

A create without a reply may be in its slot and in no other. A request that was handed over to other processes
(`spark_eos.log.commit.group`) may be in any slot until it is taken back, and once the log has been looked at after
that, in the slot that was free then at the latest. A slot that is filled is read, and whatever it holds is found there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from spark_eos.log.commit.tail import Tail
from spark_eos.protocol.actions import Action, Request
from spark_eos.protocol.rules.fate import Fate, fate_of, is_repeatable
from spark_eos.protocol.state import State

__all__ = ["InDoubtRequests"]

_UNSEEN = -1


class _Sent(NamedTuple):
    """The newest slot that a request may be in, and what it may be there: on another state it was another.

    `_UNSEEN`: the slot that is free when the log is looked at next.
    """

    slot: int
    variants: tuple[tuple[Action, ...], ...]
    was_handed_over: bool = False


class InDoubtRequests:
    """The requests that the tail watches for, from when they are sent until their fate is known."""

    def __init__(self, tail: Tail) -> None:
        self._tail = tail
        self._sent: dict[bytes, _Sent] = {}

    def record_attempt(self, requests: Iterable[Request], slot: int, handed_over: Collection[bytes]) -> None:
        """``requests`` are about to be sent to ``slot``, perhaps not for the first time."""
        for request in requests:
            one = request.request_id
            self._tail.watch(one)
            before = self._sent.get(one)
            if before is None or not (one in handed_over or before.slot >= slot):
                self._sent[one] = _Sent(slot, (request.actions,))
            elif request.actions in before.variants:
                self._sent[one] = before._replace(slot=slot)
            else:
                self._sent[one] = before._replace(slot=slot, variants=(*before.variants, request.actions))

    def record_withdrawal(self, request_ids: Iterable[bytes]) -> None:
        """They were withdrawn: no leader that has not read them by now puts them into an entry."""
        for one in request_ids:
            if (sent := self._sent.get(one)) is not None:
                self._sent[one] = sent._replace(slot=_UNSEEN, was_handed_over=True)

    def record_read(self, state: State) -> None:
        """The log was looked at, and ``state`` was its end."""
        for one, sent in self._sent.items():
            if sent.slot == _UNSEEN:
                self._sent[one] = sent._replace(slot=state.seq + 1)

    def is_settled_by_filling(self, request_id: bytes, state: State) -> bool:
        """Whether it was handed over, and is either in the slot behind ``state`` or nowhere."""
        sent = self._sent.get(request_id)
        return sent is not None and sent.was_handed_over and sent.slot > state.seq

    def may_be_in(self, slot: int, request_id: bytes) -> bool:
        """Whether it was sent to ``slot`` before."""
        sent = self._sent.get(request_id)
        return sent is not None and sent.slot == slot

    def is_open(self, request_id: bytes) -> bool:
        """Whether it was sent at all, and its fate is not known."""
        return request_id in self._sent

    def resolve(self, request_id: bytes) -> None:
        """Its fate is known."""
        self._tail.unwatch(request_id)
        self._sent.pop(request_id, None)

    def fate(self, state: State, request_id: bytes) -> Fate:
        """Whether an earlier try of a request is in the log, for which nothing can be done now."""
        sent = self._sent.get(request_id)
        if sent is None:
            return Fate.NOT_APPLIED
        if self._tail.is_lost(request_id):
            return _fate(state, sent)
        # It may still land in its slot, behind others that it depended on.
        return Fate.UNKNOWN if sent.slot == _UNSEEN or sent.slot > state.seq else Fate.NOT_APPLIED

    def is_unresolvable(self, state: State, request_id: bytes) -> bool:
        """Whether its slot was retired unread, nothing in ``state`` tells of it, and doing it twice would be wrong."""
        if not self._tail.is_lost(request_id):
            return False
        sent = self._sent[request_id]
        return _fate(state, sent) is Fate.UNKNOWN and not all(map(is_repeatable, sent.variants))


def _fate(state: State, sent: _Sent) -> Fate:
    told = {fate_of(state, actions) for actions in sent.variants}
    if Fate.UNKNOWN in told:
        return Fate.UNKNOWN
    return Fate.APPLIED if Fate.APPLIED in told else Fate.NOT_APPLIED
