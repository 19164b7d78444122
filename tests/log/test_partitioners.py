"""Which partition a row goes to; Kafka's own test vectors pin the hash."""

from __future__ import annotations

import struct
import sys
import types
from datetime import date, datetime, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_eos.errors import ConfigError, InvalidRecordError, SchemaMismatchError
from spark_eos.log.data.partitioners import (
    DefaultPartitioner,
    Sticky,
    check_partitions,
    explicit,
    key_hashes,
    key_partitions,
    load_partitioner,
    murmur2,
)

KAFKA_VECTORS = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}


def reference(key):
    """Kafka's Utils.murmur2, one byte string at a time."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(key)) & mask
    end = len(key) // 4 * 4
    for at in range(0, end, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    if key[end:]:
        h = (h ^ int.from_bytes(key[end:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


def test_reference_gives_kafkas_vectors():
    assert {key: reference(key.encode()) for key in KAFKA_VECTORS} == KAFKA_VECTORS


@pytest.mark.parametrize(
    "type_",
    [pa.string(), pa.binary(), pa.large_string(), pa.large_binary(), pa.string_view(), pa.binary_view()],
)
def test_kafkas_vectors(type_):
    hashes = murmur2(pa.array([key.encode() for key in KAFKA_VECTORS], pa.binary()).cast(type_))
    assert hashes.dtype == np.int32
    assert hashes.tolist() == list(KAFKA_VECTORS.values())


@given(st.lists(st.none() | st.binary(max_size=40), max_size=60), st.integers(0, 5), st.integers(0, 5))
@settings(derandomize=True)
def test_murmur2_is_kafkas(keys, skip_front, skip_back):
    column = pa.array(keys, pa.binary()).slice(skip_front, max(0, len(keys) - skip_front - skip_back))
    assert murmur2(column).tolist() == [0 if key is None else reference(key) for key in column.to_pylist()]


@given(st.integers(0, 70), st.integers(0, 9), st.integers(0, 3))
@settings(derandomize=True)
def test_murmur2_of_keys_of_one_length(count, width, skip):
    """They take another way: by stride. With enough of them, and a start that no word is aligned to."""
    keys = [bytes((row * 31 + at * 7) % 256 for at in range(width)) for row in range(count)]
    for column in (pa.array(keys, pa.binary()), pa.array(keys, pa.binary(width))):
        assert murmur2(column.slice(skip)).tolist() == [reference(key) for key in keys[skip:]]


@pytest.mark.parametrize("longest", [1, 3, 4, 5, 9, 15, 16, 17])
def test_murmur2_of_short_keys(longest):
    """They are hashed as they lie: more than a block of them, nulls and empty ones among them, from any byte on."""
    rng = np.random.default_rng(longest)
    keys = [rng.bytes(int(size)) for size in rng.integers(0, longest + 1, 9_000)]
    keys[7] = keys[8_500] = None
    hashes = [0 if key is None else reference(key) for key in keys]
    for ends in (b"", bytes(longest)):  # The last key may be short of a word, or as long as any.
        column, expected = pa.array([*keys, ends], pa.binary()), [*hashes, reference(ends)]
        for first in (0, 1, 2, 8_190):
            assert murmur2(column.slice(first)).tolist() == expected[first:]


def test_murmur2_of_more_rows_than_a_block_and_of_long_keys():
    rng = np.random.default_rng(7)
    keys = [rng.bytes(int(size)) for size in rng.integers(0, 30, 20_000)]
    keys[5] = rng.bytes(70_001)
    keys[6] = rng.bytes(70_002)
    keys[-1] = rng.bytes(100_003)
    assert murmur2(pa.array(keys)).tolist() == [reference(key) for key in keys]


def test_murmur2_of_chunks():
    column = pa.chunked_array([["21", "foobar"], [], ["abc"]], pa.string())
    assert murmur2(column).tolist() == [KAFKA_VECTORS[key] for key in ("21", "foobar", "abc")]
    assert murmur2(pa.chunked_array([], pa.string())).tolist() == []


def test_bytes_below_a_null_do_not_count():
    hidden = pa.Array.from_buffers(
        pa.binary(),
        2,
        [pa.py_buffer(b"\x02"), pa.py_buffer(struct.pack("<3i", 0, 3, 6)), pa.py_buffer(b"xyzabc")],
    )
    assert hidden.to_pylist() == [None, b"abc"]
    assert murmur2(hidden).tolist() == [0, KAFKA_VECTORS["abc"]]


def test_murmur2_refuses_numbers():
    with pytest.raises(SchemaMismatchError, match="int64"):
        murmur2(pa.array([1]))


def test_key_partitions_are_kafkas():
    keys = list(KAFKA_VECTORS)
    expected = [(value & 0x7FFFFFFF) % 7 for value in KAFKA_VECTORS.values()]
    partitions = key_partitions(pa.array(keys), 7)
    assert partitions.tolist() == expected
    assert partitions.dtype == np.int32


NOON = datetime(2020, 1, 2, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("values", "type_", "encoded"),
    [
        ([b"ab", ""], pa.binary(), [b"ab", b""]),
        (["x"], pa.dictionary(pa.int8(), pa.string()), [b"x"]),
        ([1, -2], pa.int8(), [b"\x01", b"\xfe"]),
        ([1, -2], pa.int16(), [struct.pack(">h", 1), struct.pack(">h", -2)]),
        ([1, -2], pa.int32(), [struct.pack(">i", 1), struct.pack(">i", -2)]),
        ([1, -2, 1 << 60], pa.int64(), [struct.pack(">q", value) for value in (1, -2, 1 << 60)]),
        ([1.5], pa.float32(), [struct.pack(">f", 1.5)]),
        ([1.5, -0.0], pa.float64(), [struct.pack(">d", 1.5), struct.pack(">d", -0.0)]),
        ([True, False], pa.bool_(), [b"\x01", b"\x00"]),
        ([date(1970, 1, 3)], pa.date32(), [struct.pack(">i", 2)]),
        ([NOON], pa.timestamp("ns", "UTC"), [struct.pack(">q", int(NOON.timestamp()) * 1_000_000)]),
        ([NOON], pa.timestamp("s", "Asia/Tokyo"), [struct.pack(">q", int(NOON.timestamp()) * 1_000_000)]),
        ([Decimal("1.50")], pa.decimal128(9, 2), [b"1.50"]),
    ],
)
def test_keys_are_hashed_by_the_bytes_of_kafkas_serializers(values, type_, encoded):
    column = pa.array([*values, None], type_)
    expected = [*map(reference, encoded), 0]
    assert key_hashes(column).tolist() == expected
    assert key_hashes(column.slice(1)).tolist() == expected[1:]
    assert key_hashes(pa.chunked_array([column, column])).tolist() == expected * 2


def test_all_nan_are_one_key():
    nans = np.array([0x7FF8000000000000, 0xFFF8000000000001], np.uint64).view(np.float64)
    assert key_hashes(pa.array(nans)).tolist() == [reference(struct.pack(">d", float("nan")))] * 2


def test_several_columns_are_one_key():
    columns = [pa.array(["a", "a", None]), pa.array([1, 2, 2], pa.int64()), pa.nulls(3)]
    expected = [
        reference(struct.pack(">iii", reference(b"a"), reference(struct.pack(">q", 1)), 0)),
        reference(struct.pack(">iii", reference(b"a"), reference(struct.pack(">q", 2)), 0)),
        reference(struct.pack(">iii", 0, reference(struct.pack(">q", 2)), 0)),
    ]
    assert key_hashes(columns).tolist() == expected
    assert key_hashes(columns[:1]).tolist() == key_hashes(columns[0]).tolist()


@pytest.mark.parametrize("type_", [pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.uint8()])
def test_a_key_has_no_nested_or_foreign_type(type_):
    with pytest.raises(SchemaMismatchError):
        key_hashes(pa.nulls(1, type_))


def test_explicit_partitions():
    assert explicit(pa.array([2, None, 0], pa.int64()), 3).tolist() == [2, -1, 0]
    assert explicit(pa.nulls(2), 3).tolist() == [-1, -1]
    assert explicit(pa.chunked_array([[1], [0]], pa.int32()), 3).tolist() == [1, 0]
    assert explicit(pa.array([1, 0], pa.uint8()), 3).dtype == np.int32


@pytest.mark.parametrize("number", [-1, 3, 1 << 40])
def test_a_partition_that_is_not_there(number):
    with pytest.raises(InvalidRecordError, match=rf"no partition {number}: the topic has 3"):
        explicit(pa.array([1, number], pa.int64()), 3)


def test_a_partition_column_of_text():
    with pytest.raises(SchemaMismatchError, match="string"):
        explicit(pa.array(["1"]), 3)


def rows(**columns):
    return pa.table(columns)


def test_sticky_gives_each_call_its_partition():
    sticky = Sticky(5)
    batch = rows(value=["x"])
    assert [sticky(batch, 3) for _ in range(4)] == [2, 0, 1, 2]
    assert sticky(batch.slice(1), 3) == sticky(batch, 3) == 0


def test_sticky_stays_until_enough_was_sent():
    sticky = Sticky(0, batch_bytes=100)
    assert [sticky.take(2, 40) for _ in range(7)] == [0, 0, 0, 1, 1, 1, 0]


def test_default_order_of_choices():
    table = rows(
        key=pa.array(["foobar", "foobar", None, None], pa.string()), partition=pa.array([3, None, 2, None])
    )
    by_key = (KAFKA_VECTORS["foobar"] & 0x7FFFFFFF) % 5
    partitioner = DefaultPartitioner(Sticky(4))
    assert partitioner(table, 5).tolist() == [3, by_key, 2, 4]
    # Part of the rows went to the sticky partition, so the next call has the next one.
    assert partitioner(rows(value=["x"]), 5) == 0


@pytest.mark.parametrize("make", [pa.table, pa.record_batch])
def test_one_partition_for_all_rows_is_an_int(make):
    partitioner = DefaultPartitioner(Sticky(1))
    by_key = (KAFKA_VECTORS["abc"] & 0x7FFFFFFF) % 4
    for columns, expected in (
        ({"key": ["abc", "abc"]}, by_key),
        ({"partition": [3, 3], "key": ["abc", "foobar"]}, 3),
        ({"value": ["x", "y"]}, 1),
        ({"key": pa.nulls(2, pa.string())}, 2),
        ({"partition": pa.nulls(2)}, 3),
    ):
        found = partitioner(make(columns), 4)
        assert type(found) is int
        assert found == expected


def test_rows_with_their_own_partition_do_not_move_the_sticky_one():
    sticky = Sticky(1)
    DefaultPartitioner(sticky)(rows(key=["abc", "foobar"], partition=[0, None]), 4)
    assert sticky(rows(value=["x"]), 4) == 1


def test_the_sticky_partition_counts_the_bytes_of_its_rows():
    sticky = Sticky(0, batch_bytes=1000)
    partitioner = DefaultPartitioner(sticky)
    table = rows(key=pa.array([None, *"abcdefghi"], pa.string()), value=[b"x" * 500] * 10)
    assert [partitioner(table, 64).tolist()[0] for _ in range(4)] == [0, 0, 1, 1]


def test_a_topic_of_one_partition_still_checks_explicit_numbers():
    partitioner = DefaultPartitioner(Sticky(7))
    assert partitioner(rows(key=["a", "b"], partition=[0, None]), 1) == 0
    with pytest.raises(InvalidRecordError, match="no partition 1: the topic has 1"):
        partitioner(rows(partition=[1]), 1)


def test_other_columns_may_be_the_key():
    table = rows(a=["x", None, None], b=pa.array([1, 1, None], pa.int32()), partition=[9, 9, 9])
    partitioner = DefaultPartitioner(Sticky(6), ("a", "b", "c"), None)
    expected = key_partitions([table["a"], table["b"], pa.nulls(3)], 8).tolist()
    assert partitioner(table, 8).tolist() == [*expected[:2], 6]


def test_no_rows():
    assert DefaultPartitioner(Sticky(1))(rows(key=pa.array([], pa.string())), 4) == 0
    assert DefaultPartitioner(Sticky(1))(rows(partition=pa.array([], pa.int32())), 4) == 0


@given(
    st.lists(
        st.tuples(st.none() | st.binary(max_size=6), st.none() | st.integers(0, 6)), min_size=1, max_size=30
    ),
    st.integers(0, 6),
)
@settings(derandomize=True)
def test_default_partitioner_row_by_row(data, start):
    table = pa.table(
        {
            "key": pa.array([key for key, _ in data], pa.binary()),
            "partition": pa.array([number for _, number in data], pa.int32()),
        }
    )
    found = DefaultPartitioner(Sticky(start))(table, 7)
    expected = [
        number if number is not None else start if key is None else (reference(key) & 0x7FFFFFFF) % 7
        for key, number in data
    ]
    assert np.broadcast_to(found, len(data)).tolist() == expected


def test_check_partitions():
    assert check_partitions(2, 9, 3, "p") == 2
    assert check_partitions(np.int64(2), 9, 3, "p") == 2
    assert check_partitions(np.array([1, 1]), 2, 3, "p") == 1
    array = check_partitions(np.array([1, 2], np.uint8), 2, 3, "p")
    assert array.tolist() == [1, 2]
    assert array.dtype == np.int32
    assert check_partitions(np.array([], np.int32), 0, 3, "p") == 0


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (3, "no partition 3"),
        (-1, "no partition -1"),
        (np.array([0, 3]), "no partition 3"),
        (np.array([-1, 0]), "no partition -1"),
        (np.array([0]), "2 rows"),
        (np.array([[0], [0]]), "2 rows"),
        (np.array([0.0, 1.0]), "float64"),
        ([0, 1], "list"),
        (None, "NoneType"),
        (True, "bool"),
    ],
)
def test_results_that_are_refused(result, reason):
    with pytest.raises(InvalidRecordError, match=f"p: .*{reason}"):
        check_partitions(result, 2, 3, "p")


class ByLength:
    def __call__(self, batch, partitions):
        return np.array([len(value.as_py()) % partitions for value in batch["value"]], np.int32)


@pytest.fixture
def custom(monkeypatch):
    module = types.ModuleType("custom_partitioners")
    module.ByLength = ByLength
    module.wrong = lambda _, partitions: partitions
    module.number = 7
    module.holder = types.SimpleNamespace(inner=lambda *_: 1)

    class Picky:
        def __init__(self, size):
            self.size = size

    module.Picky = Picky
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.usefixtures("custom")
@pytest.mark.parametrize("spec", ["custom_partitioners:ByLength", "custom_partitioners.ByLength"])
def test_custom_partitioner(spec):
    assert load_partitioner(spec)(rows(value=["a", "ab", "abc"]), 3).tolist() == [1, 2, 0]


@pytest.mark.usefixtures("custom")
def test_custom_partitioner_within_an_object():
    assert load_partitioner("custom_partitioners:holder.inner")(rows(value=["a"]), 3) == 1


@pytest.mark.usefixtures("custom")
def test_what_a_custom_partitioner_returns_is_checked():
    with pytest.raises(InvalidRecordError, match=r"custom_partitioners:wrong.*no partition 3"):
        load_partitioner("custom_partitioners:wrong")(rows(value=["a"]), 3)


@pytest.mark.usefixtures("custom")
@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("", "form"),
        ("nodots", "form"),
        (":x", "form"),
        ("custom_partitioners:", "form"),
        ("no_such_module_here:x", "cannot be imported"),
        ("custom_partitioners:missing", "'missing'"),
        ("custom_partitioners:number", "cannot be called"),
        ("custom_partitioners:Picky", "size"),
    ],
)
def test_custom_partitioners_that_cannot_be_had(spec, reason):
    with pytest.raises(ConfigError, match=reason):
        load_partitioner(spec)
