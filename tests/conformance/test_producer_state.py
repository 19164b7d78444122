"""Kafka's ProducerStateManagerTest and UnifiedLogTest: sequences, epochs, markers and the last stable offset.

The requests are made by hand, as a producer that misbehaves would make them; what they come to is read with
a consumer.
"""

from __future__ import annotations

import pytest

from spark_eos import Admin, Consumer, TopicPartition
from spark_eos.errors import (
    InvalidTxnStateError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    ProducerFencedError,
)
from spark_eos.protocol.actions import InitProducer
from spark_eos.protocol.index import Kind
from spark_eos.protocol.types import ProducerStamp
from tests.conformance.helpers import append, end, faulty_log, records, run, transactional, values

conformance = pytest.mark.conformance
T0 = TopicPartition("t", 0)


@pytest.fixture
def log():
    log, _ = faulty_log()
    log.ensure_topic("t")
    return log


def init(log, transactional_id=None, epoch=0):
    known = log.follow().producer_of(transactional_id) if transactional_id else None
    producer_id = log.state.next_producer_id if known is None else known.producer_id
    action = InitProducer(producer_id, epoch, transactional_id, 60_000)
    return log.commit(lambda _state: (action,)).results[0]


def begun(log, transactional_id="app"):
    """A producer whose first transaction may begin."""
    return init(log, transactional_id)._replace(number=0)


def after(stamp):
    return stamp._replace(number=stamp.number + 1)


def lso(log):
    return Admin(log).describe_topic("t").partitions[0].lso


def markers(log):
    state = log.follow()
    rows = state.partitions[log.topic("t").topic_id, 0].index.tail
    return [
        (row.offset if hasattr(row, "offset") else row.base_offset, row.kind)
        for row in rows
        if row.kind is not Kind.DATA
    ]


def at_the_end_of_the_range(log, stamp, last):
    """As if the producer had written up to sequence ``last``: two billion records are not written for it."""
    from spark_eos.protocol.replace import replace

    state = log.follow()
    producer = state.producers[stamp.producer_id]
    (key,) = producer.sequences
    aged = producer.window(key)[-1]._replace(first=last, last=last)
    producer = replace(producer, sequences=producer.sequences.set(key, tuple(aged)))
    log._tail._state = replace(state, producers=state.producers.set(stamp.producer_id, producer))


# -- Sequences ------------------------------------------------------------------------------------------


@conformance("ProducerStateManagerTest.testProducerSequenceWrapAround", "sequence/wrap")
def test_after_the_last_sequence_comes_0(log):
    stamp = init(log)
    append(log, stamp, b"a")
    at_the_end_of_the_range(log, stamp, 2**31 - 1)
    append(log, stamp, b"b", sequence=0)
    append(log, stamp, b"c", sequence=1)
    assert values(log) == [b"a", b"b", b"c"]


@conformance("ProducerStateManagerTest.testProducerSequenceWithWrapAroundBatchRecord", "sequence/wrap")
def test_a_batch_over_the_end_of_the_range(log):
    stamp = init(log)
    append(log, stamp, b"a")
    at_the_end_of_the_range(log, stamp, 2**31 - 3)
    (landed,) = append(log, stamp, b"b", b"c", b"d", b"e", sequence=2**31 - 2)
    (again,) = append(log, stamp, b"b", b"c", b"d", b"e", sequence=2**31 - 2)
    assert (again.base_offset, again.duplicate) == (landed.base_offset, True)
    append(log, stamp, b"f", sequence=2)
    assert values(log) == [b"a", b"b", b"c", b"d", b"e", b"f"]


@conformance("ProducerStateManagerTest.testProducerSequenceInvalidWrapAround", "sequence/gap")
@pytest.mark.parametrize("last", [0, 5, 2**31 - 2])
def test_a_jump_to_0_before_the_end_of_the_range(log, last):
    stamp = init(log)
    append(log, stamp, b"a")
    at_the_end_of_the_range(log, stamp, last)
    with pytest.raises(OutOfOrderSequenceError):
        append(log, stamp, b"b", b"b", sequence=0)
    assert values(log) == [b"a"]


@conformance("ProducerStateManagerTest.(non-zero first sequence is refused)", "sequence/first")
def test_the_first_sequence(log):
    for stamp in (init(log), begun(log)):
        for sequence in (1, 5, 2**31 - 1):
            with pytest.raises(OutOfOrderSequenceError):
                append(log, stamp, b"x", sequence=sequence)
        append(log, stamp, b"x", sequence=0)


