"""Files that an attacker has made, with checksums that fit: an error that names the file, in little memory, or rows.

Each program runs in a process of its own that may map little more than at its start. So a length, a count or a
compressed block that is believed ends it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corruption.damage import read_folder
from tests.corruption.test_decoders import linux, run_in_little_memory

GOLDEN = Path(__file__).parents[1] / "golden"

PROLOGUE = """
pa.set_memory_pool(pa.system_memory_pool())  # Others map a gigabyte before they need it.
from spark_eos.protocol.encoding.snapshots import decode_snapshot
from spark_eos.protocol.encoding.index_pages import decode_page
from tests.corruption.test_hostile_files import logs
HUGE = [
    b"\\xfe" * 4 + b"\\x0f", b"\\xfe" * 9 + b"\\x01", b"\\x80" * 5 + b"\\x01", b"\\xff" * 9 + b"\\x01",
    b"\\xfe\\xff\\x7f",
]
def spoiled(data):
    if chance.random() < 0.5:
        return sealed(mutated(data, chance))
    at = chance.randrange(HEADER, len(data))
    return sealed(data[:at] + chance.choice(HUGE) + data[at + 1 :])
def clear(decode, data, *more):
    try:
        return decode(data, *more, "the file")
    except (CorruptRecordError, UnsupportedVersionError) as error:
        assert "the file" in str(error), error
        assert "MemoryError" not in str(error), error
"""


def logs():
    """The golden logs of the newest versions."""
    return [read_folder(GOLDEN / version) for version in ("v5", "v7", "v8", "v9", "v11")]


@pytest.mark.deep
@linux
def test_encrypted_files() -> None:
    """Headers and chunks that lie about their lengths. Behind the first bytes, which say that a file is encrypted."""
    run_in_little_memory(
        PROLOGUE
        + """
from spark_eos.errors import EosLogError
from spark_eos.storage import MemoryStore
from spark_eos.storage.encryption import EncryptedStore
class Keys:
    def key(self, key_id):
        return b"1" * 32 if key_id == "one" else None
name, inner = "data/t/a.arrow", MemoryStore()
store = EncryptedStore(inner, Keys(), "one")
store.create(name, bytes(200_000))
stored = inner.read(name).to_pybytes()
store.read(name), store.size(name), store.read(name, 70_000, 10)
little(100 << 20)
refused = 0
for _ in range(EXAMPLES * 6):
    body = bytearray(stored)
    at = chance.randrange(6, 120 if chance.random() < 0.7 else len(body))
    if chance.random() < 0.5:
        body[at] ^= chance.randrange(1, 256)
    else:
        body[at:at + 1] = chance.choice(HUGE)
    inner.overwrite(name, bytes(body[: chance.choice([len(body), len(body), at + 1])]))
    store = EncryptedStore(inner, Keys(), "one")
    for read in (lambda: store.read(name), lambda: store.size(name), lambda: store.read(name, 70_000, 10)):
        try:
            read()
        except EosLogError as error:
            refused += 1
            assert name in str(error), error
            assert "MemoryError" not in str(error), error
assert refused > EXAMPLES * 6
""",
        seed=11,
    )


@linux
def test_snapshots() -> None:
    run_in_little_memory(
        PROLOGUE
        + """
snapshots = [
    (int(Path(name).stem), data)
    for files in logs() for name, data in files.items() if "/snapshots/" in name
]
assert len(snapshots) > 4
for seq, data in snapshots:
    decode_snapshot(data, seq, "x")
little(150 << 20)
for _ in range(EXAMPLES * 6):
    seq, data = chance.choice(snapshots)
    clear(decode_snapshot, spoiled(data), seq)
""",
        3,
    )


@linux
def test_index_pages() -> None:
    run_in_little_memory(
        PROLOGUE
        + """
