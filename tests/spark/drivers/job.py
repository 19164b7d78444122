"""A driver to be killed or frozen: copies topics ``x`` to ``out-x``, and holds still where it is told to.

Its arguments are Spark's master and a JSON list of jobs: url, settings, checkpoint, topics, slice
(maxOffsetsPerTrigger), moment (``task``, ``before`` or ``after`` the sink's commit; or ``fails``: it never holds,
but every task fails once), batch (the number of the batch to hold in), marks (a folder). There it makes ``held``
when it holds, goes on when ``go`` is there, and writes ``ended`` with the query's exception. With ``frames`` the copy
of each topic is a DataFrame of its own, in one transaction of ``foreachBatch``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"

from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from spark_eos import MicroBatchTransaction
from spark_eos.spark.datasource import EosLogDataSource
from spark_eos.spark.start import start_query
from tests.sparks import HIDES

LOGGED = (Path(__file__).parent / "log4j2.properties").as_uri()
"""Spark logs at INFO, for a test that looks for secrets in it."""


def hold(marks):
    """Wait for the sign; a process whose driver has died ends."""
    parent = os.getppid()
    Path(marks, "held").touch()
    while not Path(marks, "go").exists():
        if os.getppid() != parent:
            os._exit(1)
        time.sleep(0.02)


def held_tasks(job):
    def through(batches):
        task = TaskContext.get()
        batch = task.getLocalProperty("streaming.sql.batchId")
        if job["moment"] == "task" and batch == str(job["batch"]):
            hold(job["marks"])
        yield from batches
        if job["moment"] == "fails" and task.attemptNumber() == 0:
            Path(job["marks"], "failed").touch()
            raise RuntimeError("the first attempt of every task fails, after its rows were handed on")

    return through


def held_source(name, job):
    class Held(EosLogDataSource):
        @classmethod
        def name(cls):
            return name

        def streamWriter(self, schema, overwrite):
            writer = super().streamWriter(schema, overwrite)
            commit = writer.commit

            def held(messages, batchId):
                here = batchId == job["batch"]
                if here and job["moment"] == "before":
                    hold(job["marks"])
                commit(messages, batchId)
                if here and job["moment"] == "after":
                    hold(job["marks"])

            writer.commit = held
            return writer

    return Held


def routed(job):
    """A function for ``foreachBatch``: each topic's records are a frame."""

    def route(batch, batch_id):
        here = batch_id == job["batch"]
        options = {**job["settings"], "checkpointLocation": job["checkpoint"]}
        with MicroBatchTransaction(batch, batch_id, job["url"], options) as transaction:
            rows = batch.mapInArrow(held_tasks(job), batch.schema)
            for topic in job["topics"].split(","):
                frame = rows.where(rows.topic == topic).select("key", "value")
                transaction.write(frame, f"out-{topic}", options={"num.partitions": 2})
            if here and job["moment"] == "before":
                hold(job["marks"])
        if here and job["moment"] == "after":
            hold(job["marks"])

    return route


def start(spark, number, job):
    spark.dataSource.register(held_source(f"held{number}", job))
    rows = (
        spark.readStream.format("eoslog")
        .option("subscribe", job["topics"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", job["slice"])
        .options(**job["settings"])
        .load(job["url"])
    )
    if job.get("frames"):
        function = rows.writeStream.foreachBatch(routed(job)).option("checkpointLocation", job["checkpoint"])
        return start_query(function.start)
    rows = rows.selectExpr("key", "value", "concat('out-', topic) AS topic")
    writer = (
        rows.mapInArrow(held_tasks(job), rows.schema)
        .writeStream.format(f"held{number}")
        .option("num.partitions", 2)
        .option("checkpointLocation", job["checkpoint"])
        .options(**job["settings"])
    )
    return start_query(lambda: writer.start(job["url"]))


def note_end(query, job):
    """Write down what the query ended with."""
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        part = Path(job["marks"], "ended.part")
        part.write_text(str(error))
        part.rename(Path(job["marks"], "ended"))


def main(master, jobs):
    spark = (
        SparkSession.builder.master(master)
        .config("spark.executor.memory", "512m")
        .config("spark.executor.extraJavaOptions", os.environ.get("SPARK_SUBMIT_OPTS", ""))
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={LOGGED}")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config(map=HIDES)
        .config(
            "spark.sql.streaming.pollingDelay", "100ms"
        )  # Else one that has read everything takes a core.
        .getOrCreate()
    )
    queries = [start(spark, number, job) for number, job in enumerate(jobs)]
    with ThreadPoolExecutor(len(jobs)) as pool:
        list(pool.map(note_end, queries, jobs))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
