"""Spark Connect: batches, a stream with its listener, a transaction in ``foreachBatch``. Arguments: see connecting."""

from __future__ import annotations

import threading
from typing import Any

from connecting import bound, checkpoint, end, read, spark, told, url, wait_for
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from spark_eos import ProgressListener, query_progress, start_query

frame = spark.range(100).selectExpr("CAST(id AS STRING) AS key", "CAST(id * 2 AS STRING) AS value")
frame.write.format("eoslog").option("topic", "numbers").option("num.partitions", 2).mode("append").save(url)
numbers = read("numbers")
told["columns"] = numbers.columns
told["batch"] = sorted(
    int(row.value) for row in numbers.selectExpr("CAST(value AS STRING) AS value").collect()
)

writer = (
    spark.readStream.format("eoslog")
    .option("subscribe", "numbers")
    .option("startingOffsets", "earliest")
    .load(url)
    .select("key", "value")
    .writeStream.format("eoslog")
    .option("topic", "copied")
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
)
reports: list[dict[str, Any]] = []
all_told = threading.Event()


class Listener(ProgressListener):
    """Says when it has been told of the end of the query.

    PySpark 4.2 holds a lock while it removes a listener and waits for the thread that tells it; that thread takes the
    same lock for each event. A listener that is removed before its last event hangs for ever.
    """

    def onQueryTerminated(self, event: Any) -> None:
        """The last event of a query."""
        super().onQueryTerminated(event)
        all_told.set()


listener = Listener(url, on_progress=reports.append)
spark.streams.addListener(listener)
query = start_query(lambda: writer.start(url))
wait_for(query)
assert all_told.wait(0.2 * float(bound)), "the listener was not told of the end of the query"
spark.streams.removeListener(listener)
told["reports"] = reports[:1]
told["progress"] = query_progress(query.recentProgress[0], url)
copied = read("copied").selectExpr("CAST(value AS STRING) AS value")
told["stream"] = sorted(int(row.value) for row in copied.collect())


def route(batch: DataFrame, batch_id: int) -> None:
    """Two frames in one commit, in a process that the server has started."""
    from spark_eos import MicroBatchTransaction

    options = {"checkpointLocation": f"{checkpoint}-frames", "transactional.id": "frames"}
    with MicroBatchTransaction(batch, batch_id, url, options) as transaction:
        transaction.write(batch.select("value"), "frame-1")
        transaction.write(batch.selectExpr("length(value) AS bytes"), "frame-2")


rows = spark.readStream.format("eoslog").option("subscribe", "numbers").option("startingOffsets", "earliest")
frames = rows.load(url).writeStream.foreachBatch(route).option("checkpointLocation", f"{checkpoint}-frames")
wait_for(start_query(frames.trigger(availableNow=True).start))
told["frames"] = [read("frame-1").count(), read("frame-2").count()]

try:
    spark.read.format("eoslog").option("subscribe", "number").load(url).collect()
except PySparkException as error:
    told["error"] = str(error)

end()
