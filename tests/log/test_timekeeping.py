"""A client whose clock is years off writes to a log: its time, and all that goes by it, stays right."""

from __future__ import annotations

import logging
import time

import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import InvalidRequestError, StorePermissionError
from spark_eos.log import paths
from spark_eos.log.clock import SYSTEM
from spark_eos.log.log import Log
from spark_eos.log.time_travel import entry_at_time
from spark_eos.log.timekeeping import Timekeeper
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.maintenance.retention import Retention
from spark_eos.maintenance.verify.verify import Verdict, verify
from spark_eos.protocol.actions import (
    CreateLog,
    CreateTopic,
    ExpireProducers,
    JoinGroup,
    Request,
    ResetLogTime,
)
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.apply import Rejected, apply
from spark_eos.protocol.state import EMPTY
from spark_eos.storage import PosixStore
from spark_eos.storage.memory import MemoryStore
from tests.log.fakes import FakeClock, create, grow
from tests.starting import run
from verification.retiring import RETIRED_AT_ONCE

HOUR_MS = 3_600_000
YEARS_S = 73 * 365 * 86_400.0
AT = TopicPartition("t", 0)


class Off:
    """This machine's clock, off by some seconds."""

    def __init__(self, by_s):
        self.by_s = by_s

    def now_ms(self):
        return SYSTEM.now_ms() + int(self.by_s * 1000)

    def now_ns(self):
        return self.now_ms() * 1_000_000

    def __getattr__(self, name):
        return getattr(SYSTEM, name)


class Timed(MemoryStore):
    """A store far away whose clock is the test's; ``asked`` is how often it was."""

    requests_are_free = False

    def __init__(self, clock):
        super().__init__()
        self.clock = clock
        self.asked = 0

    def now_ms(self):
        self.asked += 1
        return self.clock.now_ms()


def skewed(clock, by_s):
    """Another machine's clock: the same seconds, other years."""
    other = FakeClock()
    other.now_ms = lambda: int((clock.now + by_s) * 1000)
    other.monotonic = clock.monotonic
    other.unique = clock.unique
    return other


@pytest.fixture
def clock():
    clock = FakeClock()
    clock.now = 1.8e9
    return clock


@pytest.fixture
def store(clock):
    return Timed(clock)


@pytest.fixture
def log(store, clock):
    return Log.create(store, clock)


def used(log):
    """Clients that are alive: an idempotent producer, a transactional id, a group."""
    Admin(log).create_topic("t")
    producer = Producer(log)
    producer.send("t", b"one")
    producer.flush()
    named = Producer(log, {"transactional.id": "app"})
    named.init_transactions()
    Admin(log).alter_group_offsets("g", {AT: 1})
    return producer, named


def assert_alive(log, producer, named):
    state = log.follow()
    assert "app" in state.transactional_ids
    assert state.offset_of("g", "t", 0).offset == 1
    producer.send("t", b"more")
    producer.flush()
    named.begin_transaction()
    named.send("t", b"committed")
    named.commit_transaction()


@pytest.mark.parametrize("by_s", [YEARS_S, -50 * 365 * 86_400.0])
def test_a_client_that_is_years_off_changes_nothing_for_the_others(tmp_path, by_s):
    """On a folder, with real clients: it writes, expires what is overdue and maintains; the others go on."""
    url = str(tmp_path / "log")
    right = Log.create(url)
    others = used(right)
    wrong = Log.open(url, Off(by_s))
    with Producer(wrong) as producer:
        producer.send("t", b"by a wrong clock")
    Admin(wrong).expire()
    [*Maintainer(wrong, min_age_s=0).run(wait=False)]
    assert abs(right.follow().timestamp_ms - SYSTEM.now_ms()) < HOUR_MS
    assert_alive(right, *others)
    time.sleep(0.002)
    assert entry_at_time(right, SYSTEM.now_ms()) == right.follow().seq
    with Consumer(right, {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}) as reader:
        reader.assign([AT])
        values = [record.value for record in reader.poll()]
    assert values == [b"one", b"by a wrong clock", b"more", b"committed"]


