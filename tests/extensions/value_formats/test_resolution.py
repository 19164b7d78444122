"""Schema resolution: each rule of Avro's specification, as columns and as dicts (fastavro), from writer to reader."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from spark_eos.errors import SchemaMismatchError
from spark_eos.extensions.value_formats.avro.resolution import decoder_of
from spark_eos.extensions.value_formats.avro.types import parse
from spark_eos.extensions.value_formats.formats import codec_for
from spark_eos.extensions.value_formats.settings import ValueSettings
from tests.extensions.value_formats.schemas import of, plain, written


def field(type_, name="f", **more):
    return of("R", [{"name": name, "type": type_, **more}])


def through(writer, reader, *values):
    """The values as columns, and one by one, of a topic whose values were written with another schema."""
    settings = ValueSettings("t", "avro-single-object", json.dumps(reader), writers=json.dumps([writer]))
    codec = codec_for(settings)
    header = b"\xc3\x01" + parse(json.dumps(writer)).fingerprint
    data = [header + written(plain(writer), value) for value in values]
    columns, problems = codec.decode_columns(pa.array(data, pa.binary()), codec.fields)
    names = [one.name for one in codec.fields]
    rows = [
        dict(zip(names, row, strict=True)) for row in zip(*[one.to_pylist() for one in columns], strict=True)
    ]
    return codec, data, rows, problems


def as_dict(part):
    """A value of a column as a client gets it: maps are dicts, a union is its value."""
    if isinstance(part, list) and part and isinstance(part[0], tuple):
        return dict(part)
    if isinstance(part, dict) and "member0" in part:
        return next(value for value in part.values() if value is not None)
    return part


INNER = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]}
WIDER = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "long"}]}


@pytest.mark.parametrize(
    ("writer", "reader", "value", "found"),
    [
        *[
            (field(narrow), field(wide), {"f": 3}, {"f": 3})
            for narrow, wides in {"int": ("long", "float", "double"), "long": ("float", "double")}.items()
            for wide in wides
        ],
        (field("float"), field("double"), {"f": 0.5}, {"f": 0.5}),
        (field("string"), field("bytes"), {"f": "é"}, {"f": "é".encode()}),
        (field("bytes"), field("string"), {"f": "é".encode()}, {"f": "é"}),
        # Fields by name, in another order; new ones have defaults; old ones are passed over.
        (
            of("R", [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]),
            of("R", [{"name": "b", "type": "string"}, {"name": "a", "type": "long"}]),
            {"a": 1, "b": "x"},
            {"b": "x", "a": 1},
        ),
        (
            of(
                "R",
                [{"name": "gone", "type": {"type": "array", "items": INNER}}, {"name": "a", "type": "int"}],
            ),
            of("R", [{"name": "a", "type": "int"}, {"name": "new", "type": "string", "default": "é"}]),
            {"gone": [{"x": 1}], "a": 7},
            {"a": 7, "new": "é"},
        ),
        # Aliases of fields and of records; names without their namespace.
        (field("int", "old"), field("int", "new", aliases=["old"]), {"old": 1}, {"new": 1}),
        (
            of("old.R", [{"name": "f", "type": "int"}]),
            of("new.R", [{"name": "f", "type": "int"}]),
            {"f": 1},
            {"f": 1},
        ),
        (
            of("Before", [{"name": "f", "type": "int"}]),
            of("After", [{"name": "f", "type": "int"}], aliases=["Before"]),
            {"f": 1},
            {"f": 1},
        ),
        # Parts.
        (field(INNER), field(WIDER), {"f": {"x": 1}}, {"f": {"x": 1}}),
        (
            field({"type": "array", "items": "int"}),
            field({"type": "array", "items": "double"}),
            {"f": [1, 2]},
            {"f": [1.0, 2.0]},
        ),
        (
            field({"type": "map", "values": "int"}),
            field({"type": "map", "values": "long"}),
            {"f": {"a": 1}},
            {"f": [("a", 1)]},
        ),
        # Enums: an unknown symbol becomes the reader's default.
        (
            field({"type": "enum", "name": "E", "symbols": ["A", "B"]}),
            field({"type": "enum", "name": "E", "symbols": ["Z", "A"], "default": "Z"}),
            {"f": "B"},
            {"f": "Z"},
        ),
        # Unions: on one side, on the other, on both.
        (field("int"), field(["null", "int"]), {"f": 1}, {"f": 1}),
        (field("int"), field(["null", "long"]), {"f": 1}, {"f": 1}),
        (field(["null", "int"]), field("int"), {"f": 1}, {"f": 1}),
        (field(["null", "int"]), field(["long", "null"]), {"f": None}, {"f": None}),
        (field(["null", "int"]), field(["long", "null"]), {"f": 1}, {"f": 1}),
        (
            field(["string", "int"]),
            field(["null", "int", "string"]),
            {"f": "x"},
            {"f": {"member0": None, "member1": "x"}},
        ),
        # A logical type may come and go: the stored number is the same.
        (
            field("long"),
            field({"type": "long", "logicalType": "timestamp-micros"}),
            {"f": 1},
            {"f": pa.scalar(1, pa.timestamp("us", "UTC")).as_py()},
        ),
    ],
)
def test_a_rule(writer, reader, value, found):
    codec, data, rows, problems = through(writer, reader, value, value)
    assert not problems
    assert rows == [found, found]
    assert codec.decode(data[0]) == {name: as_dict(part) for name, part in found.items()}


def ints(*names, **fields):
    """A record of numbers; of those with a name by keyword, with these aliases."""
    return of("R", [{"name": name, "type": "int"} for name in names] + [
        {"name": name, "type": "int", **more} for name, more in fields.items()
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("writer", "reader", "found"),
    [
        (ints("old", "new"), ints(new={"aliases": ["old"]}), {"new": 2}),
        (ints("new", "old"), ints(new={"aliases": ["old"]}), {"new": 1}),
        (ints("a", "b"), ints(a={"aliases": ["b"]}, b={"aliases": ["a"]}), {"a": 1, "b": 2}),
        (ints("a"), ints(x={"aliases": ["a"]}, y={"aliases": ["a"], "default": 5}), {"x": 1, "y": 5}),
        (ints("a", "b"), ints(x={"aliases": ["a", "b"]}), {"x": 1}),
        (ints("a"), ints("a", b={"aliases": ["a"], "default": 9}), {"a": 1, "b": 9}),
    ],
)
def test_a_field_goes_before_one_with_its_alias_and_the_first_before_others(writer, reader, found):
    names = [part["name"] for part in writer["fields"]]
    codec, data, rows, problems = through(writer, reader, {name: at + 1 for at, name in enumerate(names)})
    assert not problems
    assert rows == [found]
    assert codec.decode(data[0]) == found


def test_of_an_inner_record_too():
    writer = field(["null", {"type": "array", "items": ints("old", "new") | {"name": "S"}}])
    reader = field(["null", {"type": "array", "items": ints(new={"aliases": ["old"]}) | {"name": "S"}}])
    codec, data, rows, _ = through(writer, reader, {"f": [{"old": 1, "new": 2}]})
    assert rows == [{"f": [{"new": 2}]}] == [codec.decode(data[0])]


@pytest.mark.parametrize(
    ("default", "type_", "found"),
    [
        (None, "null", None),
        (True, "boolean", True),
        (1, "int", 1),
        (1, "double", 1.0),
        ("ÿ", "bytes", b"\xff"),
        ("x", "string", "x"),
        ("ab", {"type": "fixed", "name": "F", "size": 2}, b"ab"),
        ("A", {"type": "enum", "name": "E", "symbols": ["A"]}, "A"),
        ([1], {"type": "array", "items": "int"}, [1]),
        ({"k": 1}, {"type": "map", "values": "int"}, [("k", 1)]),
        ({"x": 1}, INNER, {"x": 1}),
        (None, ["null", "int"], None),
        (3, ["int", "null"], 3),
        (3, ["null", "int", "string"], {"member0": 3, "member1": None}),
        ({}, of("Inner", [{"name": "x", "type": "int", "default": 7}]), {"x": 7}),
        (
            1500,
            {"type": "long", "logicalType": "timestamp-millis"},
            dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=dt.timezone.utc),
        ),
        (
            1500,
            {"type": "long", "logicalType": "local-timestamp-millis"},
            dt.datetime(1970, 1, 1, 0, 0, 1, 500_000),  # noqa: DTZ001
        ),
        (
            "\u00ff",
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            Decimal("-0.01"),
        ),
    ],
)
def test_a_default_of_each_type(default, type_, found):
    reader = of("R", [{"name": "a", "type": "int"}, {"name": "d", "type": type_, "default": default}])
    _, _, rows, problems = through(of("R", [{"name": "a", "type": "int"}]), reader, {"a": 1})
    assert not problems
    assert rows == [{"a": 1, "d": found}]


@pytest.mark.parametrize(
    ("writer", "reader", "says"),
    [
        (field("long"), field("int"), "field 'f' was written as long, which cannot be read as int"),
        (field("string"), field("int"), "cannot be read as int"),
        (field(["null", "string"]), field("int"), "cannot be read as int"),
        (field("int"), field(["null", "string"]), "cannot be read as union of null, string"),
        (
            field("int"),
            of("R", [{"name": "g", "type": "int"}]),
            "field 'g' was not written, and has no default",
        ),
        (
            of("Other", [{"name": "f", "type": "int"}]),
            field("int"),
            "record Other, which cannot be read as record R",
        ),
        (
            field({"type": "fixed", "name": "F", "size": 2}),
            field({"type": "fixed", "name": "F", "size": 3}),
            "of 3 bytes",
        ),
        (
            field({"type": "long", "logicalType": "timestamp-millis"}),
            field({"type": "long", "logicalType": "timestamp-micros"}),
            "was written as timestamp-millis and is read as timestamp-micros",
        ),
        (
            field({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
            field({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}),
            r"decimal\(9, 2\) and is read as decimal\(9, 3\)",
        ),
    ],
)
def test_what_cannot_be_read(writer, reader, says):
    with pytest.raises(SchemaMismatchError, match=says):
        decoder_of(parse(json.dumps(writer)), parse(json.dumps(reader)))


def test_a_branch_that_the_reader_has_not_is_a_problem_of_its_rows_alone():
    writer, reader = field(["null", "string", "int"]), field(["null", "int"])
    _, _, rows, problems = through(writer, reader, {"f": 1}, {"f": "x"}, {"f": None})
    assert sorted(problems.reasons) == [1]
    assert "written as string" in problems.reasons[1]
    assert rows == [{"f": 1}, {"f": None}, {"f": None}]
    _, _, rows, problems = through(
        field({"type": "enum", "name": "E", "symbols": ["A", "B"]}),
        field({"type": "enum", "name": "E", "symbols": ["A"]}),
        {"f": "B"},
        {"f": "A"},
    )
    assert "neither symbol 'B' nor a default" in problems.reasons[0]
    assert rows[1] == {"f": "A"}


def test_values_of_several_schemas_in_one_column():
    """In the order of the rows, with a null and a value of an unknown schema between them."""
    old, new = (
        field("int"),
        of("R", [{"name": "f", "type": "long"}, {"name": "g", "type": "string", "default": "-"}]),
    )
    codec, _, _, _ = through(old, new)
    heads = [b"\xc3\x01" + parse(json.dumps(one)).fingerprint for one in (old, new)]
    values = [
        heads[0] + written(old, {"f": 1}),
        heads[1] + written(new, {"f": 2, "g": "x"}),
        None,
        b"\xc3\x01" + b"\x00" * 8 + b"\x02",
        b"",
        heads[0] + written(old, {"f": 3}),
        heads[1] + written(new, {"f": 4, "g": "y"})[:-1],
    ]
    columns, problems = codec.decode_columns(pa.array(values, pa.binary()), codec.fields)
    assert [one.to_pylist() for one in columns] == [
        [1, 2, None, None, None, 3, None],
        ["-", "x", None, None, None, "-", None],
    ]
    assert sorted(problems.reasons) == [3, 4, 6]
    assert "no schema has the fingerprint 0000000000000000" in problems.reasons[3]
    assert "single-object header" in problems.reasons[4]
    sliced, _ = codec.decode_columns(pa.array(values, pa.binary()).slice(1, 5), codec.fields)
    assert [one.to_pylist() for one in sliced] == [[2, None, None, None, 3], ["x", None, None, None, "-"]]
    only, _ = codec.decode_columns(pa.array(values, pa.binary()), codec.fields[1:])
    assert [one.to_pylist() for one in only] == [["-", "x", None, None, None, "-", None]]
