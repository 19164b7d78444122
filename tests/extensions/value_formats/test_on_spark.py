"""Topics with ``value.format`` through Spark: columns there and back, broken values, dead letters in one commit."""

# ruff: noqa: F811  (fixtures are imported)

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import ConfigError, SchemaMismatchError
from spark_eos.log import paths
from spark_eos.protocol.actions import AppendBatches, CommitMicroBatch
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.spark.batch.writer import EosLogBatchWriter
from spark_eos.spark.options import parse_sink, parse_source
from spark_eos.spark.sink.dead_letters import DeadLetters
from spark_eos.spark.source.batch import EosLogBatchReader
from spark_eos.spark.start import start_query
from spark_eos.spark.topics import check_columns
from tests.extensions.value_formats.schemas import EVERY, example, of
from tests.spark.changes import Driven
from tests.spark.conftest import bench, benches  # noqa: F401  (fixtures)

DEAD = "errors.deadletterqueue.topic.name"
NUMBER = of(
    "Number", [{"name": "n", "type": "int"}, {"name": "t", "type": ["null", "string"], "default": None}]
)


def avro(schema=NUMBER, format_="avro-single-object", **more):
    return {"value.format": format_, "value.schema": json.dumps(schema), **more}


def read(spark, url, topic, **options):
    return spark.read.format("eoslog").option("subscribe", topic).options(**options).load(url)


def write(frame, url, topic, **options):
    frame.write.format("eoslog").option("topic", topic).options(**options).mode("append").save(url)


def rows(frame):
    return [row.asDict(recursive=True) for row in frame.collect()]