def test_a_process_whose_time_is_patched_as_a_whole(tmp_path):
    """Not through a `Clock`: all that asks Python for the time is told another year, group commit as well."""
    url = str(tmp_path / "log")
    right = Log.create(url)
    others = used(right)
    run("log/works_in_another_year", url, YEARS_S)
    assert abs(right.follow().timestamp_ms - SYSTEM.now_ms()) < HOUR_MS
    assert_alive(right, *others)


def test_a_log_that_a_wrong_clock_creates_has_the_stores_time(tmp_path):
    log = Log.create(tmp_path / "log", Off(YEARS_S))
    assert abs(log.state.timestamp_ms - SYSTEM.now_ms()) < HOUR_MS


def test_a_clock_that_is_right_costs_nothing(log, store, clock):
    store.asked = 0
    for number in range(5):
        clock.now += 1800
        log.commit(create(f"t{number}"))
    assert store.asked == 0
    clock.now += 86_400  # It has seen the time pass.
    log.commit(create("later"))
    assert store.asked == 0
    assert log.state.timestamp_ms == clock.now_ms()


def test_a_log_that_was_idle_costs_one_question(log, store, clock):
    clock.now += 86_400
    store.asked = 0
    again = Log.open(store, skewed(clock, 5))
    for number in range(3):
        again.commit(create(f"t{number}"))
        clock.now += 60
    assert store.asked == 1
    assert abs(log.follow().timestamp_ms - clock.now_ms()) < HOUR_MS


def test_a_clock_that_jumps_back_and_forth(log, store, clock):
    wrong = skewed(clock, 0)
    jumping = Log.open(store, wrong)
    for number, by_s in enumerate([YEARS_S, -YEARS_S, 3000, 3500, 7100, 10_700, YEARS_S, 0]):
        wrong.now_ms = lambda by_s=by_s: int((clock.now + by_s) * 1000)
        clock.now += 1
        jumping.commit(create(f"t{number}"))
        assert abs(log.follow().timestamp_ms - clock.now_ms()) <= HOUR_MS


def test_a_warning_names_both_clocks_once(log, store, clock, caplog):
    wrong = Log.open(store, skewed(clock, YEARS_S))
    with caplog.at_level(logging.WARNING):
        wrong.commit(create("a"))
        wrong.commit(create("b"))
    (warning,) = [one for one in caplog.records if "clock" in one.message]
    assert "hours ahead of that of memory://" in warning.message
    assert log.follow().timestamp_ms <= clock.now_ms()


def test_where_the_store_cannot_tell_a_wrong_clock_is_held_back(clock):
    store = MemoryStore()
    log = Log.create(store, clock)
    wrong = Log.open(store, skewed(clock, YEARS_S))
    grow(wrong, "t", 20)
    assert log.follow().timestamp_ms <= clock.now_ms() + HOUR_MS


def test_a_store_that_may_not_be_asked_is_not_asked_again_and_again(log, store, clock):
    def deny():
        store.asked += 1
        raise StorePermissionError("no")

    store.now_ms, store.asked = deny, 0
    wrong = Log.open(store, skewed(clock, YEARS_S))
    grow(wrong, "t", 5)
    assert store.asked == 1
    assert log.follow().timestamp_ms <= clock.now_ms() + HOUR_MS


def test_who_believes_any_clock_says_so_for_the_log(log, store, clock):
    Admin(log).alter_log({"entry.timestamp.after.max.ms": 10**15})
    wrong = Log.open(store, skewed(clock, YEARS_S))
    wrong.commit(create("t"))
    assert wrong.state.timestamp_ms > clock.now_ms() + YEARS_S * 999


# -- The rules ------------------------------------------------------------------------------------------------


