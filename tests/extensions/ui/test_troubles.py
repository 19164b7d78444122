"""What needs attention on the page is what ``eoslog status`` says."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.monitoring.status import Space, status_of
from spark_eos.storage import MemoryStore
from tests.extensions.ui.asking import Asking
from tests.log.fakes import Waiting
from tests.monitoring.micro_batches import micro_batch

LITTLE = Space(2 << 30, 100 << 30)


@pytest.fixture
def log():
    made = Log.create(MemoryStore(), Waiting()).without_maintenance()
    Admin(made).create_topic("orders", 1)
    return made


def test_nothing_needs_attention_in_a_healthy_log(log):
    with Producer(log) as producer:
        producer.send("orders", b"x")
    shown = Asking(log)("overview")
    assert shown["attention"] == []
    assert shown["unverified"]
    Admin(log).note_verify(sound=True)
    assert not Asking(log)("overview")["unverified"]


def test_a_log_without_any_snapshot(log):
    log.commit(lambda _: ())
    with Producer(log, {"linger.ms": 0}) as producer:
        for _ in range(1100):
            producer.send("orders", b"x").result()
    (expected,) = status_of(log.store, clock=Waiting(), space=lambda _: None).troubles
    assert expected.name == "no snapshot"
    asking = Asking(log)
    assert [one["text"] for one in asking("overview")["attention"]] == [expected.text]


def test_little_space(log):
    asking = Asking(log)
    asking.follower.space = lambda _: LITTLE
    expected = status_of(log.store, clock=Waiting(), space=lambda _: LITTLE).troubles
    assert [one.name for one in expected] == ["little space"]
    (shown,) = asking("overview")["attention"]
    assert (shown["text"], shown["to"], shown["level"]) == (expected[0].text, "storage", "note")


def test_the_group_of_a_query_is_told_as_the_query(log):
    """As `status`, `lag` and the metrics tell it: the page had one reader twice, once as an empty group."""
    Admin(log).create_topic("sales", 1)
    with Producer(log) as producer:
        for _ in range(3):
            producer.send("orders", b"x")
            producer.send("sales", b"x")
    micro_batch(log, "orders", 1)
    asking = Asking(log)
    overview = asking("overview")
    assert (overview["groups"], overview["lag"], overview["queries"], overview["query_lag"]) == (0, 0, 1, 2)
    assert [(row["kind"], row["name"]) for row in asking("groups")["rows"]] == [("query", "copy")]
    # What the group has committed beside the query is nobody else's.
    Admin(log).alter_group_offsets("copy", {TopicPartition("sales", 0): 0})
    overview = asking("overview")
    assert (overview["groups"], overview["queries"]) == (1, 1)
    assert [row["kind"] for row in asking("groups")["rows"]] == ["group", "query"]


def test_a_query_whose_topic_was_deleted_leads_to_the_query(log):
    with Producer(log) as producer:
        producer.send("orders", b"x")
    micro_batch(log, "orders", 1)
    Admin(log).delete_topic("orders")
    (shown,) = Asking(log)("overview")["attention"]
    assert (shown["to"], shown["name"]) == ("query", "copy")
