"""``eoslog status``: each trouble that it knows, what is none, and how it is printed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition
from spark_eos.cli.command import main
from spark_eos.clients.admin import ClockDescription
from spark_eos.clients.consumer.heartbeat import HeartbeatThread, heartbeat_name
from spark_eos.errors import GroupNotEmptyError, StorePermissionError, StoreUnavailableError
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.monitoring import Watch, lags, members
from spark_eos.monitoring import status as status_module
from spark_eos.monitoring.status import Space, of_error, space_of, status_of
from spark_eos.monitoring.troubles import of_state
from spark_eos.monitoring.troubles.of_state import LogView, troubles_of
from spark_eos.monitoring.troubles.trouble import LOG
from spark_eos.protocol.actions import (
    JoinGroup,
    LeaveGroup,
    RaiseStagingFloor,
)
from spark_eos.protocol.rules.notes import BACKUP, SOUND, VERIFY, note_actions, noted_ms
from spark_eos.storage import NO_SETTINGS, MemoryStore, PosixStore
from tests.clients.group_world import beats
from tests.expiration import no_expiration
from tests.log.fakes import FakeClock
from tests.needing import needs
from verification.retiring import RETIRED_AT_ONCE

DOCS = Path(__file__).parents[2] / "docs"
HOUR_S = 3600.0


@pytest.fixture
def clock():
    clock = FakeClock()
    clock.now = 1_800_000_000.0
    return clock


@pytest.fixture
def log(clock):
    log = Log.create(MemoryStore(), clock)
    Admin(log).create_topic("orders", 2)
    return log


def send(log, count=1):
    with Producer(log, {"linger.ms": 60_000}) as producer:  # One batch.
        for _ in range(count):
            producer.send("orders", b"x", partition=0)


def began(log, name, **config):
    producer = Producer(log, {"transactional.id": name, **config})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"x", partition=0)
    producer.flush()
    return producer


def look(log, clock, **options):
    found = status_of(log.store, clock=clock, **options)
    for one in found.troubles:
        assert (DOCS / one.page.partition("#")[0]).is_file()
        for command in (*one.look, *one.cure):
            assert LOG in command
    return found


def levels(found):
    return [(one.level, one.name) for one in found.troubles]


def test_a_log_without_trouble(log, clock):
    send(log, 3)
    Admin(log).alter_group_offsets("g", {TopicPartition("orders", 0): 1})
    began(log, "busy")
    clock.now += 30
    assert levels(look(log, clock)) == []


def test_a_transaction_past_its_timeout_and_one_that_takes_long(log, clock):
    began(log, "late", **{"transaction.timeout.ms": 10_000})
    began(log, "long", **{"transaction.timeout.ms": 900_000})
    clock.now += 11
    assert levels(look(log, clock)) == [("critical", "hanging transaction")]
    clock.now += 890
    late, long = look(log, clock).troubles
    assert (late.cure, long.level) == (
        (("transactions", "abort", LOG, "--transactional-id", "late"),),
        "critical",
    )


def test_one_that_holds_nothing_back_and_is_in_time_is_no_trouble(log, clock):
    began(log, "first", **{"transaction.timeout.ms": 900_000})
    began(log, "second", **{"transaction.timeout.ms": 900_000})  # Only the older one holds back.
    clock.now += 899.5
    assert levels(look(log, clock)) == []
    log.commit(lambda _: (RaiseStagingFloor(1),))
    clock.now += 0.5
    assert levels(look(log, clock)) == []


def test_many_of_a_kind_are_counted(log, clock):
    for number in range(8):
        began(log, f"late-{number}", **{"transaction.timeout.ms": 10_000})
    clock.now += 11
    found = look(log, clock).troubles
    assert len(found) == 6
    assert found[-1].text == "3 more transactions have the same trouble"
    assert found[-1].look == (("transactions", "list", LOG),)


def test_a_reader_is_behind_after_five_minutes(log, clock):
    send(log, 3)
    Admin(log).alter_group_offsets("g", {TopicPartition("orders", 0): 1})
    clock.now += 299
    assert levels(look(log, clock)) == []
    clock.now += 2
    (one,) = look(log, clock).troubles
    assert (one.level, one.name) == ("warning", "group behind")
    assert one.text == (
        "group 'g' is 2 records and 5 min behind in orders-0; it has committed offsets 5 min ago, and has no members"
    )


@needs("tables")
def test_a_publication(tmp_path, clock, monkeypatch):
    from spark_eos.extensions.tables.delta.target import DeltaTarget
    from spark_eos.extensions.tables.tables import Tables

    log = Log.create(str(tmp_path / "log"), clock)
    Admin(log).create_topic("orders", 1)
    Admin(log).alter_log({"entry.timestamp.after.max.ms": 10**12})  # Else the store's time counts.
    Tables(log).create("nightly", ["orders"])
    Tables(log).publish("nightly")
    send(log)
    clock.now += 3 * HOUR_S
    assert ("warning", "publication behind") in levels(look(log, clock))

    def refuse(*_):
        raise RuntimeError("the publisher dies here")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTarget, "commit", refuse)
        with pytest.raises(RuntimeError):
            Tables(log).publish("nightly")
    found = {one.name: one for one in look(log, clock).troubles}
    assert found.keys() == {"publication behind"}  # It may be under way.
    clock.now += HOUR_S / 2 + 1
    found = {one.name: one for one in look(log, clock).troubles}
    assert "publication behind" in found
    assert found["publication unfinished"].cure == (("tables", "publish", LOG, "--name", "nightly"),)
    Tables(log).publish("nightly")
    assert levels(look(log, clock)) == []


@needs("tables")
def test_a_publication_of_records_with_times_of_long_ago(tmp_path, clock):
    """It is behind once nothing was published for too long, whatever times the records have."""
    from spark_eos.extensions.tables.tables import Tables

    log = Log.create(str(tmp_path / "log"), clock)
    Admin(log).create_topic("orders", 1, {"retention.ms": "-1"})
    Admin(log).alter_log({"entry.timestamp.after.max.ms": 10**12})  # Else the store's time counts.
    Tables(log).create("nightly", ["orders"])

    def send_old():
        with Producer(log) as producer:
            producer.send("orders", b"x", timestamp_ms=1_000_000)

    send_old()
    assert levels(look(log, clock)) == [], "it was just created"
    clock.now += 3 * HOUR_S
    (one,) = look(log, clock).troubles
    assert one.text.endswith(" are 3 h behind: none was published yet")
    for _ in range(2):
        Tables(log).publish("nightly")
        clock.now += 1.5 * HOUR_S
        send_old()
        assert levels(look(log, clock)) == []
    clock.now += HOUR_S
    (one,) = look(log, clock).troubles
    assert (one.level, one.name) == ("warning", "publication behind")
    assert one.text == "the tables of publication 'nightly' are 2 h behind: the newest version is of 2 h ago"


def test_a_clock_that_was_ahead(log, clock):
    clock.now += 3 * HOUR_S
    log.commit(lambda _: (RaiseStagingFloor(1),))
    clock.now -= 3 * HOUR_S
    (one,) = look(log, clock).troubles
    assert (one.name, one.cure) == ("clock", ())
    assert "3 h ahead" in one.text
    assert "which of them is wrong is not known" in one.text


@pytest.mark.parametrize(
    ("store_h", "is_slow", "is_driven"), [(0, False, True), (3, True, False), (1.5, True, True)]
)
def test_which_clock_is_wrong(log, clock, store_h, is_slow, is_driven):
    """The log's time is three hours ahead of this machine's, and the store's is between them."""
    now_ms = clock.now_ms()
    clock.now += 3 * HOUR_S
    log.commit(lambda _: (RaiseStagingFloor(1),))
    store_ms = now_ms + int(store_h * HOUR_S * 1000)
    (one,) = troubles_of(LogView(log.state, now_ms, [], {}, store_ms=store_ms))
    assert ("This machine's clock is wrong" in one.text, "The log's time is wrong" in one.text) == (
        is_slow,
        is_driven,
    )
    assert one.cure == ((("clock", LOG, "--mend"),) if is_driven and not is_slow else ())


