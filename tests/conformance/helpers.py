"""Producers, readers and storage that comes and goes, as the tests of the table need them."""

from __future__ import annotations

import itertools

import pyarrow as pa

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.protocol.actions import AppendBatches, EndTransaction
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import FaultyStore

ENTRIES = "_log/*"
NAMES = (f"memory://conformance-{number}" for number in itertools.count())


def transactional(url, transactional_id="app", **settings):
    """A producer that has initialised its transactions; settings with underscores for dots."""
    config = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer(url, {"transactional.id": transactional_id, **config})
    producer.init_transactions()
    return producer


def partitions(url, *topics):
    """All partitions of these topics."""
    admin = Admin(url)
    return [TopicPartition(t, p.partition) for t in topics for p in admin.describe_topic(t).partitions]


def records(url, *topics, isolation="read_committed"):
    """All records of these topics, in order within each partition."""
    with Consumer(url, {"isolation.level": isolation, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign(partitions(url, *(topics or ("t",))))
        found = []
        while polled := consumer.poll(max_records=1_000_000):
            found += polled
        return found


def values(url, *topics, isolation="read_committed"):
    """Their values."""
    return [record.value for record in records(url, *topics, isolation=isolation)]


def run(producer, *sent, commit=True, topic="t"):
    """One transaction; its futures."""
    producer.begin_transaction()
    futures = [producer.send(topic, value) for value in sent]
    (producer.commit_transaction if commit else producer.abort_transaction)()
    return futures


def faulty_log(clock=None, deadline_s=0.0):
    """A log in memory, and its store, which fails on demand; the log gives up after ``deadline_s``."""
    store = FaultyStore(MemoryStore())
    more = {} if clock is None else {"clock": clock}
    return Log.open_or_create(store, retry=Retry(deadline_s=deadline_s), **more), store


def append(log, stamp, *sent, sequence=0, topic="t", partition=0):
    """What a producer's request to append comes down to, with whatever stamp and sequence; where it landed."""
    known = log.ensure_topic(topic)
    writer = log.stage(known)
    writer.append(_rows(sent), partition)
    (staged,) = writer.finish()
    batches = []
    for batch in staged.batches:
        batches.append(batch._replace(base_sequence=sequence))
        sequence = (sequence + batch.count) % 2**31
    action = AppendBatches(stamp, ((topic, known.topic_id),), (staged._replace(batches=tuple(batches)),))
    return log.commit(lambda _state: (action,)).results[0]


def end(log, stamp, *, commit=True):
    """What a producer's commit or abort comes down to."""
    return log.commit(lambda _state: (EndTransaction(stamp, commit),))


def _rows(sent):
    stamps = pa.array([1_700_000_000_000] * len(sent), pa.timestamp("ms", "UTC"))
    nothing = pa.nulls(len(sent), pa.binary())
    headers = pa.nulls(len(sent), pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    return pa.record_batch(
        {"key": nothing, "value": pa.array(sent, pa.binary()), "headers": headers, "timestamp": stamps}
    )


def numbered(first, end):
    """The numbers as record values."""
    return [str(number).encode() for number in range(first, end)]
