"""No committed transaction is split between tables of one publication with the same sequence."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from spark_eos import Admin, Log, Producer
from spark_eos.cli import main
from spark_eos.extensions.tables import contents
from spark_eos.extensions.tables.tables import Tables
from tests.extensions.tables.world import rows_of

DEEP = pytest.mark.deep


class World:
    """Topics ``orders`` and ``payments``, of two partitions each, that are published together."""

    def __init__(self, url):
        self.log = Log.open_or_create(str(url))
        admin = Admin(self.log)
        for topic in ("orders", "payments"):
            admin.create_topic(topic, 2)
        self.tables = Tables(self.log)
        self.tables.create("p", ["orders", "payments"])

    def producer(self, name):
        producer = Producer(self.log, transactional_id=name)
        producer.init_transactions()
        return producer

    def rows(self, sequence):
        """How many records of each transaction the tables have in the version together, by their values."""
        places = {one.topic: one.location for one in self.tables.list_tables()}
        found = Counter()
        for version in self.tables.versions("p"):
            if version.sequence == sequence:
                found.update(rows_of(places[version.topic], version.version)["value"].to_pylist())
        return dict(found)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "log")


def send(producer, value, *places):
    for topic, partition in places:
        producer.send(topic, value, partition=partition)
    producer.flush()


def test_a_version_ends_nowhere_before_the_start_of_the_log(world, monkeypatch):
    """Where nothing is known of transactions, it ends where the one before did: retention may have passed that."""
    world.tables.publish("p")
    with Producer(world.log) as producer:
        send(producer, b"x", *[("orders", 0)] * 5)
    Admin(world.log).delete_records({("orders", 0): 4})
    monkeypatch.setattr(contents, "whole_ends", lambda _log, _state, start: dict(start))
    state = world.log.follow()
    ends = contents.version_ends(world.log, state.publications["p"], state)
    assert ends[state.topics["orders"].topic_id, 0] == 4


def test_what_waits_in_one_table_waits_in_all(world, capsys):
    before = world.tables.publish("p")
    first, second = world.producer("a"), world.producer("b")
    first.begin_transaction()
    send(first, b"a", ("orders", 0))
    told = []
    publisher = world.tables.publisher("p", tell=told.append)
    assert not publisher.is_due()
    assert told == lag(world, capsys) == [], "no committed record is behind it"
    second.begin_transaction()
    send(second, b"b", ("orders", 0), ("payments", 0))
    second.commit_transaction()
    assert not publisher.is_due()
    wait = "committed records wait for the transaction of 'a' (producer id 0), which is open in orders-0"
    assert told == [wait]
    assert lag(world, capsys) == [f"p: {wait}"]
    for more in ([], ["--totals"]):
        assert {json.dumps(row["waits_for"]) for row in lag_rows(world, capsys, *more)} == {
            '[{"producer_id": 0, "transactional_id": "a", "partitions": ["orders-0"]}]'
        }
    assert publisher.publish().sequence == before.sequence, "nothing may be published that was not"
    with Producer(world.log) as alone:
        send(alone, b"c", ("payments", 1))
        send(alone, b"d", ("payments", 0))
    assert world.rows(publisher.publish().sequence) == {b"c": 1}
    first.commit_transaction()
    assert world.rows(publisher.publish().sequence) == {b"a": 1, b"b": 2, b"c": 1, b"d": 1}
    assert not publisher.is_due()
    assert lag(world, capsys) == []
    assert [row["waits_for"] for row in lag_rows(world, capsys, "--totals")] == [[]]


def lag_rows(world, capsys, *more):
    """The lines of ``eoslog lag --json``."""
    main(["lag", world.log.url, "--json", *more])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def lag(world, capsys):
    """What ``eoslog lag`` says below its table."""
    main(["lag", world.log.url])
    return [line for line in capsys.readouterr().out.splitlines() if ": " in line]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=DEEP), pytest.param(3, marks=DEEP)])
def test_no_version_has_a_part_of_a_transaction(world, seed):
    drawn = random.Random(seed)
    producers = {name: world.producer(name) for name in "abc"}
    places = [(topic, number) for topic in ("orders", "payments") for number in (0, 1)]
    opened, sizes, sequences = {}, Counter(), set()
    for number in range(40):
        name = drawn.choice("abc")
        if name not in opened:
            producers[name].begin_transaction()
            opened[name] = b"%d" % number
        some = drawn.sample(places, drawn.randint(1, 3))
        send(producers[name], opened[name], *some)
        sizes[opened[name]] += len(some)
        if drawn.random() < 0.6:
            producers[name].commit_transaction()
            del opened[name]
        if drawn.random() < 0.3:
            sequences.add(world.tables.publish("p").sequence)
    assert len(sequences) > 2
    for sequence in sorted(sequences):
        found = world.rows(sequence)
        assert found == {value: sizes[value] for value in found}
    for name in opened:
        producers[name].commit_transaction()
    assert world.rows(world.tables.publish("p").sequence) == sizes
