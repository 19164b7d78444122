"""Streaming queries"""

from __future__ import annotations

import inspect
import json
import re
import struct
import time
import zlib

import pytest
from pyspark.errors import IllegalArgumentException, StreamingQueryException
from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter

from spark_eos.spark.start import start_query
from tests.spark_facts.plain import SHOWN
from tests.sparks import SPARK

pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def life(queries):
    """A query whose first commit fails; started again it reads 30 rows in threes of ten; then it finds nothing new."""
    made = queries("life")
    made.recording.put("end-a", 30)
    made.recording.put("commit", "fails")
    made.run(made.stream(), Some_Option="Kept")
    made.recording.put("commit", "")
    made.run(made.stream())
    made.run(made.stream())
    return made


@pytest.fixture(scope="module")
def union(queries, tmp_path_factory):
    """Five sources, run twice on one DataFrame.

    ``b`` has nothing new in the second run, ``c`` is filtered away, ``d`` is cut to no rows, and a folder
    without files never has an offset.
    """
    made = queries("union")
    empty = made.spark.readStream.text(str(tmp_path_factory.mktemp("no files")))
    frame = made.stream("a").union(made.stream("b")).union(made.stream("c").where("1 = 0"))
    frame = frame.union(made.stream("d").limit(0)).union(empty.selectExpr("cast(value as bigint)"))
    for end in (10, 20):
        for who in "acd":
            made.recording.put(f"end-{who}", end)
        made.recording.put("end-b", 10)
        made.run(frame)
    return made


@pytest.fixture(scope="module")
def counted(queries):
    """Counts in complete mode, in one batch that takes all; the checkpoint comes from the session's settings."""
    made = queries("counted")
    made.recording.put("end-a", 30)
    key = "spark.sql.streaming.checkpointLocation"
    made.spark.conf.set(key, str(made.checkpoint))
    try:
        writer = made.stream().groupBy("id").count().writeStream.format("plain").outputMode("complete")
        writer = writer.option("record", str(made.recording.folder)).queryName("counted")
        start_query(writer.trigger(once=True).start).awaitTermination()
    finally:
        made.spark.conf.unset(key)
    return made


def one(calls, name, **fields):
    (found,) = (
        call
        for call in calls
        if call["call"] == name and all(call.get(key) == value for key, value in fields.items())
    )
    return found


def called(calls, *wanted):
    """The names of calls, in order; of these only, if any are named."""
    return [call["call"] for call in calls if not wanted or call["call"] in wanted]


def of_driver(calls):
    """The calls on the copy of the reader that the query itself asks."""
    copy = next(call["copy"] for call in calls if call["call"] in {"initialOffset", "latestOffset"})
    return [call for call in calls if call.get("copy") == copy]


# -- where a query begins -----------------------------------------------------------------------------


@pytest.mark.since("4.2")
def test_initial_offset_is_asked_twice_in_batch_0_and_the_second_answer_is_planned(life):
    """`initialOffset` is called before the first `latestOffset`, and again when batch 0 is planned, after
    `offsets/0` was written. `partitions` is given the later answer as its start.

    Rests on it: `spark_eos/spark/source/source.py`.
    """
    first = of_driver(life.runs[0])
    assert called(first, "initialOffset", "latestOffset", "partitions") == [
        "initialOffset",
        "latestOffset",
        "initialOffset",
        "partitions",
    ]
    asked = [call for call in first if call["call"] == "initialOffset"]
    assert [call["answer"] for call in asked] == [0, 1]
    assert [call["begun"] for call in asked] == [[], [0]]
    assert one(first, "latestOffset")["start"] == {"at": 0}
    assert one(first, "partitions")["start"] == {"at": 1}


@pytest.mark.since("4.2")
def test_initial_offset_is_asked_again_after_a_restart_until_batch_0_is_done(life):
    """Nothing in the checkpoint says where batch 0 began: a restart calls `initialOffset` again and plans batch 0
    from that answer. Once batch 0 is done it is not called any more.

    Rests on it: `spark_eos/spark/source/source.py`, `spark_eos/spark/source/offsets.py`.
    """
    _, second, third = life.runs
    assert one(second, "initialOffset")["answer"] == 2
    assert next(call["start"] for call in second if call["call"] == "partitions") == {"at": 2}
    assert (life.checkpoint / "offsets" / "0").read_text().split("\n")[2:] == ['{"at": 10}']
    assert "initialOffset" not in called(third)


