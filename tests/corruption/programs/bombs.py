"""Files of a few kilobytes that say, or are, gigabytes when they are decompressed: an error that names the file."""

import io
import os
import struct
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq
from google_crc32c import value as crc32c

from spark_eos.errors import CorruptRecordError
from spark_eos.log.data.layout import Layout
from spark_eos.log.data.parquet.columns import stored_schema
from spark_eos.log.data.reader import read_batch
from spark_eos.protocol.types import BatchRef, FileRef
from spark_eos.storage import PosixStore
from tests.corruption.hostile import little

LAYOUT = Layout.kafka()
ROWS, WIDTH = 4, 50 << 20
store = PosixStore(tempfile.mkdtemp())


def table(schema):
    filled = {
        "value": [bytes(WIDTH)] * ROWS,
        "timestamp": [0] * ROWS,
        "partition": [0] * ROWS,
        "offset": range(ROWS),
    }
    return pa.table(
        [
            pa.array(filled[field.name], field.type) if field.name in filled else pa.nulls(ROWS, field.type)
            for field in schema
        ],
        schema,
    )


def message(codec):
    sink = io.BytesIO()
    schema = LAYOUT.stored((), offsets=False)
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as out:
        at = sink.tell()
        out.write_table(table(schema))
    return sink.getvalue()[at:-8]


def make():
    for codec, magic in ("lz4", b"\x04\x22\x4d\x18"), ("zstd", b"\x28\xb5\x2f\xfd"):
        data = message(codec)
        assert len(data) < 4 << 20
        store.create(f"{codec}.arrow", data)
        # And ones that say more than there is: the uncompressed length is in front of each buffer.
        told = struct.pack("<q", ROWS * WIDTH) + magic
        assert data.count(told) == 1
        for length in (1 << 40, 1 << 62, -2, -(1 << 62)):
            store.create(f"{codec}-{length}.arrow", data.replace(told, struct.pack("<q", length) + magic))
    for codec in ("snappy", "zstd", "lz4", "gzip"):
        sink = io.BytesIO()
        pq.write_table(table(stored_schema(LAYOUT)), sink, compression=codec, use_dictionary=False)
        store.create(f"{codec}.parquet", sink.getvalue())


def made_elsewhere():
    """Another process makes them, so that this one has never had the memory that they take."""
    child = os.fork()
    if not child:
        done = 1
        try:
            make()
            done = 0
        finally:
            os._exit(done)
    assert os.waitpid(child, 0)[1] == 0
    for name in sorted(info.name for info in store.list("")):
        data = store.read(name).to_pybytes()
        file, batch = FileRef(name, len(data), 0), BatchRef(0, ROWS, 0, len(data), crc32c(data), 0, 0, -1)
        if name.endswith(".parquet"):
            footer = int.from_bytes(data[-8:-4], "little") + 8
            pq.ParquetFile(io.BytesIO(data))
            first, end = 4, len(data) - footer
            batch = batch._replace(position=first, length=end - first, crc=crc32c(data[first:end]))
            file = file._replace(footer=footer, footer_crc=crc32c(data[-footer:]))
        yield file, batch


bombs = list(made_elsewhere())
assert len(bombs) == 14
little(100 << 20)
for file, batch in bombs:
    try:
        read_batch(store, file, batch, LAYOUT)
    except CorruptRecordError as error:
        assert file.name in str(error), error
    else:
        raise AssertionError(f"{file.name} was read")