class StoreWithClock(MemoryStore):
    def __init__(self, clock):
        super().__init__()
        self.clock, self.asked = clock, 0

    def now_ms(self):
        self.asked += 1
        return self.clock.now_ms()


def test_the_store_is_asked_for_the_time_where_clocks_contradict_each_other(clock):
    store = StoreWithClock(clock)
    log = Log.create(store, clock)
    store.asked = 0
    assert status_of(store, clock=clock).troubles == []
    assert store.asked == 0
    slow = FakeClock()
    slow.now = clock.now - 3 * HOUR_S
    (one,) = status_of(store, clock=slow).troubles
    assert "This machine's clock is wrong: the store's is 3 h ahead" in one.text
    assert (one.cure, store.asked) == ((), 1)
    assert log.state.seq == 0


def test_a_machine_whose_clock_is_ahead_calls_nobody_late(clock):
    """Its cures would stop what works: here an open transaction, a member, and a group that has just come."""
    store = StoreWithClock(clock)
    log = Log.create(store, clock)
    Admin(log).create_topic("orders", 2)
    producer = began(log, "teller")
    Admin(log).create_topic("empty", 1)
    log.commit(lambda _: (JoinGroup("g", "m", ("empty",), ("range",), 45_000),))
    store.overwrite(heartbeat_name("g", "m"), b"1 %d" % clock.now_ms())
    send(log)
    with Producer(log) as other:
        other.send("orders", b"x", partition=1)
    Admin(log).alter_group_offsets("late", {TopicPartition("orders", 1): 0})
    store.asked = 0
    assert levels(status_of(store, clock=clock)) == []
    assert store.asked == 0
    fast = FakeClock()
    fast.now = clock.now + 48 * HOUR_S
    (one,) = status_of(store, clock=fast).troubles
    assert (one.level, one.name, one.cure) == ("warning", "clock", ())
    assert one.text.startswith("this machine's clock is wrong: it is 2 d ahead of the store's")
    clock.now += 48 * HOUR_S  # And of what is late it says so.
    names = {trouble.name for trouble in status_of(store, clock=fast).troubles}
    assert names == {"hanging transaction", "silent member", "group behind"}
    producer.close()


