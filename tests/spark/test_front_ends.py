"""Threads, catalogs and SQL: what reaches the source and the sink by other ways than a main program's."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from spark_eos.errors import EosLogError
from spark_eos.spark.options import parse_source
from spark_eos.spark.sink.commit import truncation
from spark_eos.spark.source.batch import EosLogBatchReader
from spark_eos.spark.start import prepare_thread, start_query
from spark_eos.spark.topics import source_schema

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "spark.md"


def in_thread(work):
    """What ``work`` returns or raises in a thread that Python has started."""
    found = []

    def run():
        try:
            found.append(work())
        except Exception as error:  # noqa: BLE001  (it is looked at)
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


@pytest.fixture
def writer(streams, bench, tmp_path):
    bench.produce("src", range(5))
    frame = streams.read().select("key", "value").writeStream.format("eoslog").option("topic", "out")
    return frame.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True)


@pytest.mark.deep
def test_a_query_is_started_in_a_thread(writer, bench):
    # The statement about Spark that this rests on: a thread of Python has no active session, and finds nothing.
    assert "[DATA_SOURCE_NOT_FOUND]" in str(in_thread(lambda: writer.start(bench.url)))
    query = in_thread(lambda: start_query(lambda: writer.start(bench.url)))
    query.awaitTermination()
    assert bench.values("out") == [*range(5)]


@pytest.mark.deep
def test_rows_are_written_in_a_thread_that_is_prepared(spark, bench):
    rows = spark.range(3).selectExpr("cast(id as string) value").write.format("eoslog").mode("append")
    assert "[DATA_SOURCE_NOT_FOUND]" in str(in_thread(lambda: rows.save(bench.url, topic="out")))

    def write():
        prepare_thread(spark)
        rows.save(bench.url, topic="out")

    assert in_thread(write) is None
    assert bench.values("out") == [0, 1, 2]


@pytest.mark.deep("a value of an option", "an option of a sink")
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger='many': expected a whole number"),
        ({"startingOffsets": "soon"}, "startingOffsets='soon': expected earliest, latest, committed"),
        ({"topic": "out"}, "topic belongs to df.writeStream and df.write"),
    ],
    ids=["a number", "a value of an option", "an option of a sink"],
)
def test_wrong_stream_options_are_told_by_load(streams, bench, given, told):
    bench.topic("src")
    with pytest.raises(Exception, match=re.escape(told)):
        streams.read(**given)


@pytest.mark.deep
def test_an_option_of_batches_ends_a_stream_with_that_error_alone(streams, bench):
    bench.topic("src")
    with pytest.raises(
        Exception, match=r"endingOffsets belongs to spark\.read, not to spark.readStream"
    ) as error:
        streams.copy(source={"endingOffsets": "latest"})
    assert "UnboundLocalError" not in str(error.value)


@pytest.fixture
def sql(spark, bench):
    """Runs a statement in which LOG is the log; drops what it has made."""
    before = {table.name for table in spark.catalog.listTables()}

    def run(text):
        return [tuple(row) for row in spark.sql(text.replace("LOG", bench.url)).collect()]

    yield run
    for table in spark.catalog.listTables():
        if table.name not in before:
            kind = "TABLE" if table.tableType in {"MANAGED", "EXTERNAL"} else "VIEW"
            spark.sql(f"DROP {kind} IF EXISTS {table.name}")


@pytest.mark.deep
def test_statements_of_the_docs(sql, spark, bench):
    """docs/reference/spark.md, SQL: each of its statements, in order."""
    blocks = re.findall(r"^```sql\n(.*?)^```", DOCS.read_text(), re.DOTALL | re.MULTILINE)
    statements = [text.strip() for block in blocks for text in re.sub(r" *-- .*", "", block).split(";")]
    spark.range(3).write.format("eoslog").mode("append").save(bench.url, topic="ids")
    bench.produce("flights", range(2))
    said = [sql(text.replace("/logs/air", "LOG")) for text in statements if text]
    assert [rows for rows in said if rows] == [[(2,)], [(2,)], [(3,)], [(2,)], [(1,)], [(3,)]]
    assert bench.values("flights") == ["LH 3"]


@pytest.mark.deep
def test_a_table_takes_its_columns_from_the_topic_and_its_options_from_each_statement(sql, spark, bench):
    spark.range(3).write.format("eoslog").mode("append").save(bench.url, topic="ids")
    sql("CREATE TABLE ids USING eoslog OPTIONS (path 'LOG', subscribe 'ids')")
    assert sorted(sql("SELECT * FROM ids WITH (path = 'LOG', subscribe = 'ids')")) == [(0,), (1,), (2,)]
    sql("INSERT INTO ids WITH (path = 'LOG', topic = 'ids') VALUES (3L)")
    assert sql("SELECT sum(id) FROM ids WITH (path = 'LOG', subscribe = 'ids')") == [(6,)]
    with pytest.raises(
        Exception, match="no option of a catalog's table; they are given with each statement: SELECT"
    ):
        sql("SELECT * FROM ids")
    with pytest.raises(
        Exception, match="no option of a catalog's table; they are given with each statement: INSERT"
    ):
        sql("INSERT INTO ids VALUES (4L)")


@pytest.mark.deep
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("CREATE TABLE t USING eoslog", "no option of a catalog's table"),
        ("CREATE TABLE t USING eoslog OPTIONS (path 'LOG', subscribe 'none')", "no topic 'none'"),
        (
            "CREATE TABLE t USING eoslog OPTIONS (path 'LOG', topic 'out') AS SELECT 'a' AS value",
            "no path is given",
        ),
        ("CREATE TABLE t USING eoslog OPTIONS (path 'LOG', subscribe 'src', a '1')", "unknown option 'a'"),
    ],
)
def test_what_cannot_be_a_table_is_refused_before_anything_is_written(sql, spark, bench, text, told):
    bench.produce("src", range(2))
    before = bench.state.seq
    with pytest.raises(Exception, match=re.escape(told)):
        sql(text)
    assert not spark.catalog.tableExists("t")
    assert bench.state.seq == before


@pytest.mark.deep
def test_writers_that_name_a_table(sql, spark, bench, streams, tmp_path):
    rows = spark.range(2).selectExpr("cast(id as string) value")
    given = {"path": bench.url, "topic": "out"}
    rows.write.format("eoslog").options(**given).mode("append").saveAsTable("saved")
    rows.writeTo("saved").options(**given).append()
    assert bench.values("out") == [0, 0, 1, 1]
    rows.write.format("eoslog").options(**given).mode("overwrite").saveAsTable("saved")
    assert bench.values("out") == [0, 1]
    stream = streams.read("out").select("value").writeStream.format("eoslog").trigger(availableNow=True)
    stream = stream.option("path", bench.url).option("topic", "copy")
    start_query(lambda: stream.toTable("copied", checkpointLocation=str(tmp_path / "cp"))).awaitTermination()
    assert bench.values("copy") == [0, 1]
    with pytest.raises(Exception, match="no path is given"):
        rows.write.format("eoslog").option("topic", "out").mode("append").saveAsTable("saved")
    assert bench.values("out") == [0, 1]
    sql("DROP TABLE saved")  # The log stays: it is no part of the table.
    assert bench.values("out") == [0, 1]


def test_rows_of_a_plan_are_those_of_then_until_their_files_are_gone(bench):
    bench.produce("src", range(2))
    given = parse_source({"path": bench.url, "subscribe": "src"}, streaming=False)
    reader = EosLogBatchReader(given, source_schema(given))
    tasks = reader.partitions()

    def read():
        return [int(row) for task in tasks for rows in reader.read(task) for row in rows["value"].to_pylist()]

    bench.log.commit(lambda state: truncation(state, "src"))
    bench.produce("src", range(10, 12))
    assert read() == [0, 1]
    for name in bench.files("src") - bench.referenced("src"):
        bench.log.store.delete(name)
    with pytest.raises(EosLogError, match=r"make it again, with spark\.read\.\.\.load\(\)"):
        read()


@pytest.mark.deep
def test_a_dataframe_is_planned_once_and_says_so_when_its_files_are_gone(spark, bench, streams):
    rows = spark.range(2).selectExpr("cast(id as string) value").write.format("eoslog")
    rows.mode("append").save(bench.url, topic="src")
    frame = streams.batch("src")
    assert frame.count() == 2
    rows.mode("overwrite").save(bench.url, topic="src")
    rows.mode("append").save(bench.url, topic="src")
    assert (frame.count(), frame.where("offset >= 2").count(), streams.batch("src").count()) == (2, 0, 4)
    for name in bench.files("src") - bench.referenced("src"):
        bench.log.store.delete(name)
    with pytest.raises(Exception, match=r"make it again, with spark\.read\.\.\.load\(\)"):
        frame.count()
    assert streams.batch("src").count() == 4