def test_a_restart_replays_the_same_batch_and_plans_it_without_asking_for_the_latest_offset(life):
    """After a crash the same query id and batch id are run again, to the end that is in `offsets/<batch>`, under
    another run id. `partitions` comes before any `latestOffset`.

    Rests on it: `spark_eos/spark/source/source.py`, `spark_eos/spark/sink/sink.py`,
    `spark_eos/protocol/actions/queries/microbatch.py`.
    """
    first, second, _ = life.runs
    assert called(of_driver(second), "latestOffset", "partitions")[0] == "partitions"
    ends = [call["end"] for run in (first, second) for call in run if call["call"] == "partitions"]
    assert ends[:2] == [{"at": 10}, {"at": 10}]
    assert [call["batch"] for call in first + second if call["call"] == "commit"] == [0, 0, 1, 2]
    assert first[-1]["query_id"] == second[-1]["query_id"]
    assert first[-1]["run_id"] != second[-1]["run_id"]


@pytest.mark.skipif(SPARK >= (4, 2), reason="since Spark 4.2 the start is an argument of latestOffset")
def test_before_4_2_a_restart_plans_an_empty_batch_at_the_newest_end_and_latest_offset_gets_no_start(life):
    """`latestOffset` gets neither start nor limit, and comes before `initialOffset`. At a restart `partitions` comes
    first, from the newest end in `offsets` to that end, so that a source may know where it is; then the batch that was
    not done.

    Rests on it: `spark_eos/spark/source/source.py`.
    """
    first, second, third = (of_driver(run) for run in life.runs)
    names = ("initialOffset", "latestOffset", "partitions")
    assert called(first, *names)[:3] == ["latestOffset", "initialOffset", "partitions"]
    assert {(call["start"], call["limit"]) for call in first if call["call"] == "latestOffset"} == {
        (None, None)
    }
    planned = [(call["start"], call["end"]) for call in second if call["call"] == "partitions"]
    assert planned[0] == ({"at": 10}, {"at": 10})
    assert planned[1][1] == {"at": 10}
    assert planned[1][0] != {"at": 10}
    planned = [(call["start"], call["end"]) for call in third if call["call"] == "partitions"]
    assert planned == [({"at": 30}, {"at": 30})]


# -- offsets ------------------------------------------------------------------------------------------


def test_offsets_are_compared_as_text(queries):
    """Another order of the keys in the answer of `latestOffset` is news: the query runs batch after batch without
    rows.

    Rests on it: `spark_eos/spark/source/offsets.py`.
    """
    made = queries("keys")
    query = made.start(made.stream(keys="in turn"), trigger={"processingTime": "0 seconds"})
    try:
        end = time.monotonic() + 300
        while len(made.recording.calls("commit")) < 3:
            assert time.monotonic() < end, "waited 300 s for three batches"
            time.sleep(0.05)
    finally:
        query.stop()
    assert {tuple(call["rows"]) for call in made.recording.calls("write")} == {()}
    assert [call["batch"] for call in made.recording.calls("commit")][:3] == [0, 1, 2]


def test_a_batch_writes_its_offsets_before_it_runs_and_is_done_after_the_commit(life):
    """`offsets/<batch>` is there in every `partitions`, `write` and `commit` of the batch; `commits/<batch>` only
    after the sink's `commit`.

    Rests on it: `spark_eos/spark/sink/checkpoint.py`, `spark_eos/spark/sink/source_progress.py`.
    """
    for run in life.runs[:2]:
        for commit in (call for call in run if call["call"] == "commit"):
            batch = commit["batch"]
            assert commit["begun"] == list(range(batch + 1))
            assert commit["done"] == list(range(batch))
        assert all(call["begun"] for call in run if call["call"] in {"partitions", "write"})
    assert life.runs[2][0]["done"] == [0, 1, 2]


def test_the_offsets_of_a_batch_are_text_of_version_1_with_one_line_for_each_source(life, union):
    """`offsets/<batch>` is `v1`, a line of JSON about the query, and for each source, in the order of the plan, the
    very text that `latestOffset` gave (`-`: a source that has had nothing yet).

    Rests on it: `spark_eos/spark/sink/checkpoint.py`.
    """
    version, about, offset = (life.checkpoint / "offsets" / "1").read_text().split("\n")
    assert version == "v1"
    assert isinstance(json.loads(about), dict)
    assert offset == json.dumps({"at": 20})
    lines = (union.checkpoint / "offsets" / "1").read_text().split("\n")[2:]
    assert lines == ['{"at": 20}', '{"at": 10}', '{"at": 20}', '{"at": 20}', "-"]