@pytest.mark.parametrize("ahead_h", [48, -48])
def test_all_views_go_by_the_store_where_this_machines_clock_is_wrong(clock, ahead_h):
    store = StoreWithClock(clock)
    log = Log.create(store, clock)
    Admin(log).create_topic("orders", 2)
    producer = began(log, "teller")
    with Producer(log) as other:
        other.send("orders", b"x", partition=1)
    Admin(log).alter_group_offsets("late", {TopicPartition("orders", 1): 0})
    clock.now += 30
    wrong = FakeClock()
    wrong.now = clock.now + ahead_h * HOUR_S
    there, store.asked = Log.open(store, wrong), 0
    assert {lag.time_ms for lag in lags(there) if lag.offsets} == {30_000}
    watch = Watch(there)
    shown = [watch.look() for _ in range(5)]
    assert {(one.now_ms, one.transactions[0].age_ms) for one in shown} == {(clock.now_ms(), 30_000)}
    assert Admin(there).list_transactions(duration_ms=60_000) == []
    assert len(Admin(there).list_transactions(duration_ms=10_000)) == 1
    assert Admin(there).find_hanging_transactions() == []
    assert store.asked == 1
    assert status_of(store, clock=wrong).activity.now_ms == clock.now_ms()
    producer.close()


@pytest.mark.parametrize(
    ("apart_h", "told"), [(-3, "3 h behind the store's"), (3, "3 h ahead of the store's")]
)
def test_clock_says_that_this_machines_is_wrong(clock, capsys, monkeypatch, apart_h, told):
    now_ms = clock.now_ms()
    found = ClockDescription(now_ms, now_ms, now_ms + apart_h * 3_600_000, is_ahead=False)
    monkeypatch.setattr(Admin, "describe_clock", lambda _: found)
    assert main(["clock", "memory://clocks"]) == 0
    assert f"this machine's clock is wrong: it is {told}: set it\n" in capsys.readouterr().out


