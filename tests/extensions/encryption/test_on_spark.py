"""An encrypted log in Spark: the driver and each task read the keys for themselves; without them nothing is written."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from spark_eos import Admin
from spark_eos.spark.start import start_query
from spark_eos.spark.table import read_table
from tests.spark.conftest import Bench

MARKER = "a-value-that-no-file-may-show"
ROWS = 40


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"one": base64.b64encode(b"1" * 32).decode()}))
    return {"encryption.keys": f"file:{path}", "encryption.key.id": "one"}


@pytest.fixture
def written(spark, tmp_path, keys):
    """A log whose topic ``in`` was written by a batch job."""
    url = str(tmp_path / "encrypted")
    Admin(url, keys).create_topic("in", 2)
    frame = spark.range(ROWS).selectExpr(f"concat('{MARKER}-', id) AS value")
    frame.repartition(2).write.format("eoslog").options(**keys, topic="in").mode("append").save(url)
    return url


def values(frame):
    return sorted(int(str(row.value).rpartition("-")[2].rstrip("')")) for row in frame.collect())


@pytest.mark.deep
def test_batch_stream_and_table(spark, written, keys, tmp_path):
    source = spark.readStream.format("eoslog").options(**keys, subscribe="in", startingOffsets="earliest")
    for _ in range(2):  # The second run finds everything done.
        writer = source.load(written).select("key", "value").writeStream.format("eoslog")
        writer = writer.options(**keys, topic="out", checkpointLocation=str(tmp_path / "cp"))
        start_query(lambda: writer.trigger(availableNow=True).start(written)).awaitTermination()  # noqa: B023
    for topic in ("in", "out"):
        frame = spark.read.format("eoslog").options(**keys, subscribe=topic).load(written)
        assert values(frame.selectExpr("CAST(value AS STRING) AS value")) == [*range(ROWS)]
        table = read_table(spark, written, topic, options=keys)
        assert values(table.selectExpr("CAST(value AS STRING) AS value")) == [*range(ROWS)]
    files = [path for path in Path(written).rglob("*") if path.is_file()]
    assert len([path for path in files if path.parts[-3] == "data"]) >= 3
    assert not [path for path in files if MARKER.encode() in path.read_bytes()]


def test_without_keys_nothing_is_read_or_written(spark, written):
    before = Bench(written).state.seq
    with pytest.raises(PySparkException, match=r"encryption\.keys"):
        spark.read.format("eoslog").options(subscribe="in").load(written).collect()
    frame = spark.sql("SELECT 'plain' AS value")
    with pytest.raises(PySparkException, match=r"encryption\.keys"):
        frame.write.format("eoslog").options(topic="in").mode("append").save(written)
    assert Bench(written).state.seq == before


@pytest.mark.deep
def test_a_task_that_has_no_keys(spark, written, monkeypatch, keys):
    """The driver has the variable, and Spark's workers, which began before, have not."""
    path = keys["encryption.keys"].removeprefix("file:")
    monkeypatch.setenv("KEYS_OF_THE_DRIVER_ALONE", Path(path).read_text("utf-8"))
    alone = {**keys, "encryption.keys": "env:KEYS_OF_THE_DRIVER_ALONE"}
    before = Bench(written).state.seq
    with pytest.raises(PySparkException, match="env:KEYS_OF_THE_DRIVER_ALONE"):
        spark.read.format("eoslog").options(**alone, subscribe="in").load(written).collect()
    frame = spark.sql("SELECT 'more' AS value")
    with pytest.raises(PySparkException, match="env:KEYS_OF_THE_DRIVER_ALONE"):
        frame.write.format("eoslog").options(**alone, topic="in").mode("append").save(written)
    assert Bench(written).state.seq == before
