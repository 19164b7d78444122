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
seen the slot filled that was free after that, it knows the outcome. A channel over a network has no certain
withdrawal: there a request may only be in a few slots (`GroupChannel.reach`), and the owner sees those filled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress

from spark_eos.errors import EosLogError, ObjectNotFoundError, UnsupportedVersionError
from spark_eos.log import paths
from spark_eos.log.clock import Clock
from spark_eos.log.commit.closing import is_closing
from spark_eos.log.commit.in_doubt import InDoubtRequests
from spark_eos.log.commit.outcomes import Report, with_entry
from spark_eos.log.commit.read_ahead import FAR
from spark_eos.log.commit.tail import REMEMBERED, Tail
from spark_eos.log.environment import PROCESS, Environment
from spark_eos.protocol.actions import Action, Entry, Request
from spark_eos.protocol.encoding.entries import decode_entry, encode_entry
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.apply import Rejected, apply, is_in_history
from spark_eos.protocol.state import EMPTY, State
from spark_eos.storage import Store
from spark_eos.storage.group_channel import GroupChannel

CONTENTION_WINDOW_S = 1.0
"""For so long at most after another process has written, this process commits in a group."""

QUIET_ENTRIES = 16
"""After so many entries of its own in a row that were of use to no other process, it commits alone again.

Each entry of a group costs the quickest writers about a tenth of their time. A visitor that writes once a second, as
`eoslog maintain --watch` does, is no reason to pay that all the time.
"""

LEADER_TIMEOUT_S = 1.0
"""A leader that gives no sign for so long counts as asleep: the others do not wait for it any more."""

_SIGN_ENTRIES = 32
"""A leader that reads more gives a sign each time that it has read so many: it is awake."""

MAX_SUBMISSION_BYTES = 1_000_000
"""Of other processes' requests in one entry."""


