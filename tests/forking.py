"""Children of this process, by ``os.fork``, and what they come to."""

from __future__ import annotations

import os
import pickle
import select
import signal
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

DEADLOCK_S = 60


@contextmanager
def forks_allowed():
    """Python 3.12 and later warn of a fork where there are threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


class Child:
    """A forked process that does ``work()``, and ends without any cleaning up unless it says so itself."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._answer, write = os.pipe()
        with forks_allowed():
            self.pid = os.fork()
        if self.pid == 0:
            try:
                try:
                    told = pickle.dumps((True, work()))
                except Exception as error:  # noqa: BLE001
                    told = pickle.dumps((False, error))
                os.write(write, told)
            finally:
                os._exit(0)
        os.close(write)

    def outcome(self) -> Any:
        """What ``work`` returned or raised."""
        ready, _, _ = select.select([self._answer], [], [], DEADLOCK_S)
        if not ready:
            os.kill(self.pid, signal.SIGKILL)
        with os.fdopen(self._answer, "rb") as file:
            data = file.read()
        os.waitpid(self.pid, 0)
        assert ready, "the child came to nothing: it waits for what it does not have"
        assert data, "the child died"
        return pickle.loads(data)[1]


def in_child(work: Callable[[], Any]) -> Any:
    """What ``work`` returns or raises in a forked process."""
    return Child(work).outcome()
