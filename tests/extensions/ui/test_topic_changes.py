"""Changes of topics and settings through the page: done once, and only to what was shown."""

from __future__ import annotations

import os

import pytest

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.config.log import LOG
from spark_eos.config.topic import TOPIC
from spark_eos.errors import (
    CommitOutcomeUnknownError,
    ConfigError,
    InvalidRequestError,
    OffsetOutOfRangeError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Question
from spark_eos.extensions.ui.writes import topics
from spark_eos.extensions.ui.writes.change import change_outcome
from spark_eos.protocol.actions import CreateTopic
from spark_eos.storage import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from tests.log.fakes import FakeClock


@pytest.fixture
def log():
    made = Log.create(MemoryStore())
    Admin(made).create_topic("orders", 2, {"retention.ms": "86400000"})
    with Producer(made) as producer:
        for number in range(10):
            producer.send("orders", b"%d" % number, partition=0)
    return made


@pytest.fixture
def follower(log):
    return Follower(FaultyStore(log.store), clock=FakeClock())


def attempt(log, **fields):
    """A question of which the browser has chosen the id, when it knew the newest entry and the topic."""
    state = log.follow()
    named = {"topic": "orders", "id": state.topics["orders"].topic_id} if "orders" in state.topics else {}
    return Question({"attempt": os.urandom(16).hex(), "since": state.seq, **named, **fields})


def last(log):
    event = log.follow().trail[-1]
    return event.what, event.name, event.text


def test_a_topic_is_created_with_settings_and_columns(log, follower):
    fields = {"topic": "prices", "partitions": 3, "columns": "item string not null\ncents bigint\n\n"}
    asked = attempt(log, settings="retention.ms=1000\n", **fields)
    assert topics.create(follower, asked) == {"text": "topic prices was created"}
    assert topics.create(follower, asked) == {"text": "topic prices was created"}
    made = Admin(log).describe_topic("prices")
    assert (len(made.partitions), made.config["retention.ms"]) == (3, "1000")
    assert [(one.name, str(one.type), one.nullable) for one in made.schema] == [
        ("item", "string", False),
        ("cents", "int64", True),
    ]
    assert last(log)[:2] == ("topic created", "prices")
    with pytest.raises(TopicExistsError):
        topics.create(follower, attempt(log, topic="prices"))


@pytest.mark.parametrize(
    ("fields", "error", "problem"),
    [
        ({"settings": "retention.ms"}, InvalidRequestError, "'retention.ms' is not NAME=VALUE"),
        ({"settings": "retention.msec=1"}, ConfigError, "retention.msec"),
        ({"columns": "item"}, InvalidRequestError, "'item' is not NAME TYPE"),
        ({"columns": "item strange"}, ConfigError, "strange"),
        ({"topic": "a/b"}, InvalidRequestError, "a/b"),
        ({"partitions": 0}, InvalidRequestError, "'partitions' must be a whole number from 1"),
    ],
)
def test_what_is_no_topic(log, follower, fields, error, problem):
    seq = log.state.seq
    with pytest.raises(error, match=problem):
        topics.create(follower, attempt(log, **{"topic": "new", **fields}))
    assert log.follow().seq == seq


def test_partitions_are_added_and_not_taken_away(log, follower):
    assert (
        topics.add_partitions(follower, attempt(log, partitions=4))["text"] == "topic orders has 4 partitions"
    )
    assert log.follow().topics["orders"].partitions == 4
    with pytest.raises(InvalidRequestError, match="cannot be cut to 3"):
        topics.add_partitions(follower, attempt(log, partitions=3))


@pytest.mark.parametrize(("name", "table"), [("orders", TOPIC), ("", LOG)])
def test_all_settings_are_shown_with_default_range_and_words(follower, name, table):
    rows = {row["name"]: row for row in topics.settings(follower, Question({"topic": name}))["rows"]}
    assert rows.keys() == table.keys()
    for option in table.values():
        row = rows[option.name]
        assert (row["default"], row["allowed"], row["doc"]) == (
            option.shown_default,
            option.type.summary,
            option.doc,
        )
        assert row["value"] == ("86400000" if option.name == "retention.ms" else option.shown_default)
        assert row["set"] == (option.name == "retention.ms")


def test_a_setting_is_changed_and_taken_back(log, follower):
    change = {"name": "retention.ms", "before": "86400000", "value": "1000"}
    topics.alter_topic(follower, attempt(log, **change))
    assert last(log) == ("topic altered", "orders", "retention.ms=1000 (was 86400000)")
    with pytest.raises(InvalidRequestError, match="is 1000 now, and was shown as 86400000: it was set"):
        topics.alter_topic(follower, attempt(log, **change))  # Of another browser.
    with pytest.raises(ConfigError, match="a day"):
        topics.alter_topic(follower, attempt(log, **{**change, "before": "1000", "value": "a day"}))
    answer = topics.alter_topic(follower, attempt(log, name="retention.ms", before="1000", value=""))
    assert answer["text"] == "retention.ms of topic orders is its default again"
    assert dict(log.follow().topics["orders"].config) == {}
    default = TOPIC["retention.ms"].shown_default
    topics.alter_topic(follower, attempt(log, name="retention.ms", before=default, value="5"))
    assert dict(log.follow().topics["orders"].config) == {"retention.ms": "5"}


def test_a_secret_is_neither_shown_nor_named_by_an_error(log, follower):
    config = (("schema.registry.url", "http://user:pass@registry"),)
    log.commit(lambda _state: (CreateTopic("avro", "id-of-avro", 1, config),))
    follower.poll()
    rows = topics.settings(follower, Question({"topic": "avro"}))["rows"]
    (row,) = (one for one in rows if one["name"] == "schema.registry.url")
    assert (row["secret"], "pass" in row["value"]) == (True, False)
    named = {"topic": "avro", "id": log.follow().topics["avro"].topic_id}
    change = {"name": "schema.registry.url", "before": "", "value": "http://other"}
    with pytest.raises(InvalidRequestError) as refused:
        topics.alter_topic(follower, attempt(log, **named, **change))
    assert "pass" not in str(refused.value)


def test_a_setting_of_the_log(log, follower):
    change = {"name": "offsets.retention.minutes", "before": "10080", "value": "5"}
    asked = attempt(log, **change)
    assert topics.alter_log(follower, asked)["text"] == "offsets.retention.minutes of the log is 5 now"
    assert topics.alter_log(follower, asked)["text"] == "offsets.retention.minutes of the log is 5 now"
    assert last(log)[0] == "settings of the log altered"
    with pytest.raises(InvalidRequestError, match="it was set elsewhere since"):
        topics.alter_log(follower, attempt(log, **change))
    with pytest.raises(ConfigError):
        topics.alter_log(follower, attempt(log, name="offsets.retention.minutes", before="5", value="0"))


def test_records_are_deleted_up_to_an_offset(log, follower):
    fields = {"partition": 0, "before": 4}
    with pytest.raises(InvalidRequestError, match="type the name 'orders'"):
        topics.delete_records(follower, attempt(log, **fields))
    with pytest.raises(OffsetOutOfRangeError):
        topics.delete_records(follower, attempt(log, typed="orders", partition=0, before=11))
    answer = topics.delete_records(follower, attempt(log, typed="orders", **fields))
    assert answer["text"] == "orders-0 begins at offset 4 or later"
    assert Admin(log).describe_topic("orders").partitions[0].start == 4
    assert last(log) == ("records deleted", "orders", "partition 0, offsets 0 to 3")


def test_a_topic_is_deleted_by_its_name(log, follower):
    Admin(log).alter_group_offsets("billing", {TopicPartition("orders", 0): 5})
    with pytest.raises(InvalidRequestError, match="type the name 'orders'"):
        topics.delete(follower, attempt(log, typed="order"))
    asked = attempt(log, typed="orders")
    for _ in range(2):
        assert topics.delete(follower, asked) == {"text": "topic orders was deleted"}
    assert last(log)[:2] == ("topic deleted", "orders")
    with pytest.raises(UnknownTopicOrPartitionError):
        topics.delete(follower, attempt(log, topic="orders", id="gone", typed="orders"))


def test_another_topic_of_the_same_name_is_left_alone(log, follower):
    shown = log.state.topics["orders"].topic_id
    Admin(log).delete_topic("orders")
    Admin(log).create_topic("orders")
    seq = log.follow().seq
    for call, fields in (
        (topics.delete, {}),
        (topics.delete_records, {"partition": 0, "before": 0}),
        (topics.add_partitions, {"partitions": 9}),
        (
            topics.alter_topic,
            {"name": "retention.ms", "value": "1", "before": TOPIC["retention.ms"].shown_default},
        ),
    ):
        with pytest.raises(InvalidRequestError, match="it is not the one that was shown"):
            call(follower, attempt(log, typed="orders", id=shown, **fields))
    assert log.follow().seq == seq


def test_a_lost_reply_of_a_creation(log, follower):
    store = follower._inner
    asked = attempt(log, topic="prices")
    store.inject(Fault.FAIL_AFTER, "create", "_log/*")
    store.inject(Fault.FAIL_BEFORE, "create", "_log/*", times=None)
    with pytest.raises(CommitOutcomeUnknownError):
        topics.create(follower, asked)
    store.heal()
    assert change_outcome(follower, asked)["outcome"] == "done"
    assert topics.create(follower, asked) == {"text": "topic prices was created"}
