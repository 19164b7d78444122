"""What no state allows is refused at once, and what was refused once never comes to a boundary."""

from __future__ import annotations

import pytest
from immutables import Map

from spark_eos.errors import EosLogError, InvalidRequestError
from spark_eos.protocol import actions as a
from spark_eos.protocol.encoding.entries import encode_entry
from spark_eos.protocol.encoding.index_pages import encode_page, seal_pages, seal_rows
from spark_eos.protocol.encoding.snapshots import decode_snapshot, encode_snapshot
from spark_eos.protocol.index import IndexRow, Kind
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules import sealing
from spark_eos.protocol.rules.apply import Rejected, apply, apply_entry
from spark_eos.protocol.state import EMPTY
from spark_eos.protocol.types import NO_PRODUCER, BatchRef, FileRef, StagedFile

BATCH = BatchRef(0, 1, 0, 1, 7, 1, 1)


def entry(state, *actions):
    return a.Entry(state.seq + 1, (a.Request(bytes(16), 1000, actions, "w"),), state.lineage)


def appending(*batches, name="data/0-x.arrow", size=10_000):
    return a.AppendBatches(NO_PRODUCER, (("t", "t-id"),), (StagedFile("t", FileRef(name, size, 0), batches),))


@pytest.fixture
def state():
    return apply_entry(EMPTY, entry(EMPTY, a.CreateLog("log", 2), a.CreateTopic("t", "t-id", 2)))[0]


def test_600_batches_of_2_to_the_60_rows(state):
    """They came to an end beyond 64 bits: from the next boundary on the log could not be opened any more."""
    huge = appending(*[BATCH._replace(count=2**60)] * 600)
    for _ in range(3):
        state, (outcome,) = apply_entry(state, entry(state, huge))
        assert isinstance(outcome, Rejected)
    assert state.partitions["t-id", 0].end == 0
    assert decode_snapshot(encode_snapshot(state), state.seq, "snapshot") == state


def test_bytes_that_add_up_to_more_than_64_bits_can_be_sealed(state):
    largest = appending(*[BATCH._replace(length=2**43)] * 512, size=2**43)
    state, _ = apply_entry(state, entry(state, *[largest] * 70))
    assert state.partitions["t-id", 0].end == 512 * 70
    state, _ = apply_entry(state, entry(state))
    page = state.partitions["t-id", 0].index.pages[0]
    assert page.bytes == 2**52
    assert decode_snapshot(encode_snapshot(state), state.seq, "snapshot") == state


def test_a_sum_of_bytes_ends_at_64_bits():
    file = FileRef("data/0-x.arrow", 2**62, 0)
    rows = tuple(
        IndexRow(n, 1, Kind.DATA, NO_PRODUCER, 1, file, BATCH._replace(length=2**62)) for n in range(3)
    )
    page = seal_rows(("t-id", 0), rows)
    fan = seal_pages((page, page))
    assert (page.bytes, fan.bytes) == (2**63 - 1, 2**63 - 1)
    assert encode_page(fan.content)


WRONG = {
    "crc": appending(BATCH._replace(crc=2**32)),
    "crc below": appending(BATCH._replace(crc=-1)),
    "count": appending(BATCH._replace(count=2**31)),
    "a second batch": appending(BATCH, BATCH._replace(count=2**31)),
    "length": appending(BATCH._replace(length=2**44), size=2**43),
    "size": appending(BATCH, size=2**44),
    "time": appending(BATCH._replace(max_timestamp_ms=2**63)),
    "time below": appending(BATCH._replace(min_timestamp_ms=-(2**63) - 1)),
    "time beyond the year 9999": appending(BATCH, BATCH._replace(max_timestamp_ms=253_402_300_800_000)),
    "time before the year 1": appending(BATCH, BATCH._replace(min_timestamp_ms=-62_135_596_800_001)),
    "float": appending(BATCH._replace(count=1.5)),
    "bool": appending(BATCH._replace(count=True)),
    "tuple": appending(tuple(BATCH)),
    "list": a.AppendBatches(NO_PRODUCER, [("t", "t-id")], ()),
    "name": appending(BATCH, name="_log/00000000000000000000.avro"),
    "path": appending(BATCH, name="data/../../0-x.arrow"),
    "absolute": appending(BATCH, name="/data/0-x.arrow"),
    "NUL": appending(BATCH, name="data/\0/0-x.arrow"),
    "surrogate": a.CommitOffsets("\ud800", ()),
    "long group": a.CommitOffsets("g" * 40_000, ()),
    "offset": a.CommitOffsets("g", (a.PartitionOffset("t", "t-id", 0, 2**62 + 1),)),
    "timeout": a.InitProducer(0, 0, None, 2**31),
    "session": a.JoinGroup("g", "m", (), ("range",), 2**31),
    "batch id": a.CommitMicroBatch("x", "q", "r", -1, ()),
    "setting": a.CreateTopic("u", "u-id", 1, (("retention.ms", "never"),)),
    "altered setting": a.AlterTopic("t", "t-id", None, (("segment.bytes", "1e9"),)),
    "topic id": a.CreateTopic("u", "..", 1),
    "topic id again": (a.DeleteTopic("t", "t-id"), a.CreateTopic("t", "t-id", 1)),
    "None": a.DeleteTopic(None, "t-id"),
    "no action": BATCH,
}


