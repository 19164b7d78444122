"""Time that passes only when a process sleeps, and an entry or two to commit."""

from __future__ import annotations

import itertools

from spark_eos.log.clock import SYSTEM
from spark_eos.protocol.actions import CreateTopic


class FakeClock:
    """Sleeping takes no time but moves the clock; ``on_sleep`` is called at each."""

    def __init__(self):
        self.now = 1_000.0
        self.on_sleep = lambda: None
        self._unique = itertools.count(1)

    def now_ms(self):
        return int(self.now * 1000)

    def now_ns(self):
        return self.now_ms() * 1_000_000

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.on_sleep()

    def unique(self):
        return next(self._unique).to_bytes(16, "big")

    def jitter(self):
        return 0.5


class Waiting(SYSTEM.__class__):
    """The time, to which only waits add: deadlines pass while a call waits, not while the machine has other work."""

    def __init__(self):
        self._waited_s = 0.0

    def now_ms(self):
        return SYSTEM.now_ms() + int(self._waited_s * 1000)

    def now_ns(self):
        return self.now_ms() * 1_000_000

    def monotonic(self):
        return self._waited_s

    def sleep(self, seconds):
        self._waited_s += seconds


def create(name):
    """A proposal: create the topic of that name."""
    return lambda _state: (CreateTopic(name, f"id-of-{name}", 1),)


def grow(log, name, count):
    """So many entries: topics whose names begin with ``name``."""
    for number in range(count):
        log.commit(create(f"{name}{number}"))
