"""The index of a partition: shared, append-only, and immutable."""

from __future__ import annotations

import sys
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eos.errors import CorruptRecordError
from spark_eos.protocol import index_rows
from spark_eos.protocol.actions import Request
from spark_eos.protocol.encoding.index_pages import seal_pages, seal_rows
from spark_eos.protocol.encoding.packing import BLOCK_ROWS, blocks
from spark_eos.protocol.index import Index, IndexRow, Kind, Rows
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.apply import apply
from spark_eos.protocol.types import NO_PRODUCER, BatchRef, FileRef, ProducerStamp
from tests.tiers import examples


def row(base, count=5):
    return IndexRow(base, count, Kind.DATA, NO_PRODUCER, 0)


@pytest.fixture
def index():
    return Rows([row(10), row(15), row(20, 1)])


@pytest.mark.parametrize(
    ("offset", "at"), [(0, 0), (10, 0), (14, 0), (15, 1), (19, 1), (20, 2), (21, 3), (99, 3)]
)
def test_find(index, offset, at):
    assert index.find(offset) == at
    assert index.since(offset)[:] == index[at:]


def test_find_in_nothing():
    assert Rows().find(3) == 0
    assert len(Rows().since(3)) == 0


def test_holes_belong_to_what_follows():
    assert Rows([row(0), row(10)]).find(7) == 1


def test_nobody_sees_what_another_appends(index):
    ours = index.append(row(21))
    theirs = index.append(row(21, 7))
    assert [len(index), len(ours), len(theirs)] == [3, 4, 4]
    assert (ours[3].count, theirs[3].count) == (5, 7)
    assert index.find(22) == 3
    assert len(index.since(0)) == 3
    further = [ours.append(row(26)), theirs.append(row(28)), index.append(row(21, 9))]
    assert [[r.count for r in each][3:] for each in further] == [[5, 5], [7, 5], [9]]
    assert list(index) == [row(10), row(15), row(20, 1)]


def test_as_a_sequence(index):
    longer = index.append(row(21))
    assert (index[-1], index[0], index[1:]) == (row(20, 1), row(10), [row(15), row(20, 1)])
    for at in (3, -4):
        with pytest.raises(IndexError):
            index[at]
    assert longer != index == Rows(list(index))
    assert hash(index) == hash(Rows(list(index)))
    assert index != list(index)
    assert repr(Rows()) == "Rows([])"


# -- Packed rows ----------------------------------------------------------------------------------------

LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)
STAMPS = st.builds(ProducerStamp, st.integers(-1, 3), st.integers(0, 2), st.integers(-1, 2**40))
FILES = st.builds(FileRef, st.sampled_from(["data/t/0-a", "data/t/1-b"]), LONGS, st.integers(0, 2))
BATCHES = st.builds(BatchRef, *[LONGS] * 8)


@st.composite
def some_rows(draw, least=0):
    """Rows with holes between them and with any numbers in them."""
    steps = draw(
        st.lists(
            st.tuples(st.integers(1, 2**61) | st.just(1), st.just(0) | st.integers(0, 9)),
            min_size=least,
            max_size=40,
        )
    )
    bases = accumulate((count + hole for count, hole in steps), initial=draw(st.integers(0, 2**62)))
    rows = []
    for (count, _), base in zip(steps, bases, strict=False):
        head = (base, count, draw(st.sampled_from(Kind)), draw(STAMPS), draw(LONGS))
        rows.append(IndexRow(*head, *((draw(FILES), draw(BATCHES)) if draw(st.booleans()) else ())))
    return rows


@examples(80)
@given(some_rows(least=1), st.data())
def test_packed_rows_are_those_that_were_appended(rows, data):
    index = Rows()
    for one in rows:
        index = index.append(one)
    assert [*index] == rows
    assert index == Rows(rows)
    assert index.pack() == Rows(rows).pack(), "the same bytes however they came there"
    again = Rows.packed(*index.pack())
    offsets = [one.base_offset for one in rows]
    for offset in data.draw(st.lists(st.sampled_from(offsets), min_size=1, max_size=3)):
        expected = next(n for n, one in enumerate(rows) if one.next_offset > offset)
        for each in (index, again):
            assert each.find(offset) == expected
            assert each.since(offset)[:] == rows[expected:] == [*each.without_first(expected)]
    at = data.draw(st.integers(0, len(rows) - 1))
    assert again[at] == rows[at] == index[at - len(rows)]
    assert again[at:][::2] == rows[at::2] == index[at::2]
    assert index[::-1] == rows[::-1]
    assert index.start == again.start == rows[0].base_offset
    assert type(again[at].kind) is Kind


@examples(40)
@given(some_rows(least=4), st.data())
def test_rows_read_from_a_snapshot_go_on_as_those_that_wrote_it(rows, data):
    """Where the blocks are cut is a matter of what was done, not of who has read what when."""
    ours = theirs = Rows()
    for one in rows:
        ours, theirs = ours.append(one), theirs.append(one)
        if data.draw(st.booleans()):
            theirs = Rows.packed(*theirs.pack())
        if data.draw(st.integers(0, 9)) == 0:
            count = data.draw(st.integers(0, len(ours)))
            ours, theirs = ours.without_first(count), theirs.without_first(count)
        assert ours.pack() == theirs.pack()
        assert ours == theirs


@pytest.mark.parametrize("have", [0, 1, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1])
def test_two_who_append_to_the_same_rows_see_their_own(have):
    shared = Rows([row(5 * at) for at in range(have)])
    ours, theirs = (Rows.packed(*shared.pack()) if have else shared).append(row(5 * have)), shared
    for more in range(2 * BLOCK_ROWS):
        theirs = theirs.append(row(5 * have + more, 1))
    assert [one.count for one in ours] == [5] * (have + 1)
    assert [one.count for one in theirs] == [5] * have + [1] * 2 * BLOCK_ROWS
    assert len(shared) == have == len([*shared])


