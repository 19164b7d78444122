"""``eoslog produce`` and ``eoslog consume``: topics whose values have a format."""

from __future__ import annotations

import json

import pytest

from spark_eos import Admin
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
    assert len(here.consume(log_url, "t", "--format", "hex").splitlines()) == 2
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
