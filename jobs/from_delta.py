"""Copy a Delta table's rows into a topic, each exactly once, through crashes and restarts.

    spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0 jobs/from_delta.py \\
        --table /data/flights --log /data/log --topic flights_again --checkpoint /data/checkpoints/from_delta

Rows and the position in Delta go into the log as one entry. The transactional id is fixed (``--transactional-id``,
default: ``from_delta-`` and the topic), so the log notices a checkpoint that does not continue where it left off:
with a lost or an older one the job is refused instead of copying rows twice. The table has to be one that is
only appended to; Delta refuses a changed one by itself.
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
    rows = spark.readStream.format("delta")
    if options.max_files:
        rows = rows.option("maxFilesPerTrigger", options.max_files)
    sink = (
        rows.load(options.table)
        .writeStream.format("eoslog")
        .queryName(f"Delta to {options.topic}")
        .option("topic", options.topic)
        .option("num.partitions", options.partitions)
        .option("transactional.id", options.transactional_id or f"from_delta-{options.topic}")
        .option("checkpointLocation", options.checkpoint)
    )
    sink = sink.trigger(processingTime="1 second") if options.continuous else sink.trigger(availableNow=True)
    sink.start(options.log).awaitTermination()


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--table", required=True, help="the Delta table's folder")
    parser.add_argument("--log", required=True, help="the log, a folder or URL; created if it is missing")
    parser.add_argument("--topic", required=True, help="the topic to write; created if it is missing")
    parser.add_argument("--checkpoint", required=True, help="the query's checkpoint; keep it with the log")
    parser.add_argument("--partitions", type=int, default=1, help="partitions of a new topic (default: 1)")
    parser.add_argument("--transactional-id", help="who writes; the same in every run (default: from the topic)")
    parser.add_argument("--max-files", type=int, help="Delta files in one micro-batch (default: 1000)")
    parser.add_argument("--continuous", action="store_true", help="do not stop at the end of the table")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    chosen = parse(sys.argv[1:])
    spark = session("from_delta")
    try:
        run(spark, chosen)
    finally:
        spark.stop()
