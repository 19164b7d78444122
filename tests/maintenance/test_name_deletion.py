"""Names of retired entries that are deleted for good: who was away believes nothing that it finds there."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eos.config.isolation import Isolation
from spark_eos.errors import CommitOutcomeUnknownError, ConfigError, NotALogError
from spark_eos.log import paths
from spark_eos.log.clock import Retry
from spark_eos.log.data.planner import plan
from spark_eos.log.environment import PROCESS, Environment
from spark_eos.log.log import Log
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.maintenance.name_deletion import RetiredNames
from spark_eos.maintenance.verify.verify import Verdict, verify
from spark_eos.protocol.actions import AppendBatches, InitProducer
from spark_eos.protocol.types import NO_PRODUCER, TopicPartition
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from tests.log.fakes import FakeClock
from verification.retiring import RETIRED_AT_ONCE

pytestmark = pytest.mark.usefixtures("small_pages")

AT = TopicPartition("t", 0)
LEAST_S = PROCESS.names_kept_s


class Clock(FakeClock):
    """Two clocks; ``wall_s`` is how far the one on the wall is ahead."""

    def __init__(self, name):
        super().__init__()
        self.name, self.wall_s = name, 0.0

    def unique(self):
        return self.name + super().unique()[1:]

    def now_ms(self):
        return int((self.now + self.wall_s) * 1000)


class World:
    """A log, and those who use it, each with clocks and a connection of its own."""

    def __init__(self, name="a", environment=PROCESS):
        self.inner = MemoryStore()
        self.name, self.clocks = ord(name), []
        clock, store = self._process()
        self.log = Log.create(
            store,
            clock,
            Retry(deadline_s=10),
            snapshot_interval=5,
            entries_per_folder=7,
            config=RETIRED_AT_ONCE,
            environment=environment,
        )
        self.log.ensure_topic("t")
        self.names = RetiredNames(self.log, after_s=LEAST_S)

    def _process(self):
        clock = Clock(b"%c" % (self.name + len(self.clocks)))
        clock.now = self.clocks[0].now if self.clocks else clock.now
        self.clocks.append(clock)
        return clock, FaultyStore(self.inner)

    def another(self):
        clock, store = self._process()
        return Log.open(store, clock, Retry(deadline_s=10))

    def pass_time(self, seconds):
        for clock in self.clocks:
            clock.now += seconds

    def go_on(self, count=40):
        append(self.log, *range(count))
        self.log.maintenance.snapshot()
        while self.log.maintenance.retire(self.log.state, 100):
            pass

    def forget(self, count=40):
        """Many entries later their names are deleted."""
        self.go_on(count)
        self.names.run()
        self.pass_time(LEAST_S)
        assert self.names.run() > count // 2

    def has(self, seq):
        name = paths.entry(seq, self.log.state.entries_per_folder)
        return any(info.name == name for info in self.inner.list(name))


@pytest.fixture
def world():
    return World()


def rows(log, value, stamp=NO_PRODUCER, sequence=-1):
    topic = log.topic("t")
    with log.stage(topic) as writer:
        writer.append(pa.table({"value": [b"%d" % value]}), 0)
        (staged,) = writer.finish()
    batches = tuple(batch._replace(base_sequence=sequence) for batch in staged.batches)
    return AppendBatches(stamp, ((topic.name, topic.topic_id),), (staged._replace(batches=batches),))


def append(log, *values):
    for value in values:
        action = rows(log, value)
        log.commit(lambda _, action=action: (action,))


def is_sound(world):
    return verify(world.inner, lambda _: None).is_sound


def values(log):
    state = log.follow()
    end = state.partitions[state.topics["t"].topic_id, 0].end
    found = []
    for fetch in plan(state, AT, 0, end, Isolation.READ_COMMITTED, log.load):
        found += [int(value.as_py()) for value in log.read(state.topics["t"], fetch).column("value")]
    return found


# -- Which names -------------------------------------------------------------------------------------------


def test_names_go_a_day_after_they_were_noted(world):
    world.go_on()
    assert world.names.run() == 0
    world.pass_time(LEAST_S - 1)
    assert world.names.run() == 0
    assert world.has(1)
    world.pass_time(1)
    count = world.names.look()
    assert count > 20
    assert world.has(1)
    assert world.names.run() == count
    assert [seq for seq in range(count + 2) if world.has(seq)] == [0, count + 1]
    assert world.names.run() == world.names.look() == 0


def test_another_process_goes_by_the_same_notes(world):
    world.go_on()
    world.names.run()
    world.pass_time(LEAST_S)
    assert RetiredNames(world.another(), after_s=LEAST_S).run() > 20
    assert RetiredNames(world.another(), after_s=LEAST_S).run() == 0


def test_what_was_retired_since_is_not_due(world):
    world.go_on()
    world.names.run()
    world.pass_time(LEAST_S)
    last = world.log.maintenance.retired(world.log.state)
    world.go_on()
    world.names.run()
    assert not world.has(last)
    assert world.has(last + 1)


def test_the_least_time():
    with pytest.raises(ConfigError, match="a day"):
        RetiredNames(World().log, after_s=LEAST_S - 1)


def test_another_log_in_its_place(world):
    world.go_on()
    world.names.run()
    world.pass_time(LEAST_S)
    entry = paths.entry(0)
    other = World("A")
    world.inner.overwrite(entry, other.inner.read(entry))
    with pytest.raises(NotALogError):
        world.names.run()
    assert world.has(1)


def test_what_is_not_empty_stays(world):
    """The folder was replaced a moment ago: it has entries of the same names."""
    world.go_on()
    world.names.run()
    world.pass_time(LEAST_S)
    name = paths.entry(9, world.log.state.entries_per_folder)
    world.inner.overwrite(name, b"an entry")
    world.names.run()
    assert [seq for seq in range(1, 20) if world.has(seq)] == [9]


def test_the_log_is_whole_without_them(world):
    world.forget()
    assert values(world.another()) == [*range(40)]
    world.go_on(20)
    assert values(world.another()) == [*range(40), *range(20)]
    assert is_sound(world)


def test_a_pass_of_maintenance(world):
    world.go_on()
    keeper = Maintainer(world.log, only=["names"], delete_names_s=LEAST_S)
    assert [done.text for done in keeper.run()] == ["nothing to do"]
    world.pass_time(LEAST_S)
    (look,) = Maintainer(world.log, only=["names"], delete_names_s=LEAST_S, dry_run=True).run()
    assert look.text.startswith("would delete")
    assert world.has(1)
    (done,) = keeper.run()
    assert done.text == look.text.replace("would delete", "deleted")
    (kept,) = Maintainer(world.log, only=["names"]).run()
    assert kept.text == "kept"


# -- Who was away ------------------------------------------------------------------------------------------


def by_both(clock):
    clock.now += 0


def by_the_wall(clock):
    """Its monotonic clock stood still: the machine was suspended."""
    clock.now, clock.wall_s = clock.now - LEAST_S, LEAST_S


def by_the_other(clock):
    """The wall clock was set back."""
    clock.wall_s = -LEAST_S


clocks = pytest.mark.parametrize("noticed", [by_both, by_the_wall, by_the_other])


@clocks
def test_a_reader_that_slept_finds_the_end(world, noticed):
    append(world.log, 100)
    sleeper = world.another()
    assert values(sleeper) == [100]
    world.forget()
    noticed(sleeper.clock)
    assert values(sleeper) == [100, *range(40)]


@clocks
def test_a_writer_that_slept_in_its_create(world, noticed):
    """The slot is free again when the create gets there."""
    sleeper = world.another()
    (stamp,) = sleeper.commit(lambda _: (InitProducer(0, 0, None, 0),)).results
    action = rows(sleeper, 99, stamp, 0)

    def sleep(operation, _):
        if operation == "create":
            sleeper.store.before = lambda *_: None
            world.forget()
            noticed(sleeper.clock)

    sleeper.store.before = sleep
    slot = sleeper.state.seq + 1
    committed = sleeper.commit(lambda _: (action,))
    assert committed.seq > slot
    assert world.has(slot), "what nobody reads any more"
    assert values(world.log) == values(sleeper) == values(world.another()) == [*range(40), 99]


def test_a_reader_does_not_believe_what_such_a_writer_left(world):
    sleeper, reader = world.another(), world.another()
    action = rows(sleeper, 99)

    def sleep(operation, _):
        if operation == "create":
            sleeper.store.before = lambda *_: None
            world.forget()

    sleeper.store.before = sleep
    with pytest.raises(CommitOutcomeUnknownError):
        sleeper.commit(lambda _: (action,))  # Rows without a producer leave no trace to know them by.
    left = paths.entry(reader.state.seq + 1)
    assert world.has(reader.state.seq + 1)
    assert values(reader) == [*range(40)]
    found = []
    assert verify(world.inner, found.append).is_sound
    assert [(one.verdict, one.name) for one in found] == [(Verdict.NOTE, left)]


def test_who_sleeps_after_its_create_was_found_to_be_in_time(world, monkeypatch):
    """The names of its entry and of the one before are gone when it wakes. Its entry is in the log all the same."""
    other = world.another()
    append(world.log, 100)
    real = other._tail.check_created

    def slow(*seen):
        world.forget()
        real(*seen)

    monkeypatch.setattr(other._tail, "check_created", slow)
    committed = other.commit(lambda _: (rows(other, 99),))
    assert not world.has(committed.seq)
    monkeypatch.undo()
    append(other, 102)
    assert values(world.log) == values(other) == [100, 99, *range(40), 102]


def test_what_such_a_writer_left_in_place_of_the_newest_known_entry(world):
    """It says nothing of the history: the snapshot does."""
    slow, other = world.another(), world.another()
    append(world.log, 100)
    known = other.follow().seq
    action, later = rows(slow, 99), rows(other, 101)

    def sleep(operation, _):
        if operation == "create":
            slow.store.before = lambda *_: None
            world.forget()

    def sleep_as_well(_):
        if not world.has(known + 1):
            slow.store.before = sleep
            with pytest.raises(CommitOutcomeUnknownError):
                slow.commit(lambda _: (action,))
            assert world.has(known)
        return (later,)

    with pytest.raises(CommitOutcomeUnknownError):
        other.commit(sleep_as_well)
    append(other, 102)
    assert values(world.log) == values(other) == [100, *range(40), 102]


@pytest.mark.parametrize("known", [True, False], ids=["with a number", "without a producer"])
def test_a_reply_that_came_a_day_late(world, known):
    """It was in the log; the slot does not tell."""
    sleeper = world.another()
    (stamp,) = sleeper.commit(lambda _: (InitProducer(0, 0, None, 0),)).results
    action = rows(sleeper, 99, stamp, 0) if known else rows(sleeper, 99)

    def sleep(operation, _):
        if operation == "create":
            sleeper.store.after = lambda *_: None
            world.forget()

    sleeper.store.after = sleep
    if known:
        sleeper.commit(lambda _: (action,))
    else:
        with pytest.raises(CommitOutcomeUnknownError, match="retired"):
            sleeper.commit(lambda _: (action,))
    assert values(world.log) == [99, *range(40)]


def test_a_create_in_doubt_before_the_sleep(world):
    """The first try was lost on its way back, and is in the log; the second one fills the slot again."""
    sleeper = world.another()
    (stamp,) = sleeper.commit(lambda _: (InitProducer(0, 0, None, 0),)).results
    action = rows(sleeper, 99, stamp, 0)
    sleeper.store.inject(Fault.FAIL_AFTER, "create", "_log/0*", times=1)

    def sleep():
        sleeper.clock.on_sleep = lambda: None
        world.forget()

    sleeper.clock.on_sleep = sleep
    sleeper.commit(lambda _: (action,))
    assert values(world.log) == [99, *range(40)]


def test_a_writer_without_pauses_does_not_look_for_snapshots():
    """A writer that commits every few seconds never asks for news besides."""
    world = World(environment=Environment(away_s=10.0))
    world.go_on()
    world.log.does_maintenance = False
    world.log.store.journal.clear()
    for _ in range(10):
        world.pass_time(3)
        append(world.log, 1)
    for _ in range(10):
        world.pass_time(9)
        world.log.follow()
    assert world.log.store.count("list", f"{paths.SNAPSHOTS}*") == 0


def test_a_note_of_a_clock_that_was_ahead_stops_no_later_ones(world):
    world.go_on()
    world.log.clock.wall_s = 365 * 86_400.0
    assert world.names.run() == 0
    world.log.clock.wall_s = 0.0
    assert world.names.run() == 0
    world.pass_time(LEAST_S)
    assert world.names.run() > 20
