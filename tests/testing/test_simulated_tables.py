"""Published tables in simulated worlds: the model of a table does what delta-rs does, and mistakes would be seen."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from spark_eos.errors import TableChangedError
from spark_eos.maintenance import reachability
from spark_eos.maintenance.end_marks import Delays
from spark_eos.protocol.actions.publishing import versions
from spark_eos.storage import MemoryStore
from verification.simulator import tables
from verification.simulator.scenario import Plan, simulate
from verification.simulator.tables import SimulatedTable
from verification.simulator.world import FaultProfile

CAST = ("publisher-0", "publisher-zombie", "slow-0", "slow-1", "producer-0", "eager-0", "live-0")


def plan(seed, **faults):
    return replace(
        Plan.of(seed),
        fault_profile=FaultProfile(**faults),
        cast=CAST,
        operations=1500,
        interval=1000,
        forget=False,
    )


def contents(sequence):
    return {"sequence": sequence, "entry": sequence, "offsets": {}, "files": []}


def model(calls):
    """What the model answers to commits that were planned on a version, and the names of what it writes."""
    store = MemoryStore()
    answers = []
    for before in calls:
        try:
            SimulatedTable(store, "t/").commit(before, contents(before + 1))
            answers.append("committed")
        except TableChangedError:
            answers.append("refused")
        newest = SimulatedTable(store, "t/").current()
        answers.append(-1 if newest is None else newest.native)
    return answers, sorted(info.name.rpartition("/")[2] for info in store.list("t/_delta_log/"))


def delta(folder, calls):
    """What delta-rs does with the same commits."""
    import deltalake
    from deltalake.exceptions import CommitFailedError

    schema = deltalake.Schema.from_arrow(pa.schema([("value", pa.int64())]))
    url, answers, handles = str(folder), [], {}
    deltalake.DeltaTable.create(url, schema)
    properties = deltalake.CommitProperties(max_commit_retries=0)
    for before in calls:
        table = handles.setdefault(before, deltalake.DeltaTable(url))
        assert table.version() == before, "each handle was opened when its version was the newest one"
        handles.setdefault(before + 1, None)
        stale = deltalake.DeltaTable(url, version=before)
        try:
            stale.create_write_transaction([], "overwrite", schema, commit_properties=properties)
            answers.append("committed")
            handles[before + 1] = deltalake.DeltaTable(url)
        except CommitFailedError:
            answers.append("refused")
        answers.append(deltalake.DeltaTable(url).version())
    return answers, sorted(path.name for path in (folder / "_delta_log").glob("*.json"))


def test_the_model_of_a_table_does_what_delta_does(tmp_path):
    """A version is a file that is created once; of two commits that were planned on one version, one is refused."""
    calls = [0, 0, 1, 0, 2, 1, 2]
    pytest.importorskip("deltalake")
    expected, names = delta(tmp_path / "table", calls)
    answers, written = model([-1, *calls])
    assert expected.count("refused") == 4
    assert (answers[2:], written) == (expected, names)
    assert json.loads(json.dumps(contents(1))) == contents(1)


def test_versions_are_published_and_hold():
    outcome = simulate(plan(5))  # One in which much is published.
    assert outcome.problems == []
    assert outcome.events["versions of tables"] > 10


def problems(seeds=range(4), **faults):
    found = []
    for seed in seeds:
        found += simulate(plan(seed, **faults)).problems
        if found:
            return found
    return found


@pytest.mark.deep
def test_a_table_without_pins_is_seen_to_lose_its_files(monkeypatch):
    monkeypatch.setattr(reachability, "pins", lambda _: iter(()))
    monkeypatch.setattr(Delays, "of", lambda *_: (0, 0))
    assert any("has lost" in one for one in problems())


@pytest.mark.deep
def test_a_publisher_that_is_not_fenced_is_seen(monkeypatch):
    monkeypatch.setattr(versions, "require_publisher", lambda state, name, _: state.publications[name])
    assert any("has taken over" in one for one in problems(kill=0.01))


@pytest.mark.deep
def test_a_version_of_another_range_is_seen(monkeypatch):
    """The publisher takes what is there now for what was there at its entry."""
    planned = tables._Publisher._planned

    def late(self, then):
        action = planned(self, then)
        return action._replace(entry=max(action.entry - 3, 0))

    monkeypatch.setattr(tables._Publisher, "_planned", late)
    assert any("the log had" in one for one in problems())
