"""Several DataFrames in one commit: in ``foreachBatch`` with the source offsets, and in batch jobs under a version."""

from __future__ import annotations

import datetime as dt
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from types import SimpleNamespace

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as sf

from spark_eos import Admin, BatchTransaction, MicroBatchTransaction, Producer
from spark_eos.errors import (
    CheckpointMismatchError,
    ConfigError,
    IllegalStateError,
    OffsetOutOfRangeError,
    ProducerFencedError,
    SchemaMismatchError,
    UnknownTopicOrPartitionError,
)
from spark_eos.log.clock import SYSTEM
from spark_eos.log.time_travel import earliest, replay
from spark_eos.protocol.actions import AppendBatches, CommitMicroBatch, SetAppVersion
from spark_eos.spark.start import start_query
from spark_eos.spark.transactions import micro_batch, running_query
from tests.crashpoints.queries import Frame
from tests.spark.conftest import runs_to_the_end
from tests.spark.test_exactly_once import Watcher

SMALL = {"num.partitions": 2}
AT_ONCE = SimpleNamespace(patiently=lambda call: call())
"""Runs the task of a `Frame`."""


class Queries:
    """Queries with ``foreachBatch`` that read ``src`` in slices of ten."""

    def __init__(self, streams, bench):
        self.streams, self.bench = streams, bench
        self.checkpoint = str(streams.folder / "checkpoint")
        self.options = {"checkpointLocation": self.checkpoint, "transactional.id": "route"}
        self.calls = []

    def run(self, function, checkpoint=None, **source):
        """Until the query has read what is there; its error is raised."""
        frame = self.streams.read(maxOffsetsPerTrigger=10, **source)
        writer = frame.writeStream.foreachBatch(partial(self._call, function))
        writer = writer.option("checkpointLocation", checkpoint or self.checkpoint).trigger(availableNow=True)
        for _ in runs_to_the_end(checkpoint or self.checkpoint):
            query = start_query(writer.start)
            try:
                query.awaitTermination()
            finally:
                query.stop()

    def transaction(self, batch, batch_id, **options):
        return MicroBatchTransaction(batch, batch_id, self.bench.url, {**self.options, **options})

    def _call(self, function, batch, batch_id):
        self.calls.append(batch_id)
        function(batch, batch_id)


@pytest.fixture
def queries(streams, bench):
    bench.topic("src", 2)
    bench.produce("src", range(20))
    return Queries(streams, bench)


class Runs:
    """Runs of a query without Spark, on the checkpoint by hand."""

    def __init__(self, bench, checkpoint, driver):
        self.bench, self.checkpoint, self._driver = bench, checkpoint, driver
        self.options = {"checkpointLocation": checkpoint.path, "transactional.id": "route"}
        self.start()

    def start(self):
        """The query is started, in a process of its own."""
        micro_batch._COMMITTED.clear()
        self._run = self._driver(self.checkpoint)

    def frame(self, batch_id, *values, app=AT_ONCE):
        self._run.plan(batch_id)
        properties = {
            "sql.streaming.queryId": self.checkpoint.query_id,
            "spark.jobGroup.id": self._run.run_id,
            "streaming.sql.batchId": str(batch_id),
        }
        return Frame(app, values, [0] * len(values), properties)

    def transaction(self, frame, batch_id, **options):
        return MicroBatchTransaction(frame, batch_id, self.bench.url, {**self.options, **options})


@pytest.fixture
def runs(bench, checkpoint, driver, monkeypatch):
    monkeypatch.setattr(running_query, "_notes", lambda _: None)
    return Runs(bench, checkpoint, driver)


def number(frame):
    return frame.select(frame.value.cast("string").cast("int").alias("n"))


def actions(bench, kind):
    """The actions of a kind in all entries, by entry."""
    found = {}
    log = bench.log
    for step in replay(log, earliest(log), bench.state.seq):
        of_kind = [one for request in step.entry.requests for one in request.actions if isinstance(one, kind)]
        if of_kind:
            found[step.entry.seq] = of_kind
    return found


