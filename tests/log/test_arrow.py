"""Picked rows are those of Arrow's own `take`, whatever the columns look like."""

from __future__ import annotations

import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eos.errors import InvalidRequestError
from spark_eos.log.data import arrow
from spark_eos.log.data.arrow import bytes_of_rows, constant_array, take_rows
from tests.tiers import examples

TYPES = {
    pa.binary(): st.binary(max_size=3),
    pa.string(): st.text(max_size=2),
    pa.large_binary(): st.binary(max_size=3),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.int32(): st.integers(-9, 9),
    pa.bool_(): st.booleans(),
    pa.list_(pa.string()): st.lists(st.text(max_size=2), max_size=2),
    pa.struct([("a", pa.binary())]): st.fixed_dictionaries({"a": st.binary(min_size=2, max_size=2)}),
    pa.null(): st.none(),
}


@st.composite
def columns(draw, rows):
    type_ = draw(st.sampled_from(list(TYPES)))
    value = TYPES[type_]
    if pa.types.is_binary(type_) and draw(st.booleans()):
        width = draw(st.integers(0, 20))
        value = st.binary(min_size=width, max_size=width)
    if draw(st.booleans()):
        value = st.none() | value
    return pa.array(draw(st.lists(value, min_size=rows, max_size=rows)), type_)


@st.composite
def batches(draw):
    """Slices: what is in front of their rows and after is in the buffers, too."""
    rows = draw(st.integers(0, 12))
    arrays = draw(st.lists(columns(rows), min_size=1, max_size=4))
    batch = pa.RecordBatch.from_arrays(arrays, names=[str(number) for number in range(len(arrays))])
    first = draw(st.integers(0, rows))
    return batch.slice(first, draw(st.integers(0, rows - first)))


@given(batches(), st.randoms(use_true_random=False))
@examples(300)
def test_they_are_those_of_take(batch, random):
    order = list(range(batch.num_rows))
    random.shuffle(order)
    found = take_rows(batch, np.array(order, np.int64))
    found.validate(full=True)
    assert found.equals(batch.take(pa.array(order, pa.int64())), check_metadata=True)


@pytest.mark.parametrize("type_", [pa.binary(), pa.string()])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 8, 16, 33, 100])
def test_values_of_one_length(monkeypatch, type_, width):
    """They take the shorter way, from the middle of their buffer as well, and whatever a file says of nulls."""
    monkeypatch.setattr(arrow, "_of_width", _noting(arrow._of_width, widths := []))
    texts = [f"{row:0{width}}"[-width:] for row in range(40)]
    column = pa.array(texts, type_)
    (_, ends, data) = column.buffers()
    nothing_null = pa.Array.from_buffers(type_, 40, [pa.py_buffer(b"\xff" * 5), ends, data])
    order = np.random.default_rng(width).permutation(30)
    for array in (column, nothing_null):
        batch = pa.RecordBatch.from_arrays([array], names=["a"]).slice(5, 30)
        found = take_rows(batch, order)
        found.validate(full=True)
        expected = [texts[5 + row] for row in order]
        assert found.column(0).cast(pa.string()).to_pylist() == expected
    assert widths == [width, width]


def _noting(real, widths):
    def of_width(column, width, rows):
        widths.append(width)
        return real(column, width, rows)

    return of_width


def test_lengths_that_only_seem_equal():
    # The first has as many bytes as all have on average.
    values = [b"ab", b"", b"abcd", b"xy"]
    batch = pa.RecordBatch.from_arrays([pa.array(values)], names=["a"])
    assert take_rows(batch, np.array([3, 2, 1, 0])).column(0).to_pylist() == values[::-1]


def test_rows_outside_a_slice_say_nothing_of_its_lengths():
    batch = pa.RecordBatch.from_arrays([pa.array([b"ab", b"cd", b"x", b"yyy", b"ef"])], names=["a"])
    assert take_rows(batch.slice(2, 2), np.array([1, 0])).column(0).to_pylist() == [b"yyy", b"x"]


