"""How long ago something was done that is to be done again and again."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.extensions.metrics.watch import LogWatch
from spark_eos.protocol.rules.notes import BACKUP, SOUND, VERIFY, note_actions
from spark_eos.storage import MemoryStore
from tests.cli.test_status import HOUR_S
from tests.extensions.metrics.metrics_world import watched
from tests.log.fakes import FakeClock
from tests.needing import needs


@pytest.fixture
def clock():
    clock = FakeClock()
    clock.now = 1_800_000_000.0
    return clock


def ages(log, clock):
    points = LogWatch(log.store, clock=clock).points(wait=True)
    return {one.metric.name: one.value for one in points if one.metric.name.endswith(".age")}


def begun(log, name, topics, **settings):
    producer = Producer(log, {"transactional.id": name, "transaction.timeout.ms": 60_000, **settings})
    producer.init_transactions()
    producer.begin_transaction()
    for topic in topics:
        producer.send(topic, b"x")
    producer.flush()
    return producer


def test_the_oldest_of_several_transactions_counts(clock):
    """A prepared one is never late."""
    log = Log.create(MemoryStore(), clock)
    earlier = begun(log, "a", ["orders", "clicks"])
    clock.now += 20
    two_phase = {"transaction.two.phase.commit.enable": True}
    later = begun(log, "b", ["orders", "sales"], **two_phase)
    later.prepare_transaction()
    clock.now += 50
    found = watched(LogWatch(log.store, clock=clock))
    assert [found["topic.open_transaction.age", topic] for topic in ("orders", "clicks", "sales")] == [
        70, 70, 50,
    ]  # fmt: skip
    assert (found["transactions.oldest.age",], found["transactions.prepared.age",]) == (70, 50)
    assert found["transactions.late",] == 1
    clock.now += 3600
    assert watched(LogWatch(log.store, clock=clock))["transactions.late",] == 1
    for producer in (earlier, later):
        producer.close()


def test_the_oldest_of_several_partitions_counts(clock):
    log = Log.create(MemoryStore(), clock)
    Admin(log).create_topic("orders", 3)
    at = [TopicPartition("orders", number) for number in range(3)]
    Admin(log).alter_group_offsets("billing", dict.fromkeys(at, 0))
    with Producer(log) as producer:
        for number, age_s in enumerate((100, 400, 200)):
            for _ in range(2):
                sent_ms = clock.now_ms() - age_s * 1000
                producer.send("orders", b"x", partition=number, timestamp_ms=sent_ms)
    Admin(log).delete_records(dict(zip(at, (1, 0, 2), strict=True)))
    found = watched(LogWatch(log.store, clock=clock))
    shown = {name: found[f"consumer_group.{name}", "billing", "orders"] for name in ("lag_time", "lost")}
    assert shown == {"lag_time": 400, "lost": 3}


@pytest.mark.parametrize(
    ("name", "job", "results"), [("eoslog.backup.age", BACKUP, ()), ("eoslog.verify.age", VERIFY, (SOUND,))]
)
def test_of_a_job_that_was_noted(clock, name, job, results):
    log = Log.create(MemoryStore(), clock)
    assert name not in ages(log, clock)
    for hours in (30 * 24, 3):
        log.commit(lambda state: note_actions(state, job, *results))
        clock.now += hours * HOUR_S
        assert ages(log, clock)[name] == pytest.approx(hours * HOUR_S)


@needs("tables")
def test_of_a_publication_whose_records_have_times_of_long_ago(tmp_path, clock):
    from spark_eos.extensions.tables.tables import Tables

    log = Log.create(str(tmp_path / "log"), clock)
    Admin(log).create_topic("orders", 1)
    Admin(log).alter_log({"entry.timestamp.after.max.ms": 10**12})  # Else the store's time counts.
    Tables(log).create("nightly", ["orders"])
    for _ in range(2):
        with Producer(log) as producer:
            producer.send("orders", b"x", timestamp_ms=1_000_000)
        Tables(log).publish("nightly")
        clock.now += 1.5 * HOUR_S
        assert ages(log, clock)["eoslog.publication.age"] == 1.5 * HOUR_S
    Tables(log).drop("nightly")
    Tables(log).create("nightly", ["orders"])  # Its numbers go on.
    Admin(log).alter_log({"health.lag.max.ms": 3, "health.publication.lag.max.ms": 7_000})
    found = watched(LogWatch(log.store, clock=clock))
    assert found["publication.sequence", "nightly"] == log.follow().publications["nightly"].first > 2
    assert found["publication.lag_limit", "nightly", "orders"] == 7
