"""Parquet files of the log: every type makes the round trip, other programs read them, and damage is named."""

from __future__ import annotations

import io
from decimal import Decimal

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from immutables import Map

from spark_eos.config.compression import Compression
from spark_eos.errors import CorruptRecordError, IllegalStateError, SchemaMismatchError
from spark_eos.log.data.layout import Layout
from spark_eos.log.data.parquet import reader
from spark_eos.log.data.parquet.columns import bounded_leaves, leaves, stored_schema
from spark_eos.log.data.parquet.writer import ParquetFileWriter, ParquetOptions
from spark_eos.log.data.planner import Fetch
from spark_eos.log.data.reader import read_batch
from spark_eos.log.data.records import read
from spark_eos.protocol.state import Topic
from spark_eos.storage.memory import MemoryStore
from tests.log.test_hostile_files import COLUMNS

NUMBERS = [1, None, 3, -4, 5]
ELSE = {
    "int8": pa.array(NUMBERS, pa.int8()),
    "int16": pa.array(NUMBERS, pa.int16()),
    "int32": pa.array(NUMBERS, pa.int32()),
    "float": pa.array([float("nan"), None, -0.0, float("-inf"), 1e-45], pa.float32()),
    "double": pa.array([float("nan"), None, -0.0, float("inf"), 5e-324], pa.float64()),
    "local": pa.array(NUMBERS, pa.timestamp("us")),
    "duration": pa.array(NUMBERS, pa.duration("us")),
    "spans": pa.array([[(7, 1)], None, [], [(8, None), (9, 2)], []], pa.map_(pa.duration("us"), pa.int64())),
    "wide": pa.array(
        [None if n is None else Decimal(10) ** 37 * n for n in [1, None, 3, -4, 5]], pa.decimal128(38, 0)
    ),
    "a.b": pa.array(["x", None, "", "y", "z"]),
    "a": pa.array([{"b": 1}, None, {"b": None}, {"b": 4}, {"b": 5}], pa.struct([("b", pa.int64())])),
    "deep": pa.array(
        [[("k", [{"d": 7, "m": [(1, None)]}, None])], None, [], [("k", None)], [("k", [])]],
        pa.map_(
            pa.string(),
            pa.list_(pa.struct([("d", pa.duration("us")), ("m", pa.map_(pa.int32(), pa.duration("us")))])),
        ),
    ),
}
TABLE = pa.table({**COLUMNS, **ELSE})
TYPED = Layout.typed(TABLE.schema, 1)
KAFKA = Layout.kafka()
SPARSE = np.array([7, 8, 9, 300, 2**40])
TIMES = [1_700_000_000_000, 1_700_000_000_001, -62_135_596_800_000, 0, 253_402_300_799_999]


def rows_of(layout: Layout, columns: dict[str, pa.Array]) -> pa.Table:
    times = pa.array(TIMES, pa.timestamp("ms", "UTC"))
    arrays = [
        times if field.name == layout.timestamp_column else columns[field.name].cast(field.type)
        for field in layout.physical
    ]
    return pa.Table.from_arrays(arrays, schema=layout.physical)


ROWS = rows_of(TYPED, {name: TABLE.column(name).combine_chunks() for name in TABLE.schema.names})
KAFKA_ROWS = rows_of(
    KAFKA,
    {
        "key": pa.array([b"k", None, b"", b"\xff", b"k"]),
        "value": pa.array([b"v", None, b"", b"\0", b"v" * 99]),
        "headers": pa.array(
            [
                [{"key": "h", "value": b"x"}, {"key": "h", "value": None}],
                None,
                [],
                [{"key": "", "value": b""}],
                None,
            ],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        ),
    },
)


PLAIN = ParquetOptions()


def written(layout=TYPED, rows=ROWS, offsets=SPARSE, options=PLAIN, *, groups=2, offsets_given=True):
    store = MemoryStore()
    out = ParquetFileWriter(
        store, "tables/t-id/_segments/3/0-x.parquet", layout, 3, options, offsets=offsets_given
    )
    for number in range(groups):
        out.append(rows, offsets + number * 2**41, (min(TIMES), max(TIMES)))
    return store, *out.close()


@pytest.fixture(autouse=True)
def _no_footers(monkeypatch):
    """Files of several tests have one name."""
    monkeypatch.setattr(reader, "_FOOTERS", reader._Footers())


