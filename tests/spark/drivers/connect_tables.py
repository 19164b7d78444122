"""Spark Connect: columns, tables, filters, SQL and queries with state. Arguments: see connecting."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from connecting import checkpoint, end, read, spark, told, url, wait_for
from pyspark.errors import PySparkException

from spark_eos import Log, read_table, start_query

frame = spark.range(100).selectExpr("CAST(id AS STRING) AS key", "CAST(id * 2 AS STRING) AS value")
frame.write.format("eoslog").option("topic", "numbers").option("num.partitions", 2).mode("append").save(url)
people = spark.createDataFrame([(1, "Ada"), (2, "Bob")], "id bigint, name string")
people.write.format("eoslog").option("topic", "people").mode("append").save(url)
told["typed"] = [
    [*row] for row in read("people", includeMetadata=True).select("id", "name", "_offset").collect()
]
sys.path.append(str(Path(__file__).parents[3]))
from tests.needing import is_here  # noqa: E402  (what is run from another folder)
from tests.sealing import seal  # noqa: E402

(sealed,) = seal(Log.shared(url), "people", 2)
whole = read_table(spark, url, "people", columns=["id", "_offset"])
told["whole"] = [sorted([*row] for row in whole.collect()), sealed in whole.inputFiles()[0]]
tables = version = None
if is_here("tables"):
    from spark_eos.extensions.tables.tables import Tables

    tables = Tables(url)
    tables.create("published", ["people"])
    version = tables.publish("published").versions["people"]
spark.createDataFrame([(3, "Cem")], people.schema).write.format("eoslog").option("topic", "people").mode(
    "append"
).save(url)
if tables:
    tables.publish("published")
    (table,) = tables.list_tables()
    after = (
        spark.readStream.format("eoslog")
        .option("subscribe", "people")
        .option("startingTable", table.location)
        .option("startingTableVersion", version)
        .load(url)
        .writeStream.format("eoslog")
        .option("topic", "after")
        .option("checkpointLocation", f"{checkpoint}-after")
        .trigger(availableNow=True)
    )
    wait_for(start_query(lambda: after.start(url)))
    told["after the version"] = [[*row] for row in read("after").select("id", "name").collect()]
told["columns of a read"] = read("people", columns="name").columns
spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
told["filtered"] = [
    row.id for row in read("people", filterPushdown=True).where("id > 1").select("id").collect()
]
spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
before = Log.shared(url).follow().seq
people.limit(1).write.format("eoslog").option("topic", "people").mode("overwrite").save(url)
told["overwritten"] = [read("people", versionAsOf=before).count(), read("people").count()]

if is_here("value_formats"):
    avro = {"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}]}
    values = {"value.format": "avro-single-object", "value.schema": json.dumps(avro)}
    orders = spark.createDataFrame([("pears",)], "item string")
    orders.write.format("eoslog").options(**values).option("topic", "orders").mode("append").save(url)
    told["avro"] = [row.item for row in read("orders").select("item").collect()]

spark.sql("CREATE TABLE new_rows (value STRING) USING eoslog")
spark.sql(f"INSERT INTO new_rows WITH (path = '{url}', topic = 'lines') VALUES ('a'), ('b')")
spark.sql("CREATE TABLE lines (value BINARY) USING eoslog")
told["sql"] = spark.sql(f"SELECT count(*) FROM lines WITH (path = '{url}', subscribe = 'lines')").first()[0]


def counts(checkpoint_of: str) -> None:
    """Counts in complete mode, a query with state."""
    rows = (
        spark.readStream.format("eoslog").option("subscribe", "numbers").option("startingOffsets", "earliest")
    )
    counted = (
        rows.load(url).groupBy("topic").count().selectExpr("topic AS key", "CAST(count AS STRING) AS value")
    )
    sink = counted.writeStream.format("eoslog").outputMode("complete").option("topic", "counts")
    sink = sink.option("transactional.id", "counts").option(
        "checkpointLocation", f"{checkpoint}-{checkpoint_of}"
    )
    wait_for(start_query(lambda: sink.trigger(availableNow=True).start(url)))


spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
told["where"] = [
    [*row] for row in read("people", columns="name", where="_offset >= 3 AND _partition = 0").collect()
]
try:
    read("people", where="nmae = 'a'").collect()
except PySparkException as error:
    told["no filter"] = str(error)
filtered = read("people", columns="_offset,name,_partition", filterPushdown=True)
told["filter of columns"] = [[*row] for row in filtered.where("_offset >= 3 AND _partition = 0").collect()]
try:
    filtered.where("_offset = 1").collect()
except PySparkException as error:
    told["second filter"] = str(error)
spark.conf.unset("spark.sql.python.filterPushdown.enabled")

spark.conf.set("spark.sql.shuffle.partitions", "2")  # Of state: a task each, and 200 is Spark's default.
counts("first")
told["complete"] = [row[0] for row in read("counts").selectExpr("CAST(value AS STRING)").collect()]
try:
    counts("another")
except PySparkException as error:
    told["refused"] = str(error)
end()
