"""What the data source says to a user who may not read the log, without Spark."""

import os
import sys

from pyspark.sql.types import StructType

from spark_eos.spark.datasource import EosLogDataSource

url = sys.argv[1]


def steps():
    row = StructType().add("value", "string")
    yield lambda: EosLogDataSource({"path": url, "topic": "flights"}).writer(row, overwrite=False)
    yield lambda: EosLogDataSource({"path": url, "subscribe": "flights"}).schema()


for step in steps():  # As root: it works, and loads what the other user need not be able to.
    step()
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
for step in steps():
    try:
        step()
    except Exception as error:  # noqa: BLE001
        print(type(error).__name__, error)
