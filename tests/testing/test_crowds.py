"""Simulated worlds in which most of the processes that write to a folder lag."""

from __future__ import annotations

import random

import pytest

from verification.simulator import crowds
from verification.simulator.crowds import crowd, totals


@pytest.mark.deep("many", "new")  # New ones are others in each run.
@pytest.mark.parametrize(
    ("first", "number"),
    [(2, 2), (0, 32), (random.SystemRandom().randrange(10**9), 12)],
    ids=["few", "many", "new"],
)
def test_what_is_acknowledged_is_in_the_log_once(first, number):
    worlds = [crowd(seed) for seed in range(first, first + number)]
    assert {world.seed: world.problems for world in worlds if world.problems} == {}
    if number < 32:
        return  # How much happens in few worlds, and in those that are drawn at random, differs.
    happened = totals(worlds)
    assert happened["lagging"] > 1000
    assert happened["put back"] >= 5
    assert happened["diverged"] >= 5


@pytest.mark.deep
def test_one_seed_is_one_world():
    assert crowd(3).trace == crowd(3).trace


def test_a_process_that_ends_with_an_error_is_a_problem(monkeypatch):
    monkeypatch.setattr(crowds._Stage, "_begun", lambda *_: 1 // 0)
    assert "writer-0 failed: ZeroDivisionError('integer division or modulo by zero')" in crowd(0).problems
