"""A snapshot whose checksum is right and whose parts are not: a faulty program or machine wrote it.

That shows when a part is read for the first time. No process takes it for the log's word, and nothing is written
halfway.
"""

from __future__ import annotations

import logging

import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import CorruptRecordError
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.maintenance.verify.verify import Verdict, verify
from spark_eos.protocol.actions import DeleteTopic, EndTransaction, InitProducer, expiry
from spark_eos.protocol.encoding.snapshots import decode_snapshot, encode_snapshot
from spark_eos.protocol.packed_map import PackedMap, Part
from spark_eos.protocol.replace import replace

INTERVAL = 5
NUMBERS = 32  # Of one part: the next producer is in another one.


@pytest.fixture
def url(tmp_path):
    return str(tmp_path / "log")


@pytest.fixture
def log(url):
    """A log with a snapshot, before which `tx-1` has begun a transaction and `tx-2` has ended one."""
    log = Log.create(url, snapshot_interval=INTERVAL)
    log.ensure_topic("t")
    for name in ("tx-1", "tx-2"):
        with_transaction(log, name, is_open=name == "tx-1")
    while log.follow().seq % INTERVAL or log.state.next_producer_id < NUMBERS:
        log.commit(lambda state: (InitProducer(state.next_producer_id, 0, None, 60_000),))
    log.maintenance.snapshot()
    assert newest(log).seq == log.state.seq
    return log


def with_transaction(log, name, *, is_open=False):
    producer = Producer(log, {"transactional.id": name, "client.id": name})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", name.encode())
    producer.flush()
    if not is_open:
        producer.commit_transaction()


def snapshot_name(log):
    return max(info.name for info in log.store.list(paths.SNAPSHOTS))


def newest(log):
    name = snapshot_name(log)
    return decode_snapshot(log.store.read(name), paths.snapshot_seq(name), name)


def damage(log, field="producers", key=0):
    """Store the newest snapshot as a faulty program would: the part of ``field`` with ``key`` cannot be read."""
    state = newest(log)
    values = getattr(state, field)
    values = PackedMap(values.layout, values.parts.set(values.layout.part_of(key), Part(None, b"\x7f")))
    log.store.overwrite(snapshot_name(log), encode_snapshot(replace(state, **{field: values})))
    return snapshot_name(log)


def everything(log):
    return {info.name: log.store.read(info.name).to_pybytes() for info in log.store.list(paths.LOG)}


def committed(log):
    """Another process, which has the right state, ends the transaction of `tx-1`."""
    stamp = log.state.producer_of("tx-1").stamp
    return log.commit(lambda _: (EndTransaction(stamp, commit=True),))


@pytest.mark.parametrize(("field", "key"), [("producers", 1), ("transactional_ids", "tx-2")])
def test_what_cannot_be_read_names_the_snapshot_and_nothing_is_written(url, log, field, key):
    name = damage(log, field, key)
    before = everything(log)
    with pytest.raises(CorruptRecordError, match=f"{name}: part .*eoslog verify --repair"):
        with_transaction(Log.open(url), "tx-2")
    assert everything(log) == before


def test_damage_is_no_refusal(url, log):
    """Else it would take the commit of `tx-1` for refused, and hide records that all others read."""
    name = damage(log)
    follower = Log.open(url)
    assert committed(log).seq == log.state.seq
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match=name):
            follower.follow()
    assert follower.state.seq == log.state.seq - 1


def test_what_reads_all_producers_says_so_before_it_writes(url, log):
    name = damage(log)
    other = Log.open(url)
    topic, before = other.state.topics["t"], everything(log)
    with pytest.raises(CorruptRecordError, match=name):
        other.commit(lambda _: (DeleteTopic("t", topic.topic_id),))
    with pytest.raises(CorruptRecordError, match=name):
        other.expire_overdue(everything=True)
    assert everything(log) == before


def test_a_commit_of_another_producer_is_acknowledged(url, log, caplog):
    """What looks after a commit for transactions past their time reads the part of one that is open."""
    damage(log)
    with Producer(Log.open(url)) as producer, caplog.at_level(logging.WARNING):
        sent = producer.send("t", b"mine")
        producer.flush()
    assert sent.result().offset == log.state.partitions[log.topic("t").topic_id, 0].end
    assert "what is over in the log was not ended" in caplog.text


def test_records_are_read_without_producers(url, log):
    damage(log)
    options = {"auto.offset.reset": "earliest", "isolation.level": "read_uncommitted"}
    with Consumer(Log.open(url), options) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert [record.value for record in consumer.poll(5)] == [b"tx-1", b"tx-2"]


def test_with_the_snapshot_moved_away_an_older_one_or_the_entries_are_read(url, log):
    state = log.state
    log.store.delete(damage(log))
    assert Log.open(url).state == state


def test_verify_finds_and_mends_it(url, log):
    good = everything(log)
    name = damage(log)
    found = []
    verify(log.store, found.append)
    assert [(one.verdict, one.name) for one in found] == [(Verdict.WRONG, name)]
    assert "part 0 of Producers is not valid" in found[0].text
    found.clear()
    verify(log.store, found.append, repair=True)
    assert [(one.verdict, one.name) for one in found] == [(Verdict.REPAIRED, name)]
    assert everything(log) == good
    assert Admin(Log.open(url)).list_transactions()


def test_ids_are_looked_for_outside_of_commits(log, monkeypatch):
    """All producers are read for it, for the first time perhaps: other writers would wait for that."""
    due, states = expiry.due, []
    monkeypatch.setattr(expiry, "due", lambda state, now_ms: states.append(state) or due(state, now_ms))
    monkeypatch.setattr(log._parts.expiration_task, "_commit", lambda *_, **__: pytest.fail("a commit"))
    log._parts.expiration_task._next_expiry = log.clock.monotonic()
    assert log.expire_overdue() == ()
    assert states == [log.state]