@conformance("UnifiedLogTest.testDuplicateAppends", "sequence/duplicate", "sequence/window")
def test_duplicates(log):
    stamp = init(log)
    first = [append(log, stamp, b"%d" % n, b"+", sequence=2 * n)[0] for n in range(6)]
    before = log.follow().partitions
    for n in range(1, 6):
        (again,) = append(log, stamp, b"%d" % n, b"+", sequence=2 * n)
        assert (again.base_offset, again.duplicate) == (first[n].base_offset, True)
    for sequence, sent in ((0, [b"0", b"+"]), (4, [b"2"]), (9, [b"+", b"5"])):  # too old, cut, shifted
        with pytest.raises(OutOfOrderSequenceError):
            append(log, stamp, *sent, sequence=sequence)
    assert log.follow().partitions == before
    append(log, stamp, b"6", sequence=12)
    assert [r.offset for r in records(log)] == list(range(13))


# -- Epochs ---------------------------------------------------------------------------------------------


@conformance("UnifiedLogTest.testOldProducerEpoch", "producer/fencing")
def test_a_batch_of_an_older_epoch(log):
    old = begun(log)
    append(log, old, b"old")
    new = init(log, "app", epoch=1)._replace(number=1)
    append(log, new, b"new")
    for sequence in (0, 1):
        with pytest.raises(ProducerFencedError):
            append(log, old, b"late", sequence=sequence)
    end(log, new)
    assert values(log) == [b"new"]
    assert values(log, isolation="read_uncommitted") == [b"old", b"new"]


@conformance("ProducerStateManagerTest.testControlRecordBumpsProducerEpoch", "producer/init-aborts")
def test_an_abort_that_fences_raises_the_epoch(log):
    old = begun(log)
    append(log, old, b"a")
    Admin(log).abort_transaction("app")
    assert markers(log) == [(1, Kind.ABORT)]
    producer = log.state.producer_of("app")
    assert (producer.epoch, producer.number) == (1, 0)
    with pytest.raises(ProducerFencedError):
        append(log, old, b"b", sequence=1)
    append(log, ProducerStamp(old.producer_id, 1, 1), b"c", sequence=0)


@conformance("ProducerStateManagerTest.testOutOfSequenceAfterControlRecordEpochBump", "sequence/first")
def test_sequences_start_again_after_the_epoch_was_raised(log):
    old = begun(log)
    append(log, old, b"a", b"b")
    Admin(log).abort_transaction("app")
    new = ProducerStamp(old.producer_id, 1, 1)
    for sequence in (1, 2, 3):
        with pytest.raises(OutOfOrderSequenceError):
            append(log, new, b"c", sequence=sequence)
    append(log, new, b"c", sequence=0)
    end(log, new)
    assert values(log) == [b"c"]


@conformance("ProducerStateManagerTest.testOldEpochForControlRecord", "producer/fencing")
@pytest.mark.parametrize("commit", [True, False])
def test_an_end_from_an_older_epoch(log, commit):
    old = begun(log)
    append(log, old, b"a")
    new = init(log, "app", epoch=1)._replace(number=1)
    append(log, new, b"b")
    for late in (old, old._replace(number=1)):
        with pytest.raises(ProducerFencedError):
            end(log, late, commit=commit)
    assert markers(log) == [(1, Kind.ABORT)]
    assert values(log) == []


# -- Transactions ---------------------------------------------------------------------------------------


@conformance("ProducerStateManagerTest.testNonTransactionalAppendWithOngoingTransaction", "producer/kinds")
def test_a_non_transactional_batch_of_a_transactional_producer(log):
    stamp = begun(log)
    append(log, stamp, b"a")
    with pytest.raises(InvalidTxnStateError):
        append(log, stamp._replace(number=-1), b"b", sequence=1)
    end(log, stamp)
    with pytest.raises(InvalidTxnStateError):
        append(log, stamp._replace(number=-1), b"b", sequence=1)
    with pytest.raises(InvalidTxnStateError):
        append(log, init(log)._replace(number=0), b"c")
    assert values(log) == [b"a"]


