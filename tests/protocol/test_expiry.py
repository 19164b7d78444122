"""What ends by itself: never before its time, never what a client relies on, never silently for its owner."""

from __future__ import annotations

import pytest

from spark_eos.config.log import LOG
from spark_eos.errors import (
    InvalidPidMappingError,
    InvalidRequestError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    ProducerFencedError,
)
from spark_eos.protocol.actions import (
    AlterLog,
    CommitMicroBatch,
    CommitOffsets,
    EndTransaction,
    ExpireOffsets,
    ExpireProducers,
    ExpireTransaction,
    ExpireTransactionalIds,
    JoinGroup,
    LeaveGroup,
    SourceProgress,
)
from spark_eos.protocol.actions.expiry import due
from spark_eos.protocol.rules.settings import setting
from spark_eos.protocol.state import TransactionState

DAY_MS = 86_400_000


# -- Transactions ---------------------------------------------------------------------------------------


@pytest.mark.conformance("KAFKA-6119", "expiry/fence-first")
def test_a_transaction_past_its_timeout_is_fenced_and_aborted(log):
    """KAFKA-6119: were it only aborted, its producer could go on as if nothing had happened."""
    stamp = log.next(log.init(timeout_ms=1000))
    log.append(stamp, (0, 3, 0))
    assert log.partition().last_stable_offset == 0
    log.do(ExpireTransaction(stamp, 1000))
    producer = log.state.producer_of("tx")
    assert (producer.epoch, producer.number) == (1, 0)
    assert producer.transaction is TransactionState.COMPLETE_ABORT
    assert (log.partition().end, log.partition().last_stable_offset) == (4, 4)
    for action in (
        log.appending(stamp, (0, 1, 3)),
        EndTransaction(stamp, True),
        EndTransaction(stamp, False),
    ):
        with pytest.raises(ProducerFencedError, match="its transaction timed out"):
            log.do(action)
    log.append(log.next(log.init()), (0, 1, 0))


@pytest.mark.conformance("expiry/evidence")
def test_no_transaction_expires_early(log):
    stamp = log.next(log.init(timeout_ms=1000))
    log.append(stamp, (0, 3))
    log.now += 10 * DAY_MS  # No clock of anybody's decides.
    with pytest.raises(
        InvalidRequestError, match=r"was watched for 999 ms: .* transaction.timeout.ms of 1000"
    ):
        log.do(ExpireTransaction(stamp, 999))


@pytest.mark.conformance("expiry/evidence")
def test_only_the_transaction_that_was_watched_expires(log):
    """An expiration task that slept names a transaction that has ended: the next one of its producer goes on."""
    stamp = log.next(log.init())
    log.append(stamp, (0, 3))
    log.end(stamp)
    with pytest.raises(
        InvalidTxnStateError, match=r"transaction 0 .* is not open: transaction 0 is CompleteCommit"
    ):
        log.do(ExpireTransaction(stamp, 5000))
    following = log.next(stamp)
    log.append(following, (0, 3))
    with pytest.raises(InvalidTxnStateError, match=r"transaction 0 .* is not open: transaction 1 is Ongoing"):
        log.do(ExpireTransaction(stamp, 5000))
    log.end(following)
    log.init()
    with pytest.raises(ProducerFencedError):
        log.do(ExpireTransaction(following, 5000))
    with pytest.raises(InvalidPidMappingError):
        log.do(ExpireTransaction(stamp._replace(producer_id=99), 5000))


def test_pending_offsets_go_with_the_transaction(log):
    stamp = log.next(log.init())
    log.do(CommitOffsets("g", (log.at(1),), stamp))
    log.do(ExpireTransaction(stamp, 1000))
    assert log.group() == {}
    assert not log.state.producer_of("tx").pending


# -- Producer ids ---------------------------------------------------------------------------------------


