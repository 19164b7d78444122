"""Time that passes only when a process sleeps, and an entry or two to commit."""

from __future__ import annotations

import itertools

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


def create(name):
    """A proposal: create the topic of that name."""
    return lambda _state: (CreateTopic(name, f"id-of-{name}", 1),)


def grow(log, name, count):
    """So many entries: topics whose names begin with ``name``."""
    for number in range(count):
        log.commit(create(f"{name}{number}"))
