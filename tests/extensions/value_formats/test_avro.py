"""Avro values as columns, there and back, held against fastavro, which reads and writes them one by one."""

from __future__ import annotations

import io
import json
import random

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from spark_eos.errors import ConfigError, SchemaMismatchError
from spark_eos.extensions.value_formats.avro.columns import value_fields
from spark_eos.extensions.value_formats.avro.lanes import Lanes
from spark_eos.extensions.value_formats.avro.resolution import decoder_of
from spark_eos.extensions.value_formats.avro.strict import step_of
from spark_eos.extensions.value_formats.avro.types import parse
from spark_eos.extensions.value_formats.avro.writing import encoder_of
from spark_eos.log.values.problems import Problems
from tests.extensions.value_formats.schemas import EVERY, TYPES, example, of, plain, random_value, written

RECURSIVE = of("Node", [{"name": "next", "type": ["null", "Node"]}])


def decoded(writer, reader, values):
    """The columns by name, and the problems, of values that were written without a header."""
    writer, reader = parse(json.dumps(writer)), parse(json.dumps(reader))
    problems = Problems()
    lanes = Lanes.of(pa.array(values, pa.binary()), 0, problems)
    columns = decoder_of(writer, reader).columns(lanes)
    left = np.flatnonzero(lanes.at < lanes.end)
    problems.add(left, "left over")
    names = [field.name for field in value_fields(reader.type)]
    for column in columns:
        column.validate(full=True)
    return dict(zip(names, columns, strict=True)), problems


def encoded(schema, columns):
    schema = parse(json.dumps(schema))
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    problems = Problems()
    rows = np.arange(batch.num_rows)
    found = encoder_of(schema, batch.schema).columns(columns, batch.num_rows, rows, problems)
    return found.to_pylist(), problems


def shown(value, schema):
    """A value of fastavro as a column shows it: a union of several types is a struct of its members."""
    if isinstance(schema, list):
        own = [one for one in schema if one != "null"]
        if value is None or len(own) == 1 or set(own) == {"int", "long"}:
            return value if len(own) != 1 else shown(value, own[0])
        kind = next(
            n for n, one in enumerate(own) if isinstance(value, {"int": int, "string": str}.get(one, dict))
        )
        return {f"member{n}": value if n == kind else None for n in range(len(own))}
    if isinstance(schema, dict) and schema["type"] == "array" and value is not None:
        return [shown(one, schema["items"]) for one in value]
    if isinstance(schema, dict) and schema["type"] == "map" and value is not None:
        return [*value.items()]
    if isinstance(schema, dict) and isinstance(schema["type"], (dict, list)):
        return shown(value, schema["type"])
    return value


def test_every_type_there_and_back_with_random_values():
    """Equal bytes, except where Avro lets a writer choose: the branch of a number in a union of int and long."""
    schema, dice = plain(EVERY), random.Random(20261124)
    rows = [random_value(schema, dice, {}) for _ in range(400)]
    columns, problems = decoded(schema, schema, [written(schema, row) for row in rows])
    assert not problems
    for part in schema["fields"]:
        assert columns[part["name"]].to_pylist() == [shown(row[part["name"]], part["type"]) for row in rows]
    again, problems = encoded(schema, columns)
    assert not problems
    parsed = parse(json.dumps(schema)).parsed
    assert [fastavro.schemaless_reader(io.BytesIO(one), parsed, None) for one in again] == rows
    whole = of("R", [part for part in schema["fields"] if part["name"] != "number"])
    rest = {name: column for name, column in columns.items() if name != "number"}
    assert encoded(whole, rest)[0] == [written(whole, row) for row in rows]


def test_logical_types_have_the_columns_of_sparks_avro_source():
    fields = {field.name: field.type for field in value_fields(parse(json.dumps(EVERY)).type)}
    assert {name: fields[name] for name in TYPES} == TYPES
    value = example()
    columns, problems = decoded(EVERY, EVERY, [written(EVERY, value)])
    assert not problems
    for name in ("day", "at_ms", "at_us", "at_ns", "local_ms", "local_us", "uuid", "money", "price", "span"):
        assert columns[name][0].as_py() == value[name], name
    assert columns["time_ms"][0].as_py() == ((60 + 2) * 60 + 3) * 1000 + 4
    assert encoded(EVERY, columns)[0] == [written({**EVERY, "fields": EVERY["fields"]}, value)], (
        "the bytes that fastavro writes"
    )


