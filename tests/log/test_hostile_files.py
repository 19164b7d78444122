"""Files whose CRC is right and whose content is a lie, as only a faulty writer makes them: named, and never a crash."""

from __future__ import annotations

from decimal import Decimal

import google_crc32c
import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import CorruptRecordError, InvalidRecordError
from spark_eos.log.data.convert import RowConverter
from spark_eos.log.data.layout import Layout
from spark_eos.log.data.reader import decode_batch
from spark_eos.log.log import Log
from spark_eos.protocol.types import BatchRef, FileRef
from tests.starting import run
from tests.tiers import is_quick

T0 = TopicPartition("t", 0)
TEXTS = ["a" * 40, "", None, "bcd", "é" * 9]
NUMBERS = [1, None, 3, 4, 5]

COLUMNS = {
    "text": pa.array(TEXTS, pa.string()),
    "bytes": pa.array([one and one.encode() for one in TEXTS], pa.binary()),
    "number": pa.array(NUMBERS, pa.int64()),
    "flag": pa.array([True, None, False, True, True]),
    "amount": pa.array([None if one is None else Decimal(one) for one in NUMBERS], pa.decimal128(10, 2)),
    "day": pa.array(NUMBERS, pa.int32()).view(pa.date32()),
    "at": pa.array(NUMBERS, pa.int64()).view(pa.timestamp("us", "UTC")),
    "time": pa.array(NUMBERS, pa.int64()).view(pa.time64("ns")),
    "list": pa.array([["x", None], [], None, ["yy"], ["z"] * 9], pa.list_(pa.field("element", pa.string()))),
    "struct": pa.array(
        [{"a": one, "b": 7} for one in TEXTS], pa.struct([("a", pa.string()), ("b", pa.int32())])
    ),
    "map": pa.array([[("k", 1)], [], None, [("l", None), ("m", 2)], []], pa.map_(pa.string(), pa.int64())),
}
TABLE = pa.table(COLUMNS)
LAYOUT = Layout.typed(TABLE.schema, 1)


def body(compression: str | None = None) -> bytearray:
    """The bytes of a batch: one record batch, as the log writes it."""
    columns = [TABLE.column(name).combine_chunks() for name in COLUMNS] + [
        pa.array([1] * 5, pa.timestamp("ms", "UTC"))
    ]
    columns = [array.cast(field.type) for array, field in zip(columns, LAYOUT.physical, strict=True)]
    batch = pa.record_batch(columns, schema=LAYOUT.physical)
    options = pa.ipc.IpcWriteOptions(compression=compression)
    return bytearray(batch.serialize() if compression is None else _written(batch, options))


def _written(batch: pa.RecordBatch, options: pa.ipc.IpcWriteOptions) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
        end = sink.tell()
    return sink.getvalue().to_pybytes()[batch.schema.serialize().size : end]


def decoded(data: bytes) -> pa.Table:
    """As a reader does, with the CRC that a writer of these bytes gives."""
    file = FileRef("data/t-id/00000000000000000001-x.arrow", len(data), 1)
    batch = BatchRef(0, 5, 0, len(data), google_crc32c.value(bytes(data)), 1, 1)
    return decode_batch(pa.py_buffer(bytes(data)), file, batch, LAYOUT, context="t-0, offset 0")


def test_what_is_written_is_read():
    for compression in (None, "lz4", "zstd"):
        assert decoded(body(compression)).num_rows == 5


def test_offsets_that_point_outside():
    """They killed the reader with SIGSEGV."""
    data = body()
    at = data.find((40).to_bytes(4, "little") * 2)  # where the second text begins and ends
    data[at : at + 4] = (1 << 30).to_bytes(4, "little")
    with pytest.raises(CorruptRecordError, match=r"-x.arrow', bytes 0 to \d+ \(t-0, offset 0\)"):
        decoded(data)


def test_text_that_is_none():
    data = body()
    at = data.find(b"a" * 40)
    data[at] = 0xFF
    with pytest.raises(CorruptRecordError, match="UTF8"):
        decoded(data)


def test_any_bytes_with_the_right_checksum():
    """In a process of its own: before offsets were checked it died in the first hundred."""
    assert int(run("log/decodes_edited_batches", 1, 400 if is_quick() else 1500).stdout) > 100


# -- Values that a reader could not show ------------------------------------------------------------------

TOO_LATE = pa.array([1 << 62], pa.int64()).view(pa.timestamp("us", "UTC"))
TIMES = {
    "late": TOO_LATE,
    "early": pa.array([-62_135_596_800_000_001], pa.int64()).view(pa.timestamp("us", "UTC")),
    "plain": pa.array([253_402_300_800_000_000], pa.int64()).view(pa.timestamp("us")),
    "day": pa.array([2_932_897], pa.int32()).view(pa.date32()),
    "first day": pa.array([-719_163], pa.int32()).view(pa.date32()),
    "list": pa.ListArray.from_arrays([0, 1], TOO_LATE),
    "struct": pa.StructArray.from_arrays([TOO_LATE], ["a"]),
    "map": pa.MapArray.from_arrays([0, 1], pa.array(["k"]), TOO_LATE),
    "maps in a list": pa.ListArray.from_arrays(
        [0, 1], pa.MapArray.from_arrays([0, 1], pa.array(["k"]), TOO_LATE)
    ),
    "time": pa.array([86_400 * 10**9], pa.int64()).view(pa.time64("ns")),
    "decimal": pa.Array.from_buffers(
        pa.decimal128(5, 2), 1, [None, pa.py_buffer((10**20).to_bytes(16, "little"))]
    ),
    "text": pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\x00\x00\x00\x00\x01\x00\x00\x00"), pa.py_buffer(b"\xff")]
    ),
}


