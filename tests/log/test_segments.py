"""Rows go into staged files by partition and come back as they were, or not at all."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from datetime import datetime, timezone

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_eos.config.compression import Compression
from spark_eos.errors import (
    ConfigError,
    CorruptRecordError,
    IllegalStateError,
    InvalidRecordError,
    ObjectExistsError,
    ObjectNotFoundError,
    RecordTooLargeError,
    SchemaMismatchError,
    StoreFullError,
)
from spark_eos.log.data import arrow_file
from spark_eos.log.data import writer as writing
from spark_eos.log.data.layout import Layout
from spark_eos.log.data.reader import decode_batch, read_batch
from spark_eos.log.data.writer import BATCH_OVERHEAD_BYTES, SegmentWriter
from spark_eos.storage.memory import MemoryStore
from tests.tiers import examples

NAME = "data/clicks-1/00000000000000000042-x.arrow"
NOW = 1_700_000_000_000
KAFKA = Layout.kafka()
TYPED = Layout.typed(
    pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("tags", pa.list_(pa.string()))]
    ),
    3,
)


@pytest.fixture
def store():
    return MemoryStore()


def writer(store, layout=KAFKA, partitions=4, **options):
    return SegmentWriter(store, "clicks", NAME, layout, partitions, now_ms=NOW, **options)


def stage(store, *appends, layout=KAFKA, **options):
    """The staged files of (columns, partitions) appended one after the other."""
    with writer(store, layout, **options) as segment:
        for columns, partitions in appends:
            segment.append(pa.table(columns) if isinstance(columns, dict) else columns, partitions)
        return segment.finish()


def read(store, staged, layout=KAFKA):
    """All rows by partition, in the order of the files and of the batches in them."""
    found = {}
    for entry in staged:
        for batch in entry.batches:
            table = read_batch(store, entry.file, batch, layout)
            assert table.schema.equals(layout.physical)
            table.validate(full=True)
            assert table.num_rows == batch.count
            times = table[layout.timestamp_column].cast(pa.int64())
            assert pc.min(times).as_py() == batch.min_timestamp_ms
            assert pc.max(times).as_py() == batch.max_timestamp_ms
            found.setdefault(batch.partition, []).append(table)
    return {partition: pa.concat_tables(tables) for partition, tables in found.items()}


def values(store, staged):
    return {partition: table["value"].to_pylist() for partition, table in read(store, staged).items()}


# -- Writing ----------------------------------------------------------------------------------------


def test_rows_come_back_by_partition_and_in_order(store):
    staged = stage(
        store,
        ({"value": ["a", "b", "c"]}, np.array([2, 0, 2], np.int32)),
        ({"value": ["d", "e"]}, 2),
        ({"value": ["f", "g"]}, np.array([0, 3])),
    )
    assert values(store, staged) == {0: [b"b", b"f"], 2: [b"a", b"c", b"d", b"e"], 3: [b"g"]}
    (entry,) = staged
    assert entry.topic == "clicks"
    assert entry.file.name == NAME
    assert entry.file.schema_version == 0
    assert entry.file.size == store.size(NAME)
    assert [batch.partition for batch in entry.batches] == [0, 2, 3]
    assert all(batch.base_sequence == -1 for batch in entry.batches)


def test_whole_batches_of_a_partition_keep_their_order(store):
    appends = [({"value": [str(step)]}, (step * 3) % 4) for step in range(12)]
    expected = {part: [str(step).encode() for step in range(12) if step * 3 % 4 == part] for part in range(4)}
    staged = stage(store, *appends)
    assert values(store, staged) == expected
    assert [batch.partition for batch in staged[0].batches] == [0, 1, 2, 3]


def test_any_arrow_tool_opens_the_file(store):
    stage(store, ({"value": ["a", "b", "c"], "key": ["k", None, "l"]}, np.array([2, 0, 1])))
    with pa.ipc.open_file(store.read(NAME)) as reader:
        table = reader.read_all()
    assert table.to_pydict() == {"key": [None, b"l", b"k"], "value": [b"b", b"c", b"a"]}


@pytest.mark.parametrize("compression", [("lz4", 3), ("zstd", 8), ("lz4", 17), ("zstd", -5), ("zstd", 22)])
def test_compression(store, compression):
    rows = {"value": ["x" * 10_000] * 5}
    staged = stage(store, (rows, 1), compression=Compression(*compression))
    assert staged[0].file.size < 5_000
    assert values(store, staged) == {1: [b"x" * 10_000] * 5}


def test_rows_of_few_partitions_are_written_sooner(store):
    """The disk begins while rows still come; many partitions wait, for batches that are not too small."""
    rows = {"value": [b"x" * (1 << 20)] * 20}
    targets = np.zeros(20, np.int32)
    with SegmentWriter(store, "t", "n", KAFKA, 1, now_ms=NOW) as segment:
        for _ in range(3):
            segment.append(pa.table({"value": rows["value"][:7]}), 0)
        (one,) = segment.finish()
    assert [batch.count for batch in one.batches] == [7, 7, 7]
    with SegmentWriter(MemoryStore(), "t", "n", KAFKA, 64, now_ms=NOW) as segment:
        segment.append(pa.table(rows), targets)
        (many,) = segment.finish()
    assert [batch.count for batch in many.batches] == [20]


def appended(store, *appends):
    """A writer for 64 partitions that was given as much and has not finished."""
    segment = SegmentWriter(store, "t", "n", KAFKA, 64, now_ms=NOW)
    for values, target in appends:
        segment.append(pa.table({"value": values}), target)
    return segment


MB = [b"x" * (1 << 20)]


def test_large_batches_of_one_partition_each_wait_for_no_others(store):
    """As unkeyed rows come from Spark: gathered they would be no larger, and memory is used again sooner."""
    with appended(store, *((MB, number) for number in range(7))) as segment:
        assert segment._file is None
        segment.append(pa.table({"value": MB}), 7)
        assert segment._file is not None
        (staged,) = segment.finish()
    assert [(batch.partition, batch.count) for batch in staged.batches] == [(n, 1) for n in range(8)]


@pytest.mark.parametrize(
    "other", [(MB * 2, np.arange(2)), ([b"x"], 0)], ids=["of several partitions", "small"]
)
@pytest.mark.parametrize("before", [0, 6])
def test_they_wait_with_those_that_gain_by_it(store, other, before):
    large = [(MB, number) for number in range(10)]
    with appended(store, *large[:before], other, *large[before:]) as segment:
        assert segment._file is None
        segment.append(pa.table({"value": MB * 30}), np.arange(30))
        assert segment._file is not None
        segment.finish()


def test_an_unknown_compression():
    assert Compression.of("none") is None
    with pytest.raises(ConfigError, match="'snappy'"):
        Compression.of("snappy")
    for codec, level in (("lz4", 0), ("lz4", 18), ("zstd", 23), ("zstd", -131073)):
        with pytest.raises(ConfigError, match=rf"compression '{codec}' at level {level}: its levels are"):
            Compression.of(codec, level)


def test_a_higher_level_makes_smaller_files_and_the_default_is_ours():
    rows = {"value": [b'{"flight":%d,"delay":%d,"carrier":"UA"}' % (n, n * n % 97) for n in range(20_000)]}

    def size(codec, level=None):
        (staged,) = stage(MemoryStore(), (rows, 0), compression=Compression.of(codec, level))
        return staged.file.size

    assert size("lz4", 1) == size("lz4") > size("lz4", 3)
    assert size("zstd", -50) > size("zstd", 1) == size("zstd") > size("zstd", 19)
    assert size("auto") == size("zstd")


def test_a_buffer_without_room(store):
    with pytest.raises(ConfigError, match="buffer_bytes=0"):
        writer(store, buffer_bytes=0)


def test_no_rows_no_file(store):
    assert (
        stage(store, ({"value": pa.array([], pa.binary())}, 0), ({"value": []}, np.array([], np.int32))) == ()
    )
    assert list(store.list("")) == []


def test_flushes_share_the_file(store):
    appends = [({"value": [f"{step}-{row}" for row in range(4)]}, np.arange(4)) for step in range(3)]
    (entry,) = staged = stage(store, *appends, buffer_bytes=1)
    assert [batch.partition for batch in entry.batches] == [0, 1, 2, 3] * 3
    assert values(store, staged) == {
        part: [f"{step}-{part}".encode() for step in range(3)] for part in range(4)
    }


def test_nothing_is_written_before_the_buffer_is_full(store):
    with writer(store, buffer_bytes=3 * BATCH_OVERHEAD_BYTES + 100) as segment:
        for _ in range(3):
            segment.append(pa.table({"value": ["x"]}), 0)
        assert segment._file is None
        segment.append(pa.table({"value": ["x"]}), 0)
        assert segment._file is not None
        (entry,) = segment.finish()
    assert [batch.count for batch in entry.batches] == [3, 1]


def test_large_appends_wait_for_one_another_only_beside_small_ones(store, monkeypatch):
    """A batch of its own size gains nothing by waiting; small ones become larger."""
    monkeypatch.setattr(writing, "RUN_BYTES", 10_000 + 2 * BATCH_OVERHEAD_BYTES)
    monkeypatch.setattr(writing, "LARGE_BATCH_BYTES", 4000)
    large, small = (pa.table({"value": ["x" * size]}) for size in (5000, 1))
    for first, is_written in ((large, True), (small, False)):
        with writer(store, partitions=2) as segment:
            segment.append(first, 0)
            for _ in range(2):
                segment.append(large, 0)
            assert (segment._file is not None) is is_written


def test_one_large_append_is_flushed_in_pages(store):
    rows = pa.table({"value": [str(row).rjust(100) for row in range(1000)]})
    (entry,) = staged = stage(store, (rows, np.arange(1000) % 4), buffer_bytes=10_000)
    assert len(entry.batches) > 4 * 5
    assert values(store, staged) == {
        part: [str(row).rjust(100).encode() for row in range(part, 1000, 4)] for part in range(4)
    }


def test_record_batches_are_limited(store, monkeypatch):
    monkeypatch.setattr(arrow_file, "RECORD_BATCH_BYTES", 1000)
    rows = pa.table({"value": ["x" * 99] * 100})
    (entry,) = staged = stage(store, (rows, 1), (rows, np.arange(100) % 2))
    assert len(entry.batches) == 2
    with pa.ipc.open_file(store.read(NAME)) as reader:
        sizes = [reader.get_batch(position).nbytes for position in range(reader.num_record_batches)]
    assert len(sizes) >= 20
    assert max(sizes) <= 1100
    assert values(store, staged) == {0: [b"x" * 99] * 50, 1: [b"x" * 99] * 150}


def test_small_batches_are_joined(store):
    stage(store, *[({"value": [str(step)]}, 1) for step in range(50)])
    with pa.ipc.open_file(store.read(NAME)) as reader:
        assert reader.num_record_batches == 1


def test_large_batches_are_not_copied_together(store):
    stage(store, *[({"value": ["x" * 100_000]}, 1) for _ in range(3)])
    with pa.ipc.open_file(store.read(NAME)) as reader:
        assert reader.num_record_batches == 3


def test_partition_numbers_beyond_16_bits(store):
    numbers = np.array([70_000, 3, 70_001, 3 + (1 << 16)])
    staged = stage(store, ({"value": ["a", "b", "c", "d"]}, numbers), partitions=80_000)
    assert values(store, staged) == {3: [b"b"], 65_539: [b"d"], 70_000: [b"a"], 70_001: [b"c"]}


def test_slices_and_chunks(store):
    chunks = pa.chunked_array([["a", "b"], ["c"], ["d", "e", "f"]])
    table = pa.table({"value": chunks, "key": [str(row) for row in range(6)]}).slice(1, 4)
    staged = stage(store, (table, np.array([0, 1, 0, 1])))
    assert {
        part: rows.select(["key", "value"]).to_pylist() for part, rows in read(store, staged).items()
    } == {
        0: [{"key": b"1", "value": b"b"}, {"key": b"3", "value": b"d"}],
        1: [{"key": b"2", "value": b"c"}, {"key": b"4", "value": b"e"}],
    }


ROWS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=5),
        st.none() | st.text(max_size=5),
        st.none() | st.lists(st.tuples(st.text(max_size=2), st.none() | st.binary(max_size=2)), max_size=2),
        st.none() | st.integers(-(10**12), 10**13),
        st.integers(0, 4),
    ),
    max_size=8,
)


@given(
    st.lists(st.tuples(ROWS, st.booleans(), st.booleans()), max_size=6), st.sampled_from([1, 5000, 1 << 20])
)
@examples(150)
def test_what_is_written_is_read(appends, buffer_bytes):
    store, expected = MemoryStore(), {}
    with writer(store, partitions=5, buffer_bytes=buffer_bytes) as segment:
        for rows, one_partition, with_times in appends:
            columns = {
                "key": pa.array([row[0] for row in rows], pa.binary()),
                "value": pa.array([row[1] for row in rows], pa.string()),
                "headers": pa.array(
                    [row[2] and [{"key": k, "value": v} for k, v in row[2]] for row in rows],
                    KAFKA.physical.field("headers").type,
                ),
                "timestamp": pa.array([row[3] for row in rows], pa.timestamp("ms", "UTC")),
            }
            if not with_times:
                del columns["timestamp"]
            targets = [rows[0][4] if one_partition else row[4] for row in rows]
            segment.append(
                pa.table(columns), targets[0] if rows and one_partition else np.array(targets, int)
            )
            for (key, value, headers, time, _), target in zip(rows, targets, strict=True):
                expected.setdefault(target, []).append(
                    (
                        key,
                        None if value is None else value.encode(),
                        headers if headers is None else [{"key": k, "value": v} for k, v in headers],
                        time if with_times and time is not None else NOW,
                    )
                )
        staged = segment.finish()
    found = {}
    for partition, table in read(store, staged).items():
        columns = [table[name] for name in ("key", "value", "headers")]
        found[partition] = list(
            zip(
                *(column.to_pylist() for column in [*columns, table["timestamp"].cast(pa.int64())]),
                strict=True,
            )
        )
    assert found == expected
    for entry in staged:
        with pa.ipc.open_file(store.read(entry.file.name)) as reader:
            assert reader.read_all().num_rows == sum(batch.count for batch in entry.batches)


def test_writing_imports_no_pandas():
    """It costs every new worker of Spark 0.3 s."""
    code = (
        "import sys, numpy as np, pyarrow as pa; from spark_eos.log.data.arrow import constant_array;"
        "from spark_eos.log.data.layout import Layout; from spark_eos.log.data.writer import SegmentWriter;"
        "from spark_eos.storage.memory import MemoryStore;"
        "rows = pa.RecordBatch.from_arrays([constant_array('k', pa.binary(), 5)], names=['value']);"
        "writer = SegmentWriter(MemoryStore(), 't', 'a', Layout.kafka(), 2, now_ms=0, max_message_bytes=5);"
        "writer.append(rows, np.arange(5) % 2); print(len(writer.finish()), 'pandas' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.split() == ["1", "False"]


# -- Columns that a file leaves out -----------------------------------------------------------------


def test_empty_columns_are_omitted(store):
    (entry,) = staged = stage(store, ({"value": ["a"], "key": pa.nulls(1, pa.binary())}, 0))
    assert entry.file.omitted == ("key", "headers", "timestamp")
    assert read(store, staged)[0].to_pylist() == [
        {"key": None, "value": b"a", "headers": None, "timestamp": at(NOW)}
    ]


def at(timestamp_ms):
    return datetime.fromtimestamp(timestamp_ms / 1000, timezone.utc)


def test_a_column_that_turns_out_to_be_needed_begins_a_file(store):
    staged = stage(
        store,
        ({"value": ["a"]}, 0),
        ({"value": ["b"], "key": ["k"]}, 0),
        ({"value": ["c"]}, 1),
        ({"value": ["d"], "timestamp": pa.array([5], pa.timestamp("ms", "UTC"))}, 0),
        buffer_bytes=1,
    )
    assert [entry.file.omitted for entry in staged] == [
        ("key", "headers", "timestamp"),
        ("headers", "timestamp"),
        ("key", "headers"),
    ]
    stem = NAME.removesuffix(".arrow")
    assert [entry.file.name for entry in staged] == [NAME, f"{stem}-1.arrow", f"{stem}-2.arrow"]
    assert values(store, staged) == {0: [b"a", b"b", b"d"], 1: [b"c"]}


def test_names_without_an_ending(store):
    with SegmentWriter(store, "t", "a.b/c", KAFKA, 1, now_ms=NOW, file_bytes=1, buffer_bytes=1) as segment:
        for _ in range(2):
            segment.append(pa.table({"value": ["x"]}), 0)
        assert [entry.file.name for entry in segment.finish()] == ["a.b/c", "a.b/c-1"]


def test_rows_without_a_timestamp_beside_rows_with_one(store):
    times = pa.array([1, None], pa.timestamp("ms", "UTC"))
    staged = stage(store, ({"value": ["a", "b"], "timestamp": times}, 0), ({"value": ["c"]}, 0))
    assert staged[0].file.omitted == ("key", "headers")
    assert read(store, staged)[0]["timestamp"].to_pylist() == [at(1), at(NOW), at(NOW)]


def test_tombstones_alone(store):
    staged = stage(store, ({"value": pa.nulls(2, pa.binary())}, 0), ({"key": ["k"]}, 1))
    assert staged[0].file.omitted == ("headers", "timestamp")
    assert values(store, staged) == {0: [None, None], 1: [None]}
    staged = stage(MemoryStore(), (pa.table({"value": pa.nulls(3)}), 0))
    assert staged[0].file.omitted == ("key", "headers", "timestamp")
    assert staged[0].batches[0].count == 3


def test_typed_topic(store):
    rows = pa.table({"name": pa.array(["a", None]), "id": pa.array([1, 2], pa.int64())})
    (entry,) = staged = stage(store, (rows, np.array([1, 0])), layout=TYPED)
    assert entry.file.schema_version == 3
    assert entry.file.omitted == ("tags", "_timestamp")
    assert {part: table.to_pylist() for part, table in read(store, staged, TYPED).items()} == {
        0: [{"id": 2, "name": None, "tags": None, "_timestamp": at(NOW)}],
        1: [{"id": 1, "name": "a", "tags": None, "_timestamp": at(NOW)}],
    }


# -- Values and types -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "type_",
    [
        *(pa.string(), pa.binary(), pa.large_string(), pa.large_binary(), pa.string_view(), pa.binary_view()),
        *(pa.dictionary(pa.int32(), pa.string()), pa.binary(2)),
    ],
)
def test_keys_and_values_are_text_or_bytes(store, type_):
    column = pa.array([b"ab", None, b"cd"], pa.binary())
    column = column.cast(pa.string()).cast(type_) if pa.types.is_dictionary(type_) else column.cast(type_)
    staged = stage(store, ({"key": column, "value": column}, 0))
    assert read(store, staged)[0].select(["key", "value"]).to_pydict() == {
        "key": [b"ab", None, b"cd"],
        "value": [b"ab", None, b"cd"],
    }


@pytest.mark.parametrize(
    ("unit", "ticks", "ms"),
    [
        ("s", 2, 2000),
        ("ms", 2000, 2000),
        ("us", 2_000_999, 2000),
        ("ns", 2_000_999_999, 2000),
        ("us", -2_000_000, -2000),
        ("us", -2_000_001, -2001),
        ("ns", -2_000_000_000, -2000),
        ("ns", -2_000_000_001, -2001),
    ],
)
def test_timestamps_are_kept_in_milliseconds(store, unit, ticks, ms):
    times = pa.array([ticks, None], pa.timestamp(unit, "America/New_York"))
    staged = stage(store, ({"value": ["a", "b"], "timestamp": times}, 0))
    assert read(store, staged)[0]["timestamp"].to_pylist() == [at(ms), at(NOW)]


def test_columns_of_another_spelling(store):
    rows = {
        "id": pa.array([1, 2], pa.int64()),
        "name": pa.array(["a", "b"], pa.large_string()).cast(pa.dictionary(pa.int8(), pa.large_string())),
        "tags": pa.array([["x"], None], pa.large_list(pa.large_string())),
    }
    staged = stage(store, (rows, 0), layout=TYPED)
    assert read(store, staged, TYPED)[0].drop_columns(["_timestamp"]).to_pydict() == {
        "id": [1, 2],
        "name": ["a", "b"],
        "tags": [["x"], None],
    }


@pytest.mark.parametrize(
    ("layout", "columns", "error", "reason"),
    [
        (KAFKA, {"value": ["a"], "colour": ["red"]}, SchemaMismatchError, "'clicks' has no column 'colour'"),
        (KAFKA, {"value": [1]}, SchemaMismatchError, "'value' of topic 'clicks' is binary, found int64"),
        (
            KAFKA,
            {"value": [{"a": 1}]},
            SchemaMismatchError,
            "'value' of topic 'clicks' is binary, found struct",
        ),
        (KAFKA, {"headers": [["a"]]}, SchemaMismatchError, "'headers'.*found list"),
        (KAFKA, {"timestamp": [5]}, SchemaMismatchError, "'timestamp'.*found int64"),
        (
            KAFKA,
            {"timestamp": pa.array([5], pa.timestamp("ms"))},
            SchemaMismatchError,
            r"found timestamp\[ms\]",
        ),
        (
            KAFKA,
            {"timestamp": pa.array([1 << 60], pa.timestamp("s", "UTC"))},
            InvalidRecordError,
            "'timestamp' of topic 'clicks'",
        ),
        (TYPED, {"name": ["a"]}, SchemaMismatchError, "'id' of topic 'clicks' is missing"),
        (
            TYPED,
            {"id": pa.array([1], pa.int32())},
            SchemaMismatchError,
            "'id' of topic 'clicks' is int64, found int32",
        ),
        (TYPED, {"id": [7, None]}, InvalidRecordError, "'id' of topic 'clicks' is not nullable, but row 1"),
        (TYPED, {"id": pa.nulls(1)}, InvalidRecordError, "'id' of topic 'clicks' is not nullable, but row 0"),
        (TYPED, {"id": [1], "name": [b"a"]}, SchemaMismatchError, "'name'.*found binary"),
    ],
)
def test_rows_that_do_not_fit(store, layout, columns, error, reason):
    good = pa.table({"id": [1]} if layout is TYPED else {"value": ["good"]})
    bad = pa.table(columns)
    with writer(store, layout) as segment:
        segment.append(good, 0)
        with pytest.raises(error, match=reason):
            segment.append(bad, 0)
        segment.append(good, 1)
        staged = segment.finish()
    assert {part: table.num_rows for part, table in read(store, staged, layout).items()} == {0: 1, 1: 1}


def test_a_column_that_is_there_twice(store):
    twice = pa.RecordBatch.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["value", "value"])
    with writer(store) as segment, pytest.raises(SchemaMismatchError, match=r"'value'.*twice"):
        segment.append(twice, 0)


def test_a_finer_timestamp_than_the_column_has(store):
    layout = Layout.typed(pa.schema([("at", pa.timestamp("us"))]), 1)
    with writer(store, layout) as segment, pytest.raises(InvalidRecordError, match="'at' of topic 'clicks'"):
        segment.append(pa.table({"at": pa.array([1], pa.timestamp("ns"))}), 0)


def test_all_rows_of_an_append_are_taken_or_none(store):
    chunks = pa.table({"id": pa.chunked_array([[1], [None]], pa.int64())})
    with writer(store, TYPED, buffer_bytes=1) as segment:
        with pytest.raises(InvalidRecordError):
            segment.append(chunks, 0)
        assert segment.finish() == ()


@pytest.mark.parametrize(
    ("partitions", "reason"),
    [(4, "no partition 4: the topic has 4"), (np.array([0, 4]), "no partition 4"), (np.array([0]), "2 rows")],
)
def test_partitions_that_are_not_there(store, partitions, reason):
    with writer(store) as segment, pytest.raises(InvalidRecordError, match=f"'clicks'.*{reason}"):
        segment.append(pa.table({"value": ["a", "b"]}), partitions)


@pytest.mark.parametrize(("limit", "fits"), [(9, False), (10, True)])
def test_the_limit_counts_key_and_value(store, limit, fits):
    rows = pa.table({"key": ["k" * 4, None, "k"], "value": ["v" * 6, "v" * 9, None]})
    with writer(store, max_message_bytes=limit) as segment:
        if fits:
            segment.append(rows, 0)
        else:
            with pytest.raises(
                RecordTooLargeError,
                match=r"row 0 .*'clicks' has 10 bytes, more than the limit of 9 \(max\.message\.bytes",
            ):
                segment.append(rows, 0)


def test_the_limit_is_one_of_rows_not_of_columns(store):
    rows = pa.table({"key": ["k" * 9, None, "k"], "value": ["v", "v" * 10, "v" * 9]})
    with writer(store, max_message_bytes=10) as segment:
        segment.append(rows, 0)
    with writer(store, max_message_bytes=9) as segment, pytest.raises(RecordTooLargeError, match="10 bytes"):
        segment.append(rows, 0)


def test_the_limit_counts_a_row_without_a_key(store):
    rows = pa.table({"key": ["k", None], "value": ["v", "v" * 11]})
    with writer(store, max_message_bytes=10) as segment, pytest.raises(RecordTooLargeError, match="row 1 "):
        segment.append(rows, 0)


def test_the_limit_counts_headers(store):
    headers = [
        [],
        None,
        [{"key": "k", "value": b"v" * 9}, {"key": "kk", "value": None}],
        [{"key": "k", "value": b"v"}],
    ]
    rows = pa.table({"value": ["v"] * 4, "headers": pa.array(headers, KAFKA.physical.field("headers").type)})
    size = 1 + (4 + 1 + 4 + 9) + (4 + 2 + 4)
    with writer(store, max_message_bytes=size - 1) as segment:
        with pytest.raises(RecordTooLargeError, match=f"row 2 .* {size} bytes"):
            segment.append(rows, 0)
        segment.append(rows.take([0, 1, 3]), 0)
    with writer(store, max_message_bytes=size) as segment:
        segment.append(rows, 0)


def test_the_limit_counts_all_of_a_schema_but_the_timestamp(store):
    layout = Layout.typed(pa.schema([("a", pa.string()), ("n", pa.int64()), ("b", pa.list_(pa.int16()))]), 1)
    rows = pa.table(
        {"a": ["x", "xx"], "n": [1, None], "b": pa.array([[1, None], [1] * 9], pa.list_(pa.int16()))}
    )
    with writer(store, layout, max_message_bytes=19) as segment:
        with pytest.raises(RecordTooLargeError, match=r"row 1 .* 20 bytes"):
            segment.append(rows, 0)
        segment.append(rows.slice(0, 1), 0)


@pytest.mark.parametrize("wide", [pa.bool_(), pa.int8(), pa.float64()])
def test_the_limit_counts_long_lists(store, wide):
    """Whatever a column takes in memory: a bool counts as a byte."""
    layout = Layout.typed(pa.schema([("a", pa.list_(wide))]), 1)
    width = wide.bit_width // 8 or 1
    rows = pa.table({"a": pa.array([[None] * 100], pa.list_(wide))})
    with writer(store, layout, max_message_bytes=100 * width) as segment:
        segment.append(rows, 0)
    with (
        writer(store, layout, max_message_bytes=100 * width - 1) as segment,
        pytest.raises(RecordTooLargeError),
    ):
        segment.append(rows, 0)


# -- The end of a writer ----------------------------------------------------------------------------


def test_finish_again_gives_the_same(store):
    segment = writer(store)
    segment.append(pa.table({"value": ["a"]}), 0)
    assert segment.finish() == segment.finish() != ()


def test_nothing_is_visible_before_the_end(store):
    with writer(store, buffer_bytes=1) as segment:
        for _ in range(3):
            segment.append(pa.table({"value": ["a"]}), 0)
        assert list(store.list("")) == []
        segment.finish()
    assert [entry.name for entry in store.list("")] == [NAME]


def test_leaving_without_finish_discards(store):
    with writer(store, buffer_bytes=1, file_bytes=1) as segment:
        for _ in range(3):
            segment.append(pa.table({"value": ["a"]}), 0)
        assert list(store.list("")) != []
    assert list(store.list("")) == []
    with pytest.raises(IllegalStateError, match="abandoned"):
        segment.append(pa.table({"value": ["a"]}), 0)
    with pytest.raises(IllegalStateError, match="abandoned"):
        segment.finish()


def append_and_fail(store):
    with writer(store, buffer_bytes=1, file_bytes=1) as segment:
        for step in (2, 1, 0):
            segment.append(pa.table({"value": [str(1 // step)]}), 0)


def test_an_exception_discards(store):
    with pytest.raises(ZeroDivisionError):
        append_and_fail(store)
    assert list(store.list("")) == []


def test_after_finish_it_is_too_late(store):
    segment = writer(store)
    segment.append(pa.table({"value": ["a"]}), 0)
    segment.finish()
    with pytest.raises(IllegalStateError, match="finished"):
        segment.append(pa.table({"value": ["a"]}), 0)
    with pytest.raises(IllegalStateError, match="finished"):
        segment.abandon()
    assert [entry.name for entry in store.list("")] == [NAME]


def test_a_name_that_is_taken(store):
    store.create(NAME, b"somebody else's")
    segment = writer(store)
    segment.append(pa.table({"value": ["a"]}), 0)
    with pytest.raises(ObjectExistsError, match=r"x\.arrow"):
        segment.finish()
    with pytest.raises(IllegalStateError):
        segment.finish()
    assert store.read(NAME).to_pybytes() == b"somebody else's"


class FullStore(MemoryStore):
    """Refuses what would make an object longer than ``room`` bytes."""

    def __init__(self, room):
        super().__init__()
        self.room = room

    @contextmanager
    def upload(self, name, *, write_behind=False):
        with super().upload(name, write_behind=write_behind) as upload:
            yield FullUpload(upload, self.room)


class FullUpload:
    def __init__(self, upload, room):
        self.upload, self.room = upload, room

    def write(self, data, /):
        if self.upload.tell() + len(data) > self.room:
            raise StoreFullError("no space left")
        return self.upload.write(data)

    def tell(self):
        return self.upload.tell()


@pytest.mark.parametrize("room", [0, 5, 100, 200, 400, 600])
def test_a_full_store_ends_the_writer_without_a_file(room):
    store = FullStore(room)
    segment = writer(store, buffer_bytes=1)

    def run():
        for _ in range(3):
            segment.append(pa.table({"value": ["a"]}), 0)
        segment.finish()

    with pytest.raises(StoreFullError, match="no space left"):
        run()
    assert list(store.list("")) == []
    with pytest.raises(IllegalStateError, match="abandoned"):
        segment.finish()


# -- Bytes that are not the ones that were written --------------------------------------------------


@pytest.fixture
def small(store):
    times = pa.array([1, 2, 3], pa.timestamp("ms", "UTC"))
    rows = {"key": ["k", None, "l"], "value": ["a", "b", "c"], "timestamp": times}
    (entry,) = stage(store, (rows, np.array([0, 1, 1])))
    return entry


def test_every_flipped_byte_is_noticed(store, small):
    for batch in small.batches:
        data = bytearray(store.read(NAME, batch.position, batch.length).to_pybytes())
        decode_batch(pa.py_buffer(bytes(data)), small.file, batch, KAFKA)
        for position in range(len(data)):
            data[position] ^= 1 << position % 8
            with pytest.raises(CorruptRecordError, match="CRC32C"):
                decode_batch(pa.py_buffer(bytes(data)), small.file, batch, KAFKA)
            data[position] ^= 1 << position % 8


def test_flipped_bytes_with_a_matching_crc_never_crash(store, small):
    """What a faulty writer might have stored: garbage is refused, or is rows of the right columns."""
    (_, batch) = small.batches
    whole = store.read(NAME, batch.position, batch.length).to_pybytes()
    outcomes = set()
    for position in range(len(whole)):
        for flip in (0x01, 0x80, 0xFF):
            data = bytearray(whole)
            data[position] ^= flip
            forged = batch._replace(crc=google_crc32c.value(bytes(data)))
            try:
                table = decode_batch(pa.py_buffer(bytes(data)), small.file, forged, KAFKA)
            except CorruptRecordError:
                outcomes.add("refused")
            else:
                assert table.schema.equals(KAFKA.physical)
                assert table.num_rows == batch.count
                outcomes.add("read")
    assert outcomes == {"refused", "read"}


def test_a_truncated_file(store, small):
    whole = store.read(NAME).to_pybytes()
    last = small.batches[-1]
    for size in (last.position, last.position + 1, last.position + last.length - 1):
        store.overwrite(NAME, whole[:size])
        with pytest.raises(CorruptRecordError, match=f"only {size - last.position} of {last.length} bytes"):
            read_batch(store, small.file, last, KAFKA)


def test_bytes_beyond_the_batch_do_not_matter(store, small):
    whole = store.read(NAME).to_pybytes()
    first = small.batches[0]
    end = first.position + first.length
    store.overwrite(NAME, bytes(first.position) + whole[first.position : end] + b"garbage")
    assert read_batch(store, small.file, first, KAFKA)["value"].to_pylist() == [b"a"]


def test_an_error_names_file_range_and_context(store, small):
    batch = small.batches[0]
    place = rf"{NAME}.*bytes {batch.position} to {batch.position + batch.length} \(clicks-0 at offset 7\)"
    with pytest.raises(CorruptRecordError, match=place):
        read_batch(
            store, small.file, batch._replace(crc=batch.crc ^ 1), KAFKA, context="clicks-0 at offset 7"
        )


def test_an_index_row_that_does_not_fit(store, small):
    first, second = small.batches
    for wrong in (
        first._replace(count=2),
        second._replace(count=1),
        first._replace(position=first.position + 8),
        first._replace(length=first.length - 8),
        first._replace(length=first.length + second.length),
    ):
        with pytest.raises(CorruptRecordError):
            read_batch(store, small.file, wrong, KAFKA)


def test_several_batches_are_read_by_one_range(store, small):
    """Only the sums decide: a range over two runs is as good as one, if the index says so."""
    first, second = small.batches
    length = first.length + second.length
    crc = google_crc32c.value(store.read(NAME, first.position, length))
    both = first._replace(count=3, length=length, crc=crc)
    assert read_batch(store, small.file, both, KAFKA)["value"].to_pylist() == [b"a", b"b", b"c"]


def test_bytes_that_are_no_record_batches(small):
    for data in (b"", b"garbage!" * 4, b"\xff" * 64, KAFKA.physical.serialize().to_pybytes(), bytes(64)):
        forged = small.batches[0]._replace(position=0, length=len(data), crc=google_crc32c.value(data))
        with pytest.raises(CorruptRecordError):
            decode_batch(pa.py_buffer(data), small.file, forged, KAFKA)


def test_a_file_without_timestamps_needs_the_one_of_its_rows(store):
    (entry,) = stage(store, ({"value": ["a", "b"]}, 0))
    (batch,) = entry.batches
    with pytest.raises(CorruptRecordError, match="different timestamps"):
        read_batch(store, entry.file, batch._replace(min_timestamp_ms=NOW - 1), KAFKA)


def test_the_layout_of_another_version_is_refused(store, small):
    with pytest.raises(IllegalStateError, match=r"version 0.*version 3"):
        read_batch(store, small.file, small.batches[0], TYPED)


def test_a_file_that_is_gone(store, small):
    store.delete(NAME)
    with pytest.raises(ObjectNotFoundError, match=r"x\.arrow"):
        read_batch(store, small.file, small.batches[0], KAFKA)


def test_reading_copies_nothing(store):
    (entry,) = stage(store, ({"value": [b"x" * 10_000]}, 0))
    (batch,) = entry.batches
    data = store.read(NAME, batch.position, batch.length)
    values_buffer = decode_batch(data, entry.file, batch, KAFKA)["value"].chunk(0).buffers()[2]
    assert data.address <= values_buffer.address < data.address + data.size
