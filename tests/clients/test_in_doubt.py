"""A producer in doubt: what may be in the log stays readable, and no end counts but the one that was asked for."""

from __future__ import annotations

import pytest

from spark_eos import Consumer, Producer, TopicPartition
from spark_eos.errors import (
    CommitOutcomeLostError,
    CommitOutcomeUnknownError,
    InvalidTxnStateError,
    ProducerFencedError,
)
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.protocol.actions import EndTransaction
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from verification.retiring import RETIRED_AT_ONCE


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


def test_an_init_whose_outcome_is_lost_is_another_request_the_next_time(log, monkeypatch):
    request_ids, commit = [], log.commit

    def lost_once(*arguments, request_id, **named):
        request_ids.append(request_id)
        if len(request_ids) == 1:
            raise CommitOutcomeUnknownError("lost", request_id, is_final=True)
        return commit(*arguments, request_id=request_id, **named)

    producer = Producer(log, {"transactional.id": "app"})
    monkeypatch.setattr(log, "commit", lost_once)
    with pytest.raises(CommitOutcomeUnknownError):
        producer.init_transactions()
    producer.init_transactions()
    assert len({*request_ids}) == 2


@pytest.fixture
def in_doubt(store):
    """A producer whose commit has no reply, on a log of its own that retires early."""

    def make(fault):
        log = Log.create(store, retry=Retry(deadline_s=0), snapshot_interval=4, config=RETIRED_AT_ONCE)
        log.ensure_topic("t")
        producer = Producer(log, {"transactional.id": "app"})
        producer.init_transactions()
        producer.begin_transaction()
        future = producer.send("t", b"a")
        store.inject(fault, "create", "_log/*")
        with pytest.raises(CommitOutcomeUnknownError) as raised:
            producer.commit_transaction()
        assert not raised.value.is_final
        return producer, future

    return make


def succeed(store, transactions):
    """Another process takes the id over, and commits so many transactions; old entries are retired."""
    log = Log.open(store.inner)
    log.does_maintenance = False  # A thread of it may come later than the test looks.
    heir = Producer(log, {"transactional.id": "app"})
    heir.init_transactions()
    for number in range(transactions):
        heir.begin_transaction()
        heir.send("t", b"%d" % number)
        heir.commit_transaction()
    heir.close()
    log.maintenance.snapshot()
    while log.maintenance.retire(log.state, 100):
        pass


@pytest.mark.parametrize(("fault", "landed"), [(Fault.FAIL_AFTER, True), (Fault.LOST, False)])
def test_a_commit_whose_outcome_cannot_be_found_out_any_more_ends_the_producer(
    in_doubt, store, fault, landed
):
    producer, future = in_doubt(fault)
    succeed(store, 40)
    with pytest.raises(CommitOutcomeLostError, match="can no longer be found out") as raised:
        producer.commit_transaction()
    assert "Repeat the same call" not in str(raised.value)
    assert isinstance(raised.value.__cause__, CommitOutcomeUnknownError)
    assert raised.value.__cause__.is_final
    assert isinstance(future.exception(), CommitOutcomeLostError)
    for again in (producer.commit_transaction, producer.begin_transaction):
        with pytest.raises(CommitOutcomeLostError):
            again()
    producer.close()
    found = uncommitted(Log.open(store.inner))  # Files of it stay.
    assert (found.count(b"a"), len(found)) == (landed, 40 + landed)


def test_a_fenced_producer_whose_entry_can_be_read_finds_out(in_doubt, store):
    producer, future = in_doubt(Fault.LOST)
    succeed(store, 1)
    with pytest.raises(ProducerFencedError):
        producer.commit_transaction()
    assert isinstance(future.exception(), ProducerFencedError)


def test_what_may_still_come_is_repeated_though_it_is_refused_now(in_doubt, store):
    """The text does not ask for two things."""
    producer, _ = in_doubt(Fault.DELAYED)
    succeed(store, 40)
    log = producer._opened
    state, (request_id,) = log.follow(), log._committer._in_doubt.ids
    one = log._committer._in_doubt._open[request_id]
    assert log._committer._in_doubt.is_lost_for_good(state, request_id)
    one.until = state.seq + 1  # A leader on another machine may still write it there.
    assert not log._committer._in_doubt.is_lost_for_good(state, request_id)
    one.is_lost = False
    with pytest.raises(CommitOutcomeUnknownError) as raised:
        producer.commit_transaction()
    assert not raised.value.is_final
    assert "Repeat the same call" in str(raised.value)
    assert "Close" not in str(raised.value)
