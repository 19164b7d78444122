"""``whole_transactions``: as of one entry, all that is read has all of a committed transaction, or none of it."""

from __future__ import annotations

from datetime import datetime, timezone

import duckdb
import pytest
from hypothesis import given

from spark_eos import read_arrow, read_duckdb, read_polars
from spark_eos.errors import ConfigError, InvalidRequestError
from spark_eos.log.snapshots.horizon import before_open
from spark_eos.log.time_travel import earliest
from spark_eos.spark.options import parse_source
from spark_eos.spark.schema import kafka_schema
from spark_eos.spark.source.batch import EosLogBatchReader
from tests.log.test_whole_ends import STEPS, World
from tests.tiers import examples

TOPICS = ("orders", "payments")
COLUMNS = ["topic", "partition", "offset"]


def by_arrow(log, **given):
    return [
        tuple(row.values())
        for topic in TOPICS
        for row in read_arrow(log, topic, columns=COLUMNS, **given).read_all().to_pylist()
    ]


def by_duckdb(log, **given):
    connection = duckdb.connect()
    return [
        row
        for topic in TOPICS
        for row in read_duckdb(connection, log, topic, columns=COLUMNS, **given).fetchall()
    ]


def by_polars(log, **given):
    return [
        row for topic in TOPICS for row in read_polars(log, topic, columns=COLUMNS, **given).collect().rows()
    ]


CLIENTS = {"read_arrow": by_arrow, "read_duckdb": by_duckdb, "read_polars": by_polars}


def by_spark(world, monkeypatch, as_of=None, **more):
    """What the tasks of a batch read give, without Spark."""

    class Host:
        @staticmethod
        def log(_url, _settings):
            return world.log

    monkeypatch.setattr("spark_eos.spark.source.batch.host", Host)
    options = {"path": world.log.url, "subscribe": ",".join(TOPICS), "wholeTransactions": "true", **more}
    if as_of is not None:
        options["versionAsOf"] = str(as_of)
    options = {name: value for name, value in options.items() if value is not None}
    reader = EosLogBatchReader(parse_source(options, streaming=False), kafka_schema())
    return [
        (fetch.topic, fetch.partition, offset)
        for task in reader.partitions()
        for fetch in task.fetches
        for offset in range(fetch.offset, fetch.next_offset)
    ]


def torn():
    """A is open in orders-0. B has committed one row behind it, and one in payments-0."""
    world = World()
    world.send("a", 0)
    world.send("b", 0)
    world.send("b", 2)
    world.end("b", commit=True)
    return world


B = ("payments", 0, 0)
ALL = [("orders", 0, 0), ("orders", 0, 1), B]


@pytest.mark.parametrize("name", CLIENTS)
def test_what_waits_in_one_topic_waits_in_all(name):
    read = CLIENTS[name]
    world = torn()
    seq = world.log.follow().seq
    assert read(world.log) == [B], "Kafka's rule: each partition up to its last stable offset"
    assert read(world.log, whole_transactions=True) == []
    world.end("a", commit=True)
    assert read(world.log, whole_transactions=True) == ALL
    assert read(world.log, as_of=seq, whole_transactions=True) == []
    assert read(world.log, as_of=seq) == [B]


def test_what_waits_in_one_topic_waits_in_a_batch_read(monkeypatch):
    world = torn()
    seq = world.log.follow().seq
    assert by_spark(world, monkeypatch, wholeTransactions="false") == [B]
    assert (
        by_spark(world, monkeypatch)
        == by_spark(world, monkeypatch, assign='{"payments":[0]}', subscribe=None)
        == []
    )
    world.end("a", commit=True)
    assert by_spark(world, monkeypatch) == ALL
    assert by_spark(world, monkeypatch, as_of=seq) == []


@examples(40)
@given(STEPS)
def test_readers_give_what_a_plain_search_finds(steps):
    """Each reader, now and as of each entry at which it was looked at before, against all possible cuts."""
    world, seen = World(), {}

    def look():
        cut = world.greatest([0, 0, 0])
        seen[world.log.follow().seq] = sorted(
            (*world.places[place], offset)
            for unit in world.units
            for place, offset in unit
            if offset < cut[place]
        )

    for kind, *arguments in [*steps, ("publish",)]:
        if kind == "send":
            world.send(*arguments)
        elif kind in {"commit", "abort"}:
            world.end(*arguments, commit=kind == "commit")
        elif kind == "alone":
            world.alone(*arguments)
        else:
            look()
    for name in [*world.open]:
        world.end(name, commit=True)
    look()
    newest = world.log.follow().seq
    with pytest.MonkeyPatch.context() as patch:
        for seq, expected in seen.items():
            as_of = None if seq == newest else seq
            for read in (by_arrow, by_polars):
                assert read(world.log, as_of=as_of, whole_transactions=True) == expected
            assert by_spark(world, patch, as_of) == expected


