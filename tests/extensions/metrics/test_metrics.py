"""What is exported of a log, its clients and stores: all of the table, nothing else, and no secret."""

from __future__ import annotations

import asyncio
import gc
import shutil
import subprocess
import sys
from contextlib import suppress
from types import SimpleNamespace

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition, read_arrow
from spark_eos.errors import (
    CommitOutcomeUnknownError,
    ConfigError,
    CorruptRecordError,
    IllegalStateError,
    StoreUnavailableError,
)
from spark_eos.extensions.metrics.metric import LABELS, Kind
from spark_eos.extensions.metrics.opentelemetry import instruments_of
from spark_eos.extensions.metrics.points import point
from spark_eos.extensions.metrics.table import METRICS
from spark_eos.log import paths
from spark_eos.log.clock import Retry
from spark_eos.monitoring import MeasuredStore, register
from spark_eos.monitoring.measured_store import LookingStore
from spark_eos.protocol.actions import RaiseStagingFloor
from spark_eos.storage import MemoryStore, PosixStore, Settings, open_store
from spark_eos.testing import Fault, FaultyStore
from tests.extensions.metrics.metrics_world import SECRET, Listener, has, one_of_everything, scraped, value
from tests.log.fakes import Waiting
from tests.needing import needs


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The same things, by Prometheus and by OpenTelemetry, and the log's label."""
    url = str(tmp_path_factory.mktemp("metrics") / "log")
    registry, reader = CollectorRegistry(), InMemoryMetricReader()
    provider = MeterProvider([reader])
    with one_of_everything(url) as (log, watch, clients, look):
        for source in (watch, Listener(), log, log.store, *clients):
            register(source, registry=registry, meter_provider=provider)
        with Producer(log, {"client.id": "till"}) as another:  # OpenTelemetry hears of calls from now on.
            register(another, meter_provider=provider)
            another.send("orders", SECRET.encode(), partition=0).result()
        watch._failed(ValueError("as if a look had failed"))
        look()
        prometheus = scraped(registry)
        yield url, prometheus, reader.get_metrics_data()
    provider.shutdown()


# -- The table ------------------------------------------------------------------------------------------


def test_the_names_of_the_table():
    names = [metric.prometheus_name for metric in METRICS.values()]
    assert len({*names}) == len(names)
    for metric in METRICS.values():
        assert {*metric.labels} <= {*LABELS}, metric.name
        assert len({*metric.prometheus_labels}) == len(metric.labels), metric.name
        assert metric.name.startswith(("eoslog.", "messaging.client.", "db.client.")), metric.name
        assert bool(metric.bounds) == (metric.kind is Kind.HISTOGRAM), metric.name
        assert not metric.meaning.endswith("."), metric.name


def test_names_for_prometheus_are_derived():
    assert METRICS["eoslog.topic.io"].prometheus_name == "eoslog_topic_io_bytes_total"
    assert METRICS["db.client.operation.duration"].prometheus_labels == (
        "log",
        "system",
        "operation",
        "error",
    )


def test_prometheus_exports_all_of_the_table_and_nothing_else(exported):
    _, (_, names, _), _ = exported
    assert names == {metric.prometheus_name for metric in METRICS.values()}


def test_opentelemetry_exports_all_of_the_table_and_nothing_else(exported):
    _, _, data = exported
    (resource,) = data.resource_metrics
    (scope,) = resource.scope_metrics
    found = {metric.name: metric for metric in scope.metrics}
    assert {*found} == {*METRICS}
    for name, metric in found.items():
        assert metric.unit == METRICS[name].unit
        assert all({*one.attributes} <= {*METRICS[name].labels} for one in metric.data.data_points), name


def test_a_point_that_is_not_in_the_table_cannot_be_made():
    for name, number, labels in (
        ("eoslog.new", 1, ("log",)),
        ("eoslog.up", 1, ()),
        ("db.client.operation.duration", 1.0, ("log", "file", "read", "")),
    ):
        with pytest.raises((KeyError, ValueError), match=r"eoslog|db\.client"):
            point(name, number, *labels)


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not here: apt-get install prometheus"
)
def test_promtool_finds_nothing_wrong_with_what_is_exported(exported):
    _, (_, _, text), _ = exported
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


# -- Values ---------------------------------------------------------------------------------------------


