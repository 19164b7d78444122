"""One error names all options that do not fit; ``kafka.options=ignore`` drops Kafka's transport, and nothing else."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from spark_eos import Admin, BatchTransaction, Consumer, Producer
from spark_eos.config.kafka.names import REPLACED, TRANSPORT, kafka_name
from spark_eos.config.sink import SINK
from spark_eos.config.source import SOURCE
from spark_eos.errors import ConfigError, SchemaMismatchError
from spark_eos.log.log import Log
from spark_eos.spark.options import parse_any_source, parse_sink, parse_source
from spark_eos.spark.schema import arrow_schema
from spark_eos.spark.sink.sink_target import options_for, prepare
from spark_eos.spark.topics import check_columns, source_schema

TRANSPORTED = {
    "kafka.bootstrap.servers": "b1:9092,b2:9092",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": "ScramLoginModule required username='u' password='hush';",
    "kafka.ssl.truststore.location": "/etc/trust.jks",
    "kafka.ssl.truststore.password": "hush",
    "kafka.fetch.min.bytes": "1",
    "kafka.fetch.max.wait.ms": "500",
    "kafka.max.partition.fetch.bytes": "1048576",
    "kafka.max.poll.records": "500",
    "kafka.session.timeout.ms": "30000",
    "kafka.request.timeout.ms": "60000",
    "groupIdPrefix": "team",
    "fetchOffset.numRetries": "3",
    "kafkaConsumer.pollTimeoutMs": "120000",
}
SENT = {
    "kafka.bootstrap.servers": "b1:9092",
    "kafka.acks": "all",
    "kafka.linger.ms": "20",
    "kafka.batch.size": "65536",
    "kafka.retries": "5",
    "kafka.enable.idempotence": "true",
    "kafka.delivery.timeout.ms": "60000",
}
ROWS = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])


def refused(call):
    with pytest.raises(ConfigError) as caught:
        call()
    return str(caught.value)


def said(text):
    """How many things do not fit, as the error says it."""
    return int(re.match(r"(\d+) things do not fit", text)[1])


@pytest.mark.parametrize("parse", [lambda given: parse_source(given, streaming=True), parse_any_source])
def test_a_job_of_kafka_gets_all_in_one_error(parse):
    text = refused(
        lambda: parse(
            {
                **TRANSPORTED,
                "subscribe": "flights",
                "startingOffsets": "soon",
                "maxOffsetsPerTrigger": "many",
                "minOffsetsPerTrigger": "10",
                "kafka.auto.offset.reset": "earliest",
                "kafka.key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
                "failOnDataLos": "false",
                "topic": "out",
                "s3.regio": "eu",
            }
        )
    )
    for name in TRANSPORTED:
        assert name in text
    for part in (
        "15 options are settings of Kafka's transport",
        "kafka.options=ignore, which drops exactly that",
        "startingOffsets='soon': expected earliest",
        "maxOffsetsPerTrigger='many': expected a whole number",
        "kafka.auto.offset.reset is not one of eoslog: where reading starts is decided by startingOffsets",
        "kafka.key.deserializer is not one of eoslog: key and value are bytes",
        "unknown option 'failOnDataLos'; did you mean failOnDataLoss?",
        "option topic belongs to df.writeStream and df.write",
        "'s3.regio'; did you mean s3.region?",
        "no path is given",
    ):
        assert part in text
    if parse is parse_any_source:
        assert "only if this is spark.read: option minOffsetsPerTrigger belongs to spark.readStream" in text
    assert "The job's sinks are checked when they start. To save a start, set it there, too" in text
    assert said(text) == (10 if parse is parse_any_source else 9)
    assert "hush" not in text


def test_nothing_else_was_wrong():
    """What the error names, put right, is a source: nothing comes in a second error."""
    given = {**TRANSPORTED, "path": "/log", "subscribe": "flights", "kafka.options": "ignore"}
    assert parse_any_source(given) == parse_any_source({"path": "/log", "subscribe": "flights"})
    sent = {**SENT, "path": "/log", "topic": "out", "kafka.options": "ignore"}
    assert parse_sink(sent, streaming=False) == parse_sink({"path": "/log", "topic": "out"}, streaming=False)


@pytest.mark.parametrize("spell", [str, str.upper, str.lower, str.title])
def test_any_case_and_prefix(spell):
    wanted = parse_sink({"path": "/log", "retention.ms": "5", "transactional.id": "t"}, streaming=False)
    given = {"kafka.options": "IGNORE", "kafka.retention.ms": "5", "kafka.transactional.id": "t", **SENT}
    assert parse_sink({"path": "/log", **{spell(k): v for k, v in given.items()}}, streaming=False) == wanted
    plain = {name.removeprefix("kafka."): value for name, value in TRANSPORTED.items()}
    given = {"path": "/log", "subscribe": "t", "kafka.options": "ignore", **plain}
    assert parse_source({spell(k): v for k, v in given.items()}, streaming=True).subscribe == ("t",)


@pytest.mark.parametrize("name", sorted(REPLACED))
def test_what_changes_what_is_read_or_written_is_never_dropped(name):
    for options in ({"kafka.options": "ignore"}, {}):
        text = refused(
            lambda given=options: parse_source(
                {"path": "/l", "subscribe": "t", name: "1", **given}, streaming=True
            )
        )
        assert text == f"option {name} is not one of eoslog: {REPLACED[name]}"
        assert refused(
            lambda given=options: parse_sink({"path": "/l", f"kafka.{name}": "1", **given}, streaming=True)
        ).startswith(f"option kafka.{name} is not one of eoslog")


def test_what_is_dropped_has_no_row():
    """Nor is any of it an option that decides what is read or written."""
    names = {name for group in TRANSPORT.values() for name in group}
    assert not names & {name.lower() for name in (*SOURCE, *SINK)}
    assert not names & REPLACED.keys()
    for name in (*SOURCE, *SINK):
        assert name == "kafka.options" or kafka_name(name, SINK) is None


@pytest.mark.parametrize("name", ["failOnDataLos", "kafka.retention.m", "startingOffset", "kafka.group.idd"])
def test_unknown_names_are_not_dropped(name):
    given = {"path": "/l", "subscribe": "t", "kafka.options": "ignore", name: "1"}
    assert f"unknown option '{name}'" in refused(lambda: parse_source(given, streaming=True))


def test_a_wrong_way_to_say_so():
    text = refused(
        lambda: parse_source(
            {"path": "/l", "subscribe": "t", "kafka.options": "drop", **TRANSPORTED}, streaming=True
        )
    )
    assert "option kafka.options='drop': expected refuse or ignore" in text
    assert "15 options are settings of Kafka's transport" in text


@pytest.mark.since("4.2")
def test_what_only_a_stream_or_only_a_batch_would_refuse_is_said_for_each():
    text = refused(
        lambda: parse_any_source(
            {
                "path": "/log",
                "subscribe": "flights",
                "maxOffsetsPerTrigger": "5",
                "minOffsetsPerTrigger": "5",
                "startingOffsets": "latest",
                "endingOffsets": '{"other": {"0": 1}}',
                "kafka.acks": "all",
            }
        )
    )
    assert "option endingOffsets names partition 0 of topic 'other', which option subscribe" in text
    assert (
        "only if this is spark.read: maxOffsetsPerTrigger, minOffsetsPerTrigger do not belong there" in text
    )
    assert (
        "only if this is spark.read: option startingOffsets='latest': expected earliest, committed or" in text
    )
    assert "option kafka.acks is a setting of Kafka's transport" in text


@pytest.mark.since("4.2")
def test_contradictions_are_all_named():
    text = refused(
        lambda: parse_source(
            {
                "path": "/log",
                "subscribe": "a",
                "assign": '{"a": [0]}',
                "minOffsetsPerTrigger": "9",
                "maxOffsetsPerTrigger": "5",
                "startingOffsets": "committed",
                "startingOffsetsByTimestampStrategy": "latest",
            },
            streaming=True,
        )
    )
    assert said(text) == 4
    assert "options subscribe and assign are given" in text
    assert "minOffsetsPerTrigger=9 is higher than maxOffsetsPerTrigger=5" in text
    assert "startingOffsets='committed' needs option group.id" in text
    assert "startingOffsetsByTimestampStrategy needs startingTimestamp" in text


def test_a_delay_alone():
    text = refused(
        lambda: parse_source({"path": "/l", "subscribe": "t", "maxTriggerDelay": "5m"}, streaming=True)
    )
    assert "maxTriggerDelay has no effect without minOffsetsPerTrigger" in text


def test_all_partitions_that_are_not_read_are_named():
    offsets = '{"a": {"0": 1}, "b": {"0": 1, "3": 1}}'
    text = refused(
        lambda: parse_source({"path": "/l", "subscribe": "a", "startingOffsets": offsets}, streaming=True)
    )
    assert "names partition 0 of topic 'b', partition 3 of topic 'b', which option subscribe" in text


@pytest.mark.deep("gzip-zstd")
@pytest.mark.parametrize(("codec", "use"), [("gzip", "zstd"), ("snappy", "lz4"), ("GZIP", "zstd")])
def test_codecs_that_are_not_there(codec, use):
    given = {"path": "/l", "kafka.compression.type": codec}
    text = refused(lambda: parse_sink(given, streaming=False))
    assert f"expected auto, none, lz4 or zstd (there is no {codec.lower()} here: use {use})" in text


@pytest.mark.parametrize(
    "name", ["org.apache.kafka.clients.producer.RoundRobinPartitioner", "io.confluent.FieldPartitioner"]
)
def test_a_partitioner_of_java(name):
    text = refused(lambda: parse_sink({"path": "/l", "partitioner.class": name}, streaming=False))
    assert (
        f"partitioner.class={name!r}: expected module:callable (a class of Java cannot be called here" in text
    )


# -- with what the log and the frame say -----------------------------------------------------------------


def test_a_missing_topic_is_named_with_the_options(bench):
    bench.topic("flights")
    given = {"path": bench.url, "subscribe": "flight", **TRANSPORTED}
    text = refused(lambda: parse_any_source(given, also=source_schema))
    assert said(text) == 2
    assert "has no topic 'flight'; did you mean 'flights'?" in text


def test_columns_are_named_with_the_options_of_a_sink(bench):
    bench.topic("out")
    frame = StructType([*ROWS, StructField("delay", IntegerType()), StructField("origin", StringType())])
    given = {"path": bench.url, "topic": "out", "kafka.compression.type": "gzip", **SENT}
    text = refused(lambda: options_for(given, frame, streaming=True, overwrite=False))
    assert said(text) == 4
    assert "7 options are settings of Kafka's transport" in text
    assert "there is no gzip here: use zstd" in text
    assert "the sink needs the checkpoint location" in text
    assert "a Kafka-shaped topic has no columns 'delay', 'origin'; drop them, put them into value" in text
    assert ".drop('delay', 'origin')" in text


@pytest.mark.parametrize("folder", ["_log", "data/checkpoint", "_groups/x/"])
@pytest.mark.parametrize(
    ("log", "location"),
    [
        ("{}/log", "{}/log/{}"),
        ("{}/log", "file://{}/log/{}"),
        ("file:{}/log", "{}/./log//{}"),
        ("s3://b/log/", "s3a://b/log/{}"),
        ("relative/log", "relative/log/{}"),
    ],
)
def test_a_checkpoint_is_in_no_folder_of_the_log(tmp_path, log, location, folder):
    """Vacuum deletes what no entry names, there."""
    places = [] if "b/" in location or location.startswith("relative") else [tmp_path]
    given = {
        "path": log.format(*places),
        "topic": "t",
        "checkpointLocation": location.format(*places, folder),
    }
    name = folder.partition("/")[0]
    text = refused(lambda: options_for(given, ROWS, streaming=True, overwrite=False))
    assert f"lies in the folder {name} of the log" in text
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("location", ["log/_checkpoints/q", "log-2/data", "data", "logs/log/data"])
def test_a_checkpoint_may_be_beside_the_log_or_where_delta_has_it(tmp_path, location):
    given = {"path": str(tmp_path / "log"), "topic": "t", "checkpointLocation": str(tmp_path / location)}
    assert options_for(given, ROWS, streaming=True, overwrite=False).topic == "t"


@pytest.mark.parametrize("frame", [None, "rows", pa.table({"value": [b"x"]})])
def test_a_transaction_takes_frames_of_spark(tmp_path, frame):
    with (
        pytest.raises(ConfigError, match=f"this is a {type(frame).__name__}: .*createDataFrame"),
        BatchTransaction(str(tmp_path / "log")) as transaction,
    ):
        transaction.write(frame, "t")
    assert not (tmp_path / "log").exists()


def test_nothing_is_created_for_options_that_do_not_fit(tmp_path):
    given = {"path": str(tmp_path / "log"), "topic": "out", **SENT}
    refused(lambda: options_for(given, ROWS, streaming=False, overwrite=False))
    assert not (tmp_path / "log").exists()


def test_all_columns_that_a_typed_topic_has_not_are_named(bench):
    kind = StructType([StructField("n", IntegerType())])
    prepare(parse_sink({"path": bench.url, "topic": "typed"}, streaming=False), kind, overwrite=False)
    wide = StructType([*kind, StructField("a", IntegerType()), StructField("b", IntegerType())])
    with pytest.raises(SchemaMismatchError, match=r"has no columns 'a', 'b'; drop them, or add them to"):
        prepare(parse_sink({"path": bench.url, "topic": "typed"}, streaming=False), wide, overwrite=False)


def test_settings_of_a_topic_are_checked_before_anything_is_created(tmp_path):
    given = {"path": str(tmp_path / "log"), "topic": "out", "key.columns": "key"}
    with pytest.raises(ConfigError, match=r"key\.columns needs a schema"):
        prepare(parse_sink(given, streaming=False), ROWS, overwrite=False)
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("streaming", [True, False])
def test_complete_mode_without_one_topic_is_said_by_its_name(tmp_path, streaming):
    rows = StructType([*ROWS, StructField("topic", StringType())])
    options = parse_sink({"path": str(tmp_path / "log"), "checkpointLocation": "/cp"}, streaming=True)
    options = options if streaming else parse_sink({"path": str(tmp_path / "log")}, streaming=False)
    with pytest.raises(ConfigError, match=r"option topic is missing: outputMode\('complete'\)"):
        prepare(options, rows, overwrite=True)
    assert not (tmp_path / "log").exists()


def test_rows_that_name_their_topics_have_a_schema_only_if_that_was_said(tmp_path):
    rows = StructType([StructField("topic", StringType()), StructField("id", LongType())])
    given = {"path": str(tmp_path / "log")}
    with pytest.raises(SchemaMismatchError, match=r"need option\('row.format', 'typed'\)"):
        prepare(parse_sink(given, streaming=False), rows, overwrite=False)
    prepare(parse_sink({**given, "row.format": "typed"}, streaming=False), rows, overwrite=False)


def test_a_topic_with_other_settings(bench):
    bench.log.ensure_topic("out", config={"retention.ms": "5", "cleanup.policy": "delete,compact"})

    def write(**given):
        given = {name.replace("_", "."): value for name, value in given.items()}
        options = parse_sink({"path": bench.url, "topic": "out", **given}, streaming=False)
        prepare(options, ROWS, overwrite=False)

    write(retention_ms="5", cleanup_policy="compact,delete", segment_ms="604800000")
    with pytest.raises(ConfigError) as caught:
        write(retention_ms="6", segment_ms="1", cleanup_policy="compact,delete")
    assert "topic 'out' is there, with other settings than the options say" in str(caught.value)
    assert "option retention.ms=6: it has 5; option segment.ms=1: it has 604800000" in str(caught.value)


# -- clients ---------------------------------------------------------------------------------------------

OF_CONFLUENT = {
    "bootstrap.servers": "b:9092",
    "security.protocol": "SASL_SSL",
    "sasl.mechanisms": "PLAIN",
    "sasl.username": "u",
    "sasl.password": "hush",
    "ssl.ca.location": "/ca.pem",
    "socket.keepalive.enable": True,
    "statistics.interval.ms": 1000,
}


def test_a_producer_names_all(tmp_path):
    given = {
        **OF_CONFLUENT,
        "acks": "1",
        "linger.ms": 500,
        "delivery.timeout.ms": 100,
        "compression.type": "snappy",
        "max.in.flight.requests.per.connection": 5,
        "message.timeout.ms": 300_000,
        "group.id": "g",
        "queue.buffering.max.messages": 100_000,
        "lingerms": 5,
        "s3.regio": "eu",
    }
    text = refused(lambda: Producer(tmp_path / "log", given))
    assert said(text) == 9
    for part in (
        "9 options are settings of Kafka's transport",
        "acks='1': expected all",
        "delivery.timeout.ms=100 is shorter than linger.ms=500",
        "there is no snappy here: use lz4",
        "producer setting message.timeout.ms is not one of eoslog: its name here is delivery.timeout.ms",
        "group.id is a consumer setting, and no producer setting",
        "unknown producer setting 'lingerms'; did you mean linger.ms?",
        "max.in.flight.requests.per.connection=5: expected 1",
        "'s3.regio'; did you mean s3.region?",
    ):
        assert part in text
    assert "hush" not in text
    assert not (tmp_path / "log").exists()


def test_a_producer_drops_the_transport_alone(tmp_path):
    given = {
        **OF_CONFLUENT,
        "acks": "1",
        "max.in.flight.requests.per.connection": 5,
        "kafka.options": "ignore",
    }
    with Producer(tmp_path / "log", given) as producer:
        producer.send("t", b"v").result(timeout=60)
    assert "retries='no'" in refused(lambda: Producer(tmp_path / "log", {**given, "retries": "no"}))


def test_a_consumer_names_all(tmp_path):
    Log.create(tmp_path / "log")
    given = {
        **OF_CONFLUENT,
        "auto.offset.reset": "smallest",
        "heartbeat.interval.ms": 9000,
        "session.timeout.ms": 6000,
        "enable.auto.commit": True,
        "fetch.min.bytes": 1,
        "linger.ms": 5,
        "enable.partition.eof": False,
    }
    text = refused(lambda: Consumer(tmp_path / "log", given))
    assert said(text) == 5
    for part in (
        "10 options are settings of Kafka's transport",
        "auto.offset.reset='smallest': expected earliest",
        "heartbeat.interval.ms=9000 must be less than session.timeout.ms=6000",
        "enable.auto.commit=true needs group.id",
        "fetch.min.bytes: nothing is fetched from a broker",
        "linger.ms: nothing is sent to a broker",
        "enable.partition.eof is not one of eoslog",
    ):
        assert part in text


def test_a_consumer_drops_the_transport_alone(tmp_path):
    Log.create(tmp_path / "log")
    Consumer(tmp_path / "log", {**OF_CONFLUENT, "check.crcs": False}, kafka_options="ignore").close()
    assert "enable.partition.eof" in refused(
        lambda: Consumer(tmp_path / "log", {"enable.partition.eof": False, "kafka.options": "ignore"})
    )


def test_keywords_of_kafka_python(tmp_path):
    def made(**more):
        given = {
            "bootstrap_servers": "b:9092",
            "security_protocol": "SASL_SSL",
            "api_version": (3, 9),
            **more,
        }
        return Producer(tmp_path / "log", sasl_plain_username="u", ssl_cafile="/ca.pem", linger_ms=5, **given)

    text = refused(lambda: made(group_id="g", max_block=1))
    assert said(text) == 3
    assert "5 options are settings of Kafka's transport" in text
    assert "group_id is a consumer setting, and no producer setting" in text
    assert "unknown producer setting 'max_block'; did you mean max.block.ms?" in text
    made(kafka_options="ignore").close()


def test_settings_of_a_topic_are_named_all(tmp_path):
    admin = Admin(Log.create(tmp_path / "log"))
    given = {"min.insync.replicas": "2", "retention.ms": "long", "flush.ms": "1", "cleanup.polic": "compact"}
    admin.create_topic("t")
    for call in (lambda: admin.create_topic("u", config=given), lambda: admin.alter_topic("t", config=given)):
        text = refused(call)
        assert "min.insync.replicas is not one of eoslog: the store replicates its files" in text
        assert "flush.ms is not one of eoslog: each commit is durable" in text
        assert "unknown topic setting 'cleanup.polic'; did you mean cleanup.policy?" in text
        assert "topic setting retention.ms='long': expected a whole number" in text


def test_a_topic_of_kafka_that_is_uncompressed(tmp_path):
    admin = Admin(Log.create(tmp_path / "log"))
    admin.create_topic("t", config={"compression.type": "uncompressed"})
    assert admin.describe_topic("t").config["compression.type"] == "none"


def test_a_schema_that_is_given_names_each_column_once(tmp_path):
    log = str(tmp_path / "log")
    Admin(log).create_topic("t", 1)
    twice = StructType([*ROWS, StructField("value", BinaryType())])
    options = parse_source({"path": log, "subscribe": "t"}, streaming=False)
    check_columns(options, ROWS)
    with pytest.raises(SchemaMismatchError, match="names a column twice: key, value, value"):
        check_columns(options, twice)


NEVER_NULL = (
    StructField("id", LongType(), False),
    StructField("tags", ArrayType(StringType(), False)),
    StructField("at", StructType([StructField("x", IntegerType(), False)])),
)


@pytest.mark.parametrize("field", NEVER_NULL)
def test_a_schema_that_is_given_says_of_nothing_that_it_is_never_null(tmp_path, field):
    log = str(tmp_path / "log")
    own = StructType([StructField("id", LongType()), StructField("tags", ArrayType(StringType()))])
    own.add(StructField("at", StructType([StructField("x", IntegerType())])))
    Admin(log).create_topic("t", 1, schema=arrow_schema(own))
    options = parse_source({"path": log, "subscribe": "t"}, streaming=False)
    given = StructType([field])
    check_columns(options, given.toNullable())
    with pytest.raises(
        SchemaMismatchError, match=f"what may be null in column '{field.name}'.*Leave .schema"
    ):
        check_columns(options, given)


@pytest.mark.parametrize("field", NEVER_NULL)
def test_a_schema_that_is_given_for_json_says_of_nothing_that_it_is_never_null(tmp_path, field):
    """A value that lacks it would end the query with an error of Java or Arrow that names no record."""
    log = str(tmp_path / "log")
    Admin(log).create_topic("t", 1, config={"value.format": "json"})
    options = parse_source({"path": log, "subscribe": "t", "row.format": "typed"}, streaming=False)
    given = StructType([field])
    check_columns(options, given.toNullable())
    with pytest.raises(
        SchemaMismatchError, match=rf"column '{field.name}'.* never null.*schema.toNullable\(\)"
    ):
        check_columns(options, given)