@pytest.mark.conformance("KAFKA-9144", "expiry/producers")
def test_an_idle_producer_is_forgotten_and_its_late_writes_are_refused(log):
    """KAFKA-9144: what is forgotten can never be taken for something new."""
    stamp = log.init(None)
    log.append(stamp, (0, 3, 0))
    with pytest.raises(
        InvalidRequestError, match=r"was idle for 0 ms: producer.id.expiration.ms is 86400000"
    ):
        log.do(ExpireProducers((stamp.producer_id,)))
    log.now += DAY_MS
    assert list(due(log.state, log.now)) == [ExpireProducers((stamp.producer_id,))]
    log.do(ExpireProducers((stamp.producer_id, 99)))
    assert not log.state.producers
    for sequence in (0, 3):
        with pytest.raises(InvalidPidMappingError, match="expires when it is not used"):
            log.append(stamp, (0, 3, sequence))
    assert log.init(None).producer_id == stamp.producer_id + 1


def test_a_producer_that_writes_again_lives_on(log):
    stamp = log.init(None)
    log.now += DAY_MS - 1
    log.append(stamp, (0, 3, 0))
    log.now += DAY_MS - 1
    with pytest.raises(InvalidRequestError, match="idle"):
        log.do(ExpireProducers((stamp.producer_id,)))
    assert not list(due(log.state, log.now))


@pytest.mark.conformance("expiry/producers")
def test_a_transactional_producer_keeps_its_id_and_epoch(log):
    stamp = log.next(log.init())
    log.append(stamp, (0, 3, 0))
    log.end(stamp)
    log.now += DAY_MS
    log.do(*due(log.state, log.now))
    producer = log.state.producer_of("tx")
    assert (producer.stamp, dict(producer.sequences)) == (stamp, {})
    following = log.next(stamp)
    with pytest.raises(OutOfOrderSequenceError, match="the next one is 0"):
        log.append(following, (0, 1, 3))
    with pytest.raises(InvalidTxnStateError):  # A late batch of what is over is never new.
        log.append(stamp, (0, 3, 0))
    log.append(following, (0, 1, 0))


@pytest.mark.conformance("expiry/not-open")
def test_nothing_of_an_open_transaction_expires(log):
    stamp = log.next(log.init())
    log.append(stamp, (0, 3, 0))
    log.now += 30 * DAY_MS
    assert not list(due(log.state, log.now))
    for action in (ExpireProducers((stamp.producer_id,)), ExpireTransactionalIds(("tx",))):
        with pytest.raises(InvalidRequestError, match="has a transaction open"):
            log.do(action)


@pytest.mark.conformance("expiry/ids")
def test_an_idle_transactional_id_is_forgotten(log):
    stamp = log.next(log.init())
    log.append(stamp, (0, 3, 0))
    log.end(stamp)
    log.now += 7 * DAY_MS - 1
    with pytest.raises(InvalidRequestError, match=r"transactional.id.expiration.ms is 604800000"):
        log.do(ExpireTransactionalIds(("tx",)))
    log.now += 1
    assert list(due(log.state, log.now)) == [ExpireTransactionalIds(("tx",))]
    log.do(ExpireTransactionalIds(("tx", "never seen")))
    with pytest.raises(InvalidPidMappingError):
        log.append(log.next(stamp), (0, 1, 3))
    assert log.init().producer_id == stamp.producer_id + 1


@pytest.mark.conformance("expiry/queries")
def test_a_query_is_never_forgotten(log):
    """Its last batch is what a replay after any pause is recognised by."""
    log.init("query", run_id="run")
    at = (log.at(0),)
    log.do(CommitMicroBatch("query", "q", "run", 0, (SourceProgress("0", "0", "g", at, at),)))
    log.now += 365 * DAY_MS
    assert not list(due(log.state, log.now))
    with pytest.raises(InvalidRequestError, match="holds the progress of a Spark query"):
        log.do(ExpireTransactionalIds(("query",)))
    with pytest.raises(InvalidRequestError, match="a Spark query reads for it"):
        log.do(ExpireOffsets("g", (("t", 0),)))


# -- Offsets of groups ----------------------------------------------------------------------------------


