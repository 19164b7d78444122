"""Spark Connect, all that users do with it. Arguments: the log, the checkpoint. Nothing is registered."""

from __future__ import annotations

import faulthandler
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.connect.streaming.query import StreamingQuery

from spark_eos import BatchTransaction, Log, ProgressListener, query_progress, read_table, start_query

url, checkpoint, bound = sys.argv[1:]
# What it waits for is said before the test ends it; the bound only ends a test that has failed.
faulthandler.dump_traceback_later(0.9 * float(bound))
spark = SparkSession.builder.remote("local[2]").getOrCreate()
told = {"session": type(spark).__module__}


def wait_for(query: StreamingQuery) -> None:
    """Until it has ended. Raises its error, or one with its state if it does not end."""
    if not query.awaitTermination(int(0.6 * float(bound))):
        raise TimeoutError(f"query {query.id} has not ended: {query.status}, {query.lastProgress}")


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
all_told = threading.Event()


class Listener(ProgressListener):
    """Says when it has been told of the end of the query.

    PySpark 4.2 holds a lock while it removes a listener and waits for the thread that tells it; that thread takes the
    same lock for each event. A listener that is removed before its last event hangs for ever.
    """

    def onQueryTerminated(self, event: Any) -> None:
        """The last event of a query."""
        super().onQueryTerminated(event)
        all_told.set()


listener = Listener(url, on_progress=reports.append)
spark.streams.addListener(listener)
query = start_query(lambda: writer.start(url))
wait_for(query)
assert all_told.wait(0.2 * float(bound)), "the listener was not told of the end of the query"
spark.streams.removeListener(listener)
told["reports"] = reports[:1]
told["progress"] = query_progress(query.recentProgress[0], url)
copied = spark.read.format("eoslog").option("subscribe", "copied").load(url)
told["stream"] = sorted(
    int(row.value) for row in copied.selectExpr("CAST(value AS STRING) AS value").collect()
)


def read(topic: str, **options: Any) -> DataFrame:
    """A batch read of a topic."""
    return spark.read.format("eoslog").option("subscribe", topic).options(**options).load(url)


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

FAILS_ONCE = f"{checkpoint}-failed"


def route(batch: DataFrame, batch_id: int) -> None:
    """Two frames in one commit; the first try fails after it."""
    from pathlib import Path

    from spark_eos import MicroBatchTransaction

    options = {"checkpointLocation": f"{checkpoint}-frames", "transactional.id": "frames"}
    with MicroBatchTransaction(batch, batch_id, url, options) as transaction:
        transaction.write(batch.select("value"), "frame-1")
        transaction.write(batch.selectExpr("length(value) AS bytes"), "frame-2")
        if transaction.is_repetition:
            Path(FAILS_ONCE).write_text("repeated")
    if not Path(FAILS_ONCE).exists():
        Path(FAILS_ONCE).touch()
        raise RuntimeError("after the commit")


def wrong_batch(batch: DataFrame, batch_id: int) -> None:
    from spark_eos import MicroBatchTransaction

    options = {"checkpointLocation": f"{checkpoint}-wrong"}
    with MicroBatchTransaction(batch, batch_id + 1, url, options):
        pass


def each_batch(function: Callable[[DataFrame, int], None], of: str) -> str:
    """The error with which the query ends; empty if it has read everything."""
    rows = (
        spark.readStream.format("eoslog").option("subscribe", "numbers").option("startingOffsets", "earliest")
    )
    sink = (
        rows.load(url).writeStream.foreachBatch(function).option("checkpointLocation", f"{checkpoint}-{of}")
    )
    try:
        wait_for(start_query(sink.trigger(availableNow=True).start))
    except PySparkException as error:
        return str(error)
    return ""


told["frames failed"] = each_batch(route, "frames")
told["frames again"] = each_batch(route, "frames")
told["frames"] = [read("frame-1").count(), read("frame-2").count(), open(FAILS_ONCE).read()]  # noqa: PTH123, SIM115
told["wrong batch"] = each_batch(wrong_batch, "wrong")
with BatchTransaction(url, {"txnAppId": "job", "txnVersion": 1}) as transaction:
    transaction.write(frame, "job-1")
    transaction.write(frame.limit(1), "job-2")
told["job"] = [read("job-1").count(), read("job-2").count()]

try:
    spark.read.format("eoslog").option("subscribe", "number").load(url).collect()
except PySparkException as error:
    told["error"] = str(error)

print("TOLD " + json.dumps(told))  # noqa: T201
spark.stop()
