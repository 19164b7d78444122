"""The progress of a query, with what Spark leaves out of a Python source and sink."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace

import pytest

from spark_eos import ProgressListener, query_progress
from spark_eos.errors import NotALogError
from spark_eos.monitoring import lags
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark import progress
from spark_eos.spark.source.offsets import META_KEY, SourceOffset
from tests.monitoring.micro_batches import micro_batch
from tests.spark.conftest import Bench, Streams

SPARK = "org.apache.spark.sql.execution.datasources.v2.python.Python"
BEHIND = ("minOffsetsBehindLatest", "avgOffsetsBehindLatest", "maxOffsetsBehindLatest")


@pytest.fixture(scope="module")
def copied(spark, tmp_path_factory):
    """A query that copies ten rows of each of three partitions in two micro-batches, and its listener."""
    folder = tmp_path_factory.mktemp("progress")
    bench = Bench(folder / "log")
    bench.topic("src", 2)
    bench.produce("src", range(20))
    bench.topic("other", 1)
    bench.produce("other", range(10))
    streams = Streams(spark, bench, folder)
    told = []

    def note(report):
        told.append(report)
        bench.figures = {name: value for _, name, value in listener.figures()}

    listener = ProgressListener(bench.url, on_progress=note)
    spark.streams.addListener(listener)
    try:
        query = streams.copy({"topics": "src,other", "maxOffsetsPerTrigger": 15})
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(600_000)
    finally:
        spark.streams.removeListener(listener)
    return bench, query, listener, told


def test_a_source_is_described_by_its_log_and_topics(copied):
    bench, query, _, _ = copied
    (source,) = query_progress(query, bench.url)["sources"]
    assert source["description"] == f"eoslog[other, src of {bench.log.url}]"
    (unnamed,) = query_progress(query)["sources"]
    assert unnamed["description"] == f"eoslog[other, src of log {bench.log.log_id}]"
    assert query.lastProgress["sources"][0]["description"].startswith(SPARK)


@pytest.mark.since("4.2")
def test_a_source_says_how_far_it_is_behind(copied):
    bench, query, _, _ = copied
    reports = [query_progress(one, bench.url) for one in query.recentProgress]
    assert [int(report["numInputRows"]) for report in reports[:2]] == [15, 15]
    for report in reports[:2]:
        (source,) = report["sources"]
        latest, end = source["latestOffset"], source["endOffset"]
        behind = [latest[topic][number] - end[topic][number] for topic in latest for number in latest[topic]]
        assert [source["metrics"][name] for name in BEHIND] == [
            str(min(behind)),
            str(sum(behind) / 3),
            str(max(behind)),
        ]
    first, last = [report["sources"][0]["metrics"] for report in reports[:2]]
    assert int(first["maxOffsetsBehindLatest"]) > 0
    assert [last[name] for name in BEHIND] == ["0", "0.0", "0"]


def test_a_listener_has_figures_while_the_query_runs(copied):
    bench, _, listener, told = copied
    figures = bench.figures
    assert (figures["input.messages"], figures["output.messages"]) == (30, 30)
    assert (figures["batch"], figures["lag"], figures["lag.size"]) == (told[-1]["batchId"], 0, 0)
    assert figures["input.io"] == sum(int(one["sources"][0]["metrics"]["numInputBytes"]) for one in told)
    assert figures["output.io"] > 0
    assert figures["batch.duration"] > 0
    assert listener.figures() == [], "the query has ended"


@pytest.mark.since("4.2")
def test_the_log_knows_how_far_the_query_is(copied):
    bench, query, _, _ = copied
    found = lags(bench.log)
    assert {one.kind for one in found} == {"query"}
    end = query.lastProgress["sources"][0]["endOffset"]
    end = json.loads(end) if isinstance(end, str) else end
    assert {(one.topic, one.partition): one.committed for one in found} == {
        (topic, int(number)): offset
        for topic, numbers in end.items()
        if topic != META_KEY
        for number, offset in numbers.items()
    }
    assert [(one.offsets, one.records, one.time_ms) for one in found] == [(0, 0, 0)] * 3


@pytest.mark.since("4.2")
def test_bytes_are_those_of_the_batches(copied):
    bench, query, _, _ = copied
    all_bytes = sum(fetch.size for topic in ("src", "other") for fetch in bench.fetches(topic))
    reports = [query_progress(one, bench.url) for one in query.recentProgress][:2]
    metrics = [report["sources"][0]["metrics"] for report in reports]
    assert sum(int(one["numInputBytes"]) for one in metrics) == pytest.approx(all_bytes, abs=20)
    behind = [int(one["estimatedTotalBytesBehindLatest"]) for one in metrics]
    assert behind[0] > behind[1] == 0
    assert behind[0] == pytest.approx(all_bytes - int(metrics[0]["numInputBytes"]), abs=20)


@pytest.mark.since("4.2")
def test_the_sink_is_described_by_what_the_micro_batch_wrote(copied):
    bench, query, _, _ = copied
    reports = [query_progress(one, bench.url) for one in query.recentProgress][:2]
    assert {report["sink"]["description"] for report in reports} == {f"eoslog[out of {bench.log.url}]"}
    written = [report["sink"]["metrics"] for report in reports]
    assert [one["numOutputRecords"] for one in written] == ["15", "15"]
    assert sum(int(one["numOutputBytes"]) for one in written) == sum(
        fetch.size for fetch in bench.fetches("out")
    )
    entries = [int(one["entry"]) for one in written]
    assert entries == sorted(set(entries))
    assert query_progress(query)["sink"]["description"].startswith(SPARK)


def test_a_listener_is_told_the_same(copied):
    bench, query, listener, told = copied
    assert told == [query_progress(one, bench.url) for one in query.recentProgress]
    assert listener.last_progress(query) == told[-1]


@pytest.mark.since("4.2")
def test_a_listener_without_a_reachable_log_reports_what_the_progress_has(copied, tmp_path, caplog):
    _, query, _, _ = copied

    event = SimpleNamespace(progress=query.recentProgress[0])
    listener = ProgressListener(str(tmp_path / "gone"))
    with caplog.at_level(logging.INFO, "spark_eos.spark.listener"):
        listener.onQueryProgress(event)
    assert "a log of the progress listener cannot be read" in caplog.text
    assert NotALogError.__name__ in caplog.text
    assert f"query {query.id}, batch 0, from eoslog[other, src of log " in caplog.text
    assert listener.last_progress(query)["sources"][0]["metrics"]["maxOffsetsBehindLatest"] != "0"


def test_a_query_without_progress_and_a_source_of_another_format():
    assert query_progress(SimpleNamespace(lastProgress=None)) is None
    other = {
        "id": "a",
        "batchId": 0,
        "sources": [{"description": "x", "endOffset": 3}],
        "sink": {"description": "y"},
    }
    assert query_progress(json.loads(json.dumps(other))) == other


def test_of_many_micro_batches_the_oldest_are_forgotten(bench, monkeypatch):
    monkeypatch.setattr(progress, "_KEPT", 2)
    bench.topic("src", 1)
    for number in range(3):
        micro_batch(bench.log, "src", number + 1, first=number, number=number)
    known = progress.KnownLog(bench.url)
    assert [known.batch(known.log(), "q-1", number) is not None for number in (2, 1, 0)] == [
        True,
        True,
        False,
    ]


def test_what_was_read_past_the_end_that_was_known_is_not_behind():
    """Spark asks for the latest offset before a micro-batch, whose end may be a later one."""
    at = TopicPartition("t", 0)
    known, end = (
        SourceOffset("log", {"t": "id"}, {at: offset}, {at: 0}, "earliest").to_json_dict()
        for offset in (3, 5)
    )
    shown = {
        "id": "a",
        "batchId": 0,
        "sources": [{"description": SPARK, "latestOffset": known, "endOffset": end}],
        "sink": {"description": "y"},
    }
    (source,) = query_progress(shown)["sources"]
    assert [source["metrics"][name] for name in BEHIND] == ["0", "0.0", "0"]


@pytest.mark.deep
def test_bytes_of_sealed_pages_are_estimated_without_a_read(bench):
    topic = bench.topic("src", 1)
    for number in range(1200):
        bench.produce("src", [number])
    state = bench.state
    partition = state.partitions[topic.topic_id, 0]
    assert partition.index.pages, "no page was sealed"
    whole = sum(fetch.size for fetch in bench.fetches("src"))
    at = TopicPartition("src", 0)

    def behind(position):
        offset = SourceOffset(bench.log.log_id, {"src": topic.topic_id}, {at: position}, {at: 0}, "earliest")
        return progress._bytes_behind(state, offset, {at: partition.end})

    assert behind(0) == whole
    assert behind(600) == pytest.approx(whole / 2, rel=0.01)
    assert behind(1200) == 0
