"""A producer in doubt: what may be in the log stays readable, and no end counts but the one that was asked for."""

from __future__ import annotations

import pytest

from spark_eos import Consumer, Producer, TopicPartition
from spark_eos.errors import CommitOutcomeUnknownError, InvalidTxnStateError
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.protocol.actions import EndTransaction
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore


@pytest.fixture
def store():
    return FaultyStore(MemoryStore())


@pytest.fixture
def log(store):
    log = Log.create(store, retry=Retry(deadline_s=0))
    log.ensure_topic("t")
    return log


@pytest.fixture
def producer(log):
    made = Producer(log, {"transactional.id": "app"})
    made.init_transactions()
    made.begin_transaction()
    return made


def uncommitted(log):
    with Consumer(log, {"isolation.level": "read_uncommitted", "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        return [record.value for record in consumer.poll()]


def test_rows_of_a_flush_in_doubt_can_be_read(producer, log, store):
    producer.send("t", b"a")
    store.inject(Fault.FAIL_AFTER, "create", "_log/*")
    with pytest.raises(CommitOutcomeUnknownError):
        producer.flush()
    assert uncommitted(log) == [b"a"]
    producer.abort_transaction()
    assert uncommitted(log) == [b"a"]  # readers of uncommitted records see aborted ones too


def test_a_commit_is_not_made_by_an_abort_of_the_same_transaction(producer, log):
    producer.send("t", b"a")
    producer.flush()
    stamp = next(iter(log.follow().producers.values())).stamp
    log.commit(lambda _: (EndTransaction(stamp, commit=False),))
    with pytest.raises(InvalidTxnStateError, match="cannot commit any more"):
        producer.commit_transaction()
