"""The specification of transactions holds, and what the code's rules do with requests is one of its behaviours."""

from __future__ import annotations

import os
import re
from collections import Counter

import pytest

from tests.specification.planting import plant
from verification.specification import explored
from verification.specification.planted_transactions import PLANTED, seen
from verification.specification.requests import record
from verification.specification.tlc import SPECS, check
from verification.specification.traces import TRANSACTIONS, behaviours, rejected

SEEDS = int(os.environ.get("SPARK_EOS_TRACES", "700"))

CODE = (
    "fence-forgotten",
    "init-leaves-open",
    "late-end-decides-the-next",
    "abort-not-recorded",
    "pending-offsets-survive-an-abort",
    "last-stable-offset-stuck",
    "touched-forgotten",
    "prepared-at-the-same-epoch",
    "prepared-takes-rows",
    "timeout-commits",
    "open-rows-shown",
)
"""Mutants of the rules and of readers, each of which gives traces that are no behaviours."""

STATES = 150
"""Of each of the explorer's scenarios of transactions."""

IN_SCENARIOS = (
    ("fence-forgotten", "zombies"),
    ("abort-not-recorded", "expiry"),
    ("open-rows-shown", "streamed-zombies"),
)
"""Mutants, and scenarios of the explorer that come to logs that are no behaviours."""

OF_A_MUTANT = 8
"""Logs for each of them."""


pytestmark = pytest.mark.usefixtures("tlc")


@pytest.mark.deep
def test_transactions_keep_their_promises():
    model = check("TransactionsModel")
    assert model.violated is None
    assert model.states > 10_000


@pytest.mark.deep
def test_transactions_end():
    assert check("TransactionsLive", module="TransactionsModel").states > 1_000


@pytest.mark.deep
def test_without_time_a_transaction_stays_open():
    text = (SPECS / "TransactionsModel.tla").read_text(encoding="utf-8")
    fair = r"Live == Spec /\ \A p \in 1 .. MaxPids : WF_vars(TimesOut(p))"
    assert text.count(fair) == 1
    with pytest.raises(RuntimeError, match="Temporal properties were violated"):
        check("TransactionsLive", module="TransactionsModel", text=text.replace(fair, "Live == Spec"))


@pytest.mark.deep
def test_planted_mistakes_are_seen():
    assert seen() == {name: mistake.violated for name, mistake in PLANTED.items()}


@pytest.mark.deep("many")
@pytest.mark.parametrize("number", [20, SEEDS], ids=["few", "many"])
def test_what_the_rules_do_is_specified(number):
    traces = [record(seed) for seed in range(number)]
    wrong = rejected(traces, TRANSACTIONS)
    assert not wrong, "\n".join(f"seed {one.trace - 1}, {one}" for one in wrong)
    if number < SEEDS:
        return  # Not all that may happen does in few logs.
    known = set(re.findall(r'e\.k = "(\w+)"', (SPECS / "TransactionsTrace.tla").read_text(encoding="utf-8")))
    kinds = Counter((step.kind, step.accepted) for trace in traces for step in trace)
    assert {kind for kind, accepted in kinds if accepted} == known
    refused = {kind for kind, accepted in kinds if not accepted}
    assert refused == known - {"Alone", "OffsetAlone", "Again"}


@pytest.mark.deep
def test_planted_bugs_give_traces_that_are_no_behaviours():
    traces = []
    for name in CODE:
        with pytest.MonkeyPatch.context() as monkeypatch:
            plant(name, monkeypatch)
            traces += [record(seed) for seed in range(OF_A_MUTANT)]
    good = behaviours(traces, TRANSACTIONS)
    unseen = [name for at, name in enumerate(CODE) if all(good[at * OF_A_MUTANT : (at + 1) * OF_A_MUTANT])]
    assert not unseen


@pytest.mark.deep
def test_what_the_explorer_comes_to_is_specified():
    traces = [trace for name in explored.EXPLORED for trace in explored.record(name, states=STATES)]
    wrong = rejected(traces, TRANSACTIONS)
    assert not wrong, "\n".join(map(str, wrong))
    kinds = {step.kind for trace in traces for step in trace}
    assert kinds == {"Take", "Write", "Offset", "Prepare", "End", "Expire"}


@pytest.mark.deep
@pytest.mark.parametrize(("name", "scenario"), IN_SCENARIOS)
def test_planted_bugs_give_logs_that_are_no_behaviours(name, scenario, monkeypatch):
    plant(name, monkeypatch)
    assert not all(behaviours(explored.record(scenario, states=STATES), TRANSACTIONS))
