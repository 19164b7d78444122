"""Columns and fields of records as cells, and as files: whatever is in them does no harm."""

from __future__ import annotations

import base64
import csv
import io
import json
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_eos import Admin, Log, Producer
from spark_eos.errors import InvalidRequestError
from spark_eos.extensions.ui.areas import records
from spark_eos.extensions.ui.reading.cells import cells
from spark_eos.extensions.ui.reading.exports import as_parquet
from spark_eos.storage import MemoryStore
from tests.extensions.ui.asking import Asking

FORMULAS = ["=1+1", "+1", "-1", "@sum", "\t=1", "\r=1", "\n=1", '=cmd|" /C calc"!A0']
HOSTILE = "<script>window.hacked=1</script>\u202e\x00"


@pytest.fixture
def log():
    return Log.create(MemoryStore())


def send(log, topic, *values):
    with Producer(log) as producer:
        for value in values:
            producer.send(topic, value, partition=0)


def saved(ask, topic, form, columns, **fields):
    """The file of all records, the oldest first."""
    rows = ask("records", topic=topic, **{"from": "start"})["rows"]
    places = [[row["partition"], row["offset"]] for row in rows]
    return ask("export", topic=topic, format=form, columns=columns, records=places, **fields)


def test_the_columns_of_a_topic_with_a_schema(log):
    rows = pa.table(
        {
            "id": pa.array([2**60, None], pa.int64()),
            "name": ["null", None],
            "kind": pa.array(["a", "b"]).dictionary_encode().cast(pa.string()),
            "day": [date(2026, 1, 2), None],
            "tags": [["x", None], []],
        }
    )
    Admin(log).create_topic("t", 1, schema=rows.schema)
    with Producer(log) as producer:
        producer.send_arrow("t", rows)
    ask = Asking(log)
    found = ask("records", topic="t", **{"from": "start"})["rows"][0]["cells"]
    assert {name: (one["as"], one["text"]) for name, one in found.items()} == {
        "id": ("value", str(2**60)),
        "name": ("text", "null"),
        "kind": ("text", "a"),
        "day": ("value", "2026-01-02"),
        "tags": ("value", '["x", null]'),
    }
    file = saved(ask, "t", "jsonl", ["offset", ".id", ".name", ".day", ".tags"])
    assert file["name"] == "t.jsonl"
    assert [json.loads(line) for line in file["text"].splitlines()] == [
        {"offset": 0, "id": 2**60, "name": "null", "day": "2026-01-02", "tags": ["x", None]},
        {"offset": 1, "id": None, "name": None, "day": None, "tags": []},
    ]


@pytest.mark.parametrize("config", [{"value.format": "json"}, {}])
def test_the_fields_of_json_with_all_their_digits(log, config):
    Admin(log).create_topic("t", 1, config)
    send(log, "t", *([{"a": 1}] if config else [b'{"a": 1}']))
    raw = b'{"a": 1.10, "b": 123456789012345678901234567890, "c": NaN, "d": {"e": 1e400}, "offset": "x"}'
    if not config:
        send(log, "t", raw, b"no object", b'{"a":', b"[1]")
    ask = Asking(log)
    rows = ask("records", topic="t", **{"from": "start"})["rows"]
    assert rows[0]["cells"] == {"a": {"text": "1", "as": "value", "cut": False}}
    if config:
        return
    assert [row["cells"] for row in rows[2:]] == [None] * 3
    text = saved(ask, "t", "jsonl", ["offset", ".a", ".b", ".c", ".d", ".offset"])["text"].splitlines()[1]
    assert text == (
        '{"offset": 1, "a": 1.10, "b": 123456789012345678901234567890, "c": "NaN", '
        '"d": {"e": 1e400}, "value.offset": "x"}'
    )
    assert Asking(log)("records", topic="t", decode="hex")["rows"][0]["cells"] is None


def test_the_fields_of_avro(log):
    schema = {"type": "record", "name": "o", "fields": [{"name": "name", "type": "string"}]}
    config = {"value.format": "avro", "value.schema": json.dumps(schema)}
    Admin(log).create_topic("t", 1, config)
    send(log, "t", {"name": HOSTILE})
    (row,) = Asking(log)("records", topic="t")["rows"]
    assert row["cells"] == {"name": {"text": HOSTILE, "as": "text", "cut": False}}


def test_a_text_that_is_no_utf_8_is_shown_as_bytes():
    broken = pa.array([b"\xffx"]).view(pa.string())[0]
    assert cells({"a": broken}, 100)["a"]["as"] == "value"


def test_a_spreadsheet_computes_nothing(log):
    rows = pa.table({"text": FORMULAS, "=n": [-1] * len(FORMULAS)})
    Admin(log).create_topic("t", 1, schema=rows.schema)
    with Producer(log) as producer:
        producer.send_arrow("t", rows)
    text = saved(Asking(log), "t", "csv", ["offset", ".text", ".=n"])["text"]
    head, *found = csv.reader(io.StringIO(text, newline=""))
    assert head == ["offset", "text", "'=n"]
    assert found == [[str(at), f"'{one}", "-1"] for at, one in enumerate(FORMULAS)]


