"""Ids, epochs, and the beginning and end of transactions."""

from __future__ import annotations

import pytest

from spark_eos.errors import (
    InvalidPidMappingError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    ProducerFencedError,
)
from spark_eos.protocol.actions import CommitOffsets, EndTransaction, InitProducer
from spark_eos.protocol.index import Kind
from spark_eos.protocol.state import TransactionState
from spark_eos.protocol.types import NO_PRODUCER, ProducerStamp


@pytest.mark.conformance("producer/timeout-bounds")
@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
def test_timeouts(log, timeout_ms):
    with pytest.raises(InvalidTransactionTimeoutError, match=str(timeout_ms)):
        log.init(timeout_ms=timeout_ms)
    log.init(timeout_ms=1)
    log.init(timeout_ms=900_000)


@pytest.mark.conformance("producer/ids")
def test_ids_are_given_out_in_order(log):
    for taken in ((1, 0), (0, 1)):
        with pytest.raises(InvalidPidMappingError, match="next new one is 0 at epoch 0"):
            log.do(InitProducer(*taken, "tx", 1000))
    assert log.init("a") == ProducerStamp(0, 0)
    assert log.init(None) == ProducerStamp(1, 0)
    assert log.init("a") == ProducerStamp(0, 1)
    with pytest.raises(InvalidPidMappingError, match="has producer id 0, not 1"):
        log.do(InitProducer(1, 2, "a", 1000))
    for epoch in (0, 1, 3):
        with pytest.raises(ProducerFencedError, match="its next epoch is 2"):
            log.do(InitProducer(0, epoch, "a", 1000))


@pytest.mark.conformance("producer/fencing")
def test_older_epochs_are_fenced(log):
    old = log.next(log.init())
    new = log.next(log.init())
    for action in (log.appending(old, (0, 1)), EndTransaction(old, True), CommitOffsets("g", (), old)):
        with pytest.raises(ProducerFencedError, match="epoch 0 was fenced: a newer producer took over"):
            log.do(action)
    with pytest.raises(InvalidRequestError, match="epoch 2 was never given out"):
        log.append(new._replace(epoch=2), (0, 1))
    with pytest.raises(InvalidPidMappingError, match="no producer id 9"):
        log.append(new._replace(producer_id=9), (0, 1))


@pytest.mark.conformance("producer/init-aborts")
def test_init_aborts_what_is_open(log):
    stamp = log.next(log.init())
    log.append(stamp, (0, 3))
    log.do(CommitOffsets("g", (log.at(3),), stamp))
    log.init()
    partition = log.partition()
    assert [(row.kind, row.count) for row in partition.index.tail] == [(Kind.DATA, 3), (Kind.ABORT, 1)]
    assert (partition.last_stable_offset, partition.end, dict(partition.aborted)) == (4, 4, {(0, 0): True})
    assert (log.group(), log.state.producers[0].number) == ({}, 0)
    assert log.state.producers[0].transaction is TransactionState.COMPLETE_ABORT


@pytest.mark.conformance("producer/markers")
def test_control_batches_take_one_offset_in_each_partition_touched(log):
    stamp = log.next(log.init())
    log.append(stamp, (0, 3), (1, 5))
    log.append(stamp, (0, 2))
    log.end(stamp)
    assert [log.partition(n).end for n in (0, 1)] == [6, 6]
    assert log.partition().index.tail[-1].producer == stamp
    assert log.partition().index.tail[-1].kind is Kind.COMMIT
    assert not log.partition().aborted
    assert log.append(NO_PRODUCER, (1, 1))[0].base_offset == 6


@pytest.mark.conformance("offset/lso")
def test_last_stable_offset(log):
    first, second = log.next(log.init("a")), log.next(log.init("b"))
    log.append(NO_PRODUCER, (0, 2))
    log.append(first, (0, 3))
    log.append(second, (0, 3))
    assert log.partition().last_stable_offset == 2
    assert log.partition(1).last_stable_offset == 0
    log.end(first, commit=False)
    assert log.partition().last_stable_offset == 5
    log.append(second, (0, 1))
    assert log.partition().last_stable_offset == 5
    log.end(second)
    assert log.partition().last_stable_offset == log.partition().end == 11


@pytest.mark.conformance("KAFKA-19999", "producer/same-decision")
@pytest.mark.parametrize("commit", [True, False])
def test_the_same_decision_again_is_success_and_the_opposite_is_refused(log, commit):
    stamp = log.next(log.init())
    log.append(stamp, (0, 3))
    log.end(stamp, commit)
    end = log.partition().end
    log.end(stamp, commit)
    assert log.partition().end == end == 4
    with pytest.raises(InvalidTxnStateError, match=f"cannot {'abort' if commit else 'commit'} any more"):
        log.end(stamp, not commit)


@pytest.mark.conformance("KAFKA-17754", "producer/number")
def test_a_stale_end_decides_nothing(log):
    stamp = log.next(log.init())
    log.append(stamp, (0, 3))
    log.end(stamp)
    log.append(log.next(stamp), (0, 3))
    for commit in (True, False):
        with pytest.raises(InvalidTxnStateError, match="transaction 1 is Ongoing"):
            log.end(stamp, commit)
    assert log.partition().last_stable_offset == 4