from spark_eos.protocol.index import IndexPage, Measures
pages = []
for files in logs():
    for name, data in files.items():
        if "/index/" in name:
            topic, number, stem = Path(name).parts[-3:]
            level, base, end, crc = Path(stem).stem.split("-")
            of = (topic, int(number)), int(level), int(base), int(end), 1
            pages.append((of, data))
            decode_page(data, IndexPage(*of, Measures(*[0] * (len(Measures._fields) - 1), int(crc, 16))), "x")
assert len(pages) > 3
little(150 << 20)
for _ in range(EXAMPLES * 6):
    of, data = chance.choice(pages)
    bad = spoiled(data)
    page = IndexPage(*of, Measures(*[0] * (len(Measures._fields) - 1), crc32c(bad[HEADER:])))
    clear(decode_page, bad, page)
""",
        4,
    )


@pytest.mark.deep
@linux
def test_parquet_files() -> None:
    """Footers and row groups, both with checksums that fit."""
    run_in_little_memory(
        PROLOGUE
        + """
from spark_eos.log.data.parquet.reader import forget_footers, read_group
from spark_eos.log.log import Log
from spark_eos.log.topics import layout_of
from tests.corruption.damage import FilesStore
files = logs()[-1]
log = Log.open(FilesStore(files, {}))
groups = []
for topic in log.state.topics.values():
    for number in range(topic.partitions):
        for row in log.state.partitions[topic.topic_id, number].index.scan(0, log.load):
            if row.file is not None and row.file.is_parquet:
                layout = layout_of(topic, row.file.schema_version)
                read_group(FilesStore(files, {}), row.file, row.batch, layout)
                groups.append((row.file, row.batch, layout))
assert len(groups) > 5
little(200 << 20)
for number in range(EXAMPLES * 6):
    file, batch, layout = chance.choice(groups)
    data = bytearray(files[file.name])
    start, end = (len(data) - file.footer, len(data)) if number % 2 else (batch.position, batch.position + batch.length)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(start, end)
        new = chance.choice([bytes([chance.randrange(256)]), *HUGE])[: end - at]
        data[at : at + len(new)] = new
    file = file._replace(footer_crc=crc32c(bytes(data[len(data) - file.footer :])))
    batch = batch._replace(crc=crc32c(bytes(data[batch.position : batch.position + batch.length])))
    forget_footers()
    try:
        read_group(FilesStore({file.name: bytes(data)}, {}), file, batch, layout)
    except CorruptRecordError as error:
        assert file.name in str(error), error
