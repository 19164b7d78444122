"""A Spark driver with some queries; one that fails is started again, from its checkpoint.

Arguments: a JSON file that says which queries (`verification.chaos.workloads.Query`), its notes. The errors
named in ``ends`` end the whole program: its starter has to decide what comes next.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from verification.chaos.journal import Notes, error_name

ENDED = 3
"""Exit status after one of the errors in ``ends``."""
_SETTLE_S = 30.0


def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A task that takes a while: so most freezes hit the middle of a batch."""
    for batch in batches:
        time.sleep(0.4)
        yield batch


def result(rows: DataFrame, query: dict[str, Any]) -> DataFrame:
    """What the query makes of its input."""
    text, name = (
        rows.selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value"),
        query["name"],
    )
    if query["kind"] == "copy":
        made = text.selectExpr("key", f"concat('{name}:', value) AS value")
        return made.mapInArrow(slowly, made.schema) if query["slow"] else made
    if query["kind"] == "distinct":
        return text.selectExpr("substring(value, 1, length(value) - 1) AS value").dropDuplicates(["value"])
    assert query["kind"] == "counts"
    return text.groupBy("key").count().selectExpr("key", "CAST(count AS STRING) AS value")


def start(spark: SparkSession, query: dict[str, Any]) -> StreamingQuery:
    """A new run of the query."""
    rows = (
        spark.readStream.format("eoslog")
        .option("subscribe", ",".join(query["sources"]))
        .option("startingOffsets", query["starting"])
        .option("group.id", query["name"])
        .option("maxOffsetsPerTrigger", query["slice"])
        .load(query["url"])
    )
    return (
        result(rows, query)
        .writeStream.format("eoslog")
        .queryName(query["name"])
        .outputMode("complete" if query["kind"] == "counts" else "append")
        .option("topic", query["target"])
        .option("num.partitions", 2)
        .option("transactional.id", query["name"])
        .option("checkpointLocation", query["checkpoint"])
        .trigger(processingTime="2 seconds")
        .start(query["url"])
    )


def settle(query: StreamingQuery) -> None:
    """One after the other: on a busy machine Spark gives up on Python workers that do not connect in 10 s."""
    end = time.monotonic() + _SETTLE_S
    while query.isActive and query.lastProgress is None and time.monotonic() < end:
        time.sleep(0.1)


def has_written(query: StreamingQuery) -> bool:
    """Whether this run has finished a batch: only then is there something to disturb."""
    return any(progress["numInputRows"] for progress in query.recentProgress)


def serve(spark: SparkSession, job: dict[str, Any], notes: Notes) -> int:
    """Keep all queries going; the exit status."""
    active: dict[str, StreamingQuery] = {}
    ready = False
    while True:
        for query in job["queries"]:
            name = query["name"]
            known = active.get(name)
            try:
                if known is not None and known.isActive:
                    continue
                if known is not None and (failure := known.exception()) is not None:
                    raise failure
                active[name] = start(spark, query)
                notes.add("started", query=name, run=str(active[name].runId))
                settle(active[name])
            except PySparkException as error:
                active.pop(name, None)
                found = error_name(str(error))
                notes.add("failed", query=name, error=found, text=str(error)[-1500:])
                if found in job["ends"]:
                    return ENDED
                time.sleep(0.5)
        if not ready and len(active) == len(job["queries"]) and all(map(has_written, active.values())):
            notes.add("ready")
            ready = True
        if spark.sparkContext._jsc.sc().isStopped():  # noqa: SLF001
            notes.add("ended", error="SparkContext stopped", text="")
            return 1
        time.sleep(0.2)


def main() -> int:
    """Its end is one of the errors in ``ends``, or the loss of its JVM."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    notes = Notes(Path(sys.argv[2]))
    spark = SparkSession.builder.appName(job["name"]).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    notes.add("registered", application=spark.sparkContext.applicationId)
    try:
        return serve(spark, job, notes)
    except Exception as error:  # noqa: BLE001  (the JVM is gone, or going: Py4J has many ways to say so)
        notes.add("ended", error=type(error).__name__, text=str(error)[:400])
        return 1


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # at once: what a stop would wait for belongs to another process now
