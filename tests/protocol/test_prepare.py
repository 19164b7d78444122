"""Prepared transactions: only their end is possible, only their owner decides, and nothing forgets them."""

from __future__ import annotations

import pytest

from spark_eos.errors import (
    InvalidRequestError,
    InvalidTxnStateError,
    OffsetOutOfRangeError,
    ProducerFencedError,
)
from spark_eos.protocol.actions import (
    TO_THE_END,
    AdvanceLogStart,
    AlterLog,
    CommitOffsets,
    DeleteTopic,
    EndTransaction,
    ExpireOffsets,
    ExpireProducers,
    ExpireTransaction,
    ExpireTransactionalIds,
    PrepareTransaction,
)
from spark_eos.protocol.actions.expiry import due
from spark_eos.protocol.encoding.snapshots import decode_snapshot, encode_snapshot
from spark_eos.protocol.invariants import InvariantError, check_later, check_state
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.fate import Fate, fate_of
from spark_eos.protocol.state import PreparedTransaction, TransactionState


def prepared(log, stamp=None):
    """A transaction with three rows and an offset, prepared: its stamp."""
    stamp = log.next(stamp or log.init())
    offsets = CommitOffsets("g", (log.at(3),), stamp)
    _, _, after = log.do(log.appending(stamp, (0, 3)), offsets, PrepareTransaction(stamp))
    return after


def producer(log):
    return log.state.producers[0]


def test_the_epoch_rises_and_nothing_is_visible_yet(log):
    stamp = prepared(log)
    assert stamp == (0, 1, 0) == producer(log).stamp
    assert producer(log).transaction is TransactionState.PREPARED
    assert producer(log).prepared == PreparedTransaction(1)
    assert (log.partition().last_stable_offset, log.partition().end) == (0, 3)
    assert log.group() == {}


@pytest.mark.parametrize("commit", [True, False])
def test_its_end(log, commit):
    stamp = prepared(log)
    log.end(stamp, commit)
    assert producer(log).prepared == PreparedTransaction(1, commit)
    assert log.partition().last_stable_offset == 4
    assert log.group() == ({("t", 0): 3} if commit else {})
    log.end(stamp, commit)
    with pytest.raises(InvalidTxnStateError, match=r"cannot .* any more"):
        log.end(stamp, not commit)


def test_nothing_but_its_end_is_possible(log):
    stamp = prepared(log)
    for action in (
        log.appending(stamp, (0, 1)),
        log.appending(log.next(stamp), (0, 1)),
        CommitOffsets("g", (log.at(1),), stamp),
        PrepareTransaction(stamp),
        EndTransaction(log.next(stamp), True),
    ):
        with pytest.raises(InvalidTxnStateError, match="is Prepared, and can only be committed or aborted"):
            log.do(action)


def test_a_request_from_before_is_fenced(log):
    stamp = prepared(log)
    late = stamp._replace(epoch=0)
    for action in (log.appending(late, (0, 1)), EndTransaction(late, True), PrepareTransaction(late)):
        with pytest.raises(ProducerFencedError):
            log.do(action)


def test_no_two_transactions_have_one_token(log):
    tokens = set()
    stamp = log.init()
    for _ in range(3):
        stamp = prepared(log, stamp)
        log.end(stamp)
        tokens.add(stamp.epoch)
    for _ in range(2):
        stamp = prepared(log, log.init())
        tokens.add(stamp.epoch)
    assert len(tokens) == 5


def test_an_empty_transaction_is_prepared(log):
    (stamp,) = log.do(PrepareTransaction(log.next(log.init())))
    assert producer(log).transaction is TransactionState.PREPARED
    log.end(stamp)
    assert producer(log).prepared.committed is True
    assert log.partition().end == 0


def test_it_has_no_timeout(log):
    stamp = prepared(log)
    log.now += 10**9
    for named in (stamp, stamp._replace(epoch=0)):
        with pytest.raises((InvalidTxnStateError, ProducerFencedError)):
            log.do(ExpireTransaction(named, 10**9))
    assert producer(log).stamp == stamp


def test_a_successor_keeps_it_and_fences_the_one_before(log):
    stamp = prepared(log)
    heir = log.init(keep_prepared=True)
    assert heir == (0, 2, 0)
    assert producer(log).prepared == PreparedTransaction(1)
    with pytest.raises(ProducerFencedError):
        log.end(stamp)
    second = log.init(keep_prepared=True)
    log.end(second)
    assert producer(log).prepared == PreparedTransaction(1, True)
    assert log.group() == {("t", 0): 3}