def test_a_start_after_the_cut_has_nothing_to_read_yet(monkeypatch):
    world = torn()
    found = read_arrow(world.log, "payments", start={0: 1}, whole_transactions=True)
    assert found.read_all().num_rows == 0
    assert by_spark(world, monkeypatch, startingOffsets='{"payments":{"0":1}}') == []


def test_what_is_not_known_any_more_is_an_error(monkeypatch):
    """B ended behind A before the oldest entry that there is: it may have records elsewhere."""
    world = World(3)
    world.send("a", 0)
    world.alone([0, 2])
    for _ in range(6):
        world.alone([2])
    # The floor of an open transaction keeps what is needed. A log of which this was lost:
    monkeypatch.setattr("spark_eos.log.snapshots.horizon.before_open", lambda _: None)
    for _ in range(6):
        world.alone([2])
        world.forget()
    monkeypatch.undo()
    assert earliest(world.log).seq > before_open(world.log.state)
    first = earliest(world.log).seq
    for read in CLIENTS.values():
        assert len(read(world.log)) == 13
        with pytest.raises(InvalidRequestError, match=rf"entry {first}.*'a' .*orders-0"):
            read(world.log, whole_transactions=True)
    with pytest.raises(InvalidRequestError, match="wholeTransactions"):
        by_spark(world, monkeypatch)
    world.end("a", commit=True)
    assert len(by_arrow(world.log, whole_transactions=True)) == 15


def test_a_transaction_of_long_ago_that_has_ended_is_looked_for_further_back():
    """T began long before A, and a record lies behind its first one. What is before T is free."""
    world = World(3)
    world.alone([1])
    world.send("t", 1)
    world.alone([1])
    for _ in range(12):
        world.alone([2])
    world.send("a", 0)
    world.send("t", 0)
    world.end("t", commit=True)
    assert world.greatest([0, 0, 0]) == world.found([0, 0, 0]) == [0, 1, 12]
    assert len(by_arrow(world.log, whole_transactions=True)) == 13


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"isolation_level": "read_uncommitted"}, "isolation_level"),
        ({"end": {0: 1}}, "end"),
        ({"end": datetime(2030, 1, 1, tzinfo=timezone.utc)}, "end"),
    ],
)
def test_what_contradicts_it_is_refused(given, text):
    with pytest.raises(
        ConfigError, match=f"read_arrow: whole_transactions and {text}.* contradict each other"
    ):
        read_arrow(torn().log, "orders", whole_transactions=True, **given)


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("value", ["false", 1, None])
def test_it_is_true_or_false(name, value):
    with pytest.raises(ConfigError, match=f"whole_transactions={value!r}; expected True or False"):
        CLIENTS[name](torn().log, whole_transactions=value)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("isolation.level", "read_uncommitted"),
        ("endingOffsets", '{"orders":{"0":1}}'),
        ("endingTimestamp", "1"),
        ("endingOffsetsByTimestamp", '{"orders":{"0":1}}'),
        ("offsetRanges", '{"orders":{"0":[[0,1]]}}'),
    ],
)
def test_options_that_contradict_it_are_refused(option, value):
    given = {"path": "/tmp/log", "subscribe": "orders", "wholeTransactions": "true", option: value}
    with pytest.raises(ConfigError, match=f"options wholeTransactions and {option}.* contradict each other"):
        parse_source(given, streaming=False)
    assert not parse_source({**given, "wholeTransactions": "false"}, streaming=False).whole_transactions


def test_the_end_that_is_the_default_may_be_given():
    given = {
        "path": "/tmp/log",
        "subscribe": "orders",
        "wholeTransactions": "true",
        "endingOffsets": "latest",
    }
    assert parse_source(given, streaming=False).whole_transactions


def test_a_stream_takes_no_such_option():
    given = {"path": "/tmp/log", "subscribe": "orders", "wholeTransactions": "true"}
    with pytest.raises(
        ConfigError, match=r"wholeTransactions belongs to spark\.read, not to spark\.readStream"
    ):
        parse_source(given, streaming=True)