# -- micro-batches ------------------------------------------------------------------------------------------


@pytest.mark.since("4.2")
def test_frames_and_offsets_are_one_entry(queries, bench):
    def route(batch, batch_id):
        numbers = number(batch)
        with queries.transaction(batch, batch_id) as transaction:
            assert not transaction.is_repetition
            transaction.write(
                batch.where("cast(value as string) % 2 = 0").select("value"), "even", options=SMALL
            )
            transaction.write(numbers.where("n % 2 = 1"), "odd")
            transaction.write(numbers.agg(sf.sum("n").cast("string").alias("value")), "sums")
            transaction.write(batch.selectExpr("value", "concat('by-', partition) as topic"))
            transaction.write(numbers.limit(0), "nothing")
            before = {topic: bench.count(topic) for topic in ("even", "odd", "sums")}
            assert before == {"even": 5 * batch_id, "odd": 5 * batch_id, "sums": batch_id}, (
                "visible too early"
            )

    queries.run(route)
    assert bench.values("even") == [*range(0, 20, 2)]
    assert bench.values("sums") == [45, 145]
    assert (bench.count("odd"), bench.count("by-0"), bench.count("by-1")) == (10, 10, 10)
    assert bench.count("nothing") == 0
    assert bench.group("route") == {("src", 0): 10, ("src", 1): 10}
    batches, appends = actions(bench, CommitMicroBatch), actions(bench, AppendBatches)
    assert [one.batch_id for found in batches.values() for one in found] == [0, 1]
    assert [len(appends[seq]) for seq in batches] == [1, 1], "frames are in entries of their own"
    bench.produce("src", range(20, 30))
    queries.run(route)
    assert bench.values("even") == [*range(0, 30, 2)]
    assert bench.group("route") == {("src", 0): 15, ("src", 1): 15}


@pytest.mark.since("4.2")
def test_a_batch_that_is_repeated_is_written_once(queries, bench):
    fails, repetitions = [0], []

    def route(batch, batch_id):
        with queries.transaction(batch, batch_id) as transaction:
            repetitions.append(transaction.is_repetition)
            transaction.write(batch.select("value"), "out")
            transaction.write(batch.select("value"), "copy")
        if batch_id in fails:
            fails.clear()
            raise RuntimeError("after the commit, before Spark has noted it")

    with pytest.raises(StreamingQueryException, match="after the commit"):
        queries.run(route)
    assert bench.values("out") == [*range(10)]
    queries.run(route)
    assert queries.calls == [0, 0, 1]
    assert repetitions == [False, True, False]
    for topic in ("out", "copy"):
        assert bench.values(topic) == [*range(20)]
        assert bench.files(topic) == bench.referenced(topic)


@pytest.mark.deep
def test_an_error_inside_leaves_nothing_through_spark(queries, bench):
    def route(batch, batch_id):
        with queries.transaction(batch, batch_id) as transaction:
            transaction.write(batch.select("value"), "out")
            if not queries.calls[1:]:
                raise RuntimeError("half of it is staged")
            transaction.write(batch.select("value"), "copy")

    with pytest.raises(StreamingQueryException, match="half of it is staged"):
        queries.run(route)
    assert bench.values("out") == []
    assert bench.files("out") == set()
    assert not bench.state.queries
    queries.run(route)
    assert bench.values("out") == bench.values("copy") == [*range(20)]


@pytest.mark.deep
def test_a_second_transaction_of_a_batch_is_refused_through_spark(queries, bench):
    def route(batch, batch_id):
        for topic in ("out", "copy"):
            with queries.transaction(batch, batch_id) as transaction:
                transaction.write(batch.select("value"), topic)

    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="a micro-batch has one"):
            queries.run(route)
        micro_batch._COMMITTED.clear()  # As a new driver.

    def once(batch, batch_id):
        with queries.transaction(batch, batch_id) as transaction:
            for topic in ("out", "copy"):
                transaction.write(batch.select("value"), topic)

    # What the first transaction of batch 0 wrote is there, and the second one was never silently left out.
    queries.run(once)
    assert bench.values("out") == [*range(20)]


