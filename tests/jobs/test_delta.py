"""A topic into a Delta table and back: real programs, each killed in the middle and started again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from spark_eos.log.log import Log
from spark_eos.log.plan import Isolation, plan
from spark_eos.protocol.actions import AppendBatches
from spark_eos.protocol.types import NO_PRODUCER, TopicPartition
from tests.processes import ROOT, environment, running, spark_submit

PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
ROWS = 6000
PARTITIONS = 2
CONF = {
    "spark.master": "local[2]",
    "spark.jars.packages": PACKAGE,
    "spark.databricks.delta.snapshotPartitions": "1",
}


@pytest.fixture(scope="module")
def delta_jar(tmp_path_factory):
    """Spark's Ivy can fetch Delta's jar, or has it. Without the network the tests are skipped, but not in CI."""
    pytest.importorskip("delta", reason="delta-spark is not installed: pip install delta-spark==4.4.0")
    script = tmp_path_factory.mktemp("delta") / "nothing.py"
    script.write_text("")
    done = subprocess.run(
        spark_submit(script, conf=CONF), env=environment(), capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        missing = f"Spark's Ivy cannot fetch {PACKAGE} (is there a way to a Maven registry?):\n{done.stderr[-1500:]}"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)


def written(url):
    """A log with a typed topic of `ROWS` rows; some values are null, some repeat."""
    schema = pa.schema([("id", pa.int64()), ("carrier", pa.string()), ("delay", pa.float64())])
    log = Log.open_or_create(url)
    topic = log.ensure_topic("flights", PARTITIONS, schema=schema)
    for start in range(0, ROWS, ROWS // 4):
        ids = range(start, start + ROWS // 4)
        rows = pa.record_batch(
            [
                pa.array(ids, pa.int64()),
                pa.array([None if i % 7 == 0 else f"carrier {i % 5}" for i in ids], pa.string()),
                pa.array([None if i % 11 == 0 else i / 4 for i in ids], pa.float64()),
            ],
            schema=schema,
        )
        writer = log.stage(topic)
        for partition in range(PARTITIONS):
            half = rows.take(pa.array([i for i in range(rows.num_rows) if i % PARTITIONS == partition]))
            writer.append(half, partition)
        files = writer.finish()
        log.commit(
            lambda state, files=files: (AppendBatches(NO_PRODUCER, (("flights", topic.topic_id),), files),)
        )
    return log


def rows_of(url, topic_name):
    """All rows of a topic, sorted: a list, so that a row that is there twice shows."""
    log = Log.open(url)
    topic = log.topic(topic_name)
    found = []
    for number in range(topic.partitions):
        at = TopicPartition(topic_name, number)
        partition = log.state.partitions[topic.topic_id, number]
        for fetch in plan(log.state, at, partition.start, partition.end, Isolation.READ_COMMITTED):
            for row in log.read(topic, fetch).to_pylist():
                found.append((row["id"], row["carrier"], row["delay"]))
    return sorted(found, key=repr)


def finished(checkpoint):
    return len([path for path in Path(checkpoint, "commits").glob("[0-9]*")])


def kill_in_the_middle_then_finish(command, checkpoint, output, batches):
    with running(command, output.with_suffix(".killed")) as job:
        job.until(lambda: finished(checkpoint) >= 2, "second finished batch")
    done = finished(checkpoint)
    assert 2 <= done < batches, "the kill came too late to be in the middle"
    with running(command, output) as job:
        job.succeed()
    assert finished(checkpoint) >= batches


def test_there_and_back_through_kills(delta_jar, tmp_path):
    url = str(tmp_path / "log")
    written(url)
    wanted = rows_of(url, "flights")
    assert len(wanted) == ROWS
    table, there, back = tmp_path / "table", tmp_path / "there", tmp_path / "back"

    to_delta = spark_submit(
        ROOT / "jobs/to_delta.py", "--log", url, "--topic", "flights", "--table", table, "--checkpoint", there,
        "--max-offsets", ROWS // 8, conf=CONF,
    )  # fmt: skip
    kill_in_the_middle_then_finish(to_delta, there, tmp_path / "to_delta.out", batches=8)

    from_delta = spark_submit(
        ROOT / "jobs/from_delta.py", "--table", table, "--log", url, "--topic", "again", "--checkpoint", back,
        "--partitions", 3, "--max-files", 1, conf=CONF,
    )  # fmt: skip
    kill_in_the_middle_then_finish(from_delta, back, tmp_path / "from_delta.out", batches=8)

    assert rows_of(url, "again") == wanted
    state = Log.open(url).state
    assert not state.groups, "offsets of a table are no offsets of a consumer group"

    # The checkpoint is lost: the log knows better than to take the table a second time.
    anew = [str(tmp_path / "anew") if part == str(back) else part for part in from_delta]
    with running(anew, tmp_path / "anew.out") as job, pytest.raises(AssertionError, match="exit code 1"):
        job.succeed()
    assert "CheckpointMismatchError" in job.text
    assert rows_of(url, "again") == wanted
