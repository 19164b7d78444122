"""Children of this process, by ``os.fork``, and what they come to."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import pickle
import select
import signal
import warnings
from collections.abc import Callable
from contextlib import contextmanager, suppress
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
            faulthandler.register(signal.SIGUSR1, file=2)
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
            os.kill(self.pid, signal.SIGUSR1)  # It says on the standard error where it is.
            select.select([self._answer], [], [], 1)
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


def forked_elsewhere(work: Callable[..., object], *given: object) -> int | None:
    """How ``work(*given)`` ends in a process of its own, once all processes that it has started have ended, too.

    It is forked from a small process, which lives as long as this one: a fork of the tests' own process costs up to a
    second of the processor when thousands of tests have left something in it.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", *_LOADED])
    ended, lives = context.Pipe(duplex=False)
    process = context.Process(target=_do, args=(work, given, lives))
    process.start()
    lives.close()  # All of its processes have this end.
    with ended, suppress(EOFError):
        ended.recv()
    process.join()
    return process.exitcode


_LOADED = [
    "fastavro",  # It and the next one are imported when they are needed first.
    "pandas",
    "tests.extensions.distributed.programs.many_processes",
    "tests.storage.retiring",
]
"""What the small process has loaded, as it would be loaded in each of those that are forked from it."""


def _do(work: Callable[..., object], given: tuple[object, ...], _lives: object) -> None:
    work(*given)
