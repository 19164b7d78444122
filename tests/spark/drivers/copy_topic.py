"""Copy a topic to another one in micro-batches: what the tests submit to a cluster.

Arguments: the log, the source topic, the target topic, the checkpoint, offsets in a micro-batch.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from spark_eos.spark.start import start_query

url, source, target, checkpoint, limit = sys.argv[1:]
spark = SparkSession.builder.appName(f"copy {source} to {target}").getOrCreate()
writer = (
    spark.readStream.format("eoslog")
    .option("subscribe", source)
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", limit)
    .option("minPartitions", 2)
    .load(url)
    .select("key", "value")
    .writeStream.format("eoslog")
    .option("topic", target)
    .option("num.partitions", 4)
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
)
start_query(lambda: writer.start(url)).awaitTermination()
print("Spark", spark.version)  # noqa: T201
spark.stop()
