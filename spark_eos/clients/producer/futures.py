"""What becomes of records that were sent, and the futures that tell it."""

from __future__ import annotations

import gc
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn, TypeAlias, TypeVar

from spark_eos.clients.records import RecordMetadata
from spark_eos.clients.validation import check_function
from spark_eos.errors import IllegalStateError, KafkaTimeoutError, RetriableError
from spark_eos.storage.forks import Lock, tell_in_child

T = TypeVar("T")

OnDelivery: TypeAlias = Callable[["BaseException | None", "RecordMetadata | None"], object]
"""A function of an error and a place, one of them None."""

_EXACT = 100
"""Of so many failures it is known which futures have told of them; of earlier ones only how many are left."""

_STATE = frozenset(vars(Future()))
"""The attributes in which a `Future` keeps its state."""


class Outcome:
    """What becomes of many records together, which is not known yet. Safe to share between threads.

    Futures that are never looked at cost nothing: only those that were looked at before the end are settled,
    in the order of their rows. ``is_stuck`` says whether it would be in vain to wait: the thread that waits
    is the one that has to commit.
    """

    def __init__(self, is_stuck: Callable[[], bool]) -> None:
        self.is_stuck = is_stuck
        self.answer: Callable[[int], Any] | None = None
        """Where the record of a row is; None unless they are in the log."""
        self.heard: set[int] = set()
        """The rows whose future has told of an error, or has a callback that it will tell."""
        self._lock = threading.Lock()
        self._tell: Callable[[Future[Any], int], None] | None = None
        self._futures: deque[tuple[int, SendFuture | None]] = deque()
        """Whom to tell, by row; None: the function that `deliver` was given."""
        self._functions: dict[int, OnDelivery] = {}
        tell_in_child(self)

    def forked(self) -> None:
        """See `spark_eos.storage.forks.Forked`: what is not known yet only the parent will know."""
        self._lock = threading.Lock()
        self._functions.clear()
        for row, future in self._futures:
            if future is None:
                continue
            future.forked()
            if self._tell is not None and not future.done():
                self._tell(future, row)  # The parent was about to.
        self.fail(
            IllegalStateError(
                "the record was sent by the process that this one was forked from: only that one learns what becomes "
                "of it"
            )
        )

    def settle(self, answer: Callable[[int], Any]) -> None:
        """The records are in the log; ``answer`` says where the one with this row is."""
        self._end(lambda future, row: future.set_result(answer(row)), answer)

    def fail(self, error: BaseException) -> None:
        """The records are not in the log, or their outcome is unknown."""
        self._end(lambda future, _row: future.set_exception(error))

    def state(self, future: SendFuture, row: int) -> dict[str, Any]:
        """The state that the future of a row has now; from now on the future is notified when that changes."""
        with self._lock:
            state = vars(future)
            if not state:  # Else another thread was here first.
                if self._tell is None:
                    Future.__init__(
                        future
                    )  # A thread that misses a part of it meanwhile waits here for the lock.
                    self._futures.append((row, future))
                    function = self._functions.pop(row, None)
                    if function is not None:
                        state["_done_callbacks"].append(partial(_called, function))
                else:
                    new: Future[Any] = Future()
                    self._tell(new, row)
                    state.update(vars(new))  # All at once: no thread sees a part of it.
            return state

    def deliver(self, row: int, function: OnDelivery) -> None:
        """Call ``function`` at the end: as a callback of the row's future, of which no state is made for it."""
        with self._lock:
            self.heard.add(row)
            if self._tell is None:
                self._functions[row] = function
                self._futures.append((row, None))
                return
        self._call(row, function)

    def _call(self, row: int, function: OnDelivery) -> None:
        assert self._tell is not None
        told: Future[Any] = Future()
        self._tell(told, row)
        told.add_done_callback(partial(_called, function))

    def _end(
        self, tell: Callable[[Future[Any], int], None], answer: Callable[[int], Any] | None = None
    ) -> None:
        """The first end counts; called again it goes on telling, after an interrupt or inside of a callback.

        Futures are notified without the lock: they run callbacks. Each stays in the list until it is done, for a
        process that is forked meanwhile.
        """
        with self._lock:
            if self._tell is None:
                self._tell, self.answer = tell, answer
                self._futures = deque(sorted(self._futures, key=lambda entry: entry[0]))
            tell = self._tell
        while self._futures:
            entry = self._futures[0]
            row, future = entry
            if future is None:
                function = self._functions.pop(row, None)
                self._drop(entry)
                if function is not None:
                    self._call(row, function)
                continue
            # It is done if a callback of it was interrupted; it runs if that came before it was told.
            with suppress(InvalidStateError):  # Another thread was faster.
                if not future.done() and (future.running() or future.set_running_or_notify_cancel()):
                    tell(future, row)
            future.forget_callbacks()
            self._drop(entry)

    def _drop(self, entry: tuple[int, SendFuture | None]) -> None:
        with self._lock:
            if self._futures and self._futures[0] is entry:
                self._futures.popleft()


