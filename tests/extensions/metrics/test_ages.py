"""How long ago something was done that is to be done again and again."""

from __future__ import annotations

import pytest

from spark_eos import Admin, Log, Producer
from spark_eos.extensions.metrics.watch import LogWatch
from spark_eos.protocol.rules.notes import BACKUP, SOUND, VERIFY, note_actions
from spark_eos.storage import MemoryStore
from tests.cli.test_status import HOUR_S
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
