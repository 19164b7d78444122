"""What the page says of a reader that is behind: the cause, as far as the log's state tells, and what to do."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition
from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose
from spark_eos.protocol.types import PartitionOffset, SourceProgress
from spark_eos.storage import MemoryStore
from spark_eos.ui.areas.groups import show_group, show_query
from spark_eos.ui.follower import Follower
from spark_eos.ui.question import Question

T0 = TopicPartition("t", 0)


@pytest.fixture
def log():
    """A topic with five records."""
    made = Log.create(MemoryStore())
    Admin(made).create_topic("t", 2)
    send(made, 5)
    return made


def send(log, count):
    with Producer(log) as producer:
        for at in range(count):
            producer.send("t", b"%d" % at, partition=0)


def advice(log, name="g"):
    return show_group(Follower(log.store), Question({"group": name}))["advice"]


def test_a_group_that_has_read_all_needs_none(log):
    Admin(log).alter_group_offsets("g", {T0: 5})
    assert advice(log) == []


def test_a_group_without_a_member(log):
    Admin(log).alter_group_offsets("my group", {T0: 2})
    (one,) = advice(log, "my group")
    assert one["text"].startswith("it is 3 offsets behind; it has no member")
    assert one["command"] == "eoslog lag LOG --group 'my group'"


def test_a_group_whose_members_have_left(log):
    with Consumer(log, {"group.id": "g", "enable.auto.commit": False}) as consumer:
        consumer.subscribe(["t"])
        consumer.poll(0)
        consumer.commit({T0: 1})
    assert "g" in log.follow().groups
    (one,) = advice(log)
    assert one["text"].startswith("it is 4 offsets behind; it has no member")


def test_a_group_with_members(log):
    with Consumer(log, {"group.id": "g", "enable.auto.commit": False}) as consumer:
        consumer.subscribe(["t"])
        consumer.poll(0)
        consumer.commit({T0: 1})
        (one,) = advice(log)
    assert one["text"].startswith("it is 4 offsets behind; it has members, which read slower")


def test_a_query(log):
    places = [(PartitionOffset("t", log.follow().topics["t"].topic_id, 0, offset),) for offset in (0, 2)]
    source = SourceProgress('{"0": 0}', '{"0": 2}', "copy", *places)
    batch = MicroBatch("copy", "q-1", "run-1", 0, (source,), (), ())
    log.commit(lambda state: propose(state, batch, finished=False))
    (one,) = show_query(Follower(log.store), Question({"query": "copy"}))["advice"]
    assert one["text"].startswith("it is 3 offsets behind; see whether the query runs")


def test_what_an_open_transaction_holds_back(log):
    """Also for a reader that has read all that it can."""
    Admin(log).alter_group_offsets("g", {T0: 5})
    Admin(log).alter_group_offsets("elsewhere", {TopicPartition("t", 1): 0})
    with Producer(log, {"transactional.id": "job"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"open", partition=0)
        producer.flush()
        send(log, 2)
        (one,) = advice(log)
        assert one["text"].startswith("open transactions hold back 3 offsets of its partitions")
        assert one["to"] == "transactions"
        assert advice(log, "elsewhere") == []
        producer.abort_transaction()
