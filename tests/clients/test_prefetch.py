"""A consumer of a log that is far away: the same records, by fewer requests, which do not wait for each other."""

from __future__ import annotations

import threading
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eos import Consumer, TopicPartition
from spark_eos.errors import CorruptRecordError
from spark_eos.log.data import prefetch
from spark_eos.log.log import Log
from spark_eos.protocol.actions import AppendBatches
from spark_eos.protocol.types import NO_PRODUCER
from spark_eos.storage import MemoryStore
from tests.log.test_prefetch import until

PARTITIONS, FILES, ROWS = 3, 6, 4
PLACES = [TopicPartition("t", number) for number in range(PARTITIONS)]


class Store(MemoryStore):
    """One whose reads of data are counted."""

    def __init__(self, requests_are_free):
        super().__init__()
        self.requests_are_free = requests_are_free
        self.asked, self.places = [], []
        self.before = lambda _: None

    def read(self, name, offset=0, length=None):
        if name.startswith("data/"):
            self.asked.append(name)
            self.places.append((name, offset))
            self.before(name)
        return super().read(name, offset, length)


def append(log, number):
    """A file with rows for each partition."""
    topic = log.ensure_topic("t", PARTITIONS)
    with log.stage(topic) as writer:
        values = [b"%d-%d" % (number, row) for row in range(ROWS * PARTITIONS)]
        writer.append(pa.table({"value": values}), np.arange(len(values), dtype=np.int32) % PARTITIONS)
        files = writer.finish()
    log.commit(lambda _: (AppendBatches(NO_PRODUCER, (("t", topic.topic_id),), files),))


def filled(requests_are_free=False):
    log = Log.create(Store(requests_are_free))
    for number in range(FILES):
        append(log, number)
    log.store.asked.clear()
    return log


def reader(log, places=PLACES):
    consumer = Consumer(log, {"auto.offset.reset": "earliest"})
    consumer.assign(places)
    return consumer


def places_of(records):
    return [(record.partition, record.offset, record.value) for record in records]


@pytest.fixture
def log():
    return filled()


@pytest.mark.parametrize("limit", [1, 3, ROWS, 10, 500])
def test_every_file_is_one_request(log, limit):
    with reader(log) as consumer:
        found = []
        while polled := consumer.poll(max_records=limit):
            found += places_of(polled)
    assert len(found) == PARTITIONS * FILES * ROWS
    with reader(filled(requests_are_free=True)) as near:
        wanted = []
        while polled := near.poll(max_records=limit):
            wanted += places_of(polled)
    assert found == wanted, "the same, in the same order"
    assert Counter(log.store.asked) == dict.fromkeys(log.store.asked, 1)
    assert len(log.store.asked) == FILES


@pytest.fixture
def by_batch(monkeypatch):
    """Each batch is a request, and there is one at a time."""
    for name, value in {"MAX_GAP_BYTES": -1, "MAX_COALESCED_BYTES": 1, "MAX_CONCURRENCY": 1}.items():
        monkeypatch.setattr(prefetch, name, value)


@pytest.mark.usefixtures("by_batch")
@pytest.mark.parametrize("limit", [2, ROWS, 2 * ROWS, 500, None])
def test_what_is_needed_first_is_asked_for_first(log, limit):
    local = Log.create(Store(requests_are_free=True))
    for info in log.store.list(""):
        local.store.overwrite(info.name, log.store.read(info.name))
    logs = log, Log.open(local.store)
    for one in logs:
        one.store.places.clear()
        with reader(one) as consumer:
            while consumer.poll_arrow(max_records=limit).num_rows:
                pass
    assert log.store.places == local.store.places
    assert len(log.store.places) == FILES * PARTITIONS


@pytest.mark.usefixtures("by_batch")
def test_what_is_paused_is_not_read(log):
    with reader(log) as consumer:
        consumer.pause(*PLACES[:2])
        found = []
        while polled := consumer.poll(max_records=3):
            found += polled
    assert len(found) == FILES * ROWS
    assert len(log.store.places) == FILES


def test_tables_too(log):
    with reader(log) as consumer:
        rows = [consumer.poll_arrow().num_rows for _ in range(FILES + 1)]
    assert rows == [PARTITIONS * ROWS] * FILES + [0]
    assert len(log.store.asked) == FILES


def test_requests_are_under_way_together(log):
    barrier = threading.Barrier(FILES)
    log.store.before = lambda _: barrier.wait(30)  # Nobody is answered before all have asked.
    with reader(log) as consumer:
        assert len(consumer.poll(max_records=1)) == 1


def test_where_a_read_is_a_system_call_nothing_is_read_ahead():
    log = filled(requests_are_free=True)
    with reader(log) as consumer:
        consumer.poll(max_records=1)
    assert len(log.store.asked) == 1