@pytest.mark.parametrize("what", WRONG)
def test_what_no_state_allows(state, what):
    actions = WRONG[what] if type(WRONG[what]) is tuple else (WRONG[what],)
    after, outcome = apply(state, a.Request(bytes(16), 1000, actions, "w"))
    assert after is state
    assert isinstance(outcome.error, InvalidRequestError)


@pytest.mark.parametrize("letter", ["g", "ä"])
def test_a_name_has_as_many_characters_as_kafka_has_room_for(state, letter):
    for count, is_possible in ((32_767, True), (32_768, False)):
        action = a.CommitOffsets(letter * count, ())
        _, outcome = apply(state, a.Request(bytes(16), 1000, (action,), "w"))
        assert isinstance(outcome, Rejected) is not is_possible


@pytest.mark.parametrize(
    "request_",
    [
        a.Request(bytes(15), 1, ()),
        a.Request(bytes(16), -253_402_300_800_000, ()),
        a.Request(bytes(16), 253_402_300_800_000, ()),
        a.Request(bytes(16), 1, (), "w" * 40_000),
        a.Request(bytes(16), 1, []),
        a.Request(bytes(16), 1.0, ()),
    ],
)
def test_requests_themselves(state, request_):
    assert isinstance(apply(state, request_)[1].error, InvalidRequestError)


@pytest.mark.parametrize("seq", [1.5, True, None, "1", 2**63])
def test_what_would_be_read_as_another_value_is_not_written(state, seq):
    """1.5 was stored as 1: its writer went on with another state than its readers."""
    with pytest.raises(InvalidRequestError, match="cannot be written down"):
        encode_entry(entry(state, a.RaiseStagingFloor(seq)))


@pytest.mark.parametrize(
    "change", [{"batch": BATCH._replace(partition=1)}, {"batch": None}, {"file": None}], ids=str
)
def test_rows_that_would_be_read_as_others_are_not_written(state, change):
    row = IndexRow(0, 1, Kind.DATA, NO_PRODUCER, 1, FileRef("data/0-x.arrow", 1, 0), BATCH)
    rewrite = a.ReplaceSegments("t", "t-id", 0, 0, 1, 0, (row._replace(**change),))
    with pytest.raises(InvalidRequestError, match="one of another partition"):
        encode_entry(entry(state, rewrite))
    encode_entry(entry(state, rewrite._replace(rows=(row,))))


class Text(str):
    """Another type of text."""

    __slots__ = ()


def test_text_of_another_type(state):
    with pytest.raises(InvalidRequestError, match="cannot be written down"):
        encode_entry(entry(state, a.CommitOffsets(Text("g"), ())))


@pytest.mark.parametrize("error", [KeyError("x"), TypeError("x"), OverflowError("x"), ValueError("x")])
def test_a_rule_that_trips_refuses(state, monkeypatch, error):
    def trip(*_):
        raise error

    monkeypatch.setitem(a.DECLARED, a.RaiseStagingFloor, a.DECLARED[a.RaiseStagingFloor]._replace(rule=trip))
    request = a.Request(bytes(16), 1000, (a.RaiseStagingFloor(1),))
    after, outcome = apply(state, request)
    assert after is state
    assert isinstance(outcome.error, EosLogError)


@pytest.mark.parametrize("error", [MemoryError(), RecursionError()])
def test_what_depends_on_the_machine_is_no_verdict(state, monkeypatch, error):
    def trip(*_):
        raise error

    monkeypatch.setitem(a.DECLARED, a.RaiseStagingFloor, a.DECLARED[a.RaiseStagingFloor]._replace(rule=trip))
    with pytest.raises(type(error)):
        apply(state, a.Request(bytes(16), 1000, (a.RaiseStagingFloor(1),)))


# -- Aborted transactions that nobody has to know any more ------------------------------------------------


def aborted(log, count):
    for _ in range(count):
        known = log.state.producer_of("tx")
        stamp = log.next(log.init() if known is None else known.stamp)
        log.append(stamp, (0, 1))
        log.end(stamp, commit=False)


def test_marks_of_aborted_transactions_go_with_their_rows(log):
    aborted(log, 10)
    assert len(log.partition().aborted) == 10
    log.do(a.AdvanceLogStart((log.at(9),)))
    # Offset 9 is the end of the fifth one: its control batch is still there.
    assert sorted(log.partition().aborted) == [(0, number) for number in range(4, 10)]
    log.do(a.AdvanceLogStart((log.at(a.TO_THE_END),)))
    assert not log.partition().aborted


def test_marks_that_rules_1_left_go_at_the_next_boundary(log):
    aborted(log, 3)
    log.do(a.AdvanceLogStart((log.at(a.TO_THE_END),)))
    key = ("t-id", 0)
    left = Map({(0, number): True for number in range(2000)})
    partition = replace(log.state.partitions[key], aborted=left)
    log.state = replace(log.state, partitions=log.state.partitions.set(key, partition))
    while not sealing.is_boundary(log.state, log.state.seq):
        log.do(a.RaiseStagingFloor(0))
    assert not log.partition().aborted


def test_marks_of_rows_that_are_there_stay_at_a_boundary(log):
    aborted(log, 3)
    while not sealing.is_boundary(log.state, log.state.seq):
        log.do(a.RaiseStagingFloor(0))
    assert len(log.partition().aborted) == 3
