"""The page shows every record that a writer can send: all types and shapes, with nulls at every level; and headers."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from spark_eos import Admin, Log, Producer
from spark_eos.extensions.ui.areas.records import records, show_record
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Question
from spark_eos.maintenance.rolling import Roller
from spark_eos.storage.memory import MemoryStore
from tests.clients.test_every_value import (
    KAFKA,
    NAMED,
    NAMELESS,
    TABLES,
    log_of,
    log_of_an_earlier_version,
    table_of,
)


def paged(log):
    """As the page shows it, by its place and by a search."""
    follower = Follower(log.store)
    try:
        follower.poll()
        shown = records(follower, Question({"topic": "t", "from": "start"}))
        records(follower, Question({"topic": "t", "from": "start", "search": "x"}))
        for row in shown["rows"]:
            show_record(follower, Question({"topic": "t", "partition": 0, "offset": row["offset"]}))
        return json.loads(json.dumps(shown))["rows"]
    finally:
        follower.close()


@settings(max_examples=12, suppress_health_check=[HealthCheck.data_too_large])
@given(TABLES)
def test_every_value_of_columns(given):
    is_shown(*given)


@pytest.mark.deep
@settings(max_examples=300, suppress_health_check=[HealthCheck.data_too_large])
@given(TABLES)
def test_many_values_of_columns(given):
    is_shown(*given)


def is_shown(schema, rows):
    log = log_of(table_of(schema, rows))
    assert len(paged(log)) == len(rows)
    assert Roller(log).run() or len(rows) == 1
    assert len(paged(log)) == len(rows)


@settings(max_examples=30)
@given(NAMED)
def test_every_record_of_kafka(rows):
    log = Log.create(MemoryStore())
    Admin(log).create_topic("t")
    with Producer(log) as producer:
        producer.send_arrow("t", pa.Table.from_pylist(rows, KAFKA))
    assert len(paged(log)) == len(rows)


@NAMELESS
def test_headers_that_an_earlier_version_took(header, monkeypatch):
    _, log = log_of_an_earlier_version(header, monkeypatch)
    assert [len(row["headers"]) for row in paged(log)] == [0, 0, 1, 2, 0]