def test_the_finest_and_the_farthest_times():
    schema = of("R", [{"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}}])
    numbers = [0, -1, 253402300799999, -(2**63), 2**63 - 1, (2**63 - 1) // 1000]
    values = [written(plain(schema), {"t": number}) for number in numbers]
    columns, problems = decoded(schema, schema, values)
    assert columns["t"].cast(pa.int64()).to_pylist()[:3] == [0, -1000, 253402300799999000]
    assert sorted(problems.reasons) == [3, 4], "they are no timestamp in microseconds"
    before = pa.array([-1, 1, -1001], pa.timestamp("us", "UTC"))
    assert encoded(schema, {"t": before})[0] == [written(plain(schema), {"t": n}) for n in (-1, 0, -2)]


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (RECURSIVE, "field 'next' is record Node inside of itself"),
        (of("R", [{"name": "c", "type": {"type": "array", "items": RECURSIVE}}]), "c.element.next"),
        (of("R", [{"name": "e", "type": of("Empty", [])}]), "'e' is record Empty, which has no fields"),
        (of("R", []), "R has no fields"),
        (
            of("R", [{"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 39}}]),
            "'d' is a decimal with 39 digits",
        ),
        (of("R", [{"name": "u", "type": []}]), "'u' is union of nothing"),
    ],
)
def test_what_no_column_can_have_is_named(schema, says):
    with pytest.raises(SchemaMismatchError, match=says):
        value_fields(parse(json.dumps(schema)).type)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "this is not"),
        ("string", "this is not"),
        ('{"type": "enum", "name": "E"}', "not valid"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "money"}]}',
            "uses the type 'money'",
        ),
        (
            json.dumps(of("R", [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}])),
            "the field 'a' twice",
        ),
        ('["int", "int"]', "has int twice"),
        ('["null", ["int"]]', "inside of another"),
        ('{"type": "fixed", "name": "F", "size": -1}', "the size -1"),
        (json.dumps(of("R", [{"name": "a", "type": "int", "default": "x"}])), "Default value"),
        ('{"type": "enum", "name": "E", "symbols": ["A", "A"]}', "symbols"),
    ],
)
def test_a_schema_that_is_none(text, says):
    with pytest.raises(ConfigError, match=says):
        parse(text)


def test_a_schema_that_doubles_at_each_level_is_refused_at_once():
    schema = "int"
    for level in range(40):
        schema = of(
            f"L{level}",
            [{"name": "a", "type": schema}, {"name": "b", "type": f"L{level - 1}" if level else "int"}],
        )
    with pytest.raises(ConfigError, match="more than 20000 types"):
        parse(json.dumps(schema))


@pytest.mark.parametrize(
    ("text", "number"),
    # Of share/test/data/schema-tests.txt of Apache Avro.
    [
        ('"null"', 7195948357588979594),
        ('{"type":"null"}', 7195948357588979594),
        ('"boolean"', -6970731678124411036),
        ('"int"', 8247732601305521295),
        ('"long"', -3434872931120570953),
        ('"string"', -8142146995180207161),
        ('[ "int"  ]', -5232228896498058493),
        ('{"fields":[], "type":"record", "name":"foo"}', -4824392279771201922),
    ],
)
def test_fingerprints_are_those_of_avros_own_tests(text, number):
    assert parse(text).fingerprint == number.to_bytes(8, "little", signed=True)


# -- Bytes that are none ----------------------------------------------------------------------------------


def test_each_broken_value_is_found_and_no_other_one():
    """Every value cut off at every byte, with bytes added, and with each byte changed: as fastavro, or stricter."""
    schema, dice = plain(EVERY), random.Random(7)
    good = [written(schema, random_value(schema, dice, {})) for _ in range(3)]
    bad = [one[:end] for one in good for end in range(len(one))] + [one + b"\0" for one in good]
    columns, problems = decoded(schema, schema, [*good, *bad, *good])
    count = len(bad)
    assert set(problems.reasons) == set(range(3, 3 + count))
    for column in columns.values():
        assert column.slice(0, 3).equals(column.slice(3 + count))


