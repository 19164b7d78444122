"""Simulated worlds in which the log's folder is put back from a copy under living processes."""

from __future__ import annotations

import random
import sys
from typing import NoReturn

import pytest

from spark_eos.log.commit.divergence import DivergenceDetector
from spark_eos.protocol.state import State
from verification.simulator import restores
from verification.simulator.restores import restored
from verification.specification.worlds import record

FIXED = 40
"""In the worlds from this one on much is put back, and processes notice."""


@pytest.mark.deep("new")  # Other worlds in each run.
@pytest.mark.parametrize("first", [FIXED, random.SystemRandom().randrange(10**9)], ids=["fixed", "new"])
def test_what_is_acknowledged_behind_a_restore_stays(first):
    worlds = [restored(seed) for seed in range(first, first + (6 if first == FIXED else 20))]
    assert {world.seed: world.problems for world in worlds if world.problems} == {}
    if first != FIXED:
        return  # How much happens in worlds that are drawn at random differs.
    assert sum(world.diverged for world in worlds) >= 5, "nothing was put back under a process that noticed"
    assert sum(world.lost > 0 for world in worlds) >= 3, "the copies were as new as the log"
    assert sum(len(world.acknowledged) for world in worlds) > 500


@pytest.mark.parametrize("seed", [1529, 1658])
def test_no_log_counts_as_put_back_in_worlds_where_none_is(seed, monkeypatch):
    """Names of retired entries are deleted before a process has looked again at what it has read."""
    refused: list[str] = []
    real = DivergenceDetector._refuse

    def refuse(
        self: DivergenceDetector, state: State, what: str, cause: BaseException | None = None
    ) -> NoReturn:
        refused.append(what)
        real(self, state, what, cause)

    monkeypatch.setattr(DivergenceDetector, "_refuse", refuse)
    record(seed)
    assert refused == []


@pytest.mark.deep
def test_one_seed_is_one_world():
    assert restored(3).trace == restored(3).trace


def test_a_process_that_ends_with_an_error_is_a_problem(monkeypatch):
    monkeypatch.setattr(restores, "_keep", lambda _: 1 // 0)
    assert _found("keeper failed: ZeroDivisionError")


def _found(problem: str) -> bool:
    """Whether a world tells. One in fifty does, so a thousand are enough however the code draws from its seeds."""
    return any(problem in one for seed in range(1000) for one in restored(seed).problems)


@pytest.mark.deep
def test_a_process_that_does_not_look_is_found(monkeypatch):
    monkeypatch.setattr(DivergenceDetector, "_compare", lambda *_: None)
    assert _found("is lost")


@pytest.mark.deep
def test_entries_of_two_histories_in_one_log_are_found(monkeypatch):
    monkeypatch.setattr(sys.modules["spark_eos.protocol.rules.apply"], "check_history", lambda *_: None)
    # It sees most of them first: with it, one world in a thousand tells.
    monkeypatch.setattr(DivergenceDetector, "before_applying", lambda *_: None)
    assert _found("of another history")
