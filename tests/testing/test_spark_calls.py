"""The simulated Spark and the recordings of the real one: each does what the other does."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest

from spark_eos.spark.version import TRIED, ReadAllAvailable
from tests.spark_calls.cycles import cycles_of
from tests.spark_calls.recording import calls, kept
from verification.simulator import context as stages
from verification.simulator import driver
from verification.simulator.driver import Run
from verification.simulator.scenario import Plan, simulate
from verification.simulator.spark_calls import FAILED, UnknownCallError, check, transitions
from verification.simulator.spark_order import ORDERS
from verification.simulator.world import FaultProfile

RECORDINGS = {
    minor: {name: lines for name, (_, lines) in kept(minor).items() if name in cycles_of(minor)}
    for minor in TRIED
}
OF_EACH = pytest.mark.parametrize("minor", TRIED)

MODELLED = {
    *(
        "first-batch",
        "restart",
        "restart-without-news",
        "idle",
        "idle-from-the-beginning",
        "latest",
        "limits",
    ),
    *("arrivals-in-the-first-batch", "arrivals-after-the-first-look", "limits-of-a-running-query"),
    *("killed-before-first-plan", "killed-after-offsets-0", "killed-twice-after-offsets-0"),
    *("killed-after-offsets-1", "killed-after-offsets-1-running", "killed-after-commit-0"),
    *("killed-after-commit-1", "failed-commit-0", "failed-commit-1"),
}
"""What the simulated Spark does. It has one source, one task for each micro-batch, and no state."""

WORLDS = [
    Plan(
        seed,
        FaultProfile(kill=kill, lost=lost),
        ("query-0", "live-0", "expirer-1"),
        operations=400,
        start=start,
    )
    for seed, (kill, lost) in enumerate(
        [(0.0, 0.0), (0.03, 0.0), (0.03, 0.05), (0.02, 0.1), (0.05, 0.02)] * 5
    )
    for start in ("earliest", "latest")
]


def recorded(minor, names):
    return {pair for name in names for pair in transitions(calls(RECORDINGS[minor][name]))}


@pytest.mark.parametrize(
    ("minor", "name"),
    [
        pytest.param(minor, name, id=f"{minor}-{name}")
        for minor, recordings in RECORDINGS.items()
        for name in recordings
    ],
)
def test_what_was_recorded_is_accepted(minor, name):
    check(calls(RECORDINGS[minor][name]), after=ORDERS[minor])


@pytest.mark.parametrize("of", [["4.1"], ["4.2", "4.3"]], ids=["4.1", "since 4.2"])
def test_the_grammar_holds_nothing_but_what_was_recorded(of):
    """No belief: each pair of the table is in a recording."""
    (told,) = ({(before, word) for before in order for word in order[before]} for order in orders(of))
    assert told == {pair for minor in of for pair in recorded(minor, RECORDINGS[minor])}


def orders(of):
    """The tables of these versions: one, if they keep one order."""
    return {id(ORDERS[minor]): ORDERS[minor] for minor in of}.values()


def test_an_order_of_an_older_spark_is_not_that_of_a_newer_one():
    for minor, other in (("4.1", "4.2"), ("4.2", "4.1")):
        with pytest.raises(UnknownCallError):
            check(calls(RECORDINGS[minor]["restart"]), after=ORDERS[other])


@pytest.mark.deep
@pytest.mark.parametrize("minor", [TRIED[0], TRIED[-1]])
def test_the_simulated_spark_does_what_was_recorded(monkeypatch, minor):
    """All of it, in the life cycles that it has; and, as `judge` checks in every world, nothing else."""
    told = []
    init = stages.Stage.__init__

    def noted(self, *args, **settings):
        init(self, *args, **settings)
        told.append(self)

    monkeypatch.setattr(stages.Stage, "__init__", noted)
    for plan in WORLDS:
        assert simulate(replace(plan, spark=minor)).problems == []
    done = {
        pair
        for stage in told
        for ends, spoken in stage.drivers
        for pair in transitions(spoken, {stages.INPUT: ends})
    }
    missing = {
        pair for pair in recorded(minor, MODELLED) - done if not any(word.endswith(FAILED) for word in pair)
    }
    assert missing == set()


def problems():
    return [problem for plan in WORLDS for problem in simulate(plan).problems]


@pytest.mark.deep
def test_a_model_without_the_second_initial_offset_is_refused(monkeypatch):
    start = Run._start_of

    def once(self, batch):
        if batch == 0 and self._initial is not None:
            return self._initial
        self._initial = start(self, batch)
        return self._initial

    monkeypatch.setattr(Run, "_start_of", once)
    assert any("to do 'partitions from the beginning'" in problem for problem in problems())


@pytest.mark.deep
def test_a_model_that_commits_to_the_source_too_early_is_refused(monkeypatch):
    batch = Run._batch

    def early(self, start):
        batch(self, start)
        self._ask("commit", self.reader.commit, self._ends[self._planned])

    monkeypatch.setattr(Run, "_batch", early)
    assert any("the batch before has ended there" in problem for problem in problems())


@pytest.mark.deep
def test_a_source_whose_beginning_moves_is_found(monkeypatch):
    """The source as it was: the second answer to ``initialOffset`` is another one, and goes before the recorded one."""
    new = driver.EosLogStreamReader

    class Moving(new):
        def initialOffset(self):
            return self.latestOffset(super().initialOffset(), ReadAllAvailable())

    monkeypatch.setattr(driver, "EosLogStreamReader", Moving)
    assert problems()


@pytest.mark.parametrize(
    "broken",
    [
        lambda line: line.get("call") != "initialOffset" or line["offsets"] < 0,
        lambda line: line.get("call") != "partitions",
        lambda line: line.get("call") != "reportLatestOffset",
        lambda line: line.get("call") != "streamWriter" and line.get("object") != "writer 1",
        lambda line: not (line.get("call") == "unpickled" and line.get("in") == "task"),
    ],
    ids=["second initialOffset", "partitions", "reportLatestOffset", "planned writer", "copies"],
)
def test_a_recording_from_which_a_call_is_taken_is_refused(broken):
    with pytest.raises(UnknownCallError):
        check(calls([line for line in RECORDINGS[TRIED[-1]]["first-batch"] if broken(line)]))


@OF_EACH
def test_each_pair_of_the_grammar_is_needed(minor):
    uses = defaultdict(set)
    order = ORDERS[minor]
    for name, lines in RECORDINGS[minor].items():
        for pair in transitions(calls(lines)):
            uses[pair].add(name)
    for (before, word), names in sorted(uses.items()):
        if word == "the query fails" or word.endswith(FAILED):
            continue
        less = {**order, before: order[before] - {word}}
        with pytest.raises(UnknownCallError):
            check(calls(RECORDINGS[minor][min(names)]), after=less)
