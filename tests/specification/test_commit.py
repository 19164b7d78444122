"""The specification of the commit protocol holds, and what running code does is one of its behaviours."""

from __future__ import annotations

import os
import re
from collections import Counter

import pytest

from tests.specification.planting import plant
from verification.specification import planted_liveness, worlds
from verification.specification.planted import PLANTED, seen
from verification.specification.tlc import SPECS, check
from verification.specification.traces import COMMIT, behaviours, rejected
from verification.specification.worlds import record

SEEDS = int(os.environ.get("SPARK_EOS_TRACES", "700"))

BY_HAND = (
    "taken along by a leader that forgot",
    "a name that was deleted is a slot",
    "a busy store is a no",
    "taken along beyond its reach",
    "a withdrawal over a network is certain",
)
"""Mistakes that are seen late. `scripts/specify` plants them, too."""

CODE = {
    "unknown-is-no": range(12),
    "taken-slot-is-ours": range(12),
    "own-entry-not-recognised": range(12, 24),
    "next-slot-while-in-doubt": range(12),
    "lagging-names-the-slot-it-has-read": range(60, 75),
    "lagging-with-what-is-in-doubt": range(12),
    "lost-is-not-in": range(12),
    "later-slot-is-taken-along": range(15, 30),
    "taken-along-again": range(55, 70),
    "refused-on-an-old-state": range(45, 80),
    "no-while-it-is-handed-over": range(240, 250),
    "taken-along-too-late": (963, 1057),
}
"""Mutants of the commit path, and worlds in which some of their traces are no behaviours."""


pytestmark = pytest.mark.usefixtures("tlc")


@pytest.mark.deep
def test_the_protocol_holds():
    model = check("CommitModel")
    assert model.violated is None
    assert model.states > 50_000


@pytest.mark.deep
def test_each_call_is_answered():
    assert check("CommitLive", module="CommitModel").states > 10_000


@pytest.mark.deep
def test_each_call_of_a_group_is_answered_though_a_process_stops():
    assert check("CommitGroupLive", module="CommitModel").states > 5_000


@pytest.mark.deep
@pytest.mark.parametrize("name", list(planted_liveness.PLANTED)[:2])
def test_a_mistake_by_which_a_call_waits_for_ever_is_seen(name):
    assert planted_liveness.waits_for_ever(name)


@pytest.mark.deep
def test_planted_mistakes_are_seen():
    names = [name for name in PLANTED if name not in BY_HAND]
    assert seen(names) == {name: PLANTED[name].violated for name in names}


@pytest.mark.deep("many")
@pytest.mark.parametrize("number", [20, SEEDS], ids=["few", "many"])
def test_what_the_code_does_is_specified(number):
    runs = [record(seed) for seed in range(number)]
    assert {run.seed: run.failures for run in runs if run.failures} == {}
    wrong = rejected([run.events for run in runs], COMMIT)
    assert not wrong, "\n".join(f"seed {runs[one.trace - 1].seed}, {one}" for one in wrong)
    if number < SEEDS:
        return  # Not all that may happen does in few worlds.
    known = set(re.findall(r'e\.k = "(\w+)"', (SPECS / "CommitTrace.tla").read_text(encoding="utf-8")))
    assert set(Counter(event.kind for run in runs for event in run.events)) == {"Reach", *known}


def test_a_process_that_ends_with_an_error_is_seen(monkeypatch):
    monkeypatch.setattr(worlds, "_commit", lambda *_: 1 // 0)
    assert "writer-0 failed: ZeroDivisionError('integer division or modulo by zero')" in record(0).failures


@pytest.mark.deep
def test_planted_bugs_give_traces_that_are_no_behaviours():
    traces, names = [], []
    for name, seeds in CODE.items():
        with pytest.MonkeyPatch.context() as monkeypatch:
            plant(name, monkeypatch)
            traces += [record(seed).events for seed in seeds]
            names += [name] * len(seeds)
    good = behaviours(traces, COMMIT)
    assert {name for name, is_good in zip(names, good, strict=True) if not is_good} == CODE.keys()