def polled(url, topic):
    consumer = Consumer(url, {"auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0)])
    return consumer.poll(max_records=1000)


# -- On Spark ---------------------------------------------------------------------------------------------


def test_every_type_from_a_client_through_spark_to_a_client(spark, log_url):
    admin = Admin(log_url)
    for name in ("in", "out"):
        admin.create_topic(name, config=avro(EVERY, "avro-confluent", **{"value.schema.id": 3}))
    with Producer(log_url) as producer:
        producer.send("in", example(), key="k", headers=[("h", b"x")])
        producer.send("in", None, key="gone")
    frame = read(spark, log_url, "in", includeMetadata="true", includeHeaders="true")
    found = rows(frame)
    assert found[0]["money"] == example()["money"]
    assert bytes(found[0]["_key"]) == b"k"
    assert found[0]["any"] == {"member0": None, "member1": "text", "member2": None}
    assert {found[1][name] for name in example()} == {None}, "a tombstone"
    write(frame.where("_key = 'k'").drop("_topic", "_offset"), log_url, "out")
    (record,) = polled(log_url, "out")
    assert (record.key, record.headers) == (b"k", (("h", b"x"),))
    assert {**record.value, "uuid": str(record.value["uuid"])} == example()
    raw = rows(read(spark, log_url, "out", **{"row.format": "kafka"}))
    assert bytes(raw[0]["value"]) == bytes(
        rows(read(spark, log_url, "in", **{"row.format": "kafka"}))[0]["value"]
    )


@pytest.mark.deep
def test_a_stream_with_broken_values_and_rows_that_cannot_be_encoded(spark, log_url, tmp_path):
    """Both go to the dead letters, in the commit of their micro-batch, with what is needed to try them again."""
    admin = Admin(log_url)
    for name in ("in", "out"):
        admin.create_topic(name, config=avro(format_="avro-confluent", **{"value.schema.id": 3}))
    with Producer(log_url) as producer:
        producer.send("in", {"n": 1}, key="one")
        producer.send("in", b"\x00junk", key="two", headers=[("h", b"x")])
        producer.send("in", {"n": 3, "t": "x"}, key="three")

    def run(**options):
        source = (
            spark.readStream.format("eoslog").option("subscribe", "in").option("startingOffsets", "earliest")
        )
        frame = source.options(mode=options.pop("mode", "PERMISSIVE"), includeMetadata="true").load(log_url)
        frame = frame.select(
            F.when(F.col("t").isNull(), F.col("n")).alias("n"),
            "t",
            "_key",
            *(["_corrupt_record"] if options else []),
        )
        sink = frame.writeStream.format("eoslog").option("topic", "out").options(path=log_url, **options)
        sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        start_query(sink.start).awaitTermination()

    with pytest.raises(Exception, match=r"in-0 at offset 1 cannot be decoded.*mode=PERMISSIVE"):
        run(mode="FAILFAST")
    run(**{DEAD: "dead"})
    assert [record.value for record in polled(log_url, "out")] == [{"n": 1, "t": None}]
    first, second = sorted(polled(log_url, "dead"), key=lambda record: record.key, reverse=True)
    assert (first.key, first.value, first.headers[0]) == (b"two", b"\x00junk", ("h", b"x"))
    said = {name.removeprefix("__connect.errors."): value.decode() for name, value in first.headers[1:]}
    assert said.pop("exception.message").startswith("the topic has no schema with id 1786080875")
    assert said == {"topic": "in", "partition": "0", "offset": "1", "stage": "VALUE_CONVERTER"}
    assert (second.key, json.loads(second.value)) == (b"three", {"n": None, "t": "x"})
    assert "column n is null" in dict(second.headers)["__connect.errors.exception.message"].decode()


def test_json_without_a_schema_takes_the_columns_of_the_user(spark, log_url):
    Admin(log_url).create_topic("j", config={"value.format": "json"})
    frame = spark.sql(
        "select 1 as n, map('a', 1.5d) as m, timestamp'2026-01-01 00:00:00' as t, null as x, 'k' as _key"
    )
    write(frame.drop("x"), log_url, "j")
    assert json.loads(polled(log_url, "j")[0].value["t"] and json.dumps(polled(log_url, "j")[0].value)) == {
        "n": 1,
        "m": {"a": 1.5},
        "t": "2026-01-01T00:00:00Z",
    }
    kafka = read(spark, log_url, "j")
    assert kafka.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    typed = (
        spark.read.format("eoslog")
        .schema("m map<string,double>, n long, t timestamp")
        .option("subscribe", "j")
    )
    assert rows(
        typed.option("row.format", "typed").load(log_url).withColumn("t", F.col("t").cast("string"))
    ) == [{"m": {"a": 1.5}, "n": 1, "t": "2026-01-01 00:00:00"}]


# -- As Spark calls source and sink, without Spark --------------------------------------------------------


@pytest.fixture
def engine(bench, tmp_path, benches):
    return Driven(bench, tmp_path, benches)


@pytest.fixture
def broken(engine):
    """A topic ``in`` with a good value and a broken one, and where dead letters are to go."""
    Admin(engine.bench.log).create_topic("in", config=avro())
    with Producer(engine.bench.log) as producer:
        producer.send("in", {"n": 1})
        producer.send("in", b"broken", headers=[("h", b"x")])
    return {"subscribe": "in", "mode": "permissive"}, {"topic": "copy", DEAD: "dead", **avro()}


def test_rows_and_dead_letters_are_one_entry(engine, broken):
    engine.run(*broken)
    log = engine.bench.log
    entries = [decode_entry(log.store.read(paths.entry(seq)), seq, "") for seq in range(log.state.seq + 1)]
    requests = [request.actions for entry in entries for request in entry.requests]
    (actions,) = [one for one in requests if any(isinstance(action, CommitMicroBatch) for action in one)]
    (append,) = [action for action in actions if isinstance(action, AppendBatches)]
    assert {file.topic for file in append.files} == {"copy", "dead"}
    (letter,) = polled(log, "dead")
    assert letter.headers[0] == ("h", b"x")
    said = {name.removeprefix("__connect.errors."): value for name, value in letter.headers[1:]}
    assert (said["topic"], said["partition"], said["offset"]) == (b"in", b"0", b"1")


def test_a_repeated_micro_batch_repeats_no_dead_letter(engine, broken):
    engine.run(*broken)
    engine.forget_last_commit()
    engine.run(*broken)
    assert engine.bench.values("dead") == ["broken"]
    assert engine.bench.count("copy") == 1


def test_a_batch_that_is_refused_leaves_no_dead_letter(engine, broken):
    source, sink = broken
    with Producer(engine.bench.log) as producer:
        producer.send("in", {"n": 2, "t": "x" * 100})
    with engine.refuses("more than the limit"):
        engine.run(source, {**sink, "max.message.bytes": 50})
    assert engine.bench.count("dead") == 0
    assert engine.bench.files("dead") == set()


def test_topics_named_by_rows_have_formats_of_their_own(bench):
    admin = Admin(bench.log)
    admin.create_topic("a", config=avro())
    admin.create_topic("b", config={"value.format": "json"})
    frame = pa.table(
        {"topic": ["a", "b", "a"], "n": pa.array([1, 2, 3], pa.int32()), "_key": ["x", "y", "z"]}
    )
    write_batch(bench, frame, **{"row.format": "typed"})
    assert [(record.key, record.value["n"]) for record in polled(bench.log, "a")] == [(b"x", 1), (b"z", 3)]
    assert [(record.key, record.value) for record in polled(bench.log, "b")] == [(b"y", {"n": 2})]


def test_a_dead_letter_has_all_columns_and_no_header_without_a_name():
    dead = DeadLetters()
    days = pa.array([4_000_000], pa.int32()).cast(pa.date32())
    row = pa.record_batch({"day": days, "x": [float("nan")], "n": [None], "raw": [b"\x00"]})
    dead.add_rows("out", row, pa.array(["k"]), ["why"])
    header = [{"key": None, "value": b"x"}, {"key": "h", "value": None}, None]
    record = {"topic": "in", "partition": 0, "offset": 5, "value": b"v", "headers": header}
    dead.add_records(pa.array([record]))
    written, read = dead.take().to_pylist()
    assert (written["key"], json.loads(written["value"])) == (
        b"k",
        {"day": "[12921-08-18]", "x": "nan", "n": None, "raw": "AA=="},
    )
    assert {name: value.decode() for name, value in map(dict.values, written["headers"])} == {
        "__connect.errors.topic": "out",
        "__connect.errors.stage": "VALUE_CONVERTER",
        "__connect.errors.exception.message": "why",
    }
    assert (read["key"], read["value"], read["headers"][0]) == (None, b"v", {"key": "h", "value": None})
    assert [header["value"] for header in read["headers"][1:]] == [b"in", b"0", b"5", b"VALUE_CONVERTER"]
    assert dead.take() is None


def write_batch(bench, frame, **options):
    writer = EosLogBatchWriter(
        parse_sink({"path": bench.url, **options}, streaming=False),
        from_arrow_schema(frame.schema),
        overwrite=False,
    )
    writer.commit([writer.write(iter(frame.to_batches()))])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({DEAD: "out"}, "is the topic that the rows go to"),
        ({DEAD: "typed"}, "has a schema or a value.format"),
        ({DEAD: "other"}, "has a schema or a value.format"),
        ({DEAD: "dead", "row.format": "kafka"}, "has no effect"),
        ({DEAD: "dead", "auto.create.topics.enable": "false"}, "auto.create.topics.enable is false"),
        ({DEAD: "a/b"}, "illegal topic name"),
    ],
)
def test_dead_letter_topics_that_cannot_be(bench, options, says):
    admin = Admin(bench.log)
    admin.create_topic("out", config=avro())
    admin.create_topic("other", config=avro())
    admin.create_topic("typed", schema=pa.schema({"n": pa.int64()}))
    frame = {"value": [b"x"]} if "row.format" in options else {"n": pa.array([1], pa.int32())}
    before = bench.state.seq
    with pytest.raises(Exception, match=says):
        write_batch(bench, pa.table(frame), topic="out", **options)
    assert bench.state.seq == before


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"row.format": "typed"}, ConfigError, "JSON values of topic 'json' have no schema"),
        ({"subscribe": "json,in"}, SchemaMismatchError, "'in' and 'json' have different columns"),
        ({"subscribe": "recursive"}, SchemaMismatchError, "record Node inside of itself"),
        ({"subscribe": "same"}, SchemaMismatchError, "'a' and 'A' have the same name"),
        (
            {"subscribe": "key", "includeMetadata": "true"},
            SchemaMismatchError,
            "'_key' and '_key' have the same name",
        ),
    ],
)
def test_topics_without_columns(engine, given, error, says):
    admin = Admin(engine.bench.log)
    admin.create_topic("json", config={"value.format": "json"})
    admin.create_topic("in", config=avro())
    admin.create_topic("recursive", config=avro(of("Node", [{"name": "next", "type": ["null", "Node"]}])))
    admin.create_topic(
        "same", config=avro(of("R", [{"name": "a", "type": "int"}, {"name": "A", "type": "int"}]))
    )
    admin.create_topic("key", config=avro(of("R", [{"name": "_key", "type": "int"}])))
    with pytest.raises(error, match=says):
        engine.read(**{"subscribe": "json", **given})


