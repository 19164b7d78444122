"""Entries that are likely to be there are read together. None is taken that is not there, or was read long ago."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import pytest

from spark_eos.errors import CorruptRecordError
from spark_eos.log import paths
from spark_eos.log.commit.read_ahead import AHEAD, FAR
from spark_eos.log.environment import PROCESS
from spark_eos.log.log import Log
from spark_eos.protocol.actions import Entry, Request
from spark_eos.protocol.encoding.entries import decode_entry, encode_entry
from spark_eos.storage import MemoryStore
from spark_eos.testing.faulty_store import FaultyStore
from tests.log.fakes import FakeClock, create
from tests.log.test_fate import JumpingClock
from verification.inline_executor import InlineExecutor


def name(seq):
    return paths.entry(seq, 100_000)


class Followed:
    """A log on a store that takes its time, one that writes, and one that reads and is behind."""

    def __init__(self, clock=None, environment=PROCESS, interval=1000):
        self.store = FaultyStore(MemoryStore())
        self.store.requests_are_free = False
        self.writer = Log.create(self.store, snapshot_interval=interval)
        self.together = []
        self.reader = Log.open(
            self.store, clock or FakeClock(), environment=replace(environment, pool=self.pool)
        )

    def add(self, entries):
        for _ in range(entries):
            self.writer.commit(create(f"t{self.writer.state.seq + 1}"))
        self.store.journal.clear()
        return self

    def pool(self, size, _):
        self.together.append(size)
        return InlineExecutor()

    def reads(self):
        return [call.name for call in self.store.journal if call.operation == "read"]

    def follows(self):
        assert self.reader.follow() == self.writer.state
        return self.reads()


@pytest.mark.parametrize("entries", [0, 1, FAR - 1])
def test_a_process_that_is_nearly_there_reads_one_by_one_and_no_more_than_there_is(entries):
    log = Followed().add(entries)
    assert log.follows() == [name(seq) for seq in range(1, entries + 2)]
    assert log.together == []


def test_the_more_there_were_the_more_are_read_at_a_time():
    log = Followed().add(100)
    reads = log.follows()
    assert log.together == [4, 6, 9, 13, *[AHEAD] * 4], "100 entries are 16 waits, not 100"
    assert reads == [name(seq) for seq in range(1, len(reads) + 1)], (
        "each slot is read once, the free ones too"
    )


def test_of_slots_that_are_free_few_are_read():
    for entries in range(60):
        log = Followed().add(entries)
        assert len(log.follows()) <= entries + 1 + min(entries // 2, AHEAD - 1)


def test_opening_a_log_is_the_same():
    log = Followed().add(40)
    assert Log.open(log.store, environment=replace(PROCESS, pool=log.pool)).state == log.writer.state
    assert log.together == [4, 6, 9, 13, AHEAD]


def test_where_a_read_is_a_system_call_each_is_read_when_it_is_its_turn():
    log = Followed().add(40)
    log.store.requests_are_free = True
    log.follows()
    assert log.together == []


def test_they_are_read_at_the_same_time():
    log = Followed().add(FAR)
    together = threading.Barrier(FAR // 2, timeout=60)
    read = log.store.inner.read

    def slow(of, *args, **more):
        if of in {name(seq) for seq in range(FAR, FAR + FAR // 2)}:
            together.wait()
        return read(of, *args, **more)

    log.store.inner.read = slow
    assert Log.open(log.store).state.seq == FAR
    assert not together.broken


def test_when_there_can_be_no_threads_one_is_read_after_the_other():
    log = Followed().add(40)
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    assert Log.open(log.store, environment=replace(PROCESS, pool=lambda *_: pool)).state == log.writer.state


def test_one_that_cannot_be_read_is_an_error_and_what_follows_it_is_no_gap():
    log = Followed().add(FAR + 3)
    log.store.inner.overwrite(name(FAR + 2), b"no entry")
    with pytest.raises(CorruptRecordError):
        log.reader.follow()
    assert log.reader.state.seq == FAR + 1


def test_what_was_read_long_ago_is_read_again():
    """A machine was suspended: only the clock on the wall tells. Meanwhile the log was put back from a copy."""
    clock = JumpingClock()

    def decode_and_sleep(data, seq, source):
        if seq == FAR + 1 and not clock.ahead_s:
            assert name(FAR + 3) in log.reads(), "they are read ahead"
            clock.ahead_s += 60
            for gone in range(FAR + 2, FAR + 5):
                log.store.inner.delete(name(gone))
            Log.open(log.store.inner).commit(create("another"))
        return decode_entry(data, seq, source)

    log = Followed(clock, replace(PROCESS, decode=decode_and_sleep)).add(FAR + 4)
    log.reader.follow()
    assert sorted(log.reader.state.topics) == sorted(["another", *(f"t{at}" for at in range(1, FAR + 2))])


def test_what_was_read_ahead_of_an_entry_that_a_snapshot_has_passed_is_left():
    log = Followed(interval=FAR + 3).add(FAR + 4)
    log.writer.maintenance.snapshot()
    log.store.inner.overwrite(name(FAR + 1), b"")  # It is retired.
    log.follows()


def announced(log, newest):
    """What a channel says that knows of entries up to ``newest``, and no more of them."""
    group = log.reader._committer._group
    group._channel = SimpleNamespace(
        published=lambda seq: b"" if seq <= newest else None,
        newest=lambda: newest,
        relay=lambda seq, _: log.relayed.append(seq),
        keep_lead=lambda: None,
        distrust=lambda: log.relayed.append("distrusted"),
    )
    log.relayed = []
    return group


def test_of_many_that_were_announced_none_is_read_that_was_not():
    log = Followed().add(20)
    assert announced(log, 14).catch_up() == 14
    assert log.together == [14]
    assert log.reads() == [name(seq) for seq in range(1, 15)]


def test_few_that_were_announced_are_read_one_by_one_and_passed_on():
    log = Followed().add(20)
    assert announced(log, FAR).catch_up() == FAR
    assert log.together == []
    assert log.relayed == list(range(1, FAR + 1))


def test_announcements_are_not_believed():
    log = Followed().add(3)
    assert announced(log, 12).catch_up() == 3
    assert log.relayed == ["distrusted"]


@pytest.mark.parametrize("newest", [FAR + 2, 5])
def test_a_process_that_slept_for_a_day_and_goes_on_from_a_snapshot_leaves_what_it_has_just_read(newest):
    clock = JumpingClock()
    log = Followed(clock, interval=newest - 1).add(newest + 2)
    log.writer.maintenance.snapshot()
    stray = Entry(1, (Request(b"1" * 16, 0, create("stray")(None)),))
    log.store.inner.overwrite(name(1), encode_entry(stray))  # Its name was deleted, and filled by a sleeper.
    clock.ahead_s += 24 * 3600
    assert announced(log, newest).catch_up() == newest
    assert set(log.reader.state.topics) == {f"t{at}" for at in range(1, newest + 1)}
