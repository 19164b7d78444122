"""The states of a transactional producer, and its requests: Kafka's client state machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from spark_eos.clients.producer.accumulator import Accumulator
from spark_eos.clients.producer.places import appended_by
from spark_eos.clients.producer.producer_session import ProducerSession, init_producer_id
from spark_eos.clients.producer.transaction_states import ALLOWED, ClientState
from spark_eos.errors import (
    AbortableError,
    CommitFailedError,
    CommitOutcomeLostError,
    CommitOutcomeUnknownError,
    EosLogError,
    IllegalStateError,
    ProducerFencedError,
    RetriableError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from spark_eos.log.commit.loop import Committed
from spark_eos.log.environment import refuse_second_call
from spark_eos.log.log import Log
from spark_eos.protocol.actions import (
    Action,
    AppendBatches,
    CommitOffsets,
    EndTransaction,
    ExpireTransaction,
    Membership,
    PartitionOffset,
)
from spark_eos.protocol.actions.expiry import is_open
from spark_eos.protocol.actions.groups import check_committer
from spark_eos.protocol.actions.offsets import require_partition
from spark_eos.protocol.state import State, TransactionState
from spark_eos.protocol.types import ProducerStamp
from spark_eos.storage.forks import OfOneProcess

_S = ClientState


class TransactionManager(OfOneProcess):
    """One transaction after the other. Not for several threads at once: the producer takes care of that.

    ``pending`` is what goes into the log with the commit, in one request: a transaction that was never
    flushed is not visible before.
    """

    def __init__(self, log: Callable[[], Log], settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.state = _S.UNINITIALIZED
        self.pending = Accumulator()
        self.offsets: dict[str, dict[tuple[str, int], PartitionOffset]] = {}
        self._members: dict[str, Membership | None] = {}
        """In whose name the offsets of each group are committed."""
        self._log = log
        self._id: str = settings["transactional.id"]
        self._timeout_ms: int = settings["transaction.timeout.ms"]
        self._writer: str = settings["client.id"] or self._id
        self._identity: ProducerSession | None = None
        self._number = self._last = -1
        """Of this transaction, and of the last one of which the log has heard."""
        self._open_since = 0.0
        """When the log had it that the transaction is open: it was flushed."""
        self._touched = False
        """Whether a request of this transaction was sent: the log may know of it."""
        self._error: EosLogError | None = None
        self._under_way = threading.RLock()
        """Of the thread that makes a request, which nothing but the handler of a signal can see."""
        self._request_id = b""
        self._request: tuple[Action, ...] = ()
        self._unanswered = False
        """Whether the request was tried before, and that was interrupted: "certainly not in" is said of later tries."""

    # -- State ------------------------------------------------------------------------------------------

    def check(self, call: str) -> None:
        """Raise unless the call is allowed now: the error that came before, or `IllegalStateError`."""
        if self.state is _S.REQUESTING:
            refuse_second_call(self._under_way)
            self.state = _S.IN_TRANSACTION  # It was interrupted.
        if self.state in ALLOWED[call]:
            return
        if self.state is _S.FATAL_ERROR and self._error is not None:
            raise type(self._error)(str(self._error)) from self._error
        if self.state is _S.ABORTABLE_ERROR and self._error is not None:
            raise AbortableError(
                f"{call}: abort_transaction comes first, because of: {self._error}"
            ) from self._error
        raise IllegalStateError(
            f"{call} is not possible: the producer {self._id!r} is {self.state.name}; {self.state.value}"
        )

    def fail(self, error: EosLogError) -> None:
        """The transaction cannot go on, or the producer cannot."""
        self._error = error
        self.state = _S.FATAL_ERROR if error.fatal else _S.ABORTABLE_ERROR
        self.pending.fail(error)
        if error.fatal:
            self._drop()

    @property
    def stamp(self) -> ProducerStamp:
        """Producer id, epoch, and the number of the current transaction."""
        assert self._identity is not None
        return self._identity.stamp._replace(number=self._number)

    @property
    def is_open(self) -> bool:
        """Whether there is a transaction that a close aborts: not one that waits for another system's decision."""
        return self.takes_records or self.state in (_S.ABORTING, _S.ABORTABLE_ERROR)

    @property
    def takes_records(self) -> bool:
        """Whether a transaction has begun, of which no end was requested."""
        return self.state in (_S.IN_TRANSACTION, _S.REQUESTING)

    @contextmanager
    def _requesting(self) -> Iterator[None]:
        """A signal's handler must not end the transaction in the middle of a request, nor add what would be in none."""
        with self._under_way:
            self.state = _S.REQUESTING
            try:
                yield
            finally:
                if self.state is _S.REQUESTING:
                    self.state = _S.IN_TRANSACTION

    # -- Verbs ------------------------------------------------------------------------------------------

    def init(self, *, keep_prepared: bool = False) -> Committed:
        """Take the id over: the epoch rises, and whatever the one before left open is aborted."""
        self.check("init_transactions")
        log = self._log()
        if self.state is _S.UNINITIALIZED:
            self._request_id = log.clock.unique()
        self.state = _S.INITIALIZING
        try:
            committed = init_producer_id(
                *(log, self._id, self._timeout_ms),
                writer=self._writer,
                request_id=self._request_id,
                keep_prepared=keep_prepared,
            )
        except RetriableError as error:
            if isinstance(error, CommitOutcomeUnknownError) and error.is_final:
                self.state = _S.UNINITIALIZED  # The next call is a new request.
            raise
        except EosLogError as error:
            self.fail(error)
            raise
        stamp: ProducerStamp = committed.results[0]
        self._identity = ProducerSession(stamp, committed.state)
        self._number = self._last = stamp.number
        self.state = _S.READY
        return committed

    def begin(self) -> None:
        """A transaction with the next number; the log does not hear of it yet."""
        self.check("begin_transaction")
        self._number = self._last + 1
        self._touched = False
        self.state = _S.IN_TRANSACTION

    def add_offsets(self, group: str, member: Membership | None, offsets: list[PartitionOffset]) -> None:
        """Offsets that are committed with the transaction, or not at all.

        Raises if this producer is fenced, or the group has moved on without the member. Both are looked at
        now, so that it is known early, and decided with the commit.
        """
        self.check("send_offsets_to_transaction")
        try:
            state = self._log().follow()
            self._check_epoch(state)
            check_committer(state, group, member, [require_partition(state, at) for at in offsets])
        except (ProducerFencedError, CommitFailedError, UnknownTopicOrPartitionError) as error:
            self.fail(error)
            raise
        self._members[group] = member
        of_group = self.offsets.setdefault(group, {})
        of_group.update({(offset.topic, offset.partition): offset for offset in offsets})

    def flush(self) -> None:
        """Append now what was sent: from here on the transaction is open, and read_uncommitted sees it.

        Offsets go along, so that readers of the group who ask for stable ones wait for the end (KIP-447).
        """
        self.check("flush")
        if not (self.pending or any(self.offsets.values())):
            return
        self._end_if_late()
        pending = self.pending
        with self._requesting():
            request = self._build(end=False)
            try:
                committed = self._log().commit(lambda _state: request, writer=self._writer)
                if not self._touched:
                    self._open_since = self._log().clock.monotonic()
                self._touched = True
                self._learn(committed)
                self.pending, self.offsets = Accumulator(), {}
                self.state = _S.IN_TRANSACTION  # The callback of a future may send.
                pending.resolve(appended_by(request, committed))
            except EosLogError as error:
                if isinstance(error, CommitOutcomeUnknownError):
                    # It may be in: only the end of the transaction, which names its number, settles that.
                    self._leave(error)
                elif error.retriable:
                    raise  # Certainly not in: flush, commit and abort are all possible.
                self.fail(error)
                raise
            except BaseException:
                interrupted = AbortableError("a flush was interrupted: its outcome is not known")
                pending.fail(interrupted)
                self._leave(interrupted)
                self.fail(interrupted)
                raise

    def commit(self) -> None:
        """Rows, offsets and COMMIT in one request. After `CommitOutcomeUnknownError` only this again."""
        self.check("commit_transaction")
        if self.state is _S.IN_TRANSACTION:
            if not (self._touched or self.pending or any(self.offsets.values())):
                self._finish()
                return
            self._end_if_late()
            with self._requesting():
                self._ask(*self._build(end=True))
                self.state = _S.COMMITTING
        committed = self._send(TransactionState.COMPLETE_COMMIT, certainly_not=_S.IN_TRANSACTION)
        pending, appended = self.pending, appended_by(self._request, committed)
        try:
            self._end(committed)
            pending.resolve(appended)
        except BaseException:
            pending.resolve(appended)  # No future waits for ever. What was settled stays so.
            raise

    def abort(self) -> None:
        """Nothing of the transaction will be seen. After `CommitOutcomeUnknownError` only this again."""
        self.check("abort_transaction")
        if self.state is not _S.ABORTING:
            # Files are deleted now: if that is interrupted, nothing but another abort may come.
            self._error = AbortableError("the transaction was aborted")
            self.state = _S.ABORTABLE_ERROR
            self.pending.fail(self._error)
            self._drop()
            if not self._touched:
                self._finish()
                return
            self._ask(EndTransaction(self.stamp, commit=False))
            self.state = _S.ABORTING
        self._end(self._send(TransactionState.COMPLETE_ABORT, certainly_not=_S.ABORTING))

    def _end_if_late(self) -> None:
        """End the own transaction if it is past its time, as any other process would; nothing else follows then.

        Whether a late commit gets in must not depend on which processes have read the log meanwhile.
        """
        log = self._log()
        waited_ms = int((log.clock.monotonic() - self._open_since) * 1000)
        if not self._touched or waited_ms < self._timeout_ms:
            return
        late = ExpireTransaction(self.stamp, waited_ms)
        ended = log.commit(lambda state: (late,) if is_open(state, late) else (), writer=self._writer)
        if not ended.results:
            return  # Others were first: the rules say so.
        error = ProducerFencedError(
            f"transaction {self._number} of transactional.id {self._id!r} was open for {waited_ms} ms, longer than its "
            f"transaction.timeout.ms of {self._timeout_ms}: it was aborted. Close this producer, and do the work of "
            "the transaction again with a new one; if it takes so long, set transaction.timeout.ms higher"
        )
        self.fail(error)
        raise error

    # -- Requests ---------------------------------------------------------------------------------------

    def _build(self, *, end: bool) -> tuple[Action, ...]:
        assert self._identity is not None
        actions: list[Action] = []
        if self.pending:
            try:
                topics, files = self.pending.finish()
            except EosLogError as error:
                # Rows may be gone with the file that could not be written.
                raise self.cannot_stage(error) from error
            try:
                self._log().check_visible(files)
            except StorageError as error:
                raise self.cannot_stage(error) from error
            numbered = self._identity.number(files, dict(topics))
            actions.append(AppendBatches(self.stamp, topics, numbered))
        actions.extend(
            CommitOffsets(group, tuple(offsets.values()), self.stamp, self._members[group])
            for group, offsets in self.offsets.items()
            if offsets
        )
        if end:
            actions.append(EndTransaction(self.stamp, commit=True))
        return tuple(actions)

    def cannot_stage(self, error: EosLogError) -> AbortableError:
        """Rows may be gone with a file that could not be written: only an abort can come now."""
        failure = AbortableError(f"rows could not be staged, abort the transaction: {error}")
        self.fail(failure)
        return failure

    def _ask(self, *request: Action) -> None:
        """What `_send` sends from now on, until it is in the log."""
        self._request, self._request_id, self._unanswered = request, self._log().clock.unique(), False

    def _send(self, target: TransactionState, *, certainly_not: ClientState) -> Committed:
        stamp, request = self.stamp, self._request
        after = stamp._replace(epoch=stamp.epoch + (target is TransactionState.PREPARED))

        def propose(state: State) -> tuple[Action, ...]:
            producer = state.producers.get(stamp.producer_id)
            # This epoch and number are ours alone: if they ended as wanted, it was this very request.
            is_done = producer is not None and producer.stamp == after and producer.transaction is target
            return () if is_done else request

        earlier, self._unanswered = self._unanswered, True
        try:
            committed = self._log().commit(propose, writer=self._writer, request_id=self._request_id)
        except CommitOutcomeUnknownError as error:
            self._unanswered = earlier  # The log knows of all tries that it has answered.
            if not error.is_final:
                raise
            raise self._outcome_lost(error) from error
        except RetriableError:
            self._unanswered = earlier
            if not earlier:
                self.state = certainly_not
            raise
        except EosLogError as error:
            self._unanswered = earlier
            if earlier:
                self._leave(error)
            self.fail(error)
            raise
        return committed

    def _check_epoch(self, state: State) -> None:
        assert self._identity is not None
        stamp = self._identity.stamp
        producer = state.producers.get(stamp.producer_id)
        if producer is not None and producer.epoch > stamp.epoch:
            raise ProducerFencedError(
                f"transactional.id {self._id!r} is at epoch {producer.epoch}; a newer producer took over "
                f"from epoch {stamp.epoch}. Close this one"
            )

    def _learn(self, committed: Committed) -> None:
        assert self._identity is not None
        self._identity.learn(committed.state)

    def _end(self, committed: Committed) -> None:
        """The log has heard of the transaction: its number is taken."""
        self._learn(committed)
        self._last = self._number
        self._finish()

    def _finish(self) -> None:
        self.offsets, self._members = {}, {}
        self.pending = Accumulator()
        self._error = None
        self.state = _S.READY

    def _outcome_lost(self, error: CommitOutcomeUnknownError) -> CommitOutcomeLostError:
        lost = CommitOutcomeLostError(f"{error}. Close this producer")
        self._leave(lost)
        self.fail(lost)
        return lost

    def _leave(self, error: EosLogError) -> None:
        """What was sent may be in the log: its files stay, and the log has to hear of the end."""
        self._touched = True
        self.pending.fail(error)
        self.pending = Accumulator()

    def _drop(self) -> None:
        """Delete the files of what will certainly never be committed."""
        pending, self.pending = self.pending, Accumulator()
        with suppress(EosLogError):  # No entry lists them: garbage collection deletes what is left.
            pending.discard()