def test_a_successor_that_does_not_keep_it_aborts_it(log):
    prepared(log)
    log.init()
    assert producer(log).prepared == PreparedTransaction(1, False)
    assert log.group() == {}


def test_an_open_transaction_that_was_not_prepared_is_not_kept(log):
    log.append(log.next(log.init()), (0, 3))
    log.init(keep_prepared=True)
    assert producer(log).transaction is TransactionState.COMPLETE_ABORT


def test_what_became_of_it_is_known_after_later_transactions(log):
    stamp = prepared(log)
    log.end(stamp)
    later = log.next(stamp)
    log.do(log.appending(later, (0, 1)), EndTransaction(later, False))
    assert producer(log).prepared == PreparedTransaction(1, True)


def test_nothing_of_it_expires(log):
    prepared(log)
    log.do(AlterLog((("producer.id.expiration.ms", "1"), ("transactional.id.expiration.ms", "1"))))
    log.do(AlterLog((("offsets.retention.minutes", "1"),)))
    log.now += 10**10
    for action in (ExpireProducers((0,)), ExpireTransactionalIds(("tx",))):
        with pytest.raises(InvalidRequestError, match="has a transaction open: it does not expire"):
            log.do(action)
    with pytest.raises(InvalidRequestError, match="an open transaction carries"):
        log.do(ExpireOffsets("g", ()))
    assert list(due(log.state, log.now)) == []


def test_retention_stops_before_it(log):
    prepared(log)
    for offset in (1, TO_THE_END):
        with pytest.raises(OffsetOutOfRangeError):
            log.do(AdvanceLogStart((log.at(offset),)))
    log.do(AdvanceLogStart((log.at(0),)))
    assert log.partition().start == 0


def test_it_ends_without_a_topic_that_was_deleted(log):
    stamp = prepared(log)
    log.do(DeleteTopic("t", "t-id"))
    log.end(stamp)
    assert producer(log).prepared == PreparedTransaction(1, True)
    assert log.group() == {}


def test_a_producer_without_transactional_id_prepares_nothing(log):
    with pytest.raises(InvalidTxnStateError, match=r"no transactional\.id"):
        log.do(PrepareTransaction(log.next(log.init(None))))


def test_snapshots_keep_it(log):
    stamp = prepared(log)
    for _ in range(2):
        state = log.state
        again = decode_snapshot(encode_snapshot(state), state.seq, "x")
        assert again == state
        assert again.open_transactions == state.open_transactions
        log.end(stamp)


def test_the_fate_of_a_prepare(log):
    first = log.next(log.init())
    action = PrepareTransaction(first)
    assert fate_of(log.state, (log.appending(first, (0, 1, 0)), action)) is Fate.NOT_APPLIED
    log.do(log.appending(first, (0, 1, 0)), action)
    assert fate_of(log.state, (log.appending(first, (0, 1, 0)), action)) is Fate.APPLIED
    heir = log.init(keep_prepared=True)
    assert fate_of(log.state, (action,)) is Fate.APPLIED
    log.end(heir)
    assert fate_of(log.state, (action,)) is Fate.APPLIED
    assert fate_of(log.state, (PrepareTransaction(log.next(heir)),)) is Fate.NOT_APPLIED
    prepared(log, heir)
    assert fate_of(log.state, (action,)) is Fate.UNKNOWN
    fenced = log.next(log.init())
    log.init()
    assert fate_of(log.state, (PrepareTransaction(fenced),)) is Fate.NOT_APPLIED


def test_the_fate_of_its_end(log):
    stamp = prepared(log)
    end = EndTransaction(stamp, True)
    assert fate_of(log.state, (end,)) is Fate.NOT_APPLIED
    log.end(stamp)
    assert fate_of(log.state, (end,)) is Fate.APPLIED


def test_impossible_states(log):
    prepared(log)
    before = log.state

    def changed(**changes):
        return replace(before, producers=before.producers.set(0, replace(producer(log), **changes)))

    with pytest.raises(InvariantError, match="is its transaction prepared"):
        check_state(changed(prepared=None))
    with pytest.raises(InvariantError, match="later epoch"):
        check_state(changed(prepared=PreparedTransaction(9)))
    with pytest.raises(InvariantError, match="changed"):
        check_later(before, changed(number=7))
    log.end(producer(log).stamp)
    before = log.state
    with pytest.raises(InvariantError, match="decided twice"):
        check_later(before, changed(prepared=PreparedTransaction(1, False)))
    with pytest.raises(InvariantError, match="forgot"):
        check_later(before, changed(prepared=None))