def test_values_of_the_log(exported):
    url, (samples, _, _), _ = exported
    assert value(samples, "eoslog_up", log=url) == 1
    assert value(samples, "eoslog_disk_free_bytes", log=url) == 4 << 30
    assert value(samples, "eoslog_trouble", trouble="little space", level="note", about="") == 1
    assert value(samples, "eoslog_log_entries_total", log=url) == Log.open(url).state.seq + 1
    # Three and one by the first producer, one by the second, one in each of three transactions.
    assert value(samples, "eoslog_topic_messages_total", topic="orders") == 8
    assert value(samples, "eoslog_topic_io_bytes_total", topic="orders") > 8 * len(SECRET)
    # That of a producer, and a micro-batch.
    assert value(samples, "eoslog_log_transactions_total", outcome="commit") == 2
    assert value(samples, "eoslog_log_transactions_total", outcome="abort") == 1
    assert value(samples, "eoslog_transactions_open") == 1
    assert value(samples, "eoslog_topic_lso_lag", topic="orders") == 1
    assert value(samples, "eoslog_partition_current_offset", partition="1") == 5
    assert value(samples, "eoslog_partition_last_stable_offset", partition="1") == 4
    assert value(samples, "eoslog_consumer_group_members", group="billing") == 1
    assert value(samples, "eoslog_consumer_group_lag", group="billing") == 2 + 4
    assert value(samples, "eoslog_consumer_group_offset", group="tellers", partition="0") == 1
    assert value(samples, "eoslog_query_lag", query="copy") == 3
    assert value(samples, "eoslog_publication_lag_messages", publication="nightly") == 6
    assert value(samples, "eoslog_maintenance_unsealed_entries") == Log.open(url).state.seq


def test_values_of_the_clients(exported):
    url, (samples, _, _), data = exported
    assert value(samples, "messaging_client_sent_messages_total", client="till", error="") == 4
    assert value(samples, "messaging_client_consumed_messages_total", client="biller", group="billing") == 3
    assert (
        value(samples, "messaging_client_operation_duration_seconds_count", client="till", operation="send")
        == 4
    )
    assert (
        value(
            samples, "messaging_client_operation_duration_seconds_count", client="teller", operation="abort"
        )
        == 1
    )
    assert value(samples, "eoslog_consumer_lag", partition="0", client="biller") == 2
    assert value(samples, "eoslog_producer_buffer_used_bytes", client="till") == 0
    assert value(samples, "eoslog_commit_entries_total", log=url) == value(
        samples, "eoslog_log_entries_total"
    )
    assert value(samples, "eoslog_streaming_query_lag", query="copy") == 5
    assert value(samples, "eoslog_streaming_query_batch_duration_seconds") == 1.5
    (sent,) = points(data, "messaging.client.operation.duration")
    assert (sent.count, sent.attributes["messaging.client.id"]) == (1, "till")
    assert list(sent.explicit_bounds) == list(METRICS["messaging.client.operation.duration"].bounds)


def points(data, name):
    (found,) = [metric for metric in data.resource_metrics[0].scope_metrics[0].metrics if metric.name == name]
    return found.data.data_points


def test_requests_to_the_store(exported):
    _, (samples, _, _), _ = exported
    assert value(samples, "db_client_operation_duration_seconds_count", operation="upload", error="") == 8
    assert (
        value(samples, "db_client_operation_duration_seconds_bucket", operation="upload", error="", le="+Inf")
        == 8
    )
    assert value(samples, "eoslog_storage_io_bytes_total", operation="upload") > 8 * len(SECRET)
    assert has(
        samples, "db_client_operation_duration_seconds_count", operation="read", error="OBJECT_NOT_FOUND"
    )


def test_no_record_is_in_the_metrics(exported):
    _, (_, _, text), data = exported
    assert SECRET not in text
    assert SECRET not in data.to_json()


# -- URLs -----------------------------------------------------------------------------------------------


# -- From inside ----------------------------------------------------------------------------------------


def test_a_measured_store_has_the_data_where_the_log_has_it(tmp_path):
    url, data = str(tmp_path / "log"), tmp_path / "data"
    Log.create(open_store(url, Settings({"data.url": str(data)})))
    store = MeasuredStore(open_store(url))
    with Producer(Log.open(store)) as producer:
        producer.send("t", b"x").result()
    assert [*data.rglob("*.arrow")]
    assert read_arrow(Log.open(store), "t").read_all()["value"].to_pylist() == [b"x"]
    assert read_arrow(url, "t").read_all()["value"].to_pylist() == [b"x"]