def test_files_of_a_checkpoint_have_sums_beside_them(life):
    """Beside `offsets/<batch>` lies `.<batch>.crc`: `crc\\0`, the size of a chunk, and the CRC-32 of each chunk.

    Rests on it: `spark_eos/spark/sink/checkpoint.py`.
    """
    data = (life.checkpoint / "offsets" / "1").read_bytes()
    sums = (life.checkpoint / "offsets" / ".1.crc").read_bytes()
    magic, size = struct.unpack(">4si", sums[:8])
    assert magic == b"crc\0"
    pages = [data[at : at + size] for at in range(0, len(data), size)]
    assert sums[8:] == b"".join(struct.pack(">I", zlib.crc32(page)) for page in pages)


def test_the_id_of_a_query_is_in_its_checkpoint(life):
    """`metadata` in the checkpoint is JSON whose `id` is the query's id.

    Rests on it: `spark_eos/spark/sink/checkpoint.py`.
    """
    assert json.loads((life.checkpoint / "metadata").read_text())["id"] == life.runs[0][-1]["query_id"]


def test_the_reader_hears_of_a_batch_during_the_next_one_and_never_of_the_last(life):
    """`commit(end)` of the reader for a batch comes after `offsets/<batch + 1>` was written. In an AvailableNow run it
    never comes for the last batch, also not when the query is started again and finds nothing new.

    Rests on it: `spark_eos/spark/source/source.py`.
    """
    heard = [call for run in life.runs for call in run if call["call"] == "commit offsets"]
    assert [(call["end"]["at"], max(call["begun"]), max(call["done"])) for call in heard] == [
        (10, 1, 0),
        (20, 2, 1),
    ]


def test_the_reader_is_not_told_that_a_query_ends(life):
    """`stop()` of the reader is called neither at a good end nor after an error of the sink.

    Rests on it: `spark_eos/spark/source/source.py`.
    """
    assert "stop" not in called(life.recording.calls())


# -- limits and triggers ------------------------------------------------------------------------------


@pytest.mark.since("4.2")
def test_latest_offset_is_given_the_default_limit_of_the_reader(life):
    """`latestOffset(start, limit)` gets the end of the last batch and the reader's own `getDefaultReadLimit()`, which
    is asked once for each run.

    Rests on it: `spark_eos/spark/source/source.py`.
    """
    asked = [call for call in life.runs[1] if call["call"] == "latestOffset"]
    assert [call["start"]["at"] for call in asked] == [10, 20, 30]
    assert {json.dumps(call["limit"]) for call in asked} == {'["ReadMaxRows", {"max_rows": 10}]'}
    assert called(life.runs[1]).count("getDefaultReadLimit") == 1


@pytest.mark.since("4.2")
def test_a_least_number_of_rows_comes_back_and_the_start_as_an_answer_waits(queries):
    """A default limit of `ReadMinRows` comes back in each `latestOffset`. As long as that answers with its start there
    is no further micro-batch, and no sink is made: that follows the answer of the source.

    Rests on it: `spark_eos/spark/source/source.py`, `spark_eos/spark/option_names.py`.
    """
    made = queries("least")
    made.recording.put("end-a", 3)
    query = made.start(made.stream(least="5"), trigger={"processingTime": "0 seconds"})

    def wait(what, count):
        end = time.monotonic() + 300
        while len(made.recording.calls(what)) < count:
            assert time.monotonic() < end, f"waited 300 s for {what}"
            time.sleep(0.02)

    try:
        wait("commit", 1)
        asked = len(made.recording.calls("latestOffset"))
        wait("latestOffset", asked + 5)
        assert len(made.recording.calls("commit")) == 1
        made.recording.put("end-a", 9)
        wait("commit", 2)
    finally:
        query.stop()
    calls = made.recording.calls("latestOffset", "StreamWriter")
    assert calls[0]["call"] == "latestOffset"
    limits = {json.dumps(call["limit"]) for call in calls if call["call"] == "latestOffset"}
    assert limits == {'["ReadMinRows", {"min_rows": 5}]'}


@pytest.mark.since("4.2")
def test_available_now_is_announced_before_anything_is_asked(life):
    """An AvailableNow run calls `prepareForTriggerAvailableNow` once, before `initialOffset`, `latestOffset` and
    `partitions`. It goes on until `latestOffset` has nothing new.

    Rests on it: `spark_eos/spark/source/source.py`.
    """
    for run in life.runs:
        assert called(of_driver(run))[1] == "prepareForTriggerAvailableNow"
        assert called(run).count("prepareForTriggerAvailableNow") == 1
    last = [call for call in life.runs[1] if call["call"] == "latestOffset"][-1]
    assert last["start"] == last["answer"]