def _called(function: OnDelivery, future: Future[Any]) -> None:
    """Call ``function`` with an error and a place, one of them None; of a future that was cancelled, not at all."""
    if not future.cancelled():
        error = future.exception()
        function(error, None if error is not None else future.result())


class RecordFuture(Future[T]):
    """A future with the methods of kafka-python's beside those of `concurrent.futures.Future`."""

    def get(self, timeout: float | None = None) -> T:
        """Wait for the result. ``timeout`` is in seconds. Raises what it failed with, and `KafkaTimeoutError`."""
        try:
            return self.result(timeout)
        except FutureTimeoutError:
            if self.done():
                raise
            raise KafkaTimeoutError(f"the record was not sent after {timeout:g} s: call get again") from None

    def add_callback(self, call: Callable[..., object], *args: Any, **kwargs: Any) -> RecordFuture[T]:
        """Call ``call(*args, result, **kwargs)`` once it has succeeded, or now if it has. Errors of it are logged.

        It is called by the thread that sends, as `add_done_callback` does.
        """
        check_function(call, "callback")
        return self._when_done(lambda: call(*args, self.result(), **kwargs), failed=False)

    def add_errback(self, call: Callable[..., object], *args: Any, **kwargs: Any) -> RecordFuture[T]:
        """Call ``call(*args, error, **kwargs)`` once it has failed, or now if it has. Errors of it are logged."""
        check_function(call, "errback")
        return self._when_done(lambda: call(*args, self.exception(), **kwargs), failed=True)

    def add_both(self, call: Callable[..., object], *args: Any, **kwargs: Any) -> RecordFuture[T]:
        """Both `add_callback` and `add_errback`."""
        return self.add_callback(call, *args, **kwargs).add_errback(call, *args, **kwargs)

    @property
    def is_done(self) -> bool:
        """Whether it has succeeded or failed."""
        return self.done()

    def succeeded(self) -> bool:
        """Whether it has a result."""
        return self.done() and not self.cancelled() and self.exception() is None

    def failed(self) -> bool:
        """Whether it has an error."""
        return self.done() and not self.succeeded()

    def retriable(self) -> bool:
        """Whether it has failed with an error after which the same call may succeed."""
        return self.failed() and not self.cancelled() and isinstance(self.exception(), RetriableError)

    def _when_done(self, call: Callable[[], object], *, failed: bool) -> RecordFuture[T]:
        def called(_: Future[T]) -> None:
            if not self.cancelled() and (Future.exception(self) is not None) == failed:
                call()

        # A callback for results alone hears of no error.
        (self.add_done_callback if failed else super().add_done_callback)(called)
        return self


