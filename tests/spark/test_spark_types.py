"""Every type of Spark through a topic: written, read, streamed into another topic and read again; or refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from spark_eos.clients.admin import Admin
from spark_eos.clients.producer.producer import Producer
from spark_eos.errors import SchemaMismatchError
from spark_eos.log.data.layout import SPARK_FIELD, normalise_schema
from spark_eos.log.log import Log
from spark_eos.spark.merging import check_types
from spark_eos.spark.schema import topic_schema, typed_schema
from spark_eos.spark.types import as_spark, same_types
from tests.generate import stale

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "types.md"
_POINT = "X'0101000000000000000000F03F0000000000000040'"
KEPT = {
    "boolean": "true",
    "tinyint": "CAST(-128 AS TINYINT)",
    "smallint": "CAST(1 AS SMALLINT)",
    "int": "1",
    "bigint": "1L",
    "float": "CAST(0.5 AS FLOAT)",
    "double": "1e300D",
    "decimal(38,18)": "CAST(1.5 AS DECIMAL(38,18))",
    "string": "'a'",
    "string collate UTF8_LCASE": "'a' COLLATE UTF8_LCASE",
    "array<string collate UNICODE_CI>": "array('a' COLLATE UNICODE_CI)",
    "binary": "X'00FF'",
    "date": "DATE'0001-01-01'",
    "time(6)": "TIME'12:30:15.123456'",
    "time(0)": "CAST(TIME'12:30:15' AS TIME(0))",
    "timestamp": "TIMESTAMP'1960-01-01 00:00:00.123456'",
    "timestamp_ntz": "TIMESTAMP_NTZ'1960-01-01 00:00:00.123456'",
    "interval day": "INTERVAL '5' DAY",
    "interval day to hour": "INTERVAL '5 01' DAY TO HOUR",
    "interval minute": "INTERVAL '5' MINUTE",
    "interval day to second": "INTERVAL '-5 01:01:01.5' DAY TO SECOND",
    "array<interval minute>": "array(INTERVAL '5' MINUTE, NULL)",
    "variant": "parse_json('{\"a\":[1,2]}')",
    "array<variant>": "array(parse_json('1'), NULL)",
    "struct<v:variant>": "named_struct('v', parse_json('1'))",
    "map<string,variant>": "map('a', parse_json('1'))",
    "geometry(0)": f"ST_GeomFromWKB({_POINT})",
    "geometry(3857)": f"ST_SetSrid(ST_GeomFromWKB({_POINT}), 3857)",
    "geography(4326)": f"ST_GeogFromWKB({_POINT})",
    "array<geography(4326)>": f"array(ST_GeogFromWKB({_POINT}))",
    "struct<a:int,b:array<struct<c:bigint>>>": "named_struct('a', 1, 'b', array(named_struct('c', 1L)))",
    "map<struct<a:int>,array<int>>": "map(named_struct('a', 1), array(1))",
}
REFUSED = {
    "void": "NULL",
    "interval year": "INTERVAL '5' YEAR",
    "interval month": "INTERVAL '5' MONTH",
    "interval year to month": "INTERVAL '5-1' YEAR TO MONTH",
    "interval": "make_interval(1, 2, 3, 4, 5, 6, 7)",
}


@pytest.fixture
def every(spark):
    for name in ("timeType", "geospatial"):
        spark.conf.set(f"spark.sql.{name}.enabled", "true")
    return spark


def columns(types, make):
    return ", ".join(f"{make(of)} AS c{number}" for number, of in enumerate(types.values()))


def texts(frame):
    """Rows that can be compared: Python knows no order and no value of some types."""
    plain = [
        F.hex(F.expr(f"ST_AsBinary({field.name})")).alias(field.name)
        if field.dataType.simpleString().startswith("geo")
        else F.expr(f"hex(ST_AsBinary({field.name}[0]))").alias(field.name)
        if "geo" in field.dataType.simpleString()
        else F.col(field.name).cast("string").alias(field.name)
        for field in frame.schema
    ]
    return sorted(map(tuple, frame.select(plain).collect()), key=str)


@pytest.mark.deep
def test_every_type_comes_back_as_it_was(every, streams):
    values = columns(KEPT, lambda of: of)
    nulls = columns(KEPT, lambda of: f"IF(true, NULL, {of})")
    frame = every.sql(f"SELECT {values} UNION ALL SELECT {nulls}").coalesce(1)
    frame = frame.withColumn("c0", F.col("c0").alias("c0", metadata={"comment": "a flag", "n": 1}))
    assert [field.dataType.simpleString() for field in frame.schema] == list(KEPT)
    wanted = texts(frame)
    for _ in range(2):  # Into a new topic, and into one that is there.
        frame.write.format("eoslog").option("topic", "src").mode("append").save(streams.bench.url)
    found = streams.batch("src")
    assert [(at.name, at.dataType.simpleString()) for at in found.schema] == [
        (at.name, at.dataType.simpleString()) for at in frame.schema
    ]
    assert found.schema["c0"].metadata == {"comment": "a flag", "n": 1}
    assert texts(found) == sorted(wanted * 2, key=str)
    streams.run(streams.read("src"), "again")
    assert streams.batch("again").schema == found.schema
    assert texts(streams.batch("again")) == sorted(wanted * 2, key=str)
    topics = Log.open(streams.bench.url).state.topics
    assert topics["again"].schemas == topics["src"].schemas


@pytest.mark.parametrize("type_", REFUSED)
def test_types_that_are_refused_when_the_query_starts(every, bench, type_):
    frame = every.sql(f"SELECT {REFUSED[type_]} AS x")
    assert frame.schema["x"].dataType.simpleString() == type_
    with pytest.raises(PySparkException, match=r"column 'x'|INTERVAL"):
        frame.write.format("eoslog").option("topic", "t").mode("append").save(bench.url)
    assert not Path(bench.url).exists()


def page(text):
    lines = ["| Spark's type | through a topic |", "|---|---|"]
    lines += [f"| `{type_}` | kept |" for type_ in KEPT]
    lines += [f"| `{type_}` | refused when the query starts |" for type_ in REFUSED]
    begin, end = "<!-- types -->\n", "<!-- /types -->"
    before, rest = text.split(begin)
    return before + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1]


def test_the_table_of_types():
    assert stale("tests.spark.test_spark_types") == [], "scripts/generate writes it"


def test_other_types_of_one_arrow_type_are_refused(spark):
    frames = {
        type_: spark.sql(f"SELECT {of} AS x").schema
        for type_, of in KEPT.items()
        if type_ in {"variant", "interval minute", "interval day to second", "string"}
    }
    topic = topic_schema(frames["interval minute"])
    check_types(frames["interval minute"], topic, "t")
    with pytest.raises(
        SchemaMismatchError, match="'x' is interval day to second, but topic 't' has interval minute"
    ):
        check_types(frames["interval day to second"], topic, "t")
    assert not same_types(topic, topic_schema(frames["interval day to second"]))
    assert same_types(topic, topic_schema(frames["interval minute"]))
    # What Arrow says by itself is not said twice: the schemas of older logs are the same bytes.
    assert topic_schema(frames["string"]).field("x").metadata is None


def test_clients_write_such_topics_and_evolution_keeps_their_types(spark, bench):
    frame = spark.sql(f"SELECT {KEPT['variant']} AS x, {KEPT['interval minute']} AS y").schema
    bench.log.ensure_topic("t", schema=topic_schema(frame))
    plain = pa.schema(
        [("x", pa.struct([("value", pa.binary()), ("metadata", pa.binary())])), ("y", pa.duration("us"))]
    )
    with Producer(bench.url) as producer:
        rows = {"x": pa.array([{"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"}], plain.field("x").type)}
        producer.send_arrow("t", pa.table({**rows, "y": pa.array([60_000_000], plain.field("y").type)}))
    Admin(bench.url).alter_topic("t", schema=plain.append(pa.field("z", pa.int32())))
    found = spark.read.format("eoslog").option("subscribe", "t").load(bench.url)
    assert [at.dataType.simpleString() for at in found.schema] == ["variant", "interval minute", "int"]
    assert found.select(F.expr("CAST(x AS STRING)"), "y").collect() == [("1", dt.timedelta(minutes=1))]


class Point(T.UserDefinedType):
    @classmethod
    def sqlType(cls):
        return T.ArrayType(T.DoubleType())

    @classmethod
    def module(cls):
        return __name__


def never_null(type_):
    """The Arrow type with all that is nested in it declared never null."""
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, never_null(field.type), nullable=False) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(pa.field("element", never_null(type_.value_type), nullable=False))
    if pa.types.is_map(type_):
        return pa.map_(
            never_null(type_.key_type), pa.field("value", never_null(type_.item_type), nullable=False)
        )
    return type_


PAIR = pa.struct([("a", pa.int64()), ("b", pa.string())])


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (PAIR, lambda n: {"a": n, "b": f"{n}"}),
        (pa.list_(PAIR), lambda n: [{"a": n, "b": "x"}] * n),
        (pa.map_(pa.string(), PAIR), lambda n: [(f"{at}", {"a": n, "b": "x"}) for at in range(n)]),
        (pa.struct([("s", pa.list_(PAIR))]), lambda n: {"s": [{"a": n, "b": "x"}] * n}),
    ],
    ids=["struct", "list", "map", "struct of a list"],
)
def test_what_is_never_null_may_be_in_a_null_and_in_rows_that_were_cut(type_, value):
    """Arrow's own cast refuses a null around them. Of a batch a task may read any rows."""
    rows = [value(n) if n % 3 else None for n in range(9)]
    stored = pa.array(rows, type_)
    shown = as_spark(pa.chunked_array([stored[4:7], stored[:2], stored]), never_null(type_))
    shown.validate(full=True)
    assert shown.type == never_null(type_)
    assert shown.to_pylist() == [*rows[4:7], *rows[:2], *rows]


