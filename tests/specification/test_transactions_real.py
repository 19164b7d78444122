"""What client processes have written to one log in a folder is a behaviour of the specification of transactions."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.specification.planting import planted
from verification.specification.real_processes import record_clients
from verification.specification.traces import TRANSACTIONS, behaviours, rejected

pytestmark = pytest.mark.usefixtures("tlc")

AT_ONCE = 16
"""Runs of one program: mostly they wait."""

MOST = 10
"""So many times that many runs are made until all that must occur was seen."""

MUST = {
    *((kind, True) for kind in ("Take", "Write", "Offset", "OffsetAlone", "Prepare", "End", "Expire")),
    *(("Write", False), ("End", False)),
}
"""Kinds of requests, and whether the rules accepted them, that occur by chance."""

CODE = ("fence-forgotten", "open-rows-shown")
"""Mutants of the rules and of readers, each of which gives traces that are no behaviours."""


@pytest.mark.deep
def test_what_clients_do_is_specified():
    seen = Counter()
    for batch in range(MOST):
        seeds = range(batch * AT_ONCE, (batch + 1) * AT_ONCE)
        traces = record_clients(seeds)
        wrong = rejected(traces, TRANSACTIONS)
        assert not wrong, "\n".join(f"seed {seeds[one.trace - 1]}, {one}" for one in wrong)
        seen.update((step.kind, step.accepted) for trace in traces for step in trace)
        if seen.keys() >= MUST:
            return
    assert seen.keys() >= MUST


@pytest.mark.deep
@pytest.mark.parametrize("name", CODE)
def test_a_planted_bug_gives_traces_that_are_no_behaviours(name):
    for batch in range(MOST):
        traces = record_clients(range(batch * 8, (batch + 1) * 8), planted=planted(name))
        if not all(behaviours(traces, TRANSACTIONS)):
            return
    pytest.fail("not seen")
