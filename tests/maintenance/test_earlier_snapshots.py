"""Snapshots of an earlier version do not say where an open transaction began: in them at the latest."""

from __future__ import annotations

import shutil
from pathlib import Path

from spark_eos.log.log import Log
from spark_eos.log.snapshots.snapshots import newest_snapshot
from spark_eos.maintenance.verify.verify import Verdict, verify
from spark_eos.protocol.encoding.frame import Frame
from spark_eos.protocol.encoding.snapshot_schema import schemas
from spark_eos.storage import PosixStore

GOLDEN = Path(__file__).parents[1] / "golden"


def test_a_snapshot_of_schema_1_is_read_and_verified(tmp_path):
    shutil.copytree(GOLDEN / "v3", tmp_path / "log")
    store = PosixStore(tmp_path / "log")
    (name,) = [info.name for info in store.list("_log/snapshots/")]
    _, schema = Frame(b"EOSSNP", "snapshot", 1).unwrap(store.read(name), schemas(), name)
    assert schema is next(iter(schemas().values()))
    state = newest_snapshot(store)
    begun = {state.producers[one].started_seq for one in state.open_transactions}
    assert begun == {state.seq}
    found = []
    verify(store, found.append)
    assert [one for one in found if one.verdict is Verdict.WRONG] == []
    assert Log.open(store).state.open_transactions == state.open_transactions
