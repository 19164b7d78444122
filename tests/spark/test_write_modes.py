"""Modes of a batch write on Spark: what a Kafka or a Delta user tries first, and columns that a topic does not have."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException


@pytest.fixture
def written(spark, bench):
    """A row for topic ``out`` of a log that is not there yet."""
    frame = spark.createDataFrame([("1", "1")], "key string, value string")
    return lambda: frame.write.format("eoslog").option("topic", "out").option("path", bench.url)


@pytest.mark.parametrize("mode", [None, "default", "error", "errorifexists", "ignore"])
def test_spark_refuses_other_modes_before_anything_is_there(written, bench, mode):
    writer = written() if mode is None else written().mode(mode)
    with pytest.raises(AnalysisException) as caught:
        writer.save()
    assert caught.value.getCondition() == "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"
    assert 'use either the "Append" or "Overwrite" mode' in str(caught.value)
    assert not Path(bench.url).exists()


def test_append_and_overwrite(written, bench):
    written().mode("append").save()
    written().mode("append").save()
    assert bench.values("out") == [1, 1]
    written().mode("overwrite").save()
    assert bench.values("out") == [1]


def test_a_table_of_the_catalog_takes_all_modes(written, bench, spark):
    """Whether there is a table decides, and not whether there is a topic."""
    name, other = (f"t{uuid.uuid4().hex}" for _ in range(2))
    try:
        written().saveAsTable(name)
        assert bench.values("out") == [1]
        for mode in ("error", "errorifexists"):
            with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
                written().mode(mode).saveAsTable(name)
        written().mode("ignore").saveAsTable(name)
        assert bench.values("out") == [1]
        written().mode("ignore").saveAsTable(other)
        assert bench.values("out") == [1, 1]
        written().mode("append").saveAsTable(name)
        assert bench.values("out") == [1, 1, 1]
        written().mode("overwrite").saveAsTable(name)
        assert bench.values("out") == [1]
    finally:
        for table in (name, other):
            spark.sql(f"DROP TABLE IF EXISTS {table}")


def test_options_and_columns_that_do_not_fit_are_one_error(written, bench, spark):
    written().mode("append").save()
    frame = spark.createDataFrame([("1", 1, "x")], "value string, delay int, origin string")
    writer = frame.write.format("eoslog").mode("append").option("topic", "out")
    given = {"kafka.bootstrap.servers": "b:9092", "kafka.compression.type": "snappy"}
    with pytest.raises(AnalysisException) as caught:
        writer.options(**given).save(bench.url)
    text = str(caught.value)
    assert "3 things do not fit; this is all of them" in text
    assert "kafka.bootstrap.servers: there is no broker" in text
    assert "there is no snappy here: use lz4" in text
    assert "a Kafka-shaped topic has no columns 'delay', 'origin'; drop them, put them into value" in text
    assert ".drop('delay', 'origin') before the write leaves them out" in text
    assert bench.values("out") == [1]


@pytest.mark.deep
def test_a_log_that_is_deleted_and_made_again_in_one_session(spark, bench):
    """As notebooks do. The processes of Spark's tasks know the folders of the log that is gone."""
    for first in (0, 10, 20):
        frame = spark.range(first, first + 10).selectExpr("cast(id as string) value")
        frame.write.format("eoslog").option("topic", "out").mode("append").save(bench.url)
        assert spark.read.format("eoslog").option("subscribe", "out").load(bench.url).count() == 10
        shutil.rmtree(bench.url)