@pytest.mark.since("4.2")
def test_a_batch_without_frames_commits_its_offsets_through_spark(queries, bench):
    """No task can tell what the sources have planned: their notes do."""

    def route(batch, batch_id):
        with queries.transaction(batch, batch_id) as transaction:
            if batch_id == 1:
                transaction.write(batch.select("value"), "out")

    queries.run(route)
    assert bench.count("out") == 10
    assert bench.group("route") == {("src", 0): 10, ("src", 1): 10}


@pytest.mark.deep
@pytest.mark.since("4.2")
def test_frames_of_every_kind(queries, bench, spark):
    """Cached ones, of other sources, written from threads, joined, with shuffles and limits."""
    other = spark.createDataFrame([(n, f"name {n}") for n in range(30)], "n int, name string")

    def route(batch, batch_id):
        numbers = number(batch).persist()
        assert numbers.count() == 10
        frames = {
            "joined": numbers.join(other, "n"),
            "shuffled": numbers.repartition(3),
            "first": numbers.orderBy("n").limit(3),
            "constant": other.limit(1),
        }
        with queries.transaction(batch, batch_id) as transaction, ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda topic: transaction.write(frames[topic], topic), frames))
        numbers.unpersist()

    queries.run(route)
    counts = {topic: bench.count(topic) for topic in ("joined", "shuffled", "first", "constant")}
    assert counts == {"joined": 20, "shuffled": 20, "first": 6, "constant": 2}


@pytest.mark.deep
@pytest.mark.since("4.2")
def test_a_topic_is_overwritten_together_with_an_append_through_spark(queries, bench):
    def route(batch, batch_id):
        with queries.transaction(batch, batch_id) as transaction:
            transaction.write(batch.select("value"), "latest", mode="overwrite")
            transaction.write(batch.limit(1).select("value"), "latest")
            transaction.write(batch.select("value"), "all")

    queries.run(route)
    assert len(bench.values("latest")) == 11
    assert set(bench.values("latest")) == {*range(10, 20)}
    assert bench.values("all") == [*range(20)]


def test_types_come_back(spark, bench):
    kinds = "s string, b binary, i int, l bigint, d decimal(20,3), t timestamp, day date, a array<string>, "
    kinds += "m map<string, binary>, r struct<x: double, y: array<struct<z: string>>>, ok boolean"
    moment = dt.datetime(2026, 11, 23, 1, 2, 3, 456000)  # noqa: DTZ001  (as Spark hands them over)
    row = ("é", b"\0", 1, 2**40, Decimal("1.250"), moment, dt.date(2026, 1, 1), ["a", None], {"k": b"v"})
    frame = spark.createDataFrame([(*row, (0.5, [("z",)]), True), (None,) * 11], kinds)
    for large in ("false", "true"):
        spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", large)
        try:
            with BatchTransaction(bench.url) as transaction:
                transaction.write(frame, "types")
        finally:
            spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
    read = spark.read.format("eoslog").option("subscribe", "types").load(bench.url)
    assert [field.dataType for field in read.schema] == [field.dataType for field in frame.schema]
    assert read.dropDuplicates(["s"]).collect() in (frame.collect(), frame.collect()[::-1])
    assert read.count() == 4


