"""Clients on a log that is maintained: the share they do themselves, and a floor that rose while they were idle."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.log.log import Log
from spark_eos.log.snapshots.maintenance import BackgroundMaintenance
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.storage import MemoryStore
from tests.maintenance.world import another, append, created, left_behind


@pytest.fixture
def shares(monkeypatch):
    """The entries behind which a share of maintenance was done by this process."""
    seen = []
    monkeypatch.setattr(BackgroundMaintenance, "run_slice", lambda _, state: seen.append(state.seq))
    return seen


@pytest.mark.parametrize("given", [{}, {"max.block.ms": 1000}])
def test_a_producer_that_leaves_maintenance_to_others_decides_for_itself_alone(log_url, shares, given):
    Admin(log_url).create_topic("t")
    with (
        Producer(log_url, {"auto.maintenance.enable": "false", **given}) as silent,
        Producer(log_url) as other,
    ):
        shares.clear()
        silent.send("t", b"x").result(timeout=60)
        assert shares == []
        seq = other.send("t", b"x").result(timeout=60) and other._log().state.seq
        assert seq in shares


def test_a_consumer_that_leaves_maintenance_to_others_decides_for_itself_alone(log_url, shares):
    Admin(log_url).create_topic("t")
    at = TopicPartition("t", 0)
    with (
        Consumer(log_url, {"group.id": "a", "auto.maintenance.enable": False}) as silent,
        Consumer(log_url, {"group.id": "b"}) as other,
    ):
        shares.clear()
        silent.assign([at])
        silent.commit({at: 0})
        assert shares == []
        other.assign([at])
        other.commit({at: 0})
        assert shares == [Log.shared(log_url).state.seq]


def test_an_open_log_that_leaves_maintenance_to_others_stays_so(shares):
    log = created(MemoryStore()).without_maintenance()
    shares.clear()
    with Producer(log) as producer:
        producer.send("t", b"x").result(timeout=60)
    assert shares == []


def test_who_was_idle_while_the_floor_rose_is_not_refused():
    log = created(MemoryStore())
    idle = another(log)
    with Producer(idle) as producer:
        producer.send("t", b"1")
        producer.flush()
        append(log, *range(5))
        left_behind(log, 100)
        Vacuum(log, min_age_s=0).run()
        assert log.state.staging_floor > idle.state.seq
        idle.clock.now += 60
        assert producer.send("t", b"2").result(timeout=60).offset == 6


def test_who_stages_at_once_does_not_look_first():
    log = created(MemoryStore())
    reads = []
    read = log.store.read
    log.store.read = lambda name, *rest: (reads.append(name), read(name, *rest))[1]
    with log.stage(log.topic("t")) as writer:
        writer.append(pa.table({"value": [b"x"]}), 0)
    assert reads == []
