"""Group commit: processes that write to the same log at the same time share entries.

Alone, a process creates the next entry and is done. When many processes create the same slot, one wins, and the others
have worked in vain. So a process that has just lost a slot joins the store's group channel
(`spark_eos.storage.group_channel`). One process leads: it collects what the others have submitted into its entry. The
others submit their requests and wait.

*Once, and no more.* A submitted request may be in any slot from the one on that was free when it was submitted. A
leader that puts it into slot M has read all entries before M, or its create fails. So the leader leaves out what it
has seen in one of them, and leaves out requests that are older than what it remembers (`Tail.ids_from`). The owner
looks for its request by its id, as after any create without a reply.

*Withdrawal.* A leader may have read a request just before it was withdrawn. That leader had read all entries up to some
slot, so the request can only land in that slot or in the next one. When the owner has withdrawn the request, and has
seen the slot filled that was free after that, it knows the outcome.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

from spark_eos.errors import EosLogError
from spark_eos.log.clock import Clock
from spark_eos.log.commit.tail import REMEMBERED, Tail
from spark_eos.protocol.actions import Action, Entry, Request
from spark_eos.protocol.encoding.entries import decode_entry, encode_entry
from spark_eos.protocol.rules import Rejected, apply
from spark_eos.protocol.state import State
from spark_eos.storage import Store
from spark_eos.storage.group_channel import GroupChannel

__all__ = ["CommitGroup"]

CONTENTION_WINDOW_S = 1.0
"""For so long after another process has written, this process commits in a group."""

LEADER_TIMEOUT_S = 1.0
"""A leader that gives no sign for so long counts as asleep: the others do not wait for it any more."""

MAX_SUBMISSION_BYTES = 1_000_000
"""Of other processes' requests in one entry."""

_SHORTEST_S, _LONGEST_S = 0.0005, 0.01
"""Between two looks whether the leader is done."""