def test_a_run_that_was_replaced_writes_nothing(bench, checkpoint, driver, monkeypatch):
    monkeypatch.setattr(running_query, "_notes", lambda _: None)
    runs = {name: driver() for name in ("old", "new")}
    app = AT_ONCE

    @contextmanager
    def transaction(run, batch_id):
        runs[run].plan(batch_id)
        frame = Frame(
            app,
            [f"{run}-{batch_id}"],
            [0],
            {
                "sql.streaming.queryId": checkpoint.query_id,
                "spark.jobGroup.id": runs[run].run_id,
                "streaming.sql.batchId": str(batch_id),
            },
        )
        with MicroBatchTransaction(
            frame, batch_id, bench.url, {"checkpointLocation": checkpoint.path}
        ) as made:
            for topic in ("out", "copy"):
                made.write(frame, topic)
            yield

    with transaction("old", 0):
        pass
    with (
        pytest.raises(ProducerFencedError, match=runs["new"].run_id),
        transaction("old", 1),
        transaction("new", 1),
    ):
        pass
    with transaction("new", 2):
        pass
    for topic in ("out", "copy"):
        assert bench.values(topic) == ["new-1", "new-2", "old-0"]
        assert bench.files(topic) == bench.referenced(topic)


# -- the same without Spark ---------------------------------------------------------------------------------


def test_an_error_inside_leaves_nothing(runs, bench):
    frame = runs.frame(0, "a")

    def write(*, fails):
        with runs.transaction(frame, 0) as transaction:
            transaction.write(frame, "out")
            if fails:
                raise RuntimeError("half of it is staged")
            transaction.write(frame, "copy")

    with pytest.raises(RuntimeError, match="half of it is staged"):
        write(fails=True)
    assert bench.values("out") == []
    assert bench.files("out") == set()
    assert not bench.state.queries
    write(fails=False)
    assert bench.values("out") == bench.values("copy") == ["a"]


def test_a_second_transaction_of_a_batch_is_refused(runs, bench):
    for _ in range(2):  # As a repetition of the first one, it would be silently left out.
        frame = runs.frame(0, "a")
        with runs.transaction(frame, 0) as transaction:
            transaction.write(frame, "out")
        with pytest.raises(IllegalStateError, match="a micro-batch has one"), runs.transaction(frame, 0):
            pass
        runs.start()
    assert bench.values("out") == ["a"]


def test_a_batch_without_frames_commits_its_offsets(runs, bench):
    for batch_id in range(2):
        frame = runs.frame(batch_id, "a")
        with runs.transaction(frame, batch_id) as transaction:
            if batch_id == 1:
                transaction.write(frame, "out")
        assert bench.group("route") == {("src", 0): 10 * batch_id + 10}
    assert bench.values("out") == ["a"]


def test_a_topic_is_overwritten_together_with_an_append(runs, bench):
    for batch_id in range(2):
        frame = runs.frame(batch_id, f"{batch_id}")
        with runs.transaction(frame, batch_id) as transaction:
            transaction.write(frame, "latest", mode="overwrite")
            transaction.write(frame, "latest")
            transaction.write(frame, "all")
    assert (bench.values("latest"), bench.values("all")) == ([1, 1], [0, 1])


def test_a_topic_is_not_overwritten_before_another_transaction_has_ended_or_timed_out(
    runs, bench, monkeypatch
):
    bench.topic("latest")
    frame = runs.frame(0, "0")
    other = Producer(bench.url, {"transactional.id": "other", "transaction.timeout.ms": 60_000})
    other.init_transactions()
    other.begin_transaction()
    other.send("latest", b"open")
    other.flush()

    def overwrite():
        with runs.transaction(frame, 0) as transaction:
            transaction.write(frame, "latest", mode="overwrite")

    with pytest.raises(OffsetOutOfRangeError, match="transaction 'other' is open since offset 0"):
        overwrite()
    monkeypatch.setattr(type(SYSTEM), "monotonic", lambda _clock: time.monotonic() + 61)
    overwrite()
    assert bench.values("latest") == [0]
    with pytest.raises(ProducerFencedError):
        other.close()


