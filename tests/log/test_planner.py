"""Which rows are read: all that are visible, each once, and none that is not."""

from __future__ import annotations

import pytest

from spark_eos.config.isolation import Isolation
from spark_eos.errors import OffsetOutOfRangeError, UnknownTopicOrPartitionError
from spark_eos.log.data.planner import end_offset, partition_of, plan
from spark_eos.protocol.actions import (
    AdvanceLogStart,
    AppendBatches,
    CreateLog,
    CreateTopic,
    EndTransaction,
    InitProducer,
    PartitionOffset,
    Request,
)
from spark_eos.protocol.rules.apply import Accepted, apply
from spark_eos.protocol.state import EMPTY
from spark_eos.protocol.types import NO_PRODUCER, BatchRef, FileRef, ProducerStamp, StagedFile, TopicPartition

T0 = TopicPartition("t", 0)
COMMITTED, UNCOMMITTED = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED
ONE, TWO = ProducerStamp(0, 0, 0), ProducerStamp(1, 0, 0)


def after(*actions):
    """The state after these actions, in a log with the topic t (2 partitions) and producers 0 and 1."""
    state = EMPTY
    begin = (
        CreateLog("log"),
        CreateTopic("t", "id", 2),
        InitProducer(0, 0, "one", 1000),
        InitProducer(1, 0, "two", 1000),
    )
    for action in (*begin, *actions):
        state, outcome = apply(state, Request(bytes(16), 0, (action,)))
        assert isinstance(outcome, Accepted), outcome
    return state


def rows(count, stamp=NO_PRODUCER, *, partition=0):
    batch = BatchRef(partition, count, 0, 10, 0, 0, 0)
    return AppendBatches(stamp, (("t", "id"),), (StagedFile("t", FileRef("data/t-id/0-x", 10, 0), (batch,)),))


def commit(stamp):
    return EndTransaction(stamp, commit=True)


def abort(stamp):
    return EndTransaction(stamp, commit=False)


def offsets(state, start, end, isolation):
    """All offsets that are read, and that each fetch takes them from the right rows."""
    found = []
    for fetch in plan(state, T0, start, end, isolation):
        row = next(
            r for r in state.partitions["id", 0].index.tail if r.base_offset + fetch.skip == fetch.offset
        )
        assert fetch.skip + fetch.count <= row.count
        assert fetch.batch is row.batch
        found += range(fetch.offset, fetch.offset + fetch.count)
    return found


def test_every_row_once():
    state = after(rows(3), rows(2), rows(4))
    for start in range(10):
        for end in range(start, 10):
            assert offsets(state, start, end, COMMITTED) == list(range(start, end))


def test_control_batches_are_left_out():
    state = after(rows(2, ONE), commit(ONE), rows(1))
    for isolation in Isolation:
        assert offsets(state, 0, 4, isolation) == [0, 1, 3]
    assert plan(state, T0, 2, 3, COMMITTED) == []


def test_aborted_rows_are_left_out_under_read_committed_only():
    state = after(rows(2, ONE), rows(1), abort(ONE), rows(1))
    assert offsets(state, 0, 5, COMMITTED) == [2, 4]
    assert offsets(state, 0, 5, UNCOMMITTED) == [0, 1, 2, 4]


def test_an_abort_hides_its_own_transaction_only():
    second = ONE._replace(number=1)
    state = after(rows(1, ONE), rows(1, TWO), abort(ONE), rows(1, second), commit(second), commit(TWO))
    assert offsets(state, 0, 6, COMMITTED) == [1, 3]


def test_committed_readers_stop_at_the_oldest_open_transaction():
    state = after(rows(3), rows(1, TWO), rows(1, ONE), rows(1), commit(ONE))
    partition = partition_of(state, T0)
    assert end_offset(partition, COMMITTED) == 3
    assert end_offset(partition, UNCOMMITTED) == 7
    assert offsets(state, 0, 3, COMMITTED) == [0, 1, 2]
    assert offsets(state, 0, 7, UNCOMMITTED) == [0, 1, 2, 3, 4, 5]
    with pytest.raises(OffsetOutOfRangeError, match=r"t-0.*0 to 3"):
        plan(state, T0, 0, 4, COMMITTED)
    state = after(rows(3), rows(1, TWO), rows(1, ONE), rows(1), commit(ONE), commit(TWO))
    assert offsets(state, 0, 8, COMMITTED) == [0, 1, 2, 3, 4, 5]


def test_what_is_not_there_is_refused():
    state = after(rows(5), AdvanceLogStart((PartitionOffset("t", "id", 0, 2),)))
    assert offsets(state, 2, 5, COMMITTED) == [2, 3, 4]
    for start, end in ((1, 5), (2, 6), (4, 3), (-1, 2)):
        with pytest.raises(OffsetOutOfRangeError):
            plan(state, T0, start, end, UNCOMMITTED)
    with pytest.raises(UnknownTopicOrPartitionError, match="partition 2: its partitions are 0 to 1"):
        plan(state, TopicPartition("t", 2), 0, 0, COMMITTED)
    with pytest.raises(UnknownTopicOrPartitionError, match="'u'"):
        plan(state, TopicPartition("u", 0), 0, 0, COMMITTED)
