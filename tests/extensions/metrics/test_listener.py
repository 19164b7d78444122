"""What a progress listener of Spark has heard is exported until the query ends."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from spark_eos import ProgressListener
from spark_eos.monitoring import register

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
        listener._figures.drop("of-the-query")
        assert [*registry.collect()] == []
