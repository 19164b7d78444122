"""Snapshots of an earlier version do not say where an open transaction began: in them at the latest."""

from __future__ import annotations

from spark_eos.log.log import Log
from spark_eos.maintenance.verify import verify
from spark_eos.protocol import codec, snapshot
from spark_eos.protocol.actions import CommitOffsets, InitProducer
from spark_eos.protocol.schema import known_schemas
from spark_eos.protocol.snapshot_schema import schemas
from spark_eos.protocol.types import ProducerStamp
from tests.log.fakes import FakeClock, create


def test_a_snapshot_of_schema_1_is_read_and_verified(tmp_path, monkeypatch):
    # Entries of the schema before lineages were noted: a snapshot of later ones says what theirs is.
    monkeypatch.setattr(codec, "newest", lambda: [*known_schemas().items()][3])
    log = Log.create(tmp_path, FakeClock(), snapshot_interval=4)
    log.commit(lambda _: (InitProducer(0, 0, "tx", 1000),))
    log.commit(lambda _: (CommitOffsets("g", (), ProducerStamp(0, 0, 0)),))
    log.commit(create("a"))
    log.commit(create("b"))
    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "schemas", lambda: dict([*schemas().items()][:1]))
        log.upkeep.snapshot()
    assert log.state.producers[0].started_seq == 2
    assert Log.open(tmp_path).state.producers[0].started_seq == 4
    found = []
    verify(tmp_path, found.append)
    assert found == []