@pytest.mark.parametrize(("layout", "rows"), [(TYPED, ROWS), (KAFKA, KAFKA_ROWS)], ids=["typed", "kafka"])
@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_every_type_makes_the_round_trip(layout, rows, codec):
    store, file, batches = written(layout, rows, options=ParquetOptions(Compression.of(codec)))
    assert file.is_parquet
    for number, batch in enumerate(batches):
        found = read_batch(store, file, batch, layout)
        assert found.column(0).to_pylist() == (SPARSE + number * 2**41).tolist()
        assert found.remove_column(0).schema == layout.physical
        # repr: NaN and -0.0 are themselves.
        assert repr(found.remove_column(0).to_pylist()) == repr(rows.to_pylist())


def test_consecutive_offsets_are_not_read():
    store, file, (batch, _) = written(offsets=np.arange(5), offsets_given=False)
    table = read_batch(store, file, batch, TYPED)
    assert table.schema.names == TYPED.physical.names
    assert repr(table.to_pylist()) == repr(ROWS.to_pylist())


def test_only_what_is_wanted_is_decoded():
    store, file, (batch, _) = written()
    table = read_batch(store, file, batch, TYPED, columns=("a", "number", "no such column"))
    assert table.schema.names == ["_offset", "number", "a"]
    table = read_batch(store, file, batch, TYPED, columns=())
    assert (table.schema.names, table.num_rows) == (["_offset", "_timestamp"], 5)
    read_groups = []
    original = reader._read

    def noted(*args):
        read_groups.append(args[-1])
        return original(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_read", noted)
        read_batch(store, file, batch, TYPED, columns=("text",))
    assert read_groups == [["_offset", "text"]]


def test_a_fetch_gives_the_rows_of_its_offsets():
    store, file, (_, batch) = written(KAFKA, KAFKA_ROWS)
    topic = Topic("t", "id", 4, Map(), ())
    base = 2**41 + 7
    whole = Fetch("t", 3, base, 2**41, 0, file, batch)
    assert read(store, topic, whole).offsets.tolist() == (SPARSE + 2**41).tolist()
    some = whole._replace(offset=base + 2, skip=2, count=299)
    found = read(store, topic, some)
    assert found.offsets.tolist() == [base + 2, base + 293]
    assert found.table.equals(KAFKA_ROWS.slice(2, 2))
    part = read(store, topic, whole.take(1, 3), ("value",))
    assert (part.offsets.tolist(), part.column("value").to_pylist()) == (
        (SPARSE + 2**41).tolist()[1:4],
        [None, b"", b"\0"],
    )
    smaller = read(store, topic, whole.take(1, 3).take(1, 2))
    assert smaller.offsets.tolist() == (SPARSE + 2**41).tolist()[2:4]


def test_other_programs_see_rows_with_their_places():
    for layout, rows in ((TYPED, ROWS), (KAFKA, KAFKA_ROWS)):
        store, file, batches = written(layout, rows)
        data = store.read(file.name)
        table = pq.read_table(io.BytesIO(data))
        assert table.schema.equals(stored_schema(layout))
        assert table.column("_partition" if layout is TYPED else "partition").unique().to_pylist() == [3]
        assert (
            table.slice(5).column("_offset" if layout is TYPED else "offset").to_pylist()
            == (SPARSE + 2**41).tolist()
        )
        metadata = pq.ParquetFile(io.BytesIO(data)).metadata
        assert metadata.num_row_groups == len(batches) == 2
        group = metadata.row_group(1)
        columns = [group.column(n) for n in range(group.num_columns)]
        assert [one.path_in_schema for one in columns] == leaves(stored_schema(layout))
        assert sum(one.total_compressed_size for one in columns) == batches[1].length
        bounded = [one.path_in_schema for one in columns if one.statistics is not None]
        assert bounded == bounded_leaves(stored_schema(layout))
        rising = [one for one in columns if "DELTA_BINARY_PACKED" in one.encodings]
        assert {one.path_in_schema.strip("_") for one in rising} == {"offset", "timestamp"}
        # Iceberg's add_files takes no files that number their fields.
        assert "PARQUET:field_id" not in str(table.schema.field(0).metadata)


@pytest.mark.skipif(
    int(pa.__version__.partition(".")[0]) < 24, reason="pyarrow writes bloom filters since 24"
)
def test_bloom_filters_are_part_of_what_is_checked():
    _, file, batches = written(options=ParquetOptions(bloom=("text", "list")))
    plain = written()[1]
    assert file.footer > plain.footer
    assert file.size == batches[-1].position + batches[-1].length + file.footer


@pytest.mark.parametrize(
    ("type_", "says"),
    [
        (pa.struct([]), "column 'x' is a struct without fields"),
        (pa.list_(pa.struct([("y", pa.struct([]))])), "column 'x.element.y' is a struct without fields"),
        (pa.decimal128(5, -2), r"column 'x' is a decimal128\(5, -2\), whose scale is not from 0 to 5"),
    ],
)
def test_what_parquet_does_not_have_is_refused(type_, says):
    layout = Layout.typed(pa.schema([("w", pa.int64()), ("x", type_)]), 1)
    with pytest.raises(SchemaMismatchError, match=says):
        ParquetFileWriter(MemoryStore(), "tables/t/0-x.parquet", layout, 0, ParquetOptions())


def test_a_decimal_may_have_nothing_before_its_point():
    layout = Layout.typed(pa.schema([("x", pa.decimal128(5, 5))]), 1)
    ParquetFileWriter(MemoryStore(), "tables/t/0-x.parquet", layout, 0, ParquetOptions())


def test_every_flipped_byte_is_named():
    store, file, batches = written(KAFKA, KAFKA_ROWS)
    whole = store.read(file.name).to_pybytes()
    ranges = [(one.position, one.position + one.length) for one in batches]
    ranges.append((file.size - file.footer, file.size))
    assert ranges[0][0] == 4  # All but the magic at the start, which other programs alone look at.
    assert [start for start, _ in ranges[1:]] == [end for _, end in ranges[:-1]]
    assert ranges[-1][1] == len(whole)
    for number, (start, end) in enumerate(ranges):
        for at in range(start, end, 7):
            data = bytearray(whole)
            data[at] ^= 1 << at % 8
            damaged = MemoryStore()
            damaged.create(file.name, bytes(data))
            reader._FOOTERS = reader._Footers()
            batch = batches[min(number, 1)]
            with pytest.raises(
                CorruptRecordError, match=rf"bytes {start} to {end} \(t-3, offset 7\): CRC32C is"
            ):
                read_batch(damaged, file, batch, KAFKA, context="t-3, offset 7")


def test_what_is_cut_off_is_named():
    store, file, (first, last) = written(KAFKA, KAFKA_ROWS)
    cut = MemoryStore()
    cut.create(file.name, store.read(file.name, 0, file.size - 9))
    with pytest.raises(CorruptRecordError, match=rf"only {file.footer - 9} of {file.footer} bytes"):
        read_batch(cut, file, first, KAFKA)
    beyond = last._replace(position=file.size - 10)
    with pytest.raises(CorruptRecordError, match=f"only 10 of {last.length} bytes"):
        read_batch(store, file, beyond, KAFKA)


def test_a_faulty_writers_file_is_named():
    """Its checksums are right, and its content is not what the index says."""
    store, file, (batch, _) = written(KAFKA, KAFKA_ROWS)
    with pytest.raises(CorruptRecordError, match="5 rows instead of 4"):
        read_batch(store, file, batch._replace(count=4), KAFKA)
    with pytest.raises(IllegalStateError, match="cannot be read with the layout of version 1"):
        read_batch(store, file, batch, TYPED)
    with pytest.raises(CorruptRecordError, match="not a row group of"):
        read_batch(store, file._replace(schema_version=1), batch, TYPED)
    body = bytes(batch.length)
    moved = batch._replace(
        position=5, crc=google_crc32c.value(store.read(file.name, 5, batch.length).to_pybytes())
    )
    with pytest.raises(CorruptRecordError, match="not a row group of"):
        read_batch(store, file, moved, KAFKA)
    for forged in (b"PAR1" * 3, bytes(file.footer)):
        other = MemoryStore()
        other.create(file.name, body + forged)
        lie = file._replace(
            size=len(body + forged), footer=len(forged), footer_crc=google_crc32c.value(forged)
        )
        with pytest.raises(CorruptRecordError, match="not the footer of a Parquet file"):
            read_batch(other, lie, batch, KAFKA)


def test_a_footer_is_read_once():
    store, file, (first, last) = written(KAFKA, KAFKA_ROWS)
    reads = []

    class Noted:
        def read(self, name, offset=0, length=None):
            reads.append((offset, length))
            return store.read(name, offset, length)

    for batch in (first, last, first):
        read_batch(Noted(), file, batch, KAFKA)
    assert reads == [
        (file.size - file.footer, file.footer),
        *[(one.position, one.length) for one in (first, last, first)],
    ]


def test_floating_point_numbers_have_no_bounds():
    """NaN is not in Parquet's bounds, and larger than all numbers for Spark, which would pass over its rows."""
    schema = pa.schema([("n", pa.int64()), ("x", pa.float64()), ("s", pa.struct([("y", pa.float32())]))])
    assert bounded_leaves(schema) == ["n"]
