"""Topics with a schema through Spark: every type there and back, nulls, metadata, keys, columns added later."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from spark_eos.clients.admin import Admin
from spark_eos.log.log import Log
from spark_eos.spark.start import start_query

NOON = dt.datetime(2013, 1, 1, 12, 30, 15, 123456)  # noqa: DTZ001  (as Spark returns it)

COLUMNS = {
    "truth": (T.BooleanType(), True),
    "tiny": (T.ByteType(), -128),
    "small": (T.ShortType(), 32767),
    "int": (T.IntegerType(), -(2**31)),
    "long": (T.LongType(), 2**63 - 1),
    "single": (T.FloatType(), 0.5),
    "double": (T.DoubleType(), 1e300),
    "text": (T.StringType(), "naïve ☕ text"),
    "bytes": (T.BinaryType(), bytearray(b"\x00\xff")),
    "day": (T.DateType(), dt.date(1969, 7, 20)),
    "instant": (T.TimestampType(), NOON),
    "local": (T.TimestampNTZType(), NOON),
    "money": (T.DecimalType(20, 4), Decimal("-1234567890123456.7890")),
    "whole": (T.DecimalType(38, 0), Decimal("9" * 38)),
    "span": (T.DayTimeIntervalType(), dt.timedelta(days=-3, microseconds=7)),
    "list": (T.ArrayType(T.StringType()), ["a", None, ""]),
    "lists": (T.ArrayType(T.ArrayType(T.LongType())), [[1], [], None]),
    "map": (T.MapType(T.StringType(), T.DoubleType()), {"a": 1.5, "b": None}),
    "struct": (
        T.StructType().add("x", T.IntegerType()).add("deep", T.StructType().add("when", T.TimestampType())),
        T.Row(x=1, deep=T.Row(when=NOON)),
    ),
    "structs": (T.ArrayType(T.StructType().add("x", T.IntegerType())), [T.Row(x=1), None]),
}
SCHEMA = T.StructType([T.StructField(name, type_) for name, (type_, _) in COLUMNS.items()])
FULL = tuple(value for _, value in COLUMNS.values())


def write(frame, url, topic="typed", **options):
    frame.write.format("eoslog").option("topic", topic).options(**options).mode("append").save(url)


def read(spark, url, topic="typed", **options):
    return spark.read.format("eoslog").option("subscribe", topic).options(**options).load(url)


@pytest.mark.deep("through a stream")
@pytest.mark.parametrize("streaming", [False, True], ids=["there and back", "through a stream"])
def test_every_type_there_and_back(spark, log_url, tmp_path, streaming):
    empty = tuple(None for _ in COLUMNS)
    wanted = [T.Row(**dict(zip(COLUMNS, row, strict=True))) for row in (FULL, empty, FULL)]
    frame = spark.createDataFrame(wanted, SCHEMA).coalesce(1)
    write(frame, log_url)
    found = read(spark, log_url)
    assert [(field.name, field.dataType.simpleString()) for field in found.schema] == [
        (field.name, field.dataType.simpleString()) for field in SCHEMA
    ]
    assert found.collect() == wanted
    if not streaming:
        return

    writer = (
        spark.readStream.format("eoslog").option("subscribe", "typed").option("startingOffsets", "earliest")
        .load(log_url)
        .writeStream.format("eoslog").option("topic", "again")
        .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    )  # fmt: skip
    start_query(lambda: writer.start(log_url)).awaitTermination()
    assert read(spark, log_url, "again").collect() == wanted
    state = Log.open(log_url).state
    assert state.topics["again"].schemas == state.topics["typed"].schemas


def test_a_type_that_arrow_has_not_is_named(spark, log_url, tmp_path):
    frame = spark.sql("SELECT INTERVAL '1' YEAR AS years, 1 AS id")
    with pytest.raises(PySparkException, match=r"column 'years' is interval year, .*cast or drop it"):
        write(frame, log_url)
    assert not (tmp_path / "log").exists()


def test_metadata_behind_the_columns(spark, log_url):
    write(
        spark.range(0, 6, 1, 1).selectExpr("id", "CAST(id % 2 AS INT) AS _partition"),
        log_url,
        **{"num.partitions": 2},
    )
    found = read(spark, log_url, includeMetadata="true")
    assert found.columns == ["id", "_topic", "_partition", "_offset", "_timestamp"]
    rows = [tuple(row) for row in found.drop("_timestamp").orderBy("_partition", "_offset").collect()]
    assert rows == [(id_, "typed", id_ % 2, id_ // 2) for id_ in (0, 2, 4, 1, 3, 5)]
    assert found.where("_timestamp IS NULL").count() == 0
    assert read(spark, log_url).columns == ["id"]


def test_key_columns_choose_the_partition(spark, log_url):
    schema = pa.schema([("carrier", pa.string()), ("day", pa.int32()), ("delay", pa.int64())])
    Admin(log_url).create_topic("typed", 4, {"key.columns": "carrier,day"}, schema)
    frame = spark.range(0, 400, 1, 3).select(
        F.concat(F.lit("c"), F.col("id") % 10).alias("carrier"),
        (F.col("id") % 4).cast("int").alias("day"),
        F.col("id").alias("delay"),
    )
    write(frame, log_url)
    write(frame, log_url)
    found = read(spark, log_url, columns="carrier,day,_partition").collect()
    assert len(found) == 800
    places = {(row.carrier, row.day, row._partition) for row in found}
    assert len(places) == len({(carrier, day) for carrier, day, _ in places}) == 20
    assert len({partition for *_, partition in places}) > 1


@pytest.mark.deep
def test_columns_that_are_added_later(spark, log_url, tmp_path):
    checkpoint = str(tmp_path / "checkpoint")

    def copy():
        writer = (
            spark.readStream.format("eoslog").option("subscribe", "typed").option("startingOffsets", "earliest")
            .load(log_url)
            .writeStream.format("eoslog").option("topic", "copy").option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
        )  # fmt: skip
        start_query(lambda: writer.start(log_url)).awaitTermination()

    old = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    new = old.append(pa.field("note", pa.string()))
    admin = Admin(log_url)
    admin.create_topic("typed", schema=old)
    admin.create_topic("copy", schema=old)
    write(spark.range(3), log_url)
    copy()
    admin.alter_topic("typed", schema=new)
    assert sorted(map(tuple, read(spark, log_url).collect())) == [(0, None), (1, None), (2, None)]
    # A job that does not know the column goes on, as does one that does.
    write(spark.range(3, 5), log_url)
    write(spark.range(5, 6).selectExpr("id", "'new' AS note"), log_url)
    wanted = [(id_, None) for id_ in range(5)] + [(5, "new")]
    assert sorted(map(tuple, read(spark, log_url).collect())) == wanted

    # The copy's topic lacks the column: refused with the remedy, nothing lost once it has it.
    with pytest.raises(PySparkException, match=r"has no column 'note'.*add it"):
        copy()
    admin.alter_topic("copy", schema=new)
    copy()
    assert sorted(map(tuple, read(spark, log_url, "copy").collect())) == wanted

    with pytest.raises(Exception, match="is new and not nullable"):
        admin.alter_topic("typed", schema=new.append(pa.field("must", pa.int32(), nullable=False)))
