"""Kafka's TransactionsTest, test by test. What tests/clients shows already carries its row there."""

from __future__ import annotations

import threading

import pytest

from spark_eos import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from spark_eos.errors import (
    AbortableError,
    IllegalStateError,
    ProducerFencedError,
    StoreFullError,
    StoreUnavailableError,
)
from spark_eos.log.log import Log
from spark_eos.protocol.actions import InitProducer
from spark_eos.protocol.replace import replace
from spark_eos.testing import Fault
from tests.conformance.helpers import (
    ENTRIES,
    NAMES,
    faulty_log,
    numbered,
    records,
    run,
    transactional,
    values,
)
from tests.log.fakes import FakeClock

conformance = pytest.mark.conformance
T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)


@pytest.fixture(params=["memory", "folder", "bucket"])
def url(request, tmp_path):
    """A log with the topics t and u of four partitions each."""
    if request.param == "bucket":
        url = request.getfixturevalue("bucket_url")
    else:
        url = next(NAMES) if request.param == "memory" else str(tmp_path / "log")
    for topic in "tu":
        Admin(url).create_topic(topic, 4)
    return url


@pytest.fixture
def admin(url):
    return Admin(url)


@conformance("TransactionsTest.testBasicTransactions")
def test_basic_transactions(url, admin):
    with transactional(url) as producer:
        producer.begin_transaction()
        producer.send("u", "2", partition=2)
        producer.send("t", "4", partition=1)
        producer.flush()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("t", "1", partition=1)
        producer.send("u", "3", partition=2)
        producer.commit_transaction()
    assert values(url, "t", "u") == [b"1", b"3"]
    assert values(url, "t", "u", isolation="read_uncommitted") == [b"4", b"1", b"2", b"3"]
    for topic, touched in (("t", 1), ("u", 2)):
        places = admin.describe_topic(topic).partitions
        assert [(p.start, p.end) for p in places] == [(0, 4 if n == touched else 0) for n in range(4)]


@conformance(
    "TransactionsTest.testReadCommittedConsumerShouldNotSeeUndecidedData",
    "UnifiedLogTest.testFetchUpToLastStableOffset",
)
def test_undecided_data_is_not_seen(url):
    first, later = 1_700_000_000_000, 1_700_000_000_001
    with transactional(url, "one") as one, transactional(url, "other") as other:
        one.begin_transaction()
        other.begin_transaction()
        for topic in "tu":
            other.send(topic, "1", key="x", partition=0, timestamp_ms=first)
        other.flush()
        for topic, pair in (("t", "ab"), ("u", "cd")):
            for key in pair:
                one.send(topic, key, key=key, partition=0, timestamp_ms=later)
        one.flush()
        for topic in "tu":
            other.send(topic, "2", key="x", partition=0, timestamp_ms=later)
        other.commit_transaction()

        with Consumer(url, {"auto.offset.reset": "earliest"}) as reader:
            reader.assign([T0, U0])
            assert len(reader.poll()) == 8
            found = reader.offsets_for_times({T0: later, U0: later})
            assert {at: (known.offset, known.timestamp_ms) for at, known in found.items()} == {
                T0: (1, later),
                U0: (1, later),
            }
        config = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        with Consumer(url, config) as reader:
            reader.assign([T0, U0])
            assert [(r.key, r.value, r.offset) for r in reader.poll()] == [(b"x", b"1", 0)] * 2
            assert reader.poll() == []
            reader.seek_to_end()
            assert {reader.position(at) for at in (T0, U0)} == {1}
            assert reader.offsets_for_times({T0: later, U0: later}) == {T0: None, U0: None}
            one.abort_transaction()
            assert [(r.value, r.offset) for r in reader.poll()] == [(b"2", 3)] * 2


@conformance("TransactionsTest.testDelayedFetchIncludesAbortedTransaction")
def test_a_poll_that_waits_includes_an_aborted_transaction(url):
    with transactional(url, "one") as one, transactional(url, "other") as other:
        one.begin_transaction()
        other.begin_transaction()
        for producer, *sent in ((other, "1"), (one, "a", "b"), (other, "2")):
            for value in sent:
                producer.send("t", value, partition=0)
            producer.flush()
        config = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        found = []
        with Consumer(url, config) as reader:
            reader.assign([T0])
            assert reader.poll() == []
            started = threading.Event()

            def wait():
                started.set()
                found.extend(reader.poll(timeout_ms=60_000))

            waiting = threading.Thread(target=wait)
            waiting.start()
            started.wait(60)
            one.abort_transaction()
            other.commit_transaction()
            waiting.join(60)
            assert [(record.value, record.offset) for record in found] == [(b"1", 0), (b"2", 3)]
            assert reader.position(T0) == 6  # four records, ABORT, COMMIT


