"""Batch reads and writes, and the columns"""

from __future__ import annotations

import inspect
import re

import pyspark.daemon
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException

from tests.sparks import SPARK

pytestmark = pytest.mark.deep
"""As what Spark does changes with Spark alone; the recordings of its calls are compared with the simulator's Spark."""

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def setting(spark):
    """Sets settings of the session, for one test."""
    changed = []

    def change(name, value):
        changed.append((name, spark.conf.get(name, None)))
        spark.conf.set(name, value)

    yield change
    for name, value in reversed(changed):
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


@pytest.fixture(scope="module")
def written(queries):
    """25,000 rows, written by one task, and a few by two tasks, of which the second one ends first."""
    made = queries("written")
    before = made.spark.conf.get("spark.sql.session.timeZone")
    made.spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        rows = made.spark.range(0, 25_000, 1, 1).selectExpr(
            "id", "cast(id as string) text", "cast('a' as binary) bytes", "timestamp_seconds(id) time"
        )
        made.write(rows, Some_Option="Kept", who="large")
    finally:
        made.spark.conf.set("spark.sql.session.timeZone", before)
    made.recording.put("slow task", 0)
    made.write(made.spark.range(0, 10, 1, 2), mode="overwrite", who="small")
    return made


def test_a_write_gets_batches_of_at_most_10000_rows(written):
    """Arrow batches for `write` have at most 10,000 rows.

    Rests on it: `spark_eos/log/data/writer.py`.
    """
    assert [call["rows"] for call in written.recording.calls("write", who="large")] == [
        [10_000, 10_000, 5_000]
    ]


def test_times_are_written_in_the_time_zone_of_the_session(written):
    """Timestamps for `write` carry the session's time zone. Text and bytes are never Arrow's large types.

    Rests on it: `spark_eos/log/data/convert.py`, `spark_eos/spark/schema.py`.
    """
    (call,) = written.recording.calls("write", who="large")
    assert call["types"] == {
        "id": "int64",
        "text": "string",
        "bytes": "binary",
        "time": "timestamp[us, tz=Europe/Berlin]",
    }


def test_messages_are_in_the_order_of_the_tasks(written):
    """`commit` gets the messages in the order of the tasks, whichever ended first.

    Rests on it: `spark_eos/spark/sink/task.py`.
    """
    ended = [call["task"] for call in written.recording.calls("written", who="small")]
    assert ended == [1, 0]
    (commit,) = written.recording.calls("commit", who="small")
    assert commit["messages"] == ["Message(rows=5, task=0)", "Message(rows=5, task=1)"]


