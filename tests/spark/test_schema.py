"""Columns: what reading declares to Spark, and what a frame must have to be written."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from spark_eos.errors import ConfigError, SchemaMismatchError
from spark_eos.log.data.layout import normalise_schema
from spark_eos.log.topics import new_topic, schema_of
from spark_eos.protocol.actions.topics import create
from spark_eos.protocol.state import State
from spark_eos.spark.merging import merged_topic
from spark_eos.spark.schema import (
    HEADERS,
    METADATA,
    arrow_schema,
    check_sink_schema,
    classify,
    kafka_schema,
    topic_schema,
    typed_schema,
)

UTC = pa.timestamp("us", "UTC")
EVERY_TYPE = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        *((str(type_), type_) for type_ in (pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.float32())),
        *((str(type_), type_) for type_ in (pa.float64(), pa.string(), pa.binary(), pa.date32())),
        ("decimal", pa.decimal128(38, 18)),
        ("at", pa.timestamp("ms", "Europe/Berlin")),
        ("local", pa.timestamp("ns")),
        ("lasts", pa.duration("s")),
        ("large", pa.large_string()),
        ("codes", pa.dictionary(pa.int8(), pa.string())),
        (
            "list",
            pa.list_(pa.struct([pa.field("x", pa.int32(), nullable=False), ("y", pa.list_(pa.int8()))])),
        ),
        ("map", pa.map_(pa.string(), pa.struct([("z", pa.timestamp("us", "UTC"))]))),
    ]
)
TYPED = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("at", UTC)])


def frame(**types):
    return pa.schema(list(types.items()))


def kafka(**types):
    check_sink_schema(frame(**types), typed=None, topic_option="t")


def typed(**types):
    check_sink_schema(frame(**types), typed=TYPED, topic_option="t")


def test_kafka_shaped_rows_are_those_of_sparks_kafka_source():
    assert kafka_schema().simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int>"
    )
    with_headers = kafka_schema(include_headers=True)
    assert with_headers["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"
    assert all(field.nullable for field in with_headers)
    assert arrow_schema(with_headers).field("headers").type == HEADERS


def test_typed_columns_go_to_spark_and_back_unchanged():
    assert arrow_schema(typed_schema(EVERY_TYPE)).equals(normalise_schema(EVERY_TYPE), check_metadata=True)
    assert not typed_schema(EVERY_TYPE)["id"].nullable


def test_metadata_comes_last():
    found = arrow_schema(typed_schema(TYPED, include_metadata=True))
    assert found == pa.schema([*TYPED, *METADATA])


def test_type_that_arrow_has_not():
    class Odd(t.DataType):
        pass

    with pytest.raises(SchemaMismatchError, match="cannot be carried over Arrow"):
        arrow_schema(t.StructType([t.StructField("x", Odd())]))


@pytest.mark.parametrize(
    ("type_", "named"),
    [
        (t.ArrayType(t.NullType(), containsNull=False), "array<void>"),
        (t.MapType(t.NullType(), t.NullType(), valueContainsNull=False), "map<void,void>"),
    ],
)
def test_a_literal_without_elements(type_, named):
    """``array()`` and ``map()``, whose elements have no type."""
    with pytest.raises(SchemaMismatchError, match=f"column 'headers' is {named}, which cannot be carried"):
        arrow_schema(t.StructType([t.StructField("headers", type_)]))


@pytest.mark.parametrize("column", ["key", "value", "headers", "VALUE"])
def test_frames_with_a_column_of_kafkas_are_kafka_shaped(column):
    assert classify(pa.schema([("partition", pa.int32()), (column, pa.string())])) == "kafka"
    assert classify(t.StructType().add(column, "string")) == "kafka"
    assert classify(t.StructType().add(column, "string"), "typed") == "typed"


def test_a_frame_that_may_be_either_is_not_guessed():
    either = pa.schema([("a", pa.string()), ("value", pa.string())])
    with pytest.raises(SchemaMismatchError, match=r"column 'value' .*column 'a' .*row\.format"):
        classify(either)
    assert classify(either, "typed") == "typed"
    assert classify(either, "kafka") == "kafka"


def test_other_frames_are_typed():
    assert classify(frame(topic=pa.string(), offset=pa.int64(), keys=pa.string())) == "typed"
    assert classify(t.StructType().add("id", "long")) == "typed"


def test_topic_for_a_frame_has_its_own_columns_all_nullable():
    columns = (
        t.StructType()
        .add("id", "long", nullable=False)
        .add("topic", "string")
        .add("_partition", "integer")
        .add("_timestamp", "timestamp")
        .add("at", "timestamp")
    )
    assert topic_schema(columns, by_column=True) == pa.schema([("id", pa.int64()), ("at", UTC)])
    # Where an option says where rows go, a column of that name is a column like others.
    assert topic_schema(columns) == pa.schema([("id", pa.int64()), ("topic", pa.string()), ("at", UTC)])


@pytest.mark.parametrize("text", [pa.string(), pa.binary(), pa.large_binary()])
def test_kafka_shaped_frames_that_fit(text):
    kafka(value=text)
    kafka(
        timestampType=pa.int32(),
        offset=pa.int64(),
        value=text,
        key=text,
        headers=HEADERS,
        topic=pa.string(),
        partition=pa.int32(),
        timestamp=pa.timestamp("us", "Asia/Tokyo"),
    )
    check_sink_schema(frame(value=text, topic=pa.string()), typed=None, topic_option=None)


@pytest.mark.parametrize("include_headers", [True, False])
def test_what_was_read_can_be_written(include_headers):
    check_sink_schema(
        arrow_schema(kafka_schema(include_headers=include_headers)), typed=None, topic_option=None
    )
    check_sink_schema(arrow_schema(typed_schema(EVERY_TYPE)), typed=EVERY_TYPE, topic_option="t")


def test_value_is_required():
    with pytest.raises(SchemaMismatchError, match="Required attribute 'value' not found"):
        kafka(key=pa.string())
    with pytest.raises(SchemaMismatchError, match="the frame has Key, VALUE; rename VALUE to value, add it"):
        kafka(Key=pa.string(), VALUE=pa.string())


@pytest.mark.parametrize(
    ("column", "type_", "wanted"),
    [
        ("value", pa.int64(), "string or binary"),
        ("value", pa.null(), "string or binary"),
        ("key", pa.int32(), "string or binary"),
        ("headers", pa.map_(pa.string(), pa.binary()), "array<struct"),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])), "array<struct"),
        ("topic", pa.binary(), "string"),
        ("partition", pa.string(), "int"),
        ("timestamp", pa.timestamp("us"), "timestamp"),
        ("timestamp", pa.int64(), "timestamp"),
    ],
)
def test_wrong_type_of_a_kafka_shaped_column(column, type_, wanted):
    with pytest.raises(SchemaMismatchError, match=f"column '{column}' is .*cast it to {wanted}"):
        kafka(**{"value": pa.string(), column: type_})


def test_unknown_column_of_a_kafka_shaped_frame():
    with pytest.raises(SchemaMismatchError, match=r"no column 'price'; drop it.*topic with a schema"):
        kafka(value=pa.string(), price=pa.int64())
    with pytest.raises(SchemaMismatchError, match="no column 'Key'; rename Key to key"):
        kafka(value=pa.string(), Key=pa.string())


@pytest.mark.parametrize("schema", [None, TYPED])
def test_rows_must_go_somewhere(schema):
    columns = frame(value=pa.string()) if schema is None else TYPED
    with pytest.raises(ConfigError, match="topic option required"):
        check_sink_schema(columns, typed=schema, topic_option=None)


def test_column_topic_of_a_schema_does_not_say_where_rows_go():
    own = frame(topic=pa.int64(), x=pa.int64())
    check_sink_schema(own, typed=own, topic_option="t")
    with pytest.raises(ConfigError, match="topic option required"):
        check_sink_schema(own, typed=own, topic_option=None)


def test_typed_frames_that_fit():
    typed(id=pa.int64())
    typed(at=pa.timestamp("us", "Asia/Tokyo"), name=pa.large_string(), id=pa.int64())
    typed(id=pa.int64(), _partition=pa.int32(), _timestamp=UTC)
    check_sink_schema(frame(id=pa.int64(), topic=pa.string()), typed=TYPED, topic_option=None)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"name": pa.string()}, r"column 'id' \(int64\) is missing.*add it"),
        ({"ID": pa.int64()}, "column 'id' .*rename ID to id"),
        ({"id": pa.float64()}, "column 'id' is double, topic 't' has int64; cast it"),
        ({"id": pa.int64(), "at": pa.timestamp("us")}, "column 'at' is .*cast it"),
        ({"id": pa.int64(), "price": pa.int64()}, "no column 'price'.*id, name, at"),
        ({"id": pa.int64(), "Name": pa.string()}, "rename Name to name"),
        ({"id": pa.int64(), "_offset": pa.int64()}, "no column '_offset'"),
        ({"id": pa.int64(), "_partition": pa.string()}, "control column '_partition' .*int"),
        ({"id": pa.int64(), "_timestamp": pa.string()}, "control column '_timestamp' .*timestamp"),
        ({"id": pa.int64(), "topic": pa.string()}, "topic 't' has no column 'topic'.*would be lost.*rename"),
        ({"id": pa.int64(), "key": pa.binary()}, "topic 't' has no column 'key'"),
    ],
)
def test_typed_frames_that_do_not_fit(columns, why):
    with pytest.raises(SchemaMismatchError, match=why):
        typed(**columns)


def test_column_that_is_there_twice():
    twice = pa.schema([("value", pa.string()), ("value", pa.string())])
    with pytest.raises(SchemaMismatchError, match="'value' is in the frame twice"):
        check_sink_schema(twice, typed=None, topic_option="t")


def test_a_column_that_must_not_be_null_stays_so_when_columns_are_merged():
    """Nearly every column of a frame may be null as far as Spark can tell."""
    topic = create(State(), new_topic("t", schema=TYPED))[0].topics["t"]
    frame = t.StructType([t.StructField("id", t.LongType()), t.StructField("more", t.LongType())])
    merged = schema_of(merged_topic(topic, frame, by_column=False))
    assert {field.name: field.nullable for field in merged} == {
        **{field.name: field.nullable for field in TYPED},
        "more": True,
    }


def test_a_key_stays_in_its_partition_when_columns_are_merged():
    keyed = pa.schema([("id", pa.int32()), ("n", pa.int32())])
    topic = create(State(), new_topic("t", schema=keyed, config={"key.columns": "id"}))[0].topics["t"]
    wider = t.StructType([t.StructField("n", t.LongType())])
    assert schema_of(merged_topic(topic, wider, by_column=False)).field("n").type == pa.int64()
    with pytest.raises(SchemaMismatchError, match=r"'id' is one of key\.columns, and cannot become int64"):
        merged_topic(topic, t.StructType([t.StructField("id", t.LongType())]), by_column=False)
