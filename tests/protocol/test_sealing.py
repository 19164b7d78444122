"""Sealed indexes and snapshots: the same state by any path, and readers see what they saw."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eos.config.isolation import Isolation
from spark_eos.errors import (
    CorruptRecordError,
    EosLogError,
    IllegalStateError,
    InvalidRequestError,
    SegmentsReplacedError,
    StagedFileExpiredError,
    UnsupportedVersionError,
)
from spark_eos.log.data.planner import end_offset, plan
from spark_eos.protocol import actions as a
from spark_eos.protocol.encoding import snapshot_partitions
from spark_eos.protocol.encoding.entries import encode_entry
from spark_eos.protocol.encoding.index_pages import checksum, decode_page, encode_page, seal_rows
from spark_eos.protocol.encoding.snapshots import decode_snapshot, encode_snapshot
from spark_eos.protocol.index import Index, IndexRow, Kind
from spark_eos.protocol.invariants import apply_checked, check_state
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules import sealing
from spark_eos.protocol.rules.apply import apply_entry
from spark_eos.protocol.state import EMPTY
from spark_eos.protocol.types import NO_PRODUCER, BatchRef, FileRef, ProducerStamp, StagedFile, TopicPartition
from tests.protocol.test_determinism import requests
from tests.tiers import examples


def rows_of(index):
    return [*index.scan(0)]


def stored(pages, into):
    """Forget what pages hold, and keep their bytes as a store does."""
    for page in pages:
        content = page.content
        page.forget()
        if content is not None:
            into[page] = encode_page(content)
            if page.level:
                stored(content, into)


def loader(store):
    return lambda page: page.content or decode_page(store[page], page, "a piece")


def seen(state, load, isolation):
    return {
        (name, number): plan(
            state,
            TopicPartition(name, number),
            (at := state.partitions[topic.topic_id, number]).start,
            end_offset(at, isolation),
            isolation,
            load,
        )
        for name, topic in state.topics.items()
        for number in range(topic.partitions)
    }


@examples(120, quick=15)
@given(st.data())
def test_any_history_is_read_alike_with_snapshots_and_without(data):
    """Three readers: one who keeps everything, one who drops what is sealed, one who begins from a snapshot."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealing, "PAGE_ROWS", data.draw(st.integers(1, 3)))
        patch.setattr(sealing, "FAN_OUT", 2)
        topics = (a.CreateTopic("t", "t-id", 3), a.CreateTopic("u", "u-id", 2))
        begin = (a.CreateLog("log", data.draw(st.integers(1, 3))), *topics)
        whole = dropping = young = plain = EMPTY
        store = {}
        for seq in range(data.draw(st.integers(4, 14))):
            wanted = a.Request(bytes(16), 0, begin) if seq == 0 else data.draw(requests(whole))
            entry = a.Entry(seq, (wanted, wanted))
            whole, _ = apply_checked(whole, entry)
            dropping, _ = apply_entry(dropping, entry)
            for partition in dropping.partitions.values():
                stored(partition.index.pages, store)
            check_state(dropping)
            young, _ = apply_entry(young, entry)
            if data.draw(st.booleans()):
                for partition in young.partitions.values():
                    stored(partition.index.pages, store)
                young = decode_snapshot(encode_snapshot(young), seq, "a snapshot")
            assert whole == dropping == young
            assert encode_snapshot(whole) == encode_snapshot(dropping) == encode_snapshot(young)
            with pytest.MonkeyPatch.context() as unsealed:
                unsealed.setattr(sealing, "PAGE_ROWS", 10**9)
                plain, _ = apply_entry(plain, entry)
            for isolation in Isolation:
                expected = seen(plain, lambda _: (), isolation)
                for state in (whole, dropping, young):
                    assert seen(state, loader(store), isolation) == expected


def fill(log, count, stamp=NO_PRODUCER, **kwargs):
    for _ in range(count):
        log.append(stamp, (0, 2), **kwargs)


