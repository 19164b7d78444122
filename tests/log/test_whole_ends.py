"""The ends of several partitions that split no committed transaction, against all possible ones."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eos import Admin, Log, Producer
from spark_eos.log import paths
from spark_eos.log.selection.units import whole_ends
from spark_eos.log.selection.whole_transactions import Part, Unit, most
from spark_eos.log.time_travel import earliest
from spark_eos.protocol.actions import AppendBatches, CreateTopic, DeleteTopic, Entry, Request
from spark_eos.protocol.encoding.entries import encode_entry
from spark_eos.protocol.types import NO_PRODUCER
from spark_eos.storage import MemoryStore
from tests.tiers import examples
from verification.retiring import RETIRED_AT_ONCE

ROW = pa.table({"key": [b"k"], "value": [b"v"]})


class World:
    """A log with three partitions of two topics, and what belongs together in it by what this test has written."""

    def __init__(self, interval=200):
        self.log = Log.create(MemoryStore(), snapshot_interval=interval, config=RETIRED_AT_ONCE)
        self.log.does_maintenance = False  # `forget` does it; a thread would at any moment.
        admin = Admin(self.log)
        admin.create_topic("orders", 2)
        admin.create_topic("payments", 1)
        state = self.log.follow()
        self.places = [("orders", 0), ("orders", 1), ("payments", 0)]
        self.keys = [(state.topics[topic].topic_id, number) for topic, number in self.places]
        self.producers = {}
        self.open = {}
        self.units = []
        """The offsets of each committed transaction, by the number of the partition."""

    def send(self, name, place):
        """One record of the transaction that is open, or that begins."""
        if name not in self.producers:
            self.producers[name] = Producer(self.log, transactional_id=name, transaction_timeout_ms=900_000)
            self.producers[name].init_transactions()
        producer = self.producers[name]
        if name not in self.open:
            producer.begin_transaction()
            self.open[name] = []
        topic, number = self.places[place]
        offset = producer.send(topic, b"v", partition=number)
        producer.flush()
        self.open[name].append((place, offset.result().offset))

    def end(self, name, *, commit):
        found = self.open.pop(name, None)
        if found is not None:
            (self.producers[name].commit_transaction if commit else self.producers[name].abort_transaction)()
            if commit:
                self.units.append(found)

    def alone(self, places):
        """Records outside of a transaction: an entry that stands for itself."""
        files, ids, found = [], [], []
        state = self.log.follow()
        for place in places:
            topic = state.topics[self.places[place][0]]
            with self.log.stage(topic) as writer:
                writer.append(ROW, self.places[place][1])
                files += writer.finish()
            ids.append((topic.name, topic.topic_id))
            found.append((place, state.partitions[self.keys[place]].end))
        self.log.commit(lambda _: (AppendBatches(NO_PRODUCER, tuple({*ids}), tuple(files)),))
        self.units.append(found)

    def forget(self):
        """Retire what snapshots cover."""
        self.log.maintenance.snapshot()
        self.log.maintenance.retire(self.log.follow(), 1000)

    def stops(self):
        state = self.log.follow()
        return [state.partitions[key].last_stable_offset for key in self.keys]

    def found(self, start):
        ends = whole_ends(self.log, self.log.follow(), dict(zip(self.keys, start, strict=True)))
        return [ends[key] for key in self.keys]

    def is_whole(self, ends):
        return all(len({offset < ends[place] for place, offset in unit}) == 1 for unit in self.units)

    def greatest(self, start):
        """Of two whole cuts, the greater offsets of each partition are one, too."""
        found = [*start]
        for ends in product(*(range(low, high + 1) for low, high in zip(start, self.stops(), strict=True))):
            if self.is_whole(ends):
                found = [*map(max, found, ends)]
        return found


_names, _places = st.sampled_from("abc"), st.integers(0, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), _names, _places),
        st.tuples(st.just("commit"), _names),
        st.tuples(st.just("abort"), _names),
        st.tuples(st.just("alone"), st.lists(_places, min_size=1, max_size=3, unique=True)),
        st.tuples(st.just("publish")),
    ),
    max_size=14,
)


@examples(60)
@given(STEPS, st.booleans())
def test_the_greatest_ends_that_are_whole(steps, forgets):
    world = World(3 if forgets else 200)
    start = [0, 0, 0]
    for kind, *arguments in [*steps, ("publish",)]:
        if kind == "send":
            world.send(*arguments)
        elif kind in {"commit", "abort"}:
            world.end(*arguments, commit=kind == "commit")
        elif kind == "alone":
            world.alone(*arguments)
        else:
            if forgets:
                world.forget()
            found, greatest = world.found(start), world.greatest(start)
            assert world.is_whole(found)
            if not forgets:
                assert found == greatest
            assert all(low <= end <= high for low, end, high in zip(start, found, greatest, strict=True))
            start = found
    for name in [*world.open]:
        world.end(name, commit=True)
    assert world.found(start) == world.stops(), "nothing is held back by what has ended"


def test_a_cut_never_goes_back():
    assert most({("t", 0): 5}, {("t", 0): 3}, ()) == {("t", 0): 5}


def test_what_is_left_of_a_torn_transaction_waits_without_going_back():
    """An earlier cut went through it in the first partition; in the second one it cannot go on yet."""
    orders, payments = ("orders", 0), ("payments", 0)
    torn = Unit(1, {orders: Part(2, 8, 6), payments: Part(0, 1, 1)})
    assert most({orders: 5, payments: 0}, {orders: 8, payments: 0}, [torn]) == {orders: 5, payments: 0}


def test_a_transaction_waits_in_all_of_its_partitions():
    """A is open in orders-0. B has a record behind it, and one in payments; what is behind B is in orders-1, too."""
    world = World()
    world.send("a", 0)
    world.send("b", 2)
    world.send("b", 0)
    world.end("b", commit=True)
    world.alone([2, 1])
    assert world.stops() == [0, 1, 3]
    assert world.found([0, 0, 0]) == [0, 0, 0]
    world.end("a", commit=True)
    assert world.found([0, 0, 0]) == world.stops()


def test_what_lies_before_goes_on():
    world = World()
    world.alone([0, 1, 2])
    world.send("a", 0)
    world.alone([1, 2])
    assert world.found([0, 0, 0]) == world.stops() == [1, 2, 2], "nothing that is committed is behind A"
    world.alone([0, 2])
    world.alone([1])
    assert world.found([0, 0, 0]) == [1, 3, 2]


@pytest.mark.parametrize("retires", [False, True])
def test_entries_of_before_the_open_transaction_are_not_needed(retires):
    world = World(3)
    for _ in range(9):
        world.alone([0, 1, 2])
    if retires:
        world.forget()
        assert world.log.maintenance.retired(world.log.state) > 3
    world.send("a", 0)
    world.alone([0, 1])
    world.alone([2])
    assert world.found([0, 0, 0]) == [9, 9, 10]


def test_what_ended_before_the_oldest_entry_is_not_split():
    """B ended while A was open, and its entry is retired. A has a record behind O, which is open."""
    world = World(3)
    world.send("a", 1)
    world.alone([1, 2])
    for _ in range(6):
        world.alone([2])
        world.forget()
    world.send("o", 0)
    world.send("a", 0)
    world.end("a", commit=True)
    for _ in range(6):
        world.alone([2])
        world.forget()
    assert earliest(world.log).partitions[world.keys[2]].end > 0, "B's entry is not known any more"
    assert world.stops() == [0, 3, 13]
    assert world.found([0, 0, 0]) == [0, 0, 0]
    assert world.is_whole([0, 0, 0])
    assert not world.is_whole([0, 0, 13])


def test_a_transaction_that_is_open_for_long_holds_back_no_more_than_it_must():
    """Entries and a snapshot from before it are kept as long as it is open, and no longer."""
    world = World(3)
    for _ in range(6):
        world.alone([0, 1, 2])
        world.forget()
    world.alone([2])
    world.forget()  # At a boundary.
    world.send("a", 0)
    world.alone([0, 1])
    for _ in range(12):
        world.alone([2])
        world.forget()
    assert world.log.maintenance.retired(world.log.state) > 3
    assert world.found([0, 0, 0]) == world.greatest([0, 0, 0]) == [6, 6, 19]
    world.end("a", commit=True)
    for _ in range(2):
        world.forget()
        assert earliest(world.log).seq >= world.log.state.seq - 6, "what is kept is read on from"
        for _ in range(3):
            world.alone([2])


def test_what_others_have_retired_meanwhile_is_not_known_and_so_nothing_goes_on():
    world = World(3)
    world.send("a", 0)
    world.alone([0, 1])
    state = world.log.follow()
    world.end("a", commit=True)
    for _ in range(8):
        world.alone([2])
    world.forget()
    start = dict.fromkeys(world.keys, 0)
    assert earliest(world.log).seq > state.seq
    assert whole_ends(world.log, state, start) == start


def test_a_topic_that_is_created_again_in_the_same_entry_has_none_of_the_records_of_the_one_before():
    """Several processes write one entry together: a record of the first topic, its end, and another one of its name."""
    world = World()
    log, state = world.log, world.log.follow()
    before = state.topics["orders"]
    files = []
    for topic, rows in ((before, 5), (state.topics["payments"], 1)):
        with log.stage(topic) as writer:
            writer.append(pa.concat_tables([ROW] * rows), 0)
            files += writer.finish()
    ids = tuple((topic.name, topic.topic_id) for topic in (before, state.topics["payments"]))
    together = (
        (AppendBatches(NO_PRODUCER, ids, tuple(files)),),
        (DeleteTopic("orders", before.topic_id),),
        (CreateTopic("orders", "another", 2),),
    )
    requests = tuple(
        Request(bytes([number]) * 16, state.timestamp_ms, actions) for number, actions in enumerate(together)
    )
    entry = Entry(state.seq + 1, requests, state.lineage)
    log.store.create(paths.entry(entry.seq, state.entries_per_folder), encode_entry(entry))
    state = log.follow()
    assert (state.seq, state.topics["orders"].topic_id) == (entry.seq, "another")
    with Producer(log) as producer:
        producer.send("orders", b"v", partition=0)
    state = log.follow()
    keys = [("another", 0), (state.topics["payments"].topic_id, 0)]
    # One open transaction with records behind it, so that the entries are read.
    world.keys = [*keys]
    world.places = [("orders", 0), ("payments", 0)]
    world.send("a", 0)
    world.alone([0])
    assert world.found([0, 0]) == [1, 1]
