"""Read a whole topic, and stream on from a version of its table.

Arguments: the log, the table, its version, a checkpoint.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from spark_eos import read_table

url, table, version, checkpoint = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
whole = read_table(spark, url, "flights")
values = sorted(int(row.value) for row in whole.selectExpr("CAST(value AS STRING) AS value").collect())
reader = spark.readStream.format("eoslog").option("subscribe", "flights").option("startingTable", table)
(
    reader.option("startingTableVersion", version)
    .load(url)
    .select("key", "value")
    .writeStream.format("eoslog")
    .option("topic", "later")
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start(url)
    .awaitTermination()
)
print("TOLD " + json.dumps({"files": whole.inputFiles(), "values": values}))  # noqa: T201
spark.stop()
