"""The codec of a topic: what is refused of values and of changes of its settings."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import ConfigError
from spark_eos.extensions.value_formats.formats import codec_for
from spark_eos.extensions.value_formats.settings import ValueSettings
from spark_eos.log.log import Log
from spark_eos.storage import MemoryStore
from tests.extensions.value_formats.schemas import of, written

ONE = of("R", [{"name": "n", "type": "int"}])
TWO = of("R", [{"name": "n", "type": "long"}])


@pytest.mark.parametrize("format_", ["avro", "avro-single-object", "avro-confluent"])
def test_bytes_that_are_left_over(format_):
    codec = codec_for(ValueSettings("t", format_, json.dumps(ONE), 3))
    good = codec.encode({"n": 1})
    assert good.endswith(written(ONE, {"n": 1}))
    columns, problems = codec.decode_columns(pa.array([good, good + b"\0", good]), codec.fields)
    assert columns[0].to_pylist() == [1, None, 1]
    assert problems.reasons == {1: "bytes are left over after the value"}
    with pytest.raises(ValueError, match="1 bytes are left over"):
        codec.decode(good + b"\0")


@pytest.mark.parametrize(
    "config", [{"value.format": "json"}, {"value.format": "avro", "value.schema": json.dumps(ONE)}]
)
def test_a_tombstone_is_no_value_to_decode(config):
    log = Log.create(MemoryStore())
    Admin(log).create_topic("t", config=config)
    with Producer(log) as producer:
        producer.send("t", None, key=b"k")
        producer.send("t", {"n": 1}, key=b"k")
    with Consumer(log, {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert [record.value for record in consumer.poll()] == [None, {"n": 1}]


def test_a_new_schema_needs_an_id_of_its_own():
    admin = Admin("memory://ids")
    config = {"value.format": "avro-confluent", "value.schema": json.dumps(ONE), "value.schema.id": 1}
    admin.create_topic("t", config=config)
    with pytest.raises(ConfigError, match=r"value.schema changes and value.schema.id=1 stays"):
        admin.alter_topic("t", config={"value.schema": json.dumps(TWO)})
    admin.alter_topic("t", config={"value.schema": json.dumps(TWO), "value.schema.id": 2})
    found = admin.describe_topic("t").config
    assert json.loads(found["value.writer.schemas"]) == {"1": ONE}
    assert found["value.schema.id"] == "2"


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"value.schema": "1"}, "has no effect without value.format"),
        ({"value.format": "avro"}, "needs value.schema"),
        ({"value.format": "avro-confluent", "value.schema": '"int"'}, "needs value.schema.id"),
        ({"value.format": "json", "value.schema.id": 1}, "value.schema.id has no effect"),
        (
            {"value.format": "avro", "value.schema": '"int"', "value.writer.schemas": "[]"},
            "has no effect with value.f",
        ),
        (
            {"value.format": "avro-single-object", "value.schema": '"int"', "value.writer.schemas": "{}"},
            "expected a JSON array of schemas",
        ),
        (
            {
                "value.format": "avro-confluent",
                "value.schema": '"int"',
                "value.schema.id": 1,
                "value.writer.schemas": '{"x": "int"}',
            },
            "expected a JSON object of schemas by id",
        ),
    ],
)
def test_settings_that_do_not_fit_together(config, says):
    admin = Admin("memory://fit")
    with pytest.raises(ConfigError, match=says):
        admin.create_topic("t", config=config)


def test_a_topic_with_columns_has_no_format():
    with pytest.raises(ConfigError, match="has a schema of its own"):
        Admin("memory://both").create_topic(
            "t", config={"value.format": "json"}, schema=pa.schema({"n": pa.int64()})
        )


NUMBER_OF_11_BYTES = b"\x80" * 10 + b"\0"
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}


@pytest.mark.parametrize(
    ("type_", "data", "reason"),
    [
        ("long", b"", "the value ends early"),
        ("long", b"\x80\x80", "the value ends early"),
        ("long", NUMBER_OF_11_BYTES, "field f: a number is longer than 10 bytes"),
        ("int", b"\x80\x80\x80\x80\x80\x40", "field f: an int has more than 32 bits"),
        ("boolean", b"\2", "field f: a boolean is neither 0 nor 1"),
        ("double", b"\0" * 7, "the value ends early"),
        ("string", NUMBER_OF_11_BYTES, "field f: a number is longer than 10 bytes"),
        ("string", b"\1", "the value ends early, or its length is wrong"),
        ("string", b"\x0aab", "the value ends early, or its length is wrong"),
        ("string", b"\2\xff", None),
        ("bytes", b"\xfe" * 8 + b"\1", "the value ends early, or its length is wrong"),
        (["null", "string", "long"], b"\1\2", "field f: the union has no branch of that number"),
        (["null", "string", "long"], b"\6\2", "field f: the union has no branch of that number"),
        (ENUM, b"\1", "field f: the enum has no symbol of that number"),
        (ENUM, b"\4", "field f: the enum has no symbol of that number"),
        ({"type": "fixed", "name": "F", "size": 3}, b"ab", "the value ends early"),
        ({"type": "array", "items": "long"}, b"\xfe" * 8 + b"\1", "a block has more items than the value has room"),
        ({"type": "array", "items": "long"}, b"\4\2", "a block has more items than the value has room"),
        ({"type": "map", "values": "int"}, b"\2\2k" + b"\x80" * 5 + b"\x40\0", "an int has more than 32 bits"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_value_are_refused_as_columns_and_one_by_one(type_, data, reason):
    """Not all of them by fastavro: it counts branches and symbols from the end, and a byte may be any boolean."""
    codec = codec_for(ValueSettings("t", "avro", json.dumps(of("R", [{"name": "f", "type": type_}]))))
    _, problems = codec.decode_columns(pa.array([data]), codec.fields)
    with pytest.raises(ValueError, match="its bytes are no value of its Avro schema") as error:
        codec.decode(data)
    if reason is not None:
        assert reason in problems.reasons[0]
        assert reason in str(error.value)
    assert [*problems.reasons] == [0]


def test_a_number_may_have_more_bytes_than_it_needs():
    codec = codec_for(ValueSettings("t", "avro", json.dumps(ONE)))
    data = b"\x82" + b"\x80" * 8 + b"\0"
    assert codec.decode(data) == {"n": 1}
    assert codec.decode_columns(pa.array([data]), codec.fields)[0][0].to_pylist() == [1]