BOTH = {"a": {"type": "integer"}, "A": {"type": "integer"}}
STRUCT = {"type": "object", "properties": BOTH}
AVRO_STRUCT = of("S", [{"name": "a", "type": "int"}, {"name": "A", "type": "int"}])
ARROW = pa.struct([("a", pa.int32()), ("A", pa.int32())])
NESTED = {
    "s": (STRUCT, AVRO_STRUCT, ARROW),
    "s.element": (
        {"type": "array", "items": STRUCT},
        {"type": "array", "items": AVRO_STRUCT},
        pa.list_(pa.field("element", ARROW)),
    ),
    "s.value": (
        {"type": "object", "additionalProperties": STRUCT},
        {"type": "map", "values": AVRO_STRUCT},
        pa.map_(pa.string(), ARROW),
    ),
    "s.in": (
        {"type": "object", "properties": {"in": STRUCT}},
        of("T", [{"name": "in", "type": AVRO_STRUCT}]),
        pa.struct([("in", ARROW)]),
    ),
}
"""Paths to fields whose names differ in case alone, and the types that have them: JSON's, Avro's and Arrow's."""


@pytest.mark.parametrize("path", NESTED)
@pytest.mark.parametrize("format_", ["json", "json without a schema", "avro"])
def test_names_that_differ_in_case_alone_are_no_columns_at_any_depth(engine, format_, path):
    """Clients read and write such values, and Spark reads them undecoded."""
    in_json, in_avro, in_arrow = NESTED[path]
    schema = {"type": "object", "properties": {"s": in_json}}
    config = {
        "json": {"value.format": "json", "value.schema": json.dumps(schema)},
        "json without a schema": {"value.format": "json"},
        "avro": avro(of("R", [{"name": "s", "type": in_avro}]), "avro"),
    }[format_]
    Admin(engine.bench.log).create_topic("in", config=config)
    before = engine.bench.state.seq
    rows = pa.table({"s": pa.array([None], in_arrow)})
    says = f"column '{path}' would have the fields 'a' and 'A', which are the same name in Spark"
    with pytest.raises(SchemaMismatchError, match=f"topic 'in' has value.format=.*: {says}"):
        write_batch(engine.bench, rows, topic="in", **{"row.format": "typed"})
    assert engine.bench.state.seq == before, "nothing was written"
    if format_ == "json without a schema":
        given = parse_source(
            {"path": engine.bench.url, "subscribe": "in", "row.format": "typed"}, streaming=False
        )
        with pytest.raises(SchemaMismatchError, match=f"topic 'in': {says}.*row.format=kafka"):
            check_columns(given, from_arrow_schema(rows.schema))
    else:
        with pytest.raises(SchemaMismatchError, match=f"topic 'in': {says}.*row.format=kafka"):
            engine.read(subscribe="in")
    value = {"s": {"a": 1, "A": 2}}
    value = {
        "s": {
            "s": value["s"],
            "s.element": [value["s"]],
            "s.value": {"k": value["s"]},
            "s.in": {"in": value["s"]},
        }[path]
    }
    with Producer(engine.bench.log) as producer:
        producer.send("in", value)
    assert polled(engine.bench.log, "in")[0].value == value
    assert len(engine.read(subscribe="in", **{"row.format": "kafka"})[0]) == 1