@pytest.fixture
def tiny(monkeypatch, empty):
    """A log that seals behind every second entry: pages of three rows, two of them in one of the next level."""
    monkeypatch.setattr(sealing, "PAGE_ROWS", 3)
    monkeypatch.setattr(sealing, "FAN_OUT", 2)
    empty.do(a.CreateLog("log", 2))
    return empty.topic()


def test_only_full_pages_are_sealed_and_only_at_boundaries(tiny):
    fill(tiny, 2)
    assert not tiny.partition().index.pages
    fill(tiny, 1)
    assert (tiny.state.seq, len(tiny.partition().index.tail)) == (4, 0)
    (page,) = tiny.partition().index.pages
    assert (page.level, page.base_offset, page.next_offset, page.rows, page.bytes) == (0, 0, 6, 3, 300)
    fill(tiny, 3)
    assert len(tiny.partition().index.tail) == 3, "entry 7 is no boundary"


def test_pages_are_joined_and_few_stay(tiny):
    fill(tiny, 3 * 40)
    index = tiny.partition().index
    levels = [page.level for page in index.pages]
    assert levels == sorted(levels, reverse=True)
    assert max(map(levels.count, levels)) < 2 * sealing.FAN_OUT, "on no level are more"
    assert [row.base_offset for row in rows_of(index)] == [*range(0, 240, 2)]
    assert sum(page.rows for page in index.pages) + len(index.tail) == 120


def test_rows_of_an_open_transaction_are_not_sealed(tiny):
    stamp = tiny.next(tiny.init())
    fill(tiny, 3)
    fill(tiny, 1, stamp)
    fill(tiny, 6)
    index = tiny.partition().index
    assert index.pages[-1].next_offset == 6 == tiny.partition().last_stable_offset
    tiny.end(stamp, commit=False)
    fill(tiny, 2)
    assert tiny.partition().index.pages[-1].next_offset > 20
    assert [row.kind for row in rows_of(tiny.partition().index)][3] is Kind.ABORTED
    assert not tiny.partition().aborted, "what is written into the rows needs not be remembered"


def test_an_abort_is_remembered_until_its_marker_is_sealed(tiny):
    stamp = tiny.next(tiny.init())
    fill(tiny, 3, stamp)
    tiny.end(stamp, commit=False)
    at = tiny.partition()
    assert [row.kind for row in rows_of(at.index)] == [Kind.ABORTED] * 3 + [Kind.ABORT]
    assert dict(at.aborted) == {(0, 0): True}
    fill(tiny, 4)
    assert not tiny.partition().aborted


def test_an_abort_whose_rows_are_not_sealed_is_in_a_snapshot(tiny):
    stamp = tiny.next(tiny.init())
    fill(tiny, 1, stamp)
    tiny.end(stamp, commit=False)
    assert dict(tiny.partition().aborted) == {(0, 0): True}
    assert decode_snapshot(encode_snapshot(tiny.state), tiny.state.seq, "x") == tiny.state


def test_the_log_start_drops_pages(tiny):
    fill(tiny, 12)
    tiny.do(a.AdvanceLogStart((tiny.at(15),)))
    index = tiny.partition().index
    assert index.start == 12
    assert next(index.scan(15)).base_offset == 14
    tiny.do(a.AdvanceLogStart((tiny.at(24),)))
    assert tiny.partition().index.start is None


def test_what_was_dropped_has_to_be_loaded(tiny):
    fill(tiny, 4)
    index = tiny.partition().index
    (page,) = index.pages
    data = encode_page(page.content)
    page.forget()
    with pytest.raises(IllegalStateError, match="not in memory"):
        next(index.scan(0))
    assert [*index.scan(6)] == [*index.tail], "what is not needed is not loaded"
    assert len([*index.scan(0, lambda one: decode_page(data, one, "x"))]) == 4


