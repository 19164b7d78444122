"""Spark with Delta, for the jobs that copy between a topic and a Delta table."""

from __future__ import annotations

import re

import pyspark
from pyspark.sql import SparkSession

__all__ = ["PACKAGE", "delta_session"]

SPARK = ".".join(pyspark.__version__.split(".")[:2])

PACKAGE = f"io.delta:delta-spark_{SPARK}_2.13:4.4.0"
"""Delta's jar. spark-submit fetches it with ``--packages``; a job that is run by ``python`` does so by itself."""


def delta_session(job: str) -> SparkSession:
    """As `settings.spark_session`, with Delta in it. Raises `SystemExit` without Delta's jar for this Spark."""
    if SPARK not in {"4.1", "4.2"}:
        raise SystemExit(
            f"error: Delta 4.4.0 has no jar for Spark {pyspark.__version__}: install PySpark 4.2 or 4.1"
        )
    spark = (
        SparkSession.builder.appName(job)
        .config("spark.jars.packages", PACKAGE)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        # Timestamps without a time zone would otherwise depend on the machine.
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    if problem := wrong_jar(str(spark.sparkContext._jsc.sc().listJars())):  # noqa: SLF001
        spark.stop()
        raise SystemExit(f"error: {problem}: give spark-submit --packages {PACKAGE}")
    return spark


def wrong_jar(jars: str) -> str:
    """What is wrong with Delta's jar among these; nothing if it is that of this Spark.

    Spark only warns about an extension whose class is missing, and fails much later with another message. With the
    jar of another Spark it fails (`NoSuchMethodError`) when the table's folder is there already.
    """
    found = re.search(r"delta-spark_(\d+\.\d+)_", jars)
    if found is None:
        return "" if "delta-spark" in jars else "Delta's jar is missing"
    return (
        "" if found[1] == SPARK else f"Delta's jar is the one for Spark {found[1]}, and this is Spark {SPARK}"
    )
