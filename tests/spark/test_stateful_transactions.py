"""Queries that keep state and write with a `MicroBatchTransaction`: a batch that is repeated is evaluated, too."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as sf

from spark_eos import MicroBatchTransaction
from spark_eos.spark.start import start_query
from spark_eos.spark.transactions import micro_batch, running_query
from tests.crashpoints.queries import Frame
from tests.spark.test_transactions import Queries
from tests.sparks import SPARK

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Stateful(Queries):
    """Windows of ten seconds, by numbers that are seconds; a window is over five seconds after its end."""

    def run(self, function, mode="append"):
        seconds = sf.timestamp_seconds(sf.col("value").cast("string").cast("int"))
        frame = self.streams.read().select(seconds.alias("time")).withWatermark("time", "5 seconds")
        counts = frame.groupBy(sf.window("time", "10 seconds")).count()
        rows = counts.selectExpr("concat(unix_seconds(window.start), ':', count) value")
        writer = rows.writeStream.foreachBatch(partial(self._call, function)).outputMode(mode)
        # Before Spark 4.2 that is one micro-batch: what it closes is the next one's.
        is_whole = SPARK >= (4, 2)
        trigger = {"availableNow": True} if is_whole else {"processingTime": "0 seconds"}
        writer = writer.option("checkpointLocation", self.checkpoint).trigger(**trigger)
        query = start_query(writer.start)
        try:
            (query.awaitTermination if is_whole else query.processAllAvailable)()
        finally:
            query.stop()


@pytest.fixture
def stateful(streams, bench):
    bench.topic("src", 2)
    return Stateful(streams, bench)


@contextmanager
def provider(spark, name):
    if name is not None:
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", name)
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.streaming.stateStore.providerClass")


@pytest.mark.parametrize("keeps_state", [True, False])
def test_what_is_evaluated(bench, checkpoint, driver, monkeypatch, keeps_state):
    """The batch, where the transaction has evaluated nothing of it, and only if the query keeps state."""
    monkeypatch.setattr(running_query, "_notes", lambda _: None)
    if keeps_state:
        (checkpoint.path / "state").mkdir()
    run, evaluated = driver(), []

    class Batch(Frame):
        @property
        def write(self):
            return self

        def format(self, name):
            assert name == "noop"
            return self

        def mode(self, _):
            return SimpleNamespace(save=lambda: evaluated.append(batch_id))

    for batch_id, with_rows in ((0, True), (0, True), (1, False), (2, True)):
        run.plan(batch_id)
        properties = {
            "sql.streaming.queryId": checkpoint.query_id,
            "spark.jobGroup.id": run.run_id,
            "streaming.sql.batchId": str(batch_id),
        }
        batch = Batch(SimpleNamespace(patiently=lambda call: call()), ["a"], [0], properties)
        micro_batch._COMMITTED.clear()
        with MicroBatchTransaction(
            batch, batch_id, bench.url, {"checkpointLocation": checkpoint.path}
        ) as made:
            if with_rows:
                made.write(batch, "out")
    assert evaluated == ([0, 1] if keeps_state else [])
    assert bench.values("out") == ["a", "a"]


@pytest.mark.deep
@pytest.mark.parametrize("store", [None, ROCKSDB], ids=["HDFS", "RocksDB"])
def test_a_batch_that_is_repeated_keeps_its_state_and_its_watermark(stateful, bench, spark, store):
    fails = []

    def write(batch, batch_id):
        with stateful.transaction(batch, batch_id) as transaction:
            transaction.write(batch, "out")
        if fails:
            fails.clear()
            raise RuntimeError("after the commit, before Spark has noted it")

    with provider(spark, store):
        bench.produce("src", range(30))  # To 29: the windows from 0 and 10 are over at watermark 24.
        stateful.run(write)
        bench.produce("src", range(30, 60))
        fails.append(True)
        with pytest.raises(StreamingQueryException, match="after the commit"):
            stateful.run(write)
        stateful.run(write)
        assert sorted(bench.values("out")) == [f"{start}:10" for start in range(0, 50, 10)]
        bench.produce("src", [35, *range(60, 70), 200])  # 35 is late, as 59 was seen in the repeated batch.
        stateful.run(write)
    assert sorted(bench.values("out")) == [f"{start}:10" for start in range(0, 70, 10)]


@pytest.mark.deep
def test_a_block_without_a_write_keeps_the_state_and_the_watermark(stateful, bench):
    """From the first batch on, also where the function has looked at no row."""

    def write(batch, batch_id):
        with stateful.transaction(batch, batch_id) as transaction:
            if not stateful.calls[1:] or batch.isEmpty():
                return
            transaction.write(batch, "out")

    for first in range(0, 40, 20):
        bench.produce("src", range(first, first + 20))
        stateful.run(write)
    assert sorted(bench.values("out")) == ["0:10", "10:10", "20:10"]


@pytest.mark.deep
def test_update_mode_appends_what_has_changed(stateful, bench):
    """The sink cannot have it, a transaction can."""

    def write(batch, batch_id):
        with stateful.transaction(batch, batch_id) as transaction:
            transaction.write(batch, "out")

    for first in (0, 15):
        bench.produce("src", range(first, first + 15))
        stateful.run(write, mode="update")
    assert sorted(bench.values("out")) == ["0:10", "10:10", "10:5", "20:10"]
