"""Expiration: transactions past their timeout, and ids and offsets that were not used for a long time.

Kafka's coordinator does this; here every process that uses a log does, now and then, and it does not matter
which or how many. Nothing needs it for correctness.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spark_eos.errors import EosLogError, ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.log.clock import Clock
from spark_eos.log.commit.loop import Committed, Propose
from spark_eos.log.timekeeping import Timekeeper
from spark_eos.protocol.actions import Action, ExpireTransaction, expiry
from spark_eos.protocol.state import Producer, State
from spark_eos.protocol.types import ProducerStamp
from spark_eos.storage import Store

_LOG = logging.getLogger(__name__)

EXPIRY_INTERVAL_S = 3600.0
"""How often ids and offsets are looked through (Kafka's *.remove.expired.*.cleanup.interval.ms)."""

PAUSE_S = 10.0
"""After a failure nothing is tried for so long (Kafka's interval of the check for timed-out transactions)."""

SKEW_MS = 60_000
"""A transaction that began so far in the future, by the log's time, tells nothing but that a clock is wrong."""

_WRITER = "expiration"


@dataclass
class _Watch:
    """Since when a transaction is open for certain, in this process's monotonic seconds.

    ``asked``: the store has said how long it was open before.
    """

    since: float
    asked: bool = False


class ExpirationTask:
    """Watches open transactions and ends those that were open too long. Safe to share between threads.

    How long a transaction has been open is known from two clocks. The monotonic one of this process: from when it
    first saw it. And the store's: by that the entry in which it began has an age, and it outlives those who watch.
    So who comes late, and stays for a moment, ends what is past its time as well. No wall clock of a client counts:
    where the question costs requests, it only decides when the store is asked.
    """

    def __init__(
        self, commit: Callable[..., Committed], store: Store, clock: Clock, time: Timekeeper
    ) -> None:
        self._commit = commit
        self._store = store
        self._clock = clock
        self._time = time
        self._lock = threading.Lock()
        self._watched: dict[ProducerStamp, _Watch] = {}
        self._rest_until = 0.0
        self._next_expiry = clock.monotonic() + EXPIRY_INTERVAL_S

    def expire_overdue(
        self, state: State, *, everything: bool = False, trust_clock: bool = False
    ) -> tuple[Action, ...]:
        """End what is over in ``state``; what was ended. With ``everything``, look for old ids at once.

        With ``everything`` errors are raised; else they are logged, and the next expiration waits a little.
        """
        actions: tuple[Action, ...] = ()
        try:
            with self._lock:
                now = self._clock.monotonic()
                if not everything and now < self._rest_until:
                    return ()
                self._watch(state, now)
                old = everything or now >= self._next_expiry
                if not (self._watched or old):
                    return ()
                if old:
                    self._next_expiry = now + EXPIRY_INTERVAL_S
            overdue = self.overdue(state, everything=everything)
            if overdue:
                actions += self._end(
                    lambda newest: [action for action in overdue if expiry.is_open(newest, action)]
                )
            # Not in a commit's turn: others would wait while all producers of a large log are read.
            if old and self._seems_due(state):
                actions += self._end(lambda newest: self.due(newest, trust_clock=trust_clock))
        except Exception as error:
            if everything:
                raise
            self._rest_until = self._clock.monotonic() + PAUSE_S
            unknown = not isinstance(error, EosLogError)
            _LOG.warning(
                "what is over in the log was not ended, and will be tried again: %s", error, exc_info=unknown
            )
        return actions

    def due(self, state: State, *, trust_clock: bool = False) -> list[Action]:
        """The ids and offsets that are past their time in ``state``: by the wall clock, and by the store's as well."""
        # The store is asked only if there seems to be something.
        if not self._seems_due(state):
            return []
        return list(expiry.due(state, self._time.expiry_ms(state, trust_clock=trust_clock)))

    def _seems_due(self, state: State) -> bool:
        return any(expiry.due(state, max(self._clock.now_ms(), state.timestamp_ms)))

    def overdue(self, state: State, *, everything: bool = False) -> list[ExpireTransaction]:
        """The transactions that are open in ``state`` and past their time. Raises what the store raises.

        With ``everything`` the store is asked whatever the wall clock says.
        """
        with self._lock:
            self._watch(state, self._clock.monotonic())
            watched = sorted(self._watched.items())
        expirations = []
        for stamp, watch in watched:
            producer = state.producers[stamp.producer_id]
            if not watch.asked and (everything or self._is_worth_asking(producer)):
                self._ask(state, producer, watch)
            waited_ms = int((self._clock.monotonic() - watch.since) * 1000)
            if waited_ms >= producer.timeout_ms:
                expirations.append(ExpireTransaction(stamp, waited_ms))
        return expirations

    def _watch(self, state: State, now: float) -> None:
        opened = (
            producer.stamp
            for producer in map(state.producers.__getitem__, state.open_transactions)
            if producer.has_timeout
        )
        self._watched = {stamp: self._watched.get(stamp) or _Watch(now) for stamp in opened}

    def _is_worth_asking(self, producer: Producer) -> bool:
        """Whether it may be past its time, as far as wall clocks can tell; always where the question costs little."""
        open_ms = self._clock.now_ms() - producer.started_ms
        return self._store.requests_are_free or not -SKEW_MS <= open_ms < producer.timeout_ms

    def _ask(self, state: State, producer: Producer, watch: _Watch) -> None:
        """Learn from the store, once, for how long the transaction has been open."""
        try:
            age_s = self._store.age_s(paths.entry(producer.started_seq, state.entries_per_folder))
        except ObjectNotFoundError:
            age_s = None  # It is not there: the log was put back from a copy.
        watch.asked = True
        if age_s is not None:
            # It was that old when the store looked, which may have been long before the answer was here.
            watch.since = min(watch.since, self._clock.monotonic() - age_s)

    def _end(self, make_actions: Callable[[State], Sequence[Action]]) -> tuple[Action, ...]:
        actions: tuple[Action, ...] = ()

        def propose(state: State) -> tuple[Action, ...]:
            nonlocal actions
            actions = tuple(make_actions(state))
            return actions

        ask: Propose = propose
        self._commit(ask, writer=_WRITER)
        return actions
