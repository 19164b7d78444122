"""Micro-batches that a function of ``foreachBatch`` leaves out, before it begins a transaction."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.errors import StreamingQueryException

from spark_eos import MicroBatchTransaction
from spark_eos.errors import CheckpointMismatchError, ConfigError
from spark_eos.spark.transactions import running_query
from tests.crashpoints.queries import Frame
from tests.spark.conftest import ours
from tests.spark.test_transactions import Queries
from tests.sparks import SPARK


class Runs:
    """Runs of a query with ``foreachBatch`` on the checkpoint by hand; each writes a row that names the batch."""

    def __init__(self, bench, checkpoint, driver):
        self._bench, self._checkpoint, self._driver = bench, checkpoint, driver
        self.again()

    def again(self):
        """A new run: the query was started again."""
        self._run = self._driver(self._checkpoint)

    def write(self, batch_id, bench=None, **options):
        self._run.plan(batch_id)
        properties = {
            "sql.streaming.queryId": self._checkpoint.query_id,
            "spark.jobGroup.id": self._run.run_id,
            "streaming.sql.batchId": str(batch_id),
        }
        frame = Frame(SimpleNamespace(patiently=lambda call: call()), [f"row {batch_id}"], [0], properties)
        given = {"checkpointLocation": self._checkpoint.path, "group.id": "g", **options}
        with MicroBatchTransaction(frame, batch_id, (bench or self._bench).url, given) as transaction:
            transaction.write(frame, "out")
        self._checkpoint.finish(batch_id)
        return transaction.is_repetition

    def leave_out(self, *batches):
        for batch_id in batches:
            self._checkpoint.finish(batch_id)


@pytest.fixture
def runs(bench, checkpoint, driver, monkeypatch):
    monkeypatch.setattr(running_query, "_notes", lambda _: None)
    return Runs(bench, checkpoint, driver)


@pytest.mark.parametrize("started", [False, True], ids=["the same run", "runs of their own"])
def test_batches_between_others(runs, bench, started):
    for batch_id in (0, 3, 4):
        if started:
            runs.again()
        runs.leave_out(*range(1, batch_id))
        assert not runs.write(batch_id)
    assert bench.values("out") == ["row 0", "row 3", "row 4"]
    assert bench.group("g") == {("src", 0): 50}


@pytest.mark.parametrize("first", [1, 3])
def test_the_first_batches(runs, bench, first):
    runs.leave_out(*range(first))
    for batch_id in range(first, 5):
        runs.again()
        assert not runs.write(batch_id)
    assert bench.values("out") == [f"row {batch_id}" for batch_id in range(first, 5)]
    assert bench.group("g") == {("src", 0): 50}


def test_a_batch_after_others_is_recognised_when_it_is_repeated(runs, bench, checkpoint):
    runs.write(0)
    runs.leave_out(1)
    runs.write(2)
    (checkpoint.path / "commits" / "2").unlink()
    runs.again()
    assert runs.write(2)
    assert not runs.write(3)
    assert bench.values("out") == ["row 0", "row 2", "row 3"]


def test_a_batch_after_others_that_failed_is_repeated(runs, bench, monkeypatch):
    runs.write(0)
    runs.leave_out(1)
    with monkeypatch.context() as broken:
        broken.setattr(MicroBatchTransaction, "_commit", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            runs.write(2)
    assert bench.values("out") == ["row 0"]
    runs.again()
    assert not runs.write(2)
    assert bench.values("out") == ["row 0", "row 2"]
    assert bench.group("g") == {("src", 0): 30}


def test_more_batches_than_the_checkpoint_keeps(runs, bench, checkpoint):
    runs.write(0)
    runs.leave_out(1, 2, 3)
    for batch_id in range(3):
        (checkpoint.path / "offsets" / str(batch_id)).unlink()
    assert not runs.write(4)
    assert bench.values("out") == ["row 0", "row 4"]
    assert bench.group("g") == {("src", 0): 50}


def test_a_new_checkpoint_under_the_same_id_may_leave_out_its_first_batches(runs, bench, hand_made, driver):
    options = {"transactional.id": "tx"}
    runs.write(0, **options)
    anew = hand_made("anew")
    topic = bench.topic("src", 1)
    for batch_id in range(3):
        anew.offsets(batch_id, ours(bench, topic, batch_id * 10 + 20, 10))
    other = Runs(bench, anew, driver)
    other.leave_out(0, 1)
    assert not other.write(2, **options)
    assert bench.group("g") == {("src", 0): 40}


# -- what looks like it -------------------------------------------------------------------------------------


def refused(call, bench, *parts):
    before = bench.state.seq
    with pytest.raises(CheckpointMismatchError) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)
    assert bench.state.seq == before


def test_an_error_that_the_function_passes_over(runs, bench, checkpoint, monkeypatch):
    """The rows of batch 1 would be missing, and nobody would hear of it."""
    runs.write(0)
    with monkeypatch.context() as broken:
        broken.setattr(MicroBatchTransaction, "_commit", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            runs.write(1)
    runs.leave_out(1)
    runs.again()
    says = (
        "batch 1 began a transaction of which the log has nothing",
        "from batch 1 on in commits and from batch 2 on",
    )
    refused(lambda: runs.write(2), bench, *says)
    assert bench.values("out") == ["row 0"]
    (checkpoint.path / "commits" / "1").unlink()
    for batch_id in (1, 4):  # Spark repeats the batch, and plans others, which may be left out.
        assert not runs.write(batch_id)


@pytest.mark.parametrize("written", [0, 1])
@pytest.mark.parametrize("where", ["_existing", "_commit_left_out"])
def test_an_error_before_the_transaction_begins(runs, bench, monkeypatch, where, written):
    """Passed over, the batch is like one that was left out; let through, Spark repeats it."""
    for batch_id in range(written):
        runs.write(batch_id)
    runs.leave_out(written)
    failing = written + 1
    with monkeypatch.context() as broken:
        broken.setattr(MicroBatchTransaction, where, lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            runs.write(failing)
    runs.again()
    refused(lambda: runs.write(failing + 1), bench, f"the transaction of batch {failing} could not begin")
    assert not runs.write(failing)
    assert not runs.write(failing + 1)
    assert bench.group("g") == {("src", 0): 10 * (failing + 2)}


@pytest.mark.parametrize("written", [0, 1])
def test_options_that_are_wrong(runs, bench, written):
    """The function passes over their error, batch after batch, until somebody mends them."""
    for batch_id in range(written):
        runs.write(batch_id)
    with pytest.raises(ConfigError, match="no_such_option"):
        runs.write(written, no_such_option=1)
    runs.leave_out(written)
    runs.again()
    refused(lambda: runs.write(written + 1), bench, f"the transaction of batch {written} could not begin")
    assert not runs.write(written)
    assert not runs.write(written + 1)


@pytest.mark.parametrize("kept", [0, 1])
def test_a_log_that_was_put_back(runs, bench, tmp_path, kept):
    """Batches that were committed are missing like those that were left out."""
    for batch_id in range(kept):
        runs.write(batch_id)
    shutil.copytree(bench.url, tmp_path / "copy")
    runs.write(kept)
    Path(bench.url).rename(tmp_path / "broken")
    Path(tmp_path / "copy").rename(bench.url)
    bench.forget()
    runs.again()
    refused(lambda: runs.write(kept + 1), bench, f"batch {kept} began a transaction", "put back from a copy")


def test_another_log(runs, benches):
    runs.write(0)
    other = benches("other")
    refused(
        lambda: runs.write(1, other),
        other,
        "went to another log",
        "several logs enters a with statement for each",
    )
    with pytest.raises(CheckpointMismatchError, match="went to another log"):
        runs.write(1, SimpleNamespace(url=f"{other.url}-mistyped"))
    assert not Path(f"{other.url}-mistyped").exists()


def test_a_checkpoint_whose_notes_are_gone(runs, bench, checkpoint):
    runs.write(0)
    shutil.rmtree(checkpoint.path / "eoslog")
    runs.leave_out(1)
    refused(lambda: runs.write(2), bench, "the checkpoint does not tell whether")
    runs.leave_out(1)
    assert not runs.write(1)


def test_the_checkpoint_of_another_query_is_not_written(runs, hand_made):
    runs.write(0)
    other = hand_made("other")
    for batch_id in range(3):
        other.offsets(batch_id, {"at": batch_id})
    for batch_id in (0, 2):
        with pytest.raises(CheckpointMismatchError, match="must be this query's own"):
            runs.write(batch_id, checkpointLocation=other.path)
    assert not [*other.path.glob("eoslog*")]


# -- Spark --------------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_spark_goes_on_after_empty_batches(streams, bench):
    """The commonest function: a batch without rows is left out, and each run may end with one, or begin so."""
    bench.topic("src", 2)
    queries = Queries(streams, bench)

    def route(batch, batch_id):
        wanted = batch.where("cast(value as string) in ('25', '47', '61')")
        if wanted.isEmpty():
            return
        with queries.transaction(batch, batch_id) as transaction:
            transaction.write(wanted.select("value"), "out")

    for first in range(0, 80, 20):
        bench.produce("src", range(first, first + 20))
        queries.run(route)
    assert bench.values("out") == [25, 47, 61]
    assert len(queries.calls) == (8 if SPARK >= (4, 2) else 4)  # Before, there is no limit.


@pytest.mark.deep
def test_batches_are_repeated_as_the_error_says(streams, bench):
    bench.topic("src", 1)
    queries = Queries(streams, bench)
    fails = {1}

    def route(batch, batch_id):
        with suppress(ZeroDivisionError), queries.transaction(batch, batch_id) as transaction:
            transaction.write(batch.select("value"), "out")
            assert batch_id not in fails or 1 / 0

    for _ in range(2):
        bench.produce("src", range(10 * len(queries.calls), 10 * len(queries.calls) + 10))
        queries.run(route)
    bench.produce("src", range(20, 50))
    with pytest.raises(StreamingQueryException, match="from batch 1 on in commits and from batch 2 on in"):
        queries.run(route)
    fails.clear()
    for name in ("commits/1", "commits/.1.crc", "offsets/2", "offsets/.2.crc"):
        Path(queries.checkpoint, name).unlink()
    queries.run(route)
    assert bench.values("out") == [*range(50)]
