"""What Spark's sink takes, every reader gives, and the other way round; what it refuses is refused by name."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as each

from spark_eos import Admin, Producer
from spark_eos.errors import EosLogError
from spark_eos.log.log import Log
from tests.clients.test_every_value import HEADERS, TABLES, lines, polled, read, same

from .test_bad_input import write_alone

NAMELESS = "has a header that is null or has no name"


def rows_of(frame, schema):
    """As Python has the values of these types."""
    return frame.toArrow().select(schema.names).cast(schema).to_pylist()


@pytest.fixture
def write(spark, bench):
    def run(sql, **options):
        given = {"topic": "t", **{name.replace("_", "."): value for name, value in options.items()}}
        spark.sql(sql).write.format("eoslog").options(**given).mode("append").save(bench.url)

    return run


@pytest.mark.deep("a null header")
@pytest.mark.parametrize(
    "headers",
    [
        "array(named_struct('key', 'k', 'value', binary('v')), null)",
        "array(named_struct('key', cast(null as string), 'value', binary('v')))",
    ],
    ids=["a null header", "a null name"],
)
def test_headers_without_a_name(write, bench, headers):
    with pytest.raises(Exception, match=f"row 0 of those for topic 't' {NAMELESS}"):
        write(f"select 'v' as value, {headers} as headers")
    write("select 'v' as value, array(named_struct('key', 'k', 'value', cast(null as binary))) as headers")
    (record,), _ = polled(Log.open(bench.url))
    assert record.headers == (("k", None),)


def test_rows_without_a_key_for_a_compacted_topic(bench):
    Admin(bench.url).create_topic("t", config={"cleanup.policy": "compact"})
    schema = pa.schema([("a", pa.int32()), ("b", pa.string())])
    Admin(bench.url).create_topic(
        "c", schema=schema, config={"cleanup.policy": "compact", "key.columns": "b"}
    )
    before = bench.log.follow().seq
    null, one = pa.array([None], pa.string()), pa.array([1], pa.int32())
    for columns, topic, told in (
        ({"value": ["v"]}, "t", r"'t' is compacted .*the frame has no key \(key\)"),
        ({"key": null, "value": ["v"]}, "t", r"topic 't' has no key \(key\)"),
        ({"a": one}, "c", r"'c' is compacted .*the frame has no key \(b\)"),
        ({"a": one, "b": null}, "c", r"topic 'c' has no key \(b\)"),
    ):
        with pytest.raises(EosLogError, match=told):
            write_alone(pa.table(columns), bench.url, topic=topic)
    assert bench.log.follow().seq == before
    write_alone(pa.table({"key": ["k"], "value": ["v"]}), bench.url, topic="t")
    write_alone(pa.table({"a": one, "b": ["k"]}), bench.url, topic="c")


@pytest.mark.deep
def test_rows_without_a_key_for_a_compacted_topic_through_spark(write, bench):
    Admin(bench.url).create_topic("t", config={"cleanup.policy": "compact"})
    before = bench.log.follow().seq
    for sql, told in (
        ("select 'v' as value", r"'t' is compacted .*the frame has no key \(key\)"),
        ("select cast(null as string) as key, 'v' as value", r"topic 't' has no key \(key\)"),
    ):
        with pytest.raises(Exception, match=told):
            write(sql)
    assert bench.log.follow().seq == before
    write("select 'k' as key, 'v' as value")


def test_all_of_a_row_counts_for_the_limit(write):
    headers = "array(named_struct('key', 'k', 'value', binary(repeat('v', 5000))))"
    with pytest.raises(Exception, match="has 5010 bytes, more than the limit of 1000"):
        write(f"select 'v' as value, {headers} as headers", max_request_size="1000")
    with pytest.raises(Exception, match="has 4008 bytes, more than the limit of 1000"):
        write("select array_repeat(1, 1000) as l, 1L as n", max_request_size="1000", topic="c")


@pytest.mark.deep
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@each(TABLES)
def test_every_value_both_ways(spark, tmp_path_factory, given):
    """From a client to Spark, and from Spark to all other readers."""
    schema, rows = given
    columns = [
        pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    table = pa.table(columns, schema=schema)
    ours, theirs = (str(tmp_path_factory.mktemp("log")) for _ in range(2))
    Admin(ours).create_topic("t", schema=schema)
    with Producer(ours) as producer:
        producer.send_arrow("t", table)
    frame = spark.read.format("eoslog").option("subscribe", "t").load(ours)
    same(rows_of(frame, schema), table.to_pylist())
    frame.write.format("eoslog").option("topic", "t").option("row.format", "typed").mode("append").save(
        theirs
    )
    log = Log.open(theirs)
    one_by_one, arrow = polled(log)
    wanted = table.to_pylist()
    same((record.value for record in one_by_one), wanted)
    same(arrow.select(schema.names).to_pylist(), wanted)
    same(read(log).select(schema.names).to_pylist(), wanted)
    assert len(lines(arrow)) == len(rows)


def test_headers_that_an_earlier_version_took(spark, bench, monkeypatch):
    rows = [[{"key": "k", "value": b"v"}, None], None]
    Admin(bench.url).create_topic("t")
    with monkeypatch.context() as patched, Producer(bench.url) as producer:
        patched.setattr("spark_eos.log.data.convert.first_without_name", lambda _: None)
        producer.send_arrow("t", pa.table({"value": [b"1", b"2"], "headers": pa.array(rows, HEADERS)}))
    frame = (
        spark.read.format("eoslog").option("subscribe", "t").option("includeHeaders", "true").load(bench.url)
    )
    assert [row.headers and len(row.headers) for row in frame.orderBy("offset").collect()] == [2, None]
