"""The specification of the commit protocol holds, and what running code does is one of its behaviours."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.mutants import MUTANTS
from verification.specification.planted import PLANTED, seen
from verification.specification.planted_code import codes
from verification.specification.tlc import SPECS, check
from verification.specification.traces import COMMIT, behaviours, rejected
from verification.specification.worlds import record

SEEDS = int(os.environ.get("SPARK_EOS_TRACES", "700"))

BY_HAND = ("taken along by a leader that forgot", "a name that was deleted is a slot", "a busy store is a no")
"""Mistakes that are seen late. `scripts/specify` plants them, too."""

CODE = (
    "unknown-is-no",
    "taken-slot-is-ours",
    "own-entry-not-recognised",
    "next-slot-while-in-doubt",
)
"""Mutants of the commit path, each of which gives traces that are no behaviours."""

OF_A_MUTANT = 20
"""Worlds for each of them."""


pytestmark = pytest.mark.usefixtures("tlc")


def test_the_protocol_holds():
    model = check("CommitModel")
    assert model.violated is None
    assert model.states > 10_000


def test_each_call_is_answered():
    assert check("CommitLive", module="CommitModel").states > 10_000


def test_a_call_that_waits_for_a_later_entry_is_not_answered():
    text = (SPECS / "Commit.tla").read_text(encoding="utf-8")
    rule = "me.read >= me.draft.slot"
    assert text.count(rule) == 1
    with pytest.raises(RuntimeError, match="Temporal properties were violated"):
        check(
            "CommitLive",
            module="CommitModel",
            others={"Commit.tla": text.replace(rule, "me.read > me.draft.slot")},
        )


def test_planted_mistakes_are_seen():
    names = [name for name in PLANTED if name not in BY_HAND]
    assert seen(names) == {name: PLANTED[name].violated for name in names}


def test_what_the_code_does_is_specified():
    runs = [record(seed) for seed in range(SEEDS)]
    wrong = rejected([run.events for run in runs], COMMIT)
    assert not wrong, "\n".join(f"seed {runs[one.trace - 1].seed}, {one}" for one in wrong)
    known = set(re.findall(r'e\.k = "(\w+)"', (SPECS / "CommitTrace.tla").read_text(encoding="utf-8")))
    assert set(Counter(event.kind for run in runs for event in run.events)) == known


def plant(name, monkeypatch):
    """Let the functions of the product have the code of the mutant."""
    mutant = next(one for one in MUTANTS if one.name == name)
    source = (Path(__file__).parents[1] / mutant.file).read_text(encoding="utf-8")
    assert source.count(mutant.old) == 1
    for function, code in codes(mutant.file, source.replace(mutant.old, mutant.new)):
        monkeypatch.setattr(function, "__code__", code)


def test_planted_bugs_give_traces_that_are_no_behaviours():
    traces = []
    for name in CODE:
        with pytest.MonkeyPatch.context() as monkeypatch:
            plant(name, monkeypatch)
            traces += [record(seed).events for seed in range(OF_A_MUTANT)]
    good = behaviours(traces, COMMIT)
    unseen = [name for at, name in enumerate(CODE) if all(good[at * OF_A_MUTANT : (at + 1) * OF_A_MUTANT])]
    assert not unseen
