"""``eoslog produce`` and ``eoslog consume``: topics whose values have a format."""

from __future__ import annotations

import json

import pytest

from spark_eos import Admin, Producer
from spark_eos.cli.command import main
from tests.cli.console import Here
from tests.cli.test_produce import records, values


@pytest.fixture
def here(tmp_path, capfdbinary):
    return Here(tmp_path, capfdbinary)


SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "item", "type": ["null", "string"]}, {"name": "raw", "type": "bytes"}],
}


def test_avro(log_url, here):
    settings = {"value.format": "avro-single-object", "value.schema": json.dumps(SCHEMA)}
    Admin(log_url).create_topic("t", config=settings)
    line = b'{"item": {"string": "pear"}, "raw": "\\u00ff"}'
    here.produce(log_url, "t", b"k\t" + line + b"\n", "--property", "parse.key=true")
    assert [(one.key, one.value) for one in records(log_url, "t")] == [
        (b"k", {"item": "pear", "raw": b"\xff"})
    ]
    assert json.loads(here.consume(log_url, "t")) == json.loads(line)
    printed = here.consume(log_url, "t", "--json")
    here.produce(log_url, "t", printed, "--format", "json")
    assert len({repr(value) for value in values(log_url, "t")}) == 1
    first, _ = here.consume(log_url, "t", "--format", "hex").splitlines()
    raw = here.consume(log_url, "t", "--format", "text", "--max-messages", "1")
    assert raw == bytes.fromhex(first.decode()) + b"\n"
    error = here.produce(log_url, "t", b'{"item": "pear", "raw": ""}\n', code=1)
    assert "line 1: value: it is not the JSON of a value of the topic's Avro schema" in error
    assert "Avro: use --format avro or json" in here.produce(log_url, "t", b"x", "--format", "text", code=1)


def test_json_that_a_topic_checks(log_url, here):
    pytest.importorskip("fastjsonschema")
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    Admin(log_url).create_topic("t", config={"value.format": "json", "value.schema": json.dumps(schema)})
    here.produce(log_url, "t", b'{"n": 1}\n')
    assert here.consume(log_url, "t") == b'{"n":1}\n'
    assert "line 2: value: " in here.produce(log_url, "t", b'{"n": 1}\n{"n": "x"}\n', code=1)
    assert json.loads(here.consume(log_url, "t", "--json"))["value"] == {"n": 1}


LONG = b'{"a":0.12345678901234567890,"b":[1.10,{"c":12345678901234567890.5e-3}],"d":123456789012345678901}'


def test_numbers_of_json_keep_all_their_digits(log_url, here):
    Admin(log_url).create_topic("t", config={"value.format": "json"})
    here.produce(log_url, "t", LONG + b"\n")
    printed = here.consume(log_url, "t", "--json")
    assert b'"value": ' + LONG in printed
    here.produce(log_url, "t", printed, "--format", "json")
    assert here.consume(log_url, "t", "--format", "hex") == (LONG.hex().encode() + b"\n") * 2
    assert here.consume(log_url, "t") == (LONG + b"\n") * 2


def test_half_a_character_stays_the_escape_that_it_was(log_url, here):
    Admin(log_url).create_topic("t", config={"value.format": "json"})
    here.produce(log_url, "t", b'{"a":"\\ud800"}\n')
    assert here.consume(log_url, "t") == b'{"a":"\\ud800"}\n'


def test_json_that_is_too_deep(log_url, here):
    Admin(log_url).create_topic("t")
    here.produce(log_url, "t", b"[" * 100_000)
    Admin(log_url).alter_topic("t", config={"value.format": "json"})
    assert "line 1: value: " in here.produce(log_url, "t", b"[" * 100_000, code=1)
    assert "t-0, offset 0: its JSON is too deep" in here.run("consume", log_url, "t", "--json", code=1)
    assert here.consume(log_url, "t") == b"[" * 100_000 + b"\n", "as it is stored"


@pytest.mark.parametrize("type_", ["long", {"type": "long", "logicalType": "timestamp-micros"}])
def test_whole_numbers_of_avro_keep_all_their_digits(log_url, here, type_):
    schema = {"type": "record", "name": "V", "fields": [{"name": "n", "type": ["null", type_]}]}
    Admin(log_url).create_topic("t", config={"value.format": "avro", "value.schema": json.dumps(schema)})
    for typed in ("9007199254740993", "9007199254740993.0", "9.007199254740993e15"):
        here.produce(log_url, "t", b'{"n": {"long": %s}}\n' % typed.encode())
    assert here.consume(log_url, "t") == b'{"n": {"long": 9007199254740993}}\n' * 3
    for typed in ("0.5", "9007199254740993.25", "1e400", "NaN"):
        error = here.produce(log_url, "t", b'{"n": {"long": %s}}\n' % typed.encode(), code=1)
        assert "line 1: value: " in error


