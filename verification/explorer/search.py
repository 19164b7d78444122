"""Every interleaving of a few actors, with misfortunes anywhere.

Depth first over all choices (`verification.explorer.scheduler`), those with the fewest misfortunes first. A
moment that was reached before, by whatever way, is not entered again.

*What is left out.* Where some actor's steps can neither change what others do nor be changed by it (`World.alone`),
only its steps are followed: answers, misfortunes and death. Whatever others might do before, they can do after
them, and come to the same moment with as many misfortunes: no end is lost. Nor is anything lost that is wrong on
the way. Such steps do not change the log, and those in which somebody is told otherwise than before
(`Step.takes_back`) are not put before those of others: what contradicts each other still does so after them. Every
step makes somebody's list of answers longer, so there are no circles, and nobody is put off for ever.

*What is remembered.* Real code runs once for every position of an actor, not for every moment
(`verification.explorer.state_fingerprint`). A violation is told again, by running all of it in one go.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from verification.explorer.history import contradictions
from verification.explorer.scenarios import Scenario
from verification.explorer.scheduler import Configuration, Step, World
from verification.explorer.snapshot_checks import badly_kept

__all__ = ["Counterexample", "Report", "explore", "logs", "replay"]


class Counterexample(NamedTuple):
    """The choices that lead to something forbidden, what happened on the way, and what is wrong."""

    choices: tuple[str, ...]
    story: tuple[str, ...]
    problems: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join((*self.story, *(f"WRONG: {text}" for text in self.problems)))


@dataclass
class Report:
    """What an exploration saw. ``complete`` if it saw everything within its limit of misfortunes.

    ``states`` are distinct moments, ``ends`` those of them in which everybody has ended, ``logs`` distinct chains
    of entries. ``positions`` are the places in their code where actors stood, each for himself; real code was
    begun ``executions`` times and was given ``steps`` answers.
    """

    scenario: str
    faults: int
    executions: int = 0
    states: int = 0
    ends: int = 0
    depth: int = 0
    steps: int = 0
    positions: int = 0
    logs: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    complete: bool = True
    violations: list[Counterexample] = field(default_factory=list)

    def __str__(self) -> str:
        limit = "complete" if self.complete else "STOPPED EARLY"
        return (
            f"{self.scenario:18} faults <= {self.faults}  states {self.states:9,}  ends {self.ends:7,}  "
            f"logs {self.logs:7,}  positions {self.positions:7,}  executions {self.executions:7,}  "
            f"depth {self.depth:3}  violations {len(self.violations)}  "
            f"{self.seconds:6.1f} s ({self.cpu_seconds:.1f} of the processor)  {limit}"
        )


def explore(
    scenario: Scenario,
    *,
    faults: int | None = None,
    states: int = 10_000_000,
    seconds: float = 600.0,
    stop: int = 1,
    reduced: bool = True,
) -> Report:
    """Look at all executions of a scenario, until ``stop`` violations are found or a limit is reached.

    At most ``faults`` misfortunes befall one execution. Limits are numbers of distinct states, and seconds of
    wall-clock time. Without ``reduced`` no order of independent steps is left out. Raises
    `NondeterministicActorError` if an actor does not do the same whenever it gets the same answers, and
    `SharedNameError` if actors look at the data files of others and the scenario does not say so.
    """
    with scenario.surroundings():
        search = _Search(scenario, scenario.faults if faults is None else faults, reduced=reduced)
        try:
            return search.run(states, seconds, stop)
        finally:
            search.world.cast.close()


def logs(scenario: Scenario, *, states: int = 10_000_000) -> list[list[bytes]]:
    """The entries of every log that an exploration of so many states comes to, right or wrong."""
    with scenario.surroundings():
        search = _Search(scenario, scenario.faults, reduced=True)
        try:
            search.run(states, math.inf, states)
            return [*search.world.chains.logs()]
        finally:
            search.world.cast.close()


def replay(scenario: Scenario, choices: Iterable[str]) -> Counterexample:
    """One execution, choice by choice, and what is wrong where it ends.

    Raises `ValueError` for a choice that is not possible.
    """
    with scenario.surroundings():
        world = scenario.world()
        try:
            return _told(scenario, world, tuple(choices))
        finally:
            world.cast.close()


def _told(scenario: Scenario, world: World, choices: tuple[str, ...]) -> Counterexample:
    story: list[str] = []
    moment = world.start
    for token in choices:
        step = world.step(moment, token)
        story += step.story
        moment = step.moment
    return Counterexample(choices, tuple(story), _problems(scenario, moment))


def _problems(scenario: Scenario, moment: Configuration) -> tuple[str, ...]:
    problems = list(contradictions(moment.positions, moment.chain, moment.objects))
    if scenario.maintained and not problems:
        problems += badly_kept(moment.chain, moment.objects, moment.sum)
    if not problems and moment.is_over:
        problems += scenario.check(moment.positions, moment.chain)
    return tuple(problems)


class _Search:
    def __init__(self, scenario: Scenario, faults: int, *, reduced: bool) -> None:
        self._scenario = scenario
        self.world = scenario.world()
        self._report = Report(scenario.name, faults)
        self._reduced = reduced
        self._states: set[bytes] = set()
        # By how many misfortunes it takes to get there: a state is first reached with the fewest.
        self._open: list[list[tuple[Configuration, _Path | None, int]]] = [[] for _ in range(faults + 1)]
        self._led_to: list[set[bytes]] = [set() for _ in range(faults + 1)]
        self._open[0].append((self.world.start, None, -1))

    def run(self, most_states: int, most_seconds: float, stop: int) -> Report:
        report, began, worked = self._report, time.monotonic(), time.process_time()
        for used, waiting in enumerate(self._open):
            while waiting and report.complete:
                moment, path, last = waiting.pop()
                if moment.key in self._states:
                    continue
                self._enter(moment, path, used, last)
                report.seconds = time.monotonic() - began
                if (
                    len(report.violations) >= stop
                    or len(self._states) >= most_states
                    or report.seconds >= most_seconds
                ):
                    report.complete = False
            self._led_to[used].clear()
        report.cpu_seconds = time.process_time() - worked
        cast = self.world.cast
        report.states, report.logs = len(self._states), len(self.world.chains)
        report.executions, report.steps, report.positions = cast.executions, cast.steps, cast.positions
        return report

    def _enter(self, moment: Configuration, path: _Path | None, used: int, last: int) -> None:
        report = self._report
        self._states.add(moment.key)
        report.depth = max(report.depth, path.depth if path is not None else 0)
        report.ends += moment.is_over
        if _problems(self._scenario, moment):
            # Told again, from the beginning: so it does not rest on anything remembered.
            choices = () if path is None else tuple(path.tokens())
            report.violations.append(replay(self._scenario, choices))
            return
        for step in reversed(self._chosen(moment, used, last)):  # The first is entered first.
            reached = used + step.fault
            key = step.moment.key
            if key in self._states or key in self._led_to[reached]:
                continue
            self._led_to[reached].add(key)
            depth = 1 if path is None else path.depth + 1
            self._open[reached].append((step.moment, _Path(path, step.token, depth), step.who))

    def _chosen(self, moment: Configuration, used: int, last: int) -> list[Step]:
        """The steps to follow from here."""
        faults = used < self._report.faults
        if self._reduced:
            for position in sorted(moment.positions, key=lambda one: one.number != last):
                if self.world.alone(moment, position):
                    steps = list(self.world.steps(moment, faults=faults, positions=(position,)))
                    if not any(step.takes_back for step in steps):
                        return steps
        return list(self.world.steps(moment, faults=faults, last=last))


class _Path(NamedTuple):
    """The choices up to a point, as a list that shares its beginning with others."""

    before: _Path | None
    token: str
    depth: int

    def tokens(self) -> list[str]:
        tokens = []
        at: _Path | None = self
        while at is not None:
            tokens.append(at.token)
            at = at.before
        return tokens[::-1]
