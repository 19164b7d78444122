"""Prepared transactions and a log that was restored from a backup."""

from __future__ import annotations

import pytest

from spark_eos.errors import InvalidTxnStateError
from spark_eos.extensions.backup.backing_up import backup_log
from spark_eos.extensions.backup.restoring import restore_log
from spark_eos.log.log import Log
from spark_eos.storage import MemoryStore
from tests.clients.test_prepared import is_completed_there, prepared, started


def test_a_restored_log_has_it_and_completes_it():
    store, repository, target = MemoryStore(), MemoryStore(), MemoryStore()
    log = Log.create(store)
    token = prepared(started(log))
    backup_log(store, repository)
    restore_log(repository, target)
    is_completed_there(Log.open(target), token)
    assert log.follow().producer_of("app").prepared.committed is None


def test_a_backup_from_before_a_token_refuses_it():
    store, repository, target = MemoryStore(), MemoryStore(), MemoryStore()
    producer = started(Log.create(store))
    prepared(producer, "a")
    backup_log(store, repository)
    producer.commit_transaction()
    token = prepared(producer, "b")
    producer.commit_transaction()
    restore_log(repository, target)
    heir = started(Log.open(target))
    with pytest.raises(InvalidTxnStateError, match="restored from a backup"):
        heir.complete_transaction(token)
