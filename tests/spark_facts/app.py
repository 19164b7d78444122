"""An application of its own: runs the plain source and sink on ``master`` and says what it was told.

Arguments: master, folder for the recording.
"""

from __future__ import annotations

import os
import sys

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark_facts.plain import NAME, Plain, Recording


def main(master, folder):
    recording = Recording(folder)
    spark = (
        SparkSession.builder.master(master)
        .config("spark.executor.memory", "512m")
        .config("spark.executor.extraJavaOptions", os.environ.get("SPARK_SUBMIT_OPTS", ""))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        spark.read.format("eoslog").load("/none")
        error = ""
    except (PySparkException, Py4JJavaError) as raised:
        error = str(raised)
    recording.note("discovery", error=error)
    spark.dataSource.register(Plain)
    recording.put("end-a", 10)
    options = {"record": folder, "who": "a", "checkpoint": f"{folder}/checkpoint"}
    writer = spark.readStream.format(NAME).options(**options).load().writeStream.format(NAME)
    writer = writer.option("record", folder).option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
