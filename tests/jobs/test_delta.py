"""A topic into a Delta table and back: real programs, each killed in the middle and started again."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from spark_eos.config.isolation import Isolation
from spark_eos.log.data.planner import plan
from spark_eos.log.log import Log
from spark_eos.protocol.actions import AppendBatches
from spark_eos.protocol.types import NO_PRODUCER, TopicPartition
from tests.sparks import SPARK
from verification.processes import ROOT, running, spark_submit

PACKAGE = f"io.delta:delta-spark_{SPARK[0]}.{SPARK[1]}_2.13:4.4.0"
ROWS = 6000
PARTITIONS = 2
BATCHES = 4
SLICES = BATCHES if SPARK >= (4, 2) else 1
"""The micro-batches of a topic's backlog: before Spark 4.2 a source is given no limit."""

with_delta = pytest.mark.skipif(SPARK > (4, 2), reason="Delta 4.4 has no jar for a Spark after 4.2")
CONF = {
    "spark.master": "local[1]",
    "spark.jars.packages": PACKAGE,
    "spark.databricks.delta.snapshotPartitions": "1",
}


def missing_jar(output):
    """Without a Maven registry Delta's jar cannot be had: a reason to skip, but not in CI."""
    pytest.importorskip("delta", reason="delta-spark is not installed: pip install delta-spark==4.4.0")
    missing = f"Spark's Ivy could not fetch {PACKAGE}; it needs a Maven registry:\n{output[-1500:]}"
    (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)


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
            lambda _, files=files: (AppendBatches(NO_PRODUCER, (("flights", topic.topic_id),), files),)
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
            found += [(row["id"], row["carrier"], row["delay"]) for row in log.read(topic, fetch).to_pylist()]
    return sorted(found, key=repr)


def test_a_spark_without_a_jar_of_delta_is_refused_before_anything_starts(monkeypatch):
    import delta_session

    monkeypatch.setattr(delta_session, "SPARK", "4.3")
    with pytest.raises(SystemExit, match=r"Delta 4\.4\.0 has no jar for Spark "):
        delta_session.delta_session("to_delta")


@pytest.mark.parametrize(
    ("jars", "problem"),
    [
        ("List(spark://h/jars/io.delta_delta-spark_4.1_2.13-4.4.0.jar, spark://h/jars/other.jar)", ""),
        ("List(spark://h/jars/delta-spark-own-build.jar)", ""),
        (
            "List(spark://h/jars/io.delta_delta-spark_4.2_2.13-4.4.0.jar)",
            "for Spark 4.2, and this is Spark 4.1",
        ),
        ("List(spark://h/jars/io.delta_delta-storage-4.4.0.jar)", "Delta's jar is missing"),
    ],
)
def test_the_jar_of_another_spark_is_told_before_it_makes_a_table(monkeypatch, jars, problem):
    import delta_session

    monkeypatch.setattr(delta_session, "SPARK", "4.1")
    found = delta_session.wrong_jar(jars)
    assert found.endswith(problem)
    assert bool(found) == bool(problem)


def batches(checkpoint, kind):
    return len(list(Path(checkpoint, kind).glob("[0-9]*")))


def kill_in_the_middle_then_finish(command, checkpoint, output, slices):
    """The kill comes after the first of ``slices`` micro-batches, or within it if there is no other."""
    before = "commits" if slices > 1 else "offsets"
    with running(command, output.with_suffix(".killed")) as job:
        job.until(
            lambda: batches(checkpoint, before) or "unresolved dependency" in job.text,
            f"first file in {before}",
        )
        if "unresolved dependency" in job.text:
            missing_jar(job.text)
        job.kill()
    assert batches(checkpoint, "offsets")
    assert batches(checkpoint, "commits") < slices, "the kill came too late to be in the middle"
    with running(command, output) as job:
        job.succeed()
    assert batches(checkpoint, "commits") >= slices


@with_delta
@pytest.mark.deep
def test_there_and_back_through_kills(tmp_path):
    url, table, checkpoints = tmp_path / "log", tmp_path / "table", tmp_path / "checkpoints"
    written(str(url))
    wanted = rows_of(str(url), "flights")
    assert len(wanted) == ROWS
    common = ["--log", url, "--table", table]

    to_delta = spark_submit(
        ROOT / "jobs/to_delta.py", *common, "--checkpoints", checkpoints, "--transactional-id", "out",
        "--topic", "flights", "--max-offsets", ROWS // BATCHES, conf=CONF,
    )  # fmt: skip
    kill_in_the_middle_then_finish(to_delta, checkpoints / "to_delta", tmp_path / "to_delta.out", SLICES)

    def from_delta(checkpoints):
        return spark_submit(
            ROOT / "jobs/from_delta.py", *common, "--checkpoints", checkpoints, "--transactional-id", "back",
            "--topic", "again", "--partitions", 3, "--max-files", 1, conf=CONF,
        )  # fmt: skip

    kill_in_the_middle_then_finish(
        from_delta(checkpoints), checkpoints / "from_delta", tmp_path / "from_delta.out", SLICES
    )
    assert rows_of(str(url), "again") == wanted
    assert not Log.open(str(url)).state.offsets, "a position in a table is no offset of a consumer group"
