"""Option ``where``: the rows of Spark's own filter behind the source, and the offsets of a source without it."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from pyspark.sql import datasource as f
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark_eos import Admin, Producer
from spark_eos.errors import ConfigError, SchemaMismatchError
from spark_eos.spark.datasource import EosLogDataSource
from spark_eos.spark.options import parse_source
from spark_eos.spark.schema import topic_schema
from spark_eos.spark.source.batch import EosLogBatchReader
from spark_eos.spark.source.source import EosLogStreamReader
from spark_eos.spark.start import start_query
from spark_eos.spark.topics import source_schema
from spark_eos.spark.version import ReadAllAvailable, ReadMaxRows

TYPED = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("x", pa.float64()), ("tags", pa.list_(pa.string()))]
)
ROWS = pa.table(
    [
        [0, 1, 2, None],
        ["a", None, "c", "d"],
        [0.5, math.nan, None, 7.0],
        pa.array([[], None, ["t"], None], pa.list_(pa.string())),
    ],
    TYPED,
)


@pytest.fixture
def plain(bench):
    """Thirty records in two partitions, in batches of five; every other one has a key."""
    bench.topic("src", 2)
    with Producer(bench.url) as producer:
        for number in range(30):
            key = b"k%d" % number if number % 2 else None
            producer.send(
                "src", b"%d" % number, key=key, partition=number % 3 % 2, timestamp_ms=1000 * number
            )
            if number % 5 == 4:
                producer.flush()
    return bench


@pytest.fixture
def typed(bench):
    Admin(bench.url).create_topic("src", 1, schema=TYPED)
    with Producer(bench.url) as producer:
        producer.send_arrow("src", ROWS).result(timeout=60)
    return bench


def given(bench, *, streaming=False, **options):
    return parse_source({"path": bench.url, "subscribe": "src", **options}, streaming=streaming)


def batch(bench, **options):
    parsed = given(bench, **options)
    reader = EosLogBatchReader(parsed, source_schema(parsed))
    return [row for task in reader.partitions() for part in reader.read(task) for row in part.to_pylist()]


def stream(bench, limit=None, **options):
    """The rows of a first micro-batch, its end, and what its tasks say that they have read."""
    parsed = given(bench, streaming=True, startingOffsets="earliest", **options)
    reader = EosLogStreamReader(parsed, source_schema(parsed))
    start = reader.initialOffset()
    end = reader.latestOffset(start, limit or ReadAllAvailable())
    tasks = reader.partitions(start, end)
    rows = [row for task in tasks for part in reader.read(task) for row in part.to_pylist()]
    return rows, end, [(task.fetches, task.read) for task in tasks]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("key IS NULL", lambda row: row["key"] is None),
        ("key = 'k7' OR value = '8'", lambda row: row["key"] == b"k7" or row["value"] == b"8"),
        ("NOT key = 'k7'", lambda row: row["key"] not in (None, b"k7")),
        ("partition = 1 AND offset >= 3", lambda row: row["partition"] == 1 and row["offset"] >= 3),
        ("timestamp < '1970-01-01T00:00:03'", lambda row: int(row["value"]) < 3),
        ("topic != 'src' OR offset = 2", lambda row: row["offset"] == 2),
        (
            "timestampType = 0 AND headers IS NULL AND partition IN (0, 7)",
            lambda row: row["partition"] == 0,
        ),
    ],
)
def test_rows_of_a_kafka_shaped_topic(plain, text, kept):
    expected = [row for row in batch(plain) if kept(row)]
    assert batch(plain, where=text) == expected
    assert stream(plain, where=text)[0] == expected
    chosen = batch(plain, where=text, columns="offset,partition")
    assert chosen == [{name: row[name] for name in ("offset", "partition")} for row in expected]


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("id >= 1", [1, 2]),
        ("NOT id >= 1", [0]),
        ("id IS NULL OR name IS NULL", [1, 3]),
        ("x > 1", [1, 3]),
        ("tags IS NOT NULL AND _offset > 0", [2]),
        ("_partition = 0 AND _timestamp > '2020-01-01' AND _topic LIKE 's%'", [0, 1, 2, 3]),
    ],
)
def test_rows_of_a_topic_with_a_schema(typed, text, offsets):
    assert [row["_offset"] for row in batch(typed, where=text, columns="_offset")] == offsets
    assert [row["_offset"] for row in stream(typed, where=text, includeMetadata="true")[0]] == offsets
    assert [{**row} for row in batch(typed, where=text)] == [
        {**row, "x": pytest.approx(row["x"], nan_ok=True)}
        for number, row in enumerate(ROWS.to_pylist())
        if number in offsets
    ]


def test_offsets_are_those_of_a_stream_without_it(plain):
    """Micro-batches have the same ends, also by a limit, which counts offsets, and their tasks read the same."""
    for limit in (None, ReadMaxRows(7)):
        rows, *read = stream(plain, limit)
        fewer, *read_with_it = stream(plain, limit, where="key = 'k1'")
        assert read_with_it == read
        assert len(rows) > len(fewer) == 1


def test_beside_a_filter_that_spark_pushes(plain):
    parsed = given(plain, filterPushdown="true", where="key IS NOT NULL", columns="offset,value")
    reader = EosLogDataSource(
        {
            "path": plain.url,
            "subscribe": "src",
            "filterPushdown": "true",
            "where": "key IS NOT NULL",
            "columns": "offset,value",
        }
    ).reader(source_schema(parsed))
    assert list(reader.pushFilters([f.LessThan(("offset",), 3)]))
    rows = [row for task in reader.partitions() for part in reader.read(task) for row in part.to_pylist()]
    assert rows == [
        {"offset": row["offset"], "value": row["value"]}
        for row in batch(plain)
        if row["key"] is not None and row["offset"] < 3
    ]
    assert rows


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "nmae = 'a'",
            r"option where=\"nmae = 'a'\": topic 'src' has no column 'nmae', .*character 1; did you mean",
        ),
        (
            "name = 'a' AND day = 1",
            r"no column 'day', which the filter names at character 16; it has id, name, x, tags",
        ),
        (
            "offset > 3",
            r"did you mean '_offset'\? It has id, name, x, tags, _topic, _partition, _offset, _timestamp",
        ),
        ("id = 'a'", "column 'id' is of type int64, and 'a' is no value of it"),
        ("id = 1 ORDER BY id", "not understood at 'ORDER BY id', character 8"),
        ("tags = 'a'", "only IS NULL and IS NOT NULL are asked of it"),
    ],
)
def test_what_is_no_filter_of_the_topic_is_refused_at_load(typed, text, told):
    source = EosLogDataSource({"path": typed.url, "subscribe": "src", "where": text})
    with pytest.raises(ConfigError, match=told):
        source.schema()
    columns = StructType([StructField("id", LongType())])  # With .schema(...), Spark does not ask for them.
    for streaming, kind in ((False, EosLogBatchReader), (True, EosLogStreamReader)):
        with pytest.raises(ConfigError, match=told):
            kind(given(typed, streaming=streaming, where=text), columns)


def test_texts_that_spark_compares_otherwise_are_refused(bench):
    name = StructField("name", StringType("UTF8_LCASE"))
    schema = topic_schema(StructType([StructField("id", LongType()), name]))
    Admin(bench.url).create_topic("src", schema=schema)
    assert batch(bench, where="id = 1") == []
    with pytest.raises(ConfigError, match=r"column 'name' of topic 'src' is .*compares otherwise.*df.where"):
        batch(bench, where="name = 'a'")


def test_topics_need_no_other_columns_in_common(typed):
    admin = Admin(typed.url)
    admin.create_topic("b", schema=pa.schema([("other", pa.int8()), ("x", pa.float64()), ("id", pa.int32())]))
    with Producer(typed.url) as producer:
        producer.send_arrow("b", pa.table({"x": [1.5]})).result(timeout=60)
    both = {"subscribe": "src,b", "columns": "_topic"}
    assert [row["_topic"] for row in batch(typed, where="x < 2", **both)] == ["b", "src"]
    with pytest.raises(
        SchemaMismatchError, match=r"'b' and 'src' have different types .*id int and id bigint"
    ):
        batch(typed, where="id = 1", **both)
    with pytest.raises(ConfigError, match="topic 'b' has no column 'name'"):
        batch(typed, where="name = 'a'", **both)


def test_a_topic_that_is_not_there_yet_is_kafka_shaped(bench):
    bench.topic("other")
    options = {"path": bench.url, "subscribePattern": "src"}
    assert source_schema(parse_source({**options, "where": "key = 'k'"}, streaming=True)).names[0] == "key"
    typed_filter = parse_source({**options, "where": "id = 1"}, streaming=True)
    with pytest.raises(ConfigError, match=r"\(none is selected yet\)' has no column 'id'"):
        source_schema(typed_filter)


def test_a_running_query_ends_where_its_filter_loses_a_column(typed):
    """Otherwise rows of another column would be chosen, or none could be."""
    parsed = given(typed, streaming=True, startingOffsets="earliest", columns="id", where="name = 'a'")
    reader = EosLogStreamReader(parsed, source_schema(parsed))
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    admin = Admin(typed.url)
    admin.alter_topic("src", drop_columns=["x"])
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    admin.alter_topic("src", rename_columns={"name": "title"}, add_columns={"name": "string"})
    with pytest.raises(SchemaMismatchError, match=r"'name' was renamed to 'title'"):
        reader.latestOffset(end, ReadAllAvailable())
    admin.alter_topic("src", drop_columns=["name"])
    with pytest.raises(SchemaMismatchError, match=r"it has no column 'name'"):
        reader.latestOffset(end, ReadAllAvailable())
    with pytest.raises(ConfigError, match="has no column 'name'"):
        source_schema(parsed)


def test_a_query_of_all_columns_is_one_with_a_filter_too(typed):
    """It ends when there is a further column, as without a filter."""
    parsed = given(typed, streaming=True, startingOffsets="earliest", where="_offset > 1")
    reader = EosLogStreamReader(parsed, source_schema(parsed))
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    Admin(typed.url).alter_topic("src", add_columns={"more": "int"})
    with pytest.raises(SchemaMismatchError, match="its column 'more' would be dropped"):
        reader.latestOffset(end, ReadAllAvailable())


def of_spark(read, bench, text, *, inside):
    """The names of the rows, by the option or by Spark."""
    reader = read.format("eoslog").options(subscribe="src", startingOffsets="earliest")
    if inside:
        return reader.options(columns="name", where=text).load(bench.url)
    return reader.load(bench.url).where(text).select("name")


@pytest.mark.parametrize("text", ["NOT (id >= 1)", "x > 1", "name NOT IN ('a')"])
def test_on_spark_it_is_sparks_own_filter(spark, typed, text):
    inside, behind = (
        sorted(str(row.name) for row in of_spark(spark.read, typed, text, inside=way).collect())
        for way in (True, False)
    )
    assert inside == behind
    assert 0 < len(inside) < 4


def test_in_a_stream_of_spark(spark, typed, tmp_path):
    frame = of_spark(spark.readStream, typed, "x > 1", inside=True)
    writer = frame.writeStream.format("memory").queryName("where_in_a_stream")
    writer = writer.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True)
    start_query(writer.start).awaitTermination()
    assert sorted(str(row.name) for row in spark.table("where_in_a_stream").collect()) == ["None", "d"]


def test_on_spark_an_error_comes_at_load(spark, typed):
    reader = spark.readStream.format("eoslog").options(subscribe="src", where="nmae = 'a'")
    with pytest.raises(Exception, match=r"option where=.*no column 'nmae'") as caught:
        reader.load(typed.url)
    assert "ConfigError" in str(caught.value)
