"""Whole topics in DuckDB and Polars: the rows of `read_arrow`, whatever is sealed."""

from __future__ import annotations

import sys
from datetime import time, timedelta
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from spark_eos import Admin, Log, Producer, read_arrow, read_duckdb, read_polars
from spark_eos.clients.table_plan import plan_table
from spark_eos.errors import ConfigError
from tests.sealing import seal

SCHEMA = pa.schema(
    [
        pa.field("n", pa.int32(), nullable=False),
        ('a "b', pa.string()),
        ("tags", pa.list_(pa.string())),
        ("in", pa.struct([("x", pa.float64())])),
    ]
)
ALL = [*SCHEMA.names, "_topic", "_partition", "_offset", "_timestamp"]


def rows(first, end):
    return pa.table(
        {
            "n": pa.array(range(first, end), pa.int32()),
            'a "b': [None if n % 3 else f"t{n}" for n in range(first, end)],
            "tags": [["a"] * (n % 3) for n in range(first, end)],
            "in": [{"x": n / 2} for n in range(first, end)],
        },
        schema=SCHEMA,
    )


@pytest.fixture
def url(tmp_path):
    """A log in a folder with an awkward name. Partition 0 is sealed in two files and has more rows, 1 is not sealed."""
    url = str(tmp_path / "env=prod [a] {b}*?%20" / "log")
    with Admin(url) as admin, Producer(url) as producer:
        admin.create_topic("t", 2, schema=SCHEMA)
        for first in range(0, 60, 20):
            producer.send_arrow("t", rows(first, first + 20), partition=0).result(timeout=60)
        producer.send_arrow("t", rows(60, 70), partition=1).result(timeout=60)
    seal(Log.shared(url), "t", 15, 40, group=10)
    return url


def in_duckdb(*args, **kwargs):
    relation = read_duckdb(duckdb.connect(), *args, **kwargs)
    found = [relation.order("n").to_arrow_table() for _ in range(2)]
    assert found[0] == found[1], "a relation can be queried again"
    return found[0]


def in_polars(*args, **kwargs):
    frame = read_polars(*args, **kwargs).sort("n")
    found = frame.collect()
    assert found.equals(frame.collect())
    return found.to_arrow()


ENGINES = pytest.mark.parametrize("engine", [in_duckdb, in_polars])


@ENGINES
def test_the_rows_of_read_arrow(url, engine):
    assert len(plan_table(url, "t").files) == 2
    wanted = read_arrow(url, "t", columns=ALL).read_all().sort_by("n")
    found = engine(url, "t", columns=ALL)
    assert found.column_names == ALL
    for name in ALL:
        values = found[name].to_pylist()
        assert values == wanted[name].to_pylist(), name
    assert engine(url, "t").column_names == SCHEMA.names


@ENGINES
def test_one_moment(url, engine):
    entry = Log.shared(url).follow().seq
    frame = read_polars(url, "t")
    with Producer(url) as producer:
        producer.send_arrow("t", rows(90, 95), partition=0).result(timeout=60)
    seal(Log.shared(url), "t", 65)
    assert frame.collect().height == engine(url, "t", as_of=entry).num_rows == 70
    assert engine(url, "t").num_rows == 75


@ENGINES
def test_an_open_log_is_read_at_its_newest_entry(url, engine):
    """Also if that was written by another process, which the handle has not heard of."""
    opened = Log.open(url)
    with Producer(Log.open(url)) as producer:
        producer.send_arrow("t", rows(90, 95), partition=0).result(timeout=60)
    assert engine(opened, "t").num_rows == 75
    with Producer(Log.open(url)) as producer:
        producer.send_arrow("t", rows(95, 97), partition=0).result(timeout=60)
    assert read_arrow(opened, "t").read_all().num_rows == 77


def test_filters_and_columns(url):
    frame = read_polars(url, "t", columns=["_offset", "n"]).filter(pl.col("_offset") >= 38).select("n")
    assert sorted(frame.collect()["n"]) == [*range(38, 60)]
    assert frame.head(3).collect().height == 3
    relation = read_duckdb(duckdb.connect(), url, "t", columns=["n", "_partition"])
    assert relation.filter("_partition = 1").aggregate("min(n), max(n)").fetchall() == [(60, 69)]
    assert read_polars(url, "t", columns=["_topic"]).collect()["_topic"].to_list() == ["t"] * 70


def test_the_first_rows_of_many_batches(tmp_path):
    url = str(tmp_path / "log")
    with Producer(url) as producer:
        for value in range(4):
            producer.send_arrow("t", pa.table({"value": [b"%d" % value] * 10})).result(timeout=60)
    for count in (3, 10, 15, 100):
        assert read_polars(url, "t").head(count).collect().height == min(count, 40)


@ENGINES
def test_a_file_that_is_gone_is_an_error(url, engine):
    relation = read_duckdb(duckdb.connect(), url, "t") if engine is in_duckdb else read_polars(url, "t")
    next(Path(url).glob("tables/*/_segments/0/*.parquet")).unlink()
    with pytest.raises(Exception, match="_segments"):
        relation.fetchall() if engine is in_duckdb else relation.collect()


def test_types_that_parquet_has_otherwise_are_read_by_us(tmp_path):
    schema = pa.schema([("n", pa.int64()), ("d", pa.duration("us")), ("at", pa.time64("ns"))])
    url = str(tmp_path / "log")
    with Admin(url) as admin, Producer(url) as producer:
        admin.create_topic("t", 1, schema=schema)
        made = pa.table({"n": [1], "d": [timedelta(days=3)], "at": [time(1, 2, 3, 4)]}, schema=schema)
        producer.send_arrow("t", made).result(timeout=60)
    seal(Log.shared(url), "t", 1)
    row = (1, timedelta(days=3), time(1, 2, 3, 4))
    assert read_duckdb(duckdb.connect(), url, "t").fetchall() == [row]
    assert read_polars(url, "t").collect().rows() == [row]
    for engine in (in_duckdb, in_polars):
        assert engine(url, "t", columns=["n", "at"])["at"].to_pylist() == [row[2]]
        assert engine(url, "t", columns=["n"])["n"].to_pylist() == [1]


@ENGINES
def test_names_inside_that_differ_in_case_alone(tmp_path, engine, monkeypatch):
    """No topic gets such names any more; one of an earlier version may have them."""
    monkeypatch.setattr("spark_eos.log.data.schema_limits._check_names", lambda *_: None)
    schema = pa.schema([("n", pa.int64()), ("in", pa.struct([("x", pa.int64()), ("X", pa.int64())]))])
    url = str(tmp_path / "log")
    with Admin(url) as admin, Producer(url) as producer:
        admin.create_topic("t", 1, schema=schema)
        for n in range(2):
            made = pa.Table.from_pylist([{"n": n, "in": {"x": n, "X": 5}}], schema=schema)
            producer.send_arrow("t", made).result(timeout=60)
    seal(Log.shared(url), "t", 1)
    assert [[*row.values()] for row in engine(url, "t")["in"].to_pylist()] == [[0, 5], [1, 5]]


@ENGINES
def test_an_empty_topic_and_wrong_columns(tmp_path, engine):
    url = str(tmp_path / "log")
    with Admin(url) as admin:
        admin.create_topic("t", 1, schema=SCHEMA)
    assert engine(url, "t").num_rows == 0
    with pytest.raises(ConfigError, match="has no column 'm'"):
        engine(url, "t", columns=["m"])


def test_without_polars_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ConfigError, match=r"pip install .*'polars"):
        read_polars(Log.create("memory://no-polars"), "orders")