def test_another_batch_or_another_checkpoint(runs, bench, hand_made):
    frame = runs.frame(0, "a")
    with pytest.raises(IllegalStateError, match="batch 1 does not run, but batch 0"):
        runs.transaction(frame, 1)
    alone = Frame(AT_ONCE, [], [], {"sql.streaming.queryId": None, "spark.jobGroup.id": "a group of mine"})
    with pytest.raises(IllegalStateError, match="no micro-batch runs in this thread"):
        runs.transaction(alone, 0)
    other = str(hand_made("other").path)

    def write():
        with runs.transaction(frame, 0, checkpointLocation=other) as transaction:
            transaction.write(frame, "out")

    with pytest.raises(CheckpointMismatchError, match="checkpointLocation must be this query's own"):
        write()
    assert bench.values("out") == []
    assert bench.files("out") == set()


def test_a_micro_batch_whose_write_still_runs_is_not_committed(runs, bench):
    """Neither are its offsets."""
    slow = Slow()

    def write(pool):
        frame = runs.frame(0, "late", app=slow)
        with runs.transaction(frame, 0) as transaction:
            writings.append(written_in_a_thread(transaction, slow, pool, frame))

    writings = []
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(IllegalStateError, match="still run in other threads"):
            write(pool)
        refused_late(slow, writings)
    assert bench.files("late") == set()
    assert not bench.state.queries
    frame = runs.frame(0, "a")
    with runs.transaction(frame, 0) as transaction:
        assert not transaction.is_repetition
        transaction.write(frame, "out")
    assert bench.values("out") == ["a"]


# -- what is refused ----------------------------------------------------------------------------------------


def test_outside_of_foreach_batch(queries, spark):
    with pytest.raises(IllegalStateError, match="no micro-batch runs in this thread"):
        queries.transaction(spark.range(1), 0)


@pytest.mark.deep
def test_another_batch_or_another_checkpoint_through_spark(queries, hand_made, bench):
    other = hand_made("other")

    def wrong_checkpoint(batch, batch_id):
        with pytest.raises(IllegalStateError, match="batch 1 does not run, but batch 0"):
            queries.transaction(batch, batch_id + 1)
        with queries.transaction(batch, batch_id, checkpointLocation=str(other.path)) as transaction:
            transaction.write(batch.select("value"), "out")

    with pytest.raises(StreamingQueryException, match="checkpointLocation must be this query's own"):
        queries.run(wrong_checkpoint)
    assert bench.values("out") == []
    assert bench.files("out") == set()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": "out"}, "option topic is one of each frame"),
        ({"processing.guarantee": "at_least_once"}, "has no effect here: a transaction is exactly_once"),
        ({"queryName": "q"}, "has no effect here: the query has its name"),
        ({"txnAppId": "job", "txnVersion": 1}, "txnAppId"),
        ({"checkpointLocation": None}, "give the option checkpointLocation here as well"),
        ({"transactionalid": "x"}, "transactionalid"),
    ],
)
def test_options_that_do_not_fit(queries, spark, options, message):
    with pytest.raises(ConfigError, match=message):
        queries.transaction(spark.range(1), 0, **options)


def test_what_a_frame_may_not_be(bench, spark, streams):
    bench.produce("src", range(3))
    frame = spark.createDataFrame([("1", 2)], "value string, n int").select("value")
    transaction = BatchTransaction(bench.url, {"txnAppId": "job", "txnVersion": 1})
    with pytest.raises(IllegalStateError, match="only possible inside the with statement"):
        transaction.write(frame, "out")
    with transaction:
        for call, error, message in (
            (
                lambda: transaction.write(frame, "out", mode="ignore"),
                ConfigError,
                "mode 'ignore' is not possible",
            ),
            (lambda: transaction.write(streams.read(), "out"), ConfigError, "this one is a stream"),
            (lambda: transaction.write(frame), ConfigError, "no topic"),
            (
                lambda: transaction.write(frame, "out", options={"topic": "x"}),
                ConfigError,
                "is an argument here",
            ),
            (
                lambda: transaction.write(frame, "out", options={"txnVersion": 2}),
                ConfigError,
                "of the whole transaction",
            ),
            (lambda: transaction.write(frame.withColumn("x", sf.lit(1)), "src"), SchemaMismatchError, "'x'"),
        ):
            with pytest.raises(error, match=message):
                call()
    with pytest.raises(IllegalStateError, match="a transaction is used once"), transaction:
        pass
    assert "out" not in bench.state.topics


