"""Transactional ids that the first view names, since producers of theirs were fenced lately."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Log, Producer
from spark_eos.storage import MemoryStore
from spark_eos.ui.areas import takeovers
from spark_eos.ui.follower import Follower
from verification.retiring import RETIRED_AT_ONCE


@pytest.fixture
def log():
    made = Log.create(MemoryStore(), snapshot_interval=20, config=RETIRED_AT_ONCE)
    Admin(made).create_topic("orders", 1)
    return made


def began(log, name, times):
    for _ in range(times):
        with Producer(log, {"transactional.id": name}) as producer:
            producer.init_transactions()


def found(log):
    return [(one["level"], one["name"]) for one in takeovers.taken_over(Follower(log.store))]


def test_ids_are_named_by_how_often_their_producers_were_fenced(log):
    for name, times in (("once", 1), ("twice", 2), ("often", 5)):
        began(log, name, times)
    assert found(log) == [("warn", "often"), ("note", "twice")]


def test_what_a_snapshot_knows_already_is_long_ago(log):
    began(log, "billing", 3)
    with Producer(log) as producer:
        for _ in range(50):
            producer.send("orders", b"x").get()
    assert log.store.size(f"_log/snapshots/{40:020d}.avro")
    assert found(log) == []
    began(log, "billing", 1)
    (one,) = takeovers.taken_over(Follower(log.store))
    assert "once since entry 40 (the epoch is 3 now)" in one["text"]


def test_a_query_that_was_started_again_is_as_it_should_be(log, monkeypatch):
    began(log, "copy", 2)
    follower = Follower(log.store)
    state = follower.state
    monkeypatch.setattr(type(follower), "state", property(lambda _: state._replace(queries={"copy": None})))
    assert takeovers.taken_over(follower) == []


def test_the_five_that_rose_most_are_named(log):
    for at in range(7):
        began(log, f"job-{at}", 2 + (at == 6))
    assert found(log) == [("warn", "job-6"), *(("note", f"job-{at}") for at in range(4))]