@pytest.mark.since("4.2")
def test_trigger_once_asks_for_everything(counted):
    """`trigger(once=True)` passes `ReadAllAvailable`, whatever the default limit of the reader is.

    Rests on it: `spark_eos/spark/source/source.py`.
    """
    asked = one(counted.recording.calls(), "latestOffset")
    assert asked["limit"] == ["ReadAllAvailable", {}]
    assert (
        sum(sum(call["rows"]) for call in counted.recording.calls("write")) == 29
    )  # The second answer is 1.


@pytest.mark.since("4.2")
def test_the_end_for_the_progress_is_asked_after_each_latest_offset(life):
    """`reportLatestOffset` follows each `latestOffset`.

    Rests on it: `spark_eos/spark/source/source.py`.
    """
    asked = called(of_driver(life.runs[1]), "latestOffset", "reportLatestOffset")
    assert asked == ["latestOffset", "reportLatestOffset"] * 3


# -- several sources ----------------------------------------------------------------------------------


@pytest.mark.since("4.2")
def test_a_source_without_news_is_not_planned(union):
    """Where only other sources of a query have something new, a source is asked for its latest offset, and told of the
    last batch, but `partitions` is not called and no task reads it.

    Rests on it: `spark_eos/spark/sink/source_progress.py`, `spark_eos/spark/sink/proof.py`.
    """
    second = [call for call in union.runs[1] if call.get("who") == "b"]
    assert called(second, "latestOffset", "commit offsets", "partitions", "read") == [
        "latestOffset",
        "commit offsets",
        "latestOffset",
    ]


def test_a_stream_behind_a_filter_that_nothing_passes_is_read_all_the_same(union):
    """A filter that is constantly false takes no stream out of the plan (it takes a batch read out of it).

    Rests on it: `spark_eos/spark/sink/source_progress.py`, `spark_eos/spark/sink/proof.py`.
    """
    filtered = [call for call in union.recording.calls(who="c") if call["call"] in {"partitions", "read"}]
    assert called(filtered, "read") == ["read", "read"] * 2


@pytest.mark.since("4.2")
def test_a_stream_cut_to_no_rows_is_not_planned_though_its_offsets_go_on(union):
    """`limit(0)` takes a stream out of the plan: `partitions` is never called and no task reads it, but its offsets go
    on in the checkpoint with each batch.

    Rests on it: `spark_eos/spark/sink/source_progress.py`, `spark_eos/spark/sink/proof.py`.
    """
    assert {"partitions", "read"}.isdisjoint(called(union.recording.calls(who="d")))
    lines = [(union.checkpoint / "offsets" / batch).read_text().split("\n")[5] for batch in "01"]
    assert lines == ['{"at": 10}', '{"at": 20}']


# -- processes and copies -----------------------------------------------------------------------------


def test_one_copy_of_the_reader_answers_for_a_run(life):
    """All questions of a run go to one reader in one Python process of its own; the next run has another process.

    Rests on it: `spark_eos/spark/source/source.py`.
    """
    asked = {"initialOffset", "latestOffset", "partitions", "commit offsets"}
    copies = [{(c["copy"], c["pid"]) for c in run if c["call"] in asked} for run in life.runs]
    assert [len(found) for found in copies] == [1, 1, 1]
    assert len({pid for found in copies for _, pid in found}) == 3


def test_tasks_read_with_another_copy_of_the_reader_that_may_be_as_old_as_the_dataframe(life, union):
    """Tasks are given a copy of a second reader, made by `streamReader` in another process when the first batch of a
    DataFrame is planned: one for all batches, and for later runs of the same DataFrame as well.

    Rests on it: `spark_eos/spark/source/source.py`, `spark_eos/spark/source/scan.py`.
    """
    second = life.runs[1]
    assert len({call["copy"] for call in second if call["call"] == "read"}) == 1
    assert {call["copy"] for call in second if call["call"] == "read"}.isdisjoint(
        call["copy"] for call in of_driver(second)
    )
    copies = [
        {call["copy"] for call in run if call["call"] == "read" and call["who"] == "a"} for run in union.runs
    ]
    assert copies[0] == copies[1]


