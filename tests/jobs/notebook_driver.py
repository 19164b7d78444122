"""Runs a notebook's cells in one namespace with ``dbutils.widgets``, on the Spark of ``spark-submit``.

Arguments: the notebook, its widgets as JSON, a folder of the driver.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace


class Widgets:
    """What `dbutils.widgets` does for text widgets: a value that was set stays."""

    def __init__(self, values):
        self._values = dict(values)

    def text(self, name, default_value, label=None):
        self._values.setdefault(name, default_value)

    def get(self, name):
        return self._values[name]


def cells(notebook):
    """The cells of a notebook in source format."""
    return Path(notebook).read_text(encoding="utf-8").split("\n# COMMAND ----------\n")


def see(folder):
    """What two tasks see: (executor, whether it sees the folder)."""

    def look(_):
        import time

        time.sleep(1)  # So that each executor gets one.
        return [(os.environ.get("SPARK_EXECUTOR_DIRS"), os.path.isdir(f"{folder}/local"))]  # noqa: PTH112

    return look


def main(notebook, widgets, folder):
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    names = {"dbutils": SimpleNamespace(widgets=Widgets(json.loads(widgets))), "spark": spark}
    looked = set(spark.sparkContext.parallelize(range(2), 2).mapPartitions(see(folder)).collect())
    seen = sum(sees for _, sees in looked)
    print(f"{len(looked)} executors, {seen} of them see the driver's folder")  # noqa: T201
    found = cells(notebook)
    for number, cell in enumerate(found):
        code = cell.strip()
        if not code.splitlines()[-1].startswith("# MAGIC"):
            exec(compile(code, f"{notebook}, cell {number}", "exec"), names)
    print(len(found), "cells on", spark.sparkContext.master)  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
