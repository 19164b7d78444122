"""Following: any process that meets a transaction of a decider looks there, and ends it as that was decided."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from spark_eos.errors import DivergedLogError, EosLogError, StorageError
from spark_eos.log.clock import Clock
from spark_eos.log.commit.loop import Committed
from spark_eos.log.deciding.outcome import as_decided, decision_of, followers
from spark_eos.protocol.actions import Action, FollowDecision, NoteFollowers
from spark_eos.protocol.state import Producer, State
from spark_eos.protocol.types import Decider, ProducerStamp

if TYPE_CHECKING:
    from spark_eos.log.handle.writing import LogWriter

_LOG = logging.getLogger(__name__)

PAUSE_S = 10.0
"""A decider that could not be asked is not asked again for so long, unless a caller wants to know."""

_WRITER = "following"

Find = Callable[[Decider], "LogWriter"]


class FollowingTask:
    """Ends what follows other logs. Safe to share between threads.

    ``waiting`` says why a transaction has not ended yet, by producer id. ``decided`` has ended for readers of this
    process, though it could not be written: for lack of rights, or because the store refused.
    """

    def __init__(self, commit: Callable[..., Committed], clock: Clock, find: Find) -> None:
        self._commit = commit
        self._clock = clock
        self._find = find
        self._lock = threading.Lock()
        self._rest_until: dict[str, float] = {}
        self.waiting: dict[int, str] = {}
        self.decided: dict[tuple[int, Decider], bool] = {}

    def help(self, state: State, *, everything: bool = False) -> int:
        """End what is decided in ``state``; how many that were. ``everything``: ask at once, whatever failed before."""
        pairs = list(followers(state))
        if not (pairs or self.waiting or self.decided):
            return 0
        with self._lock:
            keys = {(producer.producer_id, decider) for producer, decider in pairs}
            self.waiting = {
                producer_id: why
                for producer_id, why in self.waiting.items()
                if producer_id in {at for at, _ in keys}
            }
            self.decided = {at: commit for at, commit in self.decided.items() if at in keys}
            return sum(self._follow(state, *pair, everything=everything) for pair in pairs)

    def as_decided(self, state: State) -> State:
        """The state as readers see it: see `spark_eos.log.deciding.outcome.as_decided`."""
        return as_decided(state, self.decided) if self.decided else state

    def _follow(self, state: State, producer: Producer, decider: Decider, *, everything: bool) -> bool:
        now = self._clock.monotonic()
        if not everything and now < self._rest_until.get(decider.log_id, now):
            return False
        at = (producer.producer_id, decider)
        try:
            log = self._find(decider)
            decision = decision_of(log.follow(), decider, log.url)
            if decision.committed is None:
                # Its timeout decides, if its coordinator does not: an ordinary entry, which fences the coordinator.
                log.expire_overdue()
                decision = decision_of(log.follow(), decider, log.url)
        except (EosLogError, OSError) as error:
            self._rest_until[decider.log_id] = now + PAUSE_S
            self._wait(producer, f"{decider} decides, and cannot be asked: {error}")
            return False
        if decision.committed is None:
            self._wait(
                producer, f"{decider} is open: its end decides, at the latest by its timeout", log_it=False
            )
            return False
        self.waiting.pop(producer.producer_id, None)
        try:
            follow(self._commit, producer, decider, commit=decision.committed)
        except DivergedLogError:
            raise
        except StorageError as error:
            if at not in self.decided:
                _LOG.warning(
                    "%s ended, which cannot be written here; it is read as decided: %s", decider, error
                )
            self.decided[at] = decision.committed
            return False
        self.decided.pop(at, None)
        with suppress(EosLogError):  # Others do it, at the latest the next coordinator.
            note(log, decider, state.log_id)
        return True

    def _wait(self, producer: Producer, why: str, *, log_it: bool = True) -> None:
        if log_it and self.waiting.get(producer.producer_id) != why:
            _LOG.warning(
                "readers wait for transaction %d of transactional.id %r: %s",
                producer.number,
                producer.transactional_id,
                why,
            )
        self.waiting[producer.producer_id] = why


def follow(
    write: Callable[..., Committed], producer: Producer, decider: Decider, *, commit: bool
) -> Committed:
    """End the transaction of ``producer`` that follows ``decider``, unless it has ended."""
    prepared = producer.prepared
    assert prepared is not None
    stamp = ProducerStamp(producer.producer_id, prepared.epoch, producer.number)
    end = FollowDecision(stamp, decider, commit)

    def propose(state: State) -> tuple[Action, ...]:
        current = state.producers.get(producer.producer_id)
        return (end,) if current is not None and current.follows == decider else ()

    return write(propose, writer=_WRITER)


def note(log: LogWriter, decider: Decider, *log_ids: str) -> None:
    """Tell the deciding log that these have followed."""
    stamp = ProducerStamp(decider.producer_id, decider.epoch, decider.number)

    def propose(state: State) -> tuple[Action, ...]:
        producer = state.producers.get(decider.producer_id)
        waiting = () if producer is None or producer.decision is None else producer.decision.waiting
        return (NoteFollowers(stamp, decider.history, log_ids),) if {*waiting} & {*log_ids} else ()

    log.commit(propose, writer=_WRITER)
