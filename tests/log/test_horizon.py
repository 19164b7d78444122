"""How far back a log can be read: for a time, whatever was written in it, and from a few snapshots."""

from __future__ import annotations

import itertools
import math

import pytest

from spark_eos.errors import ConfigError, InvalidRequestError, NotALogError
from spark_eos.log import paths
from spark_eos.log.clock import Retry
from spark_eos.log.history import transactions
from spark_eos.log.log import Log
from spark_eos.log.snapshots.horizon import NOWHERE, Horizon, spread
from spark_eos.log.time_travel import earliest, replay_what_is_left, state_at
from spark_eos.protocol.actions import AlterLog, CommitOffsets, InitProducer, PartitionOffset
from spark_eos.protocol.replace import replace
from spark_eos.protocol.types import ProducerStamp
from spark_eos.storage import MemoryStore

from .fakes import FakeClock, create

HOUR_S = 3600
RETENTION = "metadata.max.retention.ms"


class Counting(MemoryStore):
    """Knows what was read."""

    def __init__(self):
        super().__init__()
        self.read_names = []

    def read(self, name, offset=0, length=None):
        self.read_names.append(name)
        return super().read(name, offset, length)


@pytest.fixture
def store():
    return Counting()


@pytest.fixture
def log(store):
    made = Log.create(store, FakeClock(), Retry(deadline_s=10), snapshot_interval=5)
    made.does_maintenance = False
    return made


def write(log, count, every_s):
    """Entries, and the maintenance that a process does after each."""
    for _ in range(count):
        log.clock.now += every_s
        log.commit(create(f"t{log.state.seq}"))
        maintain(log)


def maintain(log):
    log.maintenance.snapshot()
    while log.maintenance.retire(log.state, 100):
        pass


def snapshots(store):
    return sorted(paths.snapshot_seq(info.name) for info in store.list(paths.SNAPSHOTS))


def test_all_entries_of_an_hour_can_be_read(log, store):
    write(log, 240, every_s=40)
    oldest = earliest(log)
    now_ms = log.state.timestamp_ms
    assert HOUR_S <= (now_ms - oldest.timestamp_ms) / 1000 <= 2 * HOUR_S + 5 * 40
    assert not store.size(paths.entry(oldest.seq - 5, log.state.entries_per_folder)), "older ones are retired"
    state = oldest
    for step in replay_what_is_left(log, oldest, log.state.seq):
        state = step.after
    assert state == log.state
    assert len(snapshots(store)) <= 2 * math.log2(240 / 5) + 2
    assert snapshots(store)[-1] == 240
    for seq in range(oldest.seq, log.state.seq, 11):
        store.read_names.clear()
        assert state_at(log, seq).seq == seq
        assert len(store.read_names) <= log.state.seq - seq + 10, "no more entries than come after it"


def test_however_many_there_are_in_an_hour(log, store):
    """A mirror whose broker is away for ten minutes is not ahead of what is retired, as it was by a count."""
    write(log, 240, every_s=0.1)
    assert earliest(log).seq == 0
    assert snapshots(store)[-2:] == [235, 240]


def test_the_floor_is_as_old_as_the_setting_says(log):
    log.commit(lambda _: (AlterLog(((RETENTION, "60000"),)),))
    write(log, 100, every_s=10)
    assert 60 <= (log.state.timestamp_ms - earliest(log).timestamp_ms) / 1000 <= 2 * 60 + 100
    log.commit(lambda _: (AlterLog(((RETENTION, "1"),)),))
    maintain(log)
    assert earliest(log).seq == 95, "the newest snapshot but one, whatever its age"


def test_a_new_process_reads_the_newest_snapshot_alone(log, store):
    write(log, 100, every_s=1)
    store.read_names.clear()
    Log.open(store, log.clock)
    assert [name for name in store.read_names if name.startswith(paths.SNAPSHOTS)] == [paths.snapshot(100)]
    assert len(store.read_names) <= 3


def test_a_new_process_finds_the_floor_with_few_reads(log, store):
    write(log, 240, every_s=40)
    known = log.maintenance._snapshots.floor
    assert known > 0
    other = Log.open(store, log.clock)
    store.read_names.clear()
    found = Horizon(store).floor(other.state, snapshots(store))
    assert found == known
    assert len(store.read_names) <= math.log2(len(snapshots(store))) + 1


