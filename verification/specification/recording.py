"""Events of the commit path, as `specs/Commit.tla` names them, recorded from running code.

Nothing in the product is replaced: the environment's ``around_commit`` hands over the commit loop, whose in-doubt
requests get a class that tells of each call, and the store and the group channel are wrapped
(`verification.specification.stores`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from spark_eos.errors import (
    CommitOutcomeUnknownError,
    EosLogError,
    OutcomeUnknownError,
    StorageError,
    StoreUnavailableError,
)
from spark_eos.log.commit.entry_builder import PendingCommit
from spark_eos.log.commit.in_doubt import InDoubtRequests
from spark_eos.log.commit.loop import Committed, Propose
from spark_eos.log.commit.tail import Tail
from spark_eos.log.environment import Commit, Environment
from spark_eos.protocol.actions import Entry, Request
from spark_eos.protocol.rules.apply import Outcome
from spark_eos.protocol.state import State
from verification.specification.events import Event, Name

__all__ = ["Create", "Recorder", "Watch"]

_NEXT_FREE = -1


class Create(NamedTuple):
    """A create under way: the call of one process, until it is answered."""

    watch: Watch
    slot: int
    requests: tuple[Name, ...]
    landed: list[Event]
    """The event of its landing, once it has landed."""


@dataclass
class Recorder:
    """The events of one run, in the order in which they took effect."""

    events: list[Event] = field(default_factory=list)
    watches: list[Watch] = field(default_factory=list)
    names: dict[bytes, Name] = field(default_factory=dict)

    def environment(self, base: Environment) -> Environment:
        """``base``, whose commits are recorded."""
        return replace(base, around_commit=lambda commit: self._around(base.around_commit(commit)))

    def _around(self, original: Commit) -> Commit:
        committer: Any = original.__self__  # type: ignore[attr-defined]
        watch: Watch = committer._in_doubt  # noqa: SLF001
        watch.__class__ = Watch
        watch.begin_watch(self, committer._tail)  # noqa: SLF001
        lagging = committer._lagging  # noqa: SLF001
        attempt = lagging.attempt

        def lag(tickets: Sequence[PendingCommit]) -> bool:
            watch.lags(is_lagging=True)
            is_answered: bool = attempt(tickets)
            watch.lags(is_lagging=False)
            return is_answered

        lagging.attempt = lag

        def commit(
            propose: Propose, *, writer: str = "", request_id: bytes | None = None, alone: bool = False
        ) -> Committed:
            own = request_id or committer._clock.unique()  # noqa: SLF001
            watch.begins(own)
            try:
                done = original(propose, writer=writer, request_id=own, alone=alone)
            except CommitOutcomeUnknownError as error:
                watch.gave_up(error.__cause__)
                watch.answered("unknown", own)
                raise
            except (StorageError, StoreUnavailableError):
                watch.answered("failed", own)
                raise
            except EosLogError:
                watch.answered("refused", own)
                raise
            except BaseException:
                watch.crashed()
                raise
            watch.answered("yes", own)
            return done

        return commit

    def add(self, event: Event) -> Event:
        """The next step."""
        self.events.append(event)
        return event

    def named(self, ids: Iterable[bytes]) -> tuple[Name, ...]:
        """The requests that callers know; a filler is none."""
        return tuple(self.names[one] for one in ids if one in self.names)

    # -- The store ------------------------------------------------------------------------------------------

    def landed(self, create: Create) -> None:
        """The store took the object; the process may hear of it, or not."""
        if create.watch.creating is create and not create.watch.dead():
            create.landed.append(create.watch.add("Create", create.slot, create.requests))
        else:
            if create.watch.dead():
                create.watch.crashed()
            self.add(Event("Land", create.watch.number, create.slot, create.requests))

    def changed(self, kind: str, slot: int) -> None:
        """The entry of the slot was retired, or its name deleted."""
        self.add(Event(kind, 0, slot))

    # -- What was recorded ----------------------------------------------------------------------------------

    def trace(self) -> list[Event]:
        """The steps."""
        return [event for event in self.events if event.kind != "free"]


class Watch(InDoubtRequests):
    """The in-doubt requests of one process: told of every step, so that steps can be told of."""

    def begin_watch(self, recorder: Recorder, tail: Tail, dead: Callable[[], bool] = lambda: False) -> None:
        """Record from now on."""
        self.recorder = recorder
        self.tail = tail
        self.dead = dead
        recorder.watches.append(self)
        self.number = len(recorder.watches)
        self.at = 0
        """Where the specification has this process."""
        self.creating: Create | None = None
        self._requests = 0
        self._in_commit = False
        self._is_dead = False
        self._withdrawn: Event | None = None
        """Its last step, if it was that."""
        self._heard = 0
        """A slot that the store says this process has filled, until the process acts on it."""
        self._reply: Event | None = None
        """The place of that step among the others'."""
        self._met = 0
        """A slot that the store says is taken, until the process acts on it."""
        self._told_taken = False
        self._own: tuple[bytes, ...] = ()
        self._lead: Event | None = None
        self._submitting: Event | None = None
        self._is_submitting = False
        self._waits = False
        self._was_sent_by_submit = False
        self._is_lagging = False
        self._gave_up: Event | None = None
        self.reported = -1
        """The newest entry of the report that it has read last."""

    def add(
        self,
        kind: str,
        slot: int = 0,
        requests: tuple[Name, ...] = (),
        flags: tuple[bool, bool] = (False, False),
    ) -> Event:
        """The next step of this process."""
        self._withdrawn = None
        return self.recorder.add(Event(kind, self.number, slot, requests, flags))

    # -- Calls ----------------------------------------------------------------------------------------------

    def begins(self, request_id: bytes) -> None:
        """A call."""
        if request_id not in self.recorder.names:
            self._requests += 1
            self.recorder.names[request_id] = (self.number, self._requests)
        self._sync()
        self._in_commit = True
        self._own = (request_id,)
        self.add("Begin", 0, self.recorder.named([request_id]))

    def answered(self, answer: str, request_id: bytes) -> None:
        """The answer to the call. A verdict was given where the process has last looked for news."""
        last, events = self._free_read(), self.recorder.events
        before = len(events)
        self._sync(gives_up=answer == "unknown")
        self._in_commit = self._waits = False
        self._lead = None
        named = self.recorder.named([request_id])
        withdrawn = self._withdrawn
        if last is None:
            event = self.add(answer, 0, named)
            if answer == "failed" and withdrawn is not None:  # It leaves the group when that is decided.
                events.pop()
                at = next(at for at, one in enumerate(events) if one is withdrawn)
                events.insert(at, event)
            return
        last.kind, last.requests = answer, named
        # What it has done by itself since, it has done before that look.
        own, events[before:] = events[before:], []
        at = next(at for at, event in enumerate(events) if event is last)
        events[at:at] = own

    def gave_up(self, cause: BaseException | None) -> None:
        """The outcome is unknown. ``cause`` says why: the rules refused the request, or something failed."""
        if self._gave_up is not None:
            is_refused = isinstance(cause, EosLogError) and not isinstance(
                cause, (OutcomeUnknownError, StorageError, StoreUnavailableError)
            )
            self._gave_up.flags = (self._gave_up.flags[0], is_refused)
            self._gave_up = None

    def crashed(self) -> None:
        """It does nothing any more."""
        if self._in_commit and not self._is_dead:
            self._is_dead = True
            self.add("Crash")

    def _last(self) -> Event | None:
        return next((one for one in reversed(self.recorder.events) if one.process == self.number), None)

    def _free_read(self) -> Event | None:
        last = self._last()
        return last if last is not None and last.kind == "free" else None

    def _sync(self, *, reads: bool = False, gives_up: bool = False) -> None:
        """Tell what the process has done by itself since."""
        seq = self.tail.state.seq
        if self._heard and seq >= self._heard:
            assert self._reply is not None
            self._reply.kind = "Heard"
            self.at, self._heard = max(self.at, self._heard), 0
        if seq > self.at:
            self.add("Jump", seq)
            self.at = seq
        if self._met and not reads:
            if seq >= self._met and not gives_up:
                if not self._told_taken:
                    self.add("Taken", self._met)
                self.add("SlotTaken", self._met)
            self._met = 0
        if self._waits and not (reads or gives_up):
            self.add("StopWaiting")
            self._waits = False

    # -- In-doubt requests ----------------------------------------------------------------------------------

    def record_attempt(self, requests: Iterable[Request], slot: int) -> None:
        requests = list(requests)
        super().record_attempt(requests, slot)
        if self._is_submitting:
            return
        self._sync()
        if self._was_sent_by_submit:
            self._was_sent_by_submit = False
        elif self._lead is None:
            self.add("Alone" if requests else "Fill", slot)

    def record_submission(self, requests: Sequence[Request], slot: int) -> None:
        self._sync()
        self._is_submitting = True
        super().record_submission(requests, slot)
        self._is_submitting = False
        self._submitting = self.add("Lag" if self._is_lagging else "Submit", slot, (), (False, True))
        if self._is_lagging:
            self._submitting.others = (self.reported,)
        self._waits = True

    def record_giving_up(self, request_id: bytes) -> None:
        super().record_giving_up(request_id)
        self._sync(gives_up=True)
        self._waits, self._heard, self._was_sent_by_submit = False, 0, False
        has_withdrawn = self._withdrawn is not None
        self._gave_up = self.add("GiveUp", 0, (), (has_withdrawn, False))

    def record_read(self, state: State) -> None:
        is_news = any(one.slot == _NEXT_FREE for one in self._open.values())
        last = self._free_read()
        super().record_read(state)
        if is_news and last is not None:
            last.kind = "Look"
        elif is_news:
            self._sync()
            self.add("Look", state.seq + 1)

    def record_entry(self, entry: Entry, outcomes: Sequence[Outcome]) -> None:
        super().record_entry(entry, outcomes)
        self._sync(reads=True)
        if entry.seq:
            if entry.seq > self.at + 1:
                self.add("Jump", entry.seq - 1)
            self.add("Read", entry.seq, self.recorder.named(one.request_id for one in entry.requests))
            self.at = entry.seq

    def record_skip(self) -> None:
        super().record_skip()
        seq = self.tail.state.seq
        self.add("Covered" if self._heard else "Jump", seq)
        self.at, self._heard = seq, 0

    def resolve(self, request_id: bytes) -> None:
        found = self.entry_outcome(request_id)
        super().resolve(request_id)
        if self._is_lagging:
            self.add("Told", 0, self.recorder.named([request_id]))
            self._waits = False
        elif self._heard:
            self._sync(reads=True)
        elif found is not None and self._met:
            self._sync()
        elif found is not None:
            self.add("Settle")
            self._waits = False

    # -- The group channel ----------------------------------------------------------------------------------

    def submits(self, *, is_there: bool, works: bool) -> None:
        """The process writes into its box. The write may be done or not, and the process may hear of it or not."""
        assert self._submitting is not None
        self._submitting.flags = (is_there, works)
        self._was_sent_by_submit, self._waits = not works and not self._is_lagging, works

    def lags(self, *, is_lagging: bool) -> None:
        """It leaves off reading, or goes on."""
        self._sync()
        self._is_lagging = is_lagging

    def reports(self, slot: int, ids: Iterable[bytes]) -> None:
        """It reports what it has taken along into the entry that it has created."""
        self._sync()
        self.add("Reported", slot, self.recorder.named(ids))

    def withdraws(self, *, is_gone: bool, works: bool) -> None:
        """It has emptied its box; whether that is so, and whether it is told so."""
        self._sync()
        self._withdrawn = self.add("Withdraw", 0, (), (is_gone, works))

    def leads(self) -> None:
        """It reads the boxes of the others."""
        self._sync()
        self._lead = self.add("Lead", self.tail.state.seq + 1)

    # -- Creates --------------------------------------------------------------------------------------------

    def creates(self, slot: int, ids: Iterable[bytes]) -> Create:
        """It sends a create."""
        ids = list(ids)
        if self._met and not self._told_taken:
            self._met = 0  # The same again: the slot was not shown.
        if self._lead is not None:
            others = [
                self.recorder.names[one][0]
                for one in ids
                if one in self.recorder.names and one not in self._own
            ]
            self._lead.others, self._lead = tuple(others), None
        self.creating = Create(self, slot, self.recorder.named(ids), [])
        return self.creating

    def hears(self, create: Create, reply: str, *, is_filled: bool) -> None:
        """The reply: ``created``, ``taken``, ``unknown``, or ``busy``: then nothing was done."""
        self.creating = None
        landed = create.landed[-1] if create.landed else None
        if reply == "created":
            self._heard, self._reply = create.slot, self.add("free", create.slot)
        elif reply == "taken":
            self._met = create.slot
            self._told_taken = landed is not None or is_filled
            if landed is not None:
                landed.kind = "Twice"
            else:
                self.add("Taken" if is_filled else "NoReply", create.slot, create.requests)
        elif reply == "unknown":
            if landed is not None:
                landed.kind = "Unheard"
            else:
                self.add("NoReply", create.slot, create.requests)

    def reads_free(self, slot: int) -> None:
        """It looks for news, and the slot is free."""
        if slot == self.tail.state.seq + 1:
            self.add("free", slot)
