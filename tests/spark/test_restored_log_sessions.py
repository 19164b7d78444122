"""A query and a log that was restored from a backup, or moves: it goes on exactly, or is refused before it writes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from spark_eos.cli.command import main
from spark_eos.maintenance.verify.verify import Finding, verify

IN_TWO = {"maxOffsetsPerTrigger": 20}


@pytest.fixture
def source(bench):
    bench.topic("src", 2)
    bench.produce("src", range(60))
    return bench


@pytest.fixture
def places(source, tmp_path):
    return Places(source, tmp_path)


class Places:
    """The log, its repository of backups, and the checkpoint."""

    def __init__(self, bench, folder):
        self.bench, self.folder = bench, folder
        self.repository, self.broken = folder / "repository", folder / "broken"

    def backup(self):
        assert main(["backup", self.bench.url, str(self.repository)]) == 0

    def restore(self):
        """Into the place of the log, which is moved away. Processes start again."""
        Path(self.bench.url).rename(self.broken)
        assert main(["restore", str(self.repository), self.bench.url]) == 0
        self.bench.forget()

    def save(self, *names):
        for name in names:
            shutil.copytree(self.folder / name, self.folder / f"{name}-saved")

    def put_back(self, *names):
        for name in names:
            shutil.rmtree(self.folder / name)
            shutil.copytree(self.folder / f"{name}-saved", self.folder / name)


def refused(run, *parts):
    """The run fails with a message that has all ``parts``."""
    with pytest.raises(StreamingQueryException) as caught:
        run()
    for part in parts:
        assert part in str(caught.value)


def to_files(streams, folder):
    """A query whose sink is elsewhere, until it has read what is there."""
    frame = streams.read(**IN_TWO).selectExpr("cast(value as string) as value")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "files-cp"))
    query = writer.trigger(availableNow=True).start(str(folder / "files"))
    query.awaitTermination()


def in_files(spark, folder):
    return sorted(int(row.value) for row in spark.read.parquet(str(folder / "files")).collect())


def is_sound(bench):
    found: list[Finding] = []
    return verify(bench.url, found.append).is_sound


# -- A checkpoint that is not newer than the restored log -----------------------------------------------


def test_a_checkpoint_of_the_restored_entry_goes_on(streams, source, places):
    streams.copy(IN_TWO)
    places.backup()
    places.save("cp")
    source.produce("src", range(60, 90))
    streams.copy(IN_TWO)
    places.restore()
    places.put_back("cp")
    source.produce("src", range(90, 120))
    streams.copy(IN_TWO)
    assert source.values("out") == [*range(60), *range(90, 120)]
    source.check_contiguous("out")
    assert is_sound(source)


def test_a_batch_that_is_in_the_restored_log_and_not_done_in_the_checkpoint_is_not_doubled(
    streams, source, places
):
    """It was killed between the two; the backup was made then."""
    streams.copy(IN_TWO)
    places.backup()
    (last,) = [name for name in (places.folder / "cp" / "commits").iterdir() if name.name == "2"]
    last.unlink()
    last.with_name(".2.crc").unlink()
    places.save("cp")
    places.restore()
    source.produce("src", range(60, 90))
    streams.copy(IN_TWO)
    assert source.values("out") == [*range(90)]
    source.check_contiguous("out")


def test_an_older_checkpoint_of_a_query_with_another_sink_goes_on(spark, streams, source, places, tmp_path):
    to_files(streams, tmp_path)
    source.produce("src", range(60, 90))
    places.backup()
    source.produce("src", range(90, 120))
    places.restore()
    to_files(streams, tmp_path)
    source.produce("src", range(200, 210))
    to_files(streams, tmp_path)
    assert in_files(spark, tmp_path) == [*range(90), *range(200, 210)]


def test_an_older_checkpoint_of_a_query_with_this_sink_is_refused_and_the_remedy_goes_on(
    streams, source, places
):
    streams.copy(IN_TWO)
    places.save("cp")
    source.produce("src", range(60, 90))
    streams.copy(IN_TWO)
    places.backup()
    places.restore()
    places.put_back("cp")
    refused(
        lambda: streams.copy({"maxOffsetsPerTrigger": 6}),
        "CheckpointMismatchError",
        "the checkpoint is older than the log",
        "Nothing was written. Go on with a new checkpoint",
    )
    source.produce("src", range(90, 100))
    (query,) = source.state.queries
    streams.copy({"start": "committed", "group_id": query}, transactional_id=query, checkpoint="new")
    assert source.values("out") == [*range(100)]


# -- A checkpoint that is newer -------------------------------------------------------------------------


@pytest.mark.parametrize("written", [0, 10, 60], ids=["nothing", "less", "more"])
def test_a_newer_checkpoint_of_a_query_with_this_sink_is_refused(streams, source, places, written):
    """Whatever writers have added since: the log knows which micro-batch was its last."""
    streams.copy(IN_TWO)
    places.backup()
    source.produce("src", range(60, 90))
    streams.copy(IN_TWO)
    places.restore()
    if written:
        source.produce("src", range(200, 200 + written))
    before = source.state.seq
    refused(lambda: streams.copy(IN_TWO), "new checkpoint")
    assert source.values("out") == [*range(60)]
    assert source.state.seq == before, "something was written"
    # What the message says to do:
    (query,) = source.state.queries
    streams.copy({"start": "committed", "group_id": query}, transactional_id=query, checkpoint="new")
    assert source.values("out") == [*range(60), *range(200, 200 + written)]


@pytest.mark.parametrize("written", [0, 10], ids=["nothing", "less"])
def test_a_newer_checkpoint_of_a_query_with_another_sink_is_refused_while_the_log_is_shorter(
    spark, streams, source, places, tmp_path, written
):
    places.backup()
    source.produce("src", range(60, 90))
    to_files(streams, tmp_path)
    places.restore()
    if written:
        source.produce("src", range(200, 200 + written))
    refused(
        lambda: to_files(streams, tmp_path),
        "OffsetOutOfRangeError",
        "the checkpoint is ahead of the log",
        "Start from a new checkpoint",
    )
    assert in_files(spark, tmp_path) == [*range(90)]


# -- A log that moves -----------------------------------------------------------------------------------


def test_a_log_that_moves_under_a_running_query(streams, source, benches, until):
    query = streams.write(
        streams.read(**IN_TWO).select("key", "value"), trigger={"processingTime": "0 seconds"}
    )
    try:
        until(lambda: len(source.values("out")) == 60, "the first records")
        source.produce("src", range(60, 160))
        moved = benches("moved")
        assert main(["copy", source.url, moved.url, "--close"]) == 0
        with pytest.raises(StreamingQueryException) as ended:
            query.awaitTermination(600)
    finally:
        query.stop()
    for part in ("NotALogError", "the log was closed after entry", "Open the log at its new place"):
        assert part in str(ended.value)
    moved.produce("src", range(160, 200))
    streams.copy({"bench": moved, **IN_TWO}, bench=moved)
    assert moved.values("out") == [*range(200)]
    moved.check_contiguous("out")
    assert is_sound(moved)
