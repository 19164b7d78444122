"""Environments without threads, where a run has to be the same each time: actors do by turns what threads would do."""

from __future__ import annotations

import threading

from spark_eos.log.environment import Environment
from verification.inline_executor import InlineExecutor

__all__ = ["NO_THREADS", "StillThread"]


class StillThread(threading.Thread):
    """A thread that never runs."""

    def start(self) -> None:
        """Nothing."""

    def join(self, timeout: float | None = None) -> None:
        """There is nothing to wait for."""


NO_THREADS = Environment(thread=StillThread, pool=InlineExecutor)
"""That of production, but for its threads."""