def test_rows_of_the_same_transaction_are_not_overwritten(bench):
    frame = Frame(AT_ONCE, ["a"], [0], {})
    with BatchTransaction(bench.url) as transaction:
        transaction.write(frame, "out")
        with pytest.raises(ConfigError, match="topic 'out' is overwritten after rows were written to it"):
            transaction.write(frame, "out", mode="overwrite")
    with BatchTransaction(bench.url) as transaction:
        transaction.write(frame, "out", mode="overwrite")
        transaction.write(frame, "out")
    assert bench.values("out") == ["a", "a"]


def test_rows_that_name_their_topics_are_not_overwritten_either(spark, bench):
    named = spark.createDataFrame([("out", b"a")], "topic string, value binary")
    with BatchTransaction(bench.url) as transaction:
        transaction.write(named)
        with pytest.raises(ConfigError, match="topic 'out' is overwritten after rows were written to it"):
            transaction.write(named.select("value"), "out", mode="overwrite")
    assert bench.values("out") == ["a"]


def test_rows_that_came_while_an_overwrite_was_staged_are_not_overwritten(bench):
    """Of another thread."""
    plain = Frame(AT_ONCE, ["a"], [0], {})
    with BatchTransaction(bench.url) as transaction:

        def beside(call):
            rows = call()
            transaction.write(plain, "out")
            return rows

        staged = Frame(SimpleNamespace(patiently=beside), ["b"], [0], {})
        with pytest.raises(ConfigError, match="topic 'out' is overwritten after rows were written to it"):
            transaction.write(staged, "out", mode="overwrite")
    assert bench.values("out") == ["a"]


def test_a_frame_that_failed_overwrites_nothing(bench):
    bench.produce("out", ["kept"])

    def fails(_):
        raise RuntimeError("a task failed")

    with BatchTransaction(bench.url) as transaction:
        with pytest.raises(RuntimeError, match="a task failed"):
            transaction.write(
                Frame(SimpleNamespace(patiently=fails), ["new"], [0], {}), "out", mode="overwrite"
            )
        transaction.write(Frame(AT_ONCE, ["a"], [0], {}), "other")
    assert (bench.values("out"), bench.values("other")) == (["kept"], ["a"])


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_frame_that_failed_is_written_again(bench, mode):
    """It was refused, as if its rows were there."""
    bench.produce("out", ["old"])

    def fails(_):
        raise RuntimeError("a task failed")

    with BatchTransaction(bench.url) as transaction:
        with pytest.raises(RuntimeError, match="a task failed"):
            transaction.write(Frame(SimpleNamespace(patiently=fails), ["new"], [0], {}), "out", mode=mode)
        transaction.write(Frame(AT_ONCE, ["a"], [0], {}), "out", mode="overwrite")
    assert bench.values("out") == ["a"]


def test_rows_of_a_topic_do_not_go_into_its_successor(bench):
    """They did if the same transaction had rows for that, too."""
    frame = Frame(AT_ONCE, ["a"], [0], {})
    admin = Admin(bench.url)

    def write():
        with BatchTransaction(bench.url) as transaction:
            transaction.write(frame, "out")
            admin.delete_topic("out")
            admin.create_topic("out")
            transaction.write(frame, "out")

    with pytest.raises(UnknownTopicOrPartitionError, match="was deleted and created again"):
        write()
    assert bench.values("out") == []


class Slow:
    """Runs the task of a frame, and lets it end when it is told to."""

    def __init__(self):
        self.staged, self.goes_on = threading.Event(), threading.Event()

    def patiently(self, call):
        made = call()
        self.staged.set()
        assert self.goes_on.wait(60)
        return made