def test_a_group_that_has_committed_nothing(log, clock, monkeypatch):
    monkeypatch.setattr(HeartbeatThread, "start", lambda _thread: None)
    with Consumer(log, {"group.id": "g", "enable.auto.commit": False}) as consumer:
        consumer.subscribe(["orders"])
        consumer.poll(0)
        beats(consumer).step()
        assert levels(look(log, clock)) == []  # There is nothing to read.
        send(log, 150)
        (one,) = look(log, clock).troubles
        assert (one.level, one.name, one.about) == ("note", "lag unknown", "g")
        assert "orders-0" in one.text
        assert "up to 150 offsets" in one.text
        consumer.poll(0)
        consumer.commit()
        assert levels(look(log, clock)) == []


def test_a_member_that_was_killed(log, clock, monkeypatch):
    """It was the last one: no other member removes it."""
    monkeypatch.setattr(HeartbeatThread, "start", lambda _thread: None)
    consumer = Consumer(log, {"group.id": "g", "enable.auto.commit": False, "client.id": "till"})
    consumer.subscribe(["orders"])
    consumer.poll(0)
    member = next(iter(log.follow().groups["g"].members))
    beats(consumer).step()
    clock.now += 89
    assert levels(look(log, clock)) == []
    clock.now += 2
    (one,) = look(log, clock).troubles
    assert (one.level, one.name, one.about) == ("warning", "silent member", "g")
    assert f"1 of 1 members of group 'g' show no sign of life: {member!r} (till) for 91.0 s" in one.text
    assert one.cure == (("groups", "remove-members", LOG, "--group", "g"),)
    for call in (
        Admin(log).delete_group,
        lambda group: Admin(log).reset_group_offsets(group, to_earliest=True, partitions=["orders"]),
    ):
        with pytest.raises(GroupNotEmptyError, match="eoslog groups remove-members"):
            call("g")
    Admin(log).remove_members_from_group("g")
    assert levels(look(log, clock)) == []


def test_a_member_without_any_sign(log, clock):
    """The log was restored, say: signs of life are not in a backup."""
    log.commit(lambda _: (JoinGroup("g", "m", ("orders",), ("range",), 45_000),))
    assert levels(look(log, clock)) == [], "its first one is on the way"
    clock.now += 89
    log.commit(
        lambda _: (JoinGroup("g", "m", ("orders", "t"), ("range",), 45_000),)
    )  # As after another `subscribe`.
    assert levels(look(log, clock)) == []
    clock.now += 1
    (one,) = look(log, clock).troubles
    assert (one.level, one.name) == ("note", "silent member")
    assert "'m', none is in the store" in one.text


def test_a_member_that_leaves_while_it_is_looked_for(log, clock, monkeypatch):
    log.commit(lambda _: (JoinGroup("g", "m", ("orders",), ("range",), 45_000),))
    clock.now += 91
    state, read = log.state, log.store.read

    def leaves(name, *place):
        if name == heartbeat_name("g", "m") and log.state is state:
            log.commit(lambda _: (LeaveGroup("g", ("m",)),))
        return read(name, *place)

    monkeypatch.setattr(log.store, "read", leaves)
    assert members.silent_members(log, state, clock.now_ms()) == []


def test_of_many_members_those_that_are_silent_are_removed(log, clock):
    for number in range(3):
        join = (JoinGroup("g", f"m{number}", ("orders",), ("range",), 45_000),)
        log.commit(lambda _, join=join: join)
        log.store.overwrite(heartbeat_name("g", f"m{number}"), b"1 %d" % (clock.now_ms() - number * 60_000))
    (one,) = look(log, clock).troubles
    assert one.cure == (("groups", "remove-members", LOG, "--group", "g", "--member", "m2"),)


def test_members_that_were_not_asked_are_not_called_alive(log, clock, monkeypatch):
    monkeypatch.setattr(members, "MOST", 3)
    for group, count in (("a", 2), ("b", 2), ("c", 1)):
        for number in range(count):
            join = (JoinGroup(group, f"m{number}", ("orders",), ("range",), 45_000),)
            log.commit(lambda _, join=join: join)
            log.store.overwrite(heartbeat_name(group, f"m{number}"), b"1 %d" % clock.now_ms())
    (one,) = look(log, clock).troubles
    assert (one.level, one.name) == ("note", "members not looked at")
    assert one.text == (
        "only the first 3 of 5 members were asked for a sign of life, by the names of their groups: of 2 members it is "
        "not known whether they are silent, of groups 'b', 'c'"
    )


