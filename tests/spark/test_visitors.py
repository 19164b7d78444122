"""Spark that comes for a moment: no plan waits for a transaction that is past its time."""

from __future__ import annotations

import time

import pytest

from spark_eos import Admin, Producer
from spark_eos.log.log import Log
from spark_eos.spark.options import parse_source
from spark_eos.spark.schema import kafka_schema
from spark_eos.spark.source.batch import EosLogBatchReader
from spark_eos.spark.source.source import EosLogStreamReader
from spark_eos.spark.version import ReadAllAvailable


@pytest.fixture
def url(tmp_path):
    """A log with a dead producer's streamed transaction before a record, and past its time."""
    url = str(tmp_path / "log")
    log = Log.create(url)
    Admin(log).create_topic("t", 1)
    dead = Producer(log, {"transactional.id": "dead", "transaction.timeout.ms": 500})
    dead.init_transactions()
    dead.begin_transaction()
    dead.send("t", "never")
    dead.flush()
    with Producer(Log.open(url)) as producer:
        producer.send("t", "behind")
    time.sleep(1.6)  # The timeout, and the second by which times may be rounded.
    return url


def test_a_batch_read_on_spark(spark, url):
    frame = spark.read.format("eoslog").option("path", url).option("subscribe", "t").load()
    assert [bytes(row.value) for row in frame.select("value").collect()] == [b"behind"]


def test_plans_of_a_batch_read_and_of_a_stream(url):
    given = {"path": url, "subscribe": "t", "startingOffsets": "earliest"}
    source = EosLogStreamReader(parse_source(given, streaming=True), kafka_schema())
    assert source.latestOffset(source.initialOffset(), ReadAllAvailable())["t"] == {"0": 3}
    batch = EosLogBatchReader(parse_source(given, streaming=False), kafka_schema())
    assert batch.partitions()