class CommitGroup:
    """One process's part in group commit. For one thread at a time."""

    def __init__(
        self,
        store: Store,
        tail: Tail,
        in_doubt: InDoubtRequests,
        clock: Clock,
        environment: Environment = PROCESS,
    ) -> None:
        self._store = store
        self._tail = tail
        self._in_doubt = in_doubt
        self._clock = clock
        self._channel: GroupChannel | None = None
        self._contended_s = -math.inf
        self._quiet = 0
        """How many entries of its own it has written since it last noticed another process."""
        self._heard_s = -math.inf
        """When the leader last gave a sign that it is awake."""
        self._led = 0
        """That sign."""
        self._goes_without = False
        self._mailbox: dict[bytes, tuple[Action, ...]] = {}
        """The requests that leaders may read in the channel, by their ids."""
        self._mailbox_slot = 0
        self._until = -1
        """The last slot that what was submitted may be in, where the channel sets one."""
        self._decode = environment.decode
        self._shortest_s, self._longest_s = environment.leader_looks_s
        self._wait_s = self._shortest_s
        self._news_s = -math.inf
        """When something was last heard."""
        self.pace_s = 0.0
        """How long the last entries took, in the mean."""

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
        return self._clock.monotonic() - self._contended_s <= CONTENTION_WINDOW_S

    @property
    def is_trusted(self) -> bool:
        """Whether what the channel publishes is durable for certain."""
        return self._channel is None or self._channel.is_trusted

    def note_contention(self) -> None:
        """Another process has written, or wants to."""
        now = self._clock.monotonic()
        if now - self._contended_s > CONTENTION_WINDOW_S:
            self._heard_s = now
        self._contended_s = now
        self._quiet = 0

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

    def publish(self, state: State, data: bytes, collected: Sequence[Report], own: int) -> None:
        """This process has created the entry that led to ``state``: tell the processes that wait for it.

        Of ``collected``, the requests of others in it, it reports the results, too; ``own`` are this process's.
        """
        if not self.is_contended:
            return
        assert self._channel is not None
        if self.reports_outcomes:
            earlier = self._channel.outcomes() or b""
            self._channel.report_outcomes(with_entry(earlier, state.seq, state.lineage, collected, own))
        self._channel.publish(state.seq, b"" if self._store.requests_are_free else data)
        self._quiet += 1
        if self._quiet >= QUIET_ENTRIES:
            self._contended_s = -math.inf

    def note_entry(self, seq: int) -> None:
        """Another process has created entry ``seq``: those that wait on this machine may not hear of it else."""
        if self._channel is not None and not self._store.requests_are_free:
            self._channel.note_entry(seq)

    def catch_up(self) -> int:
        """Take over the entries that were announced, which are durable. Returns the newest one, or -1 for none.

        Where the bytes are near, they are read from the store. Raises `UnsupportedVersionError` if what the store
        has there is of a newer version.
        """
        assert self._channel is not None
        durable_seq = -1
        while (data := self._channel.published(self._tail.state.seq + 1)) is not None:
            seq = self._tail.state.seq + 1
            try:
                if data:
                    self._tail.take(self._decode(data, seq, f"the announcement of entry {seq}"))
                elif not self._take_from_log(seq):
                    self._channel.distrust()
                    break
            except UnsupportedVersionError:
                # This process is to wait for no leader whose entries it cannot read. The store has the last word.
                if self._tail.follow(seq).seq < seq:
                    break
            except EosLogError:
                break  # The store is asked before anything rests on it.
            durable_seq = self._tail.state.seq
            if durable_seq % _SIGN_ENTRIES == 0:
                self._channel.keep_lead()
        if durable_seq >= 0:
            self.note_news()
        return durable_seq

    def _take_from_log(self, seq: int) -> bool:
        """Take over entry ``seq``, the next one, of which it was said that it is there; whether it is.

        Where many are missing, as many are taken over until it is time for a sign.
        """
        assert self._channel is not None
        if self._store.requests_are_free:
            return self._tail.follow(seq).seq >= seq
        newest = self._channel.newest()
        if newest - seq >= FAR:
            return self._tail.follow(min(newest, seq + -seq % _SIGN_ENTRIES)).seq >= seq
        try:
            data = self._store.read(paths.entry(seq, self._tail.state.entries_per_folder))
        except ObjectNotFoundError:
            return False
        if not data.size or is_closing(data) or self._tail.was_away:
            return self._tail.follow(seq).seq >= seq
        self._tail.take(self._decode(data, seq, f"{self._store.url}: entry {seq}"))
        self._channel.relay(seq, data.to_pybytes())
        return True

    @property
    def reports_outcomes(self) -> bool:
        """Whether the leader tells the others what came of their requests."""
        return self._channel is not None and self._channel.reports_outcomes

    def outcomes(self) -> bytes | None:
        """What leaders told of the newest entries (`spark_eos.log.commit.outcomes`); None if that was not of late."""
        assert self._channel is not None
        return self._channel.outcomes() if self._channel.reports_outcomes else None

    def note_news(self) -> None:
        """Another process has led, and something was heard of that: so long until one looks again."""
        now = self._clock.monotonic()
        # So long as the last entry took the next one will take, or nearly so.
        took_s = now - self._news_s
        self._wait_s = min(max(took_s / 8, self._shortest_s), self._longest_s)
        self.pace_s += (min(took_s, LEADER_TIMEOUT_S) - self.pace_s) / 4
        self._news_s = now
        self.note_contention()

    def backoff(self) -> None:
        """A little while, longer each time that nothing was heard."""
        self._clock.sleep(self._wait_s)
        self._wait_s = min(self._wait_s * 1.3, self._longest_s)

    # -- Requests that the leader is to write -----------------------------------------------------------

    def submit(self, requests: Sequence[Request], newest: int = -1, lineage: bytes = b"") -> bool:
        """Let the leader read ``requests``, and no others of this process. Returns whether that was done for certain.

        None of them is in an entry that this process knows. Nor are they in an entry up to ``newest``, which was there
        before they were made; ``lineage`` is the lineage after it. Nothing is recorded for requests that cannot be
        submitted, as they are too large or cannot be encoded.
        """
        assert self._channel is not None
        state = self._tail.state
        if newest <= state.seq:
            newest, lineage = state.seq, state.lineage
        slot = newest + 1
        if (data := _encoded(requests, slot, lineage)) is None:
            return False
        # From here on others may see them, whether that fails or is interrupted.
        self._in_doubt.record_submission(requests, slot)
        mailbox = {request.request_id: request.actions for request in requests}
        reach = self._channel.reach
        if mailbox == self._mailbox and slot - self._mailbox_slot < (reach or REMEMBERED) // 2:
            return True
        dropped = self._mailbox.keys() - mailbox
        self._mailbox = {**self._mailbox, **mailbox}
        if reach is not None:
            self._until = slot + reach - 1
        if not self._channel.submit(data):
            return False
        self._mailbox, self._mailbox_slot = mailbox, slot
        self._in_doubt.record_withdrawal(dropped, self._until)
        return True

    def withdraw(self) -> None:
        """Withdraw what was submitted. A leader may have read it a moment ago. It stays submitted if that fails."""
        if not self._mailbox:
            return
        assert self._channel is not None
        if self._channel.withdraw():
            self._in_doubt.record_withdrawal(self._mailbox, self._until)
            self._mailbox = {}

    def collect(self, state: State, own: Sequence[Request]) -> tuple[State, list[Request], list[Report]]:
        """The requests of others that can be added to an entry whose own requests, ``own``, lead to ``state``.

        The state that they lead to, the requests, and their results. Over a network, what this process has submitted
        may come back to it.
        """
        added: list[Request] = []
        reports: list[Report] = []
        left = MAX_SUBMISSION_BYTES
        ids_by_slot: dict[int, set[bytes] | None] = {}
        ids = {request.request_id for request in own}
        for slot, offered, size in self._submissions(state):
            if slot not in ids_by_slot:
                ids_by_slot[slot] = self._tail.ids_from(slot)
            logged_ids = ids_by_slot[slot]
            if logged_ids is None or size > left:
                continue
            before = len(added)
            for request in offered:
                if request.request_id in logged_ids:
                    continue
                if request.request_id in ids:
                    continue
                self.note_contention()
                after, outcome = apply(state, request)
                if not isinstance(outcome, Rejected):
                    state = after
                    ids.add(request.request_id)
                    added.append(request)
                    reports.append(Report(request.request_id, request.actions, outcome.results))
            left -= size if len(added) > before else 0
        return state, added, reports

    def _is_too_late(self, submitted: int, slot: int) -> bool:
        """Whether ``slot`` is past those that a submission for slot ``submitted`` may be in."""
        assert self._channel is not None
        reach = self._channel.reach
        return reach is not None and slot >= submitted + reach

    def _submissions(self, state: State) -> Iterator[tuple[int, tuple[Request, ...], int]]:
        """What others have submitted that may be in the entry after ``state``.

        The slot that was free when they submitted it, the requests, and their size in bytes.
        """
        assert self._channel is not None
        seq = state.seq + 1
        for data in self._channel.submissions():
            slot = int.from_bytes(data[:8], "big")
            # Later than the next slot: its owner has read an entry that this process has not read, or that was in
            # another history. No leader looks for a request in an entry before the slot that its submission names.
            if slot > seq or self._is_too_late(slot, seq):
                continue
            with suppress(EosLogError):  # It may be half written, or by a newer version.
                offered = decode_entry(data[8:], slot, "a submission")
                # Its owner finds out that its history is gone, and then deletes the files that it has staged.
                if is_in_history(state, replace(EMPTY, seq=slot - 1, lineage=offered.previous)):
                    yield slot, offered.requests, len(data)


def _encoded(requests: Sequence[Request], slot: int, lineage: bytes) -> bytes | None:
    """A submission: the slot that is free, 8 bytes, and an entry with ``requests``; None if there can be none.

    ``lineage`` is the one before that slot.
    """
    try:
        data = encode_entry(Entry(slot, tuple(requests), lineage), is_checked=True)
    except EosLogError:
        return None  # The attempt to write them into the log says why.
    return slot.to_bytes(8, "big") + data if len(data) <= MAX_SUBMISSION_BYTES else None
