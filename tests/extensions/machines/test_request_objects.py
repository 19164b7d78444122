"""Requests as objects in the log's store: for machines that cannot reach the leader."""

from __future__ import annotations

import itertools

import pytest

from spark_eos.extensions.machines import objects
from spark_eos.extensions.machines.limits import (
    OBJECT_PATIENCE,
    OBJECT_SILENT_S,
    POLL_S,
    REACHES_S,
    REFRESH_S,
    SPREAD_S,
)
from spark_eos.extensions.machines.message import MAX_BODY_BYTES, Answer, encode_bundle
from spark_eos.extensions.machines.objects import (
    LEFTOVER_S,
    MAX_OBJECTS,
    REQUESTS,
    REWRITE_S,
    RequestObjects,
)
from spark_eos.extensions.machines.open import _in_daemon_thread
from spark_eos.storage import MemoryStore
from spark_eos.testing.faulty_store import Fault, FaultyStore
from tests.extensions.machines.test_machines import Hint, Machine, Peer, StoredHints, decode_bundle
from verification.inline_executor import InlineExecutor


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store():
    return FaultyStore(MemoryStore())


@pytest.fixture
def ways(store, clock):
    members = (f"{number:032x}" for number in itertools.count(1))
    return RequestObjects(store, clock, InlineExecutor().submit, lambda: next(members))


def names(store):
    return sorted(info.name.removeprefix(REQUESTS) for info in store.inner.list(REQUESTS))


def looks(collector):
    """Look once; what that has found."""
    collector.look()
    collector.found()
    return collector.found()


# -- A machine writes ---------------------------------------------------------------------------------------


def test_there_is_one_object_of_a_machine(ways, store):
    peer = ways.peer()
    for number, text in enumerate((b"one", b"two", b"three"), 1):
        assert peer.exchange(text, number) == Answer(number + 1, leads=True)
        assert names(store) == [f"{1:032x}-{number}"]
        assert store.read(REQUESTS + names(store)[0]).to_pybytes() == text
    peer.close()
    assert names(store) == []


def test_what_is_the_same_is_written_once(ways, store):
    peer = ways.peer()
    for known in range(5):
        peer.exchange(b"the same", known)
    assert store.count("overwrite") == 1


def test_for_one_slot_it_writes_now_and_then(ways, store, clock):
    """Many processes of the machine submit at about the same time."""
    peer = ways.peer()
    for number in range(5):
        peer.exchange(b"%d" % number, 7)
    assert store.count("overwrite") == 1
    clock.now += REWRITE_S
    peer.exchange(b"all", 7)
    assert store.count("overwrite") == 2


def test_without_the_right_to_write_it_is_no_way(ways, store):
    store.inject(Fault.FAIL_BEFORE, "overwrite", REQUESTS + "*")
    peer = ways.peer()
    peer.exchange(b"one", 1)
    assert peer.exchange(b"one", 1) is None


# -- The leader collects ------------------------------------------------------------------------------------


def test_a_leader_reads_each_object_once(ways, store):
    collector = ways.collector()
    assert looks(collector) == {}
    one, other = ways.peer(), ways.peer()
    one.exchange(b"one", 1)
    other.exchange(b"other", 1)
    assert looks(collector) == {f"{1:032x}": b"one", f"{2:032x}": b"other"}
    assert looks(collector) == {}
    one.exchange(b"next", 2)
    assert looks(collector) == {f"{1:032x}": b"next"}
    assert store.count("read") == 3


def test_what_was_there_before_its_term_is_left_unread(ways, store):
    """Its owner may have had its answer long ago: nothing but the slots says how old it is."""
    ways.peer().exchange(b"old", 1)
    collector = ways.collector()
    assert looks(collector) == {}
    assert looks(collector) == {}
    assert store.count("read") == 0


def test_after_it_has_found_some_it_goes_on_looking(ways, store, clock):
    collector = ways.collector()
    looks(collector)
    assert collector.found() == {}
    assert store.count("list") == 1, "only when it is asked to"
    peer = ways.peer()
    peer.exchange(b"one", 1)
    looks(collector)
    for known in range(2, 5):
        peer.exchange(b"%d" % known, known)
        collector.found()
    assert collector.found() == {f"{1:032x}": b"4"}
    clock.now += objects.COLLECTS_S + 0.1
    collector.found()
    looked = store.count("list")
    collector.found()
    assert store.count("list") == looked


