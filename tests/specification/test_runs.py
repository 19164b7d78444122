"""The specification of Spark runs and vacuum holds, and what the code does is one of its behaviours."""

from __future__ import annotations

import os
import re
from collections import Counter

import pytest

from tests.specification.planting import plant
from verification.specification import query_trace
from verification.specification.planted_runs import LIVE, PLANTED, seen
from verification.specification.query_runs import Run, record
from verification.specification.tlc import SPECS, check
from verification.specification.traces import RUNS, behaviours, rejected

SEEDS = int(os.environ.get("SPARK_EOS_TRACES", "700"))

CODE = (
    "staging-floor-unchecked",
    "batch-with-other-offsets",
    "replay-without-its-run",
    "zombie-fences-its-successor",
    "replaced-run-proposes",
    "run-not-compared",
    "continuity-not-compared",
    "group-moved-unseen",
    "history-under-one-id",
    "record-does-not-move",
    "later-batch-of-a-stranger",
    "floor-not-compared",
    "vacuum-above-the-floor",
    "vacuum-without-the-delay",
    "committed-files-deleted",
    "staging-floor-off-by-one",
    "not-looked-at-behind-the-floor",
    "old-id-not-fenced",
)
"""Mutants of the rules, of the vacuum and of the sink, each of which gives traces that are no behaviours."""

OF_A_MUTANT = 12
"""Logs for each of them."""

FIRST = {"staging-floor-off-by-one": 12, "not-looked-at-behind-the-floor": 24, "old-id-not-fenced": 30}
"""The first seed of those that few logs meet; 0 for the others."""


pytestmark = pytest.mark.usefixtures("tlc")


@pytest.mark.deep
def test_runs_and_vacuum_keep_their_promises():
    model = check("RunsModel")
    assert model.violated is None
    assert model.states > 50_000


@pytest.mark.deep
def test_a_query_that_is_started_again_goes_on():
    model = check("RunsLive", module="RunsModel")
    assert model.states > 1_000


@pytest.mark.deep
@pytest.mark.parametrize("mistake", LIVE)
def test_mistakes_by_which_a_query_stands_still(mistake):
    rule, planted = LIVE[mistake]
    text = (SPECS / "RunsModel.tla").read_text(encoding="utf-8")
    assert text.count(rule) == 1
    with pytest.raises(RuntimeError, match="Temporal properties were violated"):
        check("RunsLive", module="RunsModel", text=text.replace(rule, planted))


@pytest.mark.deep
def test_planted_mistakes_are_seen():
    assert seen() == {name: mistake.violated for name, mistake in PLANTED.items()}


@pytest.mark.deep("many")
@pytest.mark.parametrize("number", [20, SEEDS], ids=["few", "many"])
def test_what_the_code_does_is_specified(number):
    traces = [record(seed) for seed in range(number)]
    wrong = rejected(traces, RUNS)
    assert not wrong, "\n".join(f"seed {one.trace - 1}, {one}" for one in wrong)
    if number < SEEDS:
        return  # Not all that may happen does in few logs.
    known = set(re.findall(r'e\.k = "(\w+)"', (SPECS / "RunsTrace.tla").read_text(encoding="utf-8")))
    kinds = Counter((step.kind, step.said) for trace in traces for step in trace)
    assert {kind for kind, _ in kinds} == known
    assert {said for kind, said in kinds if kind == "Propose"} == {"asked", "nothing", "fenced", "mismatch"}
    assert {said for kind, said in kinds if kind == "Land"} == {
        *("yes", "fenced", "mismatch", "expired", "mapping", "state")
    }


@pytest.mark.deep
def test_planted_bugs_give_traces_that_are_no_behaviours():
    traces = []
    for name in CODE:
        with pytest.MonkeyPatch.context() as monkeypatch:
            plant(name, monkeypatch)
            first = FIRST.get(name, 0)
            traces += [record(seed) for seed in range(first, first + OF_A_MUTANT)]
    good = behaviours(traces, RUNS)
    unseen = [name for at, name in enumerate(CODE) if all(good[at * OF_A_MUTANT : (at + 1) * OF_A_MUTANT])]
    assert not unseen


# -- What a log says by itself: so are the queries of real Spark seen (tests/spark) --------------------------

ALONE = (
    "staging-floor-unchecked",
    "continuity-not-compared",
    "group-moved-unseen",
    "history-under-one-id",
    "record-does-not-move",
    "later-batch-of-a-stranger",
)
"""Mutants of the rules, by which a log has what the specification refuses."""


def of_logs(seeds):
    """The traces of all queries of these logs."""
    found = []
    for seed in seeds:
        run = Run(seed)
        run.steps()
        found += query_trace.traces(run.store).values()
    return found


@pytest.mark.deep
def test_what_a_log_says_of_its_queries_is_specified():
    traces = of_logs(range(100))
    wrong = rejected(traces, RUNS)
    assert not wrong, "\n".join(map(str, wrong))
    kinds = Counter(step.kind for trace in traces for step in trace)
    assert kinds.keys() == {
        *("Stage", "Propose", "Land", "Write", "Take", "Move", "Retain", "Look", "Raise", "Rest")
    }


@pytest.mark.deep
def test_logs_say_that_a_rule_was_broken():
    traces, names = [], []
    for name in ALONE:
        with pytest.MonkeyPatch.context() as monkeypatch:
            plant(name, monkeypatch)
            found = of_logs(range(30))
        traces += found
        names += [name] * len(found)
    good = behaviours(traces, RUNS)
    assert {name for name, is_good in zip(names, good, strict=True) if not is_good} == {*ALONE}