def test_time_passes_over_pages(tiny):
    for time in (5, 9, 7, 3, 2, 4, 6):
        batch = BatchRef(0, 1, 0, 1, 1, time, time)
        files = (StagedFile("t", FileRef("0-x", 9, 0), (batch,)),)
        tiny.do(a.AppendBatches(NO_PRODUCER, (("t", "t-id"),), files))
    index = tiny.partition().index
    loaded = []

    def load(page):
        loaded.append(page.base_offset)
        return page.content

    assert [row.max_timestamp_ms for row in index.scan(0, load, newer_than_ms=6)] == [9, 7, 6]
    assert loaded == [0]
    for time, found in [(9, [9]), (7, [9, 7])]:
        assert [row.max_timestamp_ms for row in index.scan(0, load, newer_than_ms=time)] == found


def row(base, count=1, kind=Kind.DATA, **batch):
    made = BatchRef(0, batch.pop("records", count), 0, 10, 7, 1, 2)
    return IndexRow(base, count, kind, NO_PRODUCER, 5, FileRef("data/t/0-r", 90, 0, (), True), made)


ROWS = (
    row(0, 4, records=2),
    IndexRow(4, 1, Kind.COMMIT, ProducerStamp(3, 2**40, 5), 6),
    row(5, kind=Kind.ABORTED),
    IndexRow(6, 7, Kind.HOLE, NO_PRODUCER, 6),
)


def test_how_much_is_in_a_page_is_a_part_of_the_format():
    assert (sealing.PAGE_ROWS, sealing.FAN_OUT) == (512, 64), "other numbers give other states"


def test_pages_make_the_round_trip():
    page = seal_rows(("t-id", 0), ROWS)
    data = encode_page(ROWS)
    assert decode_page(data, page, "x") == ROWS
    assert encode_page(ROWS) == data
    assert (page.base_offset, page.next_offset, page.max_timestamp_ms, page.bytes) == (0, 13, 6, 20)


def test_a_damaged_or_foreign_page_is_named():
    page = seal_rows(("t-id", 0), ROWS)
    data = encode_page(ROWS)
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 1
        with pytest.raises((CorruptRecordError, UnsupportedVersionError), match="page 7"):
            decode_page(broken, page, "page 7")
    with pytest.raises(CorruptRecordError, match="page 7 holds another page"):
        decode_page(encode_page(ROWS[:2]), page, "page 7")


def test_a_damaged_or_foreign_snapshot_is_named(tiny):
    fill(tiny, 4)
    data = encode_snapshot(tiny.state)
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 1
        with pytest.raises((CorruptRecordError, UnsupportedVersionError), match="snapshot 5"):
            decode_snapshot(broken, tiny.state.seq, "snapshot 5")
    with pytest.raises(CorruptRecordError, match="snapshot 5 is the state after entry 5, not entry 6"):
        decode_snapshot(data, 6, "snapshot 5")


@pytest.mark.parametrize("create", [a.CreateLog("x", 0), a.CreateLog("x", 1, -1)])
def test_a_log_needs_an_interval(empty, create):
    with pytest.raises(InvalidRequestError, match="a snapshot every"):
        empty.do(create)


# -- Segments that are rewritten ---------------------------------------------------------------------


def replacing(log, first, last, *rows):
    pages = log.partition().index.pages
    base, end = pages[first].base_offset, pages[last].next_offset
    return a.ReplaceSegments("t", "t-id", 0, base, end, checksum(pages[first : last + 1]), rows)


@pytest.fixture
def sealed(tiny):
    """Pages of offsets 0-5, 6-11, 12-17 and a tail."""
    fill(tiny, 10)
    return tiny


def test_one_row_in_place_of_many(sealed):
    sealed.do(replacing(sealed, 0, 1, row(0, 12)))
    assert [(r.base_offset, r.count) for r in rows_of(sealed.partition().index)][:2] == [(0, 12), (12, 2)]
    check_state(sealed.state)
    fetches = plan(sealed.state, TopicPartition("t", 0), 3, 14, Isolation.READ_COMMITTED)
    assert [(one.offset, one.count, one.skip) for one in fetches] == [(3, 9, 3), (12, 2, 0)]


def test_one_winner(sealed):
    first, second = replacing(sealed, 0, 1, row(0, 12)), replacing(sealed, 1, 2, row(6, 12))
    sealed.do(first)
    for late in (first, second):
        with pytest.raises(SegmentsReplacedError, match="another process was faster"):
            sealed.do(late)