def test_random_changes_never_break_the_neighbours():
    schema, dice = plain(EVERY), random.Random(11)
    good = written(schema, random_value(schema, dice, {}))
    changed = []
    for _ in range(300):
        one = bytearray(good)
        one[dice.randrange(len(one))] = dice.randrange(256)
        changed.append(bytes(one))
    values = [value for one in changed for value in (good, one)]
    columns, problems = decoded(schema, schema, values)
    assert not [row for row in problems.reasons if row % 2 == 0]
    for column in columns.values():
        own = column.take(pa.array(range(0, 600, 2)))
        assert own.equals(column.take(pa.array([0] * 300))), "a broken neighbour changed it"
    parsed = parse(json.dumps(schema)).parsed
    for row, value in enumerate(values):
        if row in problems.reasons:
            continue
        found = fastavro.schemaless_reader(io.BytesIO(value), parsed, None)
        assert columns["text"][row].as_py() == found["text"]
        assert columns["longs"][row].as_py() == found["longs"]


@pytest.mark.parametrize(
    ("type_", "data", "says"),
    [
        ("long", b"\xff" * 11, "longer than 10 bytes"),
        ("int", b"\x80\x80\x80\x80\x20", "more than 32 bits"),
        ("boolean", b"\x02", "neither 0 nor 1"),
        ("string", b"\x02\xff", "not UTF-8"),
        ("string", b"\x01", "its length is wrong"),
        ("string", b"\xfe\xff\xff\xff\x0f", "ends early"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00", "more items"),
        ({"type": "array", "items": "long"}, b"\xfe\xff\xff\xff\x0f\x00", "more items"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "no symbol of that number"),
        (["null", "int"], b"\x04", "no branch of that number"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3}, b"\x04\x7f\xff", "more digits"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 3},
            b"\x28" + b"\x01" * 20,
            "more than 16 bytes",
        ),
    ],
)
def test_bytes_that_are_no_value_say_why(type_, data, says):
    _, problems = decoded(type_, type_, [data, data])
    assert sorted(problems.reasons) == [0, 1]
    assert says in problems.reasons[0]


def test_blocks_of_several_kinds():
    """Arrays in several blocks, and blocks that say how long they are."""
    schema = {"type": "array", "items": "long"}
    one = b"\x02\x02\x04\x04\x06\x00"  # [1] and [2, 3]
    sized = b"\x03\x04\x02\x04\x02\x06\x00"  # -2 items in 2 bytes: [1, 2], and [3]
    columns, problems = decoded(schema, schema, [one, sized, b"\x00"])
    assert not problems
    assert columns["value"].to_pylist() == [[1, 2, 3], [1, 2, 3], []]
    step = step_of(parse(json.dumps(schema)))
    for data in (one, sized, b"\x05\x06\x02\x04\x06\x00"):  # And -3 items in 3 bytes.
        assert step(data, 0) == len(data)


# -- Rows that cannot be encoded --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "array", "bad", "says"),
    [
        ("int", pa.array([1, None], pa.int32()), [1], "column c is null"),
        ("string", pa.array(["a", None]), [1], "column c is null"),
        ({"type": "fixed", "name": "F", "size": 2}, pa.array([b"ab", b"a"]), [1], "2 bytes of the fixed"),
        (
            {"type": "enum", "name": "E", "symbols": ["A"]},
            pa.array(["B", "A"]),
            [0],
            "'B', which is no symbol",
        ),
        (
            {"type": "array", "items": "int"},
            pa.array([[1], [None], []], pa.list_(pa.int32())),
            [1],
            "c.element is null",
        ),
        (
            {"type": "map", "values": "int"},
            pa.array([[("a", None)], [("a", 1)]], pa.map_(pa.string(), pa.int32())),
            [0],
            "c.value is null",
        ),
        (
            of("N", [{"name": "x", "type": "int"}]),
            pa.array([{"x": 1}, {"x": None}, None], pa.struct([("x", pa.int32())])),
            [1, 2],
            "c.x is null",
        ),
        (
            ["null", "int", "string"],
            pa.array(
                [{"member0": 1, "member1": "a"}, {"member0": 1}, None, {}],
                pa.struct([("member0", pa.int32()), ("member1", pa.string())]),
            ),
            [0, 3],
            "exactly one of its members",
        ),
        (
            {"type": "fixed", "name": "D", "size": 1, "logicalType": "decimal", "precision": 2},
            pa.array([100, 99], pa.decimal128(10, 0)),
            [0],
            "does not fit",
        ),
    ],
)
def test_rows_that_cannot_be_encoded(type_, array, bad, says):
    schema = of("R", [{"name": "c", "type": type_}])
    found, problems = encoded(schema, {"c": array})
    assert sorted(problems.reasons) == bad
    assert says in problems.reasons[bad[0]]
    good = [row for row in range(len(array)) if row not in bad]
    columns, problems = decoded(schema, schema, [found[row] for row in good])
    assert not problems
    assert columns["c"].to_pylist() == array.take(pa.array(good)).to_pylist()