def sent(producer: Producer, rows: pa.Table) -> None:
    future = producer.send_arrow("t", rows)
    producer.flush()
    future.result(60)


@pytest.mark.parametrize("name", TIMES)
def test_what_no_reader_could_show_is_refused(tmp_path, name):
    rows = pa.table({"id": pa.array([7]), "x": TIMES[name]})
    Admin(tmp_path).create_topic("t", schema=pa.schema([("id", pa.int64()), ("x", TIMES[name].type)]))
    with Producer(tmp_path) as producer:
        with pytest.raises(InvalidRecordError, match="topic 't'"):
            sent(producer, rows)
        producer.send_arrow("t", pa.table({"id": pa.array([8]), "x": pa.nulls(1, TIMES[name].type)}))
        producer.flush()
    with Consumer(tmp_path, {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([T0])
        assert [record.value["id"] for record in consumer.poll(0)] == [8]


def test_the_first_and_the_last_time_are_kept(tmp_path):
    kept = pa.array([-62_135_596_800_000_000, 253_402_300_799_999_999], pa.int64()).view(
        pa.timestamp("us", "UTC")
    )
    days = pa.array([-719_162, 2_932_896], pa.int32()).view(pa.date32())
    rows = pa.table({"x": kept, "day": days})
    Admin(tmp_path).create_topic("t", schema=rows.schema)
    with Producer(tmp_path) as producer:
        producer.send_arrow("t", rows)
    with Consumer(tmp_path, {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([T0])
        assert [record.value["x"].year for record in consumer.poll(0)] == [1, 9999]


def test_a_time_that_an_earlier_version_took_stops_nobody(tmp_path, monkeypatch):
    """Its offset is named, and a consumer can seek past it; Arrow readers have it as it is."""
    nothing = pa.nulls(1, TOO_LATE.type)
    rows = pa.table({"id": pa.array([2, 1, 3]), "at": pa.concat_arrays([nothing, TOO_LATE, nothing])})
    Admin(tmp_path).create_topic("t", schema=rows.schema)
    with monkeypatch.context() as patch:
        patch.setattr("spark_eos.log.data.convert.outside", lambda _array: None)
        with Producer(tmp_path) as producer:
            producer.send_arrow("t", rows)
    with Consumer(tmp_path, {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([T0])
        for _ in range(2):
            with pytest.raises(CorruptRecordError, match=r"t-0, offset 1: .* column 'at'.* seek to offset 2"):
                consumer.poll(0)
        assert consumer.poll(0, max_records=1)[0].value["id"] == 2
        consumer.seek(T0, 2)
        assert [record.value["id"] for record in consumer.poll(0)] == [3]
        consumer.seek(T0, 0)
        assert consumer.poll_arrow(0).column("id").to_pylist() == [2, 1, 3]


# -- Keys --------------------------------------------------------------------------------------------------

KEYS = {
    "times": (TOO_LATE.type, [1 << 62, 5, 1 << 62, 6]),
    "days": (pa.date32(), [2**31 - 1, 5, 2**31 - 1, 6]),
    "numbers": (pa.int64(), [1, 2, 1, 3]),
    "floats": (pa.float64(), [0.0, -0.0, 0.0, float("nan")]),
    "texts": (pa.string(), ["1", "2", "1", "3"]),
    "flags": (pa.bool_(), [True, None, True, False]),
    "lists": (pa.list_(pa.field("element", pa.string())), [["a", "b"], ["ab"], ["a", "b"], ["a", None, "b"]]),
    "structs": (
        pa.struct([("a", pa.string()), ("b", pa.string())]),
        [
            {"a": "x", "b": "y"},
            {"a": "xy", "b": ""},
            {"a": "x", "b": "y"},
            {"a": "xy", "b": None},
        ],
    ),
    "decimals": (pa.decimal128(10, 2), [Decimal(1), Decimal(2), Decimal(1), None]),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_are_compared_as_bytes(name):
    from spark_eos.log.data.records import Records
    from spark_eos.maintenance.cleaner import keys_of

    type_, values = KEYS[name]
    plain = {"times": pa.int64(), "days": pa.int32()}.get(name)
    array = pa.array(values, type_) if plain is None else pa.array(values, plain).view(type_)
    found = keys_of(Records(pa.table({"k": array}), 0), ("k",), ())
    assert found.hashes[0] == found.hashes[2]
    assert len({*found.hashes.tolist()}) == 3
    again = keys_of(Records(pa.table({"k": array.slice(1)}), 0), ("k",), ())
    assert [*again.hashes] == [*found.hashes[1:]]


def test_an_intake_believes_no_buffers():
    offsets = pa.py_buffer(b"".join(one.to_bytes(4, "little") for one in (0, 1 << 30, 3)))
    lying = pa.Array.from_buffers(pa.binary(), 2, [None, offsets, pa.py_buffer(b"abc")])
    with pytest.raises(InvalidRecordError, match="not what their Arrow types say"):
        RowConverter("t", Layout.kafka(), now_ms=1).convert(pa.record_batch({"value": lying}))


def test_a_log_of_others_goes_on(tmp_path):
    """A topic with a file that lies stops its own readers and no others."""
    log = Log.create(tmp_path)
    log.ensure_topics(["t", "u"])
    with Producer(tmp_path) as producer:
        producer.send("t", b"a" * 100, partition=0)
        producer.send("u", b"b", partition=0)
        producer.flush()
        (file,) = [row.file for row in log.follow().partitions[log.topic("t").topic_id, 0].index.scan(0)]
        (tmp_path / file.name).write_bytes(b"\0" * file.size)
        producer.send("u", b"c", partition=0)
    with Consumer(tmp_path, {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("u", 0)])
        assert [record.value for record in consumer.poll(0)] == [b"b", b"c"]
