"""A look that is made at most once in a while, in a thread of its own, however many ask for what it finds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class _Run(Generic[T]):
    def __init__(self, begun_s: float) -> None:
        self.begun_s = begun_s
        self.ended = threading.Event()


class Periodic(Generic[T]):
    """Calls ``look``, which raises nothing, at most once in ``every_s`` seconds. Safe to share between threads.

    It is asked for by those who call `get`: without them nothing is looked at. A look that hangs holds up no caller for
    longer than the caller says, and no second one is begun beside it.
    """

    def __init__(
        self, look: Callable[[], T], every_s: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._look = look
        self._every_s = every_s
        self._now = now
        self._lock = threading.Lock()
        self._run: _Run[T] | None = None
        self._begun_s = float("-inf")
        self.latest: T | None = None
        """What the last look that ended has found."""

    def get(self, timeout_s: float | None) -> bool:
        """Look, if the last look is old enough, and wait for it; whether `found` is of the newest look.

        The time that a look has taken before this call counts: what hangs is waited for once. None: wait for ever.
        """
        with self._lock:
            now = self._now()
            if self._run is None and now - self._begun_s >= self._every_s:
                started: _Run[T] = _Run(now)
                thread = threading.Thread(target=self._work, args=(started,), name="eoslog-look", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # The process has too many threads. The next caller tries again.
                    return False
                self._run, self._begun_s = started, now
            run = self._run
        if run is None:
            return True
        return run.ended.wait(None if timeout_s is None else max(run.begun_s + timeout_s - self._now(), 0.0))

    def _work(self, run: _Run[T]) -> None:
        try:
            self.latest = self._look()
        finally:
            with self._lock:
                self._run = None
            run.ended.set()
