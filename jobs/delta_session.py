"""Spark with Delta, for the jobs that copy between a topic and a Delta table."""

from __future__ import annotations

import pyspark
from pyspark.sql import SparkSession

__all__ = ["PACKAGE", "delta_session"]

SPARK = ".".join(pyspark.__version__.split(".")[:2])

PACKAGE = f"io.delta:delta-spark_{SPARK}_2.13:4.4.0"
"""Delta's jar. spark-submit fetches it with ``--packages``; a job that is run by ``python`` does so by itself."""


def delta_session(job: str) -> SparkSession:
    """As `settings.spark_session`, with Delta in it. Raises `SystemExit` without a jar of Delta."""
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
    # Spark only warns about an extension whose class is missing, and fails much later with another message.
    if not str(spark.sparkContext._jsc.sc().listJars()).count("delta-spark"):  # noqa: SLF001
        spark.stop()
        raise SystemExit(f"error: Delta's jar is missing: give spark-submit --packages {PACKAGE}")
    return spark