""",
        5,
    )


@pytest.mark.deep
@linux
def test_bombs() -> None:
    """A few kilobytes that say, or are, gigabytes when they are decompressed: an error with the file's name."""
    run_in_little_memory(
        PROLOGUE
        + """
import io, os, struct, tempfile
import pyarrow.parquet as pq
from spark_eos.log.data.layout import Layout
from spark_eos.log.data.parquet.columns import stored_schema
from spark_eos.log.data.parquet.reader import read_group
from spark_eos.log.data.reader import read_batch
from spark_eos.protocol.types import BatchRef, FileRef
from spark_eos.storage import PosixStore

layout = Layout.kafka()
rows, width = 4, 50 << 20
store = PosixStore(tempfile.mkdtemp())

def table(schema):
    filled = {"value": [bytes(width)] * rows, "timestamp": [0] * rows, "partition": [0] * rows, "offset": range(rows)}
    return pa.table(
        [pa.array(filled[name], schema.field(name).type) if name in filled else pa.nulls(rows, schema.field(name).type)
         for name in schema.names], schema)

def message(codec):
    sink = io.BytesIO()
    schema = layout.stored((), offsets=False)
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, schema, options=options) as out:
        at = sink.tell()
        out.write_table(table(schema))
    return sink.getvalue()[at:-8]

def make():
    for codec, magic in ("lz4", b"\\x04\\x22\\x4d\\x18"), ("zstd", b"\\x28\\xb5\\x2f\\xfd"):
        data = message(codec)
        assert len(data) < 4 << 20
        store.create(f"{codec}.arrow", data)
        # And ones that say more than there is: the uncompressed length is in front of each buffer.
        told = struct.pack("<q", rows * width) + magic
        assert data.count(told) == 1
        for length in (1 << 40, 1 << 62, -2, -(1 << 62)):
            store.create(f"{codec}-{length}.arrow", data.replace(told, struct.pack("<q", length) + magic))
    for codec in ("snappy", "zstd", "lz4", "gzip"):
        sink = io.BytesIO()
        pq.write_table(table(stored_schema(layout)), sink, compression=codec, use_dictionary=False)
        store.create(f"{codec}.parquet", sink.getvalue())

# Another process makes them, so that this one has never had the memory that they take.
child = os.fork()
if not child:
    done = 1
    try:
        make()
        done = 0
    finally:
        os._exit(done)
assert os.waitpid(child, 0)[1] == 0
tests = []
for name in sorted(info.name for info in store.list("")):
    data = store.read(name).to_pybytes()
    file, batch = FileRef(name, len(data), 0), BatchRef(0, rows, 0, len(data), crc32c(data), 0, 0, -1)
    if name.endswith(".parquet"):
        footer = int.from_bytes(data[-8:-4], "little") + 8
        pq.ParquetFile(io.BytesIO(data))
        first, end = 4, len(data) - footer
        batch = batch._replace(position=first, length=end - first, crc=crc32c(data[first:end]))
        file = file._replace(footer=footer, footer_crc=crc32c(data[-footer:]))
    tests.append((file, batch))
assert len(tests) == 14
little(100 << 20)
for file, batch in tests:
    try:
        read_batch(store, file, batch, layout)
    except CorruptRecordError as error:
        assert file.name in str(error), error
    else:
        raise AssertionError(f"{file.name} was read")
""",
        6,
    )


@linux
def test_avro_values() -> None:
    """Values of a few bytes that stand for a trillion items, or for more levels than the stack has."""
    run_in_little_memory(
        """
import json
from spark_eos.log.values.codec import codec_for
from spark_eos.log.values.settings import ValueSettings

def record(type_):
    return json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": type_}]})

empty = {"type": "array", "items": "null"}
nothing = {"type": "array", "items": {"type": "record", "name": "n", "fields": [{"name": "x", "type": "null"}]}}
trillion = b"\\x80" * 5 + b"\\x40" + b"\\0"
hostile = [
    (record(empty), trillion, "take no bytes"),
    (record({"type": "map", "values": empty}), b"\\2\\2k" + trillion + b"\\0", "take no bytes"),
    (record(nothing), trillion, "take no bytes"),
    (record(["null", "r"]), b"\\2" * 100_000 + b"\\0", "nested too deeply"),
    (record({"type": "array", "items": "r"}), b"\\2" * 100_000, "nested too deeply"),
    (record({"type": "array", "items": "long"}), trillion, "no value of its Avro schema"),
    (record("bytes"), b"\\xfe" * 9 + b"\\x01", "no value of its Avro schema"),
]
codecs = [(codec_for(ValueSettings("t", "avro", schema)), data, words) for schema, data, words in hostile]
codecs[3][0].decode(b"\\0")
little(200 << 20)
for codec, data, words in codecs:
    try:
        codec.decode(data)
    except ValueError as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
# What is not hostile is read, by either reader.
chain = codecs[3][0]
for depth in (3, 900):
    found = chain.decode(b"\\2" * depth + b"\\0")
    while found["a"] is not None:
        found, depth = found["a"], depth - 1
    assert not depth
long = codec_for(ValueSettings("t", "avro", json.dumps({"type": "record", "name": "r", "fields": [
    {"name": "text", "type": "string"}, {"name": "next", "type": ["null", "r"]}]})))
value = {"text": "x" * 5000, "next": {"text": "y", "next": None}}
assert long.decode(long.encode(value)) == value
""",
        7,
    )
