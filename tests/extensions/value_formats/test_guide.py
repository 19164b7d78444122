"""docs/extensions/value-formats.md: what its examples leave in the log, and its table of types is that of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spark_eos import Admin, Consumer, TopicPartition
from spark_eos.config.topic import TOPIC

PAGE = (Path(__file__).parents[3] / "docs/extensions/value-formats.md").read_text("utf-8")
CLIENTS, SPARK, STREAM, ALTERED = range(4)


def example(number, folder):
    return re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[number].replace(
        "/tmp/", f"{folder}/"
    )


def values(folder, topic):
    consumer = Consumer(f"{folder}/shop", {"auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0)])
    return [record.value for record in consumer.poll()]


@pytest.fixture
def shop(tmp_path, capsys):
    given = {}
    exec(example(CLIENTS, tmp_path), given)
    assert capsys.readouterr().out == "apples\n"
    return given


def test_another_schema(shop, tmp_path):
    exec(example(ALTERED, tmp_path), shop)
    assert values(tmp_path, "orders")[0]["unit"] == "piece"


@pytest.mark.deep
def test_the_examples_with_spark(spark, shop, tmp_path, capsys):
    exec(example(SPARK, tmp_path), {"spark": spark})
    assert "apples" in capsys.readouterr().out
    Admin(f"{tmp_path}/shop")
    shop["Producer"](f"{tmp_path}/shop").send("orders", b"broken").result(timeout=60)
    code = example(STREAM, tmp_path)
    exec(code, {**shop, "spark": spark})
    assert [value["item"] for value in values(tmp_path, "checked")] == ["apples", "pears"]
    assert values(tmp_path, "broken-orders") == [b"broken"]


def test_the_formats():
    rows = re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)
    assert {*rows, "bytes"} == {*TOPIC["value.format"].type.choices}
