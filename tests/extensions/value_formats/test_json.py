"""JSON values as columns and one by one, with a JSON Schema and without."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
from decimal import Decimal

import pyarrow as pa
import pytest

from spark_eos.errors import ConfigError, SchemaMismatchError
from spark_eos.extensions.value_formats import json_codec
from spark_eos.extensions.value_formats.formats import codec_for
from spark_eos.extensions.value_formats.json_schema import required_of, schema_fields
from spark_eos.extensions.value_formats.settings import ValueSettings

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": ["null", "integer"], "minimum": 0},
        "height": {"type": "number"},
        "member": {"type": "boolean"},
        "born": {"type": "string", "format": "date"},
        "seen": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "home": {"$ref": "#/$defs/Place"},
        "scores": {"type": "object", "additionalProperties": {"type": "number"}},
        "kind": {"enum": ["a", "b"]},
    },
    "required": ["name", "age"],
    "$defs": {"Place": {"type": "object", "properties": {"town": {"type": "string"}}}},
}
PLAIN = pa.schema(
    [
        ("n", pa.int64()),
        ("d", pa.float64()),
        ("t", pa.string()),
        ("b", pa.bool_()),
        ("l", pa.list_(pa.field("element", pa.int64()))),
        ("s", pa.struct([("x", pa.string())])),
    ]
)


def codec(schema=None, format_="json"):
    return codec_for(ValueSettings("t", format_, "" if schema is None else json.dumps(schema), 7))


def columns(values, fields, schema=None):
    found, problems = codec(schema).decode_columns(pa.array(values, pa.binary()), list(fields))
    names = [field.name for field in fields]
    return [
        dict(zip(names, row, strict=True)) for row in zip(*[one.to_pylist() for one in found], strict=True)
    ], problems


def test_the_columns_of_a_json_schema():
    assert {field.name: field.type for field in schema_fields(json.dumps(PERSON))} == {
        "name": pa.string(),
        "age": pa.int64(),
        "height": pa.float64(),
        "member": pa.bool_(),
        "born": pa.date32(),
        "seen": pa.timestamp("us", "UTC"),
        "tags": pa.list_(pa.field("element", pa.string())),
        "home": pa.struct([("town", pa.string())]),
        "scores": pa.map_(pa.field("key", pa.string(), nullable=False), pa.float64()),
        "kind": pa.string(),
    }


def test_an_object_whose_properties_have_no_names_is_one_column():
    values = {"type": "object", "additionalProperties": {"type": "integer"}}
    (field,) = schema_fields(json.dumps(values))
    assert (field.name, field.type.item_type) == ("value", pa.int64())


@pytest.mark.parametrize(
    ("part", "type_"),
    [
        ({"const": 5}, pa.int64()),
        ({"enum": [None, "a"]}, pa.string()),
        ({"type": ["integer", "number", "null"]}, pa.float64()),
        ({"type": ["null"]}, pa.null()),
        ({"items": {"type": "boolean"}}, pa.list_(pa.field("element", pa.bool_()))),
        ({"$ref": "#/definitions/~01"}, pa.int64()),
        ({"$ref": "#/definitions/~1"}, pa.string()),
    ],
)
def test_a_property_that_says_its_type_in_another_way(part, type_):
    definitions = {"~1": {"type": "integer"}, "/": {"type": "string"}}
    schema = {"type": "object", "properties": {"a": part}, "definitions": definitions}
    assert [field.type for field in schema_fields(json.dumps(schema))] == [type_]


def test_rows_there_and_back():
    row = {
        "name": "Zoë",
        "age": None,
        "height": 1.75,
        "member": True,
        "born": dt.date(1969, 7, 20),
        "seen": dt.datetime(2026, 11, 24, 1, 2, 3, 456789, dt.timezone.utc),
        "tags": ["x", ""],
        "home": {"town": "Łódź"},
        "scores": [("a", 1.0)],
        "kind": "b",
    }
    fields = schema_fields(json.dumps(PERSON))
    batch = pa.RecordBatch.from_pylist([row, {"name": "b", "age": 3}], schema=pa.schema(fields))
    values, problems = codec(PERSON).encoder(batch.schema)(batch)
    assert not problems
    assert json.loads(values[0].as_py()) == {
        **{name: row[name] for name in ("name", "age", "height", "member", "tags", "home", "kind")},
        "born": "1969-07-20",
        "seen": "2026-11-24T01:02:03.456789Z",
        "scores": {"a": 1.0},
    }
    assert values[1].as_py() == b'{"name":"b","age":3}'
    found, problems = columns(values.to_pylist(), fields, PERSON)
    assert not problems
    assert found == batch.to_pylist()


def test_rows_that_the_schema_refuses():
    batch = pa.record_batch({"name": ["a", None, "c"], "age": pa.array([-1, 1, 2], pa.int64())})
    values, problems = codec(PERSON).encoder(batch.schema)(batch)
    assert sorted(problems.reasons) == [0, 1]
    assert "age must be bigger than or equal to 0" in problems.reasons[0]
    assert "name must be string" in problems.reasons[1]
    assert values.to_pylist() == [None, None, b'{"name":"c","age":2}']
    with pytest.raises(ValueError, match="age must be"):
        codec(PERSON).encode({"name": "a", "age": "old"})
    with pytest.raises(SchemaMismatchError, match="column 'Age' is no property"):
        codec(PERSON).encoder(pa.schema([("Age", pa.int64())]))


def test_what_is_required_is_null_at_any_depth():
    place = {
        "type": "object",
        "properties": {"x": {"type": ["integer", "null"]}, "y": {"type": "integer"}},
        "required": ["x"],
    }
    schema = {
        "type": "object",
        "properties": {
            "here": place,
            "all": {"type": "array", "items": place},
            "named": {"type": "object", "additionalProperties": {"$ref": "#/definitions/Place"}},
        },
        "definitions": {"Place": place},
    }
    empty = {"x": None, "y": None}
    row = {"here": empty, "all": [empty], "named": [("a", empty)]}
    batch = pa.RecordBatch.from_pylist([row], schema=pa.schema(schema_fields(json.dumps(schema))))
    values, problems = codec(schema).encoder(batch.schema)(batch)
    assert not problems
    assert values.to_pylist() == [b'{"here":{"x":null},"all":[{"x":null}],"named":{"a":{"x":null}}}']


def test_a_date_that_python_has_not_is_a_problem_of_its_row_alone():
    days = pa.array([0, 4_000_000, 1], pa.int32()).cast(pa.date32())
    batch = pa.record_batch({"day": days})
    values, problems = codec().encoder(batch.schema)(batch)
    assert values.to_pylist() == [b'{"day":"1970-01-01"}', None, b'{"day":"1970-01-02"}']
    assert problems.reasons == {1: "column day: date value out of range"}


def values_of(dice):
    """A JSON text, of a row or of something near to one."""
    good = {
        "n": dice.choice([0, -1, 2**62]),
        "d": dice.choice([0.5, 1, -1e300]),
        "t": dice.choice(["", "naïve ☕", 'q"\\', "\u2028"]),
        "b": dice.choice([True, False]),
        "l": [dice.randint(-5, 5) for _ in range(dice.choice([0, 1, 3]))],
        "s": {"x": "y", "more": 1},
        "unknown": [1, {"a": None}],
    }
    for name in dice.sample([*good], dice.choice([0, 0, 1, 3])):
        good[name] = None
    for name in dice.sample([*good], dice.choice([0, 0, 2])):
        del good[name]
    if dice.random() < 0.3:
        good[dice.choice("ndtbls")] = dice.choice([1.5, 1.0, "1", True, [], {}, 2**63, [1.5], {"x": 1}])
    if dice.random() < 0.1:
        good[dice.choice(["d", "t", "unknown"])] = dice.choice([math.nan, math.inf, -math.inf, "NaN"])
    text = json.dumps(good, ensure_ascii=dice.random() < 0.5)
    return dice.choices(
        [
            text,
            text + " ",
            " " + text,
            text[:-1],
            text + text,
            "[]",
            "null",
            "3",
            "",
            "NaN",
            "\ufeff" + text,
            text.replace(":", ":\n"),
        ],
        [60, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 2],
    )[0].encode()


def test_the_fast_way_gives_what_the_exact_one_gives(monkeypatch):
    """Random batches with everything that is nearly right: rows and problems are the same by both ways."""
    dice = random.Random(20261124)
    fast = 0
    for _ in range(300):
        values = [values_of(dice) for _ in range(dice.choice([1, 2, 3]))]
        array = pa.array(values, pa.binary())
        whole = json_codec._all_by_arrow(array, list(PLAIN), True)
        fast += whole is not None
        by_fast, fast_problems = columns(values, PLAIN)
        with monkeypatch.context() as patched:
            patched.setattr(json_codec, "_all_by_arrow", lambda *_: None)
            exact, problems = columns(values, PLAIN)
        assert by_fast == exact, values
        assert fast_problems.reasons == problems.reasons
    assert fast > 50, "the fast way is hardly taken"


@pytest.mark.parametrize(
    "values",
    [
        [b'{"unknown":', b'{"x":1}}', b'{"n":1}{"n":2}'],
        [b'{"t":"}', b'{"}', b'{"n":1}{"n":2}'],
    ],
)
def test_an_object_is_one_value(values):
    """Not a part of one and a part of the next: as many objects as values are no proof."""
    found, problems = columns(values, PLAIN)
    assert [row["n"] for row in found] == [None, None, None]
    assert sorted(problems.reasons) == [0, 1, 2]


@pytest.mark.parametrize(
    "values",
    [
        [b'{"n":1}{"n":2}', b'{"x":', b"{}}"],  # Three objects in three lines.
        [b'{"d":NaN}'],
        [b'{"d": Infinity}', b'{"z":[-Infinity]}'],
        [b'{"d":Inf}'],
    ],
)
def test_values_that_only_arrow_takes_are_broken(values):
    """Whatever lies beside them in a batch: the exact way takes none of them."""
    found, problems = columns(values, PLAIN)
    assert [row["n"] for row in found] == [None] * len(values)
    assert [row["d"] for row in found] == [None] * len(values)
    assert sorted(problems.reasons) == [*range(len(values))]


def test_each_broken_value_says_why():
    values = [
        b'{"n":1}',
        b'{"n":1.5}',
        b'{"n":"1"}',
        b"\xff",
        b"{",
        b"[]",
        b'{"n":9223372036854775808}',
        b'{"t":"\\ud800"}',
        None,
        b'{"n":2.0}',
    ]
    found, problems = columns(values, PLAIN)
    assert [row["n"] for row in found] == [1, None, None, None, None, None, None, None, None, 2]
    assert sorted(problems.reasons) == [1, 2, 3, 4, 5, 6, 7]
    assert "property n: expected a whole number, found 1.5" in problems.reasons[1]
    assert "its JSON is no object" in problems.reasons[5]
    assert "more than 64 bits" in problems.reasons[6]


@pytest.mark.parametrize(
    ("type_", "text", "found"),
    [
        (pa.date32(), '"2026-11-24"', dt.date(2026, 11, 24)),
        (
            pa.timestamp("us", "UTC"),
            '"2026-11-24T01:02:03.5+02:00"',
            dt.datetime(2026, 11, 23, 23, 2, 3, 500000, dt.timezone.utc),
        ),
        (
            pa.timestamp("us", "UTC"),
            '"2026-11-24T01:02:03z"',
            dt.datetime(2026, 11, 24, 1, 2, 3, tzinfo=dt.timezone.utc),
        ),
        (pa.timestamp("us"), '"2026-11-24T01:02:03"', dt.datetime(2026, 11, 24, 1, 2, 3)),  # noqa: DTZ001
        (pa.timestamp("us"), '"2026-11-24T01:02:03+02:00"', dt.datetime(2026, 11, 23, 23, 2, 3)),  # noqa: DTZ001
        (pa.decimal128(9, 2), "1.25", Decimal("1.25")),
        (pa.decimal128(9, 2), '"1.25"', Decimal("1.25")),
        (pa.decimal128(9, 2), "1.2500", Decimal("1.25")),
        (pa.decimal128(2, 2), "0", Decimal("0.00")),
        (pa.decimal128(20, 2), "123456789012345678.91", Decimal("123456789012345678.91")),
        (
            pa.decimal128(38, 19),
            "1234567890123456789.0123456789012345678",
            Decimal("1234567890123456789.0123456789012345678"),
        ),
        (pa.decimal128(9, 2), "125e-2", Decimal("1.25")),
        (
            pa.list_(pa.field("element", pa.decimal128(20, 2))),
            "[123456789012345678.91]",
            [Decimal("123456789012345678.91")],
        ),
        (pa.int64(), "9007199254740993.0", 2**53 + 1),
        (pa.binary(), '"AP8="', b"\x00\xff"),
        (pa.int32(), "2147483647", 2**31 - 1),
        (pa.map_(pa.string(), pa.int64()), '{"a":1}', [("a", 1)]),
    ],
)
def test_types_of_columns_that_a_user_gives(type_, text, found):
    rows, problems = columns([f'{{"c":{text}}}'.encode()], [pa.field("c", type_)])
    assert not problems
    assert rows == [{"c": found}]


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (pa.date32(), '"yesterday"'),
        (pa.decimal128(9, 2), "1.255"),
        (pa.decimal128(9, 2), "1.2550"),
        (pa.decimal128(9, 2), "true"),
        (pa.int64(), "true"),
        (pa.float64(), "true"),
        (pa.decimal128(2, 2), "0.000000000000000000000000000001"),
        (pa.int64(), "9007199254740993.000000000000000001"),
        (pa.decimal128(3, 2), "10.25"),
        (pa.binary(), '"!"'),
        (pa.int32(), "2147483648"),
        (pa.string(), "1"),
    ],
)
def test_values_that_do_not_fit_their_column(type_, text):
    rows, problems = columns([f'{{"c":{text}}}'.encode()], [pa.field("c", type_)])
    assert list(problems.reasons) == [0]
    assert rows == [{"c": None}]


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"properties": {"a": {}}}, "'a' does not say of which type"),
        ({"properties": {"a": {"type": ["string", "integer"]}}}, "'a' is of several types"),
        ({"properties": {"a": {"oneOf": [{"type": "string"}, {"type": "integer"}]}}}, "several types .oneOf"),
        ({"properties": {"a": {"type": "object"}}}, "'a' is of type object and does not say of what"),
        ({"properties": {"a": {"$ref": "#"}}}, "'a.a' is # inside of itself"),
        ({"properties": {"a": {"$ref": "https://x/y"}}}, "outside of the schema"),
        ({"properties": {"a": True}}, "'a' may be anything"),
    ],
)
def test_what_no_column_can_have_is_named(schema, says):
    with pytest.raises(SchemaMismatchError, match=says):
        schema_fields(json.dumps({"type": "object", **schema}))


@pytest.mark.parametrize("word", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ({"$ref": "#/definitions/Base"}, ["a", "id"]),
        ({"properties": {"b": {"type": "integer"}}, "required": ["b"]}, ["a", "b"]),
        ({"required": ["a"]}, ["a"]),
    ],
)
def test_properties_beside_the_only_choice_are_columns_too(word, choice, names):
    base = {"type": "object", "properties": {"id": {"type": "integer"}}}
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        word: [choice],
        "definitions": {"Base": base},
    }
    assert [field.name for field in schema_fields(json.dumps(schema))] == names
    inner = {"properties": {"x": schema}, "definitions": {"Base": base}}
    assert [field.name for field in schema_fields(json.dumps(inner))[0].type] == names
    assert "a" in required_of(json.dumps(schema)).names


def test_schemas_that_cannot_be_checked():
    with pytest.raises(ConfigError, match="drafts 4, 6 and 7 can be checked"):
        codec({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"})
    with pytest.raises(ConfigError, match="not a valid JSON Schema"):
        codec({"type": "objekt"})
    with pytest.raises(ConfigError, match="not a valid JSON Schema: bad escape"):
        codec({"type": "string", "pattern": r"^\p{L}+$"})
    with pytest.raises(ConfigError, match="this is not JSON"):
        schema_fields("[" * 100_000)


def test_no_schema_is_fetched_from_elsewhere(monkeypatch):
    """Each process that reads the topic would ask there."""

    def fetched(*_arguments, **_more):
        raise AssertionError("fetched")

    monkeypatch.setattr("urllib.request.urlopen", fetched)
    for url in ("http://127.0.0.1:9/part.json", "file:///etc/hostname", "urn:x:y"):
        with pytest.raises(ConfigError, match=f"refers to {url}, outside of itself"):
            codec({"type": "object", "properties": {"a": {"$ref": url}}})
    inside = {"$id": "http://x/whole.json", "definitions": {"n": {"type": "integer"}}}
    whole = {**inside, "properties": {"a": {"$ref": "whole.json#/definitions/n"}}, "type": "object"}
    assert codec(whole).encode({"a": 1}) == b'{"a":1}'


def test_without_the_package_that_checks(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fastjsonschema", None)
    with pytest.raises(ConfigError, match=r"pip install .*'spark-eos.value-formats.'"):
        codec({"type": "object", "title": "not seen before"})
    assert codec().encode({"a": 1}) == b'{"a":1}'


def test_what_is_too_deep_is_said_to_be_that():
    """A deep value can be read with fewer calls of functions than it is written with."""
    deep = b'{"a":' * 20_000 + b"1.5" + b"}" * 20_000
    nested = 1.5
    for _ in range(20_000):
        nested = {"a": nested}
    for attempt in (
        lambda: codec().decode(deep),
        lambda: codec().json_of(deep),
        lambda: codec().encode(nested),
        lambda: codec().encode_json(nested),
    ):
        with pytest.raises(ValueError, match=r"its JSON is too deep"):
            attempt()


def test_values_of_clients():
    value = {
        "at": dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc),
        "raw": b"\x00",
        "d": Decimal("1.5"),
        "n": Decimal(7),
    }
    assert codec().encode(value) == b'{"at":"2026-01-01T00:00:00Z","raw":"AA==","d":1.5,"n":7}'
    for bad in (float("nan"), {1, 2}, Decimal("0.1000000000000000000001"), Decimal("Infinity"), "\ud800"):
        with pytest.raises(ValueError, match=r"cannot be written as JSON|surrogates"):
            codec().encode({"a": bad})
    assert codec(None, "json-confluent").encode([1]) == b"\x00\x00\x00\x00\x07[1]"
    assert codec(None, "json-confluent").decode(b"\x00\x00\x00\x00\x09[1]") == [1]
    with pytest.raises(ValueError, match="Confluent's header"):
        codec(None, "json-confluent").decode(b"[1]")


@pytest.mark.parametrize(
    "text", ["1e400", "-1e400", "9e308", "12345e307", "9" * 199 + "e+0110", "1" * 400, "1" * 10_000]
)
@pytest.mark.parametrize("beside", [[], [b'{"d": 1, "n": true}']], ids=["by Arrow", "one by one"])
def test_a_number_that_is_too_large_for_a_column_is_not_infinite(text, beside):
    fields = pa.schema([("n", pa.bool_()), ("d", pa.float64())])
    values = [b'{"d": 0.5}', b'{"d": %s}' % text.encode(), *beside]
    rows, problems = columns(values, fields)
    assert [row["d"] for row in rows] == [0.5, None, 1.0][: len(values)]
    assert [*problems.reasons] == [1]


def test_a_float_that_is_too_large_is_refused_one_by_one():
    with pytest.raises(ValueError, match="the number -1e400 is too large"):
        codec().decode(b'{"a": [-1e400]}')