def test_leftovers_are_deleted(ways, store, clock):
    ways.peer().exchange(b"of a process that died", 1)
    collector = ways.collector()
    looks(collector)
    clock.now += LEFTOVER_S - 1
    looks(collector)
    assert len(names(store)) == 1
    clock.now += 2
    looks(collector)
    assert names(store) == []


def test_of_one_machine_the_newest_object_counts(ways, store):
    collector = ways.collector()
    looks(collector)
    for number in (10, 9):  # The delete of the older one is late.
        store.inner.overwrite(f"{REQUESTS}{1:032x}-{number}", b"%d" % number)
    assert looks(collector) == {f"{1:032x}": b"10"}


@pytest.mark.parametrize(
    "name", ["x", f"{1:032x}", f"{1:032x}-", f"{1:032x}-1.json", f"{1:033x}-1", f"{1:032x}-1/2"]
)
def test_other_names_are_left_alone(ways, store, clock, name):
    collector = ways.collector()
    looks(collector)
    store.inner.overwrite(REQUESTS + name, b"another")
    assert looks(collector) == {}
    clock.now += LEFTOVER_S + 1
    looks(collector)
    assert names(store) == [name]


def test_an_object_that_is_too_large_is_not_read(ways, store):
    collector = ways.collector()
    looks(collector)
    store.inner.overwrite(f"{REQUESTS}{1:032x}-1", b"x" * (MAX_BODY_BYTES + 1))
    assert looks(collector) == {}
    assert store.count("read") == 0


def test_no_more_than_so_many_are_looked_at(ways, store, monkeypatch):
    monkeypatch.setattr(objects, "MAX_OBJECTS", 5)
    assert MAX_OBJECTS > 1000
    collector = ways.collector()
    looks(collector)
    for number in range(9):
        store.inner.overwrite(f"{REQUESTS}{number:032x}-1", b"one")
    assert len(looks(collector)) == 5


@pytest.mark.parametrize("operation", ["list", "read"])
def test_a_store_that_fails_is_no_error(ways, store, operation):
    collector = ways.collector()
    looks(collector)
    ways.peer().exchange(b"one", 1)
    store.inject(Fault.FAIL_BEFORE, operation, "*" if operation == "list" else REQUESTS + "*")
    assert looks(collector) == {}


def test_an_object_that_is_gone_when_it_is_read_is_left_out(ways, store):
    collector = ways.collector()
    looks(collector)
    first, second = ways.peer(), ways.peer()
    first.exchange(b"first", 1)
    second.exchange(b"second", 1)
    read = store.inner.read

    def vanishing(name, *args, **more):
        if f"{1:032x}" in name:
            store.inner.delete(name)
        return read(name, *args, **more)

    store.inner.read = vanishing
    assert looks(collector) == {f"{2:032x}": b"second"}


# -- The channel --------------------------------------------------------------------------------------------


class Cut(Machine):
    """A machine that no network reaches: ``ways`` are the objects."""

    def __init__(self, folder, store, name, ways):
        super().__init__(folder, store, name)
        self._objects = ways
        ways._now = lambda: self.time


@pytest.fixture
def cut(tmp_path, store, ways):
    """Its leader leads others, and has failed it twice: the hint changes, and nothing answers."""
    one = Cut(tmp_path, store, "b", ways)
    one.peer = one.peers["a"] = Peer(lambda _: None)
    StoredHints(store).write(Hint("a"))
    assert not one.try_lead()
    one.submit(b"request")
    assert one.published(5) is None
    for beat in (1, 2):
        StoredHints(store).write(Hint("a", beat=beat))
        one.time += SPREAD_S
        one.try_lead()
    return one


def test_what_cannot_be_told_to_the_leader_is_written_for_it(cut, store):
    assert not cut.try_lead(), "it leads no others, and does not compete"
    cut.published(5)
    (name,) = names(store)
    assert decode_bundle(store.read(REQUESTS + name).to_pybytes()) == [b"request"]
    assert not cut.hosts


