"""The admin's group tools: what kafka-consumer-groups.sh can do."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from spark_eos import Admin, OffsetAndMetadata, Producer, TopicPartition
from spark_eos.errors import (
    ConfigError,
    GroupIdNotFoundError,
    GroupNotEmptyError,
    InvalidRequestError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from spark_eos.log.log import Log
from spark_eos.protocol.actions import JoinGroup, SyncGroup
from spark_eos.storage import MemoryStore
from tests.log.fakes import FakeClock

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.fixture
def log():
    """Two topics; t-0 has records of the times 1000 to 10000 ms at offsets 0 to 9, of which 0 and 1 are gone."""
    log = Log.create(MemoryStore(), clock=FakeClock())
    Admin(log).create_topic("t", 2)
    Admin(log).create_topic("u")
    with Producer(log) as producer:
        for second in range(1, 11):
            producer.send("t", b"x", partition=0, timestamp_ms=second * 1000)
    Admin(log).delete_records({T0: 2})
    return log


@pytest.fixture
def admin(log):
    return Admin(log)


def join(log, member_id, topics=("t",), group="g", instance_id=None):
    action = JoinGroup(group, member_id, topics, ("range",), 45_000, instance_id, f"client of {member_id}")
    log.commit(lambda _state: (action,))


def sync(log, member_id, group="g"):
    log.commit(lambda state: (SyncGroup(group, member_id, state.groups[group].generation),))


def open_transaction(log, partition):
    producer = Producer(log, {"transactional.id": "app"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"x", partition=partition)
    producer.flush()
    return producer


def test_groups_have_offsets_or_members(log, admin):
    assert admin.list_groups() == []
    admin.alter_group_offsets("committed", {T0: 5})
    join(log, "m", group="joined")
    join(log, "m", group="left")
    admin.remove_members_from_group("left")
    assert admin.list_groups() == ["committed", "joined"]
    assert [*admin.describe_groups()] == ["committed", "joined"]
    for group in ("left", "never"):
        with pytest.raises(GroupIdNotFoundError, match=f"'{group}'"):
            admin.describe_group(group)


def test_a_group_whose_offsets_are_set_has_an_id(log, admin):
    before = log.follow().seq
    with pytest.raises(ConfigError, match="alter_group_offsets needs the id of a group"):
        admin.alter_group_offsets("", {T0: 5})
    with pytest.raises(InvalidRequestError, match="group=5; expected text"):
        admin.alter_group_offsets(5, {T0: 5})
    assert log.follow().seq == before


def test_an_empty_group(admin):
    admin.alter_group_offsets("g", {T0: OffsetAndMetadata(5, "note"), T1: 0})
    described = admin.describe_group("g")
    assert (described.state, described.generation, described.assignor, described.members) == (
        "Empty",
        0,
        "",
        [],
    )
    assert [(part.topic, part.partition, part.end, part.lag) for part in described.partitions] == [
        ("t", 0, 10, 5),
        ("t", 1, 0, 0),
    ]
    assert described.partitions[0].committed == OffsetAndMetadata(5, "note")


def test_members_and_what_they_hold(log, admin):
    join(log, "a", ("t", "u"))
    join(log, "b", instance_id="static")
    described = admin.describe_group("g")
    assert (described.state, described.generation) == ("PreparingRebalance", 2)
    a, b = described.members
    assert (a.member_id, a.client_id, a.instance_id, a.generation) == ("a", "client of a", None, 1)
    assert (a.topics, a.partitions) == (["t", "u"], [T0, T1, U0])
    assert (b.instance_id, b.generation, b.partitions) == ("static", 2, [])
    sync(log, "a")
    described = admin.describe_group("g")
    assert (described.state, described.assignor) == ("Stable", "range")
    assert [member.partitions for member in described.members] == [[T1, U0], [T0]]  # KIP-345: static first
    assert [(part.topic, part.committed, part.lag, part.member_id) for part in described.partitions] == [
        ("t", None, None, "b"),
        ("t", None, None, "a"),
        ("u", None, None, "a"),
    ]


def test_lag_ends_at_the_last_stable_offset(log, admin):
    admin.alter_group_offsets("g", {T0: 7})
    open_transaction(log, 0)
    (part,) = admin.describe_group("g").partitions
    assert (part.end, part.lag) == (10, 3)
    admin.alter_group_offsets("g", {T0: 11})
    (part,) = admin.describe_group("g").partitions
    assert part.lag == 0
    with Producer(log) as producer:
        producer.send("t", "behind", partition=0)
    (part,) = admin.describe_group("g").partitions
    assert (part.end, part.lag) == (10, 1), "past it, uncommitted records are read"
    admin.alter_group_offsets("g", {T0: 99})
    (part,) = admin.describe_group("g").partitions
    assert part.lag == 0


def test_deleting_a_group(log, admin):
    admin.alter_group_offsets("g", {T0: 5})
    join(log, "m")
    with pytest.raises(GroupNotEmptyError, match="'g' has 1 member"):
        admin.delete_group("g")
    admin.remove_members_from_group("g", ["m"])
    admin.delete_group("g")
    assert admin.list_groups() == []
    with pytest.raises(GroupIdNotFoundError, match="'g'"):
        admin.delete_group("g")
    admin.alter_group_offsets("left", {T0: 5})
    admin.delete_topic("t")
    admin.delete_group("left")  # Nothing is left of it but its name.


def test_deleting_offsets(log, admin):
    admin.alter_group_offsets("g", {T0: 5, T1: 0, U0: 0})
    join(log, "m", ("u",))
    assert admin.delete_group_offsets("g", [T0]) == [T0]
    assert admin.delete_group_offsets("g", ["t"]) == [T1]
    assert admin.delete_group_offsets("g", []) == []
    assert [*admin.list_group_offsets("g")] == [U0]
    with pytest.raises(GroupNotEmptyError, match="topic 'u'"):
        admin.delete_group_offsets("g", [U0])
    with pytest.raises(UnknownTopicOrPartitionError, match="'none'"):
        admin.delete_group_offsets("g", ["none"])
    with pytest.raises(UnknownTopicOrPartitionError, match="no partition 2"):
        admin.delete_group_offsets("g", [TopicPartition("t", 2)])
    with pytest.raises(GroupIdNotFoundError, match="'none'"):
        admin.delete_group_offsets("none", [T0])


def test_removing_members(log, admin):
    for member_id, instance_id in (("a", None), ("b", "static"), ("c", None), ("d", None)):
        join(log, member_id, instance_id=instance_id)
    assert admin.remove_members_from_group("g", ["c", "static"]) == ["b", "c"]
    before = log.follow()
    with pytest.raises(GroupIdNotFoundError, match=r"no member 'x'.*it has: a, d"):
        admin.remove_members_from_group("g", ["a", "x"])
    assert log.follow() is before
    assert admin.remove_members_from_group("g") == ["a", "d"]
    with pytest.raises(GroupIdNotFoundError, match="'g'"):
        admin.remove_members_from_group("g")


RESETS = {
    "earliest": ({"to_earliest": True}, 2),
    "latest": ({"to_latest": True}, 10),
    "current": ({"to_current": True}, 6),
    "offset": ({"to_offset": 4}, 4),
    "offset before the start": ({"to_offset": 1}, 2),
    "offset after the end": ({"to_offset": 99}, 10),
    "offset 0": ({"to_offset": 0}, 2),
    "forward": ({"shift_by": 3}, 9),
    "back": ({"shift_by": -3}, 3),
    "back too far": ({"shift_by": -30}, 2),
    "forward too far": ({"shift_by": 30}, 10),
    "time of a record": ({"to_datetime": 5000}, 4),
    "time between records": ({"to_datetime": 5001}, 5),
    "datetime": ({"to_datetime": datetime(1970, 1, 1, 1, 0, 5, tzinfo=timezone(timedelta(hours=1)))}, 4),
    "within a millisecond": ({"to_datetime": datetime(1970, 1, 1, 0, 0, 5, 500, tzinfo=timezone.utc)}, 5),
    "long ago": ({"to_datetime": 0}, 2),
    "time after all": ({"to_datetime": 99_000}, 10),
    "duration": ({"by_duration": timedelta(seconds=13)}, 6),
    "iso duration": ({"by_duration": "PT13S"}, 6),
    "no duration": ({"by_duration": "PT0S"}, 10),
}


@pytest.mark.parametrize(("way", "expected"), RESETS.values(), ids=RESETS)
@pytest.mark.parametrize("partitions", [[T0], None])
def test_resetting_offsets(log, admin, way, expected, partitions):
    admin.alter_group_offsets("g", {T0: OffsetAndMetadata(6, "note")})
    log.clock.now = 20.0
    before = log.follow()
    assert admin.reset_group_offsets("g", partitions, **way, dry_run=True) == {T0: expected}
    assert log.follow() is before
    assert admin.reset_group_offsets("g", partitions, **way) == {T0: expected}
    assert admin.list_group_offsets("g") == {T0: OffsetAndMetadata(expected)}


def test_a_topic_or_partition_need_not_be_in_a_list(admin):
    """A name is not its letters: those may be topics, too."""
    admin.create_topic("tu", 2)
    others = {T0: OffsetAndMetadata(5), T1: OffsetAndMetadata(0), U0: OffsetAndMetadata(0)}
    admin.alter_group_offsets("g", {**others, TopicPartition("tu", 0): 0, TopicPartition("tu", 1): 0})
    assert admin.delete_group_offsets("g", "tu") == [TopicPartition("tu", 0), TopicPartition("tu", 1)]
    assert admin.list_group_offsets("g") == others
    assert admin.delete_group_offsets("g", T1) == [T1]
    assert admin.reset_group_offsets("g", "t", to_earliest=True) == {T0: 2, T1: 0}
    assert admin.reset_group_offsets("g", T0, to_latest=True) == {T0: 10}


def test_resetting_whole_topics_of_a_new_group(admin):
    assert admin.reset_group_offsets("new", ["t", U0], to_latest=True) == {T0: 10, T1: 0, U0: 0}
    assert admin.reset_group_offsets("other", [T0], to_current=True) == {T0: 10}
    assert admin.list_groups() == ["new", "other"]


def test_the_latest_offset_leaves_out_no_record_of_an_open_transaction(log, admin):
    producer = open_transaction(log, 0)
    for way in ({"to_latest": True}, {"to_datetime": 99_000}, {"to_current": True}):
        assert admin.reset_group_offsets("g", [T0], **way, dry_run=True) == {T0: 10}
    assert admin.reset_group_offsets("g", [T0], to_offset=11) == {T0: 11}
    producer.commit_transaction()
    assert admin.reset_group_offsets("g", [T0], to_latest=True) == {T0: 12}


def test_what_cannot_be_reset(log, admin):
    with pytest.raises(InvalidRequestError, match="'g' has committed nothing for t-0"):
        admin.reset_group_offsets("g", [T0], shift_by=1)
    with pytest.raises(GroupIdNotFoundError, match="'g'"):
        admin.reset_group_offsets("g", to_earliest=True)
    with pytest.raises(UnknownTopicOrPartitionError, match="'none'"):
        admin.reset_group_offsets("g", ["none"], to_earliest=True)
    with pytest.raises(UnknownTopicOrPartitionError, match="no partition 2"):
        admin.reset_group_offsets("g", [TopicPartition("t", 2)], to_earliest=True)
    assert admin.list_groups() == []
    join(log, "m")
    with pytest.raises(GroupNotEmptyError, match="while it has members"):
        admin.reset_group_offsets("g", [T0], to_earliest=True)
    with pytest.raises(GroupNotEmptyError, match="while it has members"):
        admin.reset_group_offsets("g", [T0], to_earliest=True, dry_run=True)
    with pytest.raises(UnknownMemberIdError, match="1 member "):
        admin.alter_group_offsets("g", {T0: 5})
    assert admin.list_group_offsets("g") == {}


@pytest.mark.parametrize(
    "way", [{}, {"to_earliest": True, "to_latest": True}, {"to_offset": 0, "shift_by": 0}], ids=str
)
def test_exactly_one_way_to_reset(admin, way):
    with pytest.raises(ConfigError, match="exactly one of to_earliest"):
        admin.reset_group_offsets("g", [T0], **way)


def test_times_that_say_too_little(admin):
    with pytest.raises(ConfigError, match="time zone"):
        admin.reset_group_offsets("g", [T0], to_datetime=datetime(2020, 1, 1))  # noqa: DTZ001  (on purpose)
    with pytest.raises(ConfigError, match="by_duration='1 day'"):
        admin.reset_group_offsets("g", [T0], by_duration="1 day")
    with pytest.raises(ConfigError, match="negative"):
        admin.reset_group_offsets("g", [T0], by_duration=timedelta(seconds=-1))
    with pytest.raises(ConfigError, match="id of a group"):
        admin.reset_group_offsets("", [T0], to_earliest=True)


def late(log, monkeypatch, event):
    """Let ``event`` happen after the admin has looked and before it proposes."""
    commit = log.commit

    def then(*args, **kwargs):
        monkeypatch.setattr(log, "commit", commit)
        event()
        return commit(*args, **kwargs)

    monkeypatch.setattr(log, "commit", then)


def test_a_shift_starts_at_what_is_committed_by_then(log, admin, monkeypatch):
    admin.alter_group_offsets("g", {T0: 4})
    elsewhere = Admin(Log.open(log.store, clock=log.clock))
    late(log, monkeypatch, lambda: elsewhere.alter_group_offsets("g", {T0: 7}))
    assert admin.reset_group_offsets("g", [T0], shift_by=1) == {T0: 8}


@pytest.mark.parametrize(
    "change",
    [
        lambda admin: admin.reset_group_offsets("g", [T0], to_offset=3),
        lambda admin: admin.alter_topic("t", config={"retention.ms": "5"}),
    ],
    ids=["offsets", "settings"],
)
def test_a_topic_created_again_meanwhile_gets_nothing_of_the_old_one(log, admin, monkeypatch, change):
    elsewhere = Admin(Log.open(log.store, clock=log.clock))

    def again():
        elsewhere.delete_topic("t")
        elsewhere.create_topic("t", 2)

    late(log, monkeypatch, again)
    with pytest.raises(UnknownTopicOrPartitionError, match="created again"):
        change(admin)


def test_a_group_that_somebody_joins_meanwhile_is_not_reset(log, admin, monkeypatch):
    late(log, monkeypatch, lambda: join(Log.open(log.store, clock=log.clock), "m"))
    with pytest.raises(GroupNotEmptyError):
        admin.reset_group_offsets("g", [T0], to_earliest=True)


def test_a_group_deleted_twice_at_once_is_deleted_once(log, admin, monkeypatch):
    admin.alter_group_offsets("g", {T0: 4})
    elsewhere = Log.open(log.store, clock=log.clock)
    late(log, monkeypatch, lambda: Admin(elsewhere).delete_group("g"))
    admin.delete_group("g")
    assert log.follow().seq == elsewhere.state.seq
    assert "g" not in log.state.offsets


def carry(log, offset=8):
    """An open transaction that carries an offset of ``g`` for t-0, in the log and not with its producer alone."""
    producer = open_transaction(log, 1)
    producer.send_offsets_to_transaction({T0: offset}, "g")
    producer.flush()
    return producer


CHANGES = {
    "set": (lambda admin: admin.alter_group_offsets("g", {T0: 3}), {T0: 3}),
    "reset": (lambda admin: admin.reset_group_offsets("g", [T0], to_offset=3), {T0: 3}),
    "shift": (lambda admin: admin.reset_group_offsets("g", shift_by=-1), {T0: 4}),
    "delete": (lambda admin: admin.delete_group("g"), {}),
    "delete a partition": (lambda admin: admin.delete_group_offsets("g", [T0]), {}),
    "delete a topic": (lambda admin: admin.delete_group_offsets("g", ["t"]), {}),
}


@pytest.mark.parametrize("meanwhile", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_no_transaction_undoes_what_an_administrator_has_done(log, admin, monkeypatch, change, meanwhile):
    admin.alter_group_offsets("g", {T0: 5})
    elsewhere = Log.open(log.store, clock=log.clock)
    producers = []
    if meanwhile:
        late(log, monkeypatch, lambda: producers.append(carry(elsewhere)))
    else:
        producers.append(carry(elsewhere))
    do, left = CHANGES[change]
    do(admin)
    producers[0].commit_transaction()
    assert {at: place.offset for at, place in admin.list_group_offsets("g").items()} == left


def test_a_transaction_goes_on_after_what_an_administrator_has_done(log, admin):
    producer = carry(log)
    admin.alter_group_offsets("g", {T0: 3})
    producer.send_offsets_to_transaction({T0: 9}, "g")
    producer.commit_transaction()
    assert admin.list_group_offsets("g") == {T0: OffsetAndMetadata(9)}
