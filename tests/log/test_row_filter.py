"""Expressions over the rows of a topic: nothing that they are true of is left out, and what is certain is not read."""

from __future__ import annotations

import pickle
from datetime import datetime, timezone

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eos.log.data.planner import Fetch
from spark_eos.log.selection.row_filter import RowFilter
from spark_eos.protocol.types import BatchRef, FileRef, TopicPartition

AT = TopicPartition("t", 1)
BASE_MS = 1_700_000_000_000
FIELDS = [
    ("key", pa.binary()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", "UTC")),
]
SCHEMA = pa.schema(FIELDS)
FILE = FileRef("data/t-1/x.arrow", 1000, 0, (), False)
OFFSET, PARTITION, KEY = pc.field("offset"), pc.field("partition"), pc.field("key")


def time_of(ms):
    return datetime.fromtimestamp((BASE_MS + ms) / 1000, timezone.utc)


def fetch(first, count, times=(0, 0)):
    batch = BatchRef(1, count, 0, 100, 0, BASE_MS + times[0], BASE_MS + times[1])
    return Fetch("t", 1, first, count, 0, FILE, batch)


def rows(fetches, every_ms):
    """The rows of the fetches: at offset ``n`` the key ``n % 5``, or null, and a time of its batch."""
    offsets = [offset for one in fetches for offset in range(one.offset, one.next_offset)]
    return pa.table(
        {
            "key": pa.array([None if n % 7 == 0 else b"%d" % (n % 5) for n in offsets], pa.binary()),
            "topic": pa.array(["t"] * len(offsets)),
            "partition": pa.array([1] * len(offsets), pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array([time_of(n * every_ms) for n in offsets], pa.timestamp("us", "UTC")),
        },
        schema=SCHEMA,
    )


_numbers = st.integers(-5, 130)
_leaves = st.one_of(
    _numbers.map(lambda n: n <= OFFSET),
    _numbers.map(lambda n: n > OFFSET),
    _numbers.map(lambda n: n == OFFSET),
    _numbers.map(lambda n: n != OFFSET),
    st.lists(_numbers, min_size=1, max_size=4).map(OFFSET.isin),
    _numbers.map(lambda n: n < OFFSET + 3),
    st.integers(0, 2).map(lambda n: n == PARTITION),
    st.lists(st.integers(0, 2), max_size=2).map(lambda found: PARTITION.isin(pa.array(found, pa.int32()))),
    _numbers.map(lambda n: pc.field("timestamp") <= time_of(n * 10)),
    _numbers.map(lambda n: pc.field("timestamp") > time_of(n * 10)),
    st.integers(0, 5).map(lambda n: b"%d" % n == KEY),
    st.sampled_from([KEY.is_null(), OFFSET.is_null(), OFFSET.is_valid(), pc.field("topic") == "t"]),
    st.sampled_from([pc.starts_with(pc.field("topic"), "u"), pc.scalar(True), pc.scalar(False)]),
)
EXPRESSIONS = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: two[0] & two[1]),
        st.tuples(inner, inner).map(lambda two: two[0] | two[1]),
        inner.map(lambda one: ~one),
    ),
    max_leaves=6,
)


