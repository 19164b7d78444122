"""Transactional ids that the first view names, since producers of theirs were fenced lately with something open."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Log, Producer
from spark_eos.storage import MemoryStore
from spark_eos.ui.areas import takeovers
from spark_eos.ui.follower import Follower


@pytest.fixture
def log():
    made = Log.create(MemoryStore(), snapshot_interval=20)
    made.does_maintenance = False
    Admin(made).create_topic("orders", 1)
    return made


def began(log, name, times):
    """Each takes over from the one before, which has a transaction open."""
    for _ in range(times):
        producer = Producer(log, {"transactional.id": name})
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"x")
        producer.flush()


def found(follower):
    return [(one["level"], one["name"]) for one in takeovers.taken_over(follower)]


def test_ids_are_named_by_how_often_their_producers_were_fenced(log):
    for name, times in (("once", 1), ("twice", 2), ("often", 5)):
        began(log, name, times)
    assert found(Follower(log.store)) == [("warn", "often"), ("note", "twice")]


def test_programs_that_end_and_are_started_again_are_not_named(log):
    """As cron does; so are queries."""
    follower = Follower(log.store)
    for _ in range(4):
        with Producer(log, {"transactional.id": "nightly"}) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("orders", b"x")
            producer.commit_transaction()
        follower.log.follow()
        assert found(follower) == []


def test_what_a_snapshot_knows_already_is_long_ago(log):
    began(log, "billing", 3)
    with Producer(log) as producer:
        for _ in range(20):
            producer.send("orders", b"x").get()
    assert log.maintenance.snapshot() == 20
    follower = Follower(log.store)
    assert found(follower) == []
    began(log, "billing", 1)
    follower.log.follow()
    (one,) = takeovers.taken_over(follower)
    assert "once with a transaction open, the last time in entry" in one["text"]
    assert "(the epoch is 3 now)" in one["text"]
    began(log, "billing", 1)
    follower.log.follow()
    assert found(follower) == found(follower) == [("warn", "billing")]


def test_the_page_tells_it_for_ten_minutes(log, monkeypatch):
    began(log, "billing", 2)
    follower = Follower(log.store)
    assert found(follower) == [("note", "billing")]
    state = follower.state
    later = state._replace(timestamp_ms=state.timestamp_ms + 600_001)
    monkeypatch.setattr(type(follower), "state", property(lambda _: later))
    assert found(follower) == []


def test_entries_are_read_only_if_a_producer_was_fenced(log, monkeypatch):
    began(log, "billing", 2)
    follower = Follower(log.store)
    assert found(follower) == [("note", "billing")]
    with Producer(log) as producer:
        producer.send("orders", b"x").get()
    follower.log.follow()
    monkeypatch.setattr(takeovers, "replay", lambda *_: pytest.fail("it was read"))
    assert found(follower) == [("note", "billing")]


def test_the_five_that_were_fenced_most_are_named(log):
    for at in range(7):
        began(log, f"job-{at}", 2 + (at == 6))
    assert found(Follower(log.store)) == [("warn", "job-6"), *(("note", f"job-{at}") for at in range(4))]