def written_in_a_thread(transaction, slow, pool, frame=None):
    writing = pool.submit(transaction.write, frame or Frame(slow, ["late"], [0], {}), "late")
    assert slow.staged.wait(60)
    return writing


def refused_late(slow, writings):
    """The transaction has ended, and now the write comes to its end."""
    slow.goes_on.set()
    with pytest.raises(IllegalStateError, match="ended before this write"):
        writings[0].result(60)


def test_a_write_that_still_runs_at_the_end_commits_nothing(bench):
    slow, at_once = Slow(), AT_ONCE
    options, writings = {"txnAppId": "job", "txnVersion": 1}, []

    def write(pool):
        with BatchTransaction(bench.url, options) as transaction:
            transaction.write(Frame(at_once, ["a"], [0], {}), "out")
            writings.append(written_in_a_thread(transaction, slow, pool))

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(IllegalStateError, match=r"1 write\(\) of this transaction still run"):
            write(pool)
        assert bench.files("out") == set()
        refused_late(slow, writings)
    assert (bench.values("out"), bench.values("late")) == ([], [])
    assert bench.files("late") == set()
    assert actions(bench, SetAppVersion) == {}
    with BatchTransaction(bench.url, options) as transaction:
        assert not transaction.is_repetition
        transaction.write(Frame(at_once, ["a"], [0], {}), "out")
    assert bench.values("out") == ["a"]


def test_a_write_that_still_runs_after_an_error_leaves_nothing(bench):
    slow = Slow()

    def fail(pool):
        with BatchTransaction(bench.url) as transaction:
            writings.append(written_in_a_thread(transaction, slow, pool))
            raise RuntimeError("half of it is staged")

    writings = []
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(RuntimeError, match="half of it is staged"):
            fail(pool)
        refused_late(slow, writings)
    assert bench.values("late") == []
    assert bench.files("late") == set()


@pytest.mark.deep
@pytest.mark.since("4.2")
def test_a_micro_batch_whose_write_still_runs_is_not_committed_through_spark(queries, bench):
    """Neither are its offsets: Spark repeats the micro-batch, and its rows are there once."""
    ended, writings = threading.Event(), []

    class Late:
        """A frame whose tasks end after the transaction."""

        isStreaming = False  # noqa: N815

        def __init__(self, frame):
            self.frame, self.schema, self.staged = frame, frame.schema, threading.Event()

        def mapInArrow(self, *given):
            rows = self.frame.mapInArrow(*given).collect()
            self.staged.set()
            assert ended.wait(60)
            return SimpleNamespace(collect=lambda: rows)

    def route(batch, batch_id):
        rows = batch.select("value")
        with ThreadPoolExecutor(1) as pool:
            try:
                with queries.transaction(batch, batch_id) as transaction:
                    if queries.calls[1:]:
                        transaction.write(rows, "out")
                    else:
                        late = Late(rows)
                        writings.append(pool.submit(transaction.write, late, "out"))
                        assert late.staged.wait(60)
            finally:
                ended.set()

    with pytest.raises(StreamingQueryException, match="still run in other threads"):
        queries.run(route)
    with pytest.raises(IllegalStateError, match="ended before this write"):
        writings[0].result(60)
    assert bench.values("out") == []
    assert bench.files("out") == set()
    assert not bench.state.queries
    queries.run(route)
    assert queries.calls == [0, 0, 1]
    assert bench.values("out") == [*range(20)]


# -- batch jobs ---------------------------------------------------------------------------------------------


def job(spark, bench, version, topics=("out", "copy"), fails=False, rows=20):
    frame = spark.range(version * 100, version * 100 + rows).selectExpr("cast(id as string) as value")
    with BatchTransaction(bench.url, {"txnAppId": "job", "txnVersion": version}) as transaction:
        for topic in topics:
            transaction.write(frame, topic)
        if fails:
            raise RuntimeError("the job died")
    return transaction.is_repetition


