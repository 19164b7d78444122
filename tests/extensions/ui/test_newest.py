"""The newest records of all partitions: in which order, in pages, and how little is read for them."""

from __future__ import annotations

from itertools import count

import pytest

from spark_eos import Admin, Log, Producer
from spark_eos.extensions.ui.reading import newest
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.storage import MemoryStore
from tests.extensions.ui.asking import Asking


@pytest.fixture
def log():
    made = Log.create(MemoryStore())
    Admin(made).create_topic("t", 3)
    return made


def write(log, *records, **config):
    """Each (partition, timestamp) as a batch of its own."""
    with Producer(log, config) as producer:
        for partition, time_ms in records:
            producer.send("t", b"value of %d" % time_ms, partition=partition, timestamp_ms=time_ms)
            producer.flush()


def placed(answer):
    return [(row["partition"], row["offset"], row["time"]) for row in answer["rows"]]


def pages(ask, **fields):
    """All of them, to the end."""
    answer = ask("records", topic="t", **fields)
    yield answer
    for _ in range(10):
        if answer["done"]:
            return
        answer = ask("records", topic="t", before=answer["next"], **fields)
        yield answer
    raise AssertionError("the pages do not end")


def test_all_partitions_by_time_then_partition_and_offset(log):
    write(log, (0, 1000), (1, 2000), (2, 3000), (0, 4000), (2, 4000), (2, 4000))
    in_order = [(2, 2, 4000), (2, 1, 4000), (0, 1, 4000), (2, 0, 3000), (1, 0, 2000), (0, 0, 1000)]
    ask = Asking(log)
    assert placed(ask("records", topic="t")) == in_order
    assert placed(ask("records", topic="t", partition=0)) == [(0, 1, 4000), (0, 0, 1000)]
    for size in (1, 2, 4):
        assert [one for page in pages(ask, count=size) for one in placed(page)] == in_order
    assert ask("records", topic="t", key="k")["rows"] == [], "no record has a key"


def test_offsets_fall_where_timestamps_do_not(log):
    write(log, (0, 5000), (0, 1000), (1, 3000), (0, 2000))
    found = [one for page in pages(Asking(log), count=1) for one in placed(page)]
    assert found == [(1, 0, 3000), (0, 2, 2000), (0, 1, 1000), (0, 0, 5000)]


@pytest.mark.parametrize("named", [1000, 1])
def test_what_is_written_meanwhile_is_not_among_the_older_ones(log, monkeypatch, named):
    monkeypatch.setattr(newest, "_NAMED", named)
    write(log, (0, 1000), (1, 2000), (1, 3000))
    ask = Asking(log)
    first = ask("records", topic="t", count=1)
    write(log, (1, 4000))
    older = ask("records", topic="t", before=first["next"])
    assert placed(older) == [(1, 0, 2000), (0, 0, 1000)]
    assert placed(ask("records", topic="t", count=1)) == [(1, 2, 4000)]


def test_only_what_is_new_since_an_answer(log):
    """And it is looked for in the new batches alone."""
    write(log, (0, 1000), (1, 2000))
    ask = Asking(log)
    known = ask("records", topic="t", search="of")["ends"]
    assert ask("records", topic="t", after=known, search="of")["looked_at"] == 0
    assert ask("records", topic="t", after=[[0, 9]])["done"], "the log was put back since"
    write(log, (2, 3000), (0, 4000), (0, 5000))
    answer = ask("records", topic="t", after=known, search="of", count=2)
    assert placed(answer) == [(0, 2, 5000), (0, 1, 4000)]
    assert not answer["done"]
    older = ask("records", topic="t", before=answer["next"])
    assert placed(older) == [(2, 0, 3000), (1, 0, 2000), (0, 0, 1000)]


def test_no_more_is_read_than_is_shown(log):
    """However long the history is: a page of three records takes three batches, and nothing for the partitions."""
    times = count(1000)
    write(log, *[(number % 3, next(times)) for number in range(60)])
    ask = Asking(log)
    before = ask.follower.store.requests
    answer = ask("records", topic="t", count=3)
    assert (len(answer["rows"]), answer["searched"]) == (3, 3)
    assert ask.follower.store.requests["read"] - before["read"] <= 3 + 1  # And one for the poll.
    assert ask("records", topic="t", count=3)["rows"] == answer["rows"]


def test_committed_records_unless_others_are_asked_for(log):
    write(log, (0, 1000))
    with Producer(log, {"transactional.id": "x"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"open", partition=0, timestamp_ms=2000)
        producer.flush()
        ask = Asking(log)
        assert placed(ask("records", topic="t")) == [(0, 0, 1000)]
        assert placed(ask("records", topic="t", isolation="uncommitted")) == [(0, 1, 2000), (0, 0, 1000)]
        producer.abort_transaction()
    write(log, (0, 3000))
    assert [one[2] for one in placed(ask("records", topic="t"))] == [3000, 1000]


def test_records_of_a_compacted_topic():
    """Its batches have gaps: they are read in the parts that are asked for."""
    log = Log.create(MemoryStore())
    Admin(log).create_topic("t", 1, config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0})
    with Producer(log) as producer:
        for number in range(8):
            producer.send("t", b"x", key=b"k%d" % (number % 5), timestamp_ms=number)
            producer.flush()
    list(Maintainer(log, only=["roll", "compact"], tail_rows=1).run())
    ask = Asking(log)
    assert placed(ask("records", topic="t")) == [(0, offset, offset) for offset in (7, 6, 5, 4, 3)]
    assert placed(ask("records", topic="t", **{"from": "offset"}, offset=5)) == [
        (0, 5, 5),
        (0, 6, 6),
        (0, 7, 7),
    ]
    assert ask("record", topic="t", partition=0, offset=6)["row"]["time"] == 6


def test_a_search_says_how_many_records_it_looked_at(log):
    write(log, *[(number % 3, 1000 + number) for number in range(12)])
    answer = Asking(log)("records", topic="t", search="of 1004")
    assert (placed(answer), answer["looked_at"], answer["done"]) == ([(1, 1, 1004)], 12, True)


@pytest.mark.parametrize("before", [[[0, -1]], [[0]], {"0": 1}, [[0, True]], [[0, 1]] * 3001])
def test_places_that_are_none(log, before):
    assert "'before' must be a list" in Asking(log)("records", topic="t", before=before)["error"]
    assert Asking(log)("records", topic="t", before=[[7, 2**61]])["rows"] == []


def test_ten_thousand_partitions_do_not_fill_an_answer(log):
    Admin(log).create_topic("wide", 10_000)
    with Producer(log) as producer:
        for number in range(5):
            producer.send("wide", b"x", partition=number * 1000, timestamp_ms=1000 + number)
    answer = Asking(log)("records", topic="wide", count=2)
    assert [row["partition"] for row in answer["rows"]] == [4000, 3000]
    assert len(answer["next"]) < 10
    assert answer["ends"] is None