@given(EXPRESSIONS, st.lists(st.integers(1, 20), min_size=1, max_size=8), st.integers(0, 60))
def test_no_row_is_lost(expression, sizes, start):
    """What the plan keeps has every row that the expression is true of."""
    fetches, offset = [], start
    for size in sizes:
        fetches.append(fetch(offset, size, (offset * 10, (offset + size - 1) * 10)))
        offset += size
    found = RowFilter(expression, SCHEMA, is_typed=False)
    wanted = found.apply(rows(fetches, 10)).column("offset").to_pylist()
    first, end = found.narrowed(AT, start, offset)
    assert start <= first <= end <= offset
    inside = [one for one in fetches if one.next_offset > first and one.offset < end]
    kept = found.kept(inside)
    assert kept == [one for one in inside if one in kept], "in their order"
    assert {*wanted} <= {n for one in kept for n in range(one.offset, one.next_offset)}
    assert all(first <= n < end for n in wanted)
    assert found.apply(rows(kept, 10)).column("offset").to_pylist() == wanted, "no other one comes back"


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        (OFFSET >= 500, (500, 10**12)),
        ((OFFSET >= 500) & (OFFSET < 600), (500, 600)),
        ((OFFSET < 10) | (OFFSET == 70), (0, 71)),
        (~(OFFSET >= 500), (0, 500)),
        (OFFSET == -1, (0, 0)),
        (PARTITION == 2, (0, 0)),
        (pc.field("topic") == "other", (0, 0)),
        (KEY == b"k", (0, 10**12)),
        ((OFFSET >= 5) & (KEY == b"k"), (5, 10**12)),
    ],
)
def test_the_offsets_that_an_expression_is_about(expression, part):
    assert RowFilter(expression, SCHEMA, is_typed=False).narrowed(AT, 0, 10**12) == part


def test_batches_of_other_times_are_left_out():
    fetches = [fetch(n * 10, 10, (n * 100, n * 100 + 99)) for n in range(1000)]
    time = pc.field("timestamp")
    found = RowFilter((time >= time_of(1000)) & (time < time_of(1200)), SCHEMA, is_typed=False)
    assert found.kept(fetches) == fetches[10:12]
    for unit in ("ms", "us", "ns"):
        schema = SCHEMA.set(4, pa.field("timestamp", pa.timestamp(unit, "UTC")))
        limit = pc.scalar(pa.scalar(time_of(1000), pa.timestamp(unit, "UTC")))
        assert RowFilter(time < limit, schema, is_typed=False).kept(fetches) == fetches[:10]


@pytest.mark.parametrize(
    "wanted", [pc.field("timestamp") <= time_of(0), pc.field("timestamp") >= time_of(90)]
)
def test_a_batch_is_read_for_its_oldest_row_and_for_its_newest_one(wanted):
    fetches = [fetch(0, 10, (0, 90))]
    assert RowFilter(wanted, SCHEMA, is_typed=False).kept(fetches) == fetches


def test_a_plan_is_not_asked_about_batch_by_batch(monkeypatch):
    """Of 100,000 batches some dozens decide."""
    fetches = [fetch(n * 10, 10, (n * 100, n * 100 + 99)) for n in range(100_000)]
    found = RowFilter(pc.field("timestamp") >= time_of(1_000_000), SCHEMA, is_typed=False)
    asked = []
    may_match = RowFilter._may_match
    monkeypatch.setattr(RowFilter, "_may_match", lambda *args: asked.append(1) or may_match(*args))
    assert found.kept(fetches) == fetches[10_000:]
    assert len(asked) < 60


def test_columns_of_a_topic_with_a_schema():
    schema = pa.schema([("offset", pa.int64()), ("_offset", pa.int64()), ("_partition", pa.int32())])
    found = RowFilter((pc.field("offset") == 3) & (pc.field("_offset") > 7), schema, is_typed=True)
    assert {*found.columns} == {"offset", "_offset"}
    assert found.narrowed(AT, 0, 100) == (8, 100), "its own column of that name says nothing"


def test_it_goes_to_tasks():
    found = pickle.loads(pickle.dumps(RowFilter(KEY == b"1", SCHEMA, is_typed=False)))
    assert found.columns == ("key",)
    assert found.apply(rows([fetch(0, 12)], 10)).column("offset").to_pylist() == [1, 6, 11]


@pytest.mark.parametrize(
    "expression",
    [pc.field("nope") == 1, OFFSET == "x", OFFSET + 1, OFFSET, 7, "offset > 3", pc.field(3) == 1],
)
def test_what_does_not_fit_is_refused(expression):
    with pytest.raises((pa.ArrowException, TypeError, ValueError)):
        RowFilter(expression, SCHEMA, is_typed=False)
