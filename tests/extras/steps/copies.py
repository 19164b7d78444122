"""The pipeline of `programs/pipelines.py`: it copies a topic."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

LOG = os.environ["LOG"]
dp.create_sink("copies", "eoslog", {"path": LOG, "topic": "copies"})


@dp.append_flow(target="copies", name="copy")
def copy() -> DataFrame:
    reader = SparkSession.active().readStream.format("eoslog").option("subscribe", "orders")
    return reader.option("startingOffsets", "earliest").load(LOG).select("key", "value")
