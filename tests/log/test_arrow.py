"""Picked rows are those of Arrow's own `take`, whatever the columns look like."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eos.log.data import arrow
from spark_eos.log.data.arrow import take_rows
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


def test_nothing_beyond_the_rows_is_kept():
    batch = pa.RecordBatch.from_arrays([pa.array([b"%04d" % row for row in range(1000)])], names=["a"])
    found = take_rows(batch.slice(500, 4), np.array([3, 1, 2, 0])).column(0)
    assert pc.sum(pc.binary_length(found)).as_py() == found.buffers()[2].size == 16


def test_a_row_that_is_not_there():
    for values in ([b"ab", b"cd"], [b"ab", b"c"]):
        batch = pa.RecordBatch.from_arrays([pa.array(values)], names=["a"])
        with pytest.raises(IndexError):
            take_rows(batch, np.array([0, 2]))
