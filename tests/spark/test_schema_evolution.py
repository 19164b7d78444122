"""Columns of topics change under Spark's writes and queries: mergeSchema, stops and restarts, reads of the past."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row
from pyspark.sql import types as t

from spark_eos import Admin, Producer
from spark_eos.cli import main
from spark_eos.errors import ConfigError, SchemaMismatchError
from spark_eos.spark.merging import merged
from spark_eos.spark.options import parse_sink
from spark_eos.spark.sink.sink_target import prepare

GUIDE = Path(__file__).parents[2] / "docs/guide/schema-evolution.md"


@pytest.fixture
def write(spark, bench):
    """Writes the rows of a query to the topic ``t``."""

    def run(sql, mode="append", **options):
        given = {"topic": "t", **{name.replace("_", "."): value for name, value in options.items()}}
        spark.sql(sql).write.format("eoslog").options(**given).mode(mode).save(bench.url)

    return run


@pytest.fixture
def shown(spark, bench):
    """The rows of the topic ``t``, as tuples in the order of the first column."""

    def run(**options):
        frame = spark.read.format("eoslog").option("subscribe", "t").options(**options).load(bench.url)
        return sorted(map(tuple, frame.collect()), key=lambda row: row[0])

    return run


@pytest.mark.deep
def test_columns_are_merged_by_a_batch(write, shown, bench):
    write("select 1 as id, 'a' as name, named_struct('x', 1) as s, float(1.5) as f", row_format="typed")
    merge = {"mergeSchema": "true"}
    write(
        "select 2L as id, named_struct('x', 2L, 'y', 'yy') as s, 2.5D as f, date'2020-01-02' as day", **merge
    )
    write("select 3 as id, named_struct('x', 3) as s", **merge)  # A job that knows none of it.
    write("select smallint(4) as id, named_struct('y', 'only') as s")
    found = [row[:4] for row in shown()]
    assert found == [
        (1, "a", Row(x=1, y=None), 1.5),
        (2, None, Row(x=2, y="yy"), 2.5),
        (3, None, Row(x=3, y=None), None),
        (4, None, Row(x=None, y="only"), None),
    ]
    assert len(bench.state.topics["t"].schemas) == 2
    versions = bench.state.seq
    for sql, told in (
        ("select 'x' as id", "column 'id' is string, topic 't' has bigint, and neither type holds"),
        ("select 1 as ID", "'id' and 'ID' have the same name"),
        ("select named_struct('x', 1.5D) as s", r"column 's\.x' is double, topic 't' has bigint"),
        ("select named_struct('X', 1L) as s", "column 's' would have the fields 'x' and 'X'"),
        (
            "select array(named_struct('a', 1, 'b', map('k', named_struct('d', 1, 'D', 2)))) as l",
            r"column 'l\.element\.b\.value' would have the fields 'd' and 'D'",
        ),
        ("select 1 as _offset", "kept for the columns that reading adds"),
    ):
        with pytest.raises(Exception, match=told):
            write(sql, **merge)
    with pytest.raises(Exception, match=r"option\('mergeSchema', 'true'\) adds it"):
        write("select 5 as id, 1 as more")
    assert bench.state.seq == versions  # What is refused changes nothing.


@pytest.mark.deep
def test_whole_numbers_become_others_only_by_hand(write, shown, bench):
    write("select 1 as n, 0 as m", row_format="typed")
    with pytest.raises(
        Exception, match=r"column 'n' is double, topic 't' has int: mergeSchema.*widen_columns"
    ):
        write("select 1.5D as n", mergeSchema="true")
    Admin(bench.log).alter_topic("t", widen_columns={"n": "double", "m": "decimal(12,2)"})
    write("select 1.5D as n, 7 as m")
    assert [(n, float(m)) for n, m in shown()] == [(1.0, 0.0), (1.5, 7.0)]


def test_an_overwrite_with_other_columns(write, shown):
    write("select 1 as id, 'a' as name", row_format="typed")
    write("select 2 as id, array(1) as more", mode="overwrite", mergeSchema="true")
    assert shown() == [(2, None, [1])]


def test_as_of_an_entry_the_columns_are_those_of_then(write, shown, bench):
    write("select 1 as id, 'a' as name, 2 as n", row_format="typed")
    seq = bench.state.seq
    Admin(bench.log).alter_topic(
        "t", rename_columns={"name": "title", "n": "name"}, widen_columns={"id": "bigint"}
    )
    Admin(bench.log).alter_topic("t", drop_columns=["title"])
    write("select 5L as id, 6 as name")
    assert shown() == [(1, 2), (5, 6)]
    assert shown(versionAsOf=str(seq)) == [(1, "a", 2)]


def test_rows_that_name_their_topics_are_merged_in_tasks(spark, bench):
    frame = spark.sql("select 'one' as topic, 1 as id union all select 'two', 2")
    given = {"row.format": "typed"}
    frame.write.format("eoslog").options(**given).mode("append").save(bench.url)
    wider = spark.sql("select 'one' as topic, 3L as id, 'x' as note union all select 'three', 4, 'y'")
    with pytest.raises(Exception, match="no column 'note'"):
        wider.write.format("eoslog").options(**given).mode("append").save(bench.url)
    wider.repartition(2).write.format("eoslog").options(**given, mergeSchema="true").mode("append").save(
        bench.url
    )
    found = spark.read.format("eoslog").option("subscribe", "one").load(bench.url)
    assert sorted(map(tuple, found.collect())) == [(1, None), (3, "x")]
    assert {name: len(topic.schemas) for name, topic in bench.state.topics.items()} == {
        "one": 2,
        "two": 1,
        "three": 1,
    }


@pytest.mark.deep
def test_a_query_stops_with_what_changed_and_goes_on_with_the_new_columns(streams, bench, until):
    admin = Admin(bench.log)
    admin.create_topic("src", schema=pa.schema([("id", pa.int32()), ("a", pa.string()), ("b", pa.string())]))

    def send(**columns):
        with Producer(bench.log) as producer:
            producer.send_arrow("src", pa.table({name: [value] for name, value in columns.items()})).result()

    send(a="a1", b="b1")
    query = streams.write(
        streams.read(topics="src"), trigger={"processingTime": "0 seconds"}, mergeSchema="true"
    )
    until(lambda: bench.state.topics.get("out") and bench.count("out") == 1, "the first row")
    # Names and types are as before, but not the columns.
    admin.alter_topic("src", rename_columns={"a": "b", "b": "a"})
    send(a="b2", b="a2")
    with pytest.raises(
        StreamingQueryException, match="column 'a' was renamed to 'b'; column 'b' was renamed to 'a'"
    ):
        query.awaitTermination()
    streams.run(streams.read(topics="src"), mergeSchema="true")
    admin.alter_topic(
        "src", drop_columns=["b"], widen_columns={"id": "bigint"}, add_columns={"new": "bigint"}
    )
    send(id=2**40, a="b3", new=3)
    streams.run(streams.read(topics="src"), mergeSchema="true")
    rows = sorted((row.id or 0, row.a, row.b, row.new) for row in streams.batch("out").collect())
    assert rows == [(0, "a1", "b1", None), (0, "b2", "a2", None), (2**40, "b3", None, 3)]


def test_columns_that_were_chosen_stop_only_for_their_own(spark, streams, bench, until):
    admin = Admin(bench.log)
    admin.create_topic("src", schema=pa.schema([("n", pa.int64()), ("x", pa.string())]))
    frame = (
        spark.readStream.format("eoslog").schema("n long").option("subscribe", "src")
        .option("startingOffsets", "earliest").load(bench.url)
    )  # fmt: skip

    def send(**columns):
        with Producer(bench.log) as producer:
            producer.send_arrow("src", pa.table({name: [value] for name, value in columns.items()})).result()

    send(n=1, x="a")
    query = streams.write(
        frame.selectExpr("cast(n as string) value"), trigger={"processingTime": "0 seconds"}
    )
    until(lambda: bench.state.topics.get("out") and bench.count("out") == 1, "the first row")
    admin.alter_topic("src", rename_columns={"x": "y"}, add_columns={"z": "int"})
    send(n=2, y="b")
    until(lambda: bench.count("out") == 2, "the second row")
    admin.alter_topic("src", drop_columns=["n"])
    admin.alter_topic("src", add_columns={"n": "bigint"})
    send(n=3)
    with pytest.raises(StreamingQueryException, match="column 'n' was dropped"):
        query.awaitTermination()
    assert bench.values("out") == [1, 2]


def test_merging_what_cannot_be_merged(spark, bench):
    frame = spark.createDataFrame([], "value string").schema
    options = {"path": bench.url, "topic": "out", "mergeSchema": "true"}
    with pytest.raises(ConfigError, match="option mergeSchema: a Kafka-shaped topic has no columns"):
        prepare(parse_sink(options, streaming=False), frame, overwrite=False)
    bench.topic("out")
    with pytest.raises(ConfigError, match="option mergeSchema: topic 'out' is Kafka-shaped"):
        prepare(parse_sink(options, streaming=False), frame, overwrite=False)


def test_columns_that_parquet_does_not_have_are_refused(bench):
    bad = t.StructType([t.StructField("i", t.LongType()), t.StructField("x", t.StructType([]))])
    says = "topic 'out', segment.format=parquet: column 'x' is a struct without fields"
    options = {"path": bench.url, "topic": "out", "segment.format": "parquet", "row.format": "typed"}
    merge = {"mergeSchema": "true"}
    with pytest.raises(SchemaMismatchError, match=says):
        prepare(parse_sink(options, streaming=False), bad, overwrite=False)
    assert not bench.state.topics.get("out")
    Admin(bench.url).create_topic(
        "out", schema=pa.schema({"i": pa.int64()}), config={"segment.format": "parquet"}
    )
    before = bench.state.seq
    with pytest.raises(SchemaMismatchError, match=says):
        prepare(parse_sink({**options, **merge}, streaming=False), bad, overwrite=False)
    assert bench.state.seq == before


@pytest.mark.parametrize(
    ("own", "frame", "after"),
    [
        ("a int", "b array<int>", "a int, b array<int>"),
        ("a array<struct<x:int>>", "a array<struct<x:bigint,y:int>>", "a array<struct<x:bigint,y:int>>"),
        ("a map<string,float>", "a map<string,double>", "a map<string,double>"),
        ("a decimal(5,2)", "a decimal(9,4)", "a decimal(9,4)"),
        ("a bigint", "a tinyint", "a bigint"),
        ("a date", "a timestamp_ntz", "a timestamp_ntz"),
        ("a double", "a int", "a double"),
        ("a map<int,int>", "a map<bigint,int>", None),
        ("a decimal(5,4)", "a decimal(5,2)", None),
        ("a timestamp", "a date", None),
        ("a interval year", "a bigint", None),
        ("a array<int>", "a struct<x:int>", None),
    ],
)
def test_what_is_merged_with_what(spark, own, frame, after):
    def columns(ddl):
        return spark.createDataFrame([], ddl).schema

    if after is None:
        with pytest.raises(SchemaMismatchError, match="neither type holds the values of the other"):
            merged(columns(own), columns(frame), "t")
    else:
        assert merged(columns(own), columns(frame), "t") == columns(after)


def test_the_guide(spark, log_url):
    text = GUIDE.read_text(encoding="utf-8").replace("/tmp/prices", log_url)
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 3
    found = {"spark": spark}
    for block in blocks:
        exec(block, found)
    assert found["rows"] == [(1, "tea", 250), (2, "coffee", 3_000_000_000)]
    assert found["then"] == ["id", "name", "cents"]
    command = shlex.split(re.search(r"```bash\neoslog (.*?)```", text, re.DOTALL)[1])
    assert main(command) == 0
    assert Admin(log_url).describe_topic("prices").schema.names == ["id", "name", "cents", "origin", "note"]