def test_a_wide_transaction_within_its_timeout_is_named(log, clock):
    began(log, "wide", **{"transaction.timeout.ms": 900_000})
    send(log, 1000)
    clock.now += 59
    assert levels(look(log, clock)) == []
    clock.now += 1
    (one,) = look(log, clock).troubles
    assert (one.level, one.name, one.cure, one.about) == ("note", "held back", (), "wide")
    assert "holds back 1,001 offsets of orders-0 from offset 0" in one.text


def test_a_prepared_transaction_is_not_to_be_aborted_from_here(log, clock):
    producer = began(log, "bank", **{"transaction.two.phase.commit.enable": True})
    producer.prepare_transaction()
    send(log, 1000)
    clock.now += 60
    assert levels(look(log, clock)) == [("note", "prepared waits")], "it holds much back"
    clock.now += 841
    (one,) = look(log, clock).troubles
    assert (one.level, one.name, one.cure) == ("warning", "prepared waits", ())
    assert "prepared, and waits for the decision of another system" in one.text
    assert one.page == "runbooks/prepared-waits.md"


def test_entries_without_a_snapshot(clock, monkeypatch):
    monkeypatch.setattr(of_state, "UNSEALED", 10)
    log = Log.create(MemoryStore(), clock, snapshot_interval=5, config=RETIRED_AT_ONCE)
    log.does_maintenance = False
    for number in range(12):
        log.commit(lambda _, number=number: (RaiseStagingFloor(number),))
    (one,) = look(log, clock).troubles
    assert (one.name, one.cure) == ("no snapshot", (("maintain", LOG, "--only", "snapshot,retire"),))
    assert [done.error for done in Maintainer(log, only=("snapshot", "retire")).run()] == [None, None]
    assert levels(look(log, clock)) == []


def test_small_batches(log, clock):
    topic_id = log.state.topics["orders"].topic_id
    now_ms = clock.now_ms()
    for count, expected in ((5_000, []), (5_001, ["small batches"])):
        small = {(topic_id, 0): 5_000, (topic_id, 1): count}
        assert [one.name for one in troubles_of(LogView(log.state, now_ms, [], small))] == expected


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (None, []),
        (Space(60 << 30, 1000 << 30), []),
        (Space(40 << 30, 1000 << 30), [("note", "little space")]),
        (Space(9 << 30, 1000 << 30), [("critical", "disk full")]),
        (Space(1000, 10_000), [("critical", "disk full")]),  # So little that no file fits.
        (Space(500 << 30, 1000 << 30, has_names=False), [("critical", "disk full")]),
        (Space(500 << 30, 1000 << 30, is_read_only=True), [("note", "read-only")]),
    ],
)
def test_the_space_that_is_left(log, clock, space, expected):
    assert levels(look(log, clock, space=lambda _: space)) == expected


@pytest.mark.parametrize(("flag", "expected"), [(os.ST_RDONLY, True), (os.ST_NOSUID, False)])
def test_a_mount_that_is_read_only(tmp_path, monkeypatch, flag, expected):
    names = SimpleNamespace(f_files=0, f_favail=0, f_flag=flag)
    monkeypatch.setattr(os, "statvfs", lambda _: names)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1, total=2))
    space = space_of(PosixStore(tmp_path))
    assert (space.is_read_only, space.has_names) == (expected, True), "it does not count names"
    names.f_files = 7
    assert not space_of(PosixStore(tmp_path)).has_names


def test_the_worst_is_told_first(log, clock):
    began(log, "late", **{"transaction.timeout.ms": 10_000})
    clock.now += 11
    found = look(log, clock, space=lambda _: Space(40 << 30, 1000 << 30))
    assert levels(found) == [("critical", "hanging transaction"), ("note", "little space")]


def test_a_full_disk_is_told_of_a_log_that_cannot_be_read(clock):
    found = status_of(MemoryStore(), clock=clock, space=lambda _: Space(0, 1000))
    assert levels(found) == [("critical", "NOT_A_LOG"), ("critical", "disk full")]
    assert found.activity is None


