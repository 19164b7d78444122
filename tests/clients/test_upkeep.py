"""Clients on a log that is maintained: the share they do themselves, and a floor that rose while they were idle."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Producer
from spark_eos.log.log import Log
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.storage import MemoryStore
from tests.maintenance.world import another, append, created, left_behind


@pytest.mark.parametrize("given", [{}, {"max.block.ms": 1000}])
def test_a_producers_share_can_be_switched_off(log_url, given):
    Admin(log_url).create_topic("t")
    with Producer(log_url, given) as producer:
        producer.send("t", b"x")
        producer.flush()
        assert producer._log().upkeep.enabled
    with Producer(log_url, {"log.upkeep.enable": "false", **given}) as producer:
        producer.send("t", b"x")
        producer.flush()
        assert not producer._log().upkeep.enabled


def test_a_consumers_share_can_be_switched_off(log_url):
    Admin(log_url).create_topic("t")
    Consumer(log_url).close()
    assert Log.shared(log_url).upkeep.enabled
    Consumer(log_url, {"log.upkeep.enable": False}).close()
    Consumer(log_url).close()
    assert not Log.shared(log_url).upkeep.enabled, "off as soon as one of those who share it says so"


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
