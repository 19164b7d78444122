"""The stored columns of a topic: spellings of types, names that are refused, how a schema may grow."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eos.errors import CorruptRecordError, IllegalStateError, SchemaMismatchError
from spark_eos.log.data.layout import (
    Layout,
    check_topic_schema,
    deserialise_schema,
    normalise_schema,
    normalise_type,
    serialise_schema,
)

MS = pa.timestamp("ms", "UTC")
US = pa.timestamp("us", "UTC")


def typed(*fields, version=1):
    return Layout.typed(pa.schema(fields), version)


def test_kafka_layout():
    layout = Layout.kafka()
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    assert layout.physical.names == ["key", "value", "headers", "timestamp"]
    assert layout.physical.types == [pa.binary(), pa.binary(), headers, MS]
    assert [field.nullable for field in layout.physical] == [True, True, True, False]
    assert (layout.is_kafka, layout.version, layout.timestamp_column) == (True, 0, "timestamp")
    assert layout.omittable == ("key", "headers", "timestamp")


def test_typed_layout_has_the_timestamp_last():
    layout = typed(pa.field("id", pa.int64(), nullable=False), ("name", pa.large_string()), version=3)
    assert layout.physical.names == ["id", "name", "_timestamp"]
    assert layout.physical.types == [pa.int64(), pa.string(), MS]
    assert [field.nullable for field in layout.physical] == [False, True, False]
    assert (layout.is_kafka, layout.version, layout.timestamp_column) == (False, 3, "_timestamp")
    assert layout.omittable == ("name", "_timestamp")


def test_layouts_are_values():
    assert typed(("a", pa.large_string())) == typed(("a", pa.string()))
    assert hash(typed(("a", pa.large_string()))) == hash(typed(("a", pa.string())))
    assert typed(("a", pa.string())) != typed(("a", pa.string()), version=2)
    with pytest.raises(AttributeError):
        Layout.kafka().version = 1


@pytest.mark.parametrize("version", [0, -1])
def test_versions_of_a_schema_start_at_1(version):
    with pytest.raises(IllegalStateError, match="start at 1"):
        typed(("a", pa.string()), version=version)


def test_stored_leaves_out_the_omitted_columns():
    layout = Layout.kafka()
    assert layout.stored(()) == layout.physical
    assert layout.stored(("timestamp", "key")).names == ["value", "headers"]
    with pytest.raises(SchemaMismatchError, match="'colour'"):
        layout.stored(("key", "colour"))


def test_the_first_column_always_stays():
    assert typed(("a", pa.string()), ("b", pa.string())).omittable == ("b", "_timestamp")


@pytest.mark.parametrize(
    ("found", "stored"),
    [
        *((same, same) for same in (pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64())),
        *((same, same) for same in (pa.float32(), pa.float64(), pa.decimal128(38, 9), pa.date32())),
        *((same, same) for same in (pa.string(), pa.binary(), US, pa.timestamp("us"), pa.duration("us"))),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary_view(), pa.binary()),
        (pa.binary(16), pa.binary()),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.timestamp("ns", "Europe/Berlin"), US),
        (pa.timestamp("s"), pa.timestamp("us")),
        (pa.duration("ms"), pa.duration("us")),
        (pa.large_list(pa.large_string()), pa.list_(pa.string())),
        (pa.list_(pa.int8(), 3), pa.list_(pa.int8())),
        (pa.map_(pa.large_string(), pa.timestamp("s")), pa.map_(pa.string(), pa.timestamp("us"))),
        (pa.struct([("a", pa.large_string())]), pa.struct([("a", pa.string())])),
    ],
)
def test_each_type_has_one_spelling(found, stored):
    assert normalise_type(found, "c") == stored
    assert normalise_type(stored, "c") == stored


def test_nested_values_may_be_null_but_for_keys_of_maps():
    number = pa.field("n", pa.int32(), nullable=False)
    (field,) = normalise_schema(pa.schema([pa.field("c", pa.list_(pa.struct([number])), nullable=False)]))
    assert not field.nullable
    assert field.type.value_field.nullable
    assert field.type.value_type.field("n").nullable
    stored = normalise_type(pa.map_(pa.string(), pa.field("value", pa.int32(), nullable=False)), "c")
    assert not stored.key_field.nullable
    assert stored.item_field.nullable


def test_elements_of_lists_are_called_as_in_spark():
    assert normalise_type(pa.list_(pa.field("item", pa.int32())), "c").value_field.name == "element"


def test_metadata_is_left_out():
    schema = pa.schema([pa.field("a", pa.int32(), metadata={"k": "v"})], metadata={"pandas": "{}"})
    stored = normalise_schema(schema)
    assert stored.metadata is None
    assert stored.field("a").metadata is None


@pytest.mark.parametrize(
    "type_",
    [
        *(pa.uint8(), pa.uint64(), pa.float16(), pa.decimal256(50), pa.null(), pa.date64()),
        pa.month_day_nano_interval(),
        *(pa.list_(pa.uint8()), pa.struct([("x", pa.uint8())]), pa.map_(pa.string(), pa.uint8())),
        pa.dictionary(pa.int8(), pa.uint8()),
        pa.struct([("x", pa.int8()), ("x", pa.int8())]),
        pa.struct([("", pa.int8())]),
    ],
)
def test_types_that_spark_cannot_carry_are_refused_by_name(type_):
    with pytest.raises(SchemaMismatchError, match="column 'colour"):
        check_topic_schema(pa.schema([("ok", pa.int32()), ("colour", type_)]))


def test_a_refusal_names_the_field_within_the_column():
    with pytest.raises(SchemaMismatchError, match=r"'a\.b\.element'"):
        check_topic_schema(pa.schema([("a", pa.struct([("b", pa.list_(pa.uint8()))]))]))


@pytest.mark.parametrize("name", ["_topic", "_partition", "_Offset", "_timestamp", "_timestamp_ms", ""])
def test_reserved_names_are_refused(name):
    with pytest.raises(SchemaMismatchError, match="begin with" if name else "no name"):
        check_topic_schema(pa.schema([(name, pa.int32())]))


def test_names_that_differ_in_case_alone_are_refused():
    with pytest.raises(SchemaMismatchError, match="'id' and 'ID'"):
        check_topic_schema(pa.schema([("id", pa.int32()), ("ID", pa.int32())]))


def test_a_schema_needs_a_column():
    with pytest.raises(SchemaMismatchError, match="at least one"):
        check_topic_schema(pa.schema([]))


def test_names_like_kafkas_are_free_in_a_schema():
    check_topic_schema(pa.schema([(name, pa.int32()) for name in ("key", "partition", "timestamp", "_id")]))


def test_schemas_survive_as_bytes():
    schema = normalise_schema(
        pa.schema(
            [
                pa.field("a", pa.map_(pa.string(), pa.list_(pa.decimal128(9, 2))), nullable=False),
                ("t", pa.timestamp("us", "UTC")),
            ]
        )
    )
    data = serialise_schema(schema)
    assert isinstance(data, bytes)
    assert deserialise_schema(data).equals(schema, check_metadata=True)
    assert serialise_schema(schema.with_metadata({"k": "v"})) == data


@pytest.mark.parametrize("cut", [0, 1, 7, 40, -1])
def test_bytes_that_are_no_schema_are_corrupt(cut):
    data = serialise_schema(pa.schema([("a", pa.int32())]))
    with pytest.raises(CorruptRecordError):
        deserialise_schema(data[:cut])
