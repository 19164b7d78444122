"""Prepared transactions of a producer: another system decides on them (KIP-939, docs/design/0011)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from spark_eos.clients.producer.accumulator import Accumulator
from spark_eos.clients.producer.places import appended_by
from spark_eos.clients.producer.producer_session import ProducerSession
from spark_eos.clients.producer.transaction_manager import TransactionManager
from spark_eos.clients.producer.transaction_states import ClientState, PreparedTxnState
from spark_eos.errors import EosLogError, IllegalStateError, InvalidTxnStateError
from spark_eos.log.commit.loop import Committed
from spark_eos.log.log import Log
from spark_eos.protocol.actions import EndTransaction, PrepareTransaction
from spark_eos.protocol.state import TransactionState
from spark_eos.protocol.types import Decider

_S = ClientState


class TwoPhaseTransactions(TransactionManager):
    """One transaction after the other, some of which are prepared before they end."""

    def __init__(self, log: Callable[[], Log], settings: Mapping[str, Any]) -> None:
        super().__init__(log, settings)
        self._may_prepare: bool = settings["transaction.two.phase.commit.enable"]
        self._token: PreparedTxnState | None = None
        """Of the transaction that is prepared, until the log has its end."""

    def init(self, *, keep_prepared: bool = False) -> Committed:
        """Take the id over; with ``keep_prepared`` together with the transaction that is prepared under it."""
        if keep_prepared:
            self._check_enabled("init_transactions(keep_prepared_transaction=True)")
        committed = super().init(keep_prepared=keep_prepared)
        producer = committed.state.producers.get(self.stamp.producer_id)
        prepared = None if producer is None else producer.prepared
        if prepared is not None and prepared.committed is None:
            self._token = PreparedTxnState(self.stamp.producer_id, prepared.epoch)
            self.state = _S.PREPARED
        return committed

    def fail(self, error: EosLogError) -> None:
        """As `TransactionManager.fail`. What is prepared is never aborted because of an error."""
        if self._token is None or error.fatal:
            super().fail(error)

    def prepare(self, decider: Decider | None = None) -> PreparedTxnState:
        """Rows, offsets and the mark in one request. After `CommitOutcomeUnknownError` only this again."""
        if decider is None:
            self._check_enabled("prepare_transaction")
        self.check("prepare_transaction")
        if self.state is _S.IN_TRANSACTION:
            self._end_if_late()
            with self._requesting():
                self._ask(*self._build(end=False), PrepareTransaction(self.stamp, decider))
                self.state = _S.PREPARING
        committed = self._send(TransactionState.PREPARED, certainly_not=_S.IN_TRANSACTION)
        pending, appended = self.pending, appended_by(self._request, committed)
        try:
            stamp = self.stamp._replace(epoch=self.stamp.epoch + 1)
            self._identity = ProducerSession(stamp, committed.state)
            self._last = self._number
            token = self._token = PreparedTxnState(stamp.producer_id, stamp.epoch)
            self.offsets, self._members, self.pending = {}, {}, Accumulator()
            self.state = _S.PREPARED
        finally:
            pending.resolve(appended)  # No future waits for ever.
        return token

    def complete(self, prepared: PreparedTxnState | str | None) -> None:
        """COMMIT if the token is that of the prepared transaction, else ABORT. Nothing, if none is prepared."""
        token = PreparedTxnState.parse(f"{prepared}" if isinstance(prepared, PreparedTxnState) else prepared)
        self.check("complete_transaction")
        if self._token is None:
            if self.state is not _S.READY:
                raise IllegalStateError(
                    f"complete_transaction is not possible: the producer {self._id!r} is {self.state.name}, and its "
                    f"transaction was not prepared; {self.state.value}"
                )
            self._check_decided(token)
            return
        self._check_known(token, self._token)
        commit = token == self._token
        if self.state is (_S.ABORTING if commit else _S.COMMITTING):
            raise IllegalStateError(
                f"complete_transaction({str(token)!r}) is not possible: the producer {self._id!r} is "
                f"{self.state.name}; {self.state.value}"
            )
        self._decide(commit=commit)

    def commit(self) -> None:
        """As `TransactionManager.commit`; the transaction may be prepared."""
        if self._token is None:
            super().commit()
        else:
            self.check("commit_transaction")
            self._decide(commit=True)

    def abort(self) -> None:
        """As `TransactionManager.abort`; the transaction may be prepared."""
        if self._token is None:
            super().abort()
        else:
            self.check("abort_transaction")
            self._decide(commit=False)

    def _decide(self, *, commit: bool) -> None:
        if self.state is _S.PREPARED:
            self._ask(EndTransaction(self.stamp, commit))
            self.state = _S.COMMITTING if commit else _S.ABORTING
        target = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
        committed = self._send(target, certainly_not=_S.PREPARED)
        self._token = None
        self._end(committed)

    def _check_enabled(self, call: str) -> None:
        if not self._may_prepare:
            raise IllegalStateError(f"{call} needs the setting transaction.two.phase.commit.enable=true")

    def _check_decided(self, token: PreparedTxnState) -> None:
        """Nothing is prepared: raise unless ``token`` was committed, or is older than one that was aborted."""
        state = self._log().follow()
        self._check_epoch(state)
        producer = state.producers.get(self.stamp.producer_id)
        prepared = None if producer is None else producer.prepared
        newest = PreparedTxnState(self.stamp.producer_id, -1 if prepared is None else prepared.epoch)
        self._check_known(token, newest)
        if prepared is not None and prepared.committed and prepared.decider is None and token < newest:
            # It was committed since the other system had its token, and that comes after all older ones.
            raise InvalidTxnStateError(
                f"the other system has {f'the token {token}' if token.has_transaction else 'no token'} of "
                f"transactional.id {self._id!r}, and the log has committed the newer transaction {newest}: the other "
                "system was put back, from a backup for instance, or this is not its newest token. The log has what "
                "it has lost. Nothing was changed. Bring its data up to the log's, and store the token "
                f"{newest} there; then go on"
            )
        if prepared is not None and token == newest and not prepared.committed:
            raise InvalidTxnStateError(
                f"the prepared transaction {token} of transactional.id {self._id!r} was aborted, though its token "
                "says that it should be committed: by complete_transaction with an older token or none, by "
                "abort_transaction, by init_transactions without keep_prepared_transaction, by "
                "force_terminate_transaction or by fence_producers. Write its records again, then forget the token"
            )

    def _check_known(self, token: PreparedTxnState, newest: PreparedTxnState) -> None:
        if token > newest:
            raise InvalidTxnStateError(
                f"the token {token} is of no transaction that was prepared here: the newest one of transactional.id "
                f"{self._id!r} is {str(newest) if newest.epoch >= 0 else 'none'}. Is the token of another log, or was "
                "this log restored from a backup? Nothing was changed"
            )


def no_transactions(call: str) -> NoReturn:
    """Refuse a transactional call to a producer without transactional.id."""
    raise IllegalStateError(f"{call} needs the setting transactional.id")
