"""Read whole topics, stream on from a version of a table, and copy a topic of an encrypted log.

Arguments: the log, the table, its version, the encrypted log, its keys, a checkpoint.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import DataFrame, SparkSession

from spark_eos import read_table

url, table, version, encrypted, keys, checkpoint = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
secret = {"encryption.keys": keys, "encryption.key.id": "one"}


def values(frame: DataFrame) -> list[int]:
    """The values of a topic, in order."""
    return sorted(int(row.value) for row in frame.selectExpr("CAST(value AS STRING) AS value").collect())


def copy(log: str, topic: str, name: str, options: dict[str, str], start: dict[str, str]) -> None:
    """What the source has now, to another topic."""
    source = spark.readStream.format("eoslog").options(subscribe=topic, minPartitions="2", **options, **start)
    sink = source.load(log).select("key", "value").writeStream.format("eoslog").options(**options)
    sink = sink.options(topic=name, checkpointLocation=f"{checkpoint}-{name}").trigger(availableNow=True)
    sink.start(log).awaitTermination()


whole = read_table(spark, url, "flights")
told = {"files": whole.inputFiles(), "values": values(whole)}
copy(url, "flights", "later", {}, {"startingTable": table, "startingTableVersion": version})
copy(encrypted, "secrets", "copies", secret, {"startingOffsets": "earliest"})
told["copies"] = values(read_table(spark, encrypted, "copies", options=secret))
print("TOLD " + json.dumps(told))  # noqa: T201
spark.stop()