def test_what_comes_meanwhile_is_read_and_then_ahead_as_well(log):
    with reader(log, PLACES[:1]) as consumer:
        assert len(consumer.poll(max_records=1)) == 1
        for number in range(FILES, FILES + 3):
            append(log, number)
        found = 1
        while polled := consumer.poll(max_records=1):
            found += len(polled)
            if found == FILES * ROWS + 1:
                until(lambda: len(log.store.asked) == FILES + 3)
    assert found == (FILES + 3) * ROWS
    assert len(log.store.asked) == FILES + 3


def test_what_was_read_in_vain_is_forgotten(log):
    """Each of these would else hold what is never taken, in place of what comes next."""
    with reader(log, PLACES[:2]) as consumer:
        for change in (
            lambda: consumer.seek(PLACES[0], FILES * ROWS),
            lambda: consumer.pause(PLACES[0]),
            lambda: consumer.assign(PLACES[1:2]),
        ):
            consumer.assign(PLACES[:2])
            consumer.resume(*PLACES[:2])
            for place in PLACES[:2]:
                consumer.seek(place, 0)
            consumer.poll(max_records=1)
            change()
            left = 0
            while polled := consumer.poll():
                left += len(polled)
            before = len(log.store.asked)
            consumer.seek(PLACES[1], 0)
            consumer.poll(max_records=1)
            until(lambda before=before: len(log.store.asked) == before + FILES)
            assert left in {FILES * ROWS, FILES * ROWS - 1}


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_file_that_is_not_there_is_told_where_its_records_would_be(log, monkeypatch, size):
    monkeypatch.setattr(prefetch, "MAX_COALESCED_BYTES", size)
    names = sorted({info.name for info in log.store.list("data/")}, key=lambda name: first_value(log, name))
    log.store.delete(names[2])
    with reader(log, PLACES[:1]) as consumer:
        assert [record.value for record in consumer.poll()] == [
            b"%d-%d" % (number, PARTITIONS * row) for number in range(2) for row in range(ROWS)
        ]
        missing = rf"{names[2]}.*It is missing: it holds {PLACES[0].topic}-0, offsets \d+ to \d+\."
        with pytest.raises(CorruptRecordError, match=missing):
            consumer.poll()


def first_value(log, name):
    data = log.store.read(name).to_pybytes()
    log.store.asked.clear()
    return next(number for number in range(FILES) if b"%d-0" % number in data)


def test_a_position_that_is_out_of_range_is_reset_when_its_turn_has_come(log):
    with reader(log) as consumer:
        consumer.seek(PLACES[2], 1000)
        assert len(consumer.poll()) == PARTITIONS * FILES * ROWS


@pytest.mark.usefixtures("by_batch")
def test_whoever_closes_waits_for_nobody_and_asks_for_no_more(log):
    gate, waiting, by = threading.Event(), threading.Event(), []

    def before(_):
        if len(log.store.asked) > 1:
            by.append(threading.current_thread())
            waiting.set()
            gate.wait(60)

    log.store.before = before
    consumer = reader(log, PLACES[:1])
    assert len(consumer.poll(max_records=1)) == 1
    assert waiting.wait(30)
    consumer.close()
    assert not gate.is_set()
    (thread,) = by
    gate.set()
    thread.join(60)
    assert not thread.is_alive()
    assert len(log.store.asked) == 2


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("poll"), st.integers(1, 3 * ROWS)),
        st.tuples(st.just("poll_arrow"), st.none()),
        st.tuples(st.just("seek"), st.integers(0, PARTITIONS - 1), st.integers(0, FILES * ROWS + 3)),
        st.tuples(st.just("pause"), st.integers(0, PARTITIONS - 1)),
        st.tuples(st.just("resume"), st.integers(0, PARTITIONS - 1)),
        st.tuples(st.just("append")),
        st.tuples(st.just("assign"), st.integers(1, 2**PARTITIONS - 1)),
    ),
    max_size=20,
)


@given(STEPS)
def test_far_away_a_consumer_finds_what_it_would_find_here(steps):
    logs = filled(requests_are_free=False), filled(requests_are_free=True)
    consumers = [reader(log) for log in logs]
    held = set(PLACES)
    for number, (name, *told) in enumerate([*steps, *[("poll", 500)] * 2]):
        if name == "append":
            for log in logs:
                append(log, FILES + number)
        elif name == "assign":
            held = {place for place in PLACES if told[0] >> place.partition & 1}
            for consumer in consumers:
                consumer.assign(sorted(held))
        elif name in {"poll", "poll_arrow"}:
            far, near = (
                places_of(consumer.poll(max_records=told[0])) if name == "poll"
                else consumer.poll_arrow().select(["partition", "offset", "value"]).to_pylist()
                for consumer in consumers
            )  # fmt: skip
            assert far == near
        elif PLACES[told[0]] in held:
            for consumer in consumers:
                if name == "seek":
                    consumer.seek(PLACES[told[0]], told[1])
                else:
                    getattr(consumer, name)(PLACES[told[0]])
    for consumer in consumers:
        consumer.close()