# -- Fencing --------------------------------------------------------------------------------------------


def _left_open(url):
    """A producer with an open transaction in two topics, and a newer one of the same id with another."""
    old = transactional(url)
    old.begin_transaction()
    for topic, value in (("t", "1"), ("u", "3")):
        old.send(topic, value)
    old.flush()
    new = transactional(url)
    new.begin_transaction()
    for topic in "tu":
        new.send(topic, "4")
    return old, new


@conformance("TransactionsTest.testFencingOnCommit")
def test_fencing_on_commit(url):
    old, new = _left_open(url)
    with pytest.raises(ProducerFencedError):
        old.commit_transaction()
    new.commit_transaction()
    assert values(url, "t", "u") == [b"4", b"4"]
    with pytest.raises(ProducerFencedError):
        old.begin_transaction()


@conformance("TransactionsTest.testFencingOnSendOffsets")
def test_fencing_on_send_offsets(url, admin):
    old, new = _left_open(url)
    with pytest.raises(ProducerFencedError):
        old.send_offsets_to_transaction({T0: 110}, "group")
    new.commit_transaction()
    assert values(url, "t", "u") == [b"4", b"4"]
    assert admin.list_group_offsets("group") == {}


@conformance("TransactionsTest.testFencingOnSend")
def test_fencing_on_send(url):
    old, new = _left_open(url)
    new.flush()
    future = old.send("t", "5")
    with pytest.raises(ProducerFencedError):
        old.flush()
    with pytest.raises(ProducerFencedError):
        future.result()
    new.commit_transaction()
    assert values(url, "t", "u") == [b"4", b"4"]
    assert b"5" not in values(url, "t", "u", isolation="read_uncommitted")


@conformance("TransactionsTest.testFencingOnAddPartitions")
def test_fencing_of_a_producer_without_a_transaction(url):
    old = transactional(url)
    run(old, "1", commit=False)
    new = transactional(url)
    new.begin_transaction()
    for topic in "tu":
        new.send(topic, "4")
    new.flush()
    old.begin_transaction()
    future = old.send("t", "5")
    with pytest.raises(ProducerFencedError):
        old.flush()
    with pytest.raises(ProducerFencedError):
        future.result()
    new.commit_transaction()
    assert values(url, "t", "u") == [b"4", b"4"]
    assert b"5" not in values(url, "t", "u", isolation="read_uncommitted")


# -- Offsets, storage that is away ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "assignor",
    [
        pytest.param("range", marks=conformance("TransactionsTest.testClassicSendOffsetsWithGroupMetadata")),
        pytest.param(
            "cooperative-sticky", marks=conformance("TransactionsTest.testAsyncSendOffsetsWithGroupMetadata")
        ),
    ],
)
def test_copying_with_group_metadata(url, admin, assignor):
    with Producer(url) as seed:
        for value in numbered(0, 500):
            seed.send("t", value, key=value)
    config = {
        "group.id": "foobar-consumer-group",
        "partition.assignment.strategy": assignor,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "max.poll.records": 125,
    }
    copied, commit = 0, False
    with transactional(url) as producer, Consumer(url, config) as reader:
        reader.subscribe(["t"])
        while copied < 500:
            found = reader.poll(timeout_ms=1000)
            assert found
            producer.begin_transaction()
            commit = not commit
            for record in found:
                producer.send("u", record.value, key=record.key)
            positions = {at: reader.position(at) for at in reader.assignment()}
            assert reader.group_metadata().generation_id > 0
            producer.send_offsets_to_transaction(positions, reader.group_metadata())
            if commit:
                producer.commit_transaction()
                copied += len(found)
            else:
                producer.abort_transaction()
                for at, known in reader.committed(reader.assignment()).items():
                    reader.seek(at, known.offset if known else 0)
    assert sorted(values(url, "u"), key=int) == numbered(0, 500)
    read = admin.list_group_offsets("foobar-consumer-group")
    assert {at.partition: known.offset for at, known in read.items()} == {
        p.partition: p.end for p in admin.describe_topic("t").partitions
    }


