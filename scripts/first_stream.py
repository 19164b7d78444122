"""A first batch and a first stream through a log: most of the classes that Spark will ever load for one."""

from __future__ import annotations

import tempfile

from pyspark.sql import SparkSession

spark = SparkSession.builder.config("spark.sql.shuffle.partitions", 2).getOrCreate()
with tempfile.TemporaryDirectory() as folder:
    log = f"{folder}/log"
    numbers = spark.range(10).selectExpr("CAST(id AS STRING) AS key", "CAST(id * 2 AS STRING) AS value")
    numbers.write.format("eoslog").option("topic", "numbers").mode("append").save(log)
    read = (
        spark.readStream.format("eoslog").option("subscribe", "numbers").option("startingOffsets", "earliest")
    )
    counts = read.load(log).groupBy("key").count().selectExpr("key", "CAST(count AS STRING) AS value")
    written = counts.writeStream.format("eoslog").option("topic", "counts").outputMode("complete")
    written = written.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    written.start(log).awaitTermination()
    assert spark.read.format("eoslog").option("subscribe", "counts").load(log).count() == 10
spark.stop()
