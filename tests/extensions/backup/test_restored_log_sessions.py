"""A query and a log that was restored from a backup, or moves: it goes on exactly, or is refused before it writes."""

# ruff: noqa: F811  (fixtures are imported)

from __future__ import annotations

import shutil

import pytest
from pyspark.errors import StreamingQueryException

from spark_eos.cli.command import main
from spark_eos.maintenance.verify.verify import Finding, verify
from spark_eos.spark.start import start_query
from tests.spark.conftest import bench, benches, streams, until  # noqa: F401  (fixtures)

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
        self.repository = folder / "repository"

    def backup(self):
        assert main(["backup", self.bench.url, str(self.repository)]) == 0

    def restore(self):
        """Into the place of the log, which is deleted. Processes start again."""
        shutil.rmtree(self.bench.url)
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
    """The run fails with a message that has all ``parts``; what fails in a commit is said by the error's cause."""
    with pytest.raises(StreamingQueryException) as caught:
        run()
    said, error = [], caught.value
    while error is not None:
        said.append(str(error))
        error = error._cause
    for part in parts:
        assert part in "\n".join(said)


def with_a_new_checkpoint(streams, source):
    """What the errors say to do."""
    (query,) = source.state.queries
    streams.copy({"start": "committed", "group_id": query}, transactional_id=query, checkpoint="new")


def to_files(streams, folder, **options):
    """A query whose sink is elsewhere, until it has read what is there."""
    frame = streams.read(**IN_TWO, **options).selectExpr("cast(value as string) as value")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "files-cp"))
    start_query(lambda: writer.trigger(availableNow=True).start(str(folder / "files"))).awaitTermination()


def in_files(spark, folder):
    return sorted(int(row.value) for row in spark.read.parquet(str(folder / "files")).collect())


def is_sound(bench):
    found: list[Finding] = []
    return verify(bench.url, found.append).is_sound


# -- A query with this sink -----------------------------------------------------------------------------


@pytest.mark.deep
def test_a_checkpoint_of_the_restored_entry_goes_on(streams, source, places):
    streams.copy()
    places.backup()
    places.save("cp")
    source.produce("src", range(60, 90))
    streams.copy()
    places.restore()
    places.put_back("cp")
    source.produce("src", range(90, 120))
    streams.copy(IN_TWO)
    assert source.values("out") == [*range(60), *range(90, 120)]
    source.check_contiguous("out")
    assert is_sound(source)


@pytest.mark.deep
def test_a_batch_that_is_in_the_restored_log_and_not_done_in_the_checkpoint_is_not_doubled(
    streams, source, places
):
    """It was killed between the two; the backup was made then."""
    streams.copy()
    places.backup()
    (places.folder / "cp" / "commits" / "0").unlink()
    (places.folder / "cp" / "commits" / ".0.crc").unlink()
    places.restore()
    source.produce("src", range(60, 90))
    streams.copy()
    assert source.values("out") == [*range(90)]
    source.check_contiguous("out")


@pytest.mark.deep
def test_an_older_and_a_newer_checkpoint_are_refused_and_the_remedy_goes_on(streams, source, places):
    """The source sees it by what it had read, the sink always: the log knows its last micro-batch."""
    streams.copy()
    places.save("cp")
    source.produce("src", range(60, 90))
    streams.copy()
    places.backup()
    source.produce("src", range(90, 120))
    streams.copy()

    places.restore()
    source.produce("src", range(200, 210))
    refused(streams.copy, "OffsetOutOfRangeError", "the checkpoint is ahead of the log", "new checkpoint")
    source.produce("src", range(210, 250))
    before = source.state.seq
    refused(streams.copy, "OffsetOutOfRangeError", "put back from a copy", "new checkpoint")
    refused(
        lambda: streams.copy({"failOnDataLoss": "false"}),
        "CheckpointMismatchError",
        "Nothing was written",
        "new checkpoint",
    )
    places.put_back("cp")
    refused(
        lambda: streams.copy({"maxOffsetsPerTrigger": 6}),
        "CheckpointMismatchError",
        "the checkpoint is older than the log",
        "Nothing was written. Go on with a new checkpoint",
    )
    assert source.values("out") == [*range(90)]
    assert source.state.seq == before, "something was written"
    with_a_new_checkpoint(streams, source)
    assert source.values("out") == [*range(90), *range(200, 250)]


# -- A query whose sink is elsewhere --------------------------------------------------------------------


@pytest.mark.deep
def test_a_query_with_another_sink_goes_on_from_an_older_checkpoint_and_not_from_a_newer_one(
    spark, streams, source, places, tmp_path
):
    to_files(streams, tmp_path)
    source.produce("src", range(60, 90))
    places.backup()
    source.produce("src", range(90, 120))
    places.restore()
    to_files(streams, tmp_path)
    assert in_files(spark, tmp_path) == [*range(90)]

    source.produce("src", range(200, 230))
    to_files(streams, tmp_path)
    places.restore()
    source.produce("src", range(300, 310))
    refused(
        lambda: to_files(streams, tmp_path),
        "OffsetOutOfRangeError",
        "the checkpoint is ahead of the log",
        "Start from a new checkpoint",
    )
    assert in_files(spark, tmp_path) == [*range(90), *range(200, 230)]


@pytest.mark.deep
def test_a_query_with_another_sink_is_refused_when_writers_have_passed_its_newer_checkpoint(
    spark, streams, source, places, tmp_path
):
    places.backup()
    source.produce("src", range(60, 90))
    to_files(streams, tmp_path)
    places.restore()
    source.produce("src", range(200, 240))
    refused(
        lambda: to_files(streams, tmp_path),
        "OffsetOutOfRangeError",
        "the checkpoint is ahead of the log",
        "put back from a copy",
        "Start from a new checkpoint",
    )
    assert in_files(spark, tmp_path) == [*range(90)]
    to_files(streams, tmp_path, failOnDataLoss="false")
    assert in_files(spark, tmp_path) == [*range(90), *range(230, 240)], "200 to 229 are passed over"


# -- A log that moves -----------------------------------------------------------------------------------


@pytest.mark.deep
def test_a_log_that_moves_under_a_running_query(streams, source, benches, until):
    query = streams.write(
        streams.read(**IN_TWO).select("key", "value"), trigger={"processingTime": "0 seconds"}
    )
    try:
        until(lambda: len(source.values("out")) == 60, "the first records")
        source.produce("src", range(60, 160))
        moved = benches("moved")
        assert main(["copy", source.url, moved.url, "--close"]) == 0
        refused(
            lambda: query.awaitTermination(600),
            "NotALogError",
            "the log was closed after entry",
            "Open the log at its new place",
        )
    finally:
        query.stop()
    moved.produce("src", range(160, 200))
    streams.copy({"bench": moved}, bench=moved)
    assert moved.values("out") == [*range(200)]
    moved.check_contiguous("out")
    assert is_sound(moved)
