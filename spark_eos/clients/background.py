"""Calls that a client makes in another thread: to wait for them no longer than asked, or not at all."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError

from spark_eos.clients.validation import check_time
from spark_eos.errors import KafkaTimeoutError
from spark_eos.log.environment import Environment
from spark_eos.storage.forks import Lock


def within(environment: Environment, timeout_s: float, call: Callable[[], None], name: str) -> None:
    """Make the call in a thread, and wait for it so many seconds. Raises what it raises, and `KafkaTimeoutError`.

    After the timeout the call goes on: it is not known whether it will succeed. Without a thread it is waited for.
    """
    check_time(timeout_s, f"timeout of {name}", "seconds")
    future: Future[None] = Future()
    if environment.started(lambda: _settle(future, call), "eoslog-within") is None:
        _settle(future, call)
    try:
        future.result(min(max(0.0, timeout_s), threading.TIMEOUT_MAX))
    except FutureTimeoutError:
        if future.done():
            raise  # The call's own.
        raise KafkaTimeoutError(
            f"{name} was not done after {timeout_s:g} s. It goes on in the background: call it again to wait longer"
        ) from None


class InTurn:
    """Calls that one thread makes in the background, in the order in which they were added."""

    def __init__(self, environment: Environment, name: str) -> None:
        self._environment = environment
        self._name = name
        self._lock = Lock()
        self._waiting: deque[tuple[Future[None], Callable[[], None]]] = deque()
        self._thread: threading.Thread | None = None

    def add(self, future: Future[None], call: Callable[[], None]) -> None:
        """Make this call after those that were added before; ``future`` is settled with what it comes to."""
        with self._lock:
            self._waiting.append((future, call))
            if self._thread is None:
                self._thread = self._environment.started(self._run, self._name)
            threaded = self._thread is not None
        if not threaded:
            self._run()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether all calls that were added are made after so many seconds."""
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(None if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX))
        with self._lock:
            return self._thread is None

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                future, call = self._waiting.popleft()
            _settle(future, call)


def _settle(future: Future[None], call: Callable[[], None]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        call()
    except BaseException as error:  # noqa: BLE001  (the future raises it)
        future.set_exception(error)
    else:
        future.set_result(None)
