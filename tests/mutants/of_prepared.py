"""Breaks of prepared transactions."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_ACTIONS = "spark_eos/protocol/actions"
_PREPARE, _PRODUCERS = f"{_ACTIONS}/two_phase/prepare.py", f"{_ACTIONS}/producers.py"
_EXPIRY = f"{_ACTIONS}/expiry.py"
_TWO_PHASE = "spark_eos/clients/producer/two_phase.py"
_MANAGER = "spark_eos/clients/producer/transaction_manager.py"
_PROTOCOL, _CLIENTS = ("tests/protocol/test_prepare.py",), ("tests/clients/test_prepared.py",)

MUTANTS = (
    Mutant(
        "prepared-at-the-same-epoch",
        _PREPARE,
        "    epoch = producer.epoch + 1\n",
        "    epoch = producer.epoch\n",
        "two prepared transactions have the same token",
        _PROTOCOL,
    ),
    Mutant(
        "prepared-takes-rows",
        _PRODUCERS,
        "    ongoing = producer.transaction is TransactionState.ONGOING\n",
        "    ongoing = producer.is_open\n",
        "rows are added to a transaction of which the database has been told",
        _PROTOCOL,
    ),
    Mutant(
        "prepared-times-out",
        _EXPIRY,
        "        and producer.transaction is TransactionState.ONGOING\n",
        "        and producer.is_open\n",
        "a prepared transaction is aborted because time passes",
        _PROTOCOL,
    ),
    Mutant(
        "prepared-is-watched",
        "spark_eos/log/expiration.py",
        " if producer.has_timeout",
        "",
        "a prepared transaction is said to be past its timeout, again and again",
        _CLIENTS,
    ),
    Mutant(
        "prepared-id-expires",
        _EXPIRY,
        "    if producer.is_open:\n        raise",
        "    if producer.has_timeout:\n        raise",
        "a transactional id is forgotten with its prepared transaction",
        _PROTOCOL,
    ),
    Mutant(
        "prepared-proposed-to-expire",
        _EXPIRY,
        "        if producer.is_open:\n            continue",
        "        if producer.has_timeout:\n            continue",
        "the expiry of a prepared transaction's id is asked for, which stops that of others",
        _PROTOCOL,
    ),
    Mutant(
        "prepared-not-kept",
        _PRODUCERS,
        "        keeps_prepared = action.keep_prepared and",
        "        keeps_prepared = False and",
        "who takes over aborts what the database has committed",
        _PROTOCOL,
    ),
    Mutant(
        "unprepared-kept",
        _PRODUCERS,
        "        keeps_prepared = action.keep_prepared and current.transaction is TransactionState.PREPARED\n",
        "        keeps_prepared = action.keep_prepared\n",
        "who takes over keeps a transaction that is not whole",
        _PROTOCOL,
    ),
    Mutant(
        "end-of-prepared-forgotten",
        _PRODUCERS,
        "        prepared = replace(prepared, committed=commit)\n",
        "        prepared = None\n",
        "nothing tells what became of a prepared transaction",
        _PROTOCOL,
    ),
    Mutant(
        "none-open-after-a-snapshot",
        "spark_eos/protocol/encoding/snapshots.py",
        "sorted, lambda ids: Map(dict.fromkeys(ids, True))),",
        "sorted, lambda ids: Map()),",
        "a process that begins with a snapshot does not know which transactions are open",
        _PROTOCOL,
    ),
    Mutant(
        "fate-of-a-prepare-unknown",
        _PREPARE,
        "        return Fate.APPLIED  #",
        "        return Fate.UNKNOWN  #",
        "who slept does not learn that its transaction is prepared",
        _PROTOCOL,
    ),
    Mutant(
        "prepare-counts-as-an-abort",
        "spark_eos/log/history.py",
        "later is not None and later.is_open and",
        "later is not None and later.has_timeout and",
        "the history shows a prepared transaction as aborted",
        _CLIENTS,
    ),
    Mutant(
        "forced-abort-not-told",
        _TWO_PHASE,
        " and not prepared.committed:",
        " and False:",
        "complete_transaction succeeds though the transaction was aborted",
        _CLIENTS,
    ),
    Mutant(
        "token-of-the-future-aborts",
        _TWO_PHASE,
        "        if token > newest:",
        "        if False:",
        "a log that was restored from a backup aborts what the database has committed",
        _CLIENTS,
    ),
    Mutant(
        "every-token-commits",
        _TWO_PHASE,
        "        commit = token == self._token\n",
        "        commit = token.has_transaction\n",
        "the token of an earlier transaction commits a later one",
        _CLIENTS,
    ),
    Mutant(
        "database-put-back-not-told",
        _TWO_PHASE,
        "and token < newest:",
        "and token > newest:",
        "a database that was put back goes on beside a log that is ahead of it, without a word",
        _CLIENTS,
    ),
    Mutant(
        "other-end-in-doubt",
        _TWO_PHASE,
        "        if self.state is (_S.ABORTING if commit else _S.COMMITTING):",
        "        if False:",
        "an end in doubt is answered as if it were the opposite one",
        _CLIENTS,
    ),
    Mutant(
        "close-aborts-prepared",
        _MANAGER,
        "self.takes_records or self.state in (_S.ABORTING,",
        "self.takes_records or self.state in (_S.PREPARED, _S.ABORTING,",
        "a program that ends aborts what the database has committed",
        _CLIENTS,
    ),
    Mutant(
        "error-fails-prepared",
        _TWO_PHASE,
        "        if self._token is None or error.fatal:",
        "        if True:",
        "a record that cannot be sent makes a prepared transaction one that can only be aborted",
        _CLIENTS,
    ),
    Mutant(
        "prepare-in-doubt-sent-again",
        _MANAGER,
        "epoch=stamp.epoch + (target is TransactionState.PREPARED)",
        "epoch=stamp.epoch",
        "a prepare whose reply was lost is refused when it is repeated",
        _CLIENTS,
    ),
    Mutant(
        "admin-aborts-prepared",
        "spark_eos/clients/admin/fencing.py",
        "    if producer.transaction is TransactionState.PREPARED:\n",
        "    if False:\n",
        "an abort by hand ends a prepared transaction",
        _CLIENTS,
    ),
)