def test_bytes_below_a_null_do_not_make_it_a_value():
    ends = pa.py_buffer(struct.pack("<4i", 0, 3, 6, 9))
    hidden = pa.Array.from_buffers(pa.binary(), 3, [pa.py_buffer(b"\x05"), ends, pa.py_buffer(b"abcxyzdef")])
    found = take_rows(pa.RecordBatch.from_arrays([hidden], names=["a"]), np.array([2, 1, 0]))
    assert found.column(0).to_pylist() == [b"def", None, b"abc"]


def counted(value, type_, *, inside=True):
    """`bytes_of_rows`, value by value."""
    types = pa.types
    if types.is_struct(type_):
        return sum(counted((value or {}).get(field.name), field.type) for field in type_)
    if types.is_string(type_) or types.is_binary(type_):
        return 4 * inside + len((value or "").encode() if isinstance(value or "", str) else value)
    if types.is_list(type_):
        return 4 * inside + sum(counted(one, type_.value_type) for one in value or ())
    if types.is_map(type_):
        pairs = ((counted(key, type_.key_type), counted(one, type_.item_type)) for key, one in value or ())
        return 4 * inside + sum(map(sum, pairs))
    return type_.bit_width // 8 or 1


ROWS = {
    pa.string(): ["", "ä", None, "abc"],
    pa.binary(): [b"abc", None, b""],
    pa.bool_(): [True, None, False],
    pa.int16(): [1, None, 3],
    pa.decimal128(9, 2): [None, Decimal("1.00")],
    pa.list_(pa.int8()): [[1, None], [], None, [1, 2, 3]],
    pa.list_(pa.string()): [["a", None, ""], None, [], ["bcd"]],
    pa.list_(pa.list_(pa.string())): [[["a"], None, []], None, [["b", "c"], ["d"]]],
    pa.struct([("a", pa.int32()), ("b", pa.int8())]): [{"a": 1, "b": None}, None],
    pa.struct([(f"f{at}", pa.int64()) for at in range(40)]): [{}, None],
    pa.struct([("a", pa.int32()), ("b", pa.string())]): [{"a": 1, "b": "x"}, None, {"a": None, "b": None}],
    pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])): [
        [{"key": "k", "value": b"v"}, {"key": "", "value": None}],
        None,
        [{"key": "long", "value": b"value"}],
    ],
    pa.map_(pa.string(), pa.float64()): [[("a", 1.0), ("bc", None)], [], None, [("d", 2.0)]],
    pa.map_(pa.int8(), pa.list_(pa.binary())): [[(1, [b"x", None]), (2, None)], None, [(3, [b"yz"])]],
    pa.list_(pa.struct([])): [[{}, {}], None],
}


@pytest.mark.parametrize("type_", ROWS)
def test_all_that_is_in_a_row_counts(type_):
    rows = ROWS[type_]
    column = pa.array(rows, type_)
    expected = [0 if row is None else counted(row, type_, inside=False) for row in rows]
    for first in range(len(rows) + 1):
        for end in range(first, len(rows) + 1):
            part = column.slice(first, end - first)
            found = np.zeros(end - first, np.int64) + bytes_of_rows(part)
            assert found.tolist() == expected[first:end]
            assert sum(found) <= 8 * part.nbytes


def test_nothing_beyond_the_rows_is_kept():
    batch = pa.RecordBatch.from_arrays([pa.array([b"%04d" % row for row in range(1000)])], names=["a"])
    found = take_rows(batch.slice(500, 4), np.array([3, 1, 2, 0])).column(0)
    assert pc.sum(pc.binary_length(found)).as_py() == found.buffers()[2].size == 16


def test_a_row_that_is_not_there():
    for values in ([b"ab", b"cd"], [b"ab", b"c"]):
        batch = pa.RecordBatch.from_arrays([pa.array(values)], names=["a"])
        with pytest.raises(IndexError):
            take_rows(batch, np.array([0, 2]))


def test_more_text_than_an_array_can_have_is_refused():
    """Its offsets would go round, and rows would be of memory that is another's."""
    assert constant_array("☃", pa.string(), 3).to_pylist() == ["☃"] * 3
    with pytest.raises(InvalidRequestError, match=r"8,700,000 rows with the text .* 2 GiB"):
        constant_array("t" * 249, pa.string(), 8_700_000)
