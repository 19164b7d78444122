"""Twenty rows that tasks of Spark write, and how many other tasks read."""

import sys

from pyspark.sql import SparkSession

url = sys.argv[1]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.range(20, numPartitions=2).selectExpr("cast(id as string) value")
rows.write.format("eoslog").option("topic", "t").option("num.partitions", 2).mode("append").save(url)
print(spark.read.format("eoslog").option("subscribe", "t").load(url).count())