def test_one_beat_is_not_enough(tmp_path, store, ways):
    """Without a second one it is not known that the leader leads others."""
    one = Cut(tmp_path, store, "b", ways)
    one.peers["a"] = Peer(lambda _: None)
    StoredHints(store).write(Hint("a"))
    one.try_lead()
    one.submit(b"request")
    one.published(5)
    StoredHints(store).write(Hint("a", beat=1))
    one.time += SPREAD_S
    assert one.try_lead(), "it writes for itself"
    one.published(5)
    assert names(store) == []


def test_it_looks_for_the_next_entries_by_itself(cut):
    """Each time for twice as many; after one that is not there for one, and not at once."""
    assert cut.published(5) == b""
    assert cut.newest() == 5
    cut.relay(5, b"five")
    assert cut.published(6) is None, "it has just looked"
    assert cut.published(6) == b""
    assert cut.newest() == 7
    cut.distrust()
    assert cut.newest() < 7
    assert cut.published(6) is None
    cut.time += POLL_S
    assert cut.published(6) == b""
    assert cut.newest() == 6


def test_a_leader_that_leaves_out_its_objects_is_given_none(cut, store):
    def entries(first, last):
        for seq in range(first, last):
            cut.time += 0.1
            cut.published(seq)
            cut.relay(seq, b"entry")

    entries(0, 40)
    assert not cut.try_lead(), "the leader may not have looked"
    entries(40, 80)
    assert cut.try_lead(), "it writes for itself"
    written = store.count("overwrite", REQUESTS + "*")

    def beats(first, last):
        for beat in range(first, last):
            StoredHints(store).write(Hint("a", beat=beat))
            cut.time += SPREAD_S
            if not cut.try_lead():
                cut.published(1000)
        return store.count("overwrite", REQUESTS + "*")

    assert beats(3, 40) == written, "it may have no right to list them"
    assert beats(40, 80) > written, "it may have looked at the wrong times"


def test_each_request_has_as_much_time(cut):
    for _ in range(3):
        cut.withdraw()
        cut.time += 100
        cut.submit(b"next")
        cut.relay(0, b"entry")
        cut.published(OBJECT_PATIENCE + 1)
    assert not cut.try_lead()


def test_a_leader_that_creates_nothing_is_given_no_objects(cut, store):
    cut.published(5)
    cut.distrust()
    cut.time += OBJECT_SILENT_S + 0.1
    cut.published(5)
    assert cut.try_lead()
    assert names(store) == [], "what it has written is gone"


def test_it_goes_on_over_the_network_when_that_is_there_again(cut, store):
    cut.published(5)
    leader = cut.peers["a"] = Peer(lambda known: Answer(known, leads=True))
    cut.time += REFRESH_S
    cut.try_lead()
    assert not leader.got, "it tries less often than it looks at the hint"
    cut.time += REACHES_S
    cut.try_lead()
    cut.try_lead()
    assert leader.got == [[]]
    cut.published(5)
    assert leader.got[-1] == [b"request"]
    assert names(store) == []


def test_it_follows_another_leader_that_it_can_reach(cut, store):
    cut.published(5)
    leader = cut.peers["c"] = Peer(lambda known: Answer(known, leads=True))
    StoredHints(store).write(Hint("c"))
    cut.time += REFRESH_S
    cut.try_lead()
    cut.try_lead()
    cut.published(5)
    assert leader.got[-1] == [b"request"]


def test_when_there_can_be_no_threads_it_is_done_at_once(monkeypatch):
    def refuses(_):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr("threading.Thread.start", refuses)
    assert _in_daemon_thread(lambda: "done").result(timeout=0) == "done"


def test_a_child_has_no_way(cut):
    cut.forked()
    assert cut.published(5) is None


def test_a_leader_takes_along_what_it_finds(tmp_path, store, ways):
    leader = Cut(tmp_path, store, "a", ways)
    assert leader.try_lead()
    member = RequestObjects(store, lambda: leader.time, InlineExecutor().submit, lambda: "f" * 32).peer()
    for _ in range(7):
        leader.time += REFRESH_S
        leader.try_lead()
    member.exchange(encode_bundle([b"from afar"]), 1)
    for _ in range(3):
        leader.time += REFRESH_S
        leader.try_lead()
    assert [*leader.submissions()] == [b"from afar"]