class CommitGroup:
    """One process's part in group commit. For one thread at a time."""

    def __init__(self, store: Store, tail: Tail, clock: Clock) -> None:
        self._store = store
        self._tail = tail
        self._clock = clock
        self._channel: GroupChannel | None = None
        self._crowded_s = -math.inf
        self._heard_s = -math.inf
        """When the leader last gave a sign that it is awake."""
        self._led = 0
        """That sign."""
        self._goes_without = False
        self._handed_slot = 0
        self._handed: dict[bytes, tuple[Action, ...]] = {}
        self._wait_s = _SHORTEST_S
        self._news_s = -math.inf
        """When something was last heard."""

    @property
    def is_contended(self) -> bool:
        """Whether others have written a moment ago, or want to, and there is a place to meet them."""
        if not self._tail.state.log_id:
            return False
        if self._channel is None:
            self._channel = self._store.group_channel(self._tail.state.log_id)
            if self._channel is None:
                return False
        if self._is_contended_now:
            return True
        # A process that wins every slot sees no entries of others; but those that lose take the lead.
        if self._channel.leader_token():
            self.note_contention()
        return self._is_contended_now

    @property
    def _is_contended_now(self) -> bool:
        return self._clock.monotonic() - self._crowded_s <= CONTENTION_WINDOW_S

    def note_contention(self) -> None:
        """Another process has written, or wants to."""
        now = self._clock.monotonic()
        if now - self._crowded_s > CONTENTION_WINDOW_S:
            self._heard_s = now
        self._crowded_s = now

    # -- Who leads --------------------------------------------------------------------------------------

    def try_lead(self) -> bool:
        """Lead, unless another process does that is awake."""
        assert self._channel is not None
        now = self._clock.monotonic()
        leads = self._channel.try_lead()
        led = 0 if leads else self._channel.leader_token()
        if leads or led not in (0, self._led):
            self._led, self._heard_s = led, now
            self._goes_without = False
        elif now - self._heard_s > LEADER_TIMEOUT_S:
            # Until it wakes, every process writes for itself.
            self._goes_without = True
        return leads or self._goes_without

    def release_lead(self) -> None:
        """Lead no more."""
        if self._channel is not None:
            self._channel.release_lead()

    def publish(self, seq: int, data: bytes) -> None:
        """This process has created entry ``seq``: tell the processes that wait for it."""
        if self.is_contended:
            assert self._channel is not None
            self._channel.publish(seq, b"" if self._store.is_local else data)

    def catch_up(self) -> int:
        """Take over what was announced; the newest entry of which that says that it is durable, or -1.

        Where the bytes are near, they are read from the store.
        """
        assert self._channel is not None
        known = -1
        while (data := self._channel.published(self._tail.state.seq + 1)) is not None:
            seq = self._tail.state.seq + 1
            try:
                if data:
                    self._tail.take(decode_entry(data, seq, f"the announcement of entry {seq}"))
                elif self._tail.follow(seq).seq < seq:
                    break
            except EosLogError:
                break  # The store is asked before anything rests on it.
            known = seq
            self.note_contention()
        if known >= 0:
            # So long as the last entry took the next one will take, or nearly so.
            now = self._clock.monotonic()
            self._wait_s = min(max((now - self._news_s) / 8, _SHORTEST_S), _LONGEST_S)
            self._news_s = now
        return known

    def backoff(self) -> None:
        """A little while, longer each time that nothing was heard."""
        self._clock.sleep(self._wait_s)
        self._wait_s = min(self._wait_s * 1.3, _LONGEST_S)

    # -- What is handed over ----------------------------------------------------------------------------

    @property
    def submitted(self) -> Collection[bytes]:
        """The requests of this process that the others may find."""
        return self._handed

    def is_submitted(self, request_id: bytes) -> bool:
        """Whether the others may find a request of this process."""
        return request_id in self._handed

    def encode_submission(self, requests: Sequence[Request]) -> bytes | None:
        """``requests`` as they are handed over, if they can be; none is in an entry that this process knows."""
        slot = self._tail.state.seq + 1
        try:
            data = encode_entry(Entry(slot, tuple(requests)))
        except EosLogError:
            return None  # The attempt to write it down says why.
        return slot.to_bytes(8, "big") + data if len(data) <= MAX_SUBMISSION_BYTES else None

    def submit(self, offer: bytes, requests: Sequence[Request]) -> Collection[bytes] | None:
        """Submit ``requests`` to the leader.

        Returns what is not handed over any more, as it is not among them; None if that failed.
        """
        assert self._channel is not None
        wanted = {request.request_id: request.actions for request in requests}
        slot = self._tail.state.seq + 1
        if wanted == self._handed and slot - self._handed_slot < REMEMBERED // 2:
            return ()
        dropped = self._handed.keys() - wanted
        # From here on others may see it, whether that fails or is interrupted.
        self._handed = {**self._handed, **wanted}
        if not self._channel.submit(offer):
            return None
        self._handed, self._handed_slot = wanted, slot
        return dropped

    def withdraw(self) -> Collection[bytes]:
        """Withdraw this process's requests: which ones they were. None of them if that failed."""
        if not self._handed:
            return ()
        assert self._channel is not None
        if not self._channel.withdraw():
            return ()
        before, self._handed = self._handed, {}
        return before

    def collect(self, state: State) -> tuple[State, list[Request]]:
        """The requests of others that can be added to an entry whose own ones lead to ``state``."""
        added: list[Request] = []
        left = MAX_SUBMISSION_BYTES
        for slot, offered, size in self._submissions():
            seen = self._tail.ids_from(slot)
            if seen is None or size > left:
                continue
            before = len(added)
            for request in offered:
                if request.request_id in seen or any(request.request_id == one.request_id for one in added):
                    continue
                after, outcome = apply(state, request)
                if not isinstance(outcome, Rejected):
                    state = after
                    added.append(request)
            left -= size if len(added) > before else 0
        if added:
            self.note_contention()
        return state, added

    def _submissions(self) -> Iterator[tuple[int, tuple[Request, ...], int]]:
        """What others have handed over: since which slot, the requests, and their size in bytes."""
        assert self._channel is not None
        for data in self._channel.submissions():
            slot = int.from_bytes(data[:8], "big")
            with suppress(EosLogError):  # It may be half written, or by a newer version.
                yield slot, decode_entry(data[8:], slot, "what was handed over").requests, len(data)