def test_what_an_open_transaction_needs_stays_with_its_snapshot(log, store):
    write(log, 23, every_s=10)
    log.commit(lambda _: (InitProducer(0, 0, "tx", 900_000),))
    topic = log.topic("t0")
    offset = PartitionOffset("t0", topic.topic_id, 0, 1)
    log.commit(lambda _: (CommitOffsets("g", (offset,), ProducerStamp(0, 0, 0)),))
    write(log, 240, every_s=40)
    assert earliest(log).seq == 20
    assert snapshots(store)[0] == 20
    # So does a process that has only just come, and passed no boundary itself.
    maintain(Log.open(store, log.clock))
    assert snapshots(store)[0] == 20


# -- Pure --------------------------------------------------------------------------------------------------


def test_snapshots_that_stay_grow_as_a_logarithm():
    kept = set()
    for end in range(1, 3000):
        kept = spread(kept | {end})
        assert {end, end - 1} & set(range(1, end + 1)) <= kept
        assert 1 in kept, "the oldest one is what all readers begin with"
        assert len(kept) <= 2 * math.log2(end) + 3
        ages = sorted(end - seq for seq in kept)
        assert all(older <= 2 * newer + 1 for newer, older in itertools.pairwise(ages[1:]))


def states(log, *times, resets=()):
    found = []
    for at, time_ms in enumerate(times):
        found.append(
            replace(
                log.state, seq=5 * at + 5, timestamp_ms=time_ms, time_resets=sum(one <= at for one in resets)
            )
        )
    return found


def floor(log, now_ms, known, resets=0):
    horizon = Horizon(log.store)
    for state in known:
        horizon.saw(state)
    now = replace(log.state, seq=1000, timestamp_ms=now_ms, time_resets=resets)
    return horizon.floor(now, [state.seq for state in known])


def test_the_floor(log):
    known = states(log, 0, 10, 20, 30)
    assert floor(log, 3_600_000 - 2, known) == NOWHERE
    assert floor(log, 3_600_000 + 10, known) == 10
    assert floor(log, 3_600_000 + 29, known) == 20, "times are whole milliseconds"
    assert floor(log, 2**50, known) == 20
    assert floor(log, 2**50, []) == NOWHERE


def test_a_process_that_only_reads_remembers_few_times(log):
    horizon = Horizon(log.store)
    for at in range(2000):
        horizon.saw(replace(log.state, seq=5 * at + 5, timestamp_ms=at))
    assert len(horizon._times) <= 256
    assert max(horizon._times) == 10_000


def test_times_that_a_wrong_clock_made_keep_nothing_for_ever(log):
    """The log's time was set back after the second one."""
    known = states(log, 10**9, 2 * 10**9, 1000, 2000, resets=[2])
    assert floor(log, 3000, known, resets=1) == 10
    assert floor(log, 3_600_000 + 1000, known, resets=1) == 15


def test_a_snapshot_that_cannot_be_read_is_no_floor(log, store):
    write(log, 30, every_s=HOUR_S)
    there = snapshots(store)
    store.overwrite(paths.snapshot(there[-2]), b"damaged")
    assert Horizon(store).floor(log.state, there[:-1]) in {NOWHERE, *there[:-2]}


# -- Readers that fall behind it ---------------------------------------------------------------------------


def test_a_history_goes_on_after_what_is_retired_while_it_is_read(log, caplog):
    log.commit(lambda _: (AlterLog(((RETENTION, "60000"),)),))
    write(log, 10, every_s=1)
    begin, seen = earliest(log), []
    for step in replay_what_is_left(log, begin, log.state.seq + 200):
        seen.append(step.entry.seq)
        if len(seen) == 3:
            write(log, 200, every_s=10)
    gap = next(at for at, seq in enumerate(seen) if seq != begin.seq + 1 + at)
    assert gap == 3
    assert seen[3:] == [*range(seen[3], log.state.seq + 1)]
    assert f"entries {seen[2] + 1} to {seen[3] - 1} were retired while it was read" in caplog.text


def test_a_history_of_damage_is_an_error(log):
    """An entry that is gone, with no later state to go on from."""
    write(log, 3, every_s=1)
    log.store.overwrite(paths.entry(2), b"")
    with pytest.raises(InvalidRequestError, match="entry 2"):
        [*transactions(log)]


# -- Settings when it is created ----------------------------------------------------------------------------


def test_a_log_has_settings_from_its_first_entry_on():
    log = Log.create(MemoryStore(), config={RETENTION: 5000})
    assert (log.state.seq, dict(log.state.config)) == (0, {RETENTION: "5000"})


@pytest.mark.parametrize("config", [{"no.such": 1}, {RETENTION: 0}, {RETENTION: "an hour"}])
def test_a_setting_that_makes_no_sense_creates_nothing(config):
    store = MemoryStore()
    with pytest.raises(ConfigError):
        Log.create(store, config=config)
    with pytest.raises(NotALogError):
        Log.open(store)
