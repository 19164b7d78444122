"""A Python without its global lock: the fact is handed in, and a program has the lock again once it is needed."""

from __future__ import annotations

import sys

import pytest

from spark_eos import Consumer, Producer, TopicPartition
from spark_eos.errors import ConfigError
from spark_eos.storage import gil, open_store

TOLD = rf"without its global lock.*set PYTHON_GIL=1.*usual build of Python; {gil.UNTRIED}=true"


@pytest.fixture
def _without(monkeypatch):
    monkeypatch.delenv(gil.UNTRIED, raising=False)
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)


def test_the_usual_python_has_it():
    assert gil.has_gil()
    gil.check_gil(held=True)


@pytest.mark.usefixtures("_without")
def test_it_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match=TOLD), Producer(str(tmp_path / "log")) as producer:
        producer.send("orders", b"one")
    assert not (tmp_path / "log").exists()


@pytest.mark.usefixtures("_without")
@pytest.mark.parametrize("url", ["memory://gil", "s3://bucket/log", "file:///tmp/log"])
def test_every_kind_of_store_asks(url):
    with pytest.raises(ConfigError, match=TOLD):
        open_store(url)


@pytest.mark.usefixtures("_without")
def test_it_can_be_tried(tmp_path, monkeypatch):
    monkeypatch.setenv(gil.UNTRIED, "true")
    with Producer(str(tmp_path / "log")) as producer:
        producer.send("orders", b"one")
    with Consumer(str(tmp_path / "log"), {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        assert [record.value for record in consumer.poll(10_000)] == [b"one"]


def test_a_package_that_needs_it_turns_it_on(tmp_path, monkeypatch):
    answers = iter((False, True))
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: next(answers), raising=False)
    open_store(tmp_path)
    assert next(answers, "asked twice") == "asked twice"
