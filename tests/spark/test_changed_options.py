"""Every option of the Spark source and sink has rows in `tests.spark.changed`, and the rows are so."""

from __future__ import annotations

import pytest

from spark_eos.config.sink import SINK
from spark_eos.config.source import SOURCE
from spark_eos.log.snapshots.maintenance import BackgroundMaintenance
from tests.generate import stale
from tests.needing import needs
from tests.spark.changed import CHANGES
from tests.spark.changes import Driven, OnSpark

_SINCE_4_2 = ("minOffsetsPerTrigger", "maxTriggerDelay")


def rows(*since_4_2):
    def marks(change):
        if change.needs:
            yield needs(change.needs)
        if any(name in change.id for name in since_4_2):
            yield pytest.mark.since("4.2")

    return pytest.mark.parametrize(
        "change", [pytest.param(change, id=change.id, marks=[*marks(change)]) for change in CHANGES]
    )


@pytest.fixture
def shares(monkeypatch):
    seen = []
    monkeypatch.setattr(BackgroundMaintenance, "run_slice", lambda _, state: seen.append(state.seq))
    return seen


@rows(*_SINCE_4_2)
def test_a_changed_option(change, bench, tmp_path, benches, shares):
    driven = Driven(bench, tmp_path, benches)
    driven.shares = shares
    change.run(driven)


@pytest.mark.deep  # Two queries for each row.
@rows(*_SINCE_4_2, "maxOffsetsPerTrigger")
def test_a_changed_option_on_spark(change, bench, tmp_path, benches, spark, shares):
    on_spark = OnSpark(bench, tmp_path, benches)
    on_spark.spark, on_spark.shares = spark, shares
    change.run(on_spark)


@pytest.mark.deep
def test_many_options_changed_at_once_on_spark(bench, tmp_path, benches, spark):
    q = OnSpark(bench, tmp_path, benches)
    q.spark = spark
    q.run({"group.id": "g"}, {"transactional.id": "t"})
    q.fill(10, 20)
    q.fill(100, 102, topic="src-2")
    with q.refuses("startingOffsets says latest, but the query of this checkpoint began with earliest"):
        q.run({"startingOffsets": "latest"}, {"transactional.id": "t"})
    q.run(
        {
            "subscribe": "src,src-2",
            "group.id": "h",
            "startingOffsets": None,
            "maxOffsetsPerTrigger": 6,
            "maxRecordsPerPartition": 2,
        },
        {"transactional.id": "t", "topic": "other", "compression.type": "zstd", "includeHeaders": "false"},
    )
    assert (q.out(), q.out("other")) == ([*range(10)], [*range(10, 20), 100, 101])
    assert len(q.ends()) == 3
    assert (bench.group("g")["src", 0], bench.group("h")["src", 0]) == (10, 20)
    assert set(q.codecs("other")) == {"zstd"}
    assert len(q.codecs("other")) >= 6


@pytest.mark.parametrize("use", ["stream source", "batch source", "stream sink", "batch sink"])
def test_there_is_a_row_for_every_option(use):
    known = {option.name for table in (SOURCE, SINK) for option in table.values() if use in option.uses}
    assert {change.option for change in CHANGES if change.use == use} == known


def test_the_page_is_that_of_the_rows():
    assert stale("tests.spark.changed") == [], "scripts/generate writes it"
