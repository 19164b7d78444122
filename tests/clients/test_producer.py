"""The producer: Kafka's transaction tests, its states, and each record once whatever the store does."""

from __future__ import annotations

import itertools
import re
import sys
import time

import numpy as np
import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from spark_eos.clients.producer.transaction_states import ClientState
from spark_eos.errors import (
    AbortableError,
    CommitOutcomeUnknownError,
    ConfigError,
    IllegalStateError,
    InvalidRecordError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    RecordTooLargeError,
    SchemaMismatchError,
    StoreFullError,
    StoreUnavailableError,
    UnknownTopicOrPartitionError,
)
from spark_eos.log.clock import Retry
from spark_eos.log.log import Log
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing import Fault, FaultyStore
from tests.starting import start

T0 = TopicPartition("t", 0)
NAMES = (f"memory://producer-{number}" for number in itertools.count())
ENTRIES = "_log/*"
DATA = "data/*"


@pytest.fixture(params=["memory", "folder", "bucket"])
def url(request, tmp_path):
    if request.param == "bucket":
        return request.getfixturevalue("bucket_url")
    return next(NAMES) if request.param == "memory" else str(tmp_path / "log")


@pytest.fixture
def store():
    return FaultyStore(MemoryStore())


@pytest.fixture
def log(store):
    """A log whose store fails on demand and which gives up at once."""
    return Log.open_or_create(store, retry=Retry(deadline_s=0))


def transactional(url, transactional_id="app", **settings):
    config = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer(url, {"transactional.id": transactional_id, **config})
    producer.init_transactions()
    return producer


