"""One life of a query of the recorder, in a driver process of its own. Arguments: the folder, and the life as JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from pyspark.errors import PySparkException

from spark_eos.spark.start import start_query
from spark_eos.spark.version import HAS_READ_LIMITS
from tests.spark_calls.recorder import RecordedDataSource, note

SECONDS = 300
"""How long a step may take on a slow machine; what is longer has gone wrong."""


def session(*, connect=False):
    """Spark with one core: tasks run one after the other, so that two recordings are in the same order."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.appName("recorder").config("spark.ui.enabled", "false")
    builder = builder.remote("local[1]") if connect else builder.master("local[1,2]")
    for name, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if not connect:
        spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(RecordedDataSource)
    return spark


def live(spark, folder, life):
    """Start the query of a life, take the steps, and write down how it ended."""
    folder = Path(folder)
    for name, value in life.get("conf", {}).items():
        spark.conf.set(name, value)
    for number, trap in enumerate(life.get("traps", ())):
        _set_trap(folder, number, trap)
    note(folder, deed=f"a driver starts: {life['trigger']}")
    query = None
    try:
        frame = _frame(spark, folder, life)
        for checkpoint in life.get("checkpoints", ["checkpoint"]):
            (folder / "current").write_text(str(folder / checkpoint))
            query = _write(folder, life, *frame)
            for step in life.get("steps", ()):
                _step(folder, query, step)
            if life["trigger"] in {"availableNow", "once"}:
                assert query.awaitTermination(SECONDS), "the query does not end"
            if "stop" not in life.get("steps", ()):
                note(folder, deed="the query goes on" if query.isActive else "the query has ended")
    except PySparkException as error:
        note(folder, deed=f"the query fails: {_kind(error)}")
    finally:
        if query is not None:
            query.stop()
            note(folder, deed="the query is stopped")
        for name in life.get("conf", {}):
            spark.conf.unset(name)
    for path in folder.glob("trap-*"):
        raise AssertionError(f"{path.read_text()} was never sprung")


def _set_trap(folder, number, trap):
    fresh = folder / f"new-trap-{number}"
    fresh.write_text(json.dumps({"moment": "before", "batch": None, **trap}))
    fresh.rename(folder / f"trap-{number}")


def _kind(error):
    """The error class, and what the recorder itself has raised."""
    text = str(error)
    return text[1 : text.index("]")] if text.startswith("[") else type(error).__name__


def _step(folder, query, step):
    what, *args = step.split()
    if what == "process":
        query.processAllAvailable()
    elif what == "fails":
        query.awaitTermination(SECONDS)
    elif what == "stop":
        query.stop()
    elif what == "arrive":  # rows, between two looks of an idle query
        last = "reportLatestOffset" if HAS_READ_LIMITS else "latestOffset"
        trap = {"who": f"source {args[0]}", "call": last, "moment": "after", "do": "feed"}
        _set_trap(folder, 99, {**trap, "source": args[0], "rows": int(args[1])})
        _wait(query, lambda: not (folder / "trap-99").exists(), step)
    elif what == "until":  # until a call was written down so often, or a deed was done
        _wait(query, lambda: (folder / "notes").read_text().count(" ".join(args[:-1])) >= int(args[-1]), step)
    else:
        raise AssertionError(step)


def _wait(query, condition, what):
    end = time.monotonic() + SECONDS
    while not condition():
        assert query.exception() is None, query.exception()
        assert time.monotonic() < end, what
        time.sleep(0.02)


def _read(spark, folder, name, life):
    reader = spark.readStream.format("recorded").option("folder", str(folder)).option("name", name)
    options = {key: life[key] for key in ("start", "limit", "tasks") if key in life}
    if life.get("named"):
        reader = reader.name(name)
    return reader.options(**options).load()


def _frame(spark, folder, life):
    frames = [_read(spark, folder, name, life) for name in life["sources"]]
    frame = frames[0]
    shape = life.get("shape", "copy")
    if shape == "twice":
        frames.append(frame.selectExpr("value + 1 AS value", "at"))
    for other in frames[1:]:
        frame = frame.union(other)
    if shape == "count":
        return frame.groupBy().count(), "complete"
    if shape == "windows":
        from pyspark.sql.functions import window

        frame = frame.withWatermark("at", "1 minute").groupBy(window("at", "2 minutes")).count()
        return frame.select("count"), "append"
    if shape == "mistake":
        return frame.selectExpr("assert_true(value < 0) AS value"), "append"
    return frame, "append"


def _write(folder, life, frame, mode):
    writer = frame.writeStream.outputMode(mode)
    writer = writer.option("checkpointLocation", (folder / "current").read_text())
    trigger = life["trigger"]
    kinds = {"availableNow": {"availableNow": True}, "once": {"once": True}}
    writer = writer.trigger(**kinds.get(trigger, {"processingTime": trigger}))
    if life.get("shape") == "foreachBatch":
        notes = str(folder)

        def body(batch, number):
            note(notes, deed=f"foreachBatch is called with {batch.count()} rows of batch {number}")

        return start_query(writer.foreachBatch(body).start)
    return start_query(writer.format("recorded").option("folder", str(folder)).start)


def main():
    """A life that may be killed, or that needs a Spark of its own."""
    folder, life = sys.argv[1], json.loads(sys.argv[2])
    spark = session(connect=life.get("connect", False))
    if not life.get("connect"):
        jvm = spark.sparkContext._gateway.jvm.java.lang.ProcessHandle.current().pid()
        Path(folder, "jvm").write_text(str(jvm))
    live(spark, folder, life)
    spark.stop()


if __name__ == "__main__":
    main()
