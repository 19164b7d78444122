"""A session for Delta is configured, and the Spark that came with it writes and reads a topic. Its jars are Maven's."""

from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

builder = configure_spark_with_delta_pip(SparkSession.builder.master("local[2]"))
assert "delta-spark_4" in builder._options["spark.jars.packages"], builder._options

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = spark.config("spark.jars.packages", "").getOrCreate()
frame = spark.range(100).selectExpr("cast(id as string) value")
frame.write.format("eoslog").option("topic", "numbers").mode("append").save("log")
assert spark.read.format("eoslog").option("subscribe", "numbers").load("log").count() == 100