def test_a_source_that_fails_takes_no_other_one_away(caplog):
    registry, store = CollectorRegistry(), MeasuredStore(MemoryStore())
    for source in (SimpleNamespace(points=lambda: 1 / 0, histograms=tuple), store):
        register(source, registry=registry)
    store.create("a", b"x")
    assert has(scraped(registry)[0], "eoslog_storage_io_bytes_total", operation="create")
    assert "cannot be had: division by zero" in caplog.text


def test_a_registration_ends():
    registry = CollectorRegistry()
    with Producer("memory://registration-ends") as producer:
        with register(producer, registry=registry, name="one") as registration:
            producer.send("t", b"x").result()
            assert has(scraped(registry)[0], "messaging_client_sent_messages_total", client="one")
        registration.close()
    assert generate_latest(registry) == b""


def test_a_registration_with_opentelemetry_ends():
    provider = MeterProvider([InMemoryMetricReader()])
    with Producer("memory://registration-ends-otel") as producer:
        with register(producer, meter_provider=provider):
            assert len(instruments_of(provider)._observed) == 1
        assert instruments_of(provider)._observed == []
    provider.shutdown()


def test_a_client_that_is_gone_is_exported_no_more():
    registry = CollectorRegistry()
    producer = Producer("memory://registration-gone")
    register(producer, registry=registry)
    producer.send("t", b"x").result()
    assert scraped(registry)[1]
    producer.close()
    del producer
    gc.collect()
    assert scraped(registry)[1] == set()


def test_opentelemetry_keeps_nothing_of_a_client_that_is_gone():
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    producer = Producer("memory://registration-gone-otel")
    registration = register(producer, meter_provider=provider)
    producer.send("t", b"x").result()
    assert len(instruments_of(provider)._observed) == 1
    assert points(reader.get_metrics_data(), "messaging.client.sent.messages")
    producer.close()
    del producer
    gc.collect()
    found = reader.get_metrics_data()
    names = {metric.name for one in found.resource_metrics for metric in one.scope_metrics[0].metrics}
    assert names == {"messaging.client.operation.duration"}, (
        "what was recorded stays; series that are asked vanish"
    )
    assert instruments_of(provider)._observed == []
    registration.close()
    provider.shutdown()


def test_clients_without_a_name_get_numbers_and_those_of_one_name_are_added():
    registry = CollectorRegistry()
    producers = [
        Producer("memory://registration-names", settings) for settings in ({}, {}, *[{"client.id": "c"}] * 2)
    ]
    for producer in producers:
        register(producer, registry=registry)
        producer.send("t", b"x").result()
    samples, _, _ = scraped(registry)
    sent = {
        dict(labels)["client"]: number
        for (name, labels), number in samples.items()
        if name == "messaging_client_sent_messages_total" and not dict(labels)["error"]
    }
    named = sent.pop("c")
    assert (named, sorted(sent.values())) == (2, [1, 1])
    assert all(name.startswith("producer-") for name in sent)
    # All of them share one log, whose commits count once.
    assert (
        value(samples, "eoslog_commit_entries_total")
        == Log.shared("memory://registration-names").commit_counts.entries
    )
    for producer in producers:
        producer.close()


def test_what_has_no_metrics():
    with pytest.raises(ConfigError, match="str has no metrics"):
        register("log", registry=CollectorRegistry())
    with pytest.raises(ConfigError, match="registry="):
        register(Log.create(MemoryStore()))


def test_a_producer_is_named_as_its_log_before_it_is_open(tmp_path):
    registry = CollectorRegistry()
    with Producer(f"file://{tmp_path}/log") as producer:
        register(producer, registry=registry)
        before = {dict(labels)["log"] for _, labels in scraped(registry)[0]}
        producer.send("t", b"x").result()
        assert before == {dict(labels)["log"] for _, labels in scraped(registry)[0]} == {f"{tmp_path}/log"}


@needs("aio")
def test_a_producer_for_asyncio():
    from spark_eos import AIOProducer

    registry = CollectorRegistry()

    async def main():
        async with AIOProducer("memory://registration-aio", client_id="aio") as producer:
            register(producer, registry=registry)
            await producer.send_and_wait("t", b"x")
            return scraped(registry)[0]

    assert value(asyncio.run(main()), "messaging_client_sent_messages_total", client="aio", error="") == 1


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    provider = MeterProvider()
    with pytest.raises(ConfigError, match=r"pip install .*'spark-eos\[metrics\]'"):
        register(Log.create(MemoryStore()), meter_provider=provider)
    provider.shutdown()


