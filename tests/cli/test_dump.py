"""``eoslog dump``: every action, and exactly the control batches that the entries led to."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Producer, TopicPartition
from spark_eos.cli import dump as dump_module
from spark_eos.cli.command import main
from spark_eos.cli.dump import dump
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.protocol.actions import (
    CommitOffsets,
    DeleteTopic,
    EndTransaction,
    Entry,
    ExpireTransaction,
    JoinGroup,
    LeaveGroup,
    Membership,
    PartitionOffset,
    Request,
    SyncGroup,
)
from spark_eos.protocol.encoding.entries import encode_entry
from spark_eos.protocol.index import Kind
from spark_eos.protocol.types import ProducerStamp
from spark_eos.storage import MemoryStore
from tests.log.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("timeless_folders")


@pytest.fixture
def log():
    log = Log.create(MemoryStore(), clock=FakeClock())
    Admin(log).create_topic("t", 3)
    Admin(log).create_topic("u", 2)
    return log


def begin(log, name, *places):
    producer = Producer(log, {"transactional.id": name, "transaction.timeout.ms": 1000})
    producer.init_transactions()
    producer.begin_transaction()
    for topic, partition in places:
        producer.send(topic, b"x", partition=partition)
    return producer


def streamed(log, name, *places):
    producer = begin(log, name, *places)
    producer.flush()
    return producer


def controls_of_state(log):
    names = {topic.topic_id: name for name, topic in log.follow().topics.items()}
    return sorted(
        (names[topic_id], number, row.base_offset, row.kind.name)
        for (topic_id, number), partition in log.state.partitions.items()
        for row in partition.index.tail
        if row.kind is not Kind.DATA
    )


def controls(log):
    return sorted(
        (line["topic"], line["partition"], line["offset"], line["type"])
        for line in dump(log)
        if line["kind"] == "control"
    )


def test_control_batches_of_every_way_to_end_a_transaction(log):
    begin(log, "one shot", ("t", 0), ("u", 1)).commit_transaction()
    streamed(log, "streamed", ("t", 0), ("t", 2)).commit_transaction()
    streamed(log, "aborted", ("t", 1)).abort_transaction()
    streamed(log, "terminated", ("t", 1), ("u", 0))
    Admin(log).force_terminate_transaction("terminated")
    streamed(log, "fenced", ("t", 2))
    streamed(log, "fenced with it", ("u", 1))
    Admin(log).fence_producers(["fenced", "fenced with it"])
    streamed(log, "expired", ("t", 0), ("u", 0))
    stamp = log.state.producer_of("expired").stamp
    log.commit(lambda _state: (ExpireTransaction(stamp, 1000),))
    with Producer(log) as producer:
        producer.send("t", b"no transaction", partition=0)
    found = controls(log)
    assert found == controls_of_state(log)
    assert [kind for *_, kind in found].count("COMMIT") == 4
    assert [kind for *_, kind in found].count("ABORT") == 7


def test_a_topic_that_is_gone_keeps_its_control_batches_in_the_dump(log):
    begin(log, "app", ("u", 1)).commit_transaction()
    before = controls(log)
    Admin(log).delete_topic("u")
    Admin(log).create_topic("u", 2)
    assert controls(log) == before == [("u", 1, 1, "COMMIT")]


def test_a_topic_that_goes_with_the_end_of_its_transaction(log):
    streamed(log, "app", ("u", 1))
    topic_id, stamp = log.topic("u").topic_id, log.state.producers[0].stamp
    log.commit(lambda _state: (EndTransaction(stamp, commit=True), DeleteTopic("u", topic_id)))
    assert controls(log) == []


def test_what_a_rejected_request_names_is_not_looked_for(log):
    streamed(log, "app", ("t", 0)).commit_transaction()
    stamp = log.state.producers[0].stamp._replace(number=5)
    # The rules refuse it before it is written: another writer, with other rules, has put it there.
    entry = log.state.seq + 1
    request = Request(bytes(16), 0, (EndTransaction(stamp, commit=False),))
    log.store.create(paths.entry(entry), encode_entry(Entry(entry, (request,))))
    last = [line for line in dump(log, entry) if line["seq"] == entry]
    assert [line["kind"] for line in last] == ["request", "action"]
    assert last[0]["error"].startswith("InvalidTxnStateError: ")


def test_actions_of_groups_and_settings_in_words(log_url, capsys):
    log = Log.create(log_url, clock=FakeClock())
    Admin(log).create_topic("t")
    place = PartitionOffset("t", log.topic("t").topic_id, 0, 3)
    log.commit(lambda _state: (JoinGroup("g", "m", ("t",), ("range",), 45_000, "static", "app"),))
    log.commit(lambda _state: (CommitOffsets("g", (place,), None, Membership("m", 1, "static")),))
    log.commit(lambda _state: (SyncGroup("g", "m", 1), LeaveGroup("g", ("m",))))
    Admin(log).alter_log({"offsets.retention.minutes": 1})
    log.clock.now += 86_400
    Admin(log).expire()
    Admin(log).alter_group_offsets("h", {TopicPartition("t", 0): 1})
    Admin(log).delete_group("h")
    assert main(["dump", log_url]) == 0
    text = capsys.readouterr().out
    for words in (
        'JoinGroup group=g member_id=m topics=["t"] assignors=["range"] session_timeout_ms=45000',
        "instance_id=static client_id=app",
        'member={"member_id": "m", "generation": 1, "instance_id": "static"}',
        "SyncGroup group=g member_id=m generation=1",
        'LeaveGroup group=g members=["m"] silent_ms=-1',
        'AlterLog config=[["offsets.retention.minutes", "1"]]',
        'ExpireOffsets group=g partitions=[["t", 0]]',
        "DeleteOffsets group=h partitions=[]",
    ):
        assert words in text
    assert "REJECTED" not in text


def test_partitions_that_a_request_does_not_name_are_not_looked_at(log, monkeypatch):
    """A thousand partitions and many entries: what is looked at grows with the entries alone."""
    Admin(log).create_topic("wide", 1000)
    for _ in range(5):
        begin(log, "app", ("wide", 7)).commit_transaction()
    looked_at = []
    look = dump_module._controls

    def counted(seq, topics, key, before, after):
        looked_at.append(key)
        return look(seq, topics, key, before, after)

    monkeypatch.setattr(dump_module, "_controls", counted)
    assert len([line for line in dump(log) if line["kind"] == "control"]) == 5
    assert looked_at == [(log.topic("wide").topic_id, 7)] * 5
    assert ProducerStamp(0, 4, 4) in {producer.stamp for producer in log.state.producers.values()}
