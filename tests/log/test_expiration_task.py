"""Open transactions end after their timeout, whichever process sees it; ids and offsets once an hour."""

from __future__ import annotations

import logging

import pytest

from spark_eos.errors import StoreUnavailableError
from spark_eos.log.log import Log
from spark_eos.protocol.actions import (
    CommitOffsets,
    EndTransaction,
    ExpireProducers,
    ExpireTransaction,
    InitProducer,
    PartitionOffset,
)
from spark_eos.protocol.state import TransactionState
from spark_eos.protocol.types import ProducerStamp
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import FaultyStore
from tests.log.fakes import FakeClock

STAMP = ProducerStamp(0, 0, 0)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def log(store, clock):
    """A log with a transaction open that may take a second."""
    log = Log.create(store, clock)
    topic = log.ensure_topic("t")
    log.commit(lambda _: (InitProducer(0, 0, "tx", 1000),))
    offset = PartitionOffset("t", topic.topic_id, 0, 1)
    log.commit(lambda _: (CommitOffsets("g", (offset,), STAMP),))
    return log


def state_of(log):
    return log.follow().producers[0].transaction


def test_a_transaction_ends_after_its_timeout(log, clock):
    assert log.expire_overdue() == ()
    clock.now += 0.999
    assert log.expire_overdue() == ()
    clock.now += 0.001
    assert log.expire_overdue() == (ExpireTransaction(STAMP, 1000),)
    assert state_of(log) is TransactionState.COMPLETE_ABORT
    assert log.expire_overdue() == ()


@pytest.mark.conformance("expiry/evidence")
@pytest.mark.usefixtures("log")
def test_time_is_what_this_process_has_seen_pass(store, clock):
    """An hour in the log's timestamps is no hour for a process that has just started: a clock may have jumped."""
    clock.now += 3600
    other = Log.open(store, clock)
    assert other.expire_overdue() == ()
    clock.now += 1
    assert len(other.expire_overdue()) == 1


@pytest.mark.conformance("expiry/evidence")
def test_the_next_transaction_has_a_time_of_its_own(log, clock):
    log.expire_overdue()
    clock.now += 0.9
    log.commit(lambda _: (EndTransaction(STAMP, commit=True),))
    log.commit(lambda _: (CommitOffsets("g", (), STAMP._replace(number=1)),))
    log.expire_overdue()
    clock.now += 0.9
    assert log.expire_overdue() == ()


@pytest.mark.conformance("expiry/evidence")
def test_whoever_slept_looks_again_before_it_decides(log, store, clock):
    """It saw the transaction open for longer than allowed, but meanwhile it has ended."""
    log.expire_overdue()
    clock.now += 3600
    Log.open(store, clock).commit(lambda _: (EndTransaction(STAMP, commit=True),))
    assert log.expire_overdue() == ()
    assert state_of(log) is TransactionState.COMPLETE_COMMIT
    assert log.state.producers[0].epoch == 0


def test_two_who_expire_overdue_at_once_end_it_once(log, store, clock):
    other = Log.open(store, clock)
    log.expire_overdue(), other.expire_overdue()
    clock.now += 1
    assert len(log.expire_overdue()) == 1
    assert other.expire_overdue(everything=True) == (), "and nothing is wrong with that"
    assert other.state.producers[0].epoch == 1


def test_ids_are_looked_through_once_an_hour_or_when_asked(log, clock):
    log.commit(lambda _: (InitProducer(1, 0, None, 1000),))
    log.commit(lambda _: (EndTransaction(STAMP, commit=False),))
    clock.now += 86_400
    assert log.expire_overdue(everything=True) == (ExpireProducers((1,)),)
    log.commit(lambda _: (InitProducer(2, 0, None, 1000),))
    clock.now += 3599
    assert log.expire_overdue() == ()
    clock.now += 86_400
    assert log.expire_overdue() == (ExpireProducers((2,)),)


def test_a_expire_overdue_that_does_not_work_is_left_to_others_for_a_while(store, log, clock, caplog):
    faulty = FaultyStore(store)
    log = Log.open(faulty, clock)
    log.expire_overdue()
    clock.now += 1
    calls = []

    def refuse(*_):
        calls.append(1)
        raise StoreUnavailableError("away")

    faulty.create = refuse
    with caplog.at_level(logging.WARNING):
        assert log.expire_overdue() == ()
        tried = len(calls)
        assert log.expire_overdue() == ()
    assert tried
    assert len(calls) == tried, "not again at once"
    assert "will be tried again: away" in caplog.text
    with pytest.raises(StoreUnavailableError):
        log.expire_overdue(everything=True)
    del faulty.create
    clock.now += 10
    assert len(log.expire_overdue()) == 1
