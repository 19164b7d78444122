"""Typed values as text: every type that a topic can have; nothing is lost, and no type looks like another."""

from __future__ import annotations

import re
from collections import OrderedDict
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from spark_eos.extensions.ui.decoding import shown_bytes
from spark_eos.extensions.ui.notation import written

TYPES = Path(__file__).parents[3] / "docs/reference/types.md"

VARIANT = pa.struct([pa.field("value", pa.binary()), pa.field("metadata", pa.binary())])
PLACE = pa.struct([pa.field("srid", pa.int32()), pa.field("wkb", pa.binary())])
A_VARIANT = {"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"}
AS_VARIANT = """{"value": X'0c01', "metadata": X'010000'}"""
A_PLACE = {"srid": 4326, "wkb": b"\x01\xff"}
AS_PLACE = """{"srid": 4326, "wkb": X'01ff'}"""

DAY_S = 86_400

# The types of docs/reference/types.md, as Arrow has them: a value, and how it is shown.
KEPT = {
    "boolean": (pa.bool_(), True, "true"),
    "tinyint": (pa.int8(), -128, "-128"),
    "smallint": (pa.int16(), 7, "7"),
    "int": (pa.int32(), 7, "7"),
    "bigint": (pa.int64(), 2**63 - 1, "9223372036854775807"),
    "float": (pa.float32(), 0.1, "0.1"),
    "double": (pa.float64(), 0.1 + 0.2, "0.30000000000000004"),
    "decimal(38,18)": (pa.decimal128(38, 18), Decimal("1E-18"), "0.000000000000000001"),
    "string": (pa.string(), 'a "b"\n', '"a \\"b\\"\\n"'),
    "string collate UTF8_LCASE": (pa.string(), "é", '"é"'),
    "array<string collate UNICODE_CI>": (pa.list_(pa.string()), ["a", None], '["a", null]'),
    "binary": (pa.binary(), b"abc", 'b"abc"'),
    "date": (pa.date32(), 2_932_897, "10000-01-01"),  # Python's dates end the day before.
    "time(6)": (pa.time64("us"), 3_723_000_004, "01:02:03.000004"),
    "time(0)": (pa.time64("ns"), 3_723_000_000_004, "01:02:03.000000004"),
    "timestamp": (pa.timestamp("us", "UTC"), -1, "1969-12-31T23:59:59.999999Z"),
    "timestamp_ntz": (pa.timestamp("us"), 253_402_300_800_000_000, "10000-01-01T00:00:00.000000"),
    "interval day": (pa.duration("us"), -DAY_S * 10**6, "-1 days 00:00:00.000000"),
    "interval day to hour": (pa.duration("us"), 90_000 * 10**6, "1 days 01:00:00.000000"),
    "interval minute": (pa.duration("us"), 60 * 10**6, "0 days 00:01:00.000000"),
    "interval day to second": (pa.duration("us"), 1, "0 days 00:00:00.000001"),
    "array<interval minute>": (pa.list_(pa.duration("us")), [None], "[null]"),
    "variant": (VARIANT, A_VARIANT, AS_VARIANT),
    "array<variant>": (pa.list_(VARIANT), [A_VARIANT, None], f"[{AS_VARIANT}, null]"),
    "struct<v:variant>": (pa.struct([("v", VARIANT)]), {"v": A_VARIANT}, f'{{"v": {AS_VARIANT}}}'),
    "map<string,variant>": (pa.map_(pa.string(), VARIANT), [("a", A_VARIANT)], f'{{"a": {AS_VARIANT}}}'),
    "geometry(0)": (PLACE, {**A_PLACE, "srid": 0}, AS_PLACE.replace("4326", "0")),
    "geometry(3857)": (PLACE, {**A_PLACE, "srid": 3857}, AS_PLACE.replace("4326", "3857")),
    "geography(4326)": (PLACE, A_PLACE, AS_PLACE),
    "array<geography(4326)>": (pa.list_(PLACE), [A_PLACE], f"[{AS_PLACE}]"),
    "struct<a:int,b:array<struct<c:bigint>>>": (
        pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.int64())])))]),
        {"a": 1, "b": [{"c": 2**53 + 1}, None]},
        '{"a": 1, "b": [{"c": 9007199254740993}, null]}',
    ),
    "map<struct<a:int>,array<int>>": (
        pa.map_(pa.struct([("a", pa.int32())]), pa.list_(pa.int32())),
        [({"a": 1}, [2, 3])],
        '{{"a": 1}: [2, 3]}',
    ),
}


