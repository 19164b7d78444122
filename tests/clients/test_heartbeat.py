"""Heartbeats: who is alive, who is given up, and what the thread survives."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from types import SimpleNamespace

import pytest

from spark_eos import Admin, Consumer
from spark_eos.clients.consumer.heartbeat import HeartbeatThread, heartbeat_name
from spark_eos.errors import InvalidRequestError, ObjectNotFoundError, StorageError, StoreUnavailableError
from spark_eos.log.log import Log
from spark_eos.protocol.actions import LeaveGroup
from spark_eos.storage.memory import MemoryStore
from spark_eos.storage.object_names import check_name
from spark_eos.testing import Fault, FaultyStore
from tests.clients.group_world import Heard, World, beats, held, member_id, settle

EARLIER = weakref.WeakSet()
"""Threads of other tests."""


@pytest.fixture(autouse=True)
def _earlier():
    EARLIER.update(threading.enumerate())


@pytest.fixture
def no_threads(monkeypatch):
    monkeypatch.setattr(HeartbeatThread, "start", lambda _thread: None)


@pytest.fixture
def world(no_threads):  # noqa: ARG001  (a fixture that needs another)
    return World(("t", 4))


def heart(world, consumer):
    return world.log.store.read(heartbeat_name("g", member_id(consumer))).to_pybytes()


def beat(world, consumer):
    return int(heart(world, consumer).split()[0])


def hearts(world):
    return sorted(info.name.rsplit("/", 1)[1] for info in world.log.store.list("_groups/g/"))


def alive(world):
    return set(world.group.members)


def gang(world, number, **settings):
    members = [world.member(**settings) for _ in range(number)]
    settle(*members)
    return sorted(members, key=member_id)


def test_a_beat_changes_the_members_own_object(world):
    (one,) = gang(world, 1)
    seen = set()
    for _ in range(3):
        beats(one).step()
        seen.add(heart(world, one))
    assert len(seen) == 3
    assert hearts(world) == [member_id(one)]


def test_before_joining_and_after_leaving_nothing_beats(world):
    one = world.member()
    work = beats(one)
    work.step()
    one.poll()
    work.step()
    assert hearts(world) == [member_id(one)]
    one.close()
    work.step()
    assert hearts(world) == []


@pytest.mark.parametrize(
    ("group", "member", "name"),
    [
        ("g", "m-1", "_groups/g/m-1"),
        ("a/b c", "m", "_groups/a%2Fb%20c/m"),
        ("..", ".", "_groups/%2E%2E/%2E"),
    ],
)
def test_names(group, member, name):
    assert heartbeat_name(group, member) == name
    check_name(name)


def test_long_names_fit_and_differ():
    names = {heartbeat_name("ü" * 300 + end, "m") for end in "ab"}
    assert len(names) == 2
    for name in names:
        check_name(name)


def test_a_silent_member_is_evicted_after_its_session_timeout_and_not_before(world):
    one, two = gang(world, 2, session_timeout_ms=30_000)
    world.pass_time(9, one, two)
    world.pass_time(29, one)
    assert alive(world) == {member_id(one), member_id(two)}
    world.pass_time(9, one)
    assert alive(world) == {member_id(one)}
    assert hearts(world) == [member_id(one)]
    one.poll()
    assert held(one) == "t0 t1 t2 t3"


def test_one_that_never_beat_is_evicted_too(world):
    one, two = gang(world, 2, session_timeout_ms=30_000)
    world.pass_time(60, two)
    assert alive(world) == {member_id(two)}
    assert member_id(one) not in hearts(world)


def test_the_session_timeout_is_that_of_the_silent_one(world):
    patient = world.member(session_timeout_ms=100_000)
    quick = world.member(session_timeout_ms=10_000)
    settle(patient, quick)
    world.pass_time(60, quick)
    assert alive(world) == {member_id(patient), member_id(quick)}
    world.pass_time(60, quick)
    assert alive(world) == {member_id(quick)}


def test_a_beat_now_and_then_is_enough(world):
    one, two = gang(world, 2, session_timeout_ms=30_000)
    for _ in range(10):
        world.pass_time(24, one)
        beats(two).step()
    assert len(alive(world)) == 2


def test_polling_is_no_sign_of_life_and_no_harm_either(world):
    """Only the thread shows a member alive; one that is slow to poll is not touched while it beats."""
    one, two = gang(world, 2)
    world.pass_time(200, one, two)
    before = alive(world)
    assert before == {member_id(one), member_id(two)}
    for _ in range(30):
        one.poll()
        two.poll()
        world.pass_time(3, one)
    assert member_id(one) in before
    assert member_id(two) not in before  # it was given up, and joined again


@pytest.mark.usefixtures("no_threads")
def test_each_member_watches_the_next_one_only():
    store = FaultyStore(MemoryStore())
    world = World(("t", 4), store=store)
    members = gang(world, 5)
    world.pass_time(30, *members)
    before = store.count("read", "_groups/*")
    world.pass_time(30, *members)
    assert store.count("read", "_groups/*") - before == 10 * len(members)
    names = [heartbeat_name("g", member_id(one)) for one in members]
    for place, one in enumerate(members):
        seen = len(store.journal)
        beats(one).step()
        read = [
            call.name for call in store.journal[seen:] if call.operation == "read" and "_groups" in call.name
        ]
        assert read == [names[(place + 1) % 5]]


def test_many_that_die_together_are_found_together(world):
    members = gang(world, 10)
    world.pass_time(9, *members)
    world.pass_time(45 + 2 * 6 * 9 + 6, members[4])  # two intervals to look after each doubtful one
    assert alive(world) == {member_id(members[4])}
    lonely = World(("t", 4))
    members = gang(lonely, 10)
    lonely.pass_time(9, *members)
    lonely.pass_time(200, members[4])
    assert alive(lonely) == {member_id(members[4])}


def test_those_behind_a_dead_one_that_live_stay(world):
    members = gang(world, 4)
    world.pass_time(9, *members)
    world.pass_time(100, members[0], members[2])
    assert alive(world) == {member_id(members[0]), member_id(members[2])}


def test_a_watcher_that_was_suspended_itself_gives_nobody_up(world):
    one, two = gang(world, 2)
    world.pass_time(9, two, one)
    world.clock.now += 200  # the whole machine slept; nobody looked, nobody beat
    beats(one).step()
    assert len(alive(world)) == 2
    world.pass_time(30, one, two)
    assert len(alive(world)) == 2


def test_looking_at_somebody_again_starts_anew(world):
    """A member that was watched once, and then another one, has not been silent all the time."""
    one, two, three = gang(world, 3)
    world.pass_time(9, one, two, three)
    world.pass_time(21, one)  # two and three are doubtful
    world.pass_time(60, one, two)  # two is back: three is not watched by one any more, but two watches it
    assert alive(world) == {member_id(one), member_id(two)}
    assert set(beats(one)._watched) == {member_id(two)}


def test_an_eviction_without_fate_is_refused_by_the_log(world):
    one, two = gang(world, 2)
    with pytest.raises(InvalidRequestError, match=r"session\.timeout\.ms"):
        world.log.commit(lambda _state: (LeaveGroup("g", (member_id(two),), 44_999),))
    assert len(alive(world)) == 2
    assert one is not two


@pytest.mark.usefixtures("no_threads")
def test_what_somebody_else_has_evicted_is_not_evicted_again():
    store = FaultyStore(MemoryStore())
    world = World(("t", 4), store=store)
    one, two = gang(world, 2)
    elsewhere = Log.open(store.inner, clock=world.clock)

    def meanwhile(operation, _name):
        if operation == "create":
            store.before = lambda *_: None
            elsewhere.commit(lambda _state: (LeaveGroup("g", (member_id(two),)),))

    store.before = meanwhile
    world.pass_time(60, one)
    assert alive(world) == {member_id(one)}
    assert world.log.follow().seq == elsewhere.state.seq


def test_an_evicted_member_stops_beating(world):
    one, two = gang(world, 2)
    world.pass_time(90, one)
    seq = world.log.follow().seq
    world.pass_time(30, one, two)
    assert hearts(world) == [member_id(one)]
    assert world.log.follow().seq == seq
    two.poll()
    beats(two).step()
    assert set(hearts(world)) == {member_id(one), member_id(two)}


def test_one_that_does_not_poll_leaves_by_itself_and_its_next_poll_joins_again(world, caplog):
    heard = Heard()
    one = world.member(listener=heard, max_poll_interval_ms=60_000)
    one.poll()
    old = member_id(one)
    world.pass_time(54, one)
    assert alive(world) == {old}
    world.pass_time(60, one)
    assert world.group.status == "Empty"
    assert hearts(world) == []
    assert beats(one).member_id == ""
    assert caplog.text.count("has not polled") == 1
    assert r"max.poll.interval.ms (60000 ms)" in caplog.text
    heard.take()
    one.poll()
    assert heard.take() == [("lost", "t0 t1 t2 t3"), ("assigned", "t0 t1 t2 t3")]
    assert member_id(one) != old
    world.pass_time(54, one)
    assert alive(world) == {member_id(one)}


def test_a_static_member_that_does_not_poll_falls_silent(world, caplog):
    one = world.member(group_instance_id="a", max_poll_interval_ms=60_000)
    two = world.member()
    settle(one, two)
    world.pass_time(57, one, two)
    beat = heart(world, one)
    two.poll()
    world.pass_time(30, one, two)
    assert heart(world, one) == beat
    assert len(alive(world)) == 2
    assert caplog.text.count("falls silent") == 1
    one.poll()  # in time: it goes on
    world.pass_time(50, one, two)
    assert heart(world, one) != beat
    two.poll()
    world.pass_time(150, one, two)
    assert alive(world) == {member_id(two)}
    assert caplog.text.count("falls silent") == 2


def test_a_long_poll_is_polling(world):
    one = world.member(max_poll_interval_ms=60_000)
    world.clock.on_sleep = lambda: beats(one).step()
    one.poll(timeout_ms=200_000)
    assert alive(world) == {member_id(one)}


@pytest.mark.usefixtures("no_threads")
def test_trouble_with_the_store_is_told_once_and_retried(caplog):
    store = FaultyStore(MemoryStore())
    world = World(("t", 4), store=store)
    one, two = gang(world, 2)
    world.pass_time(9, one, two)
    for name in ("overwrite", "read"):
        store.inject(Fault.FAIL_BEFORE, name, "_groups/*", times=None)
        world.pass_time(120, one, two)
        store.heal()
        assert caplog.text.count("cannot show that it is alive") == 2  # once by each of them
        world.pass_time(9, one, two)
        caplog.clear()
    assert len(alive(world)) == 2
    store.requests_are_free = False
    store.inject(StorageError("a log that cannot be read"), "read", "_log/*", times=None)
    world.pass_time(30, one)
    store.heal()
    assert caplog.text.count("cannot show that it is alive") == 1


@pytest.mark.usefixtures("no_threads")
def test_a_member_whose_store_is_slow_is_not_harmed_by_that():
    """It cannot beat, so others may give it up; but it itself goes on, and its commits pass until then."""
    store = FaultyStore(MemoryStore())
    world = World(("t", 4), store=store)
    world.fill(values=range(40))
    (one,) = gang(world, 1, enable_auto_commit=False)
    store.inject(Fault.FAIL_BEFORE, "overwrite", "_groups/*", times=None)
    world.pass_time(200, one)
    one.commit()
    assert sum(known.offset for known in one.committed(one.assignment()).values()) == 40


@pytest.mark.usefixtures("no_threads")
def test_what_leaves_while_its_last_beat_is_on_the_way_leaves_no_object():
    store = FaultyStore(MemoryStore())
    world = World(("t", 4), store=store)
    consumer = world.member()
    consumer.poll()
    work = beats(consumer)

    def close(operation, _name):
        if operation == "overwrite":
            store.before = lambda *_: None
            consumer.unsubscribe()

    store.before = close
    work.step()
    assert hearts(world) == []


# -- The thread ------------------------------------------------------------------------------------------


def threads():
    """Those of this test: a consumer that an earlier one has dropped may beat until it is collected."""
    beating = (one for one in threading.enumerate() if one.name.startswith("eoslog-heartbeat"))
    return [one for one in beating if one not in EARLIER]


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.fixture
def quick():
    """A log by the real clock, and members that beat all the time."""
    world = World(("t", 2))
    log = type(world.log).open(world.log.store)

    def member():
        settings = {"group.id": "g", "session.timeout.ms": 1_000_000, "heartbeat.interval.ms": 5}
        consumer = Consumer(log, settings)
        consumer.subscribe(["t"])
        return consumer

    return SimpleNamespace(member=member, log=log, admin=Admin(log))


def test_a_thread_beats_from_the_first_poll_until_close(quick):
    assert threads() == []
    with quick.member() as consumer:
        assert threads() == []
        consumer.poll()
        (thread,) = threads()
        assert thread.daemon
        name = heartbeat_name("g", member_id(consumer))

        def beaten(times):
            try:
                return int(quick.log.store.read(name).to_pybytes().split()[0]) >= times
            except ObjectNotFoundError:
                return False

        until(lambda: beaten(3))
    assert threads() == []
    with pytest.raises(ObjectNotFoundError):
        quick.log.store.read(name)


def test_where_no_thread_can_be_started_polls_beat(monkeypatch):
    def refuse(_):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    world = World(("t", 4))
    monkeypatch.setattr(threading.Thread, "start", refuse)
    one = world.member()
    one.poll()
    for number in range(1, 4):
        assert beat(world, one) == number
        one.poll()
        assert beat(world, one) == number, "the interval has not passed"
        world.clock.now += 3
        one.poll()


def test_unsubscribe_ends_the_thread_and_subscribe_starts_another(quick):
    with quick.member() as consumer:
        consumer.poll()
        consumer.unsubscribe()
        assert threads() == []
        consumer.subscribe(["t"])
        consumer.poll()
        assert len(threads()) == 1
    assert threads() == []


def test_a_consumer_that_was_dropped_beats_no_more(quick):
    consumer = quick.member()
    consumer.poll()
    assert len(threads()) == 1
    del consumer
    gc.collect()
    until(lambda: threads() == [])


def test_nothing_kills_the_thread(caplog):
    calls = []

    def step():
        calls.append(1)
        if len(calls) < 3:
            raise ZeroDivisionError

    thread = HeartbeatThread(SimpleNamespace(step=step, interval_s=0.001), "g")
    thread.start()
    until(lambda: len(calls) > 5)
    thread.join()
    assert threads() == []
    assert caplog.text.count("a heartbeat failed") == 2


def test_close_ends_the_thread_when_the_store_is_away():
    store = FaultyStore(MemoryStore())
    world = World(("t", 1), store=store)
    consumer = world.member()
    consumer.poll()
    assert len(threads()) == 1
    store.inject(StoreUnavailableError("away"), "*", times=None)
    consumer.close()
    assert threads() == []
