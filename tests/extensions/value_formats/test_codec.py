"""The codec of a topic: what is refused of values and of changes of its settings."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.errors import ConfigError
from spark_eos.extensions.value_formats.formats import codec_for
from spark_eos.extensions.value_formats.framing import CONFLUENT, confluent_header
from spark_eos.extensions.value_formats.settings import ValueSettings
from spark_eos.log.log import Log
from spark_eos.log.values.problems import Problems
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


@pytest.mark.parametrize("format_", ["avro-single-object", "avro-confluent"])
def test_records_of_all_earlier_schemas_are_read(format_):
    log = Log.create(MemoryStore())
    admin = Admin(log)
    schemas = [of("R", [{"name": "n", "type": kind}]) for kind in ("int", "long", "float", "double")]
    admin.create_topic(
        "t", config={"value.format": format_, "value.schema": json.dumps(schemas[0])} | id_of(format_, 0)
    )
    for number, schema in enumerate(schemas):
        admin.alter_topic("t", config={"value.schema": json.dumps(schema)} | id_of(format_, number))
        with Producer(log) as producer:
            producer.send("t", {"n": number})
    with Consumer(log, {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert [record.value for record in consumer.poll()] == [{"n": number} for number in range(4)]
    kept = json.loads(admin.describe_topic("t").config["value.writer.schemas"])
    assert (kept if isinstance(kept, list) else [*kept.values()]) == schemas[:3]


def id_of(format_, number):
    return {"value.schema.id": number} if format_ == "avro-confluent" else {}


def annotated(**more):
    return of("R", [{"name": "n", "type": more}])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            {"type": "long", "logicalType": "timestamp-millis"},
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 4},
        ),
    ],
)
@pytest.mark.parametrize("format_", ["avro", "avro-single-object", "avro-confluent"])
def test_numbers_get_no_other_unit_though_the_fingerprint_stays(format_, old, new):
    """A fingerprint leaves out logical types: nothing in a value says which of the two it was written with."""
    admin = Admin(Log.create(MemoryStore()))
    ids = {"value.schema.id": 1} if format_ == "avro-confluent" else {}
    config = {"value.format": format_, "value.schema": json.dumps(annotated(**old)), **ids}
    admin.create_topic("t", config=config)
    for id_ in (1, 2) if ids else (None,):
        more = {} if id_ is None else {"value.schema.id": id_}
        with pytest.raises(
            ConfigError, match=r"cannot read the records that are there: field 'n' was written as"
        ):
            admin.alter_topic("t", config={"value.schema": json.dumps(annotated(**new)), **more})
    plain = annotated(type=old["type"])
    with pytest.raises(
        ConfigError, match=r"field 'n' was written as .* and would lose it: nothing in a value"
    ):
        admin.alter_topic("t", config={"value.schema": json.dumps(plain)})
    # Nor with another schema between, whose values have a header of their own.
    if format_ == "avro":
        return
    wider = of("R", [*plain["fields"], {"name": "more", "type": "int", "default": 0}])
    admin.alter_topic(
        "t", config={"value.schema": json.dumps(wider), **({"value.schema.id": 2} if ids else {})}
    )
    for last in (plain, annotated(**new)):
        with pytest.raises(ConfigError, match="field 'n' was written as"):
            admin.alter_topic("t", config={"value.schema": json.dumps(last), **ids})
    last = of("R", [*annotated(**new)["fields"], {"name": "third", "type": "int", "default": 0}])
    with pytest.raises(
        ConfigError, match=r"cannot read the records that are there: field 'n' was written as"
    ):
        admin.alter_topic(
            "t", config={"value.schema": json.dumps(last), **({"value.schema.id": 3} if ids else {})}
        )


@pytest.mark.parametrize("format_", ["avro", "avro-single-object"])
def test_a_number_without_a_unit_gets_one(format_):
    admin = Admin(Log.create(MemoryStore()))
    plain, exact = annotated(type="long"), annotated(type="long", logicalType="timestamp-micros")
    admin.create_topic("t", config={"value.format": format_, "value.schema": json.dumps(plain)})
    admin.alter_topic("t", config={"value.schema": json.dumps(exact)})
    assert json.loads(admin.describe_topic("t").config["value.schema"]) == exact


def test_a_schema_that_was_never_read_with_the_one_of_now_stands_in_the_way_of_none():
    admin = Admin(Log.create(MemoryStore()))
    config = {
        "value.format": "avro-confluent",
        "value.schema": json.dumps(ONE),
        "value.schema.id": 2,
        "value.writer.schemas": json.dumps({"1": of("Other", [{"name": "x", "type": "string"}])}),
    }
    admin.create_topic("t", config=config)
    admin.alter_topic("t", config={"value.schema": json.dumps(TWO), "value.schema.id": 3})


@pytest.mark.parametrize("new", [ONE, ONE | {"doc": "a number"}])
def test_records_of_an_id_are_read_once_their_schema_has_another_id(new):
    log = Log.create(MemoryStore())
    admin = Admin(log)
    admin.create_topic(
        "t", config={"value.format": "avro-confluent", "value.schema": json.dumps(ONE), "value.schema.id": 1}
    )
    with Producer(log) as producer:
        producer.send("t", {"n": 1})
        producer.flush()
        admin.alter_topic("t", config={"value.schema": json.dumps(new), "value.schema.id": 2})
        producer.send("t", {"n": 2})
    with Consumer(log, {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert [record.value for record in consumer.poll()] == [{"n": 1}, {"n": 2}]


def test_an_id_is_not_used_again_for_another_schema():
    admin = Admin(Log.create(MemoryStore()))
    config = {"value.format": "avro-confluent", "value.schema": json.dumps(ONE), "value.schema.id": 1}
    admin.create_topic("t", config=config)
    admin.alter_topic("t", config={"value.schema": json.dumps(TWO), "value.schema.id": 2})
    three = of("R", [{"name": "n", "type": "double"}])
    for again in (1, 2):
        with pytest.raises(ConfigError, match=rf"value.schema.id.*{again}.*of its own"):
            admin.alter_topic("t", config={"value.schema": json.dumps(three), "value.schema.id": again})
    admin.alter_topic("t", config={"value.schema": json.dumps(three), "value.schema.id": 3})
    with pytest.raises(
        ConfigError, match=r"value.schema.id=1 is the id of another schema in value.writer.schemas"
    ):
        admin.create_topic("u", config={**config, "value.writer.schemas": json.dumps({"1": TWO})})


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


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
SMALL_DECIMAL = {
    "type": "fixed",
    "name": "D",
    "size": 2,
    "logicalType": "decimal",
    "precision": 4,
    "scale": 2,
}


@pytest.mark.parametrize(
    ("type_", "value", "reason"),
    [
        ("int", 2**31, "field f: 2147483648 has more than 32 bits"),
        ("int", -(2**31) - 1, "more than 32 bits"),
        ({"type": "int", "logicalType": "date"}, 2**31, "more than 32 bits"),
        (["null", "int"], 2**31, "more than 32 bits"),
        (["null", "int"], ("int", 2**31), "more than 32 bits"),
        ("long", 2**63, "more than 64 bits"),
        ("long", 2.5, "field f: 2.5 is no whole number"),
        ("int", Decimal("2.5"), "is no whole number"),
        ("boolean", "false", "field f: 'false' is no boolean"),
        ("boolean", None, "is no boolean"),
        ("null", 5, "field f: 5 is not null"),
        ("float", 1e39, "field f: 1e.39 is too large for a float"),
        (DECIMAL, Decimal(1234), r"field f: .*1234.* has more digits than decimal\(4, 2\)"),
        (SMALL_DECIMAL, Decimal(-999), r"more digits than decimal\(4, 2\)"),
        ({"type": "array", "items": "int"}, [1, 2**31], "field f.element: .*more than 32 bits"),
        ({"type": "map", "values": "boolean"}, {"a": "no"}, "field f.value: .*is no boolean"),
        (
            ["null", {"type": "record", "name": "S", "fields": [{"name": "x", "type": "float"}]}],
            {"x": 1e39},
            "f.x",
        ),
    ],
)
def test_a_value_that_would_become_another_one_is_refused(type_, value, reason):
    codec = codec_for(ValueSettings("t", "avro", json.dumps(of("R", [{"name": "f", "type": type_}]))))
    with pytest.raises(ValueError, match=reason):
        codec.encode({"f": value})


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("int", -(2**31)),
        ({"type": "int", "logicalType": "date"}, dt.date(2026, 11, 28)),
        (["null", "int"], None),
        (["int", "null"], 2**31 - 1),
        ("boolean", True),
        ("float", float("-inf")),
        ("float", 3.4028234663852886e38),
        (DECIMAL, Decimal("-99.99")),
        (SMALL_DECIMAL, Decimal("-99.99")),
        (SMALL_DECIMAL, Decimal("0.00")),
        ({"type": "array", "items": "int"}, []),
    ],
)
def test_a_value_that_fits_comes_back(type_, value):
    codec = codec_for(ValueSettings("t", "avro", json.dumps(of("R", [{"name": "f", "type": type_}]))))
    data = codec.encode({"f": value})
    assert codec.decode(data) == {"f": value}
    columns, problems = codec.decode_columns(pa.array([data], pa.binary()), codec.fields)
    assert not problems
    assert columns[0].to_pylist() == [value]


def test_a_record_inside_of_itself_is_checked_at_each_depth():
    schema = of("R", [{"name": "n", "type": "int"}, {"name": "more", "type": ["null", "R"]}])
    codec = codec_for(ValueSettings("t", "avro", json.dumps(schema)))
    good = {"n": 1, "more": {"n": 2, "more": None}}
    assert codec.decode(codec.encode(good)) == good
    with pytest.raises(ValueError, match="more than 32 bits"):
        codec.encode({"n": 1, "more": {"n": 2**31, "more": None}})
    value = None
    for _ in range(10_000):
        value = {"n": 1, "more": value}
    with pytest.raises(ValueError, match="RecursionError"):
        codec.encode(value)


def test_a_part_of_a_column_has_the_schemas_of_its_own_rows():
    column = pa.array([confluent_header(number) + b"x" for number in (1, 2, 3, 3)])
    (two, first), (three, second) = CONFLUENT.schemas(column.slice(1), Problems())
    assert (two, three) == ((2).to_bytes(4, "big"), (3).to_bytes(4, "big"))
    assert (first.tolist(), second.tolist()) == ([0], [1, 2])