def test_one_winner_of_two_who_write_one_page_anew(sealed):
    first, second = replacing(sealed, 0, 0, row(0, 6)), replacing(sealed, 0, 0, row(0, 6, records=5))
    sealed.do(first)
    with pytest.raises(SegmentsReplacedError):
        sealed.do(second)


def test_what_was_deleted_meanwhile_is_not_replaced(sealed):
    late = replacing(sealed, 0, 1, row(0, 12))
    sealed.do(a.AdvanceLogStart((sealed.at(7),)))
    with pytest.raises(SegmentsReplacedError):
        sealed.do(late)


_PARQUET = FileRef("tables/t/_segments/0/0-r", 90, 0, footer=80, footer_crc=7)


def test_a_parquet_file_is_taken(sealed):
    sealed.do(replacing(sealed, 0, 1, row(0, 12)._replace(file=_PARQUET)))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((row(0, 11),), "end at offset 11"),
        ((row(0, 13),), "end at offset 13"),
        ((), "end at offset 0"),
        ((row(0, 6), row(7, 5)), "a hole at offset 6"),
        ((row(0, 12, records=13),), "does not fit"),
        ((row(0, 12, records=0),), "does not fit"),
        ((row(0, 12)._replace(kind=Kind.COMMIT),), "is COMMIT"),
        ((row(0, 12)._replace(file=None),), "has no file"),
        ((row(0, 12)._replace(batch=BatchRef(0, 12, 85, 10, 7, 1, 2)),), "does not lie in"),
        ((row(0, 12, records=5)._replace(file=FileRef("data/t/0-r", 90, 0)),), "does not fit"),
        ((row(0, 12)._replace(file=_PARQUET._replace(footer=81)),), "does not lie in"),
        ((row(0, 12)._replace(file=_PARQUET._replace(omitted=("key",))),), "a Parquet file cannot have it"),
        ((row(0, 12)._replace(file=_PARQUET, kind=Kind.ABORTED),), "a Parquet file cannot have it"),
        ((row(0, 12)._replace(file=_PARQUET._replace(footer=0)),), "the checksum of a footer, but no footer"),
    ],
)
def test_new_rows_that_do_not_fit(sealed, rows, message):
    with pytest.raises(EosLogError, match=message):
        sealed.do(replacing(sealed, 0, 1, *rows))


def test_a_new_file_below_the_staging_floor_is_refused(sealed):
    sealed.do(a.RaiseStagingFloor(1))
    new = replacing(sealed, 0, 1, row(0, 12))
    with pytest.raises(StagedFileExpiredError):
        sealed.do(new._replace(staged=("data/t/0-r",)))
    sealed.do(new)  # It was in the log before.


def reaching(log, base, end, *rows):
    """In place of what begins at ``base``, with as much of the tail as lies before ``end``."""
    partition = sealing.sealed_to(("t-id", 0), log.partition(), end)
    pages = [one for one in partition.index.pages if one.base_offset >= base]
    return a.ReplaceSegments("t", "t-id", 0, base, end, checksum(pages), rows)


def test_the_tail_is_sealed_as_far_as_it_is_replaced(sealed):
    while len(sealed.partition().index.tail) < 2:
        fill(sealed, 1)
    before = rows_of(sealed.partition().index)
    end = sealed.partition().index.tail[0].next_offset
    sealed.do(reaching(sealed, 6, end, row(6, end - 6)))
    index = sealed.partition().index
    pages = [(one.base_offset, one.next_offset, one.rows) for one in index.pages]
    assert pages == [(0, 6, 3), (6, end, 1)]
    assert index.tail[0].base_offset == end
    left = [one for one in before if one.base_offset < 6 or one.base_offset >= end]
    assert [one for one in rows_of(index) if one.base_offset != 6] == left
    check_state(sealed.state)


def test_a_tail_that_is_the_first_of_a_partition(tiny):
    fill(tiny, 2)
    tiny.do(reaching(tiny, 0, 4, row(0, 4)))
    assert [one.count for one in rows_of(tiny.partition().index)] == [4]
    assert not tiny.partition().index.tail


