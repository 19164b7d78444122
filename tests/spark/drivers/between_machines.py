"""A user's job, with what the wheel brings alone: copies ``in`` to ``out`` in each of the logs that it is given.

Arguments: a folder for checkpoints, where to start, and the logs. The keys say where the tasks ran.
"""

from __future__ import annotations

import json
import os
import sys

from pyspark.sql import SparkSession


def seen(batches):
    """The rows, with the environment of the task's Python as their key."""
    import pyarrow as pa

    place = json.dumps([sys.prefix, os.environ.get("SPARK_LOCAL_IP")]).encode()
    for batch in batches:
        keys = pa.array([place] * len(batch), pa.binary())
        yield pa.RecordBatch.from_arrays([keys, batch.column("value")], ["key", "value"])


def main(checkpoints, start, *logs):
    spark = SparkSession.builder.getOrCreate()
    for number, log in enumerate(logs):
        rows = spark.readStream.format("eoslog").option("subscribe", "in")
        rows = rows.option("startingOffsets", start).option("group.id", "copy").load(log)
        query = (
            rows.select("value")
            .mapInArrow(seen, "key binary, value binary")
            .writeStream.format("eoslog")
            .option("topic", "out")
            .option("transactional.id", "copy")
            .option("checkpointLocation", f"{checkpoints}/{number}")
            .trigger(availableNow=True)
            .start(log)
        )
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
