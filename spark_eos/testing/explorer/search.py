"""Every interleaving of a few actors, with misfortunes anywhere.

Depth first over all choices (`spark_eos.testing.explorer.world`), those with the fewest misfortunes first. Real
code cannot be copied in the middle of a call, so every execution begins anew and repeats its choices up to where
something new begins. A state that was reached before, by whatever way, is not entered again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from spark_eos.testing.explorer.history import Chains, contradictions
from spark_eos.testing.explorer.scenarios import Scenario
from spark_eos.testing.explorer.world import Start, Step, World

__all__ = ["Counterexample", "Report", "explore", "replay"]


class Counterexample(NamedTuple):
    """The choices that lead to something forbidden, what happened on the way, and what is wrong."""

    choices: tuple[str, ...]
    story: tuple[str, ...]
    problems: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join((*self.story, *(f"WRONG: {text}" for text in self.problems)))


@dataclass
class Report:
    """What an exploration saw. ``complete`` if it saw everything within its limit of misfortunes."""

    scenario: str
    faults: int
    executions: int = 0
    states: int = 0
    ends: int = 0
    depth: int = 0
    steps: int = 0
    logs: int = 0
    seconds: float = 0.0
    complete: bool = True
    violations: list[Counterexample] = field(default_factory=list)

    def __str__(self) -> str:
        limit = "" if self.complete else " (stopped early)"
        return (
            f"{self.scenario:17} faults <= {self.faults}  executions {self.executions:7,}  states {self.states:8,}  "
            f"ends {self.ends:6,}  logs {self.logs:6,}  depth {self.depth:3}  violations {len(self.violations)}  "
            f"{self.seconds:6.1f} s{limit}"
        )


class _Path(NamedTuple):
    """The choices up to a point, as a list that shares its beginning with others."""

    before: _Path | None
    token: str

    def tokens(self) -> list[str]:
        tokens = []
        at: _Path | None = self
        while at is not None:
            tokens.append(at.token)
            at = at.before
        return tokens[::-1]


def explore(
    scenario: Scenario,
    *,
    faults: int | None = None,
    states: int = 1_000_000,
    seconds: float = 600.0,
    stop: int = 1,
) -> Report:
    """Look at all states that at most ``faults`` misfortunes lead to.

    Stops early after ``stop`` violations, ``states`` states or ``seconds`` seconds; then the report is not
    ``complete``. The first counterexample is one with the fewest misfortunes.
    """
    return _Search(scenario, scenario.faults if faults is None else faults, states, seconds, stop).run()


def replay(scenario: Scenario, choices: Iterable[str]) -> Counterexample:
    """Take these choices once more; ``problems`` is empty if nothing is wrong behind them.

    Raises `ValueError` where a choice is not possible.
    """
    world = World(scenario.roles, scenario.start())
    taken = []
    try:
        for token in choices:
            world.take(world.step(token))
            taken.append(token)
        return Counterexample(tuple(taken), tuple(world.story), _problems(scenario, world, Chains()))
    finally:
        world.close()


def _problems(scenario: Scenario, world: World, chains: Chains) -> tuple[str, ...]:
    chain = chains.of(world.objects)
    problems = list(contradictions(world.actors, chain, world.objects))
    if not problems and world.is_over:
        problems += scenario.check(world.actors, chain)
    return tuple(problems)


class _Search:
    def __init__(self, scenario: Scenario, faults: int, states: int, seconds: float, stop: int) -> None:
        self._scenario = scenario
        self._start: Start = scenario.start()
        self._report = Report(scenario.name, faults)
        self._most_states, self._seconds, self._stop = states, seconds, stop
        self._chains = Chains()
        self._next_calls: dict[bytes, bytes] = {}
        self._states: set[bytes] = set()
        self._led_to: set[bytes] = set()
        # By how many misfortunes it takes to get there: a state is first reached with the fewest.
        self._open: list[list[tuple[bytes, _Path | None]]] = [[] for _ in range(faults + 1)]
        self._open[0].append((b"", None))

    def run(self) -> Report:
        report, began = self._report, time.monotonic()
        for used, paths in enumerate(self._open):
            while paths and report.complete:
                key, path = paths.pop()
                if key in self._led_to:
                    continue  # Somebody came by meanwhile.
                self._led_to.add(key)
                self._execute(path, used)
                report.seconds = time.monotonic() - began
                if (
                    len(report.violations) >= self._stop
                    or len(self._states) >= self._most_states
                    or report.seconds >= self._seconds
                ):
                    report.complete = False
        report.states, report.logs = len(self._states), len(self._chains)
        return report

    def _execute(self, path: _Path | None, used: int) -> None:
        """Repeat the choices of ``path``, then go on to where nothing is new."""
        self._report.executions += 1
        world = World(self._scenario.roles, self._start, self._next_calls)
        try:
            tokens = path.tokens() if path is not None else []
            for token in tokens:
                world.take(world.step(token))
            self._report.steps += len(tokens)
            self._explore(world, path, len(tokens), used)
        finally:
            world.close()

    def _explore(self, world: World, path: _Path | None, depth: int, used: int) -> None:
        report, last = self._report, -1
        if path is not None:
            last = next((one.number for one in world.actors if one.name == path.token.partition(".")[0]), -1)
        while True:
            key = world.key()
            if key in self._states:
                return
            self._states.add(key)
            report.depth = max(report.depth, depth)
            report.ends += world.is_over
            if problems := _problems(self._scenario, world, self._chains):
                choices = tuple(path.tokens()) if path is not None else ()
                report.violations.append(Counterexample(choices, tuple(world.story), problems))
                return
            following = self._choose(world, path, used, last)
            if following is None:
                return
            path, last = _Path(path, following.token), following.who
            world.take(following)
            depth += 1
            report.steps += 1

    def _choose(self, world: World, path: _Path | None, used: int, last: int) -> Step | None:
        """The step to go on with; the others wait for their turn, unless somebody comes by before."""
        following = None
        for step in world.steps(faults=used < self._report.faults, last=last):
            key = world.key_after(step)
            if key in self._led_to:
                continue
            if following is None and not step.fault:
                following = step
                self._led_to.add(key)
            else:
                self._open[used + step.fault].append((key, _Path(path, step.token)))
        return following