@conformance("TransactionsTest.testOffsetMetadataInSendOffsetsToTransaction")
def test_metadata_of_offsets(url):
    wanted = OffsetAndMetadata(110, "some metadata")
    with transactional(url) as producer:
        producer.begin_transaction()
        producer.send_offsets_to_transaction({T0: wanted}, "group")
        producer.commit_transaction()
    transactional(url).close()
    with Consumer(url, {"group.id": "group", "isolation.level": "read_committed"}) as reader:
        assert reader.committed([T0]) == {T0: wanted}


@pytest.fixture
def away():
    """A producer whose calls give up after 3 s of its clock, its store, and how to take the store away."""
    clock = FakeClock()
    log, store = faulty_log(clock, deadline_s=3)
    log.ensure_topic("t")
    return log, store, clock


@conformance("TransactionsTest.testInitTransactionsTimeout")
def test_init_without_storage(away):
    log, store, clock = away
    producer = Producer(log, {"transactional.id": "app"})
    store.inject(Fault.FAIL_BEFORE, "*", times=None)
    begun = clock.monotonic()
    with pytest.raises(StoreUnavailableError) as raised:
        producer.init_transactions()
    assert raised.value.retriable
    assert 3 <= clock.monotonic() - begun < 6
    producer.close()


@conformance(
    "TransactionsTest.testSendOffsetsToTransactionTimeout",
    "TransactionsTest.testCommitTransactionTimeout",
    "TransactionsTest.testAbortTransactionTimeout",
)
@pytest.mark.parametrize("call", ["send_offsets", "commit", "abort"])
def test_calls_without_storage(away, call):
    log, store, clock = away
    producer = transactional(log)
    producer.begin_transaction()
    producer.send("t", "x")
    if call == "abort":
        producer.flush()
    store.requests_are_free = False  # In a folder a system call tells that there is no news.
    store.inject(Fault.FAIL_BEFORE, "[!us]*", times=None)  # rows can be staged; the entries are away
    begun = clock.monotonic()
    calls = {
        "send_offsets": lambda: producer.send_offsets_to_transaction({T0: 0}, "group"),
        "commit": producer.commit_transaction,
        "abort": producer.abort_transaction,
    }
    with pytest.raises(StoreUnavailableError) as raised:
        calls[call]()
    assert raised.value.retriable
    assert clock.monotonic() - begun < 6
    store.heal()
    calls[call]()  # and the same call works when it is back
    if call == "send_offsets":
        producer.commit_transaction()
    assert values(log) == ([] if call == "abort" else [b"x"])
    producer.close()


@conformance("TransactionsTest.testFailureToFenceEpoch")
@pytest.mark.parametrize("fault", [Fault.FAIL_BEFORE, Fault.LOST, Fault.FAIL_AFTER])
def test_an_init_that_failed_for_want_of_storage(fault):
    log, store = faulty_log()
    first = transactional(log)
    run(first, "1")
    store.inject(fault, "create", ENTRIES)
    second = Producer(log, {"transactional.id": "app"})
    with pytest.raises(Exception, match=r"may or may not|was not done|did not say") as raised:
        second.init_transactions()
    assert raised.value.retriable
    second.close()
    first.begin_transaction()
    first.send("t", "2")
    if fault is Fault.FAIL_AFTER:  # it had happened: the first one is fenced, and is told so
        with pytest.raises(ProducerFencedError):
            first.commit_transaction()
    else:
        first.commit_transaction()
    before = log.state.producer_of("app").epoch
    third = transactional(log)
    run(third, "3")
    assert log.follow().producer_of("app").epoch == before + 1
    assert values(log) == ([b"1", b"3"] if fault is Fault.FAIL_AFTER else [b"1", b"2", b"3"])


# -- Markers, states, epochs ----------------------------------------------------------------------------


@conformance("TransactionsTest.testMultipleMarkersOneLeader")
def test_markers_in_twenty_partitions(url):
    admin = Admin(url)
    for topic in ("large", "other"):
        admin.create_topic(topic, 10)
    with transactional(url) as producer:
        producer.begin_transaction()
        for topic, first, end in (("large", 0, 5000), ("other", 5000, 10_000)):
            for value in numbered(first, end):
                producer.send(topic, value, key=value)
            producer.flush()
        producer.abort_transaction()
        producer.begin_transaction()
        for value in numbered(10_000, 11_000):
            producer.send("large", value, key=value)
        producer.commit_transaction()
    assert sorted(values(url, "large", "other"), key=int) == numbered(10_000, 11_000)
    everything = values(url, "large", "other", isolation="read_uncommitted")
    assert sorted(everything, key=int) == numbered(0, 11_000)


