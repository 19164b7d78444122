"""What a watch sees: rates between looks, topics, open transactions and what they hold back."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.monitoring import Watch
from spark_eos.monitoring.activity import WINDOW_S, open_transactions
from spark_eos.protocol.actions import CommitOffsets
from spark_eos.protocol.state import TransactionState
from spark_eos.protocol.types import PartitionOffset
from spark_eos.storage import MemoryStore
from tests.log.fakes import FakeClock
from verification.retiring import RETIRED_AT_ONCE


def commit_pending(log, transactional_id, group, topic):
    """An offset that is committed when the transaction is. The transaction begins with it if it has not yet."""
    producer = log.state.producer_of(transactional_id)
    stamp = producer.stamp
    if producer.transaction is not TransactionState.ONGOING:
        stamp = stamp._replace(number=stamp.number + 1)
    offset = PartitionOffset(topic, log.state.topics[topic].topic_id, 0, 0)
    log.commit(lambda _: (CommitOffsets(group, (offset,), stamp),))


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def log(clock):
    log = Log.create(MemoryStore(), clock, snapshot_interval=4, config=RETIRED_AT_ONCE)
    Admin(log).create_topic("t", 2)
    Admin(log).create_topic("u", 1)
    return log


def write(log, count, topic="t", partition=0):
    with Producer(log, {"linger.ms": 60_000}) as producer:
        for _ in range(count):
            producer.send(topic, b"x" * 100, partition=partition)


def began(log, name="x", topic="t", partition=0, timeout_ms=60_000):
    producer = Producer(log, {"transactional.id": name, "transaction.timeout.ms": timeout_ms})
    producer.init_transactions()
    producer.begin_transaction()
    if topic is not None:
        producer.send(topic, b"x", partition=partition)
        producer.flush()
    return producer


def test_the_first_look_has_no_rates(log):
    write(log, 3)
    look = Watch(log).look()
    assert (look.seq, look.log_id, look.window_s) == (log.state.seq, log.log_id, 0)
    assert (look.entries_per_s, look.records_per_s, look.bytes_per_s) == (None, None, None)
    assert {(topic.records_per_s, topic.bytes_per_s) for topic in look.topics} == {(None, None)}
    assert [(topic.name, topic.partitions, topic.offsets) for topic in look.topics] == [
        ("t", 2, 3),
        ("u", 1, 0),
    ]
    assert (look.lags, look.transactions) == ([], [])


def test_rates_are_of_what_was_written_between_looks(log, clock):
    write(log, 3)
    watch = Watch(log)
    before = watch.look()
    write(log, 6)
    write(log, 2, partition=1)
    write(log, 4, topic="u")
    clock.now += 2
    look = watch.look()
    assert (look.window_s, look.records_per_s) == (2, 6)
    assert look.entries_per_s == (look.seq - before.seq) / 2 > 0
    t, u = look.topics
    assert (t.records_per_s, u.records_per_s) == (4, 2)
    assert look.bytes_per_s == t.bytes_per_s + u.bytes_per_s > 600
    clock.now += 2
    assert watch.look().records_per_s == 3


def test_what_is_longer_ago_than_the_window_does_not_count(log, clock):
    watch = Watch(log)
    watch.look()
    write(log, 10)
    for _ in range(int(WINDOW_S) + 1):
        clock.now += 1
        look = watch.look()
    assert (look.records_per_s, look.entries_per_s) == (0, 0)
    assert look.window_s == pytest.approx(WINDOW_S)


def test_rates_count_records_and_not_control_batches(log, clock):
    watch = Watch(log)
    watch.look()
    producer = began(log)
    producer.commit_transaction()
    clock.now += 1
    assert watch.look().records_per_s == 1
    producer.close()


@pytest.mark.usefixtures("small_pages")
def test_what_was_sealed_between_two_looks_is_counted(log, clock):
    watch = Watch(log)
    watch.look()
    with Producer(log) as producer:
        for _ in range(24):
            producer.send("t", b"x", partition=0)
            producer.flush()
    assert log.state.partitions[log.state.topics["t"].topic_id, 0].index.pages
    clock.now += 1
    assert watch.look().records_per_s == 24


def test_topics_that_come_and_go(log, clock):
    watch = Watch(log)
    watch.look()
    write(log, 5, topic="u")
    clock.now += 1
    watch.look()
    Admin(log).delete_topic("u")
    Admin(log).create_topic("u", 1)
    Admin(log).create_topic("v", 1)
    write(log, 2, topic="v")
    clock.now += 1
    look = watch.look()
    assert [(topic.name, topic.records_per_s) for topic in look.topics] == [("t", 0), ("u", 0), ("v", 1)]


def test_one_poll_for_each_look(log, monkeypatch):
    watch = Watch(log)
    Admin(log).alter_group_offsets("g", {TopicPartition("t", 0): 0})
    watch.look()
    follow, polls = log.follow, []
    monkeypatch.setattr(log, "follow", lambda *given: polls.append(given) or follow(*given))
    watch.look()
    assert len(polls) == 1


def test_open_transactions_and_what_they_hold_back(log, clock):
    write(log, 2)
    first = began(log, "first", timeout_ms=900_000)
    clock.now += 5
    second = began(log, "second", timeout_ms=1000)
    second.send("t", b"y", partition=1)
    second.flush()
    commit_pending(log, "second", "readers", "u")
    write(log, 3)
    clock.now += 3
    one, two = open_transactions(log.follow(), clock.now_ms())
    assert (one.transactional_id, one.age_ms, one.is_overdue, one.held_back) == ("first", 8000, False, 5)
    assert one.partitions == (("t", 0, 2, 5),)
    assert (two.transactional_id, two.age_ms, two.timeout_ms, two.is_overdue) == ("second", 3000, 1000, True)
    # The first one holds back t-0, so the second one does only in t-1.
    assert two.partitions == (("t", 1, 0, 1), ("t", 0, 3, 0))
    assert (two.held_back, two.groups) == (1, ("readers",))
    look = Watch(log).look()
    assert [one.transactional_id for one in look.transactions] == ["first", "second"]
    assert [topic.held_back for topic in look.topics] == [6, 0]
    for producer in (first, second):
        producer.abort_transaction()
        producer.close()
    assert Watch(log).look().transactions == []


def test_a_transaction_without_records_and_one_whose_topic_is_gone(log, clock):
    offsets = began(log, "offsets", topic=None)
    commit_pending(log, "offsets", "g", "t")
    gone = began(log, "gone", topic="u")
    Admin(log).delete_topic("u")
    found = {one.transactional_id: one for one in open_transactions(log.follow(), clock.now_ms())}
    assert (found["offsets"].partitions, found["offsets"].groups) == ((), ("g",))
    assert (found["gone"].partitions, found["gone"].held_back) == ((), 0)
    for producer in (offsets, gone):
        producer.close()
