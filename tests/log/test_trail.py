"""The trail: what was done to the log, by whom, kept longer than the entries, and bounded."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from immutables import Map

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition
from spark_eos.errors import GroupIdNotFoundError, UnknownTopicOrPartitionError
from spark_eos.maintenance.retention import Retention
from spark_eos.protocol.actions.log import LOG_ALTERED
from spark_eos.protocol.actions.log_time import TIME_SET_BACK
from spark_eos.protocol.encoding.snapshots import decode_snapshot, encode_snapshot
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules import trail
from spark_eos.protocol.rules.joins import joined
from spark_eos.protocol.state import EMPTY, Event, Group
from spark_eos.storage import MemoryStore
from tests.log.fakes import FakeClock

HOUR_S = 3600


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def log(clock):
    made = Log.create(MemoryStore(), clock).without_maintenance()
    Admin(made).create_topic("t", 2)
    return made


def told(log, skipped=2):
    """All but that the log and its topic were created."""
    return [(one.writer, one.what, one.name, one.times) for one in log.follow().trail[skipped:]]


def begun(log, client, *, opened=True):
    producer = Producer(log, {"transactional.id": "till", "client.id": client})
    producer.init_transactions()
    if opened:
        producer.begin_transaction()
        producer.send("t", b"x")
        producer.flush()
    return producer


def test_what_an_administrator_does(log):
    admin = Admin(log)
    admin.alter_topic("t", 3, config={"retention.ms": "5000"})
    admin.alter_log({"health.lag.max.ms": "5"})
    with Producer(log) as producer:
        producer.send("t", b"x", partition=0)
    admin.delete_records({TopicPartition("t", 0): 1})
    admin.alter_group_offsets("g", {TopicPartition("t", 0): 1})
    admin.delete_group("g")
    admin.delete_topic("t")
    assert told(log) == [
        ("admin", "topic altered", "t", 1),
        ("admin", "settings of the log altered", "", 1),
        ("admin", "records deleted", "t", 1),
        ("admin", "offsets of a group set", "g", 1),
        ("admin", "offsets of a group deleted", "g", 1),
        ("admin", "topic deleted", "t", 1),
    ]
    assert [one.text for one in log.state.trail[2:5]] == [
        "partitions: 3 (was 2); retention.ms=5000 (was not set)",
        "health.lag.max.ms=5 (was not set)",
        "partition 0, offsets 0 to 0",
    ]


def test_daily_work_leaves_no_trail(log, clock):
    Admin(log).alter_topic("t", config={"retention.ms": "1"})
    before = told(log)
    with Producer(log, {"transactional.id": "till"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"x", partition=0)
        producer.commit_transaction()
    with Consumer(log, {"group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe(["t"])
        consumer.poll(0)
        consumer.commit({TopicPartition("t", 0): 1})
    clock.now += 10
    Retention(log).run()
    assert log.follow().partitions[log.state.topics["t"].topic_id, 0].start > 0, "it has deleted"
    assert told(log) == before


def test_who_has_fenced_whom(log):
    zombies = [begun(log, "a"), begun(log, "b"), begun(log, "c", opened=False), begun(log, "d")]
    assert told(log) == [
        ("b", "producer fenced", "till", 1),
        ("c", "producer fenced", "till", 1),
        ("d", "producer taken over", "till", 1),
    ]
    assert (
        log.state.trail[-2].text == "epoch 1 by another producer, or an abort; its transaction 1 is aborted"
    )
    assert log.state.trail[-1].text == "epoch 2 by another producer, or an abort; it had nothing open"
    Admin(log).abort_transaction("till")
    del zombies


def test_a_transaction_that_timed_out(log, clock):
    zombie = begun(log, "a")
    log.expire_overdue()
    clock.now += HOUR_S
    log.expire_overdue()
    assert told(log) == [("expiration", "transaction timed out", "till", 1)]
    assert zombie is not None


def test_what_happens_again_within_an_hour_is_one_event(log, clock):
    admin, first_ms = Admin(log), clock.now_ms()
    for _ in range(3):
        admin.alter_group_offsets("g", {TopicPartition("t", 0): 0})
        admin.alter_group_offsets("h", {TopicPartition("t", 0): 0})
        clock.now += HOUR_S / 2
    clock.now -= HOUR_S / 2
    assert told(log) == [("admin", "offsets of a group set", name, 3) for name in "gh"]
    assert {one.first_ms for one in log.state.trail[2:]} == {first_ms}
    clock.now += 1
    admin.alter_group_offsets("g", {TopicPartition("t", 0): 0})
    assert told(log)[-1] == ("admin", "offsets of a group set", "g", 1), (
        "an hour and a second after the first"
    )


def test_what_happens_each_few_minutes_is_an_event_for_each_hour(log, clock):
    """An operator wants to know in which hours a program was fenced, not that it was so 96 times since Monday."""
    first_ms = clock.now_ms()
    for _ in range(96):
        Admin(log).alter_group_offsets("g", {TopicPartition("t", 0): 0})
        clock.now += HOUR_S / 4
    found = log.follow().trail[2:]
    assert [one.times for one in found] == [5] * 19 + [1]
    assert [one.first_ms - first_ms for one in found] == [number * 4_500_000 for number in range(20)]
    assert all(one.timestamp_ms - one.first_ms <= 3_600_000 for one in found)


def test_events_go_after_a_time(log, clock):
    Admin(log).alter_log({"audit.retention.ms": "7200000"})
    clock.now += 2 * HOUR_S
    Admin(log).alter_log({"health.lag.max.ms": "5"})
    assert len(told(log, 0)) == 4
    clock.now += 0.001
    Admin(log).create_topic("u", 1)
    assert told(log, 0)[0] == ("admin", "settings of the log altered", "", 1)
    assert "health.lag" in log.state.trail[0].text, "the later one"


def test_restarts_are_the_first_to_go(log, monkeypatch):
    monkeypatch.setattr(trail, "MOST", 4)
    begun(log, "a", opened=False).close()
    begun(log, "b", opened=False).close()
    for name in "uv":
        Admin(log).create_topic(name, 1)
    assert [one[1:3] for one in told(log, 0)] == [
        ("log created", ""),
        *(("topic created", name) for name in "tuv"),
    ]
    Admin(log).create_topic("w", 1)
    assert [one[1:3] for one in told(log, 0)] == [("topic created", name) for name in "tuvw"]


def test_whether_all_is_known_that_was_told_since(monkeypatch):
    monkeypatch.setattr(trail, "MOST", 2)
    created = Event(6, 1, "", "topic created", "t", "", 1, 1)

    def is_known(*events, entry=5):
        return trail.goes_back_to(replace(EMPTY, seq=9, timestamp_ms=10, trail=events), entry, 0)

    assert is_known(created)
    for what in (LOG_ALTERED, TIME_SET_BACK):
        assert not is_known(created._replace(what=what)), "more may have gone than what is old by now"
        assert is_known(created._replace(what=what), entry=6)
    assert not is_known(created, created), "it is full, and all of it is younger"
    assert is_known(created._replace(entry=5), created)


def test_the_successor_of_a_static_member_has_not_joined():
    members = {"m": SimpleNamespace(instance_id="static"), "n": SimpleNamespace(instance_id=None)}
    group = Group(members=Map(members))
    state = replace(EMPTY, groups=Map({"g": group}))
    joins = [
        SimpleNamespace(group="g", member_id=f"another {instance}", instance_id=instance)
        for instance in ("static", "new", None)
    ]
    assert [len([*joined(state, state, join, "")]) for join in joins] == [0, 1, 1]


def test_it_is_in_snapshots(log):
    state = log.follow()
    assert state.trail
    assert decode_snapshot(encode_snapshot(state), state.seq, "here").trail == state.trail


def test_long_names_are_cut(log):
    Admin(log).alter_group_offsets("g" * 1000, {TopicPartition("t", 0): 0})
    (event,) = log.follow().trail[2:]
    assert event.name == "g" * 248 + "…"


def test_an_error_says_what_became_of_a_name(log):
    admin = Admin(log)
    admin.alter_group_offsets("billing", {TopicPartition("t", 0): 0})
    admin.delete_group("billing")
    for call in (lambda: admin.describe_group("billing"), lambda: admin.delete_group("billing")):
        with pytest.raises(
            GroupIdNotFoundError, match=r"\(offsets of a group deleted in entry \d by 'admin'"
        ):
            call()
    with pytest.raises(UnknownTopicOrPartitionError) as never_there:
        log.topic("u")
    assert "entry" not in str(never_there.value)
    admin.delete_topic("t")
    for call in (lambda: log.topic("t"), lambda: admin.delete_topic("t"), lambda: admin.alter_topic("t", 5)):
        with pytest.raises(UnknownTopicOrPartitionError, match=r"\(topic deleted in entry \d by 'admin'"):
            call()