def test_every_batch_has_a_new_writer_and_another_one_commits_it(life):
    """`streamWriter` is called for each batch, in one process, and again for each `commit` and `abort`, in another
    process; what tasks write with is a copy of the former.

    Rests on it: `spark_eos/spark/sink/sink.py`, `spark_eos/spark/datasource.py`.
    """
    for run in life.runs[:2]:
        made = {call["copy"]: call["pid"] for call in run if call["call"] == "StreamWriter"}
        commits = [call for call in run if call["call"] == "commit"]
        writes = {call["copy"] for call in run if call["call"] == "write"}
        assert len(writes) == len(commits)
        assert writes.isdisjoint(call["copy"] for call in commits)
        assert len({call["copy"] for call in commits}) == len(commits)
        assert {made[copy] for copy in writes}.isdisjoint(call["pid"] for call in commits)
        assert all(made[call["copy"]] == call["pid"] for call in commits)


def test_the_writers_of_all_batches_are_made_in_one_process_and_commit_in_one(life):
    """The process in which `streamWriter` is called for the batches stays; so does the process that commits, as long
    as no commit fails.

    Rests on it: `spark_eos/spark/sink/sink.py`.
    """
    second = life.runs[1]
    assert len({call["pid"] for call in second if call["call"] == "commit"}) == 1
    assert len({call["pid"] for call in second if call["call"] == "StreamWriter"}) == 2


def test_tasks_know_the_query_the_batch_and_the_run(life):
    """In `read` and `write` the local properties `sql.streaming.queryId`, `streaming.sql.batchId` and
    `spark.jobGroup.id` are the query's id, the batch and the run's id.

    Rests on it: `spark_eos/spark/sink/task.py`.
    """
    for run in life.runs[:2]:
        ended, batch = run[-1], 0
        for call in run:
            if call["call"] in {"read", "write"}:
                assert call["properties"] == {
                    "sql.streaming.queryId": ended["query_id"],
                    "streaming.sql.batchId": str(batch),
                    "spark.jobGroup.id": ended["run_id"],
                }
            batch += call["call"] == "commit"


# -- the sink -----------------------------------------------------------------------------------------


def test_a_failed_commit_is_followed_by_abort_with_the_same_messages_in_another_process(life):
    """After `commit` raised, `abort` is called for the same batch with the same messages, in another process than
    `commit`.

    Rests on it: `spark_eos/spark/sink/sink.py`.
    """
    first = life.runs[0]
    commit, abort = one(first, "commit"), one(first, "abort")
    assert (commit["batch"], commit["messages"]) == (abort["batch"], abort["messages"])
    assert commit["messages"][1:] == ["Message(rows=0, task=1)"]
    assert commit["pid"] != abort["pid"]


def test_a_failed_task_has_no_message_when_the_write_is_aborted(queries):
    """After a task failed `commit` is not called; `abort` gets None in its place, and in that of every other
    task that had not ended by then.

    Rests on it: `spark_eos/spark/sink/sink.py`.
    """
    made = queries("failed")
    made.recording.put("end-a", 10)
    made.recording.put("writer", "fails")
    made.run(made.stream())
    (abort,) = made.recording.calls("abort")
    assert abort["messages"][1] == "None"
    assert abort["messages"][0] in {"Message(rows=9, task=0)", "Message(rows=10, task=0)", "None"}
    assert not made.recording.calls("commit")


def test_a_task_without_rows_writes_too(life):
    """`write` is called in tasks that have no row, with no batches; its message counts as all others.

    Rests on it: `spark_eos/spark/sink/sink.py`.
    """
    assert one(life.runs[0], "write", task=1)["rows"] == []


def test_a_plan_without_tasks_still_writes_once(queries):
    """Where `partitions` of a stream returns nothing, one task still calls `write`, without rows, and the batch is
    committed with its offsets.

    Rests on it: `spark_eos/spark/sink/sink.py`.
    """
    made = queries("without")
    made.recording.put("end-a", 5)
    made.run(made.stream(tasks="0"))
    assert not made.recording.calls("read")
    assert made.recording.calls("commit")[0]["messages"] == ["Message(rows=0, task=0)"]
    assert made.recording.calls("commit")[0]["begun"] == [0]


def test_complete_mode_is_overwrite(counted, life):
    """The sink's `overwrite` is true in complete mode and false in append mode.

    Rests on it: `spark_eos/spark/sink/sink.py`.
    """
    assert {call["overwrite"] for call in counted.recording.calls("StreamWriter")} == {True}
    assert {call["overwrite"] for call in life.recording.calls("StreamWriter")} == {False}


