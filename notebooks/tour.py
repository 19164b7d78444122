# Databricks notebook source
# MAGIC %md
# MAGIC # A tour of spark_eos
# MAGIC Flights come in as one topic; a stream looks up the airline and writes two topics, `departures` and
# MAGIC `cancelled`. Rows and source offsets are committed in **one** transaction for each micro-batch. The same as a
# MAGIC job for `spark-submit` is `jobs/consume_transform_produce.py`.
# MAGIC
# MAGIC It needs **Spark 4.2 or 4.3**, or a Databricks runtime with it, on a single machine or a cluster. The driver and
# MAGIC the workers share nothing but the storage. Outside of Databricks, install `spark-eos[spark]` and leave the next
# MAGIC cell out.

# COMMAND ----------

# MAGIC %pip install "spark-eos[objectstore]"

# COMMAND ----------

# MAGIC %md
# MAGIC ## Settings
# MAGIC On Databricks they are widgets above the notebook, elsewhere environment variables (`TOUR_LOG`, ...).
# MAGIC
# MAGIC - `log`: where the log is made, a new place. `s3://bucket/path`, `abfss://...`, `gs://...`, or a folder that
# MAGIC   driver and workers share. A Unity Catalog Volume cannot hold a log.
# MAGIC - `checkpoints`: a folder for checkpoints, as for any stream: a Volume, or a URL that Spark knows.
# MAGIC - `store`: settings of the object store as JSON (`{"s3.region": "eu-central-1"}`). Credentials come from the
# MAGIC   environment of the cluster.

# COMMAND ----------

import json
import os
import tempfile
import time

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_eos import Admin, TopicPartition, query_progress
from spark_eos.spark.datasource import EosLogDataSource

spark = SparkSession.builder.getOrCreate()
spark.dataSource.register(
    EosLogDataSource
)  # A cluster that was started before %pip has not found it by itself.

widgets = getattr(globals().get("dbutils"), "widgets", None)


def setting(name, default):
    if widgets is None:
        return os.environ.get(f"TOUR_{name.upper()}", default)
    widgets.text(name, "" if default.startswith("/") else default)
    assert widgets.get(name), f"set the widget {name!r}"  # No folder of the driver: workers would not see it.
    return widgets.get(name)


folder = tempfile.mkdtemp(prefix="spark-eos-tour-")
log = setting("log", f"{folder}/log")
checkpoints = setting("checkpoints", f"{folder}/checkpoints")
store = json.loads(setting("store", "{}"))
print(log)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Topics
# MAGIC Writing creates missing topics by itself; `Admin` creates them with the number of partitions and the
# MAGIC settings that you want.

# COMMAND ----------

admin = Admin(log, store)
for topic in ("flights", "departures", "cancelled"):
    admin.create_topic(topic, partitions=4)
print(admin.list_topics())

# COMMAND ----------

# MAGIC %md
# MAGIC ## A batch write: all rows or none
# MAGIC The rows are those of Kafka: a value, and optionally a key, headers, a partition and a timestamp. A key
# MAGIC goes to the partition to which Kafka's partitioner would send it.

# COMMAND ----------

carriers = F.array(*map(F.lit, ["UA", "AA", "B6", "DL", "EV"]))
flights = spark.range(2000).select(
    F.element_at(carriers, (F.col("id") % 5 + 1).cast("int")).alias("carrier"),
    F.col("id").alias("flight"),
    F.when(F.col("id") % 40 != 7, F.col("id") * 13 % 90 - 10).alias("dep_delay"),
)
records = flights.select(F.col("carrier").alias("key"), F.to_json(F.struct("*")).alias("value"))
records.write.format("eoslog").option("topic", "flights").mode("append").options(**store).save(log)

spark.read.format("eoslog").option("subscribe", "flights").options(**store).load(log).select(
    F.col("key").cast("string"), F.col("value").cast("string"), "partition", "offset"
).show(5, truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Stream to stream: one topic in, two topics out
# MAGIC The column `topic` says where a row goes. The checkpoint has to be an option of the query, and the
# MAGIC `transactional.id` should be fixed: by it the log knows the job again, whatever becomes of the checkpoint.

# COMMAND ----------

airlines = spark.createDataFrame(
    [("UA", "United"), ("AA", "American"), ("B6", "JetBlue"), ("DL", "Delta"), ("EV", "ExpressJet")],
    "carrier string, airline string",
)


def departures_and_cancelled(source):
    flight = F.from_json(F.col("value").cast("string"), "carrier string, flight long, dep_delay long")
    rows = source.select("key", flight.alias("flight")).select("key", "flight.*")
    return rows.join(F.broadcast(airlines), "carrier", "left").select(
        F.when(F.col("dep_delay").isNull(), "cancelled").otherwise("departures").alias("topic"),
        "key",
        F.to_json(F.struct("flight", "airline", "dep_delay")).alias("value"),
    )


def run_once():
    source = (
        spark.readStream.format("eoslog")
        .option("subscribe", "flights")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 700)
        .options(**store)
        .load(log)
    )
    query = (
        departures_and_cancelled(source)
        .writeStream.format("eoslog")
        .option("checkpointLocation", f"{checkpoints}/tour")
        .option("transactional.id", "tour")
        .trigger(availableNow=True)
        .options(**store)
        .start(log)
    )
    query.awaitTermination()
    return query_progress(query, log, settings=store)


