"""One record through the page: its offset is the answer, and it is in the log once."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from spark_eos import Admin, Log, Producer
from spark_eos.errors import (
    CommitOutcomeUnknownError,
    InvalidRecordError,
    InvalidRequestError,
    StorePermissionError,
    UnknownTopicOrPartitionError,
)
from spark_eos.extensions.ui.areas.records import key_partition, records
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Question
from spark_eos.extensions.ui.read_only import ReadOnlyStore
from spark_eos.extensions.ui.writes.change import change_outcome
from spark_eos.extensions.ui.writes.produce import produce
from spark_eos.storage import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from tests.log.fakes import FakeClock

ENTRIES = "_log/*"


@pytest.fixture
def log():
    made = Log.create(MemoryStore())
    admin = Admin(made)
    admin.create_topic("orders", 2)
    admin.create_topic("json", config={"value.format": "json"})
    admin.create_topic(
        "flights", schema=pa.schema([pa.field("number", pa.int64(), nullable=False), ("from", pa.string())])
    )
    return made


def test_the_partition_of_a_key_is_the_one_that_a_producer_takes(log, follower):
    with Producer(log) as producer:
        for number in range(8):
            place = producer.send("orders", b"x", key=b"%d" % number).get()
            asked = Question({"topic": "orders", "key": f"{number}"})
            assert key_partition(follower, asked) == {"partition": place.partition}
    schema = pa.schema([("number", pa.int64())])
    Admin(log).create_topic("numbers", 2, {"key.columns": "number"}, schema)
    follower.poll()
    with pytest.raises(InvalidRequestError, match="is not one text column: choose a partition"):
        key_partition(follower, Question({"topic": "numbers", "key": "7"}))


@pytest.fixture
def store(log):
    return FaultyStore(log.store)


@pytest.fixture
def follower(store):
    return Follower(store, clock=FakeClock())


def attempt(log, topic, **fields):
    state = log.follow()
    named = {"topic": topic, "id": state.topics[topic].topic_id}
    return Question({"attempt": os.urandom(16).hex(), "since": state.seq, **named, **fields})


def found(follower, topic, partition=0):
    follower.log.follow()
    rows = records(follower, Question({"topic": topic, "partition": partition, "from": "start"}))["rows"]
    return [(row["offset"], row["key"] and row["key"]["text"], row["value"]["text"]) for row in rows]


def lose(log, store, fault):
    """The first entry registers the producer; it is the second one, with the record, that gets lost."""
    slot = f"*{log.state.seq + 2:020d}*"
    store.inject(fault, "create", slot)
    store.inject(Fault.FAIL_BEFORE, "create", slot, times=None)


def ends(log):
    return [part.end for part in Admin(log).describe_topic("orders").partitions]


def test_a_record_with_all_there_is(log, follower):
    asked = attempt(log, "orders", key="anna", value="one\ntwo ☃", headers="trace=1=2\n\nkind=", partition=1)
    answer = produce(follower, asked)
    assert answer == {"text": "written to orders-1 at offset 0", "partition": 1, "offset": 0}
    assert produce(follower, asked) == answer
    assert found(follower, "orders", 1) == [(0, "anna", "one\ntwo ☃")]
    (row,) = records(follower, Question({"topic": "orders", "partition": 1, "from": "start"}))["rows"]
    assert [(one["key"], one["text"]) for one in row["headers"]] == [("trace", "1=2"), ("kind", "")]
    assert produce(follower, attempt(log, "orders", key="", value="", partition=1))["offset"] == 1
    assert found(follower, "orders", 1)[1] == (1, None, "")  # A key that is left empty is none.
    assert produce(follower, attempt(log, "orders", null=True, key="anna"))["offset"] in {0, 2}


def test_values_with_a_format_and_columns(log, follower):
    assert produce(follower, attempt(log, "json", value='{"a":\n 1}'))["offset"] == 0
    assert json.loads(found(follower, "json")[0][2]) == {"a": 1}
    assert (
        produce(follower, attempt(log, "flights", value='{"number": 9007199254740993, "from": null}'))[
            "offset"
        ]
        == 0
    )
    assert "9007199254740993" in found(follower, "flights")[0][2]


def test_numbers_keep_all_their_digits(log, follower):
    long = '{"a":0.12345678901234567890,"b":[1.10,123456789012345678901]}'
    produce(follower, attempt(log, "json", value=long))
    assert found(follower, "json")[0][2] == long
    produce(follower, attempt(log, "flights", value='{"number": 9007199254740993.0}'))
    assert "9007199254740993" in found(follower, "flights")[0][2]


@pytest.mark.parametrize(
    ("topic", "fields", "error", "problem"),
    [
        ("json", {"value": "{"}, InvalidRecordError, "^value: it is no JSON"),
        ("flights", {"value": "[]"}, InvalidRecordError, "^expected a JSON object"),
        (
            "flights",
            {"value": '{"from": "JFK"}'},
            InvalidRecordError,
            "^column number: it is missing or null",
        ),
        ("flights", {"value": '{"numbr": 1}'}, InvalidRecordError, "^the topic has no column 'numbr'"),
        ("orders", {"headers": "trace"}, InvalidRecordError, "headers: 'trace' is not NAME=VALUE"),
        ("orders", {"partition": 7}, UnknownTopicOrPartitionError, "7"),
        ("orders", {"id": "another"}, InvalidRequestError, "it is not the one that was shown"),
    ],
)
def test_what_is_no_record(log, follower, topic, fields, error, problem):
    before = ends(log)
    with pytest.raises(error, match=problem):
        produce(follower, attempt(log, topic, **fields))
    assert ends(log) == before


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.DELAYED])
def test_a_lost_reply_of_the_store_is_not_known_until_someone_looks(log, store, follower, fault):
    asked = attempt(log, "orders", value="x", partition=0)
    lose(log, store, fault)
    with pytest.raises(CommitOutcomeUnknownError, match="Look what became of it"):
        produce(follower, asked)
    store.heal()
    assert change_outcome(follower, asked)["outcome"] == "open"
    if fault is Fault.DELAYED:
        store.release()
        assert change_outcome(follower, asked)["outcome"] == "done"
    for _ in range(2):
        assert produce(follower, asked)["offset"] == 0
    assert ends(log) == [1, 0]


def test_a_record_that_arrives_behind_the_look_is_not_written_twice(log, store, follower, monkeypatch):
    """The write that the store delays lands between the look of the second call and its commit."""
    asked = attempt(log, "orders", value="x", partition=0)
    lose(log, store, Fault.DELAYED)
    with pytest.raises(CommitOutcomeUnknownError):
        produce(follower, asked)
    store.heal()
    writer = follower.writer

    def late(kind):
        handle = writer(kind)
        stage = handle.stage

        def staged(*args, **options):
            store.release()
            return stage(*args, **options)

        handle.stage = staged
        return handle

    monkeypatch.setattr(follower, "writer", late)
    assert produce(follower, asked)["offset"] == 0
    assert ends(log) == [1, 0]


def test_two_presses_at_once_write_one_record(log, follower):
    asked = attempt(log, "orders", value="x", partition=0)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: produce(follower, asked), range(4)))
    assert [one["offset"] for one in answers] == [0] * 4
    assert ends(log) == [1, 0]


def test_a_user_without_the_right_to_write(log):
    with pytest.raises(StorePermissionError):
        produce(Follower(ReadOnlyStore(log.store), clock=FakeClock()), attempt(log, "orders", value="x"))
    assert ends(log) == [0, 0]