def test_a_store_that_fails_in_the_middle(log, clock, monkeypatch):
    began(log, "late", **{"transaction.timeout.ms": 10_000})
    clock.now += 11

    def refuse(*_):
        raise StoreUnavailableError("the store is busy")

    monkeypatch.setattr(status_module, "_snapshots", refuse)
    found = status_of(log.store, clock=clock)
    assert levels(found) == [("critical", "hanging transaction"), ("critical", "STORE_UNAVAILABLE")]


# -- Backups and verifications --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "name", "limit", "days"),
    [
        (BACKUP, "no backup", "health.backup.age.max.ms", 2),
        (VERIFY, "no verify", "health.verify.age.max.ms", 31),
    ],
)
def test_the_last_one_is_too_long_ago(log, clock, job, name, limit, days):
    assert levels(look(log, clock)) == []  # It may be done by other means: that is not known.
    Admin(log).alter_log({limit: days * 24 * 3_600_000})
    (one,) = look(log, clock).troubles
    assert (one.level, one.name) == ("warning", name)
    assert one.text == f"{limit} is set, and no {job} --note has ended yet"
    results = (SOUND,) if job == VERIFY else ()
    log.commit(lambda state: note_actions(state, job, *results))
    assert levels(look(log, clock)) == []
    Admin(log).alter_log({limit: None})  # A note is enough to be missed.
    noted_at = clock.now
    clock.now += days * 24 * HOUR_S
    assert levels(look(log, clock)) == []
    clock.now += 1
    (one,) = look(log, clock).troubles
    assert (one.level, one.name) == ("warning", name)
    assert one.text == f"the last {job} --note has ended {days} d ago"
    clock.now = noted_at + days * 24 * HOUR_S
    log.commit(lambda state: note_actions(state, job, *results))
    assert levels(look(log, clock)) == []


@needs("backup")
def test_a_backup_is_noted_once_it_is_whole_if_it_is_to_be(tmp_path, capsys):
    log = Log.create(str(tmp_path / "log"))
    assert main(["backup", log.url, str(tmp_path / "backups")]) == 0
    assert log.follow().seq == 0  # It has only read.
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "file").write_text("no repository")
    assert main(["backup", log.url, str(tmp_path / "else"), "--note"]) == 1
    assert log.follow().seq == 0
    assert main(["backup", log.url, str(tmp_path / "backups"), "--note"]) == 0
    assert noted_ms(log.follow(), BACKUP) == log.state.timestamp_ms
    capsys.readouterr()


