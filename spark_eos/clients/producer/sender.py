"""Records outside of transactions: sent in the background, each once, in order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from spark_eos.clients.metrics import ProducerMetrics
from spark_eos.clients.producer.accumulator import Accumulator
from spark_eos.clients.producer.producer_session import ProducerSession, init_producer_id
from spark_eos.errors import (
    AbortableError,
    CommitOutcomeUnknownError,
    EosLogError,
    FatalError,
    InvalidPidMappingError,
    KafkaTimeoutError,
    RetriableError,
    UnsupportedVersionError,
)
from spark_eos.log.commit.loop import Committed
from spark_eos.log.log import Log
from spark_eos.protocol.actions import AppendBatches
from spark_eos.protocol.actions.appends import Appended
from spark_eos.protocol.types import StagedFile

__all__ = ["Sender"]

T = TypeVar("T")


class Sender:
    """Puts what has gathered into the log: one file for each topic and one entry, however many partitions.

    ``drain`` puts what waits into ``taken``. A request that fails for the time being is repeated, the very same one,
    for ``delivery.timeout.ms``, and ``retries`` times at most; after an outcome that stayed unknown the producer goes
    on under a new id.
    """

    def __init__(
        self,
        log: Callable[[], Log],
        drain: Callable[[], None],
        settings: dict[str, Any],
        metrics: ProducerMetrics | None = None,
    ) -> None:
        self.taken = Accumulator()
        """What is delivered next."""
        self._log = log
        self._drain = drain
        self._settings = settings
        self._metrics = metrics
        self._identity: ProducerSession | None = None
        self._turn = threading.RLock()
        self._waiting = threading.Event()
        self._urgent = threading.Event()
        self._closed = self._gives_up = False
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def wake(self, *, urgent: bool) -> None:
        """Something waits: send it within ``linger.ms``, or at once."""
        if urgent:
            self._urgent.set()
        self._waiting.set()
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    thread = self._log().environment.thread(
                        target=self._run, name="eoslog-producer", daemon=True
                    )
                    thread.start()
                    self._thread = thread

    def flush(self) -> None:
        """Send all that waits, and wait for what is under way. Errors go to the futures."""
        with self._turn:
            while True:
                if not self.taken:  # Else a flush was interrupted before it came to deliver it.
                    self._drain()
                if not self.taken:
                    return
                if self._gives_up:
                    waiting, self.taken = self.taken, Accumulator()
                    self._refuse(
                        waiting, KafkaTimeoutError("the producer was closed before the record was sent")
                    )
                else:
                    self._deliver(self.taken)

    def close(self) -> None:
        """Send what waits and end the thread."""
        self._closed = True
        self.flush()
        self._waiting.set()
        self._urgent.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def give_up(self) -> None:
        """Send nothing more: what is under way is sent, what waits after it fails."""
        self._gives_up = True

    def _run(self) -> None:
        while not self._closed:
            self._waiting.wait()
            if not self._closed:
                self._urgent.wait(self._settings["linger.ms"] / 1000)
            self._waiting.clear()
            self._urgent.clear()
            self.flush()

    def _deliver(self, batch: Accumulator) -> None:
        try:
            self.taken = Accumulator()  # From here on its futures hear of it, whatever happens.
            log = self._log()
            begun = log.clock.monotonic()
            deadline = begun + self._settings["delivery.timeout.ms"] / 1000
            topics, files = self._patiently(log, deadline, batch.finish)
            self._patiently(log, deadline, lambda: log.check_visible(files))
            try:
                committed = self._append(log, deadline, topics, files)
            except InvalidPidMappingError:
                # The id expired while nothing was sent (KIP-854): nothing went in under it, so a new one is as good.
                self._identity = None
                committed = self._append(log, deadline, topics, files)
            appended: tuple[Appended, ...] = committed.results[0]
            if self._metrics is not None:
                self._metrics.requested(log.clock.monotonic() - begun, sum(one.count for one in appended))
            batch.resolve(appended)
        except BaseException as error:
            if self.taken is batch:
                self.taken = Accumulator()
            self._refuse(batch, error)
            if not isinstance(error, Exception):
                raise
        else:
            log.expire_overdue()

    def _append(
        self, log: Log, deadline: float, topics: tuple[tuple[str, str], ...], files: tuple[StagedFile, ...]
    ) -> Committed:
        if self._identity is None:
            begun = log.clock.unique()
            made = self._patiently(log, deadline, lambda: self._initialise(log, begun))
            self._identity = ProducerSession(made.results[0], made.state)
        append = AppendBatches(self._identity.stamp, topics, self._identity.number(files, dict(topics)))
        request_id, writer = log.clock.unique(), self._settings["client.id"]
        committed = self._patiently(
            log, deadline, lambda: log.commit(lambda _state: (append,), writer=writer, request_id=request_id)
        )
        self._identity.learn(committed.state)
        return committed

    def _initialise(self, log: Log, request_id: bytes) -> Committed:
        writer = self._settings["client.id"]
        timeout_ms = self._settings["transaction.timeout.ms"]
        return init_producer_id(log, None, timeout_ms, writer=writer, request_id=request_id)

    def _patiently(self, log: Log, deadline: float, call: Callable[[], T]) -> T:
        attempt = 0
        while True:
            try:
                return call()
            except RetriableError as error:
                if isinstance(error.__cause__, UnsupportedVersionError):
                    raise  # No call of this version finds out.
                if log.clock.monotonic() >= deadline or attempt >= self._settings["retries"]:
                    raise
            log.clock.sleep(min(0.1 * 2 ** min(attempt, 4), 1.0))
            attempt += 1

    def _refuse(self, batch: Accumulator, error: BaseException) -> None:
        refused = isinstance(error, EosLogError) and not isinstance(error, CommitOutcomeUnknownError)
        try:
            if not refused or isinstance(error, (AbortableError, FatalError)):
                # What is in doubt was sent under this id: its numbers cannot be relied on any more.
                self._identity = None
            if refused:
                # What cannot be deleted now is listed by no entry: garbage collection will.
                with suppress(EosLogError):
                    batch.discard()
        finally:
            batch.fail(error)
