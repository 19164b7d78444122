"""Who a query is to the log: its transactional id set, changed and dropped, its state, and the log itself."""

from __future__ import annotations

import shutil

import pytest
from pyspark.errors import StreamingQueryException

from spark_eos.errors import CheckpointMismatchError, StagedFileExpiredError
from spark_eos.protocol.actions import RaiseStagingFloor
from spark_eos.spark.sink.query_history import require_own_log


def forget_last(folder, number):
    """As if the driver had died between the sink's commit of a batch and Spark's own note of it."""
    for name in (str(number), f".{number}.crc"):
        (folder / "commits" / name).unlink()


@pytest.mark.deep
def test_transactional_id_set_changed_and_dropped_between_two_commits(streams, bench, tmp_path):
    bench.topic("src", 2)
    names = [{}, {"transactional_id": "x"}, {"transactional_id": "y", "group_id": "g"}, {}]
    for number, options in enumerate(names):
        bench.produce("src", range(10 * number, 10 * number + 10))
        streams.copy(**options)
        forget_last(tmp_path / "cp", number)
    streams.copy(transactional_id="x")
    assert bench.values("out") == [*range(40)]
    assert len(bench.state.queries) == 1


def test_a_run_under_the_old_id_is_fenced(bench, driver):
    old, new = driver(), driver(transactional_id="tx")
    old.run(0, "a")
    staged = old.stage("zombie")
    new.run(1, "b")
    with pytest.raises(Exception, match="has taken over"):
        old.commit(staged, 1)
    new.run(2, "c")
    assert bench.values("out") == ["a", "b", "c"]
    assert bench.files("out") == bench.referenced("out")


def test_which_log_a_query_has_written_to(bench, benches, checkpoint, driver):
    other = benches("other")
    other.topic("out")
    folder, none = str(checkpoint.path), f"{other.url}-none"
    for url in (bench.url, other.url, none):
        require_own_log(folder, url)  # It has written nothing yet.
    driver().run(0, "a")
    checkpoint.finish(0)
    require_own_log(folder, bench.url)
    for url, problem in ((other.url, "has no micro-batch of its query"), (none, "is no log")):
        with pytest.raises(CheckpointMismatchError, match=f"{problem}.*they went to another log"):
            require_own_log(folder, url)


def counts(streams, **source):
    frame = streams.read(group_id="g", **source).groupBy("key").count()
    return frame.selectExpr("key", "CAST(count AS STRING) AS value")


@pytest.mark.deep
def test_a_stateful_query_that_lost_its_checkpoint(streams, bench, tmp_path):
    """It would go on with empty state: refused, and accepted where the user says so."""
    sink = {"mode": "complete", "transactional_id": "tx"}
    bench.produce("src", [0, 1] * 5)
    streams.run(counts(streams), **sink)
    bench.produce("src", [0, 1] * 5)
    streams.run(counts(streams), **sink)
    assert bench.values("out") == [10, 10]
    shutil.rmtree(tmp_path / "cp")
    bench.produce("src", [0])
    for changed in ({}, {"transactional_id": "ty"}):
        with pytest.raises(StreamingQueryException, match=r"keeps state .* allowStateLoss=true"):
            streams.run(counts(streams, start="committed"), **{**sink, **changed, "checkpoint": "other"})
        shutil.rmtree(tmp_path / "other")
    assert bench.values("out") == [10, 10]
    streams.run(counts(streams, start="committed"), **sink, allowStateLoss="true")
    assert bench.values("out") == [1]


@pytest.mark.deep
def test_files_on_the_checkpoint_of_another_log(streams, benches, tmp_path):
    """Nothing tells a source of files which log its query writes to."""
    folder = tmp_path / "texts"
    folder.mkdir()
    first, other = benches("first"), benches("other")

    def run(log):
        texts = streams.spark.readStream.format("text").load(str(folder))
        streams.run(texts.selectExpr("value"), bench=log, transactional_id="tx")

    for number, log in enumerate((first, other)):
        (folder / f"{number}.txt").write_text(f"{number}\n")
        if log is first:
            run(log)
            continue
        with pytest.raises(
            StreamingQueryException, match=r"this log has no micro-batch of query .* batch 1 is to"
        ):
            run(log)
    assert other.values("out") == []
    run(first)
    assert first.values("out") == [0, 1]


def test_rows_that_were_vacuumed_before_their_commit(bench, driver):
    running = driver()
    messages = running.stage("a")
    bench.produce("src", [1])
    bench.log.commit(lambda state: (RaiseStagingFloor(state.seq + 1),))
    for gone in (False, True):
        if gone:
            bench.log.discard(messages[0].files)
        with pytest.raises(StagedFileExpiredError, match=r"write the rows again.* started\s+again"):
            running.commit(messages, 0)
    driver().run(0, "a")
    assert bench.values("out") == ["a"]


def test_a_file_that_somebody_removed_is_no_expired_one(bench, driver):
    running = driver()
    messages = running.stage("a")
    bench.log.discard(messages[0].files)
    with pytest.raises(Exception, match="was staged but is not here"):
        running.commit(messages, 0)


def test_another_query_has_taken_the_place(bench, driver, hand_made, ours_at):
    """The old checkpoint comes back after a new one has gone on: refused also where nothing was read since."""
    driver(transactional_id="tx").run(0, "a")
    new = hand_made("new")
    new.offsets(0, ours_at(10, 10))
    driver(new, transactional_id="tx").run(0)
    with pytest.raises(CheckpointMismatchError, match="another query has gone on"):
        driver(transactional_id="tx").run(1, "x")
    assert bench.values("out") == ["a"]
