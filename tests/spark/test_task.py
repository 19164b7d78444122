"""What a task of a write leaves behind when it fails, and what a checkpoint tells the log; without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pyarrow as pa
import pytest

from spark_eos.clients.admin import Admin
from spark_eos.clients.producer.producer import Producer
from spark_eos.errors import (
    ConfigError,
    InvalidRecordError,
    OffsetOutOfRangeError,
    SerializationError,
    StoreFullError,
)
from spark_eos.log.data.task_io import stage_rows
from spark_eos.log.log import Log
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.batch.job import BatchJob
from spark_eos.spark.host import Host, hosted
from spark_eos.spark.options import parse_sink
from spark_eos.spark.sink.checkpoint import Checkpoint, SourceRange, sources_of_batch
from spark_eos.spark.sink.source_progress import source_progress, unread
from spark_eos.spark.sink.task import TaskWriter
from spark_eos.spark.source.offsets import SourceOffset
from spark_eos.storage import MemoryStore
from spark_eos.testing import FaultyStore
from tests.maintenance.world import created


class SmallBuffers(NamedTuple):
    """A stage whose writers write at once what they are given next."""

    log: Log
    base_seq: int

    def writer(self, topic, **given):
        return stage_rows(self.log.store, topic, self.base_seq, buffer_bytes=1, **given)


def test_a_task_that_fails_leaves_no_file(bench):
    bench.topic("out")
    options = parse_sink({"path": bench.url, "checkpointLocation": "/nowhere"}, streaming=True)
    task = TaskWriter(options, SmallBuffers(bench.log, 1), None)
    rows = pa.record_batch({"topic": ["out"] * 2, "value": [b"a", b"b"]})
    bad = pa.record_batch({"topic": pa.array([None], pa.string()), "value": [b"c"]})
    begun, temporary = [], Path(bench.url, "_tmp")

    def batches():
        yield rows
        yield rows
        begun.extend(temporary.iterdir())
        yield bad

    with pytest.raises(InvalidRecordError, match="no topic"):
        task.write(batches())
    assert begun, "nothing was written before the bad row"
    assert list(temporary.iterdir()) == []
    assert bench.files("out") == set()


def test_a_file_that_cannot_be_finished_says_so_itself(bench):
    """Of several topics: the writer that has finished disturbs no other."""
    for topic in ("first", "second"):
        bench.topic(topic)
    store = FaultyStore(bench.log.store)
    log = Log.open(store)
    options = parse_sink({"path": bench.url, "checkpointLocation": "/nowhere"}, streaming=True)
    task = TaskWriter(options, SmallBuffers(log, 1), None)
    store.inject(StoreFullError("no space"), "upload", "data/second-*")
    with pytest.raises(StoreFullError, match="no space"):
        task.write([pa.record_batch({"topic": ["first", "second"], "value": [b"a", b"b"]})])


class Numbered(Host):
    """The host of the tasks of a stage, which read nothing."""

    number = 0

    def task(self):
        return SimpleNamespace(partitionId=lambda: self.number, getLocalProperty=lambda _name: None)


def test_a_row_that_cannot_be_encoded_is_named_by_its_number_in_the_task(bench):
    schema = {"type": "record", "name": "one", "fields": [{"name": "n", "type": "long"}]}
    Admin(bench.log).create_topic("t", config={"value.format": "avro", "value.schema": json.dumps(schema)})
    options = parse_sink({"path": bench.url, "topic": "t"}, streaming=False)
    task = TaskWriter(options, SmallBuffers(bench.log, 1), bench.log.topic("t"))
    with pytest.raises(SerializationError, match="row 3 of the rows that task 0 writes to topic 't'"):
        task.write([pa.record_batch({"n": [1, 2]}), pa.record_batch({"n": [3, None]})])


def test_tasks_with_a_row_each_begin_at_partitions_of_their_own(bench):
    """Those of the next micro-batch at others."""
    topic = bench.topic("t", 4)
    options = parse_sink({"path": bench.url, "topic": "t"}, streaming=False)
    placed, host = [], Numbered()
    with hosted(host):
        for base_seq, host.number in ((1, 0), (1, 1), (1, 2), (2, 0)):
            task = TaskWriter(options, SmallBuffers(bench.log, base_seq), topic)
            (file,) = task.write([pa.record_batch({"value": [b"v"]})]).files
            placed += [batch.partition for batch in file.batches]
    assert placed == [1, 2, 3, 2]


def test_offsets_of_another_log_are_not_committed_in_this_one(bench, checkpoint):
    log_id = bench.log.log_id
    (ours,) = source_progress(
        sources_of_batch(Checkpoint(str(checkpoint.path)), 1), log_id=log_id, group=None, default_group="q"
    )
    assert ours.group == "q"
    assert [at.offset for at in (*ours.start_offsets, *ours.end_offsets)] == [10, 20]
    (theirs,) = source_progress(
        sources_of_batch(Checkpoint(str(checkpoint.path)), 1), log_id="x", group=None, default_group="q"
    )
    assert (theirs.start, theirs.end) == (ours.start, ours.end)
    assert (theirs.group, theirs.start_offsets, theirs.end_offsets) == (None, (), ())


def test_the_first_batch_begins_where_the_source_says(bench, checkpoint):
    (first,) = source_progress(
        sources_of_batch(Checkpoint(str(checkpoint.path)), 0),
        log_id=bench.log.log_id,
        group="g",
        default_group="q",
    )
    assert first.group == "g"
    assert [at.offset for at in (*first.start_offsets, *first.end_offsets)] == [0, 10]


@pytest.mark.parametrize(
    ("of_source", "of_sink", "expected"),
    [("s", "g", "s"), ("s", None, "s"), (None, "g", "g"), (None, None, "q")],
)
def test_offsets_are_committed_for_the_source_s_own_group_first(bench, of_source, of_sink, expected):
    at = TopicPartition("src", 0)
    topic_ids = {"src": bench.topic("src").topic_id}
    end = SourceOffset(bench.log.log_id, topic_ids, {at: 3}, {at: 1}, "earliest", of_source)
    ranges = [SourceRange("orders", None, json.dumps(end.to_json_dict())), SourceRange("rates", "1", "2")]
    ours, other = source_progress(ranges, log_id=bench.log.log_id, group=of_sink, default_group="q")
    assert (ours.name, ours.group, other.name, other.group) == ("orders", expected, "rates", None)
    (left_out,) = source_progress(
        [unread(ranges[0])], log_id=bench.log.log_id, group=of_sink, default_group="q"
    )
    assert left_out.end_offsets == left_out.start_offsets == ours.start_offsets


def test_topics_that_rows_name_are_created_with_the_settings_of_the_options(bench):
    given = {"path": bench.url, "retention.ms": "5", "kafka.cleanup.policy": "compact", "num.partitions": "2"}
    rows = pa.record_batch({"topic": ["a", "b"], "key": [b"k", b"k"], "value": [b"1", b"2"]})
    TaskWriter(parse_sink(given, streaming=False), SmallBuffers(bench.log, 1), None).write([rows])
    for name in "ab":
        assert dict(bench.state.topics[name].config) == {"retention.ms": "5", "cleanup.policy": "compact"}
        assert bench.state.topics[name].partitions == 2
    given["retention.ms"] = "6"
    with pytest.raises(
        ConfigError, match=r"topic 'a' is there, with other settings .*retention\.ms=6: it has 5"
    ):
        TaskWriter(parse_sink(given, streaming=False), SmallBuffers(bench.log, 1), None).write([rows])


@pytest.fixture
def held_log():
    """A log whose topic t has an open transaction at offset 0, and a committed record behind it."""
    log = created(MemoryStore())
    dead = Producer(log, {"transactional.id": "dead", "transaction.timeout.ms": 60_000})
    dead.init_transactions()
    dead.begin_transaction()
    dead.send("t", b"x")
    dead.flush()
    log.expire_overdue()
    with Producer(log) as other:
        other.send("t", b"old")
    return log


def test_an_overwrite_leaves_nothing_behind_a_transaction_that_has_timed_out(held_log):
    log = held_log
    log.clock.now += 3600
    BatchJob((), (), ("t",)).commit(log)
    (partition,) = (one for one in log.state.partitions.values() if one.end)
    assert partition.start == partition.end == 3


def test_nothing_is_overwritten_while_a_transaction_is_open(held_log):
    before = held_log.state.partitions
    with pytest.raises(
        OffsetOutOfRangeError,
        match="records of topic 't' cannot be replaced: in partition 0 transaction 'dead' is open since offset 0",
    ):
        BatchJob((), (), ("t",)).commit(held_log)
    assert held_log.follow().partitions == before