def counts():
    read = spark.read.format("eoslog").option("subscribe", "departures,cancelled").options(**store).load(log)
    return {row["topic"]: row["count"] for row in read.groupBy("topic").count().collect()}


progress = run_once()
print(counts())
print(progress["sources"][0]["description"], "->", progress["sink"]["description"])

# COMMAND ----------

# MAGIC %md
# MAGIC ## Start it again
# MAGIC Nothing is new, so nothing is written. Then ten more flights come in, and ten more rows go out.
# MAGIC `scripts/demo` in the repository shows the same with a driver that is killed at the worst moments.

# COMMAND ----------

run_once()
assert sum(counts().values()) == 2000

before_the_late_ones = time.time_ns() // 1_000_000
time.sleep(0.01)  # Times are kept in milliseconds.
records.limit(10).write.format("eoslog").option("topic", "flights").mode("append").options(**store).save(log)
run_once()
print(counts())
assert sum(counts().values()) == 2010

# COMMAND ----------

# MAGIC %md
# MAGIC ## Where the job is
# MAGIC The offsets of the input were committed with the output: they are at the end of every partition.
# MAGIC (Ends are larger than the number of rows where a transaction has put its COMMIT marker, as in Kafka.)

# COMMAND ----------

committed = admin.list_group_offsets("tour")
for partition in admin.describe_topic("flights").partitions:
    offset = committed[TopicPartition("flights", partition.partition)].offset
    print(f"flights-{partition.partition}: committed {offset} of {partition.end}")
    assert offset == partition.end

# COMMAND ----------

# MAGIC %md
# MAGIC ## Reading from where you like
# MAGIC A batch read starts and ends at offsets or timestamps of your choice. Spark filters what was read: it hands no
# MAGIC filter on to this source. A schema with fewer columns reads no others.

# COMMAND ----------

ends = {
    str(partition.partition): min(partition.end, 3)
    for partition in admin.describe_topic("departures").partitions
}
first = (
    spark.read.format("eoslog")
    .option("subscribe", "departures")
    .option("endingOffsets", json.dumps({"departures": ends}))
    .options(**store)
    .load(log)
)
first.select("partition", "offset", F.col("value").cast("string")).orderBy("partition", "offset").show(
    truncate=False
)
assert first.count() == sum(ends.values())

values = (
    spark.read.schema("value binary")
    .format("eoslog")
    .option("subscribe", "departures")
    .options(**store)
    .load(log)
)
assert values.columns == ["value"]

# COMMAND ----------

# MAGIC %md
# MAGIC ## The log as it was
# MAGIC `timestampAsOf` reads the log as it was at a time, `versionAsOf` behind an entry (`eoslog history` lists them),
# MAGIC as long as that is retained. Here: before the ten flights that came late.

# COMMAND ----------

flights_then = (
    spark.read.format("eoslog")
    .option("subscribe", "flights")
    .option("timestampAsOf", before_the_late_ones)
    .options(**store)
    .load(log)
)
print(flights_then.count())
assert flights_then.count() == 2000

# COMMAND ----------

# MAGIC %md
# MAGIC ## A lost checkpoint
# MAGIC With a new checkpoint `startingOffsets=committed` goes on where the log says that the job has been. From
# MAGIC `earliest`, everything would be written twice: the log refuses that.

# COMMAND ----------

again = (
    spark.readStream.format("eoslog")
    .option("subscribe", "flights")
    .option("startingOffsets", "earliest")
    .options(**store)
    .load(log)
)
query = (
    departures_and_cancelled(again)
    .writeStream.format("eoslog")
    .option("checkpointLocation", f"{checkpoints}/another")
    .option("transactional.id", "tour")
    .trigger(availableNow=True)
    .options(**store)
    .start(log)
)
try:
    query.awaitTermination()
    refused = False
except StreamingQueryException as error:
    refused = True
    print([line for line in str(error).splitlines() if line.startswith("spark_eos.errors.")][-1])
assert refused
assert sum(counts().values()) == 2010
