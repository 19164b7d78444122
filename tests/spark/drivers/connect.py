"""Spark Connect, all that users do with it. Arguments: the log, the checkpoint. Nothing is registered."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_eos import ProgressListener, query_progress, start_query

url, checkpoint = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
told = {"session": type(spark).__module__}

frame = spark.range(100).selectExpr("CAST(id AS STRING) AS key", "CAST(id * 2 AS STRING) AS value")
frame.write.format("eoslog").option("topic", "numbers").option("num.partitions", 2).mode("append").save(url)
read = spark.read.format("eoslog").option("subscribe", "numbers").load(url)
told["columns"] = read.columns
told["batch"] = sorted(int(row.value) for row in read.selectExpr("CAST(value AS STRING) AS value").collect())

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
listener = ProgressListener(url, on_progress=reports.append)
spark.streams.addListener(listener)
query = start_query(lambda: writer.start(url))
query.awaitTermination()
end = time.monotonic() + 60
while not reports and time.monotonic() < end:
    time.sleep(0.1)
spark.streams.removeListener(listener)
told["reports"] = reports[:1]
told["progress"] = query_progress(query.recentProgress[0], url)
copied = spark.read.format("eoslog").option("subscribe", "copied").load(url)
told["stream"] = sorted(
    int(row.value) for row in copied.selectExpr("CAST(value AS STRING) AS value").collect()
)

try:
    spark.read.format("eoslog").option("subscribe", "number").load(url).collect()
except PySparkException as error:
    told["error"] = str(error)

print("TOLD " + json.dumps(told))  # noqa: T201
spark.stop()
