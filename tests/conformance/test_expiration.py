"""Kafka's tests of expiry: transactions that stay open too long, ids and producer state that are not used.

Time is a fake clock's. A second handle on the log, as another process has one, expires what is overdue.
"""

from __future__ import annotations

import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import InvalidPidMappingError, InvalidRequestError, ProducerFencedError
from spark_eos.log.log import Log
from tests.conformance.helpers import append, faulty_log, run, transactional, values
from tests.log.fakes import FakeClock

conformance = pytest.mark.conformance
T0 = TopicPartition("t", 0)
DAY_S = 86_400.0


class Expiring:
    """A log, its clock, and what another process sees of it."""

    def __init__(self):
        self.clock = FakeClock()
        self.log, store = faulty_log(self.clock)
        for topic in "tu":
            self.log.ensure_topic(topic, 4, config={"message.timestamp.after.max.ms": 2**63 - 1})
        self.other = Log.open(store, clock=self.clock)
        self.admin = Admin(self.other)

    def wait(self, seconds):
        self.clock.now += seconds

    def expire_overdue(self):
        """What the other process does now and then, with all there is to do."""
        self.other.follow()
        self.other.expire_overdue(everything=True)

    def producers(self, partition=0):
        return self.admin.describe_producers("t", partition)

    def knows(self, transactional_id="app"):
        return transactional_id in [known.transactional_id for known in self.admin.list_transactions()]


@pytest.fixture
def expiring():
    return Expiring()


# -- Transactions ---------------------------------------------------------------------------------------


@conformance("TransactionsTest.testFencingOnTransactionExpiration", "KAFKA-6119", "expiry/fence-first")
def test_fencing_on_expiry(expiring):
    log = expiring.log
    producer = transactional(log, transaction_timeout_ms=300)
    producer.begin_transaction()
    assert producer.send("t", "1").done() is False
    producer.flush()
    epoch = log.state.producer_of("app").epoch
    expiring.expire_overdue()
    expiring.wait(0.6)
    expiring.expire_overdue()
    future = producer.send("t", "2")
    with pytest.raises(ProducerFencedError):
        producer.flush()
    with pytest.raises(ProducerFencedError):
        future.result()
    for call in (producer.commit_transaction, producer.begin_transaction):
        with pytest.raises(ProducerFencedError):
            call()
    assert values(log, isolation="read_uncommitted") == [b"1"]
    assert values(log) == []
    assert log.follow().producer_of("app").epoch == epoch + 1
    run(transactional(log), "3")
    assert values(log) == [b"3"]


