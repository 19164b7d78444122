"""A log to look into, checkpoints made by hand, and a driver without Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_eos.config.isolation import Isolation
from spark_eos.errors import EosLogError
from spark_eos.log import log as log_module
from spark_eos.log.data.planner import end_offset, plan
from spark_eos.log.log import Log
from spark_eos.protocol.actions import AppendBatches
from spark_eos.protocol.types import NO_PRODUCER, TopicPartition
from spark_eos.spark.options import parse_sink
from spark_eos.spark.sink.checkpoint import Checkpoint, sources_of_batch
from spark_eos.spark.sink.proof import PlanNotes
from spark_eos.spark.sink.sink import EosLogStreamWriter
from spark_eos.spark.sink.source_progress import plans
from spark_eos.spark.source.offsets import SourceOffset
from spark_eos.spark.start import start_query
from spark_eos.storage import NO_SETTINGS, open_store
from tests.log.fakes import Waiting
from tests.sparks import SPARK
from verification.specification import query_trace

from .specified import check

ROWS = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])


class Bench:
    """A log, written to and looked into without Spark."""

    made: ClassVar[list[Bench]] = []
    """By this test and earlier ones."""

    def __init__(self, url, settings=NO_SETTINGS):
        self.url = str(url)
        self.settings = settings
        self.made.append(self)

    @property
    def log(self):
        return Log.shared(self.url, self.settings, create=True)

    @property
    def state(self):
        return self.log.follow()

    def topic(self, name, partitions=1):
        return self.log.ensure_topic(name, partitions)

    def produce(self, topic, values, **columns):
        """Values round robin over the partitions, key = value; without a producer, so without control batches."""
        known = self.topic(topic)
        values = [str(value).encode() for value in values]
        rows = pa.table({"key": values, "value": values, **columns})
        with self.log.stage(known) as writer:
            writer.append(rows, np.arange(len(values), dtype=np.int32) % known.partitions)
            files = writer.finish()
        self.log.commit(lambda _: (AppendBatches(NO_PRODUCER, ((topic, known.topic_id),), files),))

    def partitions(self, topic, state=None):
        state = state or self.state
        known = state.topics.get(topic)
        count = 0 if known is None else known.partitions
        return {number: state.partitions[known.topic_id, number] for number in range(count)}

    def fetches(self, topic, state=None):
        state = state or self.state
        return [
            fetch
            for number, at in self.partitions(topic, state).items()
            for fetch in plan(
                state,
                TopicPartition(topic, number),
                at.start,
                end_offset(at, Isolation.READ_COMMITTED),
                Isolation.READ_COMMITTED,
                self.log.load,
            )
        ]

    def count(self, topic, state=None):
        return sum(fetch.records for fetch in self.fetches(topic, state))

    def rows(self, topic):
        """(partition, offset, value) of all committed records, in order."""
        state = self.state
        return [
            (fetch.partition, records.offset(number), value.decode())
            for fetch in self.fetches(topic, state)
            for records in [self.log.read(state.topics[topic], fetch)]
            for number, value in enumerate(records.column("value").to_pylist())
        ]

    def values(self, topic):
        """The values of all committed records, sorted, as whole numbers where they are."""
        found = [value for _, _, value in self.rows(topic)]
        return sorted(int(value) if value.isdecimal() else value for value in found)

    def group(self, name):
        return {at: known.offset for at, known in self.state.offsets.get(name, {}).items()}

    def check_contiguous(self, topic):
        """Offsets have no hole and no overlap, over data and control batches."""
        for at in self.partitions(topic).values():
            rows = [at.index.tail[number] for number in range(len(at.index.tail))]
            expected = at.start
            for row in rows:
                assert row.base_offset == expected
                expected = row.next_offset
            assert expected == at.end

    def files(self, topic):
        """Names of the data files of the topic that are in the store."""
        return {info.name for info in self.log.store.list("data/") if info.name.startswith(f"data/{topic}-")}

    def referenced(self, topic):
        return {fetch.file.name for fetch in self.fetches(topic)}

    def spoil(self, store):
        """Let the process commit through ``store``."""
        log = Log.open(store, Waiting(), log_module.Retry(deadline_s=0.2))
        log_module._SHARED[open_store(self.url).url] = log

    def forget(self):
        """As another process: nothing is known of the log but its URL."""
        log_module._SHARED.pop(open_store(self.url).url, None)


class HandMade:
    """A checkpoint as Spark writes it."""

    def __init__(self, path, query_id=None):
        self.path = Path(path)
        self.query_id = query_id or str(uuid.uuid4())
        for folder in ("offsets", "commits"):
            (self.path / folder).mkdir(parents=True)
        (self.path / "metadata").write_text(json.dumps({"id": self.query_id}))

    def offsets(self, batch_id, *sources):
        lines = ["v1", "{}", *("-" if at is None else json.dumps(at) for at in sources)]
        (self.path / "offsets" / str(batch_id)).write_text("\n".join(lines))

    def finish(self, batch_id):
        (self.path / "commits" / str(batch_id)).write_text('v1\n{"nextBatchWatermarkMs":0}')


class Driver:
    """A query run: stages as tasks do, commits with a new writer each time as Spark does."""

    def __init__(self, bench, checkpoint, topic="out", overwrite=False, **options):
        self._overwrite = overwrite
        self.run_id = str(uuid.uuid4())
        self._bench = bench
        self._checkpoint = checkpoint
        self._options = {"path": bench.url, "checkpointLocation": str(checkpoint.path), "topic": topic}
        self._options.update({name.replace("_", "."): value for name, value in options.items()})

    @property
    def writer(self):
        return EosLogStreamWriter(parse_sink(self._options, streaming=True), ROWS, overwrite=self._overwrite)

    def stage(self, *values):
        """One task for each value, and one without rows."""
        messages = []
        for value in (*values, None):
            rows = [] if value is None else [str(value).encode()]
            batch = pa.record_batch([pa.array(rows, pa.binary())] * 2, names=["key", "value"])
            message = self.writer.write(iter([batch]))
            message.query_id, message.run_id = self._checkpoint.query_id, self.run_id
            messages.append(message)
        return messages

    def commit(self, messages, batch_id):
        self.plan(batch_id)
        self.writer.commit(messages, batch_id)

    def plan(self, batch_id):
        """As the source notes it in the driver, which is not here: just what the checkpoint says."""
        with suppress(EosLogError):  # What is wrong with the checkpoint is for the sink to say.
            for plan in plans(sources_of_batch(Checkpoint(str(self._checkpoint.path)), batch_id)).values():
                PlanNotes().note(plan)

    def abort(self, messages, batch_id):
        self.writer.abort(messages, batch_id)

    def run(self, batch_id, *values):
        messages = self.stage(*values)
        self.commit(messages, batch_id)
        return messages


@pytest.fixture
def bench(log_url):
    return Bench(log_url)


@pytest.fixture
def benches(tmp_path, request):
    """More logs, by name: in folders, or in a bucket of the server that a fixture runs."""

    def made(name, server=None):
        if server is None:
            return Bench(tmp_path / name)
        running = request.getfixturevalue(server)
        return Bench(f"{running.url}/{uuid.uuid4().hex}/{name}", running.settings)

    return made


@pytest.fixture(scope="module")
def traces():
    """Traces of all queries of a module, by test and log: checked at its end, in one run of TLC."""
    found = {}
    yield found
    check(found)


@pytest.fixture
def specified(request, traces):
    """What the queries of this test do is a behaviour of the specification of runs.

    Without TLC the test runs all the same, and a skip at its end says what was not checked.
    """
    missing = ""
    try:
        request.getfixturevalue("tlc")
    except pytest.skip.Exception as skipped:
        missing = str(skipped)
    Bench.made.clear()
    yield
    if missing:
        pytest.skip(f"not held against specs/Runs.tla: {missing}")
    for bench in Bench.made:
        for query, trace in query_trace.traces(bench.log.store).items():
            traces[request.node.name, bench.url, query] = trace


@pytest.fixture
def checkpoint(bench, tmp_path):
    """A checkpoint by hand whose query reads ``src`` in slices of ten."""
    topic = bench.topic("src", 1)
    bench.produce("src", range(100))
    made = HandMade(tmp_path / "made")
    for batch_id in range(5):
        made.offsets(batch_id, ours(bench, topic, batch_id * 10 + 10))
    return made


def ours(bench, topic, end, start=0):
    at = TopicPartition(topic.name, 0)
    ids = {topic.name: topic.topic_id}
    return SourceOffset(bench.log.log_id, ids, {at: end}, {at: start}, "earliest").to_json_dict()


@pytest.fixture
def ours_at(bench):
    """The offset of the source at a position of ``src``."""
    return lambda end, start=0: ours(bench, bench.topic("src"), end, start)


@pytest.fixture
def hand_made(tmp_path):
    return lambda name, query_id=None: HandMade(tmp_path / name, query_id)


@pytest.fixture
def driver(bench, checkpoint):
    """Starts a query run on the checkpoint, or on another one."""
    return lambda on=None, **options: Driver(bench, on or checkpoint, **options)


@pytest.fixture
def until():
    """Waits for a condition; the bound is only there to end a test that has failed: slow machines take minutes."""

    def wait(condition, what, seconds=600, said=str):
        end = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < end, f"waited {seconds} s for {what} {said()}"
            time.sleep(0.05)
        return found

    return wait


def runs_to_the_end(checkpoint):
    """How often a query has to run (AvailableNow): before Spark 4.2 a run that repeats a micro-batch ends with it."""
    offsets, commits = (
        {path.name for path in Path(checkpoint, kind).glob("[0-9]*")} for kind in ("offsets", "commits")
    )
    return range(2 if SPARK < (4, 2) and offsets - commits else 1)


class Streams:
    """Streaming queries of the shared session."""

    def __init__(self, spark, bench, folder):
        self.spark = spark
        self.bench = bench
        self.folder = folder

    def read(self, topics="src", bench=None, start="earliest", **options):
        bench = bench or self.bench
        reader = self.spark.readStream.format("eoslog").option("subscribe", topics)
        if start is not None:
            reader = reader.option("startingOffsets", start)
        return reader.options(**_dotted(options), **bench.settings).load(bench.url)

    def write(self, frame, topic="out", checkpoint="cp", bench=None, mode="append", trigger=None, **options):
        """Start a query; ``topic`` None: the frame names the topics."""
        writer = frame.writeStream.format("eoslog").outputMode(mode)
        if topic is not None:
            writer = writer.option("topic", topic)
        writer = writer.option("checkpointLocation", f"{self.folder}/{checkpoint}")
        bench = bench or self.bench
        writer = writer.options(**_dotted(options), **bench.settings)
        writer = writer.trigger(**(trigger or {"availableNow": True}))
        return start_query(lambda: writer.start(bench.url))

    def run(self, frame, topic="out", checkpoint="cp", *args, **kwargs):
        """A query, until it has read what is there."""
        for _ in runs_to_the_end(Path(self.folder, checkpoint)):
            query = self.write(frame, topic, checkpoint, *args, **kwargs)
            try:
                query.awaitTermination()
            finally:
                query.stop()
        return query

    def copy(self, source=None, **sink):
        """Copies keys and values from ``src`` to ``out``."""
        return self.run(self.read(**(source or {})).select("key", "value"), **sink)

    def batch(self, topic, **options):
        reader = self.spark.read.format("eoslog").option("subscribe", topic)
        return reader.options(**_dotted(options)).load(self.bench.url)


def _dotted(options):
    """``group_id`` is ``group.id``."""
    return {name.replace("_", "."): str(value) for name, value in options.items()}


@pytest.fixture
def streams(spark, bench, tmp_path):
    return Streams(spark, bench, tmp_path)


JOB = Path(__file__).parent / "drivers" / "job.py"
SECRETS = {"s3.secret-access-key", "adls.account-key"}
"""Settings that are never shown."""


IN_ONE_PROCESS = "local[{cores}, 3]"
FOLDER = [None], IN_ONE_PROCESS
BUCKETS = ["minio_server", "azurite_server"], "local-cluster[2, {cores}, 1024]"
WHERE = pytest.mark.parametrize(
    ("servers", "master"), [pytest.param(*FOLDER, id="folder"), pytest.param(*BUCKETS, id="buckets")]
)
"""Logs in folders, with all of Spark in one process; logs on real servers, with executors that are others."""


class Process:
    """A driver process of its own that runs jobs (see drivers/job.py)."""

    def __init__(self, folder, until):
        self._folder = folder
        self._until = until
        self._jobs = []
        self._process = None
        self.master = IN_ONE_PROCESS

    def job(self, bench, topics, **options):
        """Add a job; it gets its own checkpoint and folder for marks."""
        self.marks(bench).mkdir()
        self._jobs.append(
            {
                "url": bench.url,
                "settings": dict(bench.settings),
                "topics": topics,
                "slice": 10,
                "checkpoint": str(self.checkpoint(bench)),
                "marks": str(self.marks(bench)),
                "moment": "never",
                "batch": -1,
                **options,
            }
        )

    def checkpoint(self, bench):
        return self._folder / f"cp-{Path(bench.url).name}"

    def marks(self, bench):
        return self._folder / f"marks-{Path(bench.url).name}"

    def start(self):
        with (self._folder / "driver-stderr").open("wb") as stderr:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    str(JOB),
                    self.master.format(cores=2 * len(self._jobs)),
                    json.dumps(self._jobs),
                ],
                env={**os.environ, "PYTHONPATH": str(JOB.parents[3])},
                start_new_session=True,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )

    @property
    def said(self):
        """What the driver and its Spark have logged, at INFO."""
        return (self._folder / "driver-stderr").read_text()

    def holds(self, bench):
        return (self.marks(bench) / "held").exists()

    def wait_for(self, condition, what):
        """Wait, while the process lives and all its queries run."""
        self._wait(lambda: condition() or any(map(self._has_ended, self._jobs)), what)
        assert condition(), self._endings()

    def wait_for_end(self):
        """What the queries ended with, once all have."""
        self._wait(lambda: all(map(self._has_ended, self._jobs)), "the queries to end")
        return self._endings()

    def _wait(self, condition, what):
        def said():
            return self.said[-3000:]

        def met():
            met = condition()
            assert met or self._process.poll() is None, said()
            return met

        self._until(met, what, said=said)

    def _has_ended(self, job):
        return Path(job["marks"], "ended").exists()

    def _endings(self):
        return [Path(job["marks"], "ended").read_text() for job in self._jobs if self._has_ended(job)]

    def go(self):
        for job in self._jobs:
            Path(job["marks"], "go").touch()

    def signal(self, number):
        os.killpg(self._process.pid, number)

    def kill(self):
        if self._process is not None and self._process.poll() is None:
            self.signal(signal.SIGKILL)
            self._process.wait()


@pytest.fixture
def process(tmp_path, until):
    made = Process(tmp_path, until)
    yield made
    made.go()
    made.kill()
