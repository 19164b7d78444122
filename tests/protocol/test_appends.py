"""Appends: offsets in order, once, or nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eos.errors import (
    InvalidRecordError,
    InvalidRequestError,
    OutOfOrderSequenceError,
    StagedFileExpiredError,
    UnknownTopicOrPartitionError,
)
from spark_eos.protocol.actions import AlterTopic, AppendBatches, RaiseStagingFloor
from spark_eos.protocol.actions.appends import staged_at
from spark_eos.protocol.types import NO_PRODUCER, BatchRef, FileRef, StagedFile
from tests.protocol.schemas import numbered

SCHEMA = pa.schema([("a", pa.int64())]).serialize().to_pybytes()
WIDER = numbered(2, ("a", pa.int64(), 1), ("b", pa.int64(), 2))


def landed(appended):
    return [(at.partition, at.base_offset, at.duplicate) for at in appended]


def test_offsets_are_given_in_the_order_of_the_request(log):
    assert landed(log.append(NO_PRODUCER, (0, 3), (1, 2), (0, 4))) == [
        (0, 0, False),
        (1, 0, False),
        (0, 3, False),
    ]
    assert (log.partition().end, log.partition(1).end) == (7, 2)


@pytest.mark.conformance("commit/all-or-nothing")
def test_a_rejected_request_changes_nothing(log):
    before = log.state
    for bad in (log.appending(NO_PRODUCER, (0, 1), (2, 1)), log.appending(NO_PRODUCER, (0, 1), topic="u")):
        with pytest.raises(UnknownTopicOrPartitionError):
            log.do(log.appending(NO_PRODUCER, (0, 3)), bad)
    assert log.state == before
    assert log.append(NO_PRODUCER, (0, 3))[0].base_offset == 0


@pytest.mark.parametrize("partition", [-1, 2])
def test_no_such_partition(log, partition):
    with pytest.raises(UnknownTopicOrPartitionError, match=f"no partition {partition}"):
        log.append(NO_PRODUCER, (partition, 1))


def test_a_file_names_a_topic_of_the_request(log):
    action = log.appending(NO_PRODUCER, (0, 1))._replace(topics=())
    with pytest.raises(InvalidRequestError, match="without its topic id"):
        log.do(action)


@pytest.mark.parametrize(
    ("count", "position", "length"),
    [(0, 0, 10), (-1, 0, 10), (1, -1, 10), (1, 91, 10), (1, 0, 101), (1, 50, -10)],
)
def test_batches_lie_in_their_file(log, count, position, length):
    batch = BatchRef(0, count, position, length, 7, 1, 2)
    staged = StagedFile("t", FileRef("0-x.arrow", 100, 0), (batch,))
    with pytest.raises(InvalidRecordError, match="does not lie in"):
        log.do(AppendBatches(NO_PRODUCER, (("t", "t-id"),), (staged,)))


def test_a_parquet_file_is_not_appended(log):
    """Its rows would have offsets before they get any."""
    staged = StagedFile("t", FileRef("0-x.parquet", 100, 0, footer=50), (BatchRef(0, 1, 4, 10, 7, 1, 2),))
    with pytest.raises(InvalidRecordError, match="rows are appended in Arrow files alone"):
        log.do(AppendBatches(NO_PRODUCER, (("t", "t-id"),), (staged,)))


def test_schema_versions_of_files(log):
    log.topic("typed", schema=SCHEMA).do(AlterTopic("typed", "typed-id", schema=WIDER))
    for topic, version in (("t", 1), ("t", -1), ("typed", 0), ("typed", 3), ("typed", -1)):
        with pytest.raises(InvalidRecordError, match=f"schema version {version}"):
            log.append(NO_PRODUCER, (0, 1), topic=topic, version=version)
    log.append(NO_PRODUCER, (0, 1), topic="typed", version=1)
    log.append(NO_PRODUCER, (0, 1), topic="typed", version=2)


@pytest.mark.parametrize(
    "name", ["", "x", "12", "12-", "x-y", "-1-x", "data/1/x", "²-x", "٣-x", "1" * 5000 + "-x"]
)
def test_names_that_are_not_of_data_files(name):
    with pytest.raises(InvalidRequestError, match="not the name of a data file"):
        staged_at(name)


def test_base_seq_of_a_name():
    assert staged_at("data/t-9/00042-7-x.arrow") == 42


@pytest.mark.conformance("sequence/duplicate")
@pytest.mark.parametrize("transactional", [True, False])
def test_a_repeated_request_is_answered_with_its_first_offsets(log, transactional):
    stamp = log.next(log.init()) if transactional else log.init(None)
    log.append(NO_PRODUCER, (0, 5))
    assert landed(log.append(stamp, (0, 3, 0), (1, 3, 0))) == [(0, 5, False), (1, 0, False)]
    before = log.state.partitions
    assert landed(log.append(stamp, (0, 3, 0), (1, 3, 0))) == [(0, 5, True), (1, 0, True)]
    assert log.state.partitions == before
    with pytest.raises(OutOfOrderSequenceError, match=r"1 batches .* already and 1 are new"):
        log.append(stamp, (0, 3, 0), (1, 3, 3))


@pytest.mark.conformance("offset/floor")
def test_a_repeated_request_is_recognised_above_its_files(log):
    stamp = log.init(None)
    log.append(stamp, (0, 3, 0))
    log.do(RaiseStagingFloor(2))
    assert landed(log.append(stamp, (0, 3, 0))) == [(0, 0, True)]
    with pytest.raises(StagedFileExpiredError):
        log.append(stamp, (0, 3, 3))


@pytest.mark.conformance("sequence/gap")
@pytest.mark.parametrize("sequence", [-2, 1, 2, 4, 2**31])
def test_gaps(log, sequence):
    stamp = log.init(None)
    log.append(stamp, (0, 3, 0))
    with pytest.raises(OutOfOrderSequenceError, match="the next one is 3"):
        log.append(stamp, (0, 3, sequence))
    log.append(stamp, (0, 3, 3))


@pytest.mark.conformance("sequence/gap")
def test_another_length_is_no_duplicate(log):
    stamp = log.init(None)
    log.append(stamp, (0, 3, 0))
    with pytest.raises(OutOfOrderSequenceError):
        log.append(stamp, (0, 2, 0))


@pytest.mark.conformance("sequence/first")
def test_the_first_sequence_is_zero(log):
    with pytest.raises(OutOfOrderSequenceError, match="the next one is 0"):
        log.append(log.init(None), (0, 1, 1))


@pytest.mark.conformance("sequence/window")
def test_five_batches_are_remembered(log):
    stamp = log.init(None)
    for sequence in range(6):
        log.append(stamp, (0, 1, sequence))
    assert landed(log.append(stamp, (0, 1, 1))) == [(0, 1, True)]
    with pytest.raises(OutOfOrderSequenceError):
        log.append(stamp, (0, 1, 0))


@pytest.mark.conformance("sequence/wrap")
@pytest.mark.parametrize("count", [2, 12])
def test_sequences_wrap(log, count):
    stamp = log.init(None)
    log.append(stamp, (0, 2**31 - 2, 0))
    (at,) = log.append(stamp, (0, count, 2**31 - 2))
    assert landed(log.append(stamp, (0, count, 2**31 - 2))) == [(0, at.base_offset, True)]
    log.append(stamp, (0, 1, count - 2))


@pytest.mark.conformance("sequence/first")
def test_a_new_epoch_begins_at_zero(log):
    stamp = log.next(log.init())
    log.append(stamp, (0, 3, 0))
    log.end(stamp)
    log.append(log.next(stamp), (0, 1, 3))
    log.end(log.next(stamp))
    stamp = log.next(log.init())
    with pytest.raises(OutOfOrderSequenceError, match="the next one is 0"):
        log.append(stamp, (0, 1, 4))
    assert landed(log.append(stamp, (0, 3, 0))) == [(0, 6, False)]


@pytest.mark.conformance("Redpanda #5026", "sequence/aborted")
def test_an_aborted_batch_is_not_taken_for_a_duplicate(log):
    stamp = log.next(log.init())
    log.append(stamp, (0, 3, 0))
    log.end(stamp, commit=False)
    with pytest.raises(OutOfOrderSequenceError, match="the next one is 3"):
        log.append(log.next(stamp), (0, 3, 0))
    stamp = log.next(log.init())
    assert landed(log.append(stamp, (0, 3, 0))) == [(0, 4, False)]


def test_batches_without_sequence_are_never_duplicates(log):
    stamp = log.init(None)
    assert landed(log.append(stamp, (0, 3)) + log.append(stamp, (0, 3))) == [(0, 0, False), (0, 3, False)]
