"""Following the chain of entries: one read if nothing is new, and nothing that is not an entry."""

from __future__ import annotations

import struct

import pytest

from spark_eos.errors import CorruptRecordError, StoreUnavailableError, UnsupportedVersionError
from spark_eos.log import paths
from spark_eos.log.commit.in_doubt import InDoubtRequests
from spark_eos.log.commit.tail import Tail
from spark_eos.log.log import Log
from spark_eos.protocol.actions import Request
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore

from .fakes import create


@pytest.fixture
def store():
    return FaultyStore(MemoryStore())


@pytest.fixture
def log(store):
    return Log.create(store)


def test_one_read_if_nothing_is_new(store, log):
    log.commit(create("a"))
    tail = Tail(store)
    tail.follow()
    store.journal.clear()
    assert tail.follow().seq == 1
    assert store.journal == []  # A system call tells.
    store.requests_are_free = False
    tail.follow()  # The first time it looks at its newest entry as well.
    store.journal.clear()
    assert tail.follow().seq == 1
    assert [call.name for call in store.journal] == [paths.entry(2)]


def test_states_stay_as_they_were(log):
    before = log.state
    log.commit(create("a"))
    assert "a" not in before.topics
    assert log.state.seq == before.seq + 1


@pytest.mark.conformance("state/pure")
def test_what_the_writer_thinks_is_what_readers_find(store, log):
    for name in "abc":
        log.commit(create(name))
    assert Tail(store).follow() == log.state


def test_a_state_that_is_not_the_next_one_is_not_taken_over(store, log):
    log.commit(create("a"))
    tail = Tail(store)
    entry = decode_entry(store.read(paths.entry(1)), 1, "entry 1")
    tail.advance(log.state, entry, tail.clock_reading())
    assert tail.state.seq == -1
    assert tail.follow() == log.state


def test_a_read_that_fails_changes_nothing(store, log):
    log.commit(create("a"))
    tail = Tail(store)
    store.inject(Fault.FAIL_BEFORE, "read", paths.entry(1))
    with pytest.raises(StoreUnavailableError):
        tail.follow()
    assert tail.state.seq == 0
    assert tail.follow() == log.state


@pytest.mark.conformance("state/checked")
def test_a_damaged_entry_is_named(store, log):
    log.commit(create("a"))
    data = bytearray(store.read(paths.entry(1)).to_pybytes())
    data[-1] ^= 1
    store.overwrite(paths.entry(1), data)
    with pytest.raises(CorruptRecordError, match=paths.entry(1)):
        Log.open(store)


def test_a_first_entry_that_is_empty_is_damaged_and_not_retired(store, log):
    store.overwrite(paths.entry(log.state.seq), b"")
    with pytest.raises(CorruptRecordError, match="is no log entry"):
        Tail(store).follow()


def test_an_entry_in_the_wrong_slot(store, log):
    log.commit(create("a"))
    store.create(paths.entry(2), store.read(paths.entry(1)))
    with pytest.raises(CorruptRecordError, match="holds entry 1, not entry 2"):
        log.follow()


def test_a_newer_format(store, log):
    data = bytearray(store.read(paths.entry(0)).to_pybytes())
    data[6:8] = struct.pack(">H", 99)
    store.create(paths.entry(1), data)
    with pytest.raises(UnsupportedVersionError, match=r"99.*upgrade"):
        log.follow()
    with pytest.raises(UnsupportedVersionError):
        Log.open(store)


def test_requests_in_doubt_are_found_and_forgotten(store, log):
    done = log.commit(create("a"))
    in_doubt = InDoubtRequests()
    tail = Tail(store, in_doubt=in_doubt)
    in_doubt.record_attempt([Request(done.request_id, 0, ())], 1)
    assert done.request_id in in_doubt
    assert in_doubt.entry_outcome(done.request_id) is None
    tail.follow()
    found = in_doubt.entry_outcome(done.request_id)
    assert found is not None
    assert found[0] == done.seq
    in_doubt.resolve(done.request_id)
    assert in_doubt.entry_outcome(done.request_id) is None
    assert done.request_id not in in_doubt


def test_requests_are_not_in_doubt_after_their_outcome_is_known(log):
    log.commit(create("a"))
    assert log._committer._in_doubt.ids == frozenset()
