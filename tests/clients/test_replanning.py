"""A consumer that has planned files which were rewritten, and vacuumed, before it came to read them."""

from __future__ import annotations

import pytest

from spark_eos import Consumer, TopicPartition
from spark_eos.clients.consumer.partition_state import PartitionState
from spark_eos.config.isolation import Isolation
from spark_eos.errors import CorruptRecordError
from spark_eos.log import paths
from spark_eos.log.data.records import read
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.protocol.rules import sealing
from spark_eos.storage import MemoryStore
from tests.maintenance.world import another, append, created, listed, roll

T0 = TopicPartition("t", 0)


@pytest.fixture
def log(monkeypatch):
    monkeypatch.setattr(sealing, "PAGE_ROWS", 4)
    return created(MemoryStore())


def polled(reader):
    found = []
    for _ in range(40):
        found += [int(record.value) for record in reader.poll(timeout_ms=0)]
    return found


@pytest.fixture
def begun(log):
    """It has read one record, and planned the others."""
    append(log, *range(20))
    with Consumer(another(log), {"max.poll.records": 1, "auto.offset.reset": "none"}) as reader:
        reader.assign([T0])
        reader.seek(T0, 0)
        assert [int(record.value) for record in reader.poll(timeout_ms=0)] == [0]
        yield reader


def test_it_plans_anew(log, begun):
    roll(log)
    Vacuum(log, min_age_s=0).run()
    assert len(listed(log, paths.DATA)) < 10
    assert polled(begun) == [*range(1, 20)]


def test_within_a_poll_it_goes_on_behind_the_end_that_the_poll_knew(log):
    append(log, *range(20))
    reader = another(log)
    state = reader.follow()
    part = PartitionState(reader, T0, reader.topic("t"), Isolation.READ_COMMITTED)
    part.seek(0)
    part.prepare(state)
    append(log, *range(20, 25))
    roll(log)
    Vacuum(log, min_age_s=0).run()

    def taken():
        return part.take(state, 100, lambda topic, fetch: read(reader.store, topic, fetch))

    assert sum(records.num_rows for records in iter(taken, None)) == 25
    assert (part.position, taken()) == (25, None)


def test_a_file_that_is_lost_is_an_error(log, begun):
    for name in listed(log, paths.DATA):
        log.store.delete(name)
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match="It is missing: it holds"):
            begun.poll(timeout_ms=0)
