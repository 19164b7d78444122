"""Kafka's LogCleanerTest: what transactions leave behind in a topic that is compacted.

Segments are sealed pages of the index here, made small, so that transactions span several of them.
"""

from __future__ import annotations

import itertools

import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import InvalidTxnStateError
from spark_eos.log.log import Log
from spark_eos.maintenance.compaction import Compactor
from spark_eos.protocol.actions import EndTransaction
from spark_eos.protocol.index import Kind
from spark_eos.storage.memory import MemoryStore
from tests.conformance.helpers import records, values
from tests.maintenance.sparse_world import Clock, small_pages
from verification.retiring import RETIRED_AT_ONCE

conformance = pytest.mark.conformance
T0 = TopicPartition("t", 0)


@pytest.fixture
def log():
    with small_pages():
        log = Log.create(MemoryStore(), Clock(), snapshot_interval=3, config=RETIRED_AT_ONCE)
        Admin(log).create_topic(
            "t",
            config={
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": "0",
                "delete.retention.ms": "1000",
            },
        )
        yield log


def producer(log, name="app"):
    made = Producer(log, {"transactional.id": name, "transaction.timeout.ms": 900_000})
    made.init_transactions()
    return made


def transaction(made, *sent, commit=True, flush=False):
    made.begin_transaction()
    for key, value in sent:
        made.send("t", value, key=key, partition=0)
        if flush:
            made.flush()
    (made.commit_transaction if commit else made.abort_transaction)()


def index(log):
    partition = log.follow().partitions[log.topic("t").topic_id, 0]
    return [*partition.index.scan(0, log.load)]


def clean(log):
    """Go on until all that there is now is sealed, and compact."""
    topic_id = log.topic("t").topic_id
    end = log.follow().partitions[topic_id, 0].last_stable_offset
    with Producer(log) as filler:
        for number in itertools.count():
            pages = log.follow().partitions[topic_id, 0].index.pages
            if (pages and pages[-1].next_offset >= end) or number > 30:
                break
            filler.send("t", b"", key=b"filler-%d" % number, partition=0)
            filler.flush()
    Compactor(log).run()
    return end


def found(log, isolation="read_committed"):
    return [
        (record.offset, record.key, record.value)
        for record in records(log, isolation=isolation)
        if not record.key.startswith(b"filler")
    ]


def kinds(log, end):
    return {row.kind for row in index(log) if row.base_offset < end}


@conformance("LogCleanerTest.testCommitMarkerRemoval")
def test_commit_markers(log):
    one, two = producer(log, "one"), producer(log, "two")
    transaction(one, (b"1", b"a"), (b"2", b"a"))
    transaction(two, (b"3", b"b"), (b"4", b"b"))
    last = log.follow().producer_of("one").stamp
    end = clean(log)
    assert found(log) == [(0, b"1", b"a"), (1, b"2", b"a"), (3, b"3", b"b"), (4, b"4", b"b")]
    assert kinds(log, end) == {Kind.DATA}, "the markers are holes now, and hide nothing"
    log.commit(lambda _: (EndTransaction(last, commit=True),))  # decided again: a success, as with the marker
    with pytest.raises(InvalidTxnStateError):
        log.commit(lambda _: (EndTransaction(last, commit=False),))
    transaction(two, (b"1", b"c"), (b"2", b"c"))
    clean(log)
    assert [(key, value) for _, key, value in found(log)] == [
        *((b"3", b"b"), (b"4", b"b")),
        *((b"1", b"c"), (b"2", b"c")),
    ]
    with Consumer(log, {"isolation.level": "read_committed"}) as reader:
        reader.assign([T0])
        for gone in range(6):
            reader.seek(T0, gone)
            assert reader.poll(max_records=1)[0].offset >= gone, "positions move over what is gone"


@conformance("LogCleanerTest.testAbortMarkerRemoval")
def test_abort_markers(log):
    made = producer(log)
    transaction(made, (b"1", b"a"), (b"2", b"a"))
    transaction(made, (b"1", b"b"), (b"3", b"b"), commit=False, flush=True)
    assert len(values(log, isolation="read_uncommitted")) == 4
    last = log.follow().producer_of("app").stamp
    end = clean(log)
    for isolation in ("read_committed", "read_uncommitted"):
        assert found(log, isolation) == [(0, b"1", b"a"), (1, b"2", b"a")], "and does not hide a later one"
    assert kinds(log, end) == {Kind.DATA}
    log.commit(lambda _: (EndTransaction(last, commit=False),))
    transaction(made, (b"3", b"c"))
    clean(log)
    assert [(key, value) for _, key, value in found(log)] == [(b"1", b"a"), (b"2", b"a"), (b"3", b"c")]


@conformance("LogCleanerTest.testCleanWithTransactionsSpanningSegments")
@pytest.mark.parametrize("commit", [True, False])
def test_transactions_over_several_segments(log, commit):
    first, long = producer(log, "first"), producer(log, "long")
    transaction(first, *((b"%d" % key, b"old") for key in range(6)))
    long.begin_transaction()
    for key in range(20):
        long.send("t", b"new", key=b"%d" % (key % 6), partition=0)
        long.flush()
    clean(log)
    assert [value for _, _, value in found(log)] == [b"old"] * 6, "what is undecided replaces nothing"
    uncommitted = [one for one in found(log, "read_uncommitted") if one[2] == b"new"]
    assert len(uncommitted) == 20, "nor is it touched"
    (long.commit_transaction if commit else long.abort_transaction)()
    end = clean(log)
    pages = log.follow().partitions[log.topic("t").topic_id, 0].index.pages
    assert pages[-1].next_offset >= end
    for isolation in ("read_committed", "read_uncommitted"):
        assert [(key, value) for _, key, value in sorted(found(log, isolation), key=lambda one: one[1])] == [
            (b"%d" % key, b"new" if commit else b"old") for key in range(6)
        ]


@conformance("LogCleanerTest.testLogCleanerRetainsLastSequenceEvenIfTransactionAborted")
def test_the_last_sequence(log):
    made = producer(log)
    transaction(made, (b"1", b"a"), (b"2", b"a"))
    transaction(made, (b"2", b"b"), (b"3", b"b"), commit=False, flush=True)
    before = Admin(log).describe_producers("t", 0)
    clean(log)
    known = {one.producer_id: one for one in before}
    for reader in (log, Log.open(log.store, Clock(b"b"))):
        after = {one.producer_id: one for one in Admin(reader).describe_producers("t", 0)}
        assert {producer_id: after[producer_id] for producer_id in known} == known
    transaction(made, (b"2", b"c"), flush=True)
    assert [value for _, key, value in found(log) if key == b"2"][-1] == b"c", "the producer just goes on"