def test_user_defined_types_are_refused_both_ways():
    for type_ in (Point(), T.ArrayType(Point()), T.StructType().add("p", Point())):
        with pytest.raises(SchemaMismatchError, match="column 'x' has a user-defined type"):
            topic_schema(T.StructType().add("x", type_))
        text = T.StructField("x", type_).json().encode()
        topic = pa.schema([pa.field("x", pa.list_(pa.float64()), metadata={SPARK_FIELD: text})])
        with pytest.raises(SchemaMismatchError, match="not taken from a log"):
            typed_schema(topic)


def test_other_metadata_than_sparks_is_dropped():
    kept = pa.field("x", pa.string(), metadata={SPARK_FIELD: b"{}", b"other": b"gone"})
    old = normalise_schema(pa.schema([kept]))
    assert old.field("x").metadata == {SPARK_FIELD: b"{}"}
    with pytest.raises(SchemaMismatchError, match="cannot be made here"):
        typed_schema(old)


def test_what_differs_in_comments_alone_is_the_same_and_what_is_required_stays_so():
    first, second = (
        topic_schema(
            T.StructType().add("x", T.StructType().add("a", T.IntegerType(), True, {"comment": comment}))
        )
        for comment in ("one", "another")
    )
    assert first.field("x").metadata != second.field("x").metadata
    assert same_types(first, second)
    required = pa.schema([first.field("x").with_nullable(False)])
    assert [typed_schema(schema)["x"].nullable for schema in (first, required)] == [True, False]


