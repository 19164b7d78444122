"""The calls of a producer that users of kafka-python and confluent-kafka know: callbacks, flush and close, metrics."""

from __future__ import annotations

import threading
from itertools import count

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition, read_arrow
from spark_eos.errors import (
    IllegalStateError,
    KafkaTimeoutError,
    RecordTooLargeError,
    StoreUnavailableError,
    UnknownTopicOrPartitionError,
)
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import FaultyStore
from tests.log.fakes import FakeClock

NUMBERS = count()
T0 = TopicPartition("t", 0)


@pytest.fixture
def url():
    return f"memory://producer-calls-{next(NUMBERS)}"


class Held:
    """A log whose creates wait until `go`."""

    def __init__(self):
        self.gate, self.asked = threading.Event(), threading.Event()
        self.gate.set()
        held = self

        class Store(MemoryStore):
            def create(self, name, data):
                held.asked.set()
                assert held.gate.wait(30)
                return super().create(name, data)

        self.log = Log.create(Store())
        Admin(self.log).create_topic("t")

    def hold(self):
        self.gate.clear()
        self.asked.clear()

    def values(self):
        with Consumer(self.log, auto_offset_reset="earliest") as consumer:
            consumer.assign([T0])
            return [record.value for record in consumer.poll()]


@pytest.fixture
def held():
    made = Held()
    yield made
    made.gate.set()


# -- Futures -------------------------------------------------------------------------------------------------


def test_callbacks_of_a_record(url):
    seen = []
    with Producer(url) as producer:
        future = producer.send("t", b"x")
        same = future.add_callback(seen.append).add_errback(lambda error: seen.append(("error", error)))
        assert same is future
        future.add_callback(lambda *args, **kwargs: seen.append((args, kwargs)), 1, two=2)
        producer.flush()
        sent = future.get(timeout=60)
        assert (sent.offset, sent.topic_partition, sent.timestamp) == (0, T0, sent.timestamp_ms)
        future.add_callback(lambda _metadata: seen.append("now"))
    assert seen == [sent, ((1, sent), {"two": 2}), "now"]
    assert (future.is_done, future.succeeded(), future.failed(), future.retriable()) == (
        True,
        True,
        False,
        False,
    )


def test_errbacks_of_a_record(url):
    seen = []
    with Producer(url, max_request_size=10) as producer:
        future = producer.send("t", b"x" * 11, on_delivery=lambda *told: seen.append(told))
        future.add_callback(lambda sent: seen.append(("sent", sent))).add_errback(seen.append)
        future.add_both(seen.append)
        with pytest.raises(RecordTooLargeError):
            future.get()
    error = future.exception()
    assert seen == [(error, None), error, error]
    assert (future.is_done, future.succeeded(), future.failed(), future.retriable()) == (
        True,
        False,
        True,
        False,
    )


def test_a_callback_that_fails_harms_nothing(url, caplog):
    with Producer(url) as producer:
        first = producer.send("t", b"1").add_callback(lambda _sent: 1 / 0)
        second = producer.send("t", b"2")
        assert (first.get(60).offset, second.get(60).offset) == (0, 1)
    assert "ZeroDivisionError" in caplog.text


def test_on_delivery(url):
    seen = []
    with Producer(url) as producer:
        producer.send("t", b"x", on_delivery=lambda error, sent: seen.append((error, sent.offset)))
    assert seen == [(None, 0)]


def test_a_retriable_error():
    store = FaultyStore(MemoryStore())
    log = Log.create(store, FakeClock(), Retry(deadline_s=0))
    Admin(log).create_topic("t")
    producer = Producer(log, delivery_timeout_ms=1000, retries=1)
    store.inject(StoreUnavailableError("busy"), times=None)
    future = producer.send("t", b"x")
    producer.flush()
    assert future.retriable()


def test_get_in_a_transaction_does_not_wait_in_vain(url):
    with Producer(url, transactional_id="a") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        future = producer.send("t", b"x")
        with pytest.raises(IllegalStateError, match="after commit_transaction or flush"):
            future.get()
        with pytest.raises(KafkaTimeoutError):
            future.get(timeout=0.01)
        producer.commit_transaction()
        assert future.get().offset == 0


# -- Flush and close -----------------------------------------------------------------------------------------


def test_flush_waits_no_longer_than_asked(held):
    with Producer(held.log, linger_ms=0) as producer:
        producer.send("t", b"0").get()
        held.hold()
        future = producer.send("t", b"1")
        with pytest.raises(KafkaTimeoutError, match="flush was not done after"):
            producer.flush(timeout=0.05)
        assert not future.done()
        held.gate.set()
        producer.flush(timeout=30)
        assert future.done()
    assert held.values() == [b"0", b"1"]


def test_flush_in_a_transaction_waits_no_longer_than_asked(held):
    with Producer(held.log, transactional_id="a") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        future = producer.send("t", b"1")
        held.hold()
        with pytest.raises(KafkaTimeoutError):
            producer.flush(timeout=0.05)
        held.gate.set()
        producer.commit_transaction()  # Waits for the flush.
        assert future.result().offset == 0
    assert held.values() == [b"1"]