@pytest.mark.parametrize("end", [19, 22, 24])
def test_what_is_open_or_half_a_batch_is_not_replaced(sealed, end):
    """A transaction may yet abort what lies after the last stable offset, which is 20 here."""
    stamp = sealed.next(sealed.init())
    fill(sealed, 2, stamp)
    assert (sealed.partition().last_stable_offset, sealed.partition().end) == (20, 24)
    before = sealed.state
    with pytest.raises(SegmentsReplacedError):
        sealed.do(reaching(sealed, 12, end, row(12, end - 12)))
    assert sealed.state == before
    sealed.do(reaching(sealed, 12, 20, row(12, 8)))


def test_aborted_rows_of_the_tail_are_marked_and_remembered_until_their_end_is_sealed(tiny):
    stamp = tiny.next(tiny.init())
    fill(tiny, 1, stamp)
    tiny.end(stamp, commit=False)
    aborted = [*tiny.partition().aborted]
    cut = sealing.sealed_to(("t-id", 0), tiny.partition(), 2)
    assert [one.kind for one in rows_of(cut.index)] == [Kind.ABORTED, Kind.ABORT]
    assert [*cut.aborted] == aborted
    assert not sealing.sealed_to(("t-id", 0), tiny.partition(), 3).aborted


def test_nothing_may_be_left(sealed):
    sealed.do(replacing(sealed, 0, 1, IndexRow(0, 12, Kind.HOLE, NO_PRODUCER, 1)))
    fetches = plan(sealed.state, TopicPartition("t", 0), 0, 14, Isolation.READ_UNCOMMITTED)
    assert [one.offset for one in fetches] == [12]


def test_states_written_down_are_those_of_the_entries(sealed):
    sealed.do(replacing(sealed, 0, 1, row(0, 12)))
    again = decode_snapshot(encode_snapshot(sealed.state), sealed.state.seq, "x")
    assert again == sealed.state
    assert encode_entry(a.Entry(0, ()))  # The newest schema can be written.
    assert replace(again, seq=0) != sealed.state
    assert isinstance(again.partitions["t-id", 0].index, Index)


def test_a_snapshot_of_many_empty_partitions_is_small(empty):
    empty.do(a.CreateLog("log"))
    empty.topic(partitions=20_000)
    data = encode_snapshot(empty.state)
    assert len(data) < 20_000 * 2 + 1000
    again = decode_snapshot(data, empty.state.seq, "x")
    assert again == empty.state
    assert encode_snapshot(again) == data
    empty.append(NO_PRODUCER, (19_999, 2))
    assert decode_snapshot(encode_snapshot(empty.state), empty.state.seq, "x") == empty.state


def test_a_snapshot_of_many_busy_partitions_is_small(empty):
    """Rows are written as they are packed, and what partitions share is written once."""
    empty.do(a.CreateLog("log", 10**6))
    empty.topic(partitions=100)
    for _ in range(50):
        empty.append(NO_PRODUCER, *((number, 3) for number in range(100)))
    data = encode_snapshot(empty.state)
    assert len(data) < 100 * 50 * 12
    again = decode_snapshot(data, empty.state.seq, "x")
    assert encode_snapshot(again) == data
    young = type(empty)()
    young.state = again
    for log in (empty, young):
        log.append(NO_PRODUCER, (7, 3), (8, 3))
    assert young.state.partitions == empty.state.partitions
    assert len(again.partitions["t-id", 7].index.tail) == 50, "what was read stays as it was"


def test_a_snapshot_whose_rows_belong_to_no_partition_is_named(tiny):
    fill(tiny, 4)
    partitions = snapshot_partitions.partition_columns(tiny.state.partitions)
    assert snapshot_partitions.read_partitions(partitions) == tiny.state.partitions
    with pytest.raises(CorruptRecordError, match="belong to no partition"):
        snapshot_partitions.read_partitions(partitions._replace(body=partitions.body + b"x"))