def test_a_batch_write_knows_append_and_overwrite(written):
    """The writer's `overwrite` tells append and overwrite apart. The other modes, the default one among them, are
    refused by name before a writer is made, and so is `partitionBy`.

    Rests on it: `spark_eos/spark/source/batch.py`.
    """
    made = [(call["who"], call["overwrite"]) for call in written.recording.calls("Writer")]
    assert set(made) == {("large", False), ("small", True)}
    frame = written.spark.range(1)
    for mode in ("default", "error", "errorifexists", "ignore"):
        with pytest.raises(AnalysisException, match=r"UNSUPPORTED_DATA_SOURCE_SAVE_MODE.*Append.*Overwrite"):
            written.write(frame, mode=mode)
    with pytest.raises(AnalysisException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
        frame.write.format("plain").option("record", str(written.recording.folder)).save()
    assert len(written.recording.calls("Writer")) == len(made)
    with pytest.raises(IllegalArgumentException, match="partitioning"):
        frame.write.format("plain").mode("append").partitionBy("id").option("record", "/none").save()


def test_the_options_of_a_batch_write_are_in_lower_case_too(written):
    """Keys of options arrive in lower case in batch writes, values as they are.

    Rests on it: `spark_eos/spark/option_names.py`.
    """
    assert written.recording.calls("Writer")[0]["options"]["some_option"] == "Kept"


def test_a_task_has_to_return_a_message(queries):
    """`write` that returns None is an error of the task.

    Rests on it: `spark_eos/spark/sink/task.py`.
    """
    made = queries("no message")
    made.recording.put("writer", "no message")
    with pytest.raises(PySparkException, match="WriterCommitMessage"):
        made.write(made.spark.range(0, 1, 1, 1))
    assert not made.recording.calls("commit")


@pytest.mark.since("4.2")
@pytest.mark.parametrize(
    ("columns", "returned"),
    [
        ("id bigint not null, text string", "two columns"),
        ("id bigint", "not null"),
        ("id bigint, text string", "two columns in another order"),
        ("id bigint, text string", "large strings"),
        ("id bigint, text string", "a dictionary"),
        ("time timestamp", "times of another name"),
    ],
)
def test_the_first_batch_of_a_read_has_to_be_of_the_very_schema(queries, columns, returned):
    """The first Arrow batch that `read` returns has to have the declared columns in their order, with their types and
    nullability; timestamps in the zone "UTC" by that name, also where another name means the same.

    Rests on it: `spark_eos/spark/schema.py`, `spark_eos/spark/source/scan.py`.
    """
    made = queries("wrong")
    with pytest.raises(PySparkException, match="SCHEMA_MISMATCH"):
        made.batch(columns=columns, returns=returned).collect()


def test_a_read_of_the_very_schema_is_taken(queries):
    """A batch of the declared schema is taken, whatever the session's time zone is.

    Rests on it: `spark_eos/spark/schema.py`.
    """
    made = queries("right")
    assert made.batch(columns="id bigint, text string", returns="two columns").count() == 3
    assert made.batch(columns="time timestamp", returns="times").count() == 3


def test_a_plan_without_partitions_is_read_once_without_one(queries):
    """Where `partitions` of a batch read returns nothing, `read` is called once, with `InputPartition(None)` (before
    Spark 4.2: None).

    Rests on it: `spark_eos/spark/source/scan.py`.
    """
    made = queries("nothing")
    assert made.batch(returns="nothing").count() == 0
    stand_in = "None" if SPARK < (4, 2) else "InputPartition(value=None)"
    assert [call["partition"] for call in made.recording.calls("read")] == [stand_in]


def test_a_dataframe_is_planned_once(queries):
    """`partitions` of a batch read is called for the first action of a DataFrame; further actions on it read the same
    partitions again.

    Rests on it: `spark_eos/spark/source/batch.py`.
    """
    made = queries("planned")
    frame = made.batch()
    assert (frame.count(), frame.count()) == (3, 3)
    assert len(made.recording.calls("partitions")) == 1
    assert len(made.recording.calls("read")) == 2


def test_a_batch_read_that_a_stream_is_joined_with_is_planned_once(queries):
    """`partitions` of a batch read that a stream is joined with is called in the first micro-batch; the later ones read
    the same partitions again.

    Rests on it: `spark_eos/spark/source/batch.py`.
    """
    made = queries("joined")
    made.recording.put("end-a", 30)
    made.run(made.stream().join(made.batch(), "id"))
    assert len(made.recording.calls("partitions", who="")) == 1
    batches = [call["properties"]["streaming.sql.batchId"] for call in made.recording.calls("read", who="")]
    assert batches == ["0", "1", "2"]


def test_a_read_is_always_asked_for_all_columns(queries):
    """Where a query needs one column, the reader is still made with all and has to return all.

    Rests on it: `spark_eos/spark/source/scan.py`.
    """
    made = queries("columns")
    frame = made.batch(columns="id bigint, text string", returns="two columns").select("text")
    assert [row.text for row in frame.collect()] == ["a", "b", "c"]
    assert {tuple(call["columns"]) for call in made.recording.calls("reader")} == {("id", "text")}


def test_a_batch_read_behind_a_filter_that_nothing_passes_is_not_planned(queries):
    """A filter that is constantly false takes a batch read out of the plan.

    Rests on it: `spark_eos/spark/source/batch.py`.
    """
    made = queries("nothing passes")
    assert made.batch().where("1 = 0").count() == 0
    assert not made.recording.calls("partitions")


def test_a_reader_that_takes_filters_is_an_error_while_the_setting_is_off(queries):
    """A reader with `pushFilters` fails while `spark.sql.python.filterPushdown.enabled` is false, which is the
    default.

    Rests on it: `spark_eos/spark/source/batch.py`.
    """
    made = queries("off")
    assert made.spark.conf.get(PUSHDOWN) == "false"
    with pytest.raises(PySparkException, match=re.escape(PUSHDOWN)):
        made.batch(filters="yes").where("id > 0").count()


def test_filters_are_handed_to_batch_reads_while_the_setting_is_on(queries, setting):
    """With `spark.sql.python.filterPushdown.enabled=true` a batch reader with `pushFilters` gets comparisons of a
    column with a constant, `IN`, `IS NOT NULL`, prefixes of text, and their negations, those joined by AND one by one;
    nothing that has an OR or computes with the column.

    Rests on it: `spark_eos/spark/source/batch.py`.
    """
    made = queries("on")
    setting(PUSHDOWN, "true")
    frame = made.batch(filters="yes", columns="id bigint, text string", returns="two columns")
    frame = frame.where("id > 0 and id in (1, 2) and text like 'b%'")
    frame = frame.where("(id = 1 or text = 'x') and id % 2 = 1 and id != 7")
    assert [row.id for row in frame.collect()] == [1]
    (call,) = made.recording.calls("pushFilters")
    assert sorted(call["filters"]) == [
        "GreaterThan(attribute=('id',), value=0)",
        "In(attribute=('id',), value=[1, 2])",
        "IsNotNull(attribute=('id',))",
        "IsNotNull(attribute=('text',))",
        "Not(child=EqualTo(attribute=('id',), value=7))",
        "StringStartsWith(attribute=('text',), value='b')",
    ]


def test_queries_of_one_dataframe_share_what_a_filter_has_left(queries, setting):
    """A DataFrame has one plan of a Python source: what a reader leaves out for the filter of a query is missing in
    later queries without a filter, of which the source hears nothing, and in other parts of the same query. What the
    same `load()` gives again is whole.

    Rests on it: `spark_eos/spark/source/pushdown.py`, `spark_eos/spark/datasource.py`.
    """
    made = queries("shared")
    setting(PUSHDOWN, "true")
    frame = made.batch(filters="applied", who="one")
    assert frame.where("id = 1").count() == 1
    asked = len(made.recording.calls())
    assert frame.count() == 1, "of 3"
    assert {call["call"] for call in made.recording.calls()[asked:]} <= {"read"}
    assert frame.where("id = 2").count() == 1
    assert frame.where("id = 1").union(frame.where("id = 2")).count() == 1, "of 2"
    assert made.batch(filters="applied", who="one").count() == 3
    loads = {call["load"] for call in made.recording.calls("pushFilters")}
    assert len(loads) == 1, "all of them are copies of the object that `load()` made"


def test_a_reader_that_takes_no_filters_works_under_either_setting(queries, setting):
    """A batch reader without `pushFilters` is used under both values of `spark.sql.python.filterPushdown.enabled`;
    Spark filters the rows itself.

    Rests on it: `spark_eos/spark/source/batch.py`.
    """
    made = queries("neither")
    for value in ("false", "true"):
        setting(PUSHDOWN, value)
        assert [row.id for row in made.batch().where("id > 1").collect()] == [2]


def test_a_worker_collects_garbage_after_each_task():
    """`pyspark.daemon` calls `gc.collect()` between the tasks of a worker.

    Rests on it: `spark_eos/spark/workers.py`.
    """
    assert "gc.collect()" in inspect.getsource(pyspark.daemon)