@conformance(
    "ProducerStateManagerTest.(marker retry is idempotent)", "producer/same-decision", "producer/markers"
)
@pytest.mark.parametrize("commit", [True, False])
def test_an_end_that_is_repeated(log, commit):
    stamp = begun(log)
    append(log, stamp, b"a")
    for _ in range(3):
        end(log, stamp, commit=commit)
    kind = Kind.COMMIT if commit else Kind.ABORT
    assert markers(log) == [(1, kind)]
    assert values(log) == ([b"a"] if commit else [])
    append(log, after(stamp), b"b", sequence=1)
    with pytest.raises(InvalidTxnStateError):
        end(log, stamp, commit=commit)  # too late: the next transaction is open
    assert lso(log) == 2


@conformance(
    "ProducerStateManagerTest.testFirstUnstableOffset",
    "ProducerStateManagerTest.testLastStableOffsetCompletedTxn",
    "offset/lso",
)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_the_last_stable_offset_waits_at_the_oldest_open_transaction(log, order):
    append(log, init(log), b"before")
    assert lso(log) == 1
    stamps = [begun(log, name) for name in ("a", "b", "c")]
    for n, stamp in enumerate(stamps):
        append(log, stamp, b"%d" % n, b"+")
    opened = dict(enumerate([1, 3, 5]))
    for n in order:
        assert lso(log) == min(opened.values())
        end(log, stamps[n], commit=n != 1)
        del opened[n]
    assert lso(log) == 10  # seven records, three markers


@conformance("ProducerStateManagerTest.testSkipEmptyTransactions", "producer/empty")
def test_empty_transactions_leave_no_trace(log):
    first, second = begun(log, "a"), begun(log, "b")
    append(log, first, b"1")
    end(log, second)
    end(log, after(second), commit=False)
    assert (lso(log), markers(log)) == (0, [])
    append(log, after(after(second)), b"2")
    end(log, first)
    assert lso(log) == 1
    end(log, after(after(second)))
    end(log, after(first))
    assert (lso(log), markers(log)) == (4, [(2, Kind.COMMIT), (3, Kind.COMMIT)])
    assert values(log) == [b"1", b"2"]


@conformance("UnifiedLogTest.testAbortedTransactionSpanningMultipleSegments")
def test_an_aborted_transaction_in_many_files(log):
    aborted = transactional(log, "aborted")
    aborted.begin_transaction()
    expected = []
    for n in range(8):
        aborted.send("t", f"aborted {n}")
        aborted.flush()
        run(transactional(log, "other"), f"{n}")
        expected.append(b"%d" % n)
    assert values(log) == []
    aborted.abort_transaction()
    assert values(log) == expected
    assert len(values(log, isolation="read_uncommitted")) == 16
    offsets = [record.offset for record in records(log)]
    with Consumer(log, {"isolation.level": "read_committed"}) as reader:
        reader.assign([T0])
        for start in range(25):  # wherever one begins to read in the middle of it
            reader.seek(T0, start)
            assert [r.offset for r in reader.poll()] == [offset for offset in offsets if offset >= start]


@conformance("UnifiedLogTest.testLastStableOffsetDoesNotExceedLogStartOffsetMidSegment", "offset/start")
def test_the_log_start_in_the_middle_of_a_file(log):
    stamp = begun(log)
    append(log, init(log), b"a", b"b", b"c")
    append(log, stamp, b"d", b"e")
    admin = Admin(log)
    for start in (4, 5, 6):
        with pytest.raises(OffsetOutOfRangeError):
            admin.delete_records({T0: start})
    assert admin.delete_records({T0: 2}) == {T0: 2}
    assert admin.delete_records({T0: -1}) == {T0: 3}
    assert lso(log) == 3
    end(log, stamp)
    assert admin.delete_records({T0: 4}) == {T0: 4}
    assert lso(log) == 6
    assert values(log) == [b"e"]


@conformance(
    "UnifiedLogTest.testLastStableOffsetDoesNotExceedLogStartOffsetAfterSegmentDeletion", "offset/start"
)
def test_the_log_start_behind_whole_files(log):
    for _ in range(3):
        append(log, init(log), b"x", b"x")
    stamp = begun(log)
    append(log, stamp, b"y")
    admin = Admin(log)
    assert admin.delete_records({T0: -1}) == {T0: 6}
    assert lso(log) == 6
    end(log, stamp, commit=False)
    assert admin.delete_records({T0: -1}) == {T0: 8}
    assert lso(log) == 8
    assert values(log) == []