def test_a_null_of_csv_is_no_empty_text(log):
    Admin(log).create_topic("t", 1)
    send(log, "t", b"", None, b'"', b"two\nlines")
    ask = Asking(log)
    text = saved(ask, "t", "csv", ["offset", "value"])["text"]
    assert text == 'offset,value\r\n0,""\r\n1,\r\n2,""""\r\n3,"two\nlines"\r\n'
    alone = saved(ask, "t", "csv", ["value"])["text"]
    assert [*csv.reader(io.StringIO(alone, newline=""))][1:] == [[""], [""], ['"'], ["two\nlines"]]


def test_hostile_text_stays_what_it_is(log):
    Admin(log).create_topic("t", 1)
    send(log, "t", HOSTILE.encode(), b'a,"b"\nc', b"\xff\x00", None)
    ask = Asking(log)
    text = saved(ask, "t", "jsonl", ["key", "value"], decode="text")["text"].splitlines()
    assert [json.loads(line)["value"] for line in text] == [HOSTILE, 'a,"b"\nc', "\ufffd\x00", None]
    text = saved(ask, "t", "csv", ["key", "value", "headers"])["text"]
    _, *found = csv.reader(io.StringIO(text, newline=""))
    assert found[1] == ["", 'a,"b"\nc', "[]"]
    assert found[3] == ["", "", "[]"]


def parquet(ask, topic, columns, **fields):
    answer = saved(ask, topic, "parquet", columns, **fields)
    assert answer["name"] == f"{topic}.parquet"
    return pq.read_table(pa.BufferReader(base64.b64decode(answer["base64"])))


def test_parquet_has_the_types_of_the_columns(log):
    rows = pa.table(
        {
            "id": pa.array([2**60, None], pa.int64()),
            "price": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
            "name": [HOSTILE, "x" * 9000],
            "tags": [["x", None], []],
            "offset": [b"\xff", None],
        }
    )
    Admin(log).create_topic("t", 1, schema=rows.schema)
    with Producer(log) as producer:
        producer.send_arrow("t", rows)
    found = parquet(
        Asking(log), "t", ["partition", "offset", "time", ".id", ".price", ".name", ".tags", ".offset"]
    )
    typed = found.select(["id", "price", "name", "tags", "value.offset"]).rename_columns(rows.column_names)
    assert typed.equals(rows)
    assert found.schema.field("time").type == pa.timestamp("ms", "UTC")
    assert found.select(["partition", "offset"]).to_pydict() == {"partition": [0, 0], "offset": [0, 1]}


def test_parquet_of_columns_that_have_changed(log):
    """The file has the newest names, also of records from before."""
    Admin(log).create_topic("t", 1, schema=pa.schema([("a", pa.int32())]))
    with Producer(log) as producer:
        producer.send_arrow("t", pa.table({"a": pa.array([1], pa.int32())}))
    ask = Asking(log)
    assert parquet(ask, "t", [".a"]).to_pydict() == {"a": [1]}
    Admin(log).alter_topic("t", add_columns={"b": "string"}, rename_columns={"a": "c"})
    with Producer(log) as producer:
        producer.send_arrow("t", pa.table({"c": pa.array([2], pa.int32()), "b": ["x"]}))
    assert parquet(ask, "t", [".c", ".b"]).to_pydict() == {"c": [1, 2], "b": [None, "x"]}


def test_parquet_of_values_without_columns_is_text(log):
    Admin(log).create_topic("t", 1)
    send(log, "t", b'{"a": 1.10, "b": "\\ud800"}', b"\xff\x00", None)
    found = parquet(Asking(log), "t", ["offset", "value", ".a", ".b", "headers"])
    assert found.select(["value", "a", "b"]).to_pylist()[0] == {
        "value": '{"a": 1.10, "b": "\\ud800"}', "a": "1.10", "b": "\ufffd"
    }  # fmt: skip
    assert found["value"].to_pylist()[1:] == ["ff 00", None]
    assert found["headers"].to_pylist() == ["[]"] * 3


def test_a_type_that_parquet_does_not_have():
    type_ = pa.month_day_nano_interval()
    with pytest.raises(InvalidRequestError, match="column 'a' is of type month_day_nano_interval"):
        as_parquet([".a"], [], pa.table({"a": pa.array([None], type_)}))


def test_a_file_has_whole_values_or_none(log, monkeypatch):
    Admin(log).create_topic("t", 1)
    send(log, "t", b"x" * 10_000)
    ask = Asking(log)
    assert json.loads(saved(ask, "t", "jsonl", ["value"])["text"])["value"] == "x" * 10_000
    monkeypatch.setattr(records, "_WHOLE", 9000)
    assert "'value' at offset 0 of partition 0 is too long" in saved(ask, "t", "csv", ["value"])["error"]
    monkeypatch.setattr(records, "MOST_BYTES", 5000)
    assert "eoslog consume" in saved(ask, "t", "csv", ["offset"])["error"]
    assert "out of range" in ask("export", topic="t", columns=[], records=[[0, 7]])["error"]
    assert "'columns' must be a list" in ask("export", topic="t", columns=[1])["error"]