def test_timestamps_before_1970_are_cut_downwards(bench):
    at = pa.array([-1, -999, -1000, -1001, 1999], pa.timestamp("us", "UTC"))
    bench.produce("out", range(5), timestamp=at)
    (fetch,) = bench.fetches("out")
    found = bench.log.read(bench.state.topics["out"], fetch).column("timestamp")
    assert pc.cast(found, pa.int64()).to_pylist() == [-1, -1, -1, -2, 1]


@pytest.mark.deep
def test_rows_that_name_their_topics_lose_no_column(spark, streams):
    """By the column: a topic with a schema takes all columns or none; new ones are created in one entry."""
    url = streams.bench.url
    streams.bench.log.ensure_topic("typed", schema=pa.schema([("value", pa.string())]))

    def write(frame, **options):
        frame.write.format("eoslog").options(**options).mode("append").save(url)

    both = spark.sql("SELECT 'typed' AS topic, 'k' AS key, 'v' AS value")
    with pytest.raises(PySparkException, match="topic 'typed' has no column 'key'"):
        write(both)
    write(both.drop("key"))
    assert streams.batch("typed").collect() == [("v",)]
    before = streams.bench.state.seq
    frame = spark.range(0, 40, 1, 1).selectExpr("concat('new-', id % 20) AS topic", "id", "'v' AS value")
    write(frame, **{"row.format": "typed"})
    assert streams.bench.state.seq == before + 2, "one entry for the topics, one for the rows"
    assert sorted(streams.batch("new-7").collect()) == [(7, "v"), (27, "v")]
    with pytest.raises(PySparkException, match=r"row\.format"):
        write(frame.drop("topic"), topic="other")
    with pytest.raises(
        PySparkException, match=r"row\.format=kafka: topic 'typed' is there, and has a schema"
    ):
        write(both.select("value"), **{"topic": "typed", "row.format": "kafka"})
    assert "other" not in streams.bench.state.topics
    # A column topic beside the option is a column as any other, or refused where the topic has none.
    write(frame.drop("value"), topic="kept")
    assert streams.batch("kept").columns == ["topic", "id"]
    with pytest.raises(PySparkException, match="topic 'typed' has no column 'topic'"):
        write(spark.sql("SELECT 'x' AS topic, 'v' AS value"), topic="typed")
