"""Records outside of transactions: sent in the background, each once, in order."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any

from spark_eos.clients.metrics import ProducerMetrics
from spark_eos.clients.producer.accumulator import Accumulator
from spark_eos.clients.producer.futures import Failures
from spark_eos.clients.producer.producer_session import ProducerSession, init_producer_id
from spark_eos.errors import (
    AbortableError,
    CommitOutcomeUnknownError,
    EosLogError,
    FatalError,
    InvalidPidMappingError,
    KafkaTimeoutError,
    RecordsFailedError,
    RetriableError,
)
from spark_eos.log.clock import SYSTEM, Clock
from spark_eos.log.commit.loop import Committed
from spark_eos.log.environment import is_held_here, refuse_second_call
from spark_eos.log.log import Log
from spark_eos.protocol.actions import AppendBatches
from spark_eos.protocol.actions.appends import Appended
from spark_eos.protocol.types import StagedFile

_LOG = logging.getLogger(__name__)

_LOOK_S = 0.005
"""Between two looks whether the thread is done, when the process ends."""


class _Request:
    """How far a batch has come: what is known already is not found out again after an interrupt."""

    def __init__(self, batch: Accumulator, request_id: bytes) -> None:
        self.batch = batch
        self.id = request_id
        self.append: AppendBatches | None = None
        self.is_unanswered = False
        """Whether a try was interrupted: it may be in the log, whatever is said of later ones."""
        self.appended: tuple[Appended, ...] | None = None
        self.error: Exception | None = None

    @property
    def is_decided(self) -> bool:
        """Whether the rows are in the log, or have failed."""
        return self.appended is not None or self.error is not None


class _Attempts:
    """Tries of one call, until it ends well: ``for attempt in attempts: with attempt: call()``.

    An error that may pass is waited for, until ``deadline`` and ``retries`` times at most; any other one is raised.
    """

    def __init__(self, clock: Clock, deadline: float, retries: int) -> None:
        self._clock, self._deadline, self._retries = clock, deadline, retries
        self._failed = 0
        self._is_over = False

    def __iter__(self) -> Iterator[_Attempts]:
        while not self._is_over:
            yield self

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._is_over = error is None
        if not isinstance(error, RetriableError):
            return False
        if isinstance(error, CommitOutcomeUnknownError) and error.is_final:
            return False
        if self._clock.monotonic() >= self._deadline or self._failed >= self._retries:
            return False
        self._clock.sleep(min(0.1 * 2 ** min(self._failed, 4), 1.0))
        self._failed += 1
        return True


class Sender:
    """Puts what has gathered into the log: one file for each topic and one entry, however many partitions.

    ``drain`` puts what waits into ``taken``. A request that fails with a retriable error is sent again unchanged, for
    ``delivery.timeout.ms`` and at most ``retries`` times. If its outcome stays unknown, the producer goes on under a
    new id.
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
        self._request: _Request | None = None
        self.failures = Failures()
        """What the program has not heard of yet."""
        self._turn = threading.RLock()
        self._under_way = threading.RLock()
        """Of the thread that makes a request: a signal's handler that interrupts it must not make the same one."""
        self._waiting = threading.Event()
        self._urgent = threading.Event()
        self._closed = self._gives_up = False
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def wake(self, *, urgent: bool) -> bool:
        """Something waits: send it within ``linger.ms``, or at once. Whether there is a thread that does."""
        if urgent:
            self._urgent.set()
        self._waiting.set()
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._thread = self._log().environment.started(self._run, "eoslog-producer")
        return self._thread is not None

    def flush(self) -> None:
        """Send all that waits, and wait for what is under way. Errors go to the futures.

        If it is interrupted, what is under way stays, and the thread or the next flush goes on with it.
        """
        self.check_free()
        try:
            with self._turn:
                while True:
                    if not self.taken:
                        with self._under_way:
                            self._drain()
                    if not self.taken:
                        return
                    self._deliver(self.taken)
        except BaseException:
            self._waiting.set()
            self._urgent.set()
            raise

    def check_free(self) -> None:
        """Raise `RuntimeError` in a signal's handler that has interrupted what this thread sends."""
        refuse_second_call(self._under_way)

    def close(self) -> None:
        """Send what waits and end the thread."""
        self._closed = True
        self.flush()
        self._waiting.set()
        self._urgent.set()
        if is_held_here(self._turn):
            return  # A callback has called: the thread ends when the flush around it has.
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def give_up(self) -> None:
        """Send nothing more: what is under way is sent, what waits after it fails."""
        self._gives_up = True

    def end_of_process(self, waiting: Callable[[], Accumulator], deadline: float) -> list[RecordsFailedError]:
        """Let the thread send what is there now, until ``deadline`` (`SYSTEM.monotonic`). What is left then fails.

        The thread sends, not the caller: it alone can be left behind. Returns what there is to say: of earlier records
        what no future has told, of those all that did not get in.
        """
        before = self.take_failures(last=True)
        self.failures.heard_count = True
        if self._thread is None or not self._thread.is_alive():
            self.flush()
        begun = (waiting(), self.taken)
        with suppress(KeyboardInterrupt, SystemExit):  # The user does not want to wait.
            while self._unsent_accumulators(begun, waiting) and SYSTEM.monotonic() < deadline:
                self._urgent.set()
                self._waiting.set()
                SYSTEM.sleep(_LOOK_S)
        for gathered in self._unsent_accumulators(begun, waiting):
            if (
                self._request is not None
                and self._request.batch is gathered
                and self._request.append is not None
            ):
                error: EosLogError = CommitOutcomeUnknownError(
                    "the process ended while the records were sent: they may be in the log"
                )
            else:
                error = KafkaTimeoutError(
                    "the process ended before the records were sent: call flush or close before"
                )
            self.failures.add(error, gathered.outcomes())
            gathered.fail(error)
        return [failed for failed in (before, self.take_failures(last=True)) if failed is not None]

    def _unsent_accumulators(
        self, begun: tuple[Accumulator, Accumulator], waiting: Callable[[], Accumulator]
    ) -> list[Accumulator]:
        rests = self._turn.acquire(blocking=False)  # Else the thread works, and a batch may seem to be empty.
        try:
            now = (
                waiting(),
                self.taken,
            )  # In this order: what is drained meanwhile is seen twice, not missed.
            return [batch for batch in {*begun} if batch in now and (batch or not rests)]
        finally:
            if rests:
                self._turn.release()

    def take_failures(self, *, last: bool = False) -> RecordsFailedError | None:
        """What there is to say of records that have failed, see `Failures.take`; None if nothing."""
        failure = self.failures.take(last=last)
        if failure is None:
            return None
        records, cause = failure
        error = RecordsFailedError(
            f"{records} record{'s' * (records > 1)} that {'were' if records > 1 else 'was'} sent did not get into the "
            f"log {self._log().url}, or it is not known whether they did: {cause}"
        )
        error.__cause__ = cause
        return error

    def _run(self) -> None:
        while not self._closed:
            self._waiting.wait()
            if not self._closed:
                self._urgent.wait(self._settings["linger.ms"] / 1000)
            self._waiting.clear()
            self._urgent.clear()
            try:
                self.flush()
            except BaseException:  # noqa: BLE001  (a callback has raised what only a main thread heeds)
                _LOG.exception("a callback of a record failed")

    def _deliver(self, batch: Accumulator) -> None:
        """Put the batch into the log, and tell its futures. After an interrupt it goes on where it was."""
        log = self._log()
        request = self._request
        if request is None or request.batch is not batch:
            request = self._request = _Request(batch, log.clock.unique())
        if self._gives_up and request.append is None:
            request.error = KafkaTimeoutError("the producer was closed before the record was sent")
        elif not request.is_decided:
            try:
                with self._under_way:
                    request.appended = self._send(log, request)
            except EosLogError as error:
                request.error = error
                if threading.current_thread() is not self._thread:
                    _forget_frames(error)
            except Exception as error:
                # A handler of a signal may raise anything, in the main thread: the program's call raises it, and the
                # thread, or the next flush, goes on.
                if threading.current_thread() is not self._thread:
                    raise
                request.error = error
        if request.error is None:
            batch.resolve(request.appended or ())
        else:
            self._refuse(batch, request.error)
        if self.taken is batch:  # Else a callback has flushed.
            self.taken, self._request = Accumulator(), None
        if request.error is None:
            log.expire_overdue()

    def _send(self, log: Log, request: _Request) -> tuple[Appended, ...]:
        begun = log.clock.monotonic()
        deadline = begun + self._settings["delivery.timeout.ms"] / 1000
        if request.append is None:
            self._number(log, deadline, request)
        try:
            committed = self._commit(log, deadline, request)
        except InvalidPidMappingError:
            # The id expired while nothing was sent (KIP-854): nothing went in under it, so a new one is as good.
            self._identity = None
            self._number(log, deadline, request)
            committed = self._commit(log, deadline, request)
        appended: tuple[Appended, ...] = committed.results[0]
        if self._metrics is not None:
            self._metrics.requested(log.clock.monotonic() - begun, sum(batch.count for batch in appended))
        return appended

    def _number(self, log: Log, deadline: float, request: _Request) -> None:
        """Stage the rows, and give them the numbers under which they are sent, however often."""
        topics: tuple[tuple[str, str], ...] = ()
        files: tuple[StagedFile, ...] = ()
        for attempt in self._attempts(log, deadline):
            with attempt:
                topics, files = request.batch.finish()
        for attempt in self._attempts(log, deadline):
            with attempt:
                log.check_visible(files)
        begun = log.clock.unique()
        for attempt in self._attempts(log, deadline):
            with attempt:
                self._identity = self._identity or self._initialise(log, begun)
        assert self._identity is not None
        numbered = self._identity.number(files, dict(topics))
        request.id = log.clock.unique()
        request.append = AppendBatches(self._identity.stamp, topics, numbered)

    def _commit(self, log: Log, deadline: float, request: _Request) -> Committed:
        assert self._identity is not None
        assert request.append is not None
        append, request_id, writer = request.append, request.id, self._settings["client.id"]
        earlier, request.is_unanswered = request.is_unanswered, True
        committed: Committed | None = None
        try:
            for attempt in self._attempts(log, deadline):
                with attempt:
                    committed = log.commit(lambda _state: (append,), writer=writer, request_id=request_id)
        except EosLogError as error:
            request.is_unanswered = earlier
            if not earlier or isinstance(error, CommitOutcomeUnknownError):
                raise
            # This try is not in the log; of the one that was interrupted that says nothing.
            raise CommitOutcomeUnknownError(
                f"the call that sent the records was interrupted, and they may be in the log: {error}",
                request_id,
            ) from error
        assert committed is not None
        self._identity.learn(committed.state)
        return committed

    def _initialise(self, log: Log, request_id: bytes) -> ProducerSession:
        writer = self._settings["client.id"]
        timeout_ms = self._settings["transaction.timeout.ms"]
        committed = init_producer_id(log, None, timeout_ms, writer=writer, request_id=request_id)
        return ProducerSession(committed.results[0], committed.state)

    def _attempts(self, log: Log, deadline: float) -> _Attempts:
        return _Attempts(log.clock, deadline, self._settings["retries"])

    def _refuse(self, batch: Accumulator, error: Exception) -> None:
        refused = isinstance(error, EosLogError) and not isinstance(error, CommitOutcomeUnknownError)
        if not refused or isinstance(error, (AbortableError, FatalError)):
            # What is in doubt was sent under this id: its numbers cannot be relied on any more.
            self._identity = None
        if refused:
            # What cannot be deleted now is listed by no entry: garbage collection will.
            with suppress(Exception):
                batch.discard()
        self.failures.add(error, batch.outcomes())
        batch.fail(error)


def _forget_frames(error: BaseException) -> None:
    """The frames of a traceback keep those of the program that has called, and futures in them that it has dropped."""
    visited_ids: set[int] = set()
    errors: list[BaseException | None] = [error]
    while errors:
        cause = errors.pop()
        if cause is not None and id(cause) not in visited_ids:  # Python allows ``raise error from error``.
            visited_ids.add(id(cause))
            cause.__traceback__ = None
            errors += (cause.__cause__, cause.__context__)
