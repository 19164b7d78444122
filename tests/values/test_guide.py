"""docs/guide/avro-and-json.md: its examples run, and its table of types is that of the code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from spark_eos import Admin, Consumer, TopicPartition
from spark_eos.config.topic import TOPIC

PAGE = (Path(__file__).parents[2] / "docs/guide/avro-and-json.md").read_text("utf-8")


def example(name, folder):
    (code,) = re.findall(rf"<!-- {name} -->\n```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return code.replace("/tmp/", f"{folder}/")


def values(folder, topic):
    consumer = Consumer(f"{folder}/shop", {"auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0)])
    return [record.value for record in consumer.poll()]


@pytest.fixture
def shop(tmp_path, capsys):
    given = {}
    exec(example("clients", tmp_path), given)
    assert capsys.readouterr().out == "apples\n"
    return given


def test_another_schema(shop, tmp_path):
    (code,) = re.findall(r"^```python\n(admin\.alter_topic.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    more = [*shop["SCHEMA"]["fields"], {"name": "unit", "type": "string", "default": "piece"}]
    exec(code, {**shop, "NEW_SCHEMA": {**shop["SCHEMA"], "fields": more}})
    assert values(tmp_path, "orders")[0]["unit"] == "piece"


def test_the_examples_with_spark(spark, shop, tmp_path, capsys):
    exec(example("spark", tmp_path), {"spark": spark})
    assert "apples" in capsys.readouterr().out
    Admin(f"{tmp_path}/shop")
    shop["Producer"](f"{tmp_path}/shop").send("orders", b"broken").result(timeout=60)
    code = example("stream", tmp_path)
    exec(code, {"spark": spark, "SCHEMA_TEXT": json.dumps(shop["SCHEMA"])})
    assert [value["item"] for value in values(tmp_path, "checked")] == ["apples", "pears"]
    assert values(tmp_path, "broken-orders") == [b"broken"]


def test_the_formats():
    rows = re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)
    assert {*rows, "bytes"} == {*TOPIC["value.format"].type.choices}
