"""The leader's mailbox: what other machines have submitted, and what the leader tells them. In memory, no network."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Protocol

from spark_eos.extensions.machines.hint import Hint
from spark_eos.extensions.machines.message import Answer, decode_bundle
from spark_eos.storage.group_channel import SUBMISSION_TTL_S

LEADS_S = 2.0
"""A leader that has not begun an entry for so long has nothing to commit, or sleeps: another process is to lead."""

MAX_MEMBERS = 2000
"""So many processes hand over to one leader; the others write for themselves."""


class Mailbox:
    """Safe to share between threads. ``now`` is a monotonic clock in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._bundles: dict[str, tuple[float, bytes, list[bytes]]] = {}
        self._led_s = -math.inf
        self._newest = -1
        self.arrivals = 0
        """How many bundles have arrived that were not empty: their members wait."""
        self.on_news: Callable[[], None] = lambda: None
        """Called after each publication."""

    def put(self, member: str, body: bytes) -> bool:
        """A member's submissions, in place of those before; whether they were taken."""
        now = self._now()
        with self._lock:
            before = self._bundles.get(member)
            if before is not None and before[1] == body:
                self._bundles[member] = now, body, before[2]
                self.arrivals += bool(body)
                return True
            if before is None and len(self._bundles) >= MAX_MEMBERS:
                self._forget(now)
                if len(self._bundles) >= MAX_MEMBERS:
                    return False
            submissions = decode_bundle(body)
            if submissions is None:
                return False
            self._bundles[member] = now, body, submissions
            self.arrivals += bool(submissions)
            return True

    def answer(self) -> Answer:
        """The answer to members now."""
        with self._lock:
            return Answer(self._newest, self._now() - self._led_s <= LEADS_S)

    def submissions(self) -> list[bytes]:
        """What members have submitted, each member's in turn."""
        with self._lock:
            self._forget(self._now())
            return [submission for _, _, submissions in self._bundles.values() for submission in submissions]

    def note_lead(self) -> None:
        """The leader begins an entry."""
        with self._lock:
            self._led_s = self._now()

    def resign(self) -> None:
        """The process leads no more."""
        with self._lock:
            self._led_s = -math.inf
            self._bundles.clear()
        self.on_news()

    def publish(self, seq: int) -> None:
        """The leader has created entry ``seq``."""
        with self._lock:
            self._newest = max(self._newest, seq)
        self.on_news()

    def _forget(self, now: float) -> None:
        old = [member for member, (at, _, _) in self._bundles.items() if now - at > SUBMISSION_TTL_S]
        for member in old:
            del self._bundles[member]


class Host(Protocol):
    """The leader's side: what listens for the other machines."""

    hint: Hint
    mailbox: Mailbox

    def close(self) -> None:
        """Tell the members that this process leads no more, and listen no more."""

    def abandon(self) -> None:
        """The same in a forked child, where no thread of it runs."""
