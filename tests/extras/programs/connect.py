"""A client of Spark Connect writes a topic and reads it."""

import os

os.environ.update(SPARK_CONNECT_MODE_ENABLED="1", SPARK_TESTING="1")  # Any free port.

from pyspark.sql import SparkSession

spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert type(spark).__module__.startswith("pyspark.sql.connect")
frame = spark.range(100).selectExpr("cast(id as string) value")
frame.write.format("eoslog").option("topic", "numbers").mode("append").save("log")
assert spark.read.format("eoslog").option("subscribe", "numbers").load("log").count() == 100
spark.stop()