def test_update_mode_is_refused(queries):
    """A query in update mode ends with an error before any writer is made.

    Rests on it: `spark_eos/spark/sink/sink.py`.
    """
    made = queries("update")
    made.recording.put("end-a", 5)
    made.run(made.stream().groupBy("id").count(), mode="update")
    (ended,) = made.recording.calls("ended")
    assert "does not support Update mode" in ended["error"]
    assert not made.recording.calls("StreamWriter")


def test_option_keys_are_lower_case(life):
    """Keys of options arrive in lower case, values as they are.

    Rests on it: `spark_eos/spark/option_names.py`.
    """
    options = life.recording.calls("StreamWriter")[0]["options"]
    assert options["some_option"] == "Kept"
    assert "Some_Option" not in options


def test_the_sink_sees_the_checkpoint_as_an_option_of_the_query_only(life, counted):
    """`checkpointLocation` and the query's name are options of the sink (in lower case), but a checkpoint from the
    setting `spark.sql.streaming.checkpointLocation` is not.

    Rests on it: `spark_eos/spark/sink/sink.py`, `spark_eos/spark/options.py`.
    """
    with_option = life.recording.calls("StreamWriter")[0]["options"]
    assert with_option["checkpointlocation"] == str(life.checkpoint)
    without = counted.recording.calls("StreamWriter")[0]["options"]
    assert "checkpointlocation" not in without
    assert without["queryname"] == "counted"


def test_progress_names_python_sources_and_sinks_by_java_objects(queries):
    """In a query's progress the description of a Python source or sink is a Java object's name, whatever `name()`,
    `__str__` or `__repr__` say, and `metrics` is empty. The ends that `reportLatestOffset` and `latestOffset` gave are
    in it as they are.

    Rests on it: `spark_eos/spark/progress.py`.
    """
    made = queries("progress")
    made.recording.put("end-a", 10)
    query = made.start(made.stream())
    query.awaitTermination()
    progress = json.loads(query.recentProgress[0].json)
    (source,) = progress["sources"]
    python = r"org\.apache\.spark\.sql\.execution\.datasources\.v2\.python\.Python"
    assert re.fullmatch(python + r"MicroBatchStream\w*@[0-9a-f]+", source["description"])
    assert re.fullmatch(python + r"Table@[0-9a-f]+", progress["sink"]["description"])
    assert not source.get("metrics")
    assert not progress["sink"].get("metrics")
    assert source["endOffset"] == {"at": 10}
    assert source["latestOffset"] == ({"at": 10} if SPARK < (4, 2) else {"reported": True})
    assert SHOWN not in query.recentProgress[0].json


def test_a_stream_is_given_neither_columns_nor_filters():
    """The interfaces of streams have no call that hands over filters, columns or metrics.

    Rests on it: `spark_eos/spark/source/source.py`.
    """
    calls = {
        name
        for kind in (DataSourceStreamReader, DataSourceStreamWriter)
        for name, _ in inspect.getmembers(kind)
    }
    since = set() if SPARK < (4, 2) else {"getDefaultReadLimit", "reportLatestOffset"}
    assert {name for name in calls if not name.startswith("_")} == since | {
        "abort",
        "commit",
        "initialOffset",
        "latestOffset",
        "partitions",
        "read",
        "stop",
        "write",
    }


@pytest.mark.since("4.2")
def test_real_time_mode_takes_neither_a_python_source_nor_a_python_sink(queries):
    """`trigger(realTime="5 seconds")` is refused for a Python source, and for a Python sink, before a batch is planned.

    Rests on it: `spark_eos/spark/source/source.py`, `spark_eos/spark/sink/sink.py`.
    """
    made = queries("real time")
    made.recording.put("end-a", 10)
    trigger = {"realTime": "5 seconds"}
    writer = made.stream().writeStream.format("console").outputMode("update").trigger(**trigger)
    query = start_query(writer.option("checkpointLocation", str(made.checkpoint)).start)
    with pytest.raises(StreamingQueryException, match=r"INPUT_STREAM_NOT_SUPPORTED.*PythonMicroBatchStream"):
        query.awaitTermination()
    rate = made.spark.readStream.format("rate").load().selectExpr("value AS id")
    with pytest.raises(IllegalArgumentException, match=r"NOT_IN_ALLOWLIST.*PythonTable"):
        made.start(rate, mode="update", trigger=trigger)
    assert not {"partitions", "write"} & {call["call"] for call in made.recording.calls()}