@pytest.mark.conformance("producer/one-at-a-time")
@pytest.mark.parametrize("by", [0, 2, 5])
def test_numbers_follow_one_another(log, by):
    stamp = log.next(log.init())
    log.append(stamp, (0, 3))
    log.end(stamp)
    with pytest.raises(InvalidTxnStateError, match="transaction 0 is CompleteCommit"):
        log.append(log.next(stamp, by), (0, 3))


@pytest.mark.conformance("producer/one-at-a-time")
def test_one_transaction_at_a_time(log):
    stamp = log.next(log.init())
    log.append(stamp, (0, 3))
    with pytest.raises(InvalidTxnStateError, match=r"transaction 1 of .* cannot go on"):
        log.append(log.next(stamp), (0, 3))


def test_an_end_needs_a_beginning(log):
    stamp = log.init()
    with pytest.raises(InvalidTxnStateError, match="is Empty"):
        log.end(stamp)


@pytest.mark.conformance("producer/empty")
@pytest.mark.parametrize("commit", [True, False])
def test_an_empty_transaction_leaves_no_trace(log, commit):
    stamp = log.next(log.init())
    partitions, offsets = log.state.partitions, log.state.offsets
    log.end(stamp, commit)
    assert (log.state.partitions, log.state.offsets) == (partitions, offsets)
    assert not log.state.open_transactions
    log.append(log.next(stamp), (0, 1))


@pytest.mark.conformance("producer/kinds")
def test_transactions_need_a_transactional_id(log):
    stamp = log.init(None)
    with pytest.raises(InvalidTxnStateError, match=r"has no transactional.id"):
        log.append(log.next(stamp), (0, 1))
    with pytest.raises(InvalidTxnStateError, match="only append inside a transaction"):
        log.append(log.init(), (0, 1))


@pytest.mark.conformance("producer/runs")
def test_runs_do_not_come_back(log):
    log.init(run_id="r1")
    log.init(run_id="r2")
    for run, by in (("r1", "run r1 .* was replaced by r2"), ("r2", "run r2")):
        with pytest.raises(ProducerFencedError, match=by):
            log.init(run_id=run)
    log.init()
    assert log.state.producers[0].run_id is None
    with pytest.raises(ProducerFencedError, match="replaced by another client"):
        log.init(run_id="r2")
    log.init(run_id="r3")
    assert log.state.producers[0].run_id == "r3"


def test_a_hundred_runs_are_remembered(log):
    for run in range(103):
        log.init(run_id=str(run))
    assert log.state.producers[0].runs == tuple(map(str, range(3, 103)))


FENCED, REFUSED, DONE = ProducerFencedError, InvalidTxnStateError, None


@pytest.mark.parametrize(
    ("last", "which", "commit", "outcome"),
    [
        # KIP-890's table. "before" is an end from the epoch before, "this" names the last transaction again,
        # "next" the one after it, of which the log has not heard.
        ("Empty", "before", False, FENCED),
        ("Empty", "before", True, FENCED),
        ("Empty", "next", False, DONE),
        ("Empty", "next", True, DONE),  # Kafka: InvalidTxnState. An empty transaction may commit here.
        ("Ongoing", "before", False, FENCED),
        ("Ongoing", "before", True, FENCED),
        ("Ongoing", "this", False, DONE),
        ("Ongoing", "this", True, DONE),
        ("Ongoing", "next", False, REFUSED),
        ("Ongoing", "next", True, REFUSED),
        ("CompleteAbort", "before", False, FENCED),
        ("CompleteAbort", "before", True, FENCED),
        ("CompleteAbort", "this", False, DONE),
        ("CompleteAbort", "this", True, REFUSED),
        ("CompleteAbort", "next", False, DONE),
        ("CompleteCommit", "before", False, FENCED),
        ("CompleteCommit", "before", True, FENCED),
        ("CompleteCommit", "this", False, REFUSED),
        ("CompleteCommit", "this", True, DONE),
        ("CompleteCommit", "next", False, DONE),
    ],
)
def test_every_end_in_every_state(log, last, which, commit, outcome):
    log.init()
    stamp = log.init()
    if last != "Empty":
        stamp = log.next(stamp)
        log.append(stamp, (0, 1))
        if last != "Ongoing":
            log.end(stamp, commit=last == "CompleteCommit")
    assert log.state.producer_of("tx").transaction.value == last
    named = {
        "before": stamp._replace(epoch=stamp.epoch - 1, number=max(stamp.number, 0)),
        "this": stamp,
        "next": log.next(stamp),
    }[which]
    if outcome is None:
        log.end(named, commit)
        assert log.state.producer_of("tx").transaction.value == (
            "CompleteCommit" if commit else "CompleteAbort"
        )
    else:
        with pytest.raises(outcome):
            log.end(named, commit)
        assert log.state.producer_of("tx").transaction.value == last
