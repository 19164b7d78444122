"""Spark Connect: a repeated and a refused transaction in ``foreachBatch``, one of a job. Arguments: see connecting."""

from __future__ import annotations

from collections.abc import Callable

from connecting import checkpoint, end, read, spark, told, url, wait_for
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from spark_eos import BatchTransaction, start_query

frame = spark.range(100).selectExpr("CAST(id AS STRING) AS key", "CAST(id * 2 AS STRING) AS value")
frame.write.format("eoslog").option("topic", "numbers").option("num.partitions", 2).mode("append").save(url)

FAILS_ONCE = f"{checkpoint}-failed"


def route(batch: DataFrame, batch_id: int) -> None:
    """Two frames in one commit; the first try fails after it."""
    from pathlib import Path

    from spark_eos import MicroBatchTransaction

    options = {"checkpointLocation": f"{checkpoint}-frames", "transactional.id": "frames"}
    with MicroBatchTransaction(batch, batch_id, url, options) as transaction:
        transaction.write(batch.select("value"), "frame-1")
        transaction.write(batch.selectExpr("length(value) AS bytes"), "frame-2")
        if transaction.is_repetition:
            Path(FAILS_ONCE).write_text("repeated")
    if not Path(FAILS_ONCE).exists():
        Path(FAILS_ONCE).touch()
        raise RuntimeError("after the commit")


def wrong_batch(batch: DataFrame, batch_id: int) -> None:
    from spark_eos import MicroBatchTransaction

    options = {"checkpointLocation": f"{checkpoint}-wrong"}
    with MicroBatchTransaction(batch, batch_id + 1, url, options):
        pass


def each_batch(function: Callable[[DataFrame, int], None], of: str) -> str:
    """The error with which the query ends; empty if it has read everything."""
    rows = (
        spark.readStream.format("eoslog").option("subscribe", "numbers").option("startingOffsets", "earliest")
    )
    sink = (
        rows.load(url).writeStream.foreachBatch(function).option("checkpointLocation", f"{checkpoint}-{of}")
    )
    try:
        wait_for(start_query(sink.trigger(availableNow=True).start))
    except PySparkException as error:
        return str(error)
    return ""


told["frames failed"] = each_batch(route, "frames")
told["frames again"] = each_batch(route, "frames")
told["frames"] = [read("frame-1").count(), read("frame-2").count(), open(FAILS_ONCE).read()]  # noqa: PTH123, SIM115
told["wrong batch"] = each_batch(wrong_batch, "wrong")
with BatchTransaction(url, {"txnAppId": "job", "txnVersion": 1}) as transaction:
    transaction.write(frame, "job-1")
    transaction.write(frame.limit(1), "job-2")
told["job"] = [read("job-1").count(), read("job-2").count()]

end()
