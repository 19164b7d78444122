"""`read_table` on real Spark: the rows of the source, whatever is sealed, at one moment."""

from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest

from spark_eos import Admin, Producer, read_table
from spark_eos.errors import ConfigError, UnknownTopicOrPartitionError
from spark_eos.spark import table
from spark_eos.spark.sink.commit import truncation
from tests.sealing import seal

NESTED = pa.schema(
    [
        pa.field("n", pa.int32(), nullable=False),
        ("a b,`c.d", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("tags", pa.list_(pa.string())),
        ("by", pa.map_(pa.string(), pa.int64())),
        ("in", pa.struct([("x", pa.float64()), ("raw", pa.binary())])),
    ]
)
OLD = datetime(1500, 3, 1, 7, tzinfo=timezone.utc)


def nested(n):
    """A row: dates before 1582 among them, which Spark could take for those of another calendar."""
    return {
        "n": n,
        "a b,`c.d": None if n % 3 else f"t{n}",
        "price": None,
        "day": date(1000 + n, 2, 28),
        "at": OLD.replace(day=1 + n % 20),
        "local": OLD.replace(tzinfo=None),
        "tags": [None, "a"][: n % 3],
        "by": [("k", n)],
        "in": {"x": n / 2, "raw": b"\0"},
    }


@pytest.fixture
def typed(tmp_path):
    """A log in a folder with an awkward name, and a topic of 60 rows: two sealed files, and rows that are not."""
    url = str(tmp_path / "env=prod [a] {b}%20" / "log")
    with Admin(url) as admin, Producer(url) as producer:
        admin.create_topic("t", 1, schema=NESTED)
        for first in range(0, 60, 10):
            rows = pa.Table.from_pylist([nested(n) for n in range(first, first + 10)], schema=NESTED)
            producer.send_arrow("t", rows).result(timeout=60)
    from spark_eos import Log

    seal(Log.shared(url), "t", 15, 50, group=10)
    return url


def source(spark, url, topic="t", **options):
    return spark.read.format("eoslog").options(path=url, subscribe=topic, **options).load()


def same(found, wanted):
    assert [(field.name, field.dataType) for field in found.schema] == [
        (field.name, field.dataType) for field in wanted.schema
    ]
    assert all(field.nullable for field in found.schema)
    assert sorted(map(str, found.collect())) == sorted(map(str, wanted.collect()))


def scans(frame):
    """How Spark would read it: from Parquet files, by the Python source, or both."""
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    return "parquet" in plan, "eoslog" in plan


def test_typed_rows_in_hostile_settings(spark, typed):
    """The session says that missing files are passed over and dates are of the old calendar. This read says not."""
    said = {
        "spark.sql.files.ignoreMissingFiles": "true",
        "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    }
    for name, value in said.items():
        spark.conf.set(name, value)
    try:
        found = read_table(spark, typed, "t", options={"includeMetadata": "true"})
        assert scans(found) == (True, True)
        same(found, source(spark, typed, includeMetadata="true"))
        gone = read_table(spark, typed, "t")
        for path in Path(typed).glob("tables/*/_segments/0/*.parquet"):
            path.unlink()
        with pytest.raises(Exception, match=r"(?s)_segments.*parquet.*(does not exist|not.exist)"):
            gone.collect()
    finally:
        for name in said:
            spark.conf.unset(name)


def test_columns_and_filters_reach_the_files(spark, typed):
    found = read_table(spark, typed, "t", columns=["_offset", "n", "_topic"])
    same(found, source(spark, typed, columns="_offset,n,_topic"))
    plan = found.select("n").filter("_offset < 12 and n > 3")._jdf.queryExecution().executedPlan().toString()
    assert "ReadSchema: struct<_offset:bigint,n:int>" in plan
    assert "PushedFilters: [IsNotNull(_offset), IsNotNull(n), LessThan(_offset,12), GreaterThan(n,3)]" in plan


def test_one_moment(spark, typed):
    """What comes later is in no part of a frame that was made before, nor in one as of that entry."""
    from spark_eos import Log

    entry = Log.shared(typed).follow().seq
    before = read_table(spark, typed, "t", columns=["n"])
    with Producer(typed) as producer:
        producer.send_arrow("t", pa.Table.from_pylist([nested(60)], schema=NESTED)).result(timeout=60)
    seal(Log.shared(typed), "t", 61)
    assert sorted(row.n for row in before.collect()) == [*range(60)]
    assert sorted(row.n for row in read_table(spark, typed, "t", as_of=entry).collect()) == [*range(60)]
    now = read_table(spark, typed, "t", columns=["n"])
    assert scans(now) == (True, False)
    assert sorted(row.n for row in now.collect()) == [*range(61)]


def test_kafka_shaped_rows(spark, bench):
    bench.topic("src", 2)
    bench.produce("src", range(20))
    bench.produce("src", range(20, 40))
    seal(bench.log, "src", 10, 20)
    seal(bench.log, "src", 20, partition=1)
    bench.produce("src", range(40, 44))
    same(read_table(spark, bench.url, "src"), source(spark, bench.url, "src"))
    headers = {"includeHeaders": "true"}
    same(read_table(spark, bench.url, "src", options=headers), source(spark, bench.url, "src", **headers))
    bench.log.commit(lambda state: truncation(state, "src"))
    empty = read_table(spark, bench.url, "src")
    assert empty.collect() == []
    assert empty.columns == source(spark, bench.url, "src").columns


def test_types_of_spark_alone_are_read_by_eoslog(spark, tmp_path):
    url = str(tmp_path / "log")
    rows = spark.sql("SELECT CAST('ab' AS CHAR(4)) AS c, INTERVAL '3' DAY AS i, 1 AS n")
    rows.write.format("eoslog").option("topic", "t").mode("append").save(url)
    from spark_eos import Log

    seal(Log.shared(url), "t", 1)
    found = read_table(spark, url, "t")
    assert scans(found) == (False, True)
    same(found, source(spark, url))
    narrow = read_table(spark, url, "t", columns=["n"])
    assert scans(narrow) == (True, False)
    assert narrow.collect()[0].n == 1


def test_a_damaged_page_is_an_error(spark, typed):
    """Spark checks the pages' own checksums, although a session's settings may say that it does not."""
    (path, *_) = sorted(Path(typed).glob("tables/*/_segments/0/*.parquet"))
    data = bytearray(path.read_bytes())
    frame = read_table(spark, typed, "t", columns=["n"])
    at = data.index(b"PAR1", 4) - 1 if data.count(b"PAR1") > 2 else 60
    data[at] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(Exception, match=r"(?s)(checksum|CRC|_segments)"):
        frame.collect()


def test_what_does_not_fit(spark, typed):
    with pytest.raises(ConfigError, match="read_table: option startingOffsets does not fit"):
        read_table(spark, typed, "t", options={"startingOffsets": "earliest"})
    with pytest.raises(ConfigError, match="read_table: columns='n'; expected a list"):
        read_table(spark, typed, "t", columns="n")
    with pytest.raises(ConfigError, match="names 'm', which topic 't' does not have"):
        read_table(spark, typed, "t", columns=["m"])
    with pytest.raises(UnknownTopicOrPartitionError, match="has no topic 'u'"):
        read_table(spark, typed, "u")


def test_a_store_for_which_spark_has_no_jar(spark, typed, monkeypatch, caplog):
    monkeypatch.setattr(table, "_location", lambda _: "s3a://bucket")
    monkeypatch.setattr(table, "is_object_store", lambda _: True)
    found = read_table(spark, typed, "t", columns=["n"])
    assert "hadoop-aws" in caplog.text
    assert sorted(row.n for row in found.collect()) == [*range(60)]