def test_a_recursive_type_is_for_clients(log_url):
    Admin(log_url).create_topic("tree", config=avro(of("Node", [{"name": "next", "type": ["null", "Node"]}])))
    with Producer(log_url) as producer:
        producer.send("tree", {"next": {"next": None}})
    assert polled(log_url, "tree")[0].value == {"next": {"next": None}}


def test_a_schema_changes_and_old_records_are_read(engine):
    """A query that was planned before goes on with the columns that it has; a new one has the new columns."""
    admin = Admin(engine.bench.log)
    admin.create_topic("in", config=avro())
    with Producer(engine.bench.log) as producer:
        producer.send("in", {"n": 1})
    wider = of("Number", [{"name": "n", "type": "long"}, {"name": "u", "type": "string", "default": "m"}])
    admin.alter_topic("in", config={"value.schema": json.dumps(wider)})
    with Producer(engine.bench.log) as producer:
        producer.send("in", {"n": 2, "u": "km"})
    assert engine.read(subscribe="in")[0] == [{"n": 1, "u": "m"}, {"n": 2, "u": "km"}]
    with pytest.raises(
        ConfigError, match="cannot read the records that are there: field 'new' was not written"
    ):
        admin.alter_topic(
            "in", config={"value.schema": json.dumps(of("Number", [{"name": "new", "type": "int"}]))}
        )


