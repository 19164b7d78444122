"""How long to wait before looking for new entries again: each look costs a request where the store is remote."""

from __future__ import annotations

from spark_eos.storage.store import Store

IDLE_S = 0.05
"""Seconds between two looks while waiting for the log to change."""

LONGEST_S = 0.5
"""The same after many looks in vain, where each of them is a request (Kafka's fetch.max.wait.ms)."""


class PollBackoff:
    """The waits between looks of one reader: twice as long each time, where looking costs a request."""

    def __init__(self, store: Store, longest_s: float = LONGEST_S) -> None:
        self._longest_s = IDLE_S if store.requests_are_free else longest_s
        self._next_s = IDLE_S

    def wait_s(self) -> float:
        """After a look in vain: how many seconds to wait before the next."""
        wait, self._next_s = self._next_s, min(2 * self._next_s, self._longest_s)
        return wait

    def over(self) -> None:
        """There was something."""
        self._next_s = IDLE_S
