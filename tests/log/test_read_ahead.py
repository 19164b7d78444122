"""Entries that are said to be there are read together. None is taken that is not there, or was read long ago."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import pytest

from spark_eos.errors import ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.log.commit.read_ahead import AHEAD, ReadAhead
from spark_eos.log.environment import PROCESS
from spark_eos.log.log import Log
from spark_eos.storage import MemoryStore
from spark_eos.testing.faulty_store import FaultyStore
from tests.log.fakes import FakeClock, create
from tests.log.test_fate import JumpingClock
from verification.inline_executor import InlineExecutor

PER_FOLDER = 100_000


def name(seq):
    return paths.entry(seq, PER_FOLDER)


def body(seq):
    return f"entry {seq}".encode()


@pytest.fixture
def store():
    store = FaultyStore(MemoryStore())
    for seq in range(40):
        store.inner.create(name(seq), body(seq))
    return store


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def ahead(store, clock):
    ahead = ReadAhead(store, InlineExecutor, clock)
    ahead.of = lambda seq, newest: ahead.read(seq, newest, PER_FOLDER).to_pybytes()
    ahead.calls = lambda: [call.name for call in store.journal if call.operation == "read"]
    return ahead


def test_one_entry_is_one_read(ahead):
    for seq in range(3):
        assert ahead.of(seq, seq) == body(seq)
    assert ahead.calls() == [name(0), name(1), name(2)]


def test_each_entry_is_read_once_and_no_more_than_so_many_ahead(ahead):
    assert ahead.of(0, 39) == body(0)
    assert ahead.calls() == [name(seq) for seq in range(AHEAD)]
    assert [ahead.of(seq, 39) for seq in range(1, 40)] == [body(seq) for seq in range(1, 40)]
    assert ahead.calls() == [name(seq) for seq in range(40)]


def test_they_are_read_at_the_same_time(store, clock):
    together = threading.Barrier(4, timeout=60)
    read = store.inner.read

    def slow(*args, **more):
        together.wait()
        return read(*args, **more)

    store.inner.read = slow
    ahead = ReadAhead(store, lambda size, _: ThreadPoolExecutor(size), clock)
    assert ahead.read(0, 3, PER_FOLDER).to_pybytes() == body(0)


def test_when_there_can_be_no_threads_one_is_read_after_the_other(store, clock):
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    ahead = ReadAhead(store, lambda *_: pool, clock)
    assert [ahead.read(seq, 3, PER_FOLDER).to_pybytes() for seq in range(3)] == [
        body(seq) for seq in range(3)
    ]


def test_what_is_not_there_is_an_error_and_is_read_again(ahead, store):
    with pytest.raises(ObjectNotFoundError):
        ahead.of(40, 45)
    store.inner.create(name(40), body(40))
    assert ahead.of(40, 45) == body(40)
    store.inner.create(name(41), body(41))
    assert ahead.of(41, 45) == body(41), "it has come since it was read ahead"


def test_what_was_read_long_ago_is_read_again(ahead, store, clock):
    ahead.of(0, 5)
    store.inner.overwrite(name(1), b"")
    store.inner.overwrite(name(2), b"")
    assert ahead.of(1, 5) == body(1)
    clock.sleep(2.1)
    assert ahead.of(2, 2) == b"", "it was retired meanwhile"


def test_what_is_to_be_forgotten_is_read_again(ahead, store):
    ahead.of(0, 5)
    store.inner.overwrite(name(1), b"another")
    ahead.forget()
    assert ahead.of(1, 1) == b"another"


def test_an_entry_that_is_asked_for_again_is_read_again(ahead, store):
    """Another process has put the log back, and this one goes on from an earlier entry."""
    ahead.of(4, 8)
    store.inner.overwrite(name(2), b"another")
    assert ahead.of(2, 2) == b"another"
    assert ahead.of(5, 5) == body(5)


def test_what_was_read_ahead_before_a_sleep_is_read_again():
    """A machine was suspended: only the clock on the wall tells. Meanwhile the log was put back from a copy."""
    store, clock = FaultyStore(MemoryStore()), JumpingClock()
    store.requests_are_free = False
    writer = Log.create(store)
    log = Log.open(store, clock, environment=replace(PROCESS, pool=InlineExecutor))
    for at in range(1, 6):
        writer.commit(create(f"gone{at}"))
    group, announced = log._committer._group, [1]
    group._channel = SimpleNamespace(
        published=lambda seq: b"" if seq in announced else None, newest=lambda: 5, relay=lambda *_: None
    )
    assert group.catch_up() == 1
    assert store.count("read", name(5)) == 1, "they are read ahead"
    clock.ahead_s += 2 * 3600
    for seq in range(3, 6):
        store.inner.delete(name(seq))
    Log.open(store.inner).commit(create("another"))
    announced += [2, 3]
    assert group.catch_up() == 3
    assert sorted(log.state.topics) == ["another", "gone1", "gone2"]
