"""Copy a topic into a Delta table, each row exactly once, through crashes and restarts.

    spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0 jobs/to_delta.py \\
        --log /data/log --topic flights --table /data/flights --checkpoint /data/checkpoints/to_delta

Delta's own bookkeeping does it: the commit of a micro-batch carries the query's id and the batch's number, and
one that is there already is skipped. That is as good as the checkpoint: with a new one the query has a new id,
and everything is copied again. So keep the checkpoint as long as the table.
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import SparkSession

PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"


def session(name: str) -> SparkSession:
    """A session that knows Delta. Spark's Ivy fetches the jar, unless spark-submit has been given it."""
    return (
        SparkSession.builder.appName(name)
        .config("spark.jars.packages", PACKAGE)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .getOrCreate()
    )


def run(spark: SparkSession, options: argparse.Namespace) -> None:
    """Copy what is there now; with ``continuous`` go on until the query is stopped."""
    rows = (
        spark.readStream.format("eoslog")
        .option("subscribe", options.topic)
        .option("startingOffsets", "earliest")
    )
    if options.max_offsets:
        rows = rows.option("maxOffsetsPerTrigger", options.max_offsets)
    sink = (
        rows.load(options.log)
        .writeStream.format("delta")
        .queryName(f"{options.topic} to Delta")
        .option("checkpointLocation", options.checkpoint)
    )
    sink = sink.trigger(processingTime="1 second") if options.continuous else sink.trigger(availableNow=True)
    sink.start(options.table).awaitTermination()


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--log", required=True, help="the log, a folder or URL")
    parser.add_argument("--topic", required=True, help="the topic to copy")
    parser.add_argument("--table", required=True, help="the Delta table's folder; created if it is missing")
    parser.add_argument("--checkpoint", required=True, help="the query's checkpoint; keep it with the table")
    parser.add_argument("--max-offsets", type=int, help="records in one micro-batch (default: all there are)")
    parser.add_argument("--continuous", action="store_true", help="do not stop at the end of the topic")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    chosen = parse(sys.argv[1:])
    spark = session("to_delta")
    try:
        run(spark, chosen)
    finally:
        spark.stop()
