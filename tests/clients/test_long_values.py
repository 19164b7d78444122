"""Large records, large transactions, many partitions, many producers: work grows with what is done, no faster."""

from __future__ import annotations

import cProfile
import pstats

import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import RecordTooLargeError
from spark_eos.log.log import Log
from spark_eos.protocol.actions import InitProducer
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import FaultyStore


@pytest.fixture
def store():
    return FaultyStore(MemoryStore())


@pytest.fixture
def log(store):
    return Log.open_or_create(store)


def read(log, topic="t", partitions=1):
    with Consumer(log, {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
        return [record.value for record in consumer.poll(max_records=1_000_000)]


def calls(work):
    """How many functions are called: what grows, whatever the machine does meanwhile."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return pstats.Stats(profile).total_calls


@pytest.mark.parametrize("config", [{}, {"transactional.id": "app"}], ids=["idempotent", "transactional"])
def test_a_record_larger_than_the_buffer(log, config):
    value = bytes(range(256)) * 2000
    with Producer(log, {"buffer.memory": 1000, **config}) as producer:
        if config:
            producer.init_transactions()
            producer.begin_transaction()
        producer.send("t", value)
        producer.send("t", b"small")
        if config:
            producer.commit_transaction()
    assert read(log) == [value, b"small"]


def test_the_largest_record_of_a_topic(log):
    Admin(log).create_topic("t", config={"max.message.bytes": 2000})
    with Producer(log, {"transactional.id": "app"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", bytes(2000))
        producer.commit_transaction()
        producer.begin_transaction()
        with pytest.raises(RecordTooLargeError, match=r"has 2001 bytes; at most 2000 .*max.message.bytes"):
            producer.send("t", bytes(2001)).result(10)
        producer.abort_transaction()
    assert read(log) == [bytes(2000)]


def test_a_transaction_larger_than_the_buffer_is_one_entry(log, store):
    values = [b"%06d" % number * 20 for number in range(3000)]
    with Producer(log, {"transactional.id": "app", "buffer.memory": 10_000}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"first")
        before = log.follow().seq
        for value in values:
            producer.send("t", value)
        assert log.follow().seq == before, "what is too large for memory waits in files, and nobody sees it"
        producer.commit_transaction()
        assert log.follow().seq == before + 1
    assert any(call.operation == "upload" for call in store.journal)
    assert read(log) == [b"first", *values]


def transaction(producer, partitions):
    producer.begin_transaction()
    for number in range(partitions):
        producer.send("wide", b"x", partition=number)
    offsets = {TopicPartition("wide", number): 1 for number in range(partitions)}
    producer.send_offsets_to_transaction(offsets, "g")
    producer.commit_transaction()


def test_a_thousand_partitions_in_one_transaction(log, store):
    Admin(log).create_topic("wide", 1000)
    with Producer(log, {"transactional.id": "app"}) as producer:
        producer.init_transactions()
        transaction(producer, 1000)
        store.journal.clear()
        few = calls(lambda: transaction(producer, 100))
        assert sorted(call.operation for call in store.journal if call.operation in {"create", "upload"}) == [
            "create",
            "upload",
        ], "one file and one entry, however many partitions"
        many = calls(lambda: transaction(producer, 1000))
    assert many < 12 * few, f"ten times the partitions took {many / few:.1f} times the work"
    assert len(read(log, "wide", 1000)) == 2100


def test_ten_thousand_producers_slow_nobody_down(log):
    with Producer(log, {"transactional.id": "app"}) as producer:
        producer.init_transactions()
        Admin(log).create_topic("wide", 2)
        transaction(producer, 2)
        alone = calls(lambda: transaction(producer, 2))
        log.commit(
            lambda state: [
                InitProducer(state.next_producer_id + number, 0, f"id-{number}" if number % 2 else None, 1000)
                for number in range(10_000)
            ]
        )
        transaction(producer, 2)
        together = calls(lambda: transaction(producer, 2))
    assert len(log.state.producers) == 10_001
    assert together < 1.2 * alone
