"""Time and chance, injected: the only places where the log looks at a clock or rolls a die.

Neither ever decides anything about safety. Timestamps are what readers see; waits are politeness.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from spark_eos.errors import OutcomeUnknownError, StoreUnavailableError

T = TypeVar("T")


class Clock(Protocol):
    """Wall clock, monotonic clock, sleep and randomness."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; may jump."""

    def now_ns(self) -> int:
        """The same in nanoseconds."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    def sleep(self, seconds: float) -> None:
        """Wait."""

    def unique(self) -> bytes:
        """16 random bytes."""

    def jitter(self) -> float:
        """A random number from 0 to 1."""


_CHANCE = random.SystemRandom()
"""Not the shared generator: that one is the application's to seed, and processes that fork would wait alike."""


class _SystemClock:
    now_ns = staticmethod(time.time_ns)  # As it is: a producer asks for each record.

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def unique(self) -> bytes:
        return os.urandom(16)

    def jitter(self) -> float:
        return _CHANCE.random()


SYSTEM: Clock = _SystemClock()


def new_id(clock: Clock) -> str:
    """A random UUID as text."""
    return str(uuid.UUID(bytes=clock.unique(), version=4))


@dataclass(frozen=True, slots=True)
class Retry:
    """How long a store that does not answer is asked again.

    ``deadline_s`` seconds in all (Kafka's max.block.ms), with waits that double from ``first_s`` up to
    ``longest_s``.
    """

    deadline_s: float = 60.0
    first_s: float = 0.01
    longest_s: float = 2.0

    def wait_s(self, attempt: int, clock: Clock) -> float:
        """Seconds to wait after the failed attempt number ``attempt`` (from 0), with jitter."""
        longest = min(self.longest_s, self.first_s * 2 ** min(attempt, 30))
        return float(longest * (0.5 + clock.jitter() / 2))

    def until_answered(self, read: Callable[[], T], clock: Clock) -> T:
        """What ``read`` returns, called again while the store does not answer: a read may be repeated at will.

        Raises `StoreUnavailableError` or `OutcomeUnknownError` when the deadline has passed.
        """
        deadline = clock.monotonic() + self.deadline_s
        attempt = 0
        while True:
            try:
                return read()
            except (StoreUnavailableError, OutcomeUnknownError):
                if clock.monotonic() >= deadline:
                    raise
            clock.sleep(self.wait_s(attempt, clock))
            attempt += 1
