"""A Spark job: reads versions of Delta tables, and writes each as a file of Arrow.

Arguments: a file of JSON, a list of [table, version, condition or null, file to write].
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

SESSION = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

if __name__ == "__main__":
    builder = SparkSession.builder
    for name, value in SESSION.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for table, version, condition, output in json.loads(Path(sys.argv[1]).read_text()):
        frame = spark.read.format("delta").option("versionAsOf", version).load(table)
        found = (frame if condition is None else frame.where(condition)).toArrow()
        with pa.OSFile(output, "wb") as sink, pa.ipc.new_file(sink, found.schema) as writer:
            writer.write_table(found)