# -- Commits --------------------------------------------------------------------------------------------


def counts(log):
    found = log.commit_counts
    return found.entries, found.requests, found.grouped, found.conflicts, found.lost_replies


def test_conflicts_and_lost_replies_are_counted(tmp_path):
    log = Log.create(str(tmp_path / "log"))
    other = Log.open(str(tmp_path / "log"), Waiting())  # After some seconds it would look before it writes.
    assert counts(other) == (0, 0, 0, 0, 0)
    for _ in range(2):
        log.commit(lambda _: (RaiseStagingFloor(1),))
    other.commit(lambda _: (RaiseStagingFloor(1),))  # It has not seen the two.
    assert counts(other) == (1, 1, 0, 1, 0)
    store = FaultyStore(PosixStore(str(tmp_path / "log")))
    third = Log.open(store)
    store.inject(Fault.FAIL_AFTER, "create", "_log/*")
    third.ensure_topic("d")
    assert third.commit_counts.lost_replies == 1
    assert third.in_doubt == 0


def doubtful(tmp_path):
    """A log whose store loses requests, and what tells how many have no known outcome."""
    Log.create(str(tmp_path / "log"))
    store, registry = FaultyStore(PosixStore(str(tmp_path / "log"))), CollectorRegistry()
    log = Log.open(store, retry=Retry(deadline_s=0.0))
    register(log, registry=registry)
    return log, store, lambda: value(scraped(registry)[0], "eoslog_commit_in_doubt")


def test_requests_in_doubt_are_counted(tmp_path):
    log, store, in_doubt = doubtful(tmp_path)
    store.inject(Fault.LOST, "create", "_log/*", times=None)
    with pytest.raises(CommitOutcomeUnknownError) as unknown:
        log.commit(lambda _: (RaiseStagingFloor(1),))
    assert in_doubt() == 1
    store.heal()
    log.commit(lambda _: (RaiseStagingFloor(1),), request_id=unknown.value.request_id)
    assert in_doubt() == 0


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.FAIL_AFTER])
def test_what_the_log_tells_is_in_doubt_no_more_though_its_caller_has_given_up(fault, tmp_path):
    log, store, in_doubt = doubtful(tmp_path)
    store.inject(fault, "create", "_log/*", times=None)
    with pytest.raises(CommitOutcomeUnknownError):
        log.commit(lambda _: (RaiseStagingFloor(1),))
    store.heal()
    log.ensure_topic("t")  # Another request: in the slot of the first one, or after it.
    assert in_doubt() == 0


def test_a_request_that_is_under_way_is_not_in_doubt(tmp_path):
    log, store, in_doubt = doubtful(tmp_path)
    found = []

    def look(operation, _name):
        if operation == "create":
            found.append(in_doubt())

    store.before = look
    log.ensure_topic("t")
    assert found == [0]
    store.inject(Fault.FAIL_AFTER, "create", "_log/*")
    Log.open(store, retry=Retry(deadline_s=60.0)).ensure_topic("u")
    assert in_doubt() == 0


# -- Stores ---------------------------------------------------------------------------------------------


def test_a_measured_store_keeps_the_promises_of_the_other_one(tmp_path):
    inner = PosixStore(str(tmp_path))
    store = MeasuredStore(inner)
    assert (store.url, store.requests_are_free, store.has_exact_conflicts) == (inner.url, True, True)
    with suppress(RuntimeError), store.upload("a/b") as file:
        file.write(b"half")
        raise RuntimeError
    assert [*store.list("")] == []
    with store.upload("a/b") as file:
        file.write(b"whole")
    assert store.read("a/b", 1, 2).to_pybytes() == b"ho"
    assert store.identity("a/b") == inner.identity("a/b")
    registry = CollectorRegistry()
    register(store, registry=registry)
    samples, _, _ = scraped(registry)
    assert value(samples, "eoslog_storage_io_bytes_total", operation="upload") == 5
    assert value(samples, "eoslog_storage_io_bytes_total", operation="read") == 2
    assert value(samples, "db_client_operation_duration_seconds_count", operation="list", system="file") == 1


