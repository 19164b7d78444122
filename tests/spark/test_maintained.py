"""Queries on a log that is maintained: what was deleted under them, and the share they do themselves."""

from __future__ import annotations

import logging

import pytest

from spark_eos import Admin
from spark_eos.errors import ConfigError, ObjectNotFoundError, OffsetOutOfRangeError
from spark_eos.log.snapshots.maintenance import BackgroundMaintenance
from spark_eos.maintenance.retention import Retention
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.spark.options import parse_source
from spark_eos.spark.schema import kafka_schema
from spark_eos.spark.source.source import EosLogStreamReader
from spark_eos.spark.version import ReadAllAvailable

ALL = ReadAllAvailable()


@pytest.fixture
def read(bench):
    def make(**options):
        given = {"path": bench.url, "subscribe": "src", "startingOffsets": "earliest", **options}
        return EosLogStreamReader(parse_source(given, streaming=True), kafka_schema())

    bench.topic("src")
    Admin(bench.log).alter_topic("src", config={"retention.bytes": 1, "file.delete.delay.ms": 0})
    for number in range(6):
        bench.produce("src", [number])
    return make


def rows(source, start, end):
    return [
        int(row["value"])
        for task in source.partitions(start, end)
        for batch in source.read(task)
        for row in batch.to_pylist()
    ]


def cut(bench):
    """Only the last record is left, and its file."""
    Retention(bench.log).run()
    Vacuum(bench.log, min_age_s=0).run()
    assert len(bench.files("src")) == 1


def test_a_stream_that_was_outrun_is_told(read, bench):
    source = read()
    start = source.initialOffset()
    end = source.latestOffset(start, ALL)
    cut(bench)
    with pytest.raises(OffsetOutOfRangeError, match=r"from offset 0 to 4 are gone.*failOnDataLoss=false"):
        source.partitions(start, end)


def test_a_stream_that_was_outrun_goes_on_with_a_warning(read, bench, caplog):
    source = read(failOnDataLoss="false")
    start = source.initialOffset()
    end = source.latestOffset(start, ALL)
    cut(bench)
    with caplog.at_level(logging.WARNING):
        assert rows(source, start, end) == [5]
    assert "the records of src-0 from offset 0 to 4 are gone" in caplog.text
    caplog.clear()
    assert rows(source, end, end) == []
    assert caplog.text == ""


def test_a_topic_that_is_gone_is_warned_of(read, bench, caplog):
    source = read(failOnDataLoss="false")
    start = source.initialOffset()
    end = source.latestOffset(start, ALL)
    Admin(bench.log).delete_topic("src")
    with caplog.at_level(logging.WARNING):
        assert rows(source, start, end) == []
    assert "the records of src-0 up to offset 6 are gone with their topic" in caplog.text


def test_a_task_whose_file_is_gone_says_what_to_do(read, bench):
    source = read()
    start = source.initialOffset()
    (task,) = source.partitions(start, source.latestOffset(start, ALL))
    cut(bench)
    with pytest.raises(ObjectNotFoundError, match=r"started again.*raise file.delete.delay.ms"):
        [*source.read(task)]


def test_a_query_that_leaves_maintenance_to_others_decides_for_itself_alone(bench, driver, monkeypatch):
    bench.topic("out")
    seen = []
    monkeypatch.setattr(BackgroundMaintenance, "run_slice", lambda _, state: seen.append(state.seq))
    driver(auto_maintenance_enable="false").run(0, "a")
    assert seen == []
    bench.produce("src", ["by another in the same process"])
    assert seen == [bench.state.seq]
    driver(auto_maintenance_enable="true").run(1, "b")
    assert seen[-1] == bench.state.seq > seen[0]


def test_a_query_that_leaves_maintenance_to_others_does_none_for_a_topic_it_creates(
    bench, driver, monkeypatch
):
    seen = []
    monkeypatch.setattr(BackgroundMaintenance, "run_slice", lambda _, state: seen.append(state.seq))
    driver(auto_maintenance_enable="false", topic="new").run(0, "a")
    assert bench.count("new") == 1
    assert seen == []


def test_a_source_commits_nothing_and_has_no_maintenance_to_leave_to_others(read):
    with pytest.raises(ConfigError, match=r"auto.maintenance.enable belongs to df.writeStream and df.write"):
        read(**{"auto.maintenance.enable": "false"})