@needs("backup")
def test_a_backup_that_cannot_be_noted_is_made_and_says_so(tmp_path, capsys, monkeypatch):
    log = Log.create(str(tmp_path / "log"))

    def refuse(*_):
        raise StorePermissionError("cannot create: it is not allowed. Nothing was done")

    monkeypatch.setattr(Admin, "note_backup", refuse)
    assert main(["backup", log.url, str(tmp_path / "backups"), "--name", "tuesday", "--note"]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("backup tuesday of log ")
    assert "not noted in the log, but the backup is made: cannot create: it is not allowed" in err
    assert "[STORE_PERMISSION]" in err


# -- Fencings ---------------------------------------------------------------------------------------


def test_programs_that_end_and_are_started_again_are_no_trouble(log, clock):
    """As cron does. To give each run its own id, as a warning has advised, would give up exactly-once."""
    for run in range(4):
        with Producer(log, {"transactional.id": "nightly"}) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("orders", b"%d" % run)
            producer.commit_transaction()
    assert levels(look(log, clock)) == []


def test_two_programs_that_take_it_from_each_other_are(log, clock):
    for _ in range(4):
        began(log, "payer")
    (one,) = [one for one in look(log, clock).troubles if one.name == "fenced"]
    assert one.level == "warning"
    assert "was fenced 3 times in " in one.text
    assert "its transaction 2 is aborted" in one.text


def test_of_many_that_were_fenced_the_others_are_counted(log, clock):
    for number in range(7):
        for _ in range(2):
            began(log, f"payer-{number}").close()
        began(log, f"payer-{number}")
        Admin(log).abort_transaction(f"payer-{number}")
    for _ in range(2):
        began(log, "payer-6")
    found = [one for one in look(log, clock).troubles if one.name == "fenced"]
    assert [one.about for one in found] == ["payer-6", *(f"payer-{number}" for number in range(4)), ""], (
        "the most often first"
    )
    assert found[-1].text == "2 more transactional.ids have the same trouble"
    assert found[-1].look == (("audit", LOG),)


def test_what_was_fenced_long_ago_is_not_told(log, clock):
    for _ in range(2):
        began(log, "payer")
    Producer(log, {"transactional.id": "payer"}).init_transactions()
    assert levels(look(log, clock)) == [("note", "fenced")]
    clock.now += HOUR_S + 1
    assert levels(look(log, clock)) == []


def test_one_that_is_fenced_once_an_hour_is_not_fenced_often(log, clock):
    began(log, "payer")
    for _ in range(6):
        clock.now += HOUR_S - 60
        began(log, "payer")
        (one,) = [one for one in look(log, clock).troubles if one.name == "fenced"]
        assert one.level == "note"
    for _ in range(3):
        began(log, "payer")
    (one,) = [one for one in look(log, clock).troubles if one.name == "fenced"]
    assert one.level == "warning"


def test_a_timeout_has_fenced(log, clock):
    began(log, "late", **{"transaction.timeout.ms": 10_000})
    log.follow()
    log.expire_overdue()
    clock.now += 11
    log.expire_overdue()
    (one,) = look(log, clock).troubles
    assert one.level == "note"
    assert "transaction 0 of epoch 0 is aborted" in one.text
    for _ in range(2):
        began(log, "late")
    (one,) = [one for one in look(log, clock).troubles if one.name == "fenced"]
    assert one.text.startswith("transactional.id 'late' was fenced 2 times in ")


# -- How it is printed ------------------------------------------------------------------------------


def test_commands_can_be_typed_whatever_the_names_are(tmp_path, capsys):
    url = str(tmp_path / "a log; with $(names)")
    log = Log.create(url)
    Admin(log).create_topic("orders", 1)
    config = tmp_path / "my config"
    config.write_text("")
    with no_expiration():
        began(log, "till 7 'x'", **{"transaction.timeout.ms": 1})
    while main(["status", url, "--command-config", str(config)]) == 0:
        capsys.readouterr()  # The millisecond is not over.
    (cure,) = re.findall(r"cure:  (.*)", capsys.readouterr().out)
    words = shlex.split(cure)
    assert words[3] == url
    assert words[-2:] == ["--command-config", str(config)]
    assert main(words[1:]) == 0
    assert main(["status", url]) == 0


def test_as_json(tmp_path, capsys):
    urls = [str(tmp_path / name) for name in ("a", "b", "none")]
    for url in urls[:2]:
        Admin(Log.create(url)).create_topic("orders", 1)
    assert main(["status", *urls[:2], "--json"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["log"], second["log"], second["troubles"]) == (urls[0], urls[1], [])
    assert main(["status", *urls, "--json"]) == 1
    *_, last = map(json.loads, capsys.readouterr().out.splitlines())
    (trouble,) = last["troubles"]
    assert (last["entry"], trouble["name"], trouble["level"]) == (None, "NOT_A_LOG", "critical")
    assert trouble["page"].endswith("docs/reference/error-codes.md#not_a_log")
    assert not Path(urls[2]).exists()


def test_one_log_twice_is_refused(log_url, capsys):
    Log.create(log_url)
    assert main(["status", log_url, log_url]) == 1
    assert "named twice" in capsys.readouterr().err


def test_advice_where_a_right_is_missing():
    """A folder has users, a bucket has credentials."""
    error = StorePermissionError("cannot read")
    folder, bucket = (of_error(error, NO_SETTINGS, is_bucket=is_bucket).advice for is_bucket in (False, True))
    assert "as another user" in folder
    assert "--command-config" not in folder
    assert bucket.startswith(
        "see to these credentials, as the text says"
    )  # They may be wrong, or have expired.
    assert "--command-config" in bucket


def test_of_a_log_that_cannot_be_opened_nothing_else_is_advised(tmp_path, capsys):
    assert main(["status", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "NOT_A_LOG" in shown
    assert "not looked at" not in shown