def test_packed_rows_cost_a_few_bytes():
    """As a micro-batch writes them: their files and stamps are shared by all partitions."""
    rows, at = [], 0
    for number in range(1024):
        file = FileRef(f"data/t/{number}-a", 50_000, 0)
        now = 1_700_000_000_000 + 1000 * number
        batch = BatchRef(7, 10, 20_000 + number % 400, 400 + number % 80, number * 2**20 + 77, now - 50, now)
        rows.append(IndexRow(at, 10, Kind.DATA, NO_PRODUCER, now, file, batch))
        at += 10
    data, heads, _ = Rows(rows).pack()
    assert (len(data) + sys.getsizeof(heads)) / len(rows) < 20
    assert Rows(rows)._heads == Rows(rows)._heads, "who has the same rows shares what they share"


def test_a_plan_does_not_walk_through_all_blocks(monkeypatch):
    """Neither the second one of a state, nor those of later states, until another block is full."""
    walked = []

    def counted(data):
        for block in blocks(data):
            walked.append(block)
            yield block

    blocks = index_rows.blocks
    rows = Rows([row(5 * at) for at in range(40 * BLOCK_ROWS)])
    monkeypatch.setattr(index_rows, "blocks", counted)
    for at in range(40 * BLOCK_ROWS, 41 * BLOCK_ROWS - 1):
        wanted = 5 * (at - BLOCK_ROWS)
        assert next(Index((), rows).scan(wanted)).base_offset == wanted
        assert rows[at - BLOCK_ROWS].base_offset == wanted
        rows = rows.append(row(5 * at))
    assert len(walked) == 40
    rows = rows.append(row(5 * 41 * BLOCK_ROWS))
    assert [one.base_offset for one in rows.rows(40 * BLOCK_ROWS - 1)][1] == 5 * 40 * BLOCK_ROWS
    assert len(walked) == 81


@pytest.mark.parametrize("changed", [0, 1, BLOCK_ROWS, 3 * BLOCK_ROWS - 1])
@pytest.mark.parametrize("count", [3 * BLOCK_ROWS, 3 * BLOCK_ROWS + 5])
@pytest.mark.parametrize("change", [{"max_timestamp_ms": 77}, {"producer": ProducerStamp(7, 0, 0)}])
def test_what_begins_with_older_rows(count, changed, change):
    """Whichever row says something else, packed or open, in its bytes or in the heads of its block."""
    older = Rows()
    for number in range(count):
        older = older.append(row(5 * number))
    longer = older
    for number in range(count, count + BLOCK_ROWS):
        assert longer.begins_with(older)
        longer = longer.append(row(5 * number))
    assert longer.begins_with(older)
    assert not older.begins_with(longer)
    others = [*longer]
    others[changed] = others[changed]._replace(**change)
    assert not Rows(others).begins_with(older)


def test_damaged_blocks_are_named():
    data, heads, opened = Rows([row(5 * at) for at in range(20)]).pack()
    with pytest.raises(CorruptRecordError, match="other heads"):
        Rows.packed(data, heads[1:], opened)
    for cut in range(1, 8):
        with pytest.raises(CorruptRecordError):
            [*Rows.packed(data[:-cut], heads, opened)]


def test_damaged_rows_are_no_refusal(log):
    """Others have the right rows: a reader that took the append for refused would go on without its records."""
    log.append(NO_PRODUCER, (0, 3), (1, 2))
    key = ("t-id", 0)
    of_topic = log.state.partitions[key]
    data, heads, opened = of_topic.index.tail.pack()
    block = next(blocks(data))
    damaged = Rows.packed(
        data[: block.position + 8] + b"\xff" * (len(data) - block.position - 8), heads, opened
    )
    partitions = log.state.partitions.set(key, replace(of_topic, index=Index((), damaged)))
    state = replace(log.state, partitions=partitions)
    with pytest.raises(CorruptRecordError, match="packed rows of an index are damaged"):
        apply(state, Request(bytes(16), 1000, (log.appending(NO_PRODUCER, (0, 1), base=1),), "test"))


def test_what_empty_partitions_share_stays_empty():
    empty = Index()
    ours, theirs = empty.append(row(0)), empty.append(row(0, 7))
    assert [list(one.scan(0)) for one in (empty, ours, theirs)] == [[], [row(0)], [row(0, 7)]]
    assert empty.tail._open == []


def test_back_begins_with_the_row_that_has_the_offset_inside(index):
    assert [*Index((), index).back(17)] == [row(15), row(10)]


@examples(80)
@given(some_rows(), st.data())
def test_back_is_scan_the_other_way(rows, data):
    """From pages, of either level, and from the tail; no page is loaded before its turn."""
    sealed, rest = rows[: (cut := data.draw(st.integers(0, len(rows))))], rows[cut:]
    low = [seal_rows(("t", 0), tuple(sealed[at : at + 3])) for at in range(0, len(sealed), 3)]
    pages = (seal_pages(tuple(low[:4])), *low[4:]) if len(low) > 4 else (*low,)
    loaded = []
    offset = data.draw(st.sampled_from([0, *(row.base_offset + add for row in rows for add in (0, 1))]))
    found = Index(pages, Rows(rest)).back(offset, lambda page: loaded.append(page) or page.content)
    wanted = [row for row in rows if row.base_offset < offset][::-1]
    assert [next(found) for _ in wanted[:1]] == wanted[:1]
    assert len(loaded) <= 2
    assert [*found] == wanted[1:]