@conformance("TransactionsTest.testConsecutivelyRunInitTransactions")
def test_a_second_init(url):
    with transactional(url) as producer, pytest.raises(IllegalStateError):
        producer.init_transactions()


@conformance("TransactionsTest.testRecoveryFromEpochOverflow", "KAFKA-19367")
@pytest.mark.parametrize("end", [2**15 - 1, 2**31 - 1, 2**32 - 1])
def test_epochs_do_not_overflow(end):
    log, _ = faulty_log()
    with transactional(log) as producer:
        run(producer, "aborted", commit=False)
    # Nobody takes an id over four billion times: the state is put there, and all that follows is real.
    state = log.state
    known = state.producer_of("app")
    aged = replace(known, epoch=end - 2)
    log._tail._state = replace(state, producers=state.producers.set(known.producer_id, aged))
    for value, left_open in (
        ("aborted", True),
        ("aborted", True),
        ("committed", False),
        ("committed", False),
    ):
        producer = transactional(log)
        producer.begin_transaction()
        producer.send("t", value)
        producer.flush()
        if not left_open:
            producer.commit_transaction()
    producer = log.state.producer_of("app")
    assert (producer.producer_id, producer.epoch) == (known.producer_id, end + 2)
    assert values(log) == [b"committed"] * 2
    with pytest.raises(ProducerFencedError):
        log.commit(lambda _state: (InitProducer(known.producer_id, end, "app", 1000),))


@conformance("TransactionsTest.testBumpTransactionalEpochWithTV2Disabled")
def test_after_an_abortable_error_the_producer_goes_on():
    log, store = faulty_log()
    for topic in "tuv":
        log.ensure_topic(topic)
    producer = transactional(log)
    run(producer, "4", topic="v")
    producer.begin_transaction()
    producer.send("t", "lost")
    producer.flush()
    failed = producer.send("v", "lost")
    store.inject(StoreFullError("no space"), "upload")
    with pytest.raises(AbortableError):
        producer.flush()
    with pytest.raises(AbortableError):
        failed.result()
    with pytest.raises(AbortableError):
        producer.send("v", "lost")
    producer.abort_transaction()
    producer.begin_transaction()
    for topic, value in (("u", "2"), ("t", "4"), ("v", "1"), ("v", "3")):
        producer.send(topic, value)
    producer.commit_transaction()
    assert values(log, "t", "u", "v") == [b"4", b"2", b"4", b"1", b"3"]


@conformance("TransactionsTest.testBumpTransactionalEpochWithTV2Enabled")
def test_what_a_failed_transaction_sent_late_never_reaches_the_next_one():
    log, store = faulty_log()
    log.ensure_topic("t")
    producer = transactional(log)
    run(producer, "4")
    before = log.state.producer_of("app")
    producer.begin_transaction()
    producer.send("t", "late")
    store.inject(Fault.DELAYED, "create", ENTRIES)  # the request is on its way, and nobody knows where
    with pytest.raises(Exception, match="did not say"):
        producer.flush()
    producer.abort_transaction()
    producer.begin_transaction()
    producer.send("t", "1")
    producer.flush()
    after = log.state.producer_of("app")
    assert (after.producer_id, after.epoch) == (before.producer_id, before.epoch)
    assert after.number > before.number
    (error,) = store.release()
    assert error is not None  # its slot is taken
    producer.commit_transaction()
    assert values(log) == [b"4", b"1"]
    assert values(log, isolation="read_uncommitted") == [b"4", b"1"]


@conformance("TransactionsTest.testEmptyAbortAfterCommit")
def test_an_empty_abort_after_a_commit(url):
    producer = transactional(url)
    run(producer, "4")
    before = Log.shared(url).follow()
    producer.begin_transaction()
    producer.abort_transaction()
    assert Log.shared(url).follow() == before
    run(producer, "5")
    assert sorted(record.value for record in records(url)) == [b"4", b"5"]
    producer.close()