@pytest.mark.conformance("expiry/offsets")
def test_old_offsets_of_a_group_are_forgotten(log):
    log.do(CommitOffsets("g", (log.at(1),)))
    log.now += DAY_MS
    log.do(CommitOffsets("g", (log.at(1, 1),)))
    log.now += 6 * DAY_MS - 1
    with pytest.raises(InvalidRequestError, match=r"not as old as offsets.retention.minutes, 10080"):
        log.do(ExpireOffsets("g", (("t", 0),)))
    log.now += 1
    assert list(due(log.state, log.now)) == [ExpireOffsets("g", (("t", 0),))]
    log.do(ExpireOffsets("g", (("t", 0), ("gone", 7))))
    assert log.group() == {("t", 1): 1}
    log.now += DAY_MS
    log.do(*due(log.state, log.now))
    assert "g" not in log.state.offsets


@pytest.mark.conformance("expiry/offsets")
def test_the_time_begins_when_the_last_member_has_gone(log):
    """KIP-211."""
    log.do(CommitOffsets("g", (log.at(1),)))
    log.do(JoinGroup("g", "m", ("t",), ("range",), 50))
    log.now += 30 * DAY_MS
    assert not list(due(log.state, log.now))
    with pytest.raises(InvalidRequestError, match="it has members"):
        log.do(ExpireOffsets("g", (("t", 0),)))
    log.do(LeaveGroup("g", ("m",)))
    log.now += 7 * DAY_MS - 1
    with pytest.raises(InvalidRequestError, match="not as old"):
        log.do(ExpireOffsets("g", (("t", 0),)))
    assert not list(due(log.state, log.now))
    log.now += 1
    log.do(*due(log.state, log.now))
    assert "g" not in log.state.offsets
    assert "g" not in log.state.groups


def test_a_group_that_never_committed_is_forgotten_too(log):
    log.do(JoinGroup("g", "m", ("t",), ("range",), 50))
    log.do(LeaveGroup("g", ("m",)))
    log.do(ExpireOffsets("g", ()))
    assert log.state.groups["g"].generation == 2, "not before its time: a generation never comes again"
    log.now += 7 * DAY_MS
    assert list(due(log.state, log.now)) == [ExpireOffsets("g", ())]
    log.do(*due(log.state, log.now))
    assert not log.state.groups


@pytest.mark.conformance("expiry/offsets")
def test_offsets_stay_while_a_transaction_carries_newer_ones(log):
    stamp = log.next(log.init())
    log.do(CommitOffsets("g", (log.at(1),)))
    log.do(CommitOffsets("g", (log.at(2),), stamp))
    log.now += 8 * DAY_MS
    assert not list(due(log.state, log.now))
    with pytest.raises(InvalidRequestError, match="an open transaction carries offsets of it"):
        log.do(ExpireOffsets("g", (("t", 0),)))


# -- Settings -------------------------------------------------------------------------------------------


@pytest.mark.conformance("expiry/settings")
def test_settings_of_the_log(log):
    assert {name: setting(log.state, name) for name in LOG} == {
        name: option.default for name, option in LOG.items()
    }
    stamp = log.init(None)
    log.do(AlterLog((("producer.id.expiration.ms", "5"),)))
    log.now += 5
    log.do(ExpireProducers((stamp.producer_id,)))
    log.do(AlterLog(()))
    assert setting(log.state, "producer.id.expiration.ms") == DAY_MS


@pytest.mark.parametrize("value", ["0", "-1", "", " 1", "1_000", "1.5", "x", "\u0661", "9" * 19])
def test_settings_are_whole_numbers(log, value):
    with pytest.raises(InvalidRequestError, match="whole number from 1 up"):
        log.do(AlterLog((("producer.id.expiration.ms", value),)))


def test_unknown_settings_are_refused(log):
    with pytest.raises(InvalidRequestError, match="unknown setting of a log 'x'; known are"):
        log.do(AlterLog((("x", "1"),)))