class SendFuture(RecordFuture[Any]):
    """The future of one row of an `Outcome`. Its state is made when it is looked at.

    `result` refuses to wait for what only the waiting thread itself could bring about. ``outcome`` and ``row`` are
    all that it needs to have: a caller that makes one for every record sets them directly, and saves the call of
    ``__init__``.
    """

    __slots__ = ("outcome", "row")

    def __init__(self, outcome: Outcome, row: int) -> None:  # No super(): see __getattr__.
        self.outcome = outcome
        self.row = row

    def __getattr__(self, name: str) -> Any:
        """Called for what is not there yet: the state of a future that was not looked at."""
        if name not in _STATE:
            raise AttributeError(f"a future of a record has no {name!r}")
        return self.outcome.state(self, self.row)[name]

    def add_done_callback(self, fn: Callable[[Future[Any]], object]) -> None:
        """See `concurrent.futures.Future`."""
        self.outcome.heard.add(self.row)
        super().add_done_callback(fn)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """See `concurrent.futures.Future`."""
        error = super().exception(timeout)
        if error is not None:
            self.outcome.heard.add(self.row)
        return error

    def forked(self) -> None:
        """This is a child: threads of the parent held the lock or waited, and callbacks are the parent's to call."""
        self._condition = threading.Condition()
        self._waiters: list[Any] = []
        self._done_callbacks: list[Any] = []

    def forget_callbacks(self) -> None:
        """They were called. Each may hold this future, which would never be gone."""
        self._done_callbacks = []

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise IllegalStateError("the future of a record cannot be copied or pickled: take its result() along")

    def result(self, timeout: float | None = None) -> Any:
        """Where the record is. Raises what it failed with, and `IllegalStateError` before the commit."""
        answer = self.outcome.answer
        if answer is not None and not vars(self):
            return answer(self.row)  # Not looked at, so not cancelled: no state is needed.
        if timeout is None and not self.done() and self.outcome.is_stuck():
            raise IllegalStateError(
                "the offset is known after commit_transaction or flush: until then the record has none"
            )
        try:
            return super().result(timeout)
        except BaseException:
            if self.done():
                self.outcome.heard.add(self.row)
            raise


class _Failure:
    """Records that failed together."""

    def __init__(
        self, error: BaseException, outcomes: Sequence[tuple[Outcome, int, int]], more: int = 0
    ) -> None:
        self.error = error
        self.outcomes = outcomes
        """Each with the number of its futures, and of the records that one of them tells of."""
        self.said = -more
        """Of how many the program was told by other means."""

    def untold(self, *, heard_count: bool, living: Mapping[int, set[int]]) -> int:
        """How many records no future can tell of: without those whose future still exists, or has told already."""
        count = -self.said
        for outcome, futures, records_each in self.outcomes:
            told_rows = living.get(id(outcome), set())
            count += (futures - len(told_rows if heard_count else told_rows | outcome.heard)) * records_each
        return count


class Failures:
    """Records that are not in the log, or of which that is not known, and of which the program has not heard.

    A future that the program still has may be asked later. One that is gone, was not asked, and had no callback for
    errors, can tell no more. ``heard_count``: what futures have told is said again.
    """

    def __init__(self) -> None:
        self.heard_count = False
        self._lock = Lock()
        self._failures: list[_Failure] = []

    def add(self, error: BaseException, outcomes: Sequence[tuple[Outcome, int, int]]) -> None:
        """Records of these outcomes have failed."""
        with self._lock:
            failures = self._open()
            if len(failures) > _EXACT:
                first, second = failures[:2]
                failures[:2] = [_Failure(first.error, (), self._count_left(first) + self._count_left(second))]
            self._failures = [*failures, _Failure(error, outcomes)]

    def take(self, *, last: bool) -> tuple[int, BaseException] | None:
        """Of how many no future can tell any more, and the first error; None if there are none. Each is taken once.

        ``last``: no future will be asked.
        """
        if self._failures and not last:
            gc.collect()  # The error of a request leaves frames in a circle, and with them futures of the program.
        with self._lock:
            failures = self._open()
            living: dict[int, set[int]] = {}
            outcomes = [outcome for failure in failures for outcome, *_ in failure.outcomes]
            # It takes a while, and is no way for records that get in.
            for future in () if last or not outcomes else gc.get_referrers(*outcomes):
                if isinstance(future, SendFuture):
                    living.setdefault(id(future.outcome), set()).add(future.row)
            counts = [
                (count, failure)
                for failure in failures
                if (count := failure.untold(heard_count=self.heard_count, living=living))
            ]
            for count, failure in counts:
                failure.said += count
            self._failures = self._open()
        return (sum(count for count, _ in counts), counts[0][1].error) if counts else None

    def _open(self) -> list[_Failure]:
        return [failure for failure in self._failures if self._count_left(failure)]

    def _count_left(self, failure: _Failure) -> int:
        return failure.untold(heard_count=self.heard_count, living={})