def test_a_request_that_was_not_checked_moves_the_time_by_an_hour():
    state, _ = apply(EMPTY, Request(bytes(16), 1_000, (CreateLog("log"),)))
    state, _ = apply(state, Request(bytes(16), 10**14, (CreateTopic("t", "id", 1),)))
    assert state.timestamp_ms == 1_000 + HOUR_MS
    state, _ = apply(state, Request(bytes(16), 10**12, (), clock_checked=True))
    assert state.timestamp_ms == 10**12
    state, _ = apply(state, Request(bytes(16), 253_402_300_799_999, (), clock_checked=True))
    assert state.timestamp_ms == 253_402_300_799_999


def test_nothing_expires_by_a_clock_that_was_not_checked(log):
    Producer(log).flush()
    Admin(log).alter_log({"producer.id.expiration.ms": 1})
    used(log)
    state = log.follow()
    (idle,) = [one for one in state.producers if state.producers[one].transactional_id is None]
    request = Request(bytes(16), state.timestamp_ms + 1000, (ExpireProducers((idle,)),))
    assert isinstance(apply(state, request)[1], Rejected)
    assert not isinstance(apply(state, request._replace(clock_checked=True))[1], Rejected)


def test_the_time_is_set_back_by_a_checked_clock_alone(log):
    state = log.state
    request = Request(bytes(16), 5, (ResetLogTime(5),))
    assert "the store's clock alone" in str(apply(state, request)[1].error)
    for time_ms in (0, -1, state.timestamp_ms):
        outcome = apply(state, request._replace(actions=(ResetLogTime(time_ms),), clock_checked=True))[1]
        assert isinstance(outcome.error, InvalidRequestError)


# -- A log whose time was driven ahead ---------------------------------------------------------------------------


@pytest.fixture
def ahead(tmp_path, monkeypatch):
    """A log whose time is 73 years ahead, with something used before and since."""
    log = Log.create(tmp_path / "log", snapshot_interval=4, config=RETIRED_AT_ONCE)
    others = used(log)
    with monkeypatch.context() as patch:
        patch.setattr(PosixStore, "now_ms", lambda _: SYSTEM.now_ms() + int(YEARS_S * 1000))
        wrong = Log.open(tmp_path / "log", Off(YEARS_S))
        with Producer(wrong) as producer:
            producer.send("t", b"by a wrong clock")
        Admin(wrong).alter_group_offsets("late", {AT: 1})
        wrong.commit(lambda _: (JoinGroup("new", "m", ("t",), ("range",), 45_000),))
        Admin(wrong).note_backup()
    assert log.follow().timestamp_ms > SYSTEM.now_ms() + YEARS_S * 999
    return log, others


def test_before_it_is_mended_nothing_expires_and_the_command_is_named(ahead):
    log, others = ahead
    assert Admin(log).expire(trust_clock=True).producers == []
    found = []
    verify(log.store, found.append)
    (note,) = [one for one in found if one.verdict is Verdict.NOTE and "time" in one.text]
    assert "eoslog clock --mend" in note.remedy
    texts = [done.text for done in Maintainer(log, only=["expire"]).run()]
    assert "eoslog clock --mend" in texts[0]
    assert_alive(log, *others)


