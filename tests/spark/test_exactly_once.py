"""Every row once: through killed drivers, failing tasks, and every kind of query there is."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException

from spark_eos import Admin
from spark_eos.log.log import Log
from verification.specification import query_trace

from .conftest import BUCKETS, FOLDER, SECRETS

pytestmark = pytest.mark.usefixtures("specified")


def routed(frame):
    return frame.selectExpr("key", "value", "concat('out-', topic) AS topic")


# -- drivers that are killed ----------------------------------------------------------------------------


class Watcher(threading.Thread):
    """A reader beside the query: in every state it meets, output and source offsets belong together."""

    def __init__(self, bench):
        super().__init__(daemon=True)
        self._bench = bench
        self._log = Log.open(bench.url, settings=bench.settings)
        self._pause_s = 0.02 if self._log.store.requests_are_free else 0.05
        self._over = threading.Event()
        self.torn = []
        self.seen = set()

    def run(self):
        while not self._over.is_set():
            self.look()
            time.sleep(self._pause_s)
        self.look()

    def look(self):
        state = self._log.follow()
        if state.seq in self.seen:
            return
        for _, group in sorted(state.offsets.items()):
            read = {at: known.offset for at, known in group.items()}
            consumed = [sum(n for at, n in read.items() if at[0] == topic) for topic in ("a", "b")]
            written = [self._bench.count(topic, state) for topic in ("out-a", "out-b")]
            self.seen.add(state.seq)
            if consumed != written:
                self.torn.append((state.seq, consumed, written))

    def stop(self):
        self._over.set()
        self.join()


@pytest.fixture
def watched():
    """Starts to watch a log; a watcher ends with the test at the latest, however that ends."""
    watchers = []

    def start(bench):
        watchers.append(Watcher(bench))
        watchers[-1].start()
        return watchers[-1]

    yield start
    for watcher in watchers:
        watcher.stop()


MOMENTS = ("task", "after", "before", "fails")


@pytest.mark.deep("folder, other moments", "buckets")
@pytest.mark.parametrize(
    ("servers", "master", "moments"),
    [
        pytest.param(*FOLDER, ["after"], id="folder"),
        pytest.param(*FOLDER, ["task", "before", "fails"], id="folder, other moments"),
        pytest.param(*BUCKETS, ["task", "after"], id="buckets"),
    ],
)
def test_a_killed_driver_loses_and_doubles_nothing(
    streams, benches, watched, process, servers, master, moments
):
    """Killed in a task, before the sink's commit, and exactly between it and Spark's own note of the batch;
    and, at no special moment, a driver all of whose tasks failed once and were tried again."""
    process.master = master
    logs = {(moment, at): benches(f"{moment}-{at}", at) for moment in moments for at in servers}
    for (moment, _), log in logs.items():
        for topic in ("a", "b"):
            log.topic(topic, 2)
            log.produce(topic, range(20))
        process.job(log, "a,b", slice=40, moment=moment, batch=1)
    watchers = [watched(log) for log in logs.values()]
    process.start()
    process.wait_for(
        lambda: all(log.count(topic) == 20 for log in logs.values() for topic in ("out-a", "out-b")),
        "the driver to commit batch 0",
    )
    for log in logs.values():
        for topic in ("a", "b"):
            log.produce(topic, range(20, 40))
    process.wait_for(
        lambda: all(
            log.count("out-a") if moment == "fails" else process.holds(log)
            for (moment, _), log in logs.items()
        ),
        "the driver to hold in batch 1",
    )
    process.kill()
    said = process.said
    assert "\nINFO " in said
    for (moment, _), log in logs.items():
        assert not [name for name in SECRETS & log.settings.keys() if log.settings[name] in said]
        if moment == "fails":
            assert (process.marks(log) / "failed").exists()
            continue
        (query,) = log.state.queries.values()
        assert query.batch_id == (1 if moment == "after" else 0)
        assert (process.checkpoint(log) / "offsets" / "1").exists()
        assert not (process.checkpoint(log) / "commits" / "1").exists()

    for log in logs.values():
        frame = routed(streams.read("a,b", log, maxOffsetsPerTrigger=20))
        streams.run(frame, None, process.checkpoint(log).name, log, num_partitions=2)
        for topic in ("out-a", "out-b"):
            assert log.values(topic) == [*range(40)]
            log.check_contiguous(topic)
        assert len(query_trace.traces(log.log.store)) == 1
    for watcher in watchers:
        watcher.stop()
        assert watcher.seen
        assert not watcher.torn


# -- tasks that fail ------------------------------------------------------------------------------------


def test_a_task_that_failed_and_was_tried_again_leaves_nothing_visible(streams, bench, tmp_path):
    """The shared session does not retry tasks, so the whole batch is tried again; the orphans stay unread."""
    marker = str(tmp_path / "failed-once")
    bench.topic("src", 2)
    bench.produce("src", range(40))

    def fails_once(batches):
        yield from batches
        if not Path(marker).exists():
            Path(marker).touch()
            raise RuntimeError("fails once, after its rows were handed on")

    frame = streams.read().select("key", "value")
    frame = frame.mapInArrow(fails_once, frame.schema)
    with pytest.raises(StreamingQueryException, match="fails once"):
        streams.run(frame)
    assert bench.values("out") == []
    streams.run(frame)
    assert bench.values("out") == [*range(40)]
    assert bench.referenced("out") <= bench.files("out")


# -- kinds of queries -----------------------------------------------------------------------------------


@pytest.mark.deep
def test_a_union_of_two_topics_and_of_one_topic_twice(streams, bench):
    for topic, first in (("a", 0), ("b", 100)):
        bench.topic(topic, 2)
        bench.produce(topic, range(first, first + 10))

    def run():
        a, b, again = (streams.read(topic).select("key", "value") for topic in ("a", "b", "a"))
        streams.run(a.union(b).union(again), transactional_id="tx")

    run()
    bench.produce("a", range(10, 15))
    run()
    run()
    assert bench.values("out") == sorted([*range(15), *range(15), *range(100, 110)])
    assert bench.group("tx") == {("a", 0): 8, ("a", 1): 7, ("b", 0): 5, ("b", 1): 5}


@pytest.mark.deep
def test_sources_that_are_not_ours_beside_one_that_is(streams, bench, tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    bench.produce("src", range(5))
    for number in range(3):
        (folder / f"{number}.txt").write_text(f"{100 + number}\n")
        texts = streams.spark.readStream.format("text").load(str(folder)).selectExpr("null AS key", "value")
        ours = streams.read().selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value")
        streams.run(ours.union(texts))
    assert bench.values("out") == [0, 1, 2, 3, 4, 100, 101, 102]


@pytest.mark.deep
def test_rate_micro_batch_is_kept_as_it_is_and_goes_on_exactly(streams, bench, until):
    def start():
        rate = streams.spark.readStream.format("rate-micro-batch")
        rate = rate.option("rowsPerBatch", 7).option("numPartitions", 2).option("startTimestamp", 1000).load()
        return streams.write(
            rate.selectExpr("CAST(value AS STRING) AS value"), trigger={"processingTime": "0 seconds"}
        )

    for batches in (2, 5):
        query = start()
        try:
            until(lambda batches=batches: bench.count("out") >= 7 * batches, "micro-batches")
        finally:
            query.stop()
    values = bench.values("out")
    assert values == [*range(len(values))]
    (last,) = bench.state.queries.values()
    assert '"offset"' in last.sources[0].end
    assert last.sources[0].group is None


@pytest.mark.deep
def test_complete_mode_replaces_the_last_result_and_update_mode_is_refused(streams, bench):
    bench.topic("src", 2)

    def counts():
        frame = streams.read(maxOffsetsPerTrigger=6).groupBy("key").count()
        return frame.selectExpr("key", "CAST(count AS STRING) AS value")

    for number in range(1, 3):
        bench.produce("src", [0, 1, 2, 3] * 3)
        streams.run(counts(), mode="complete")
        rows = (
            streams.batch("out")
            .selectExpr("CAST(key AS STRING)", "CAST(CAST(value AS STRING) AS INT)")
            .collect()
        )
        assert sorted(map(tuple, rows)) == [(str(key), 3 * number) for key in range(4)]
    with pytest.raises((AnalysisException, StreamingQueryException), match=r"(?i)update"):
        streams.run(counts(), mode="update", checkpoint="other")


@pytest.mark.deep
@pytest.mark.since("4.2")
def test_available_now_ends_with_what_was_there_in_slices(streams, bench):
    bench.topic("src", 3)
    bench.produce("src", range(50))
    query = streams.copy({"maxOffsetsPerTrigger": 10})
    sizes = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    assert sum(sizes) == 50
    assert max(sizes) <= 12
    assert bench.values("out") == [*range(50)]


def test_new_partitions_and_new_topics_join_a_running_query(streams, bench, until):
    bench.topic("t1", 1)
    bench.produce("t1", range(5))

    def frame():
        reader = streams.spark.readStream.format("eoslog").option("subscribePattern", "t[0-9]")
        return reader.option("startingOffsets", "earliest").load(bench.url).select("key", "value")

    query = streams.write(frame(), trigger={"processingTime": "0 seconds"})
    try:
        until(lambda: bench.count("out") == 5 or query.exception(), "the first rows")
        Admin(bench.url).alter_topic("t1", partitions=3)
        bench.produce("t1", range(5, 20))
        until(lambda: bench.count("out") == 20 or query.exception(), "the rows of new partitions")
        bench.topic("t2", 2)
        bench.produce("t2", range(20, 30))
        until(lambda: bench.count("out") == 30 or query.exception(), "the rows of a new topic")
    finally:
        query.stop()
    Admin(bench.url).alter_topic("t2", partitions=4)
    bench.produce("t2", range(30, 50))
    streams.run(frame())
    assert bench.values("out") == [*range(50)]


def test_where_reading_starts_and_how_it_is_split(streams, bench):
    for number in range(4):
        times = pa.array([1000 * number] * 10, pa.timestamp("ms", "UTC"))
        bench.produce("src", range(10 * number, 10 * number + 10), timestamp=times)
    frame = streams.read(start=None, startingOffsetsByTimestamp='{"src": {"0": 2000}}', minPartitions=5)
    streams.run(frame.select("key", "value"))
    assert bench.rows("out") == [(0, n, str(20 + n)) for n in range(20)]
    assert len(bench.referenced("out")) == 5


@pytest.mark.deep
def test_a_mirror_keeps_order_headers_timestamps_and_partitions(streams, bench):
    bench.topic("src", 3)
    times = pa.array(range(1000, 1090), pa.timestamp("ms", "UTC"))
    struct = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[{"key": "n", "value": str(n).encode()}] for n in range(90)], struct)
    bench.produce("src", range(90), timestamp=times, headers=headers)
    frame = streams.read(includeHeaders="true", maxOffsetsPerTrigger=30, minPartitions=4)
    streams.run(frame, num_partitions=3)
    columns = ["partition", "value", "timestamp", "headers"]
    copies = [
        [tuple(row) for row in streams.batch(topic, includeHeaders="true").select(*columns).collect()]
        for topic in ("src", "out")
    ]
    # As sorted by partition (stable), the order within each partition is the order of its offsets.
    before, after = (sorted(rows, key=lambda row: row[0]) for rows in copies)
    assert before == after
    assert len(before) == 90
