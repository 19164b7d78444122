"""Troubles of an operator's afternoon: what is told, what is not, and that all views say the same."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.cli.operate.text import head_lines
from spark_eos.monitoring import lags_across
from spark_eos.monitoring.status import status_of
from spark_eos.storage import MemoryStore
from tests.log.fakes import FakeClock
from tests.monitoring.micro_batches import micro_batch

DAY_S = 86_400


@pytest.fixture
def clock():
    made = FakeClock()
    made.now = 1_800_000_000.0
    return made


@pytest.fixture
def log(clock):
    made = Log.create(MemoryStore(), clock).without_maintenance()
    Admin(made).create_topic("orders", 2)
    return made


def send(log, count=1, topic="orders"):
    with Producer(log, {"linger.ms": 60_000}) as producer:  # One batch.
        for _ in range(count):
            producer.send(topic, b"x", partition=0)


def troubles(log, clock):
    return [(one.level, one.name, one.about) for one in status_of(log.store, clock=clock).troubles]


def test_a_query_whose_topic_was_deleted(log, clock):
    send(log, 4)
    micro_batch(log, "orders", 4)
    assert troubles(log, clock) == []
    Admin(log).delete_topic("orders")
    assert troubles(log, clock) == [("note", "topic deleted", "copy")]
    Admin(log).create_topic("orders", 2)
    assert troubles(log, clock) == [("warning", "topic deleted", "copy")]
    (one,) = status_of(log.store, clock=clock).troubles
    assert "reads topic 'orders', which was deleted 0.0 s ago and created again" in one.text
    (row,) = lags_across([log])
    assert (row.name, row.topic, row.lags) == ("copy", "orders", ())
    assert row.problem.startswith("the topic was deleted and created again")
    clock.now += 8 * DAY_S
    Admin(log).create_topic("later")  # With it goes what the trail has from before.
    assert troubles(log, clock) == []


def test_unread_records_without_an_age_are_not_caught_up(log, clock):
    """The clock of this machine is behind those of the producers."""
    send(log, 5)
    Admin(log).alter_group_offsets("g", {TopicPartition("orders", 0): 2})
    clock.now -= 20
    activity = status_of(log.store, clock=clock).activity
    assert head_lines(activity)[2].startswith("1 reader, 3 records behind;")
    Admin(log).alter_group_offsets("g", {TopicPartition("orders", 0): 5})
    assert head_lines(status_of(log.store, clock=clock).activity)[2].startswith("1 reader, all caught up;")
