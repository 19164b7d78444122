"""Producers by transactional id, and which process fenced the earlier ones."""

from __future__ import annotations

from contextlib import suppress

import pytest

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.errors import ProducerFencedError
from spark_eos.extensions.ui.areas import audit, producers
from spark_eos.extensions.ui.areas.aborts import abort
from spark_eos.extensions.ui.areas.transactions import open_transactions
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Question
from spark_eos.protocol.actions import ExpireTransaction
from spark_eos.storage import MemoryStore
from tests.log.fakes import FakeClock, Waiting


@pytest.fixture
def log():
    made = Log.create(MemoryStore())
    Admin(made).create_topic("orders", 1)
    return made


@pytest.fixture
def follower(log):
    return Follower(log.store, clock=Waiting())


def took(log, name, client):
    """A program that takes a transactional id."""
    producer = Producer(log, {"transactional.id": name, "client.id": client})
    producer.init_transactions()
    return producer


def later(log):
    """The next entry has another time than the newest one."""
    while log.clock.now_ms() <= log.follow().timestamp_ms:
        pass


def asked(follower, area, **fields):
    follower.poll()
    return area(follower, Question(fields))


def test_who_has_replaced_a_producer(log, follower):
    first, second = took(log, "billing", "old host"), took(log, "billing", "new host")
    took(log, "other", "another")
    (billing,) = asked(follower, producers.producers, filter="BILL")["rows"]
    assert (billing["epoch"], billing["number"], billing["state"]) == (1, -1, "Empty")
    assert [(one["what"], one["writer"]) for one in billing["fencings"]] == [
        ("producer taken over", "new host")
    ]
    assert asked(follower, producers.producers, filter="other")["rows"][0]["fencings"] == []
    (event,) = asked(follower, audit.audit, filter="NEW host")["rows"]
    assert event == billing["fencings"][0]
    assert asked(follower, audit.audit, filter="billing")["total"] == 1
    first.close(0)
    second.close(0)


def test_aborts_and_timeouts_fence_too(log, follower):
    producer = took(log, "stuck", "a host")
    producer.begin_transaction()
    producer.send("orders", b"x")
    producer.flush()
    (one,) = asked(follower, open_transactions)["rows"]
    abort(follower, Question({name: one[name] for name in ("id", "producer", "epoch", "number")}))
    second = took(log, "stuck", "again")
    second.begin_transaction()
    second.send("orders", b"x")
    second.flush()
    stamp = log.follow().producer_of("stuck").stamp
    waited = log.state.producer_of("stuck").timeout_ms
    log.commit(lambda _: (ExpireTransaction(stamp, waited),), writer="a reader")
    (row,) = asked(follower, producers.producers)["rows"]
    assert [(one["what"], one["writer"]) for one in row["fencings"]] == [
        ("transaction timed out", "a reader"),
        ("producer taken over", "again"),
        ("producer fenced", "ui"),
    ]
    for one in (producer, second):
        with suppress(ProducerFencedError):
            one.close(0)


def test_the_newest_ten_of_a_producer_are_shown(log, follower):
    for number in range(12):
        took(log, "billing", f"host {number}").close(0)
    (row,) = asked(follower, producers.producers)["rows"]
    assert [one["writer"] for one in row["fencings"]] == [f"host {number}" for number in range(11, 1, -1)]


def test_many_producers_are_paged_and_sorted(log, follower):
    for number in range(3):
        for _ in range(number + 1):
            took(log, f"p{number}", "host").close(0)
        later(log)
    took(log, "p0", "host").close(0)
    for sort, names in (("last", "p0 p2 p1"), ("name", "p0 p1 p2"), ("epoch", "p2 p0 p1")):
        rows = asked(follower, producers.producers, sort=sort)["rows"]
        assert " ".join(one["id"] for one in rows) == names, sort
    answer = asked(follower, producers.producers, sort="name", first=2, count=1)
    assert ([one["id"] for one in answer["rows"]], answer["total"]) == (["p2"], 3)


def test_open_transactions_and_what_each_holds_back():
    clock = FakeClock()
    log = Log.create(MemoryStore(), clock)
    Admin(log).create_topic("orders", 2)
    settings = {"transaction.timeout.ms": 60_000, "transaction.two.phase.commit.enable": True}
    made = [Producer(log, {"transactional.id": name, **settings}) for name in ("b", "c", "a")]
    for producer in reversed(made):
        producer.init_transactions()
    for producer, partitions in zip(made, ((0,), (0, 1), (1,)), strict=True):
        producer.begin_transaction()
        for partition in partitions:
            producer.send("orders", b"x", partition=partition)
        producer.send_offsets_to_transaction({TopicPartition("orders", 0): 0}, "readers")
        producer.flush()
        clock.now += 10
    made[1].prepare_transaction()
    clock.now += 45
    rows = asked(Follower(log.store, clock=clock), open_transactions)["rows"]
    assert [(row["id"], row["age_ms"], row["held"]) for row in rows] == [
        *(("b", 75_000, 2), ("c", 65_000, 2), ("a", 55_000, 0))
    ]
    assert [row["overdue"] for row in rows] == [True, False, False], "one that is prepared has no timeout"
    assert [(place["partition"], place["first"], place["held"]) for place in rows[1]["places"]] == [
        *((1, 0, 2), (0, 1, 0))
    ]
    assert [row["groups"] for row in rows] == [["readers"]] * 3
    for producer in made:
        producer.close(0)
