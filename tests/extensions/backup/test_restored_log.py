"""The sink and the source on a log that was restored from a backup, with checkpoints made by hand."""

# ruff: noqa: F811  (fixtures are imported)

from __future__ import annotations

from pathlib import Path

import pytest

from spark_eos.cli.command import main
from spark_eos.errors import CheckpointMismatchError, OffsetOutOfRangeError
from spark_eos.spark.options import parse_any_source, parse_source
from spark_eos.spark.source.source import EosLogStreamReader
from spark_eos.spark.topics import source_schema
from tests.spark.conftest import bench, checkpoint, driver, ours_at  # noqa: F401  (fixtures)


@pytest.fixture
def restored(bench, tmp_path):
    """Makes the backup when it is called, and puts it in the place of the log when what it returns is called."""

    def backup():
        assert main(["backup", bench.url, str(tmp_path / "repository")]) == 0

        def restore():
            Path(bench.url).rename(tmp_path / "broken")
            assert main(["restore", str(tmp_path / "repository"), bench.url]) == 0
            bench.forget()

        return restore

    return backup


def test_a_checkpoint_of_the_restored_entry_goes_on(bench, driver, restored):
    """Batch 1 is in the lost history alone; its checkpoint was put back to where batch 0 ended."""
    driver().run(0, "a")
    restore = restored()
    driver().run(1, "lost")
    restore()
    driver().run(1, "b")
    driver().run(2, "c")
    assert bench.values("out") == ["a", "b", "c"]


def test_a_batch_of_the_restored_log_that_is_not_done_in_the_checkpoint_is_not_doubled(
    bench, driver, restored
):
    driver().run(0, "a")
    restore = restored()
    restore()
    driver().run(0, "a")
    driver().run(1, "b")
    assert bench.values("out") == ["a", "b"]


@pytest.mark.parametrize("written", [0, 1000], ids=["no", "many"])
def test_a_newer_checkpoint_of_the_sink_is_refused_whatever_was_written_since(
    bench, driver, restored, written
):
    driver().run(0, "a")
    restore = restored()
    driver().run(1, "b")
    restore()
    bench.produce("src", range(written))
    before = bench.state.seq
    with pytest.raises(CheckpointMismatchError, match=r"Nothing was written\..* new checkpoint"):
        driver().run(2, "c")
    assert bench.values("out") == ["a"]
    assert bench.state.seq == before


def test_a_newer_checkpoint_of_a_source_is_refused_while_the_log_is_shorter(bench, restored, ours_at):
    bench.topic("src", 1)
    bench.produce("src", range(10))
    restore = restored()
    bench.produce("src", range(10, 30))
    newer = ours_at(30)
    restore()
    bench.produce("src", range(100, 105))
    given = {"path": bench.url, "subscribe": "src", "startingOffsets": "earliest"}
    reader = EosLogStreamReader(parse_source(given, streaming=True), source_schema(parse_any_source(given)))
    with pytest.raises(OffsetOutOfRangeError, match=r"ahead of the log.* new checkpoint"):
        reader.latestOffset(newer, reader.getDefaultReadLimit())
