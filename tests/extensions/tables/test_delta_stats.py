"""The statistics of a file are bounds: no value lies outside, whatever its type, and readers skip by them rightly."""

from __future__ import annotations

import io
import json
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_eos.extensions.tables.delta.stats import bounded_columns, statistics

US = pa.timestamp("us", "UTC")
FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The first and the last microsecond of the years 1 to 9999."""


def of(table, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return json.loads(statistics(pq.read_metadata(sink)), parse_float=Decimal)


@pytest.mark.parametrize(
    ("type_", "values", "low", "high"),
    [
        (pa.int64(), [2**63 - 1, None, -(2**63)], -(2**63), 2**63 - 1),
        (pa.int8(), [3, -1], -1, 3),
        (pa.date32(), [date(1, 1, 1), date(2020, 2, 29)], "0001-01-01", "2020-02-29"),
        (US, [1, 1_700_000_000_123_456], "1970-01-01T00:00:00.000001Z", "2023-11-14T22:13:20.123456Z"),
        (US, [-1, 0], "1969-12-31T23:59:59.999999Z", "1970-01-01T00:00:00.000000Z"),
        (US, [FIRST, LAST], "0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"),
        (pa.timestamp("us"), [1000, 2000], "1970-01-01T00:00:00.001000", "1970-01-01T00:00:00.002000"),
        (pa.decimal128(15, 2), [Decimal("1.10"), Decimal("-7.00")], Decimal("-7.00"), Decimal("1.10")),
        (pa.string(), ["b", "a" * 32], "a" * 32, "b"),
        (pa.string(), ["a" * 33], "a" * 32, "a" * 31 + "b"),
        (pa.string(), ["ü" * 40], "ü" * 32, "ü" * 31 + "ý"),
        (pa.string(), ["a" + "\U0010ffff" * 40], "a" + "\U0010ffff" * 31, "b"),
        (pa.string(), ["\ud7ff" * 33], "\ud7ff" * 32, "\ud7ff" * 31 + "\ue000"),
    ],
)
def test_bounds(type_, values, low, high):
    array = (
        pa.array(values, pa.int64()).cast(type_) if pa.types.is_timestamp(type_) else pa.array(values, type_)
    )
    found = of(pa.table({"c": array}), row_group_size=1)
    assert (found["minValues"], found["maxValues"]) == ({"c": low}, {"c": high})
    assert found["nullCount"] == {"c": values.count(None)}
    assert found["numRecords"] == len(values)


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1.0, float("nan")]),
        pa.array([True, False]),
        pa.array([b"a"]),
        pa.array([Decimal("1234567890123456.00")], pa.decimal128(30, 2)),
        pa.array([None, None], pa.string()),
    ],
)
def test_no_bounds(array):
    found = of(pa.table({"c": array}))
    assert (found["minValues"], found["maxValues"]) == ({}, {})
    assert found["nullCount"] == {"c": array.null_count}


def test_an_upper_bound_that_cannot_be_cut_is_the_text_itself():
    found = of(pa.table({"c": ["\U0010ffff" * 33]}))
    assert (found["minValues"], found["maxValues"]) == ({"c": "\U0010ffff" * 32}, {"c": "\U0010ffff" * 33})


@pytest.mark.parametrize("texts", [["x" * 5000], ["a", None, "x" * 5000]])
def test_long_texts_of_which_parquet_has_no_bounds_lie_within_the_widest(texts):
    found = of(pa.table({"c": texts}), row_group_size=1)
    assert (found["minValues"], found["maxValues"]) == ({"c": ""}, {"c": "\U0010ffff" * 32})


def test_the_table_names_the_columns_with_bounds():
    number, inner = pa.int64(), pa.struct([("x", pa.string()), ("f", pa.float64())])
    columns = [("a", number), ("f", pa.float32()), ("b", pa.bool_()), ("y", pa.binary()), ("s", inner)]
    columns += [("l", pa.list_(number)), ("`d.", pa.decimal128(15, 2)), ("e", pa.decimal128(16, 2))]
    assert bounded_columns(pa.schema(columns), by_delta_rs=False) == "`a`,`s`.`x`,```d.`"
    assert bounded_columns(pa.schema(columns), by_delta_rs=True) == "`a`"
    many = pa.schema([(f"c{at}", number) for at in range(40)])
    assert bounded_columns(many, by_delta_rs=False).count(",") == 31


def test_fields_of_structs_have_bounds_and_those_of_lists_none():
    struct = pa.struct(
        [("x.y", pa.int32()), ("in", pa.struct([("z", pa.string())])), ("l", pa.list_(pa.int8()))]
    )
    table = pa.table(
        {
            "s": pa.array([{"x.y": 1, "in": {"z": "q"}, "l": [1]}, None], struct),
            "l": pa.array([[1], None], pa.list_(pa.int32())),
            "m": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int32())),
            "after": [5, 6],
        }
    )
    found = of(table)
    assert found["minValues"] == {"s": {"x.y": 1, "in": {"z": "q"}}, "after": 5}
    assert found["maxValues"] == {"s": {"x.y": 1, "in": {"z": "q"}}, "after": 6}
    assert found["nullCount"] == {"s": {"x.y": 1, "in": {"z": 1}}, "after": 0}


def test_of_many_columns_the_first_and_the_places_have_bounds():
    names = [f"c{number}" for number in range(40)]
    found = of(pa.table({name: [1] for name in [*names, "_offset"]}))
    assert [*found["minValues"]] == [*names[:32], "_offset"]


def test_columns_that_the_table_does_not_have_are_left_out_and_those_that_the_file_has_not_are_null():
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": [1], "_value": ["x"]}), sink)
    assert json.loads(
        statistics(
            pq.read_metadata(sink),
            pa.schema(
                [("a", pa.int64()), ("s", pa.struct([("x", pa.int64()), ("l", pa.list_(pa.int64()))]))]
            ),
        )
    )["nullCount"] == {"a": 0, "s": {"x": 1}}


@pytest.mark.parametrize(
    "array",
    [
        pa.array([FIRST - 1], pa.int64()).cast(US),
        pa.array([LAST + 1, 0, None], pa.int64()).cast(pa.timestamp("us")),
        pa.array([-800_000], pa.int32()).cast(pa.date32()),
        pa.array([{"in": LAST + 1}], pa.struct([("in", US)])),
    ],
)
def test_a_file_with_a_value_that_cannot_be_written_has_no_statistics(array):
    assert of(pa.table({"c": array, "d": [1] * len(array)})) == {"numRecords": len(array)}


def test_characters_are_themselves():
    """Readers take surrogates for other characters."""
    text = '\U00100000ü"\\\0'
    sink = io.BytesIO()
    pq.write_table(pa.table({text: [text]}), sink)
    found = statistics(pq.read_metadata(sink))
    assert "\\u" not in found.replace("\\u0000", "")
    assert json.loads(found)["maxValues"] == {text: text}