def test_every_type_of_the_reference_is_tried():
    kept = re.findall(r"^\| `(.+)` \| kept \|$", TYPES.read_text(), re.MULTILINE)
    assert sorted(kept) == sorted(KEPT)


@pytest.mark.parametrize("name", KEPT)
def test_a_type_is_shown_as_it_is(name):
    kind, value, shown = KEPT[name]
    array = pa.array([None, value], kind)
    assert written(array[1], 10_000) == (shown, False)
    assert written(array[0], 10_000) == ("null", False)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (-0.0, "-0.0"),
        (2**60, "1152921504606846976"),
        (Decimal("1.50"), "1.50"),
        (True, "true"),
        (datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=1))), "2026-01-02T02:00:00Z"),
        (datetime.fromisoformat("2026-01-02"), "2026-01-02T00:00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (time(1, 2, 3), "01:02:03"),
        (timedelta(days=-1), "-1 days 00:00:00.000000"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (b"\xc3\xa9", "X'c3a9'"),
        (b"a\x7f", "X'617f'"),
        (b"", 'b""'),
        (b'"', 'b"\\""'),
        (OrderedDict(a=(None, {1})), '{"a": [null, [1]]}'),
        (pa.array([float("nan")], pa.float32())[0], "NaN"),
        (pa.array([-(2**63)], pa.timestamp("us"))[0], "-9223372036854775808 us since 1970"),
        (pa.array([np.float16(0.1)], pa.float16())[0], "0.1"),
        *(
            (pa.array([[7, None]], kind)[0], "[7, null]")
            for kind in (
                *(pa.large_list(pa.int8()), pa.list_(pa.int8(), 2)),
                *(pa.list_view(pa.int8()), pa.large_list_view(pa.int8())),
            )
        ),
        (pa.array([86_400_000], pa.date64())[0], "1970-01-02"),
        (pa.array(["x"]).dictionary_encode()[0], '"x"'),
        (pa.array([b"ab"], pa.binary(2))[0], 'b"ab"'),
        (pa.array([b"\xff"]).view(pa.string())[0], "X'ff'"),
        (pa.array([Decimal("1.5")], pa.decimal256(50, 1))[0], "1.5"),
        (pa.array([1], pa.time32("s"))[0], "00:00:01"),
    ],
)
def test_other_values(value, shown):
    assert written(value, 10_000) == (shown, False)


def test_no_two_types_look_the_same():
    alike = [
        "1",
        1,
        b"1",
        1.0,
        Decimal("1.00"),
        True,
        "NaN",
        float("nan"),
        "null",
        None,
        "2026-01-02",
        date(2026, 1, 2),
    ]
    assert len({written(one, 100)[0] for one in alike}) == len(alike)


def test_what_is_cut_off_says_so_also_inside():
    for value in (
        *("x" * 101, b"x" * 101, b"\xff" * 101, 10**101, ["x"] * 101, {"a": b"x" * 101}),
        *(pa.array(["x" * 101])[0], pa.array([b"x" * 101])[0], pa.array([[{"a": b"\xff" * 101}]])[0]),
    ):
        text, cut = written(value, 100)
        assert (len(text), cut) == (100, True)
    deep = []
    for _ in range(60):
        deep = [deep]
    text, cut = written(deep, 10_000)
    assert "…" in text
    assert cut


def test_a_long_value_is_not_made_whole():
    class Endless(list):
        def __iter__(self):
            while True:
                yield "x"

    assert written(Endless(), 1000)[1]


def test_bytes_of_topics_without_columns():
    late = b"x" * 1500 + b"\x00"
    assert shown_bytes(late, "auto")["as"] == "hex"
    assert shown_bytes(b"\x00\x01", "auto") == {"text": "00 01", "as": "hex", "bytes": 2, "cut": False}
    assert shown_bytes(b'{"a":1}', "auto")["as"] == "json"
    assert shown_bytes(b"a\xff", "text") == {
        "text": "a\ufffd",
        "as": "text: not UTF-8",
        "bytes": 2,
        "cut": False,
    }
    assert shown_bytes("\ufffd".encode(), "text")["as"] == "text"
    for decoding in ("auto", "text", "hex", "base64"):
        shown = shown_bytes(b"x" * 5000, decoding)
        assert (len(shown["text"]), shown["cut"], shown["bytes"]) == (2000, True, 5000)
        assert not shown_bytes(b"x" * 600, decoding)["cut"]
