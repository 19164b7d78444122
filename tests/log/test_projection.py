"""Columns that are chosen: only these are decoded, and what no file stores is not read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_eos import Admin
from spark_eos.config.isolation import Isolation
from spark_eos.errors import CorruptRecordError
from spark_eos.log.data import reader, records
from spark_eos.log.data.planner import plan
from spark_eos.log.data.records import needs_file, read
from spark_eos.log.data.task_io import reading_ahead
from spark_eos.log.log import Log
from spark_eos.log.topics import layout_of, new_topic
from spark_eos.protocol.actions import AppendBatches
from spark_eos.protocol.types import NO_PRODUCER, TopicPartition
from spark_eos.storage import MemoryStore

AT = TopicPartition("t", 0)
TYPED = pa.schema([("n", pa.int64()), ("text", pa.string()), ("empty", pa.string())])


class Counting(MemoryStore):
    """Counts the bytes of data files that are read."""

    def __init__(self):
        super().__init__()
        self.data_bytes = 0

    def read(self, name, offset=0, length=None):
        found = super().read(name, offset, length)
        self.data_bytes += found.size if name.startswith("data/") else 0
        return found


@pytest.fixture
def store():
    return Counting()


def topic_with(store, rows, schema=None, **config):
    log = Log.create(store)
    log.commit(lambda _: (new_topic("t", config=config, schema=schema),))
    append(log, rows)
    return log


def append(log, rows):
    topic = log.topic("t")
    with log.stage(topic) as writer:
        writer.append(rows, np.zeros(rows.num_rows, np.int32))
        files = writer.finish()
    log.commit(lambda _: (AppendBatches(NO_PRODUCER, (("t", topic.topic_id),), files),))


def fetches(log):
    state = log.state
    partition = state.partitions[state.topics["t"].topic_id, 0]
    return plan(state, AT, partition.start, partition.end, Isolation.READ_COMMITTED, log.load)


@pytest.fixture(params=["", "zstd", "lz4"])
def large(store, request):
    """A typed topic with one batch that is larger than what is decoded as a whole."""
    rows = pa.table({"n": range(20_000), "text": [f"text {n}" for n in range(20_000)]})
    config = {"compression.type": request.param} if request.param else {}
    return topic_with(store, rows, TYPED, **config)


@pytest.mark.parametrize("columns", [("text",), ("n", "empty"), ("_timestamp", "text"), ("n", "text", "x")])
@pytest.mark.parametrize("small_rows", [0, 1 << 30])
def test_the_chosen_columns_are_those_of_the_whole(large, monkeypatch, columns, small_rows):
    """A small batch may have others, too."""
    monkeypatch.setattr(records, "SMALL_BYTES", 1 << 30)
    monkeypatch.setattr(records, "SMALL_ROWS", small_rows)
    topic = large.topic("t")
    (fetch,) = fetches(large)
    for part in (fetch, fetch.take(17, 1000)):
        whole, chosen = read(large.store, topic, part), read(large.store, topic, part, columns)
        wanted = [name for name in whole.table.schema.names if name in columns]
        assert chosen.table.select(wanted).equals(whole.table.select(wanted))
        assert chosen.offsets.tolist() == whole.offsets.tolist()
        if not small_rows:
            assert {*chosen.table.schema.names} & {"n", "text"} == {"n", "text"} & {*columns}


def test_other_columns_are_not_decompressed(store):
    rows = pa.table({"n": range(20_000), "text": ["x" * 2_000] * 20_000})
    log = topic_with(store, rows, TYPED, **{"compression.type": "zstd"})
    (fetch, *_) = fetches(log)
    before = pa.total_allocated_bytes()
    found = read(store, log.topic("t"), fetch, ("n",))
    assert found.table.schema.names == ["n"]
    assert pa.total_allocated_bytes() - before < fetch.count * 100


def test_what_no_file_stores_is_not_read(large):
    topic, (fetch,) = large.topic("t"), fetches(large)
    large.store.data_bytes = 0
    found = read(large.store, topic, fetch, ("_offset", "_partition"))
    assert (found.num_rows, found.offset(5)) == (20_000, 5)
    found = read(large.store, topic, fetch, ("empty", "_timestamp")).table
    assert found.column("empty").null_count == 20_000
    assert found.column("_timestamp")[0] == read(large.store, topic, fetch).column("_timestamp")[0]
    assert large.store.data_bytes == fetch.size
    assert not needs_file(topic, fetch, ("_offset",))
    assert needs_file(topic, fetch, ("n",))
    assert needs_file(topic, fetch, None)


def test_different_timestamps_are_read(store):
    times = pa.array([1_700_000_000_000, 1_700_000_000_001], pa.timestamp("ms", "UTC"))
    log = topic_with(store, pa.table({"value": [b"a", b"b"], "timestamp": times}))
    topic, (fetch,) = log.topic("t"), fetches(log)
    assert needs_file(topic, fetch, ("timestamp",))
    assert read(store, topic, fetch, ("timestamp",)).column("timestamp").to_pylist() == times.to_pylist()


def test_a_time_that_is_in_no_file_is_not_made_up(large):
    topic, (fetch,) = large.topic("t"), fetches(large)
    assert "_timestamp" in fetch.file.omitted
    lying = fetch._replace(batch=fetch.batch._replace(min_timestamp_ms=fetch.batch.min_timestamp_ms - 1))
    with pytest.raises(CorruptRecordError, match="different timestamps"):
        read(large.store, topic, lying, ("_timestamp",))


def test_rows_of_an_older_schema_are_read_whole(store):
    log = topic_with(store, pa.table({"n": [1, 2]}), TYPED)
    wider = TYPED.append(pa.field("new", pa.int32()))
    Admin(log).alter_topic("t", schema=wider)
    append(log, pa.table({"n": [3], "new": pa.array([7], pa.int32())}))
    topic = log.topic("t")
    assert len(topic.schemas) == 2
    found = [read(store, topic, fetch, ("new",)).column("new").to_pylist() for fetch in fetches(log)]
    assert found == [[None, None], [7]]


def test_damage_is_found_in_the_columns_that_are_not_read(large):
    topic, (fetch,) = large.topic("t"), fetches(large)
    data = bytearray(large.store.read(fetch.file.name, fetch.batch.position, fetch.size))
    data[-20] ^= 1
    with pytest.raises(CorruptRecordError, match="CRC32C"):
        reader.decode_batch(
            pa.py_buffer(bytes(data)), fetch.file, fetch.batch, layout_of(topic), columns=("n",)
        )


def test_only_what_is_read_is_read_ahead(large):
    """Of a store that is asked ahead, too."""
    for _ in range(3):
        append(large, pa.table({"n": range(10)}))
    topic, found = large.topic("t"), fetches(large)
    assert len(found) == 4
    large.store.requests_are_free = False
    for columns, read_bytes in ((("_offset",), 0), (("n",), sum(fetch.size for fetch in found))):
        large.store.data_bytes = 0
        with reading_ahead(large.store, {"t": topic}, found, columns) as read_one:
            offsets = [offset for one in found for offset in read_one(one).offsets.tolist()]
        assert offsets == [*range(20_030)]
        assert large.store.data_bytes == read_bytes
