"""What time it is, for what is written into a log: this process's clock, held against the store's own.

A wall clock may be wrong by years, and jump. It is believed as long as it agrees with what this process knows by its
monotonic clock: the time that the log had when it was seen first, or the store's time when it was asked last. Else the
store is asked, which costs requests: once after a log was idle, about once an hour where the clock is wrong. What the
store contradicts is not believed: its time counts.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from spark_eos.errors import EosLogError
from spark_eos.errors.hidden import safe_url
from spark_eos.log.clock import Clock
from spark_eos.protocol.actions import Action
from spark_eos.protocol.rules.settings import setting
from spark_eos.protocol.rules.times import by_clock
from spark_eos.protocol.state import State
from spark_eos.storage import Store

MEND = "see `eoslog clock --mend`"

SLACK_MS = 86_400_000
"""How far behind the newest entry of a log things expire at most, unless this process has seen the time pass."""

_ASKED_S = 3600.0
"""After so long the store is asked again, where its clock and this machine's differ."""

_REST_S = 60.0
"""After so long the store is asked again, if it could not tell."""

_JUMP_MS = 60_000
"""A wall clock that moved so far against the monotonic one was set, or the machine was suspended."""

_LOG = logging.getLogger(__name__)


class Stamp(NamedTuple):
    """The time of a request, and whether it was checked (`spark_eos.protocol.actions.Request.clock_checked`)."""

    timestamp_ms: int
    clock_checked: bool


class _Reading(NamedTuple):
    """A time, when it was on the monotonic clock, and how far ahead of it the wall clock was then."""

    time_ms: int
    monotonic_s: float
    ahead_ms: int


class Timekeeper:
    """What one process knows of the time. Safe to share between threads: what one overwrites, another has asked."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._resets = 0
        self._log_time: _Reading | None = None
        """The log's time when it was seen first."""
        self._store_time: _Reading | None = None
        self._rests_until = -1.0
        self._warned = False

    def saw(self, state: State) -> None:
        """Remember what time the log had, if this is the first one seen, or the first since its time was set back."""
        if state.seq >= 0 and (self._log_time is None or state.time_resets > self._resets):
            self._resets = state.time_resets
            self._log_time = self._reading(state.timestamp_ms)

    def stamp(self, state: State, actions: Sequence[Action] = ()) -> Stamp:
        """The time of a request that is applied to ``state``."""
        self.saw(state)
        now_ms = self._clock.now_ms()
        limit_ms = setting(state, "entry.timestamp.after.max.ms")
        exact = by_clock(tuple(actions))
        known_ms = self._likely_ms()
        agrees = known_ms is not None and abs(now_ms - known_ms) <= limit_ms
        if not exact and agrees:
            return Stamp(now_ms, now_ms > state.timestamp_ms + limit_ms)
        store_ms = self._ask(limit_ms)
        if store_ms is not None:
            if not exact and abs(now_ms - store_ms) <= limit_ms:
                return Stamp(now_ms, clock_checked=True)
            return Stamp(store_ms, clock_checked=True)
        if known_ms is None:  # Nothing to compare with: the first entry of a log.
            return Stamp(now_ms, clock_checked=False)
        if exact:
            return Stamp(min(now_ms, known_ms), clock_checked=True)
        # Not a limit further: each process that cannot ask would put one on top of the others'.
        return Stamp(known_ms, known_ms > state.timestamp_ms + limit_ms)

    def record_ms(self, state: State) -> int:
        """The time for records, and for who looks: by this machine's clock, unless the store contradicts it."""
        self.saw(state)
        now_ms, known_ms = self._clock.now_ms(), self._likely_ms()
        limit_ms = setting(state, "entry.timestamp.after.max.ms")
        if known_ms is not None and abs(now_ms - known_ms) <= limit_ms:
            return now_ms
        store_ms = self._ask(limit_ms)
        if store_ms is None and self._store_time is not None:
            store_ms = self._since(self._store_time)
        return now_ms if store_ms is None or abs(now_ms - store_ms) <= limit_ms else store_ms

    def stamp_records(self, state: State) -> tuple[int, int, int]:
        """For records without a timestamp: this machine's clock, the time, and how far the one is believed."""
        return (
            self._clock.now_ms(),
            self.record_ms(state),
            setting(state, "entry.timestamp.after.max.ms"),
        )

    def now_ms(self, state: State) -> int:
        """The time by the store's clock, or, where it cannot tell, by this machine's."""
        store_ms = self.told_ms(state)
        return self._clock.now_ms() if store_ms is None else store_ms

    def told_ms(self, state: State) -> int | None:
        """The time by the store's clock, asked now or a while ago; None if it cannot tell."""
        self.saw(state)
        return self._ask(setting(state, "entry.timestamp.after.max.ms"))

    def expiry_ms(self, state: State, *, trust_clock: bool = False) -> int:
        """The time by which things may expire: no more than a day (`SLACK_MS`) past what is known of the log's time.

        By the newest entry, or what this process has seen pass since it saw one first. With ``trust_clock`` as the
        store's clock says, however long the log was idle.
        """
        self.saw(state)
        assert self._log_time is not None, "there is a log"
        known_ms = self._since(self._store_time or self._log_time)
        store_ms = self._ask(setting(state, "entry.timestamp.after.max.ms"))
        now_ms = min(self._clock.now_ms(), known_ms) if store_ms is None else store_ms
        if trust_clock:
            return now_ms
        return min(now_ms, max(state.timestamp_ms, self._since(self._log_time)) + SLACK_MS)

    def store_ms(self) -> int | None:
        """The time by the store's clock, asked now; None if it cannot tell. Raises what the store raises."""
        time_ms = self._store.now_ms()
        if time_ms is not None:
            self._store_time = self._reading(time_ms)
        return time_ms

    def _reading(self, time_ms: int) -> _Reading:
        return _Reading(time_ms, self._clock.monotonic(), self._clock.now_ms() - time_ms)

    def _since(self, reading: _Reading) -> int:
        return reading.time_ms + int((self._clock.monotonic() - reading.monotonic_s) * 1000)

    def _likely_ms(self) -> int | None:
        reading = self._store_time or self._log_time
        return None if reading is None else self._since(reading)

    def _ask(self, limit_ms: int) -> int | None:
        """The store's time, asked now or a while ago; None if it cannot tell."""
        reading, monotonic = self._store_time, self._clock.monotonic()
        if reading is not None and monotonic - reading.monotonic_s < _ASKED_S:
            store_ms = self._since(reading)
            if abs(self._clock.now_ms() - store_ms - reading.ahead_ms) <= _JUMP_MS:
                return store_ms
        if monotonic < self._rests_until:
            return None
        try:
            time_ms = self.store_ms()
        except EosLogError as error:
            _LOG.debug("%s did not tell its time: %s", safe_url(self._store.url), error)
            time_ms = None
        if time_ms is None:
            self._rests_until = self._clock.monotonic() + _REST_S
            return None
        ahead_ms = self._clock.now_ms() - time_ms
        if abs(ahead_ms) > limit_ms and not self._warned:
            self._warned = True
            _LOG.warning(
                "this machine's clock is %.1f hours %s that of %s: entries, and records without a "
                "timestamp of their own, get the store's time. Set the clock",
                abs(ahead_ms) / 3_600_000,
                "ahead of" if ahead_ms > 0 else "behind",
                safe_url(self._store.url),
            )
        return time_ms


def is_ahead(state: State, now_ms: int) -> bool:
    """Whether the log's time is ahead of ``now_ms``, the true time, by more than an entry may be."""
    return state.timestamp_ms > now_ms + setting(state, "entry.timestamp.after.max.ms")
