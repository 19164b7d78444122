"""Large records, large transactions, many partitions, many producers: work grows with what is done, no faster."""

from __future__ import annotations

import cProfile
import pstats

import pyarrow as pa
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


@pytest.mark.parametrize(("config", "size"), [({"max.message.bytes": 2000}, 2000), ({}, 1_048_588)])
def test_the_largest_record_of_a_topic(log, config, size):
    Admin(log).create_topic("t", config=config)
    with Producer(log, {"transactional.id": "app", "max.request.size": 2 * size}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", bytes(size))
        producer.commit_transaction()
        producer.begin_transaction()
        larger = rf"has {size + 1} bytes; at most {size} .*max.message.bytes"
        with pytest.raises(RecordTooLargeError, match=larger):
            producer.send("t", bytes(size + 1)).result(60)
        producer.abort_transaction()
    assert read(log) == [bytes(size)]


def test_a_row_of_columns_has_no_limit_unless_its_topic_has_one(log):
    """The default of ``max.message.bytes`` is for records of topics without columns."""
    schema, row = pa.schema([("x", pa.binary())]), pa.table({"x": [bytes(1_048_589)]})
    Admin(log).create_topic("t", schema=schema)
    Admin(log).create_topic("u", schema=schema, config={"max.message.bytes": 1_048_588})
    with Producer(log, max_request_size=2_000_000) as producer:
        assert producer.send_arrow("t", row).result(60)[0].offset == 0
        with pytest.raises(RecordTooLargeError, match="limit of 1048588"):
            producer.send_arrow("u", row).result(60)


def test_a_producer_that_learns_of_more_partitions_learns_the_limit_as_well(log):
    """A record that is too large would fail later, with all that wait beside it."""
    admin = Admin(log)
    admin.create_topic("t")
    with Producer(log, linger_ms=60_000) as producer:
        producer.send("t", b"1", partition=0)
        admin.create_partitions({"t": 2})
        admin.alter_topic("t", config={"max.message.bytes": 10})
        producer.send("t", b"2", partition=1)
        refused = producer.send("t", bytes(11), partition=1)
        assert isinstance(refused.exception(0), RecordTooLargeError)
    assert read(log, partitions=2) == [b"1", b"2"]


HEADERS = [("name", b"v" * 500), ("näme", None)]
BYTES_OF_HEADERS = (4 + 4 + 4 + 500) + (4 + 5 + 4)


@pytest.mark.parametrize("limit", ["max.message.bytes", "max.request.size"])
@pytest.mark.parametrize("way", ["send", "send_arrow"])
def test_all_of_a_record_counts(log, limit, way):
    """Key, value and headers, however they come: to the byte the same for both calls."""
    size = 1 + 2 + BYTES_OF_HEADERS
    small = {limit: size - 1}
    Admin(log).create_topic("t", config=small if limit == "max.message.bytes" else {})
    Admin(log).create_topic("u", config={limit: size} if limit == "max.message.bytes" else {})

    def sent(producer, topic):
        if way == "send":
            return producer.send(topic, b"12", key=b"k", headers=HEADERS)
        named = [[{"key": key, "value": value} for key, value in HEADERS]]
        return producer.send_arrow(topic, pa.table({"key": [b"k"], "value": [b"12"], "headers": named}))

    with (
        Producer(log, small if limit == "max.request.size" else {}) as producer,
        pytest.raises(RecordTooLargeError, match=f"has {size} bytes.*max.request.size"),
    ):
        sent(producer, "t").result(60)
    with Producer(log, {limit: size} if limit == "max.request.size" else {}) as producer:
        sent(producer, "u").result(60)
    assert (read(log), read(log, "u")) == ([], [b"12"])


def test_large_headers_spoil_no_other_record(log):
    with Producer(log, max_request_size=500, linger_ms=60_000) as producer:
        first = producer.send("t", b"1")
        refused = producer.send("t", b"2", headers=HEADERS)
        last = producer.send("t", b"3", headers=[("k", b"v")])
        producer.flush()
        assert isinstance(refused.exception(), RecordTooLargeError)
        assert (first.result().offset, last.result().offset) == (0, 1)
    assert read(log) == [b"1", b"3"]


def test_headers_fill_the_buffer(log):
    """Those of a transaction wait in files once they outgrow ``buffer.memory``, as values do."""
    with Producer(log, {"transactional.id": "app", "buffer.memory": 10_000}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for _ in range(30):
            producer.send("t", b"v", headers=HEADERS)
        assert len(producer._transactions.pending.buffers["t"].listed) < 30
        producer.commit_transaction()
    assert len(read(log)) == 30


def test_rows_of_columns_have_the_limit_of_the_request(log):
    Admin(log).create_topic("t", schema=pa.schema([("a", pa.list_(pa.string()))]))
    with Producer(log, max_request_size=99) as producer:
        with pytest.raises(RecordTooLargeError, match=r"row 1 .* 104 bytes.*limit of 99"):
            producer.send_arrow("t", pa.table({"a": [["x"], ["y" * 100]]})).result(60)
        producer.send_arrow("t", pa.table({"a": [["x"], ["y" * 95]]})).result(60)


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
