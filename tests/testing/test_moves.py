"""Simulated worlds in which a log moves to another place under living processes."""

from __future__ import annotations

import copy
import random

import pyarrow as pa
import pytest

from spark_eos.log import paths
from spark_eos.log.clock import Retry
from spark_eos.log.commit import tail
from spark_eos.log.commit.closing import close_after, is_closing
from spark_eos.log.log import Log
from spark_eos.maintenance import copying
from spark_eos.protocol.actions import Entry
from spark_eos.protocol.encoding.entries import encode_entry
from verification.no_threads import NO_THREADS
from verification.simulator import moves
from verification.simulator.clock import SimulatedClock
from verification.simulator.moves import moved

FIXED = 44
"""In the worlds from this one on a mover dies, or sleeps, and another one goes on."""


@pytest.mark.deep("new")  # Other worlds in each run.
@pytest.mark.parametrize("first", [FIXED, random.SystemRandom().randrange(10**9)], ids=["fixed", "new"])
def test_a_log_moves_with_what_was_acknowledged_and_nothing_comes_after_it(first):
    worlds = [moved(seed) for seed in range(first, first + (8 if first == FIXED else 4))]
    assert {world.seed: world.problems for world in worlds if world.problems} == {}
    if first != FIXED:
        return  # How much happens in worlds that are drawn at random differs.
    assert sum(len(world.acknowledged["old"]) for world in worlds) > 100
    assert sum(len(world.acknowledged["new"]) for world in worlds) > 100
    assert sum(world.met for world in worlds) > 20, "no process met the mark of the closed log"
    assert any(world.movers > 1 for world in worlds), "no copy was gone on with"


def test_one_seed_is_one_world():
    assert moved(6).trace == moved(6).trace


def test_a_process_that_ends_with_an_error_is_a_problem(monkeypatch):
    monkeypatch.setattr(moves, "_keep", lambda *_: 1 // 0)
    problems = next(problems for seed in range(40) if (problems := moved(seed).problems))
    assert problems == ["keeper failed: ZeroDivisionError('integer division or modulo by zero')"]


def test_a_mover_that_fails_is_followed_by_no_other(monkeypatch):
    monkeypatch.setattr(moves, "copy_log", lambda *_, **__: 1 // 0)
    found = moved(0)
    assert found.movers == 1
    assert "mover-1 failed: ZeroDivisionError('integer division or modulo by zero')" in found.problems


def _found(problem, first=0, last=None):
    seeds = range(first, first + 40 if last is None else last)
    return any(problem in one for seed in seeds for one in moved(seed).problems)


@pytest.mark.deep
def test_a_closer_that_does_not_look_after_its_create_is_found(monkeypatch):
    def close(source, clock, environment):
        close_after(source, Log(source, clock, environment=environment).follow())

    monkeypatch.setattr(copying, "close_log", close)
    assert _found("is lost", first=1050)


@pytest.mark.deep
def test_a_closer_that_copies_nothing_after_it_has_closed_is_found(monkeypatch):
    """What was written while it copied is in the old log alone."""
    fix, close = copying._fix, copying.close_log
    fixed = []
    monkeypatch.setattr(copying, "_fix", lambda source: fixed.pop() if fixed else fix(source))

    def close_and_forget(source, *of_process):
        fixed.append(fix(source))
        close(source, *of_process)

    monkeypatch.setattr(copying, "close_log", close_and_forget)
    assert _found("is lost", first=72)


def test_a_writer_that_ignores_the_mark_is_found(monkeypatch):
    """It takes the mark for an entry without requests, and goes on after it."""

    def blind(cast, process, place):
        store = copy.copy(cast.stores[place])

        def read(name, offset=0, length=None):
            data = cast.stores[place].read(name, offset, length)
            seq = int(name.removesuffix(".avro").rpartition("/")[2])
            return pa.py_buffer(encode_entry(Entry(seq, ()))) if is_closing(data) else data

        store.read = read
        return Log.open(store, SimulatedClock(process), Retry(deadline_s=0), environment=NO_THREADS)

    monkeypatch.setattr(moves._Cast, "_open", blind)
    assert _found("by a call that began at")


@pytest.mark.deep
def test_a_writer_that_opens_a_copy_just_before_it_is_a_log_is_found(monkeypatch):
    """It sleeps after it has found no snapshot, until there is a snapshot and an entry 0. The copy takes long."""

    def asleep(cast, process, place):
        store = copy.copy(cast.stores[place])

        def listed(prefix):
            found = [*cast.stores[place].list(prefix)]
            if prefix == paths.SNAPSHOTS and not found:
                for _ in range(2000):
                    if cast._is_done():
                        break
                    process.wait(1.0)
            return iter(found)

        if place == "new":
            store.list = listed
        return Log.open(store, SimulatedClock(process), Retry(deadline_s=0), environment=NO_THREADS)

    def slowly(target, plan):
        target._world.current().wait(30.0)
        make_a_log(target, plan)

    make_a_log = copying._make_a_log
    monkeypatch.setattr(copying, "_make_a_log", slowly)
    monkeypatch.setattr(moves._Cast, "_open", asleep)
    assert not _found("", first=0, last=8)
    monkeypatch.setattr(tail.Tail, "_has_become_a_log", lambda _: False)
    assert _found("was told of damage at the new place", first=0, last=8)
