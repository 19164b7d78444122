"""A producer whose transaction is another process's: it stages rows, and never commits them itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_eos.clients.producer.accumulator import Accumulator
from spark_eos.clients.producer.member import MemberTransactions
from spark_eos.clients.producer.producer import Producer
from spark_eos.clients.producer.transaction_states import ClientState
from spark_eos.errors import AbortableError, EosLogError, IllegalStateError
from spark_eos.extensions.distributed.outcome import require_open
from spark_eos.extensions.distributed.receipt import GroupOffsets, StagedReceipt
from spark_eos.extensions.distributed.token import TransactionToken
from spark_eos.log.log import Log
from spark_eos.protocol.state import State, Topic


class StagingProducer(Producer):
    """Takes rows as a producer in a transaction does."""

    def __init__(self, log: Log, config: Mapping[str, object], token: TransactionToken, task: str) -> None:
        super().__init__(log, {**config, "transactional.id": token.transactional_id})
        self._staging = _Staging(log, self._settings, token, task)
        self._transactions = self._staging
        self._gather_in(self._staging)

    def stage(self) -> StagedReceipt:
        """Make all rows durable; what was staged.

        Raises if the transaction is over. Then, and after an error of the store, everything staged is deleted.
        """
        with self._lock:
            return self._staging.stage()

    def discard(self) -> None:
        """Delete everything that was staged."""
        with self._lock:
            self._staging.end()

    def raise_failure(self) -> None:
        """Raise the error of a call that a producer tells in a future."""
        failure = self._staging.failure
        if failure is not None:
            raise failure

    def lacks_rows(self, topic: str, count: int, error: BaseException) -> None:
        """A call has given some rows, and then ``error``: what was staged of it must not be committed."""
        with self._lock:
            self._staging.fail(
                AbortableError(
                    f"a write to topic {topic!r} ended with an error after {count} of its rows "
                    f"({type(error).__name__}: {error})"
                )
            )

    def topic(self, name: str) -> Topic:
        """The topic, created if it is missing and may be."""
        return self._topic(name, None)


class _Staging(MemberTransactions):
    """One writer's part of a transaction: batches that wait to be staged, and offsets for the receipt."""

    def __init__(self, log: Log, settings: Mapping[str, Any], token: TransactionToken, task: str) -> None:
        super().__init__(lambda: log, settings)
        self.failure: EosLogError | None = None
        self._shared = token
        self._task = task
        self._attempt = log.clock.unique().hex()
        self.state = ClientState.IN_TRANSACTION

    def check(self, call: str) -> None:
        """See `TransactionManager.check`."""
        if self.failure is not None:
            raise AbortableError(
                f"{call}: rows of task {self._task!r} are missing, because of: {self.failure}. Run the task again "
                "with a new writer"
            ) from self.failure
        if self.state is not ClientState.IN_TRANSACTION:
            raise IllegalStateError(f"{call}: the writer of task {self._task!r} has ended. Make a new one")

    def fail(self, error: EosLogError) -> None:
        """See `TransactionManager.fail`."""
        self.failure = self.failure or error
        self.state = ClientState.ABORTABLE_ERROR
        self.pending.fail(error)

    def cannot_stage(self, error: EosLogError) -> AbortableError:
        """See `TransactionManager.cannot_stage`."""
        failure = AbortableError(
            f"rows of task {self._task!r} could not be staged: {error}. Run the task again with a new writer"
        )
        self.fail(failure)
        return failure

    def stage(self) -> StagedReceipt:
        """See `StagingProducer.stage`."""
        self.check("finish")
        log, token = self._log(), self._shared
        pending = self.pending
        try:
            topics, files = pending.finish()
            # After the files are staged: a task that is too late finds it out here, and deletes them. If the
            # transaction ends after this check, vacuum deletes them.
            require_open(log.follow(), token)
        except BaseException:
            self.end()
            raise
        self.state = ClientState.READY
        self.pending = Accumulator()
        offsets = tuple(
            GroupOffsets(group, self._members[group], tuple(places.values()))
            for group, places in self.offsets.items()
            if places
        )
        pending.resolve(())
        return StagedReceipt(token.log_id, token.stamp, self._task, self._attempt, topics, files, offsets)

    def end(self) -> None:
        """Nothing of this writer will be committed: its files go."""
        self.state = ClientState.READY
        self.pending.fail(AbortableError(f"the writer of task {self._task!r} was left without its end"))
        self._drop()

    def abort(self) -> None:
        """The same: what `Producer.close` calls."""
        self.end()

    def _check_epoch(self, state: State) -> None:
        require_open(state, self._shared)
