"""Offsets of many partitions as columns: all of them, in their order, in few bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eos.protocol.actions import (
    CommitMicroBatch,
    CommitOffsets,
    Entry,
    PartitionOffset,
    Request,
    SourceProgress,
)
from spark_eos.protocol.encoding.entries import decode_entry, encode_entry
from spark_eos.protocol.encoding.offset_columns import (
    offset_columns,
    offsets_text,
    read_offsets,
    read_runs,
    read_source,
    runs_of,
    source_columns,
)
from spark_eos.protocol.types import MAX_PARTITIONS

NAMES = st.sampled_from(["a", "b", "é"])
NUMBERS = st.integers(-1, 5)
OFFSETS = st.lists(
    st.builds(PartitionOffset, NAMES, NAMES, NUMBERS, NUMBERS, st.sampled_from(["", "m"]))
).map(tuple)


@given(OFFSETS)
def test_any_offsets_in_any_order(offsets):
    assert read_offsets(offset_columns(offsets)) == offsets


@given(st.lists(st.tuples(NAMES, NUMBERS)))
def test_any_partitions_in_any_order(keys):
    assert read_runs(runs_of(keys)) == keys


@given(OFFSETS, OFFSETS, st.sampled_from([None, "", "{}"]), st.booleans())
def test_a_source_keeps_its_texts(start, end, text, follows):
    texts = (offsets_text(start), offsets_text(end)) if follows else (text, text)
    source = SourceProgress(*texts, "g", start, end, None)
    columns = source_columns(source)
    assert read_source(columns) == source
    assert columns["start_is_text"] is (follows and bool(start))


@pytest.mark.parametrize(
    ("count", "expected", "says"),
    [
        (MAX_PARTITIONS + 1, None, f"up to {MAX_PARTITIONS} are possible"),
        (-1, None, "a run of -1 partitions"),
        (2, 3, "runs of 2 partitions for 3 values"),
    ],
)
def test_runs_that_cannot_be_are_refused_before_anything_is_made_of_them(count, expected, says):
    with pytest.raises(ValueError, match=says):
        read_runs([{"topic_id": "t", "first": 0, "count": count}], expected)


def test_a_micro_batch_names_its_partitions_once():
    """Its entry grows by what a number needs, four bytes a partition, not by four names."""
    sizes = []
    for count in (100, 10_100):
        at = [
            tuple(PartitionOffset("flights", "t-id", part, offset + part) for part in range(count))
            for offset in (1000, 1100)
        ]
        source = SourceProgress(offsets_text(at[0]), offsets_text(at[1]), "g", *at)
        batch = CommitMicroBatch("q", "query", "run", 1, (source,))
        entry = Entry(1, (Request(bytes(16), 1, (batch,), "w"),))
        data = encode_entry(entry)
        assert decode_entry(data, 1, "entry") == entry
        sizes.append(len(data))
    assert sizes[1] - sizes[0] < 10_000 * 7


def test_offsets_of_a_group_are_few_bytes():
    offsets = tuple(PartitionOffset("t", "t-id", part, part) for part in range(10_000))
    entry = Entry(1, (Request(bytes(16), 1, (CommitOffsets("g", offsets),), "w"),))
    data = encode_entry(entry)
    assert decode_entry(data, 1, "entry") == entry
    assert len(data) < 35_000