def test_text_of_avro_is_printed_as_it_is(log_url, here):
    Admin(log_url).create_topic("t", config={"value.format": "avro", "value.schema": '"string"'})
    here.produce(log_url, "t", '"Å☃"\n'.encode())
    assert here.consume(log_url, "t").decode() == '"Å☃"\n'
    assert '"value": "Å☃"'.encode() in here.consume(log_url, "t", "--json")


def test_records_that_cannot_be_decoded(log_url, here):
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    Admin(log_url).create_topic("t")
    here.produce(log_url, "t", b"\x02\n\xff\xff\n\x04\n")
    Admin(log_url).alter_topic("t", config={"value.format": "avro", "value.schema": json.dumps(schema)})
    assert main(["consume", log_url, "t"]) == 1
    shown = here._capture.readouterr()
    assert shown.out == b'{"n": 1}\n', "what comes before it is printed"
    assert b"eoslog: t-0, offset 1: " in shown.err
    assert b"--skip-message-on-error passes over such records" in shown.err
    assert main(["consume", log_url, "t", "--skip-message-on-error", "--json"]) == 0
    shown = here._capture.readouterr()
    assert [json.loads(line)["value"] for line in shown.out.splitlines()] == [{"n": 1}, {"n": 2}]
    assert shown.err.startswith(b"eoslog: passed over: t-0, offset 1: ")
    assert here.consume(log_url, "t", "--format", "hex") == b"02\nffff\n04\n"


def test_numbers_that_json_does_not_have_come_back(log_url, here):
    kinds = [
        "float",
        ["null", "double"],
        {"type": "array", "items": "double"},
        {"type": "map", "values": "float"},
    ]
    fields = [{"name": name, "type": kind} for name, kind in zip("abcd", kinds, strict=True)]
    inner = {"type": "record", "name": "R", "fields": [*fields, {"name": "NaN", "type": "string"}]}
    schema = {"type": "record", "name": "V", "fields": [{"name": "r", "type": ["null", inner]}]}
    Admin(log_url).create_topic("t", config={"value.format": "avro", "value.schema": json.dumps(schema)})
    infinite = float("inf")
    value = {"r": {"a": -infinite, "b": infinite, "c": [infinite, 1.5], "d": {"x": infinite}, "NaN": "NaN"}}
    with Producer(log_url) as producer:
        producer.send("t", value)
        producer.send("t", {"r": {**value["r"], "b": float("nan")}})
    for arguments in ((), ("--json",)):
        printed = here.consume(log_url, "t", *arguments)

        def refused(word):
            raise AssertionError(f"{word} is no JSON")

        lines = [json.loads(line, parse_constant=refused) for line in printed.splitlines()]
        assert '"b": {"double": "NaN"}' in json.dumps(lines[1])
        here.produce(log_url, "t", printed, *(("--format", "json") if arguments else ()))
    assert [repr(one) for one in values(log_url, "t")[:2]] * 3 == [
        repr(one) for one in [*values(log_url, "t")[:4], *values(log_url, "t")[-2:]]
    ]


@pytest.mark.parametrize(
    ("type_", "value", "why"),
    [
        (
            {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]},
            {"next": {"next": None}},
            "its Avro schema has a type inside of itself",
        ),
        ({"type": "map", "values": "int"}, {"": 1}, "its value cannot be written as Avro's JSON"),
    ],
)
def test_values_that_have_no_json(log_url, here, type_, value, why):
    Admin(log_url).create_topic("t", config={"value.format": "avro", "value.schema": json.dumps(type_)})
    with Producer(log_url) as producer:
        producer.send("t", value)
        producer.send("t", None)
    assert f"t-0, offset 0: {why}" in here.run("consume", log_url, "t", code=1)
    assert here.consume(log_url, "t", "--skip-message-on-error") == b"null\n"
    assert here.consume(log_url, "t", "--format", "hex").endswith(b"\nnull\n")


def test_json_of_a_type_inside_of_itself(log_url, here):
    schema = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    Admin(log_url).create_topic("t", config={"value.format": "avro", "value.schema": json.dumps(schema)})
    error = here.produce(log_url, "t", b'{"next": null}\n', code=1)
    assert "line 1: value: its Avro schema has a type inside of itself" in error
