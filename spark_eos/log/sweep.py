"""What nobody else ends: transactions past their timeout, and what has not been used for a long time.

Kafka's coordinator does this; here every long-lived process that uses a log does, now and then, and it does
not matter who or how many. Nothing needs it for correctness.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from spark_eos.errors import EosLogError
from spark_eos.log.clock import Clock
from spark_eos.log.commit import Committed, Propose
from spark_eos.protocol.actions import Action, ExpireTransaction
from spark_eos.protocol.rules import expiry
from spark_eos.protocol.state import State
from spark_eos.protocol.types import ProducerStamp

__all__ = ["Sweeper"]

_LOG = logging.getLogger(__name__)

EXPIRY_INTERVAL_S = 3600.0
"""How often ids and offsets are looked through (Kafka's *.remove.expired.*.cleanup.interval.ms)."""

PAUSE_S = 10.0
"""How long to leave it to others after it did not work (Kafka's interval of sweeps for transactions)."""

_WRITER = "sweep"


class Sweeper:
    """Watches open transactions and ends those that were open too long. Safe to share between threads.

    A transaction's time is counted from when this process first saw it, on the monotonic clock: a clock that
    jumps aborts nobody, and a process that slept sees, before it decides, what happened meanwhile.
    """

    def __init__(self, commit: Callable[..., Committed], clock: Clock) -> None:
        self._commit = commit
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[ProducerStamp, float] = {}
        self._rest_until = 0.0
        self._next_expiry = clock.monotonic() + EXPIRY_INTERVAL_S

    def sweep(self, state: State, *, everything: bool = False) -> tuple[Action, ...]:
        """End what is over in ``state``; what was ended. With ``everything``, look for old ids at once.

        With ``everything`` errors are raised; else they are logged, and the next sweep waits a little.
        """
        with self._lock:
            now = self._clock.monotonic()
            overdue = self._overdue(state, now)
            old = everything or now >= self._next_expiry
            if not everything and (now < self._rest_until or not (overdue or old)):
                return ()
            if old:
                self._next_expiry = now + EXPIRY_INTERVAL_S
        done: tuple[Action, ...] = ()
        try:
            if overdue:
                done += self._end(lambda newest: [one for one in overdue if expiry.is_open(newest, one)])
            if old:
                # Taken before the request has its timestamp, which is what the rule looks at.
                now_ms = self._clock.now_ms()
                done += self._end(lambda newest: list(expiry.due(newest, now_ms)))
        except EosLogError as error:
            if everything:
                raise
            self._rest_until = self._clock.monotonic() + PAUSE_S
            _LOG.warning("what is over in the log was not ended, and will be tried again: %s", error)
        return done

    def _overdue(self, state: State, now: float) -> list[ExpireTransaction]:
        seen = {
            stamp: self._seen.get(stamp, now)
            for stamp in (state.producers[producer_id].stamp for producer_id in state.open_transactions)
        }
        self._seen = seen
        waited = {stamp: int((now - since) * 1000) for stamp, since in seen.items()}
        return [
            ExpireTransaction(stamp, waited_ms)
            for stamp, waited_ms in sorted(waited.items())
            if waited_ms >= state.producers[stamp.producer_id].timeout_ms
        ]

    def _end(self, wanted: Callable[[State], Sequence[Action]]) -> tuple[Action, ...]:
        actions: tuple[Action, ...] = ()

        def propose(state: State) -> tuple[Action, ...]:
            nonlocal actions
            actions = tuple(wanted(state))
            return actions

        ask: Propose = propose
        self._commit(ask, writer=_WRITER)
        return actions
