"""What a progress listener of Spark has heard is exported until the query ends."""

from __future__ import annotations

from typing import NamedTuple

from prometheus_client import CollectorRegistry

from spark_eos import ProgressListener
from spark_eos.monitoring import register


class Event(NamedTuple):
    id: str
    name: str | None = None
    exception: str | None = None


REPORT = {"id": "of-the-query", "name": "copy", "batchId": 3, "numInputRows": 7, "sources": [], "sink": {}}


def test_the_figures_of_a_query():
    listener, registry = ProgressListener(on_progress=lambda _: None), CollectorRegistry()
    with register(listener, registry=registry):
        assert [*registry.collect()] == []
        listener._figures.add(REPORT)
        figures = {
            sample.name: sample.value
            for metric in registry.collect()
            for sample in metric.samples
            if sample.labels.get("query") == "copy"
        }
        assert figures["eoslog_streaming_query_batch"] == 3
        assert figures["eoslog_streaming_query_input_messages_total"] == 7
        listener.onQueryTerminated(Event("of-the-query"))
        assert [*registry.collect()] == []


def test_figures_of_two_sources_and_two_batches():
    """A query is as far behind as the worse of its sources; rows and bytes are sums."""

    def source(behind, size, read):
        names = ("maxOffsetsBehindLatest", "estimatedTotalBytesBehindLatest", "numInputBytes")
        return {"metrics": dict(zip(names, map(str, (behind, size, read)), strict=True))}

    listener = ProgressListener(on_progress=lambda _: None)
    for batch, sources in enumerate(
        [[source(2, 20, 1), source(9, 90, 2)], [source(7, 70, 3), {"metrics": None}]]
    ):
        report = {**REPORT, "batchId": batch, "sources": sources, "durationMs": {"triggerExecution": 1500}}
        listener._figures.add(report)
        figures = {name: value for _, name, value in listener.figures()}
        assert (figures["lag"], figures["lag.size"]) == [(9, 110), (7, 70)][batch]
    assert (figures["input.messages"], figures["input.io"], figures["batch.duration"]) == (14, 6, 1.5)


def test_a_query_that_ends_because_of_damage_stays_known():
    """Its tasks read in processes of their own, which export nothing."""
    listener, registry = ProgressListener(), CollectorRegistry()
    with register(listener, registry=registry):
        for times, error in enumerate(
            ("", "CorruptRecordError: file", "a broken cable", "CorruptRecordError")
        ):
            listener.onQueryStarted(Event("of-the-query", "copy"))
            assert met(registry) == {"copy": float(times // 2)}
            listener.onQueryTerminated(Event("of-the-query", exception=error))
        assert met(registry) == {"copy": 2.0}


def met(registry):
    return {
        sample.labels["query"]: sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "eoslog_streaming_query_corrupt_total"
    }
