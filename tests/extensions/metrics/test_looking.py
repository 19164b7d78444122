"""Looking never writes: served metrics; and what they cost the store."""

# ruff: noqa: F811  (the fixtures are imported)

from __future__ import annotations

import threading

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from spark_eos.extensions.metrics.watch import LogWatch
from spark_eos.monitoring import register
from tests.cli.looked_at import SCHEME, bucket, path, scheme, tries  # noqa: F401


def test_served_metrics(path, tries):
    watch = LogWatch(f"{SCHEME}://{path}", by_partition=True)
    registry = CollectorRegistry()
    register(watch, registry=registry)
    watch.points(wait=True)
    text = generate_latest(registry).decode()
    assert "eoslog_transactions_late" in text
    assert "eoslog_maintenance_garbage_objects" in text
    assert tries == []


@pytest.mark.parametrize("number", [1, 50])
def test_metrics_ask_the_store_once_a_second(number):
    store, now = bucket(), [1000.0]
    watch = LogWatch(store, now=lambda: now[0], garbage_s=None)
    registry = CollectorRegistry()
    register(watch, registry=registry)
    watch.points(wait=True)
    before = len(store.journal)
    for _ in range(3):
        now[0] += 1.0
        threads = [threading.Thread(target=generate_latest, args=(registry,)) for _ in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [one.operation for one in store.journal[before:]] == ["read"] * 3