@pytest.mark.parametrize(
    ("type_", "array", "says"),
    [
        ("int", pa.array([1], pa.int64()), "column 'c' is int64, the Avro schema has int; cast it to int32"),
        ("string", pa.array([1]), "cast it to string"),
        ("long", pa.array([1.0]), "cast it to int64"),
        ({"type": "array", "items": "int"}, pa.array([1]), "cast it to list"),
        (["null", "int", "string"], pa.array([1]), "cast it to struct<member0"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            pa.array([1], pa.decimal128(9, 3)),
            "has decimal128",
        ),
    ],
)
def test_columns_of_another_type_are_refused(type_, array, says):
    with pytest.raises(SchemaMismatchError, match=says.replace("(", r"\(")):
        encoded(of("R", [{"name": "c", "type": type_}]), {"c": array})


def test_narrower_numbers_are_taken():
    schema = of("R", [{"name": "l", "type": "long"}, {"name": "d", "type": ["null", "double"]}])
    found, _ = encoded(schema, {"l": pa.array([7], pa.int8()), "d": pa.array([0.5], pa.float32())})
    assert found == [written(schema, {"l": 7, "d": 0.5})]


def test_a_field_without_a_column():
    fields = [
        {"name": "a", "type": "int"},
        {"name": "b", "type": ["null", "int"]},
        {"name": "c", "type": {"type": "map", "values": "string"}, "default": {"k": "é"}},
        {"name": "d", "type": {"type": "int", "logicalType": "date"}, "default": 3},
    ]
    found, problems = encoded(of("R", fields), {"a": pa.array([1], pa.int32())})
    assert not problems
    assert found == [written(plain(of("R", fields)), {"a": 1, "b": None, "c": {"k": "é"}, "d": 3})]
    with pytest.raises(SchemaMismatchError, match="column 'a' is missing"):
        encoded(of("R", fields), {"b": pa.array([1], pa.int32())})
    with pytest.raises(SchemaMismatchError, match=r"column 'A' is no field.*rename it to a"):
        encoded(of("R", fields), {"A": pa.array([1], pa.int32())})


def test_odd_names():
    """Names that Avro's specification does not allow, and some writers make."""
    schema = of("my-record", [{"name": "a-b", "type": "int"}, {"name": "grün.x", "type": "string"}])
    columns, problems = decoded(schema, schema, [written(schema, {"a-b": 1, "grün.x": "y"})])
    assert not problems
    assert {name: column.to_pylist() for name, column in columns.items()} == {"a-b": [1], "grün.x": ["y"]}
    assert encoded(schema, columns)[0] == [written(schema, {"a-b": 1, "grün.x": "y"})]


@pytest.mark.parametrize("schema", ["int", ["null", "string"], {"type": "array", "items": "string"}])
def test_values_that_are_no_records_are_one_column(schema):
    values = {"int": [1, 2], "array": [["a"], []]}.get(schema if isinstance(schema, str) else "", ["a", None])
    values = values if not isinstance(schema, dict) else [["a"], []]
    columns, problems = decoded(schema, schema, [written(schema, value) for value in values])
    assert not problems
    assert columns["value"].to_pylist() == values
    assert encoded(schema, columns)[0] == [written(schema, value) for value in values]


def test_an_array_of_rows_none():
    columns, problems = decoded(EVERY, EVERY, [])
    assert not problems
    assert {len(column) for column in columns.values()} == {0}
    assert encoded(EVERY, columns)[0] == []


@pytest.mark.parametrize("size", [1_000_000, -1_000_000])
def test_a_few_bytes_are_no_large_array_of_one_value(size):
    """Nothing of such items is looked at: a reader would be busy with their number, which may be any."""
    block = io.BytesIO()
    for number in (size, 8) if size < 0 else (size,):
        fastavro.schemaless_writer(block, "long", number)
    step = step_of(parse('{"type": "array", "items": "double"}'))
    with pytest.raises(ValueError, match="a block has more items than the value has room for"):
        step(block.getvalue() + bytes(8), 0)