def values(url, isolation="read_committed", topic="t"):
    """The values of all partitions, in order within each."""
    admin = Admin(url)
    partitions = [TopicPartition(topic, p.partition) for p in admin.describe_topic(topic).partitions]
    with Consumer(url, {"isolation.level": isolation, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign(partitions)
        found = []
        while records := consumer.poll(max_records=1_000_000):
            found += records
        return [record.value for record in found]


def run(producer, *sent, commit=True):
    producer.begin_transaction()
    futures = [producer.send("t", value) for value in sent]
    (producer.commit_transaction if commit else producer.abort_transaction)()
    return futures


def entries(store):
    return sum(1 for _ in store.list("_log/"))


def files(store):
    return sum(1 for _ in store.list("data/"))


# -- Kafka's TransactionsTest -----------------------------------------------------------------------------


@pytest.mark.conformance("TransactionsTest.testBasicTransactions")
def test_basic_transactions(url):
    with transactional(url) as producer:
        producer.begin_transaction()
        producer.send("t", b"a1")
        producer.send("t", b"a2")
        producer.flush()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("t", b"c1")
        producer.send("t", b"c2")
        producer.commit_transaction()
    assert values(url) == [b"c1", b"c2"]
    assert values(url, "read_uncommitted") == [b"a1", b"a2", b"c1", b"c2"]


@pytest.mark.conformance("TransactionsTest.testReadCommittedConsumerShouldNotSeeUndecidedData")
def test_seek_to_end_is_the_last_stable_offset(url):
    with Admin(url) as admin:
        admin.create_topic("t", config={"message.timestamp.after.max.ms": 2**63 - 1})
    with transactional(url, "one") as one, transactional(url, "two") as two:
        run(one, b"0", b"1")
        two.begin_transaction()
        two.send("t", b"open", timestamp_ms=9_000_000_000_000)
        two.flush()
        run(one, b"later")
        with Consumer(url, {"isolation.level": "read_committed"}) as consumer:
            consumer.assign([T0])
            consumer.seek_to_end()
            assert consumer.position(T0) == consumer.end_offsets([T0])[T0] == 3  # two records, one COMMIT
            assert consumer.offsets_for_times({T0: 9_000_000_000_000}) == {T0: None}
            assert values(url) == [b"0", b"1"]
            two.commit_transaction()
            assert consumer.end_offsets([T0]) == {T0: 7}
            assert consumer.offsets_for_times({T0: 9_000_000_000_000})[T0].offset == 3
    assert values(url) == [b"0", b"1", b"open", b"later"]


@pytest.mark.conformance("TransactionsTest.testFencingOnCommit")
def test_fencing_on_commit(url):
    old = transactional(url)
    old.begin_transaction()
    future = old.send("t", b"old")
    new = transactional(url)
    run(new, b"new")
    with pytest.raises(ProducerFencedError, match="epoch 1"):
        old.commit_transaction()
    with pytest.raises(ProducerFencedError):
        future.result()
    assert old._transactions.state is ClientState.FATAL_ERROR
    with pytest.raises(ProducerFencedError):
        old.begin_transaction()
    assert values(url) == [b"new"]
    assert files(Log.open(url).store) == 1  # what the fenced one staged is gone
    old.close()


@pytest.mark.conformance("TransactionsTest.testFencingOnSendOffsets")
def test_fencing_on_send_offsets(url):
    old = transactional(url)
    run(old, b"x")
    old.begin_transaction()
    transactional(url)
    with pytest.raises(ProducerFencedError):
        old.send_offsets_to_transaction({T0: 1}, "group")
    assert Admin(url).list_groups() == []


def test_init_aborts_what_the_one_before_left_open(url):
    old = transactional(url)
    old.begin_transaction()
    old.send("t", b"open")
    old.flush()
    run(transactional(url), b"new")
    assert values(url) == [b"new"]


@pytest.mark.conformance("TransactionsTest.testConsecutivelyRunInitTransactions")
def test_second_init_is_illegal(url):
    with transactional(url) as producer, pytest.raises(IllegalStateError, match="READY"):
        producer.init_transactions()


@pytest.mark.conformance("TransactionsTest.testEmptyAbortAfterCommit")
def test_empty_transactions_leave_no_trace(url):
    producer = transactional(url)
    run(producer, b"x")
    seq = Log.shared(url).follow().seq
    run(producer)
    run(producer, commit=False)
    assert Log.shared(url).follow().seq == seq
    run(producer, b"y")  # and it does not fence itself
    assert values(url) == [b"x", b"y"]


def test_offsets_are_committed_with_the_transaction(url):
    producer = transactional(url)
    run(producer, b"x")
    admin = Admin(url)
    producer.begin_transaction()
    producer.send_offsets_to_transaction({T0: 1}, "group")
    producer.send("t", b"y")
    producer.abort_transaction()
    assert admin.list_group_offsets("group") == {}
    producer.begin_transaction()
    producer.send_offsets_to_transaction({T0: OffsetAndMetadata(1, "note")}, "group")
    producer.commit_transaction()
    assert admin.list_group_offsets("group") == {T0: OffsetAndMetadata(1, "note")}


@pytest.mark.conformance("KAFKA-17582")
def test_copying_with_alternate_aborts_loses_and_repeats_nothing(url):
    with Producer(url) as source:
        for number in range(500):
            source.send("in", str(number))
    producer = transactional(url)
    at = TopicPartition("in", 0)
    with Consumer(
        url, {"group.id": "copy", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    ) as reader:
        reader.assign([at])
        for attempt in itertools.count():
            records = reader.poll(max_records=40)
            if not records:
                break
            producer.begin_transaction()
            for record in records:
                producer.send("t", record.value)
            producer.send_offsets_to_transaction({at: reader.position(at)}, reader.group_metadata())
            if attempt % 2:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
                committed = reader.committed([at])[at]
                reader.seek(at, committed.offset if committed else 0)
    assert values(url) == [str(number).encode() for number in range(500)]


@pytest.mark.conformance("TransactionsTest.testMultipleMarkersOneLeader")
def test_markers_in_many_partitions(url):
    Admin(url).create_topic("t", 1000)
    producer = transactional(url)
    before = Log.shared(url).follow().seq
    producer.begin_transaction()
    futures = [producer.send("t", str(number), partition=number) for number in range(1000)]
    producer.commit_transaction()
    assert {(f.result().partition, f.result().offset) for f in futures} == {(n, 0) for n in range(1000)}
    assert Log.shared(url).follow().seq == before + 1
    assert files(Log.shared(url).store) == 1
    assert all(p.end == 2 for p in Admin(url).describe_topic("t").partitions)  # a record and a COMMIT
    assert sorted(map(int, values(url))) == list(range(1000))


# -- States ---------------------------------------------------------------------------------------------


def test_calls_out_of_order_say_what_is_allowed(url):
    producer = Producer(url, {"transactional.id": "app"})
    for call in (producer.begin_transaction, producer.commit_transaction, lambda: producer.send("t", b"x")):
        with pytest.raises(IllegalStateError, match="UNINITIALIZED; call init_transactions first"):
            call()
    producer.init_transactions()
    with pytest.raises(IllegalStateError, match="READY; begin_transaction is allowed"):
        producer.commit_transaction()
    producer.begin_transaction()
    with pytest.raises(IllegalStateError, match="IN_TRANSACTION"):
        producer.begin_transaction()
    producer.close()
    with pytest.raises(IllegalStateError, match="closed"):
        producer.begin_transaction()
    with pytest.raises(IllegalStateError, match=r"transactional\.id"):
        Producer(url).begin_transaction()


def test_a_record_too_large_makes_the_transaction_abortable(url):
    producer = transactional(url, max_request_size=100)
    producer.begin_transaction()
    first = producer.send("t", b"fine")
    with pytest.raises(RecordTooLargeError):
        producer.send("t", b"x" * 101).result()
    assert isinstance(first.exception(), RecordTooLargeError)
    with pytest.raises(AbortableError, match="abort_transaction comes first"):
        producer.commit_transaction()
    with pytest.raises(AbortableError):
        producer.send("t", b"more")
    producer.abort_transaction()
    run(producer, b"next")
    assert values(url) == [b"next"]


def test_close_aborts(url):
    with transactional(url) as producer:
        producer.begin_transaction()
        producer.send("t", b"x")
        producer.flush()
    assert values(url) == []
    assert Admin(url).describe_transaction("app").state == "CompleteAbort"


def test_waiting_for_a_record_of_an_open_transaction_is_refused(url):
    producer = transactional(url)
    producer.begin_transaction()
    future = producer.send("t", b"x")
    with pytest.raises(IllegalStateError, match="commit_transaction or flush"):
        future.result()
    producer.flush()
    assert future.result().offset == 0
    producer.abort_transaction()


def test_futures_of_an_aborted_transaction_fail(url):
    (future,) = run(transactional(url), b"x", commit=False)
    with pytest.raises(AbortableError, match="aborted"):
        future.result()
    assert files(Log.shared(url).store) == 0


# -- One request ----------------------------------------------------------------------------------------


def test_a_transaction_is_one_entry_however_large(log):
    producer = transactional(log, buffer_memory=20_000)
    log.ensure_topic("t")
    before = log.state.seq
    producer.begin_transaction()
    body = b"x" * 1000
    futures = [producer.send("t", body + str(number).encode()) for number in range(300)]
    assert log.follow().seq == before
    producer.commit_transaction()
    assert log.follow().seq == before + 1
    assert [future.result().offset for future in futures] == list(range(300))
    assert values(log) == [body + str(number).encode() for number in range(300)]
    row_groups = len(log.state.partitions[log.topic("t").topic_id, 0].index.tail)
    assert row_groups > 5  # it was spilled, and not gathered in memory


def test_two_topics_offsets_and_commit_are_one_entry(log, store):
    producer = transactional(log)
    log.ensure_topic("t", 2)
    log.ensure_topic("u")
    before = entries(store)
    producer.begin_transaction()
    sent = [producer.send(topic, b"x", partition=p) for topic, p in (("t", 0), ("u", 0), ("t", 1), ("t", 1))]
    producer.send_offsets_to_transaction({TopicPartition("u", 0): 0}, "g")
    producer.commit_transaction()
    assert entries(store) == before + 1
    assert [(f.result().topic, f.result().partition, f.result().offset) for f in sent] == [
        ("t", 0, 0),
        ("u", 0, 0),
        ("t", 1, 0),
        ("t", 1, 1),
    ]


# -- Lost replies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Fault.FAIL_AFTER, Fault.LOST, Fault.DUPLICATE])
def test_a_commit_whose_reply_is_lost_is_made_once(store, fault):
    log = Log.open_or_create(store)
    producer = transactional(log)
    log.ensure_topic("t")
    store.inject(fault, "create", ENTRIES)
    (future,) = run(producer, b"x")
    assert future.result().offset == 0
    run(producer, b"y")
    assert values(log, "read_uncommitted") == [b"x", b"y"]


@pytest.mark.conformance("KAFKA-17754 (abort after an unknown commit)", "KAFKA-19999")
@pytest.mark.parametrize("fault", [Fault.FAIL_AFTER, Fault.LOST, Fault.DELAYED])
def test_after_an_unknown_commit_the_same_call_commits_once(store, log, fault):
    producer = transactional(log)
    log.ensure_topic("t")
    producer.begin_transaction()
    future = producer.send("t", b"x")
    store.inject(fault, "create", ENTRIES)
    with pytest.raises(CommitOutcomeUnknownError):
        producer.commit_transaction()
    assert not future.done()
    assert files(store) == 1
    for forbidden in (
        producer.abort_transaction,
        producer.begin_transaction,
        lambda: producer.send("t", b"z"),
    ):
        with pytest.raises(IllegalStateError, match="only commit_transaction"):
            forbidden()
    store.release()
    producer.commit_transaction()
    assert future.result().offset == 0
    run(producer, b"y")
    assert values(log, "read_uncommitted") == [b"x", b"y"]


def test_an_interrupted_commit_is_made_once(store, log):
    producer = transactional(log)
    log.ensure_topic("t")
    producer.begin_transaction()
    future = producer.send("t", b"x")

    def interrupt(operation, _name):
        if operation == "create":
            raise KeyboardInterrupt

    store.after = interrupt
    with pytest.raises(KeyboardInterrupt):
        producer.commit_transaction()
    store.after = lambda _operation, _name: None
    with pytest.raises(IllegalStateError, match="only commit_transaction"):
        producer.abort_transaction()
    producer.commit_transaction()
    assert future.result().offset == 0
    assert values(log, "read_uncommitted") == [b"x"]


def test_a_store_that_fails_while_a_topic_grows_leaves_no_part_of_a_transaction(store, log):
    """The file that had to be closed is lost: the transaction, too."""
    log.ensure_topic("t", 2)
    producer = transactional(log)
    producer.begin_transaction()
    producer.send_arrow("t", pa.table({"value": [b"a", b"b"]}))
    Admin(log).alter_topic("t", partitions=3)
    store.inject(Fault.FAIL_BEFORE, "upload", DATA)
    for call in (lambda: producer.send("t", b"c", partition=2), producer.commit_transaction):
        with pytest.raises(AbortableError, match="abort"):
            call()
    producer.abort_transaction()
    assert values(log) == []


def test_rows_are_refused_at_once_also_after_the_store_has_failed(store, log):
    """Else all that is staged again with them would be refused as well."""
    log.ensure_topic("t")
    producer = Producer(log, {"linger.ms": 100_000, "buffer.memory": 1000})
    store.inject(Fault.FAIL_BEFORE, "upload", DATA)
    good = producer.send_arrow("t", pa.table({"value": [b"x" * 600] * 3}))
    with pytest.raises(SchemaMismatchError):
        producer.send_arrow("t", pa.table({"value": [b"y"], "unknown": [1]}))
    producer.flush()
    assert good.result(0)[0].count == 3
    producer.close()


class Interrupt:
    """Ctrl-C before the line number ``at`` that is run in the clients' modules, while tracing is on."""

    def __init__(self, at):
        self.at, self.lines = at, 0

    def __call__(self, frame, event, _arg):
        if "/spark_eos/clients/" not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                raise KeyboardInterrupt
        return self


def test_an_interrupted_send_leaves_all_of_the_record_or_nothing(log):
    """At any line: no record gets a part of the one before, and the transaction goes on."""
    log.ensure_topic("t", 2)
    producer = transactional(log)
    interrupted = 0
    for at in itertools.count(1):
        producer.begin_transaction()
        producer.send("t", b"v0", b"k0", partition=0)
        before, interrupt = sys.gettrace(), Interrupt(at)
        sys.settrace(interrupt)
        try:
            producer.send("t", b"v1", b"k1", [("h", b"1")], 1, 1001)
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.settrace(before)
        producer.send("t", b"v2", b"k2", partition=0)
        producer.send("t", b"v3", b"k3", [("h", b"3")], 1, 1003)
        producer.commit_transaction()
        with Consumer(log, {"auto.offset.reset": "earliest"}) as consumer:
            consumer.assign([T0, TopicPartition("t", 1)])
            found = consumer.poll(0)
        told = [(one.partition, one.value, one.key, one.headers) for one in found if one.key != b"k1"]
        assert told[:2] == [(0, b"v0", b"k0", ()), (0, b"v2", b"k2", ())]
        assert told[2:] == [(1, b"v3", b"k3", (("h", b"3"),))]
        for one in found:
            assert one.key != b"k1" or one[1:] == (1, one.offset, 1001, b"k1", b"v1", (("h", b"1"),))
        Admin(log).delete_topic("t")
        log.ensure_topic("t", 2)
        if interrupt.lines < at:
            break
    assert interrupted == at - 1 > 10


@pytest.mark.conformance("Bufstream (zero offsets)")
def test_a_commit_is_recognised_by_its_number_if_all_else_is_forgotten(store, log):
    producer = transactional(log)
    log.ensure_topic("t")
    producer.begin_transaction()
    future = producer.send("t", b"x")
    store.inject(Fault.FAIL_AFTER, "create", ENTRIES)
    with pytest.raises(CommitOutcomeUnknownError):
        producer.commit_transaction()
    producer._opened = Log.open(store)
    producer.commit_transaction()
    assert future.result().offset == -1  # it is in, but where was in the reply that was lost
    run(producer, b"y")
    assert values(log, "read_uncommitted") == [b"x", b"y"]


@pytest.mark.conformance("KAFKA-19999")
@pytest.mark.parametrize("fault", [Fault.FAIL_AFTER, Fault.LOST, Fault.DELAYED])
def test_after_an_unknown_abort_the_same_call_aborts_once(store, log, fault):
    producer = transactional(log)
    producer.begin_transaction()
    producer.send("t", b"x")
    producer.flush()
    store.inject(fault, "create", ENTRIES)
    with pytest.raises(CommitOutcomeUnknownError):
        producer.abort_transaction()
    with pytest.raises(IllegalStateError, match="only abort_transaction"):
        producer.commit_transaction()
    store.release()
    producer.abort_transaction()
    run(producer, b"y")
    assert values(log) == [b"y"]
    assert log.state.partitions[log.topic("t").topic_id, 0].end == 4  # x, ABORT, y, COMMIT


def test_a_commit_that_was_certainly_not_made_may_be_aborted_or_repeated(store, log):
    producer = transactional(log)
    log.ensure_topic("t")
    producer.begin_transaction()
    producer.send("t", b"x")
    store.inject(Fault.FAIL_BEFORE, "create", ENTRIES)
    with pytest.raises(StoreUnavailableError):
        producer.commit_transaction()
    producer.commit_transaction()
    producer.begin_transaction()
    producer.send("t", b"y")
    store.inject(Fault.FAIL_BEFORE, "create", ENTRIES)
    with pytest.raises(StoreUnavailableError):
        producer.commit_transaction()
    producer.abort_transaction()
    assert values(log) == [b"x"]
    assert files(store) == 1


def test_a_flush_that_was_certainly_not_made_may_be_repeated(store, log):
    producer = transactional(log)
    log.ensure_topic("t")
    producer.begin_transaction()
    future = producer.send("t", b"x")
    store.inject(Fault.FAIL_BEFORE, "create", ENTRIES)
    with pytest.raises(StoreUnavailableError):
        producer.flush()
    producer.flush()
    assert future.result().offset == 0
    producer.commit_transaction()
    assert values(log, "read_uncommitted") == [b"x"]


@pytest.mark.conformance("KAFKA-17754 (abort after an unknown commit)")
def test_a_flush_in_doubt_can_only_be_aborted(store, log):
    producer = transactional(log)
    log.ensure_topic("t")
    for fault in (Fault.FAIL_AFTER, Fault.LOST, Fault.DELAYED):
        producer.begin_transaction()
        producer.send("t", b"x")
        store.inject(fault, "create", ENTRIES)
        with pytest.raises(CommitOutcomeUnknownError):
            producer.flush()
        with pytest.raises(AbortableError):
            producer.commit_transaction()
        producer.abort_transaction()
        store.release()
        run(producer, b"y")
    assert values(log) == [b"y"] * 3


@pytest.mark.conformance(
    "TransactionsTest.testInitTransactionsTimeout",
    "TransactionsTest.testFailureToFenceEpoch",
)
def test_init_fails_while_the_store_is_away_and_works_later(store, log):
    producer = Producer(log, {"transactional.id": "app"})
    store.inject(Fault.FAIL_BEFORE, "*", times=None)
    with pytest.raises(StoreUnavailableError):
        producer.init_transactions()
    store.heal()
    store.inject(Fault.FAIL_AFTER, "create", ENTRIES)
    with pytest.raises(CommitOutcomeUnknownError):
        producer.init_transactions()
    producer.init_transactions()
    assert log.state.producer_of("app").epoch == 0  # once, although it was asked for twice
    run(producer, b"x")
    assert values(log) == [b"x"]


@pytest.mark.conformance("TransactionsTest.testBumpTransactionalEpochWithTV2Disabled", "Redpanda #6018")
def test_rows_that_cannot_be_staged_make_the_transaction_abortable(store, log):
    producer = transactional(log)
    for error in (StoreFullError("full"), StoreUnavailableError("away")):
        producer.begin_transaction()
        producer.send("t", b"x")
        store.inject(error, "upload", DATA)
        with pytest.raises(AbortableError, match="staged"):
            producer.commit_transaction()
        producer.abort_transaction()
    run(producer, b"y")
    assert values(log) == [b"y"]


# -- Without transactions ---------------------------------------------------------------------------------


def test_records_go_out_in_the_background(url):
    with Producer(url, {"linger.ms": 1}) as producer:
        assert producer.send("t", "a", key="k", headers=[("h", b"1")], timestamp_ms=5).result(60) == (
            "t",
            0,
            0,
            5,
            1,
        )
    with Consumer(url, {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([T0])
        assert consumer.poll() == [("t", 0, 0, 5, b"k", b"a", (("h", b"1"),))]


@pytest.mark.parametrize("timestamp_ms", [-1, 1.5, True, "5", 253_402_300_800_000, 1 << 63])
def test_a_timestamp_is_whole_milliseconds(url, timestamp_ms):
    last_ms = 253_402_300_799_999  # of the year 9999
    with Admin(url) as admin:
        admin.create_topic("t", config={"message.timestamp.after.max.ms": 2**63 - 1})
    with Producer(url) as producer:
        with pytest.raises(InvalidRecordError, match=re.escape(f"timestamp_ms={timestamp_ms!r}")):
            producer.send("t", b"refused", timestamp_ms=timestamp_ms)
        assert producer.send("t", b"x", timestamp_ms=last_ms).result(60).timestamp_ms == last_ms
        assert producer.send("t", b"x", timestamp_ms=np.int64(5)).result(60).timestamp_ms == 5
        before = time.time_ns() // 1_000_000
        assert before <= producer.send("t", b"y").result(60).timestamp_ms <= time.time_ns() // 1_000_000


def test_flush_sends_all_partitions_in_one_entry_and_one_file(store, log):
    log.ensure_topic("t", 8)
    producer = Producer(log, {"linger.ms": 10_000, "batch.size": 1_000_000})
    producer.send("t", b"first").result  # noqa: B018  (the id of the producer is an entry of its own)
    producer.flush()
    before = entries(store), files(store)
    futures = [producer.send("t", str(n), partition=n % 8) for n in range(100)]
    producer.flush()
    assert all(future.done() for future in futures)
    assert (entries(store), files(store)) == (before[0] + 1, before[1] + 1)


@pytest.mark.parametrize("fault", [Fault.FAIL_AFTER, Fault.LOST, Fault.DUPLICATE, Fault.FAIL_BEFORE])
@pytest.mark.parametrize("where", [ENTRIES, DATA])
def test_idempotent_sends_are_made_once_in_order(store, log, fault, where):
    producer = Producer(log, {"linger.ms": 10_000, "batch.size": 1_000_000})
    log.ensure_topic("t")
    futures = []
    for number in range(4):
        futures.append(producer.send("t", str(number)))
        if where is ENTRIES or fault is Fault.FAIL_BEFORE:
            store.inject(fault, "create" if where is ENTRIES else "upload", where)
        producer.flush()
    assert [future.result(0).offset for future in futures] == [0, 1, 2, 3]
    assert values(log) == [b"0", b"1", b"2", b"3"]
    producer.close()


@pytest.mark.conformance("Bufstream (zero offsets)")
@pytest.mark.parametrize(("fault", "landed"), [(Fault.DELAYED, []), (Fault.FAIL_AFTER, [b"b"])])
def test_an_unknown_send_fails_its_futures_and_the_next_go_on(store, log, fault, landed):
    producer = Producer(log, {"linger.ms": 0, "delivery.timeout.ms": 0})
    producer.send("t", b"a").result(60)
    store.inject(fault, "create", ENTRIES)
    lost = producer.send("t", b"b")
    producer.flush()
    with pytest.raises(CommitOutcomeUnknownError):
        lost.result(0)
    assert files(store) == 2
    producer.send("t", b"c").result(60)
    store.release()
    assert values(log) == [b"a", *landed, b"c"]
    producer.close()


def test_a_full_store_fails_the_futures(store, log):
    producer = Producer(log, {"linger.ms": 10_000})
    log.ensure_topic("t")
    store.inject(StoreFullError("full"), "upload", DATA)
    future = producer.send("t", b"a")
    producer.flush()
    with pytest.raises(StoreFullError):
        future.result(0)
    producer.send("t", b"b")
    producer.close()
    assert values(log) == [b"b"]


def test_after_a_send_out_of_sequence_the_next_ones_go_on_under_a_new_id(log):
    """Else all that follow would be out of sequence, too."""
    producer = Producer(log, {"linger.ms": 10_000})
    producer.send("t", b"a")
    producer.flush()
    producer._sender._identity._sequences = {}
    refused = [producer.send("t", value) for value in (b"b", b"c")]
    producer.flush()
    assert all(isinstance(one.exception(0), OutOfOrderSequenceError) for one in refused)
    producer.send("t", b"d")
    producer.close()
    assert values(log) == [b"a", b"d"]


@pytest.mark.deep
def test_two_processes_write_to_one_log(tmp_path):
    url = str(tmp_path / "log")
    running = [start("clients/commits_transactions", url, name, 15) for name in "ab"]
    assert [process.wait(120) for process in running] == [0, 0]
    found = [value.decode() for value in values(url)]
    assert len(found) == 30
    for name in "ab":
        assert [v for v in found if v.startswith(name)] == [f"{name}-{n}" for n in range(15)]


def test_sequence_numbers_wrap(log):
    from spark_eos.clients.producer.producer_session import ProducerSession
    from spark_eos.protocol.types import BatchRef, FileRef, ProducerStamp, StagedFile

    identity = ProducerSession(ProducerStamp(0, 0), log.state)
    identity._sequences = {("id", 0): (0, -1, 0, 2**31 - 3, 0)}
    batch = BatchRef(0, 3, 0, 1, 0, 0, 0)
    (numbered,) = identity.number((StagedFile("t", FileRef("f", 9, 0), (batch, batch)),), {"t": "id"})
    assert [b.base_sequence for b in numbered.batches] == [2**31 - 2, 1]


def test_a_commit_does_not_look_at_every_partition_the_producer_has_written_to(log):
    from spark_eos.clients.producer.producer_session import ProducerSession
    from spark_eos.protocol.replace import replace
    from spark_eos.protocol.state import Producer
    from spark_eos.protocol.types import ProducerStamp

    class Numbers(dict):
        def looked_at(self, *_):
            raise AssertionError("all of them")

        items = values = keys = __iter__ = looked_at

    producer = Producer(0, 0, sequences=Numbers())
    identity = ProducerSession(ProducerStamp(0, 0), log.state)
    identity.learn(replace(log.state, producers=log.state.producers.set(0, producer)))


# -- Routing --------------------------------------------------------------------------------------------


def test_keys_are_routed_as_kafka_does(url):
    hashes = {
        "21": -973932308,
        "foobar": -790332482,
        "a-little-bit-long-string": -985981536,
        "a-little-bit-longer-string": -1486304829,
        "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        "abc": 479470107,
    }
    Admin(url).create_topic("t", 10)
    with Producer(url) as producer:
        sent = {key: producer.send("t", None, key=key) for key in hashes}
        producer.flush()
    for key, hashed in hashes.items():
        assert sent[key].result().partition == (hashed & 0x7FFFFFFF) % 10
    assert values(url) == [None] * len(hashes)  # tombstones


def test_every_future_tells_where_its_own_record_went(url):
    Admin(url).create_topic("t", 3)
    with transactional(url) as producer:
        producer.begin_transaction()
        sent = {str(n).encode(): producer.send("t", str(n), partition=n * n % 3) for n in range(50)}
        producer.commit_transaction()
    with Consumer(url, {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("t", number) for number in range(3)])
        found = {record.value: (record.partition, record.offset) for record in consumer.poll()}
    assert {value: future.result()[1:3] for value, future in sent.items()} == found


def test_partitions_are_respected_and_checked(url):
    admin = Admin(url)
    admin.create_topic("t", 2)
    with Producer(url) as producer:
        first = producer.send("t", b"x", partition=1)
        with pytest.raises(UnknownTopicOrPartitionError, match="partition 2"):
            producer.send("t", b"x", partition=2)
        admin.alter_topic("t", partitions=3)
        late = producer.send("t", b"y", partition=2)
        producer.flush()
        assert (first.result().partition, late.result().partition, late.result().offset) == (1, 2, 0)


def test_arrow_tables(url):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    Admin(url).create_topic("typed", 2, schema=schema)
    with Producer(url, {"num.partitions": 2}) as producer:
        rows = pa.table({"key": ["21", "abc", "21"], "value": ["a", "b", "c"], "partition": [None, 1, None]})
        places = producer.send_arrow("t", rows)
        typed = producer.send_arrow("typed", pa.table({"id": [1, 2], "name": ["x", None]}), partition=1)
        with pytest.raises(UnknownTopicOrPartitionError, match="schema"):
            producer.send_arrow("missing", pa.table({"id": [1]}))
        with pytest.raises(SchemaMismatchError, match="'other'"):
            producer.send_arrow("typed", pa.table({"id": [1], "other": [1]}))
        with pytest.raises(InvalidRecordError, match="send_arrow"):
            producer.send("typed", b"x")
        assert producer.send_arrow("t", rows.slice(0, 0)).result() == []
        producer.flush()
    by_key = (-973932308 & 0x7FFFFFFF) % 2
    assert sorted((p.partition, p.offset, p.count) for p in places.result()) == sorted(
        [(0, 0, 2), (1, 0, 1)] if by_key == 0 else [(1, 0, 3)]
    )
    assert [(p.partition, p.offset, p.count) for p in typed.result()] == [(1, 0, 2)]
    assert values(url, topic="typed") == [{"id": 1, "name": "x"}, {"id": 2, "name": None}]


def test_a_missing_topic_is_not_created_if_that_is_forbidden(url):
    Admin(url).create_topic("t")
    producer = Producer(url, {"auto.create.topics.enable": "false"})
    with pytest.raises(UnknownTopicOrPartitionError, match=r"Admin\.create_topic"):
        producer.send("missing", b"x")
    assert Admin(url).list_topics() == ["t"]


@pytest.mark.parametrize("bad", [1, ["x"], {"a": 1}])
def test_values_are_bytes_or_text(url, bad):
    with Producer(url) as producer, pytest.raises(InvalidRecordError, match="bytes, text or None"):
        producer.send("t", bad)


# -- Settings -------------------------------------------------------------------------------------------


def test_a_partition_that_only_the_next_topic_of_the_name_has(url):
    admin = Admin(url)
    admin.create_topic("t")
    with transactional(url) as producer:
        producer.begin_transaction()
        producer.send("t", b"1")
        admin.delete_topic("t")
        admin.create_topic("t", 2)
        with pytest.raises(UnknownTopicOrPartitionError, match="topic 't' has no partition 1"):
            producer.send("t", b"2", partition=1)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"transactionalid": "x"}, "did you mean transactional.id"),
        ({"acks": "1"}, "always all"),
        ({"acks": 0}, "always all"),
        ({"retries": 0}, "retries"),
        ({"max.in.flight.requests.per.connection": 5}, "one request at a time"),
        ({"enable.idempotence": False}, "enable.idempotence"),
        ({"enable.idempotence": "false", "transactional.id": "x"}, "transactional.id"),
        ({"transaction.timeout.ms": 900_001}, "from 1 to 900000"),
        ({"transaction.timeout.ms": 0}, "from 1 to 900000"),
        ({"compression.type": "gzip"}, "lz4"),
        ({"compression.lz4.level": 18}, "from 1 to 17"),
        ({"compression.zstd.level": 23}, "from -131072 to 22"),
        ({"delivery.timeout.ms": 1, "linger.ms": 2}, "shorter than linger.ms"),
        (
            {"linger.ms": "soon", "delivery.timeout.ms": 1},
            r"^producer setting linger\.ms='soon': expected a whole number",
        ),
        ({"compression.type": "uncompressed"}, "expected auto, none"),
        ({"linger.ms": True}, "whole number"),
        ({"transactional.id": ""}, "transactional.id is empty"),
        ({"partitioner.class": "nowhere:x"}, "nowhere"),
    ],
)
def test_settings_are_checked(config, message):
    with pytest.raises(ConfigError, match=message):
        Producer("memory://never", config)


@pytest.mark.parametrize(
    "config", [{"acks": "-1"}, {"acks": -1}, {"enable.idempotence": "TRUE"}, {"linger.ms": "0"}]
)
def test_settings_as_kafka_takes_them(config):
    Producer("memory://never", config)