def test_a_job_that_is_repeated_writes_nothing(spark, bench, caplog):
    assert not job(spark, bench, 1)
    assert job(spark, bench, 1)
    assert not job(spark, bench, 3)
    assert job(spark, bench, 2)
    assert "version 2 is a repetition" in caplog.text
    with pytest.raises(RuntimeError, match="the job died"):
        job(spark, bench, 4, fails=True)
    assert [one.version for found in actions(bench, SetAppVersion).values() for one in found] == [1, 3]
    assert not job(spark, bench, 4)
    for topic in ("out", "copy"):
        assert bench.values(topic) == [
            n for version in (1, 3, 4) for n in range(version * 100, version * 100 + 20)
        ]
        assert bench.files(topic) == bench.referenced(topic)


@pytest.mark.deep
def test_a_write_that_is_repeated_writes_nothing(spark, bench):
    frame = spark.range(50_000).selectExpr("cast(id as string) as value").repartition(3)

    def write(version, topic="out", mode="append"):
        options = {"topic": topic, "txnAppId": "job", "txnVersion": version}
        frame.write.format("eoslog").options(**options).mode(mode).save(bench.url)

    for version in (7, 7, 8, 7):
        write(version)
    assert bench.count("out") == 100_000
    write(8, "other")
    assert bench.count("other") == 50_000, "versions are those of a topic"
    write(8, mode="overwrite")
    assert bench.count("out") == 100_000
    write(9, mode="overwrite")
    assert bench.count("out") == 50_000


def test_one_without_the_other(spark, bench):
    writer = spark.range(3).selectExpr("cast(id as string) as value").write.format("eoslog").mode("append")
    for name, lacks in (("txnAppId", "txnVersion"), ("txnVersion", "txnAppId")):
        with pytest.raises(Exception, match=f"option {name} has no effect without {lacks}"):
            writer.options(**{"topic": "out", name: "1"}).save(bench.url)
        writer = (
            spark.range(3).selectExpr("cast(id as string) as value").write.format("eoslog").mode("append")
        )


# -- drivers that are killed --------------------------------------------------------------------------------


@pytest.mark.deep
def test_a_killed_driver_loses_and_halves_nothing(streams, benches, process):
    """Killed in a task, and between the commit of the transaction and Spark's own note of the batch."""
    logs = {moment: benches(moment) for moment in ("task", "after")}
    for moment, log in logs.items():
        for topic in ("a", "b"):
            log.topic(topic, 2)
            log.produce(topic, range(20))
        process.job(log, "a,b", slice=40, moment=moment, batch=1, frames=True)
    watchers = [Watcher(log) for log in logs.values()]
    for watcher in watchers:
        watcher.start()
    try:
        process.start()
        process.wait_for(
            lambda: all(log.count(topic) == 20 for log in logs.values() for topic in ("out-a", "out-b")),
            "the driver to commit batch 0",
        )
        for log in logs.values():
            for topic in ("a", "b"):
                log.produce(topic, range(20, 40))
        process.wait_for(lambda: all(map(process.holds, logs.values())), "the driver to hold in batch 1")
        process.kill()
        for moment, log in logs.items():
            (query,) = log.state.queries.values()
            assert query.batch_id == (1 if moment == "after" else 0)
            again = Queries(streams, log)
            again.options = {"checkpointLocation": str(process.checkpoint(log))}

            def route(batch, batch_id, again=again):
                with again.transaction(batch, batch_id) as transaction:
                    for topic in ("a", "b"):
                        frame = batch.where(batch.topic == topic).select("key", "value")
                        transaction.write(frame, f"out-{topic}", options=SMALL)

            again.run(route, str(process.checkpoint(log)), topics="a,b", bench=log)
            for topic in ("out-a", "out-b"):
                assert log.values(topic) == [*range(40)]
                log.check_contiguous(topic)
    finally:
        for watcher in watchers:
            watcher.stop()
    assert all(watcher.seen for watcher in watchers)
    assert not [torn for watcher in watchers for torn in watcher.torn]