def test_a_log_is_mended(ahead):
    log, others = ahead
    before = log.follow()
    after = Admin(log).mend_clock()
    assert not after.is_ahead
    assert abs(after.log_ms - SYSTEM.now_ms()) < HOUR_MS
    state = log.state
    times = [one.last_ms for one in state.producers.values()]
    times += [known.timestamp_ms for offsets in state.offsets.values() for known in offsets.values()]
    times += [one.joined_ms for group in state.groups.values() for one in group.members.values()]
    times += [one.timestamp_ms for one in state.app_versions.values()]  # Else no backup is old for years.
    assert max(times) <= after.log_ms
    assert state.offset_of("late", "t", 0).offset == 1
    # The time of files is a few milliseconds behind the clock: an offset just committed may be later than it.
    used_ms = before.offset_of("g", "t", 0).timestamp_ms
    assert state.offset_of("g", "t", 0).timestamp_ms == min(used_ms, after.log_ms)
    assert Admin(log).mend_clock().log_ms == log.state.timestamp_ms, "there is nothing to mend"
    seq = log.state.seq
    now_ms = SYSTEM.now_ms()
    assert_alive(log, *others)
    assert log.state.seq > seq
    assert (
        entry_at_time(log, now_ms + HOUR_MS // 2 if now_ms > log.state.timestamp_ms else SYSTEM.now_ms())
        >= seq
    )
    log.maintenance.snapshot()
    assert Log.open(log.url).state == log.follow()
    Admin(log).alter_log({"offsets.retention.minutes": 1, "producer.id.expiration.ms": 1})
    time.sleep(0.01)
    Admin(log).create_topic("later")
    assert Admin(log).expire().producers, "expiry goes on"


def test_time_travel_over_the_stretch_that_was_ahead(store, clock):
    log = Log.create(store, clock)
    times = []

    def at(time_s, *names):
        clock.now = time_s
        for name in names:
            log.commit(create(name))
            times.append((clock.now_ms(), log.state.seq))

    at(1.8e9 + 10, "a", "b")
    at(1.8e9 + YEARS_S, "c", "d", "e")
    clock.now = 1.8e9 + 20
    log = Log.open(store, clock)
    log.commit(lambda _: (ResetLogTime(clock.now_ms()),))
    at(1.8e9 + 30, "f")
    at(1.8e9 + 40, "g", "h", "i")
    log.maintenance.snapshot()
    for time_ms, seq in (
        (times[1][0], times[1][1]),
        (times[5][0], times[5][1]),
        (times[5][0] + 1, times[5][1]),
    ):
        assert entry_at_time(log, time_ms) == seq
    assert entry_at_time(log, clock.now_ms()) == log.state.seq


def test_time_travel_over_snapshots_of_the_stretch_that_was_ahead(store, clock):
    """They are later than the moment that is asked for, and the entries after them are not."""
    log = Log.create(store, clock, snapshot_interval=4).without_maintenance()
    times = {}

    def at(time_s, *names):
        clock.now = time_s
        for name in names:
            log.commit(create(name))
            log.maintenance.snapshot()
            times[name] = clock.now_ms(), log.state.seq

    at(1.8e9 + 10, *"abcde")
    at(1.8e9 + YEARS_S, *"fghijklm")
    clock.now = 1.8e9 + 20
    log = Log.open(store, clock).without_maintenance()
    log.commit(lambda _: (ResetLogTime(clock.now_ms()),))
    at(1.8e9 + 30, "n")
    at(1.8e9 + 40, *"opqrst")
    at(1.8e9 + 50, "u")
    ahead = [info.name for info in store.list(paths.SNAPSHOTS)]
    assert paths.snapshot(12) in ahead, "the stretch has one"
    for name in "ent":
        time_ms, seq = times[name]
        assert [entry_at_time(log, time_ms), entry_at_time(log, time_ms + 1)] == [seq, seq]


@pytest.mark.parametrize("by_s", [YEARS_S, -YEARS_S], ids=["ahead", "behind"])
def test_who_sets_the_time_back_on_a_machine_that_is_wrong_is_told(ahead, by_s):
    log, _ = ahead
    wrong = Log.open(log.url, Off(by_s))
    with pytest.raises(InvalidRequestError, match="one of them is wrong"):
        Admin(wrong).mend_clock()


def test_a_log_that_was_idle_expires_by_a_day_at_most(store, clock):
    log = Log.create(store, clock)
    used(log)
    clock.now += 10 * 86_400
    again = Log.open(store, skewed(clock, 0))
    for trust, things in ((False, "1 thing"), (True, "3 things")):
        (done,) = Maintainer(again, only=["expire"], dry_run=True, trust_clock=trust).run()
        assert done.text == f"would end {things} past their time"
    assert Admin(again).expire().transactional_ids == []
    assert Admin(again).expire(trust_clock=True).transactional_ids == ["app"]


def test_the_store_is_believed_for_an_hour(log, store, clock):
    wrong = skewed(clock, YEARS_S)
    keeper = Timekeeper(store, wrong)
    store.asked = 0
    keeper.stamp(log.state)
    keeper.stamp(log.state)
    assert store.asked == 1
    clock.now += 3601
    assert keeper.stamp(log.state).timestamp_ms == clock.now_ms()
    assert store.asked == 2


@pytest.mark.parametrize("by_s", [-48 * 3600, 48 * 3600])
def test_so_long_ago_and_yet_to_come_are_by_the_stores_clock(log, store, clock, by_s):
    with Producer(log) as producer:
        for age_s in (7200, 1800):
            producer.send("t", b"x", timestamp_ms=clock.now_ms() - age_s * 1000)
    there = Log.open(store, skewed(clock, by_s))
    asked = store.asked
    Admin(there).reset_group_offsets("g", ["t"], to_earliest=True, dry_run=True)
    assert store.asked == asked, "only for what goes by the time"
    targets = Admin(there).reset_group_offsets("g", ["t"], by_duration="PT1H", dry_run=True)
    assert targets == {AT: 1}
    with Consumer(there, {"auto.offset.reset": "by_duration:PT1H"}) as reader:
        reader.assign([AT])
        assert [record.offset for record in reader.poll()] == [1]
    clock.now += 60
    assert entry_at_time(there, clock.now_ms() - 1) == log.state.seq
    with pytest.raises(InvalidRequestError, match="is yet to come"):
        entry_at_time(there, clock.now_ms() + 60_000)


def test_a_store_that_can_tell_no_more_is_believed_for_records(log, store, clock, monkeypatch):
    keeper = Timekeeper(store, skewed(clock, YEARS_S))
    assert keeper.record_ms(log.state) == clock.now_ms()
    monkeypatch.setattr(store, "now_ms", lambda: None)
    clock.now += 3601
    assert keeper.record_ms(log.state) == clock.now_ms()


def test_nothing_expires_by_a_wrong_clock_where_the_store_cannot_tell(log, clock):
    for by_s, expected_ms in ((YEARS_S, clock.now_ms()), (-60.0, clock.now_ms() - 60_000)):
        keeper = Timekeeper(MemoryStore(), skewed(clock, by_s))  # A store that cannot tell.
        keeper.saw(log.state)
        assert keeper.stamp(log.state, (ExpireProducers((1,)),)) == (expected_ms, True)


def test_who_saw_the_time_ahead_does_not_drive_it_ahead_again(log, clock):
    wrong = skewed(clock, YEARS_S)
    keeper = Timekeeper(MemoryStore(), wrong)  # A store that cannot tell.
    keeper.saw(replace(log.state, timestamp_ms=wrong.now_ms()))
    set_back = replace(log.state, timestamp_ms=clock.now_ms(), time_resets=1)
    assert keeper.stamp(set_back) == (clock.now_ms(), False)


def test_a_maintainer_that_is_hours_ahead_cuts_nothing_before_its_time(store, clock):
    log = Log.create(store, clock)
    Admin(log).create_topic("t", config={"retention.ms": 12 * HOUR_MS})
    with Producer(log) as producer:
        producer.send("t", b"x")
    clock.now += 6 * 3600
    log.commit(create("later"))
    wrong = Log.open(store, skewed(clock, 10 * 3600))
    assert Retention(wrong).run() == []
    clock.now += 7 * 3600
    assert [one.offset for one in Retention(wrong).run()] == [1]


def test_a_clock_beyond_the_year_2262(tmp_path):
    """Its nanoseconds do not fit into 64 bits."""

    class Late(FakeClock):
        def now_ms(self):
            return 10_000_000_000_000

    log = Log.create(tmp_path, Late())
    with Producer(log) as producer:
        sent = producer.send("t", b"x")
        producer.flush()
        assert abs(sent.result(60).timestamp_ms - SYSTEM.now_ms()) < HOUR_MS