@conformance("TransactionsTest.testFencingOnTransactionExpiration", "KAFKA-6119")
def test_whoever_reads_ends_what_is_over(expiring):
    producer = transactional(expiring.log, transaction_timeout_ms=300)
    producer.begin_transaction()
    producer.send("t", "1", partition=0)
    producer.flush()
    with Consumer(
        expiring.other, {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    ) as reader:
        reader.assign([T0])
        for _ in range(30):  # more than a second of polls: how often a consumer looks
            assert reader.poll() == []
            expiring.wait(0.1)
        assert reader.end_offsets([T0]) == {T0: 2}
    with pytest.raises(ProducerFencedError):
        producer.commit_transaction()


# -- TransactionsExpirationTest ---------------------------------------------------------------------------


@conformance(
    "TransactionsExpirationTest.testBumpTransactionalEpochAfterInvalidProducerIdMapping", "expiry/ids"
)
def test_a_transactional_id_that_has_expired(expiring):
    log = expiring.log
    producer = transactional(log)
    producer.begin_transaction()
    for topic in "tu":
        producer.send(topic, "aborted", partition=0)
    producer.flush()
    producer.abort_transaction()
    assert expiring.knows()
    expiring.wait(7 * DAY_S)
    expiring.expire_overdue()
    assert not expiring.knows()
    with pytest.raises(InvalidRequestError):
        expiring.admin.describe_transaction("app")
    producer.begin_transaction()
    future = producer.send("t", "1", partition=3)
    with pytest.raises(InvalidPidMappingError) as raised:
        producer.commit_transaction()
    assert raised.value.fatal
    with pytest.raises(InvalidPidMappingError):
        future.result()
    producer.close()
    producer = transactional(log)
    producer.begin_transaction()
    for topic, partition, value in (("u", 1, "2"), ("t", 2, "4"), ("u", 1, "1"), ("t", 3, "3")):
        producer.send(topic, value, partition=partition)
    producer.commit_transaction()
    assert expiring.knows()
    assert sorted(values(log, "t", "u")) == [b"1", b"2", b"3", b"4"]


@conformance("TransactionsExpirationTest.testTransactionAfterProducerIdExpires", "expiry/producers")
def test_the_state_of_a_producer_has_expired_and_its_id_has_not(expiring):
    log = expiring.log
    producer = transactional(log)
    producer.begin_transaction()
    producer.send("t", "aborted", partition=0)
    producer.flush()
    (before,) = expiring.producers()
    producer.abort_transaction()
    expiring.wait(DAY_S)
    expiring.expire_overdue()
    assert expiring.producers() == []
    assert expiring.knows()
    producer.close()
    producer = transactional(log)
    producer.begin_transaction()
    for partition, value in ((0, "4"), (3, "3")):
        producer.send("t", value, partition=partition)
    producer.commit_transaction()
    (after,) = expiring.producers()
    assert (after.producer_id, after.epoch) == (before.producer_id, before.epoch + 1)
    assert sorted(values(log)) == [b"3", b"4"]


# -- ProducerIdExpirationTest -----------------------------------------------------------------------------


@conformance("ProducerIdExpirationTest.testProducerIdExpirationWithNoTransactions", "expiry/producers")
def test_the_state_of_an_idempotent_producer(expiring):
    with Producer(expiring.log) as producer:
        for number in range(3):
            producer.send("t", str(number), partition=0)
            producer.flush()
            assert len(expiring.producers()) == 1
            expiring.wait(DAY_S - 1)
            expiring.expire_overdue()
            assert len(expiring.producers()) == 1
            expiring.wait(1)
            expiring.expire_overdue()
            assert expiring.producers() == []
    assert values(expiring.log) == [b"0", b"1", b"2"]


@conformance(
    "ProducerIdExpirationTest.testTransactionAfterTransactionIdExpiresButProducerIdRemains", "expiry/ids"
)
def test_a_late_writer_of_an_id_that_has_expired_is_refused_however_it_comes(expiring):
    log = expiring.log
    expiring.admin.alter_log({"producer.id.expiration.ms": 30 * 86_400_000})
    producer = transactional(log)
    producer.begin_transaction()
    producer.send("t", "aborted", partition=0)
    producer.flush()
    stamp = log.state.producer_of("app").stamp
    producer.abort_transaction()
    expiring.wait(7 * DAY_S)
    expiring.expire_overdue()
    assert not expiring.knows()
    producer.begin_transaction()
    producer.send("t", "1", partition=0)
    with pytest.raises(InvalidPidMappingError):
        producer.flush()
    new = transactional(log)
    assert log.state.producer_of("app").producer_id != stamp.producer_id  # ids are never given out twice
    for number in (0, 1):
        with pytest.raises(InvalidPidMappingError):
            append(log, stamp._replace(number=number), b"late", sequence=1)
    run(new, "4")
    run(new, "3")
    assert sorted(values(log)) == [b"3", b"4"]


@conformance("ProducerIdExpirationTest.testDynamicProducerIdExpirationMs", "expiry/settings")
def test_how_long_producers_are_remembered_may_be_changed(expiring):
    producer = Producer(expiring.log)

    def gone_after(seconds):
        producer.send("t", "x", partition=0)
        producer.flush()
        expiring.wait(seconds)
        expiring.expire_overdue()
        return not expiring.producers()

    assert not gone_after(100)
    assert gone_after(DAY_S)
    expiring.admin.alter_log({"producer.id.expiration.ms": 100_000_000_000})
    assert not gone_after(DAY_S)
    expiring.admin.alter_log({"producer.id.expiration.ms": 100})
    expiring.other = Log.open(expiring.other.store, clock=expiring.clock)  # as after a restart
    expiring.admin = Admin(expiring.other)
    assert gone_after(0.1)
    expiring.admin.alter_log({"producer.id.expiration.ms": None})
    assert not gone_after(100)
    producer.close()


@conformance(
    "ProducerIdExpirationTest.(not while a transaction is open)",
    "ProducerStateManagerTest.testProducersWithOngoingTransactionsDontExpire",
    "expiry/not-open",
)
def test_nothing_expires_while_a_transaction_is_open(expiring):
    producer = transactional(expiring.log)
    producer.begin_transaction()
    producer.send("t", "1", partition=0)
    producer.flush()
    producer.send_offsets_to_transaction({T0: 0}, "g")
    expiring.admin.alter_log({"producer.id.expiration.ms": 30_000, "transactional.id.expiration.ms": 30_000})
    expiring.wait(50)  # Shorter than the transaction may be open.
    expiring.expire_overdue()
    assert expiring.knows()
    assert len(expiring.producers()) == 1
    producer.commit_transaction()
    assert values(expiring.log) == [b"1"]
    expiring.wait(7 * DAY_S)
    expiring.expire_overdue()
    assert not expiring.knows()


@conformance("KAFKA-9144", "state/time")
@pytest.mark.parametrize("timestamp_ms", [1, 1_000_000, 4_102_444_800_000])
def test_timestamps_of_records_have_no_say(expiring, timestamp_ms):
    log = expiring.log
    old = transactional(log)
    old.begin_transaction()
    old.send("t", "old", partition=0, timestamp_ms=timestamp_ms)
    old.flush()
    stale = log.state.producer_of("app").stamp
    new = transactional(log)
    new.begin_transaction()
    new.send("t", "new", partition=0, timestamp_ms=timestamp_ms)
    new.commit_transaction()
    expiring.wait(DAY_S - 1)
    expiring.expire_overdue()
    assert len(expiring.producers()) == 1
    for sequence in (0, 1):
        with pytest.raises(ProducerFencedError):
            append(log, stale, b"zombie", sequence=sequence)
    expiring.wait(1)
    expiring.expire_overdue()
    assert expiring.producers() == []
    with pytest.raises(ProducerFencedError):  # the epoch is remembered for as long as the id
        append(log, stale, b"zombie", sequence=0)
    assert values(log) == [b"new"]
