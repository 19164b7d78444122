"""The simulator: one seed is one run, nothing breaks, and it would be seen if something did."""

from __future__ import annotations

import hashlib
import logging
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from spark_eos.log import plan as planning
from spark_eos.protocol.rules import microbatch
from spark_eos.protocol.state import Partition
from spark_eos.testing.simulator.campaign import campaign, story
from spark_eos.testing.simulator.scenario import Plan, simulate
from spark_eos.testing.simulator.shrink import shrink
from spark_eos.testing.simulator.world import Weather

ROOT = Path(__file__).parents[2]
RUNS = int(os.environ.get("SPARK_EOS_SIMULATIONS", "25"))


@pytest.fixture(autouse=True)
def _quiet():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def digest(outcome):
    return hashlib.sha256("\n".join(outcome.trace).encode()).hexdigest()


def test_one_seed_is_one_run():
    assert digest(simulate(Plan.of(7))) == digest(simulate(Plan.of(7)))
    assert digest(simulate(Plan.of(7))) != digest(simulate(Plan.of(8)))


def test_one_seed_is_one_run_in_any_process():
    """Also where strings hash otherwise: nothing in the product may depend on the order of a hash map."""
    code = (
        "import hashlib, logging; logging.disable(50)\n"
        "from spark_eos.testing.simulator.scenario import Plan, simulate\n"
        "for seed in range(3):\n"
        "    print(hashlib.sha256('\\n'.join(simulate(Plan.of(seed)).trace).encode()).hexdigest())\n"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


@pytest.mark.parametrize("first", [0, random.SystemRandom().randrange(10**9)], ids=["fixed", "new"])
def test_nothing_breaks(first, capsys):
    tally = list(campaign(range(first, first + RUNS), jobs=2))[-1]
    with capsys.disabled():  # New seeds are told also if all is well.
        print(f"\nsimulated seeds {first} to {first + RUNS - 1}: {tally}")  # noqa: T201
    assert tally.runs == RUNS
    assert not tally.failures, f"{tally.failures}\n\n{story(tally.failures[0].seed)}"
    assert tally.operations >= 1000 * RUNS
    assert set(tally.faults) > {"kill", "freeze", "jump", "lost", "busy"}


def test_everybody_plays_a_part():
    played = {role.partition("-")[0] for seed in range(60) for role in Plan.of(seed).cast}
    assert played >= {"producer", "zombie", "idempotent", "administrator", "members", "copier", "query"}
    assert {"query-amnesiac", "query-restored", "query-zombie"} <= {
        role for seed in range(100) for role in Plan.of(seed).cast
    }


@pytest.mark.parametrize(
    ("where", "name", "broken"),
    [
        (planning, "_is_hidden", lambda _partition, row, _isolation: row.file is None),
        (Partition, "last_stable_offset", property(lambda self: self.end)),
        (microbatch, "_check_sources", lambda *_, **__: None),
    ],
    ids=["aborted rows shown", "LSO is the end", "no continuity"],
)
def test_a_broken_rule_is_seen(monkeypatch, where, name, broken):
    if name == "_check_sources":
        monkeypatch.setattr(microbatch, "_check_groups", lambda state, _action: state.offsets)
    monkeypatch.setattr(where, name, broken)
    assert any(simulate(Plan.of(seed)).problems for seed in range(60))


def test_a_failing_run_is_made_small(monkeypatch):
    monkeypatch.setattr(Partition, "last_stable_offset", property(lambda self: self.end))
    failing = next(Plan.of(seed) for seed in range(60) if simulate(Plan.of(seed)).problems)
    small = shrink(failing, lambda plan: bool(simulate(plan).problems), tries=25)
    assert simulate(small).problems
    assert len(small.cast) < len(failing.cast)
    assert small.operations <= failing.operations


def test_calm_weather_and_nobody_to_copy():
    outcome = simulate(replace(Plan.of(0), weather=Weather(), cast=("idempotent",), operations=60))
    assert outcome.problems == []
    assert outcome.faults == {}
