"""Records of `send`: in the order of the calls, each with what belongs to it, whatever comes between them."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import Future
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.log.log import Log
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from tests.tiers import examples

NAMES = (f"memory://send-order-{number}" for number in itertools.count())
TOPICS = ("t", "u")
PARTITIONS = 3
PLACES = [TopicPartition(topic, number) for topic in TOPICS for number in range(PARTITIONS)]
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Sent(NamedTuple):
    """A record that was sent, made of its number, and what tells where it is.

    ``row`` is which row of its partition it is among those of its `Producer.send_arrow`; None if it came alone.
    """

    number: int
    topic: str
    partition: int | None
    timestamp_ms: int | None
    future: Future
    row: int | None = None

    def found(self):
        """Where it has to be, and what has to be there."""
        told = self.future.result(0)
        if self.row is not None:
            (told,) = (one for one in told if one.partition == self.partition)
        stamp = told.timestamp_ms if self.timestamp_ms is None else self.timestamp_ms
        assert told.topic == self.topic
        assert self.partition in {None, told.partition}
        assert self.row is not None or told.timestamp_ms == stamp
        key, value, headers = content(self.number)
        place = (TopicPartition(self.topic, told.partition), told.offset + (self.row or 0))
        return place, (stamp, key, value, tuple(headers or ()))


def content(number):
    """Key, value and headers: no two records are the same, and the holes of each column are elsewhere."""
    key = f"k{number}".encode() if number % 3 else None
    value = f"v{number}".encode() if number % 7 != 3 else None
    return key, value, [(f"h{number}", key), ("", value)] if number % 2 else None


def send(producer, number, topic, partition=None, *, stamped=True):
    key, value, headers = content(number)
    stamp = 1_000_000 + number if stamped else None
    future = producer.send(topic, value, key, headers, partition, stamp)
    return Sent(number, topic, partition, stamp, future)


def send_arrow(producer, numbers, topic):
    """Rows that name their partitions."""
    keys, values, headers = zip(*map(content, numbers), strict=True)
    pairs = [one and [{"key": key, "value": value} for key, value in one] for one in headers]
    partitions = [number % PARTITIONS for number in numbers]
    stamps = [2_000_000 + number for number in numbers]
    columns = {
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "headers": pa.array(pairs, HEADERS),
        "timestamp": pa.array(stamps, pa.timestamp("ms", "UTC")),
        "partition": pa.array(partitions, pa.int32()),
    }
    future = producer.send_arrow(topic, pa.table(columns))
    return [
        Sent(number, topic, partition, stamp, future, partitions[:row].count(partition))
        for row, (number, partition, stamp) in enumerate(zip(numbers, partitions, stamps, strict=True))
    ]


def check(log, order):
    """Everything that was sent is where it was said to be, and nothing else; partitions are in the order of sends."""
    expected, ends = {}, dict.fromkeys(PLACES, -1)
    for sent in order:
        (place, offset), record = sent.found()
        assert offset > ends[place], "out of the order of sends"
        ends[place] = offset
        expected[place, offset] = record
    found = {}
    with Consumer(log, {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign(PLACES)
        while records := consumer.poll(max_records=1_000_000):
            for record in records:
                place = TopicPartition(record.topic, record.partition)
                found[place, record.offset] = (
                    record.timestamp_ms,
                    record.key,
                    record.value,
                    record.headers,
                )
    assert found == expected


def made(log, **config):
    for topic in TOPICS:
        Admin(log).create_topic(topic, PARTITIONS)
    return Producer(log, {name.replace("_", "."): value for name, value in config.items()})


SEND = st.tuples(
    st.just("send"), st.sampled_from(TOPICS), st.none() | st.integers(0, PARTITIONS - 1), st.booleans()
)
OTHER = [
    st.tuples(st.just("arrow"), st.sampled_from(TOPICS), st.integers(1, 5)),
    st.sampled_from([("flush",), ("look",)]),
]
MEMORY = st.sampled_from([300, 1_000_000])


def carry_out(producer, step, numbers, sent):
    """A step; records are added to ``sent``."""
    name, *rest = step
    if name == "send":
        topic, partition, stamped = rest
        sent.append(send(producer, next(numbers), topic, partition, stamped=stamped))
    elif name == "arrow":
        topic, count = rest
        sent += send_arrow(producer, list(itertools.islice(numbers, count)), topic)
    elif name == "flush":
        producer.flush()
    else:
        for one in sent[::3]:
            one.future.done()


@examples(50)
@given(
    steps=st.lists(st.one_of(SEND, SEND, SEND, *OTHER), max_size=40),
    linger=st.sampled_from([0, 1, 100_000]),
    batch=st.sampled_from([0, 200, 1_000_000]),
    memory=MEMORY,
)
def test_any_steps(steps, linger, batch, memory):
    log, numbers, sent = next(NAMES), itertools.count(), []
    with made(log, linger_ms=linger, batch_size=batch, buffer_memory=memory) as producer:
        for step in steps:
            carry_out(producer, step, numbers, sent)
    check(log, sent)


@examples(50)
@given(
    steps=st.lists(st.one_of(SEND, SEND, SEND, *OTHER, st.sampled_from(["commit", "abort"])), max_size=40),
    memory=MEMORY,
)
def test_any_steps_in_transactions(steps, memory):
    log, numbers, sent, committed = next(NAMES), itertools.count(), [], []
    with made(log, transactional_id="app", buffer_memory=memory) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for step in [*steps, "commit"]:
            if isinstance(step, tuple):
                carry_out(producer, step, numbers, sent)
                continue
            if step == "commit":
                producer.commit_transaction()
                committed += sent
            else:
                producer.abort_transaction()
            sent = []
            producer.begin_transaction()
    check(log, committed)


def test_rows_of_a_table_stay_between_the_records_around_them():
    log = next(NAMES)
    with made(log, linger_ms=100_000) as producer:
        sent = [send(producer, 0, "t", 1)]
        sent += send_arrow(producer, [1, 4], "t")
        sent.append(send(producer, 5, "t", 1))
    check(log, sent)
    assert [one.found()[0][1] for one in sent] == [0, 1, 2, 3]


@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.FAIL_AFTER])
@pytest.mark.parametrize(("operation", "names"), [("upload", "data/*"), ("create", "_log/*")])
def test_records_that_come_while_a_batch_is_repeated_stay_behind_it(operation, names, fault):
    store = FaultyStore(MemoryStore())
    log = Log.open_or_create(store)
    with made(log, linger_ms=100_000) as producer:
        sent = [send(producer, 0, "t", 1)]
        producer.flush()  # The producer has its id.
        sent += [send(producer, 1, "t", 1), *send_arrow(producer, [4, 7], "t"), send(producer, 8, "t", 1)]
        store.inject(fault, operation, names)
        repeating = threading.Thread(target=producer.flush)
        repeating.start()
        sent += [send(producer, number, "t", 1) for number in range(9, 15)]
        producer.flush()
        repeating.join()
    check(log, sent)


def test_threads_share_a_producer():
    log, rounds, threads = next(NAMES), 60, 4
    sent = [[] for _ in range(threads)]
    with made(log, linger_ms=0, batch_size=500, buffer_memory=5_000) as producer:

        def run(thread):
            for number in range(thread, rounds * threads, threads):
                partition = (number // threads) % PARTITIONS
                sent[thread].append(
                    send(producer, number, TOPICS[number % 2], partition, stamped=bool(number % 5))
                )
                if number % 29 == 0:
                    producer.flush()

        running = [threading.Thread(target=run, args=(thread,)) for thread in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    for mine in sent:  # The order of the sends of a thread; between threads there is none.
        places = [one.found()[0] for one in mine]
        assert all(
            offsets == sorted(offsets)
            for place in PLACES
            for offsets in [[offset for at, offset in places if at == place]]
        )
    check(log, sorted(itertools.chain(*sent), key=lambda one: one.found()[0][1]))