def test_plain_avro_cannot_change_its_schema(engine):
    admin = Admin(engine.bench.log)
    admin.create_topic("in", config=avro(format_="avro"))
    with pytest.raises(ConfigError, match="do not say with which schema they were written"):
        admin.alter_topic(
            "in", config={"value.schema": json.dumps(of("Number", [{"name": "n", "type": "long"}]))}
        )
    admin.alter_topic("in", config={"value.schema": json.dumps({**NUMBER, "doc": "Only words"})})


@pytest.mark.parametrize("columns", ["n", "_key", "t,_offset,n", "_headers,_timestamp,_topic,_partition"])
def test_chosen_columns(engine, columns):
    Admin(engine.bench.log).create_topic("in", config=avro())
    with Producer(engine.bench.log) as producer:
        producer.send("in", {"n": 7, "t": "x"}, key="k", headers=[("h", b"1")], timestamp_ms=1_000)
    (row,) = engine.read(subscribe="in", columns=columns)[0]
    assert [*row] == columns.split(",")
    whole = engine.read(subscribe="in", includeMetadata="true", includeHeaders="true")[0][0]
    assert row == {name: whole[name] for name in row}
    assert (whole["n"], whole["_key"], whole["_headers"]) == (7, b"k", [{"key": "h", "value": b"1"}])


@pytest.mark.parametrize(
    "text", ["n = 7", "_key = 'k' AND t = 'x'", "_offset = 1 AND _timestamp > '1970-01-01T00:00:01.5'"]
)
def test_a_filter_of_decoded_columns(engine, text):
    """It may name columns that the rows do not have."""
    Admin(engine.bench.log).create_topic("in", config=avro())
    with Producer(engine.bench.log) as producer:
        producer.send("in", {"n": 1, "t": "x"}, timestamp_ms=1_000)
        producer.send("in", {"n": 7, "t": "x"}, key="k", timestamp_ms=2_000)
        producer.send("in", {"n": 2, "t": "k"}, key="k", timestamp_ms=2_000)
    assert engine.read(subscribe="in", where=text, columns="t")[0] == [{"t": "x"}]
    assert engine.read(subscribe="in", where=text)[0] == [{"n": 7, "t": "x"}]


def test_a_filter_leaves_out_broken_values_unless_it_says_so(engine):
    """Their columns are null, as behind the source."""
    Admin(engine.bench.log).create_topic("in", config=avro())
    with Producer(engine.bench.log) as producer:
        producer.send("in", {"n": 7, "t": "x"})
        producer.send("in", value=b"broken")
    given = {"subscribe": "in", "mode": "PERMISSIVE", "columns": "n"}
    assert engine.read(where="n = 7 OR n != 7", **given)[0] == [{"n": 7}]
    assert engine.read(where="n = 8 OR _corrupt_record IS NOT NULL", **given)[0] == [{"n": None}]


def test_a_filter_of_json_without_a_schema_is_over_the_columns_that_are_given(bench):
    Admin(bench.log).create_topic("in", config={"value.format": "json"})
    with Producer(bench.log) as producer:
        producer.send("in", {"n": 1, "_offset": 9})
        producer.send("in", {"n": 7, "_offset": 8})
    given = {"path": bench.url, "subscribe": "in", "row.format": "typed"}
    columns = StructType([StructField("n", LongType()), StructField("_offset", LongType())])

    def found(text):
        reader = EosLogBatchReader(parse_source({**given, "where": text}, streaming=False), columns)
        return [row for task in reader.partitions() for part in reader.read(task) for row in part.to_pylist()]

    assert found("_offset < 9") == [{"n": 7, "_offset": 8}]
    with pytest.raises(ConfigError, match="has no column '_partition'"):
        found("_partition = 0")


def test_dead_letters_of_a_topic_that_the_write_creates(bench, spark):
    frame = spark.createDataFrame([(None, "a"), (2, "b")], "n int, t string")
    for topic in ("made", "made"):
        writer = frame.write.format("eoslog").option("topic", topic).options(**avro(), **{DEAD: "dead"})
        writer.mode("append").save(bench.url)
    assert [row.n for row in read(spark, bench.url, "made").collect()] == [2, 2]
    assert bench.count("dead") == 2