def test_errors_of_a_store_are_counted_by_their_code():
    store = FaultyStore(MemoryStore())
    measured, registry = MeasuredStore(store), CollectorRegistry()
    register(measured, registry=registry)
    store.inject(Fault.FAIL_BEFORE, "create")
    with pytest.raises(StoreUnavailableError):
        measured.create("a", b"x")
    measured.create("a", b"x")
    samples, _, _ = scraped(registry)
    for error in ("", "STORE_UNAVAILABLE"):
        name = "db_client_operation_duration_seconds_count"
        assert value(samples, name, operation="create", error=error, system="memory") == 1


def test_a_store_for_looking_refuses_to_write(tmp_path):
    inner = PosixStore(str(tmp_path))
    inner.create("a", b"x")
    store = LookingStore(inner)
    for write in (
        lambda: store.create("b", b"x"),
        lambda: store.upload("b"),
        lambda: store.delete("a"),
        lambda: store.overwrite("a", b"y"),
        lambda: store.retire("a"),
    ):
        with pytest.raises(IllegalStateError, match="monitoring only reads"):
            write()
    assert (store.now_ms(), store.age_s("a"), store.group_channel("x")) == (None, None, None)
    assert inner.read("a").to_pybytes() == b"x"


def test_what_a_consumer_meets_that_is_damaged_is_counted():
    registry, log = CollectorRegistry(), Log.create(MemoryStore())
    with Producer(log) as producer:
        producer.send("orders", b"x").result()
    (info,) = log.store.list(paths.DATA)
    whole = bytes(log.store.read(info.name))
    with Consumer(log, {"group.id": "billing", "auto.offset.reset": "earliest"}) as consumer:
        register(consumer, registry=registry)
        consumer.subscribe(["orders"])
        name = "eoslog_consumer_corrupt_polls_total"
        assert (
            value(scraped(registry)[0], name, group="billing") == 0
        )  # Else the first one would be no increase.
        log.store.overwrite(info.name, bytes(len(whole)))
        for times in (1, 2):
            with pytest.raises(CorruptRecordError):
                consumer.poll(timeout_ms=1000)
            assert value(scraped(registry)[0], name, group="billing") == times
        log.store.overwrite(info.name, whole)
        while not consumer.poll(timeout_ms=1000):
            pass
        assert value(scraped(registry)[0], name, group="billing") == 2


def test_damage_that_any_reader_of_the_process_meets_is_counted_once(tmp_path):
    registry, log = CollectorRegistry(), Log.create(str(tmp_path / "log"))
    with Producer(log) as producer:
        producer.send("orders", b"x").result()
    (info,) = log.store.list(paths.DATA)
    register(log, registry=registry)
    register(Log.open(log.url), registry=registry)  # Another handle of the same log.
    assert value(scraped(registry)[0], "eoslog_read_corrupt_total", log=log.url) == 0
    log.store.overwrite(info.name, bytes(info.size))
    for times in (1, 2):
        with pytest.raises(CorruptRecordError):
            read_arrow(log.url, "orders").read_all()
        assert value(scraped(registry)[0], "eoslog_read_corrupt_total", log=log.url) == times
    with Consumer(log.url) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        consumer.seek_to_beginning()
        with pytest.raises(CorruptRecordError):
            consumer.poll(timeout_ms=1000)
    assert value(scraped(registry)[0], "eoslog_read_corrupt_total", log=log.url) == 3


def test_a_consumer_without_a_group_has_an_empty_one():
    registry = CollectorRegistry()
    with Producer("memory://registration-consumer") as producer:
        producer.send("orders-eu", b"x").result()
    with Consumer("memory://registration-consumer") as consumer:
        register(consumer, registry=registry)
        assert not has(scraped(registry)[0], "eoslog_consumer_poll_age_seconds")
        consumer.assign([TopicPartition("orders-eu", 0)])
        consumer.seek_to_beginning()
        while not consumer.poll(timeout_ms=1000):
            pass
        samples, _, _ = scraped(registry)
    assert value(samples, "messaging_client_consumed_messages_total", group="") == 1
    assert value(samples, "eoslog_consumer_lag", topic="orders-eu", partition="0") == 0
    assert has(samples, "eoslog_consumer_poll_age_seconds")


def test_an_admin_has_no_metrics():
    with pytest.raises(ConfigError, match="Admin has no metrics"):
        register(Admin(Log.create(MemoryStore())), registry=CollectorRegistry())
