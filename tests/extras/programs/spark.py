"""A batch of Spark into a topic, and a stream from there into another one."""

from functools import partial

from pyspark.sql import SparkSession

from spark_eos import start_query

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
numbers = spark.range(100).selectExpr("cast(id as string) key", "cast(id * id as string) value")
numbers.write.format("eoslog").option("topic", "numbers").mode("append").save("log")
stream = (
    spark.readStream.format("eoslog").option("subscribe", "numbers").option("startingOffsets", "earliest")
)
writer = stream.load("log").select("key", "value").writeStream.format("eoslog").option("topic", "copies")
writer.option("checkpointLocation", "checkpoint").trigger(availableNow=True)
start_query(partial(writer.start, "log")).awaitTermination()
assert spark.read.format("eoslog").option("subscribe", "copies").load("log").count() == 100
