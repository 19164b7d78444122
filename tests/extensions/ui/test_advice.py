"""What the page says of a reader that is behind: the cause, as far as the log's state tells, and what to do."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition
from spark_eos.clients.consumer.heartbeat import HeartbeatThread
from spark_eos.errors import InvalidRequestError
from spark_eos.extensions.ui.areas.groups import show_group, show_query
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Question
from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose
from spark_eos.protocol.types import PartitionOffset, SourceProgress
from spark_eos.storage import MemoryStore
from tests.clients.group_world import beats
from tests.log.fakes import Waiting

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
    return show_group(Follower(log.store, clock=Waiting()), Question({"group": name}))["advice"]


def late(log):
    """What is behind by more than a millisecond is late from now on."""
    Admin(log).alter_log({"health.lag.max.ms": "1"})
    while log.clock.now_ms() <= log.follow().timestamp_ms + 1:
        pass


def test_a_group_that_has_read_all_needs_none(log):
    late(log)
    Admin(log).alter_group_offsets("g", {T0: 5})
    assert advice(log) == []


def test_a_group_that_is_a_little_behind_needs_none(log):
    """Each healthy group is, most of the time."""
    Admin(log).alter_group_offsets("g", {T0: 2})
    assert advice(log) == []


def test_a_group_without_a_member(log):
    Admin(log).alter_group_offsets("my group", {T0: 2})
    late(log)
    (one,) = advice(log, "my group")
    assert one["text"].startswith("group 'my group' is 3 records and ")
    assert "and has no members; start its consumers again; if they end again" in one["text"]
    assert f"eoslog lag {log.store.url} --group 'my group'" in one["commands"]


def test_a_reader_that_has_come_since_the_last_look(log):
    """All readers are measured now and then; the list of groups names each one at once, and leads here."""
    follower = Follower(log.store, clock=Waiting())
    Admin(log).alter_group_offsets("g", {T0: 2})
    follower.poll()
    assert show_group(follower, Question({"group": "g"}))["lag"] == 3
    Admin(log).alter_group_offsets("h", {T0: 1})
    copy(log)
    follower.poll()
    assert show_group(follower, Question({"group": "h"}))["lag"] == 4
    assert show_query(follower, Question({"query": "copy"}))["lag"] == 3
    with pytest.raises(InvalidRequestError, match="no group 'i'"):
        show_group(follower, Question({"group": "i"}))


def test_a_group_whose_members_have_left(log):
    with Consumer(log, {"group.id": "g", "enable.auto.commit": False}) as consumer:
        consumer.subscribe(["t"])
        consumer.poll(0)
        consumer.commit({T0: 1})
    assert "g" in log.follow().groups
    late(log)
    (one,) = advice(log)
    assert "and has no members; start its consumers again; if they end again" in one["text"]


def test_a_group_with_members(log, monkeypatch):
    monkeypatch.setattr(HeartbeatThread, "start", lambda _thread: None)
    with Consumer(log, {"group.id": "g", "enable.auto.commit": False}) as consumer:
        consumer.subscribe(["t"])
        consumer.poll(0)
        beats(consumer).step()
        consumer.commit({T0: 1})
        late(log)
        (one,) = advice(log)
    assert "has 1 member; its consumers are members, and do not commit" in one["text"]


def copy(log):
    """A query that is three records behind."""
    places = [(PartitionOffset("t", log.follow().topics["t"].topic_id, 0, offset),) for offset in (0, 2)]
    source = SourceProgress('{"0": 0}', '{"0": 2}', "copy", *places)
    batch = MicroBatch("copy", "q-1", "run-1", 0, (source,), (), ())
    log.commit(lambda state: propose(state, batch, finished=False))


def test_a_query(log):
    copy(log)
    late(log)
    (one,) = show_query(Follower(log.store, clock=Waiting()), Question({"query": "copy"}))["advice"]
    assert one["text"].startswith("query 'copy' is 3 records and ")
    assert "start it again on its checkpoint" in one["text"]


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