def test_a_producer_without_records_is_flushed_and_closed_at_once(url):
    producer = Producer(url)
    producer.flush(timeout=0)
    producer.close(timeout=0)
    with pytest.raises(IllegalStateError):
        producer.send("t", b"x")


def test_close_waits_no_longer_than_asked(held):
    producer = Producer(held.log, linger_ms=0)
    producer.send("t", b"0").get()
    held.hold()
    under_way = producer.send("t", b"1")
    assert held.asked.wait(30)
    waits = producer.send("t", b"2")
    producer.close(timeout=0.05)
    assert not under_way.done()
    with pytest.raises(IllegalStateError):
        producer.send("t", b"3")
    held.gate.set()
    assert under_way.get(30).offset == 1
    with pytest.raises(KafkaTimeoutError, match="closed before"):
        waits.get(30)
    assert held.values() == [b"0", b"1"]


def test_rows_that_name_partition_0_beside_rows_that_name_none(url):
    Admin(url).create_topic("t", 3)
    keys = [b"%d" % number for number in range(20)]
    named = pa.array([0] * 10 + [None] * 10, pa.int32())
    with Producer(url) as producer:
        producer.send_arrow("t", pa.table({"key": keys, "value": keys, "partition": named}))
    rows = read_arrow(url, "t").read_all().to_pylist()
    assert {row["key"] for row in rows if row["partition"] == 0} >= {*keys[:10]}
    assert {row["partition"] for row in rows} == {0, 1, 2}


def test_the_column_partition_of_rows_is_the_topic_s_own_where_it_has_one(url):
    for topic, names in (("plain", ["n"]), ("own", ["n", "partition"])):
        Admin(url).create_topic(topic, 3, schema=pa.schema([(name, pa.int32()) for name in names]))
        with Producer(url) as producer:
            rows = pa.table({name: pa.array([2] * 3, pa.int32()) for name in ("n", "partition")})
            producer.send_arrow(topic, rows)
        assert read_arrow(url, topic).read_all().select(names).to_pylist() == [dict.fromkeys(names, 2)] * 3
    assert [partition.end for partition in Admin(url).describe_topic("plain").partitions] == [0, 0, 3]


# -- What it knows -------------------------------------------------------------------------------------------


def test_partitions_for(url):
    Admin(url).create_topic("t", 3)
    with Producer(url, num_partitions=2) as producer:
        assert producer.partitions_for("t") == {0, 1, 2}
        assert producer.partitions_for("new") == {0, 1}
        Admin(url).alter_topic("t", partitions=4)
        assert producer.partitions_for("t") == {0, 1, 2, 3}
        Admin(Log.open(url)).alter_topic("t", partitions=5)  # As another process does.
        assert producer.partitions_for("t") == {0, 1, 2, 3, 4}
    with (
        Producer(url, auto_create_topics_enable=False) as producer,
        pytest.raises(UnknownTopicOrPartitionError),
    ):
        producer.partitions_for("missing")


def test_metrics_of_records():
    clock = FakeClock()
    log = Log.create(MemoryStore(), clock)
    with Producer(log, max_request_size=100, buffer_memory=100_000, linger_ms=60_000) as producer:
        for value in (b"1", b"2", b"3"):
            producer.send("t", value)
        waiting = producer.metrics()["producer-metrics"]
        assert (waiting["record-send-total"], waiting["buffer-total-bytes"]) == (0, 100_000)
        assert waiting["buffer-available-bytes"] == 100_000 - 3 * 65
        producer.send("u", b"1")
        producer.flush()
        shown = producer.metrics()
        figures = shown["producer-metrics"]
        assert figures["record-send-total"] == 4
        assert figures["record-send-rate"] == pytest.approx(4 / 30, rel=0.2)
        assert (figures["request-total"], figures["records-per-request-avg"]) == (1, 4)
        assert figures["buffer-available-bytes"] == 100_000
        assert figures["byte-total"] > 0
        assert shown["producer-topic-metrics.t"]["record-send-total"] == 3
        assert shown["producer-topic-metrics.u"]["record-send-total"] == 1
        clock.now += 100
        later = producer.metrics()["producer-metrics"]
        assert (later["record-send-total"], later["record-send-rate"]) == (4, 0)


def test_metrics_of_transactions():
    log = Log.create(MemoryStore())
    with Producer(log, transactional_id="a") as producer:
        producer.init_transactions()
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            producer.send("t", b"1")
            producer.flush()
            producer.send("t", b"2")
            end()
        figures = producer.metrics()["producer-metrics"]
        assert (figures["record-send-total"], figures["record-error-total"]) == (3, 1)
        for call in ("flush", "txn-init", "txn-begin", "txn-commit", "txn-abort"):
            assert figures[f"{call}-time-ns-total"] > 0
        assert figures["txn-send-offsets-time-ns-total"] == 0
