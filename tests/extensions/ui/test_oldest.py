"""Records of all partitions from a place on, the oldest first: in which order, in pages, and how little is read."""

from __future__ import annotations

from itertools import count

import pytest

from spark_eos import Admin, Log, Producer
from spark_eos.storage import MemoryStore
from tests.extensions.ui.asking import Asking
from tests.extensions.ui.test_newest import placed, write

START = {"from": "start"}


@pytest.fixture
def log():
    made = Log.create(MemoryStore())
    Admin(made).create_topic("t", 3)
    return made


def pages(ask, **fields):
    """All of them, to the end."""
    after = {}
    for _ in range(30):
        answer = ask("records", topic="t", **fields, **after)
        yield answer
        if answer["done"]:
            return
        after = {"after": answer["next"]}
    raise AssertionError("the pages do not end")


def all_of(ask, **fields):
    return [one for page in pages(ask, **fields) for one in placed(page)]


def test_all_partitions_by_time_then_partition_and_offset(log):
    write(log, (0, 1000), (1, 2000), (2, 3000), (0, 4000), (2, 4000), (2, 4000))
    in_order = [(0, 0, 1000), (1, 0, 2000), (2, 0, 3000), (0, 1, 4000), (2, 1, 4000), (2, 2, 4000)]
    ask = Asking(log)
    for size in (1, 2, 4, 50):
        assert all_of(ask, **START, count=size) == in_order
    assert all_of(ask, **START, partition=2, count=2) == [one for one in in_order if one[0] == 2]


@pytest.mark.parametrize("size", [1, 50])
def test_from_an_offset_in_each_partition(log, size):
    write(log, (0, 1000), (1, 2000), (0, 3000), (1, 4000), (0, 5000))
    found = all_of(Asking(log), **{"from": "offset"}, offset=1, count=size)
    assert found == [(0, 1, 3000), (1, 1, 4000), (0, 2, 5000)]


@pytest.mark.parametrize("size", [1, 2, 50])
def test_from_a_time_in_each_partition(log, size):
    """From its first record that is not older on, as Kafka's offsetsForTimes: later ones may be older."""
    with Producer(log) as producer:
        for time_ms in (1000, 3000, 2000, 5000):
            producer.send("t", b"x", partition=0, timestamp_ms=time_ms)
    write(log, (1, 1000), (1, 4000), (1, 500), (2, 2000))
    ask = Asking(log)
    found = all_of(ask, **{"from": "time"}, time="2500", count=size)
    assert found == [(0, 1, 3000), (0, 2, 2000), (1, 1, 4000), (1, 2, 500), (0, 3, 5000)]
    assert all_of(ask, **{"from": "time"}, time="5001", count=size) == []
    assert "is not a time" in ask("records", topic="t", **{"from": "time"}, time="soon")["error"]


def test_a_filter_and_a_time(log):
    """A batch that the filter leaves out may be the one in which the time is reached."""
    write(log, (0, 1000), (0, 3000), (0, 2000), (0, 4000))
    ask = Asking(log)
    found = all_of(ask, **{"from": "time"}, time="2500", filter="offset >= 2", count=1)
    assert found == [(0, 2, 2000), (0, 3, 4000)]


def test_what_is_written_meanwhile_comes_at_the_end(log):
    write(log, (0, 1000), (1, 2000))
    ask = Asking(log)
    first = ask("records", topic="t", **START, count=1)
    write(log, (2, 1500), (0, 3000))
    rest = ask("records", topic="t", **START, after=first["next"])
    assert placed(rest) == [(2, 0, 1500), (1, 0, 2000), (0, 1, 3000)]
    assert rest["done"]


def test_no_more_is_read_than_is_shown(log):
    times = count(1000)
    write(log, *[(number % 3, next(times)) for number in range(60)])
    ask = Asking(log)
    before = ask.follower.store.requests
    for place in (START, {"from": "time", "time": "1030"}):
        answer = ask("records", topic="t", **place, count=3)
        assert (len(answer["rows"]), answer["searched"]) == (3, 3)
    assert ask.follower.store.requests["read"] - before["read"] <= 6 + 2  # And one for each poll.


def test_a_search_that_is_too_long_says_where_to_go_on(log, monkeypatch):
    monkeypatch.setattr("spark_eos.extensions.ui.reading.wanted.MOST_BATCHES", 2)
    write(log, *[(number % 3, 1000 + number) for number in range(9)])
    ask = Asking(log)
    found = list(pages(ask, **START, search="of 1007"))
    assert [placed(one) for one in found if one["rows"]] == [[(1, 2, 1007)]]
    assert {one["searched"] for one in found[:-1]} == {2}
    assert sum(one["looked_at"] for one in found) == 9


def test_too_many_partitions_are_refused(log):
    Admin(log).create_topic("wide", 201)
    ask = Asking(log)
    error = ask("records", topic="wide", **START)["error"]
    assert "topic 'wide' has 201 partitions" in error
    assert "choose a partition" in error
    assert ask("records", topic="wide", **START, partition=200)["done"]
