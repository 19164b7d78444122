"""With ``auto.offset.reset=latest``: what came after the consumer, or its group, began to read is read."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.log.clock import SYSTEM
from spark_eos.log.log import Log
from spark_eos.storage.memory import MemoryStore


class Ticking(type(SYSTEM)):
    """Each look at the time is a millisecond later than the last one."""

    def __init__(self):
        self.ms = SYSTEM.now_ms()

    def now_ms(self):
        self.ms += 1
        return self.ms

    def now_ns(self):
        return self.now_ms() * 1_000_000


@pytest.fixture
def log():
    log = Log.create(MemoryStore(), clock=Ticking())
    log.ensure_topic("t")
    send(log, "t", 0, b"history")
    return log


def send(log, topic, partition, *values, **more):
    with Producer(log) as producer:
        for value in values:
            producer.send(topic, value, partition=partition, **more)


def values(records):
    return sorted(record.value for record in records)


def member(log, topics=("t",), **settings):
    consumer = Consumer(log, {"group.id": "g", **settings})
    consumer.subscribe(topics)
    return consumer


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_partition_that_a_subscribed_topic_gets_is_read_from_its_start(log, isolation):
    with member(log, **{"isolation.level": isolation}) as consumer:
        assert values(consumer.poll()) == []
        Admin(log).create_partitions({"t": 2})
        send(log, "t", 1, b"one", b"two")
        assert values(consumer.poll()) == [b"one", b"two"]


@pytest.mark.parametrize("topics", [["^n.*"], ["t", "new"]], ids=["by its pattern", "by its name"])
def test_a_topic_that_comes_later_is_read_from_its_start(log, topics):
    with member(log, topics) as consumer:
        assert values(consumer.poll()) == []
        send(log, "new", 0, b"one", b"two")
        assert values(consumer.poll()) == [b"one", b"two"]


def test_a_topic_that_is_created_again_is_read_from_its_start(log):
    with member(log) as consumer:
        consumer.poll()
        Admin(log).delete_topic("t")
        send(log, "t", 0, b"of the new one")
        assert values(consumer.poll()) == [b"of the new one"]


def test_partitions_that_are_assigned_by_hand(log):
    with Consumer(log) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert values(consumer.poll()) == []
        Admin(log).create_partitions({"t": 2})
        send(log, "t", 1, b"new")
        consumer.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
        assert values(consumer.poll()) == [b"new"]


def test_what_was_there_before_is_read_from_its_end(log):
    """Also in a partition that the consumer gets later on."""
    Admin(log).create_partitions({"t": 2})
    send(log, "t", 1, b"old")
    with Consumer(log) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        consumer.poll()
        consumer.assign([TopicPartition("t", 1)])
        assert values(consumer.poll()) == []
        send(log, "t", 1, b"new")
        assert values(consumer.poll()) == [b"new"]


# -- What the group's commits tell of its beginning ---------------------------------------------------------


@pytest.mark.parametrize("topics", [["t"], ["^.*"]])
def test_a_partition_that_came_while_no_member_ran(log, topics):
    with member(log, topics) as consumer:
        consumer.poll()
    Admin(log).create_partitions({"t": 2})
    send(log, "t", 1, b"new")
    with member(log, topics) as consumer:
        assert values(consumer.poll()) == [b"new"]


def test_a_topic_that_came_to_a_pattern_while_no_member_ran(log):
    with member(log, ["^.*"]) as consumer:
        consumer.poll()
    send(log, "new", 0, b"one", b"two")
    with member(log, ["^.*"]) as consumer:
        assert values(consumer.poll()) == [b"one", b"two"]


def test_a_partition_that_the_group_never_committed_is_read_since_the_group_began(log):
    Admin(log).create_partitions({"t": 2})
    send(log, "t", 1, b"history")
    with member(log, **{"enable.auto.commit": False}) as consumer:
        consumer.poll()
        send(log, "t", 0, b"processed")
        consumer.poll()
        consumer.commit({TopicPartition("t", 0): 2})
    send(log, "t", 1, b"new")
    with member(log) as consumer:
        assert values(consumer.poll()) == [b"new"]


def test_the_oldest_commit_tells_when_the_group_began(log):
    admin = Admin(log)
    admin.create_partitions({"t": 2})
    admin.alter_group_offsets("g", {TopicPartition("t", 0): 1})
    admin.create_partitions({"t": 3})
    send(log, "t", 2, b"new")
    admin.alter_group_offsets("g", {TopicPartition("t", 1): 0})
    with member(log) as consumer:
        assert values(consumer.poll()) == [b"new"]


def test_a_topic_that_the_group_never_read_is_read_from_its_end(log):
    with member(log) as consumer:
        consumer.poll()
    send(log, "other", 0, b"old")
    with member(log, ["other"]) as consumer:
        assert values(consumer.poll()) == []


def test_a_group_that_begins_is_at_the_end(log):
    send(log, "t", 0, b"more")
    with member(log) as consumer:
        assert values(consumer.poll()) == []
