"""Many seeds, on all cores: how much was tried, and the story of what failed."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from verification.simulator.scenario import Outcome, Plan, simulate
from verification.simulator.shrink import shrink

__all__ = ["Failure", "Report", "Tally", "campaign", "story"]

STORY_LINES = 120

_TASKS = 100
"""Pieces of work after which a process of a campaign is replaced."""

_TOGETHER = 4
"""Seeds in a piece of work."""


class Failure(NamedTuple):
    """A seed that broke a promise."""

    seed: int
    problems: list[str]


class Report(NamedTuple):
    """What one run came to, as far as a campaign counts it."""

    seed: int
    problems: list[str]
    operations: int
    entries: int
    faults: dict[str, int]
    events: dict[str, int]
    answers: dict[str, int]


@dataclass
class Tally:
    """What a campaign has tried.

    ``events`` is what came to be in the logs, ``answers`` what was refused or stayed unknown, by kind.
    """

    runs: int = 0
    operations: int = 0
    fewest: int = 0
    """Operations of the shortest run."""
    entries: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, report: Report) -> None:
        """One more run."""
        self.fewest = min(self.fewest, report.operations) if self.runs else report.operations
        self.runs += 1
        self.operations += report.operations
        self.entries += report.entries
        self.faults.update(report.faults)
        self.events.update(report.events)
        self.answers.update(report.answers)
        if report.problems:
            self.failures.append(Failure(report.seed, report.problems))

    def __str__(self) -> str:
        return (
            f"{self.runs:,} runs, {self.operations:,} store operations (at least {self.fewest:,} in each), "
            f"{self.entries:,} entries, {sum(self.faults.values()):,} faults: {len(self.failures)} failed; "
            f"{self.seconds:.0f} s"
        )

    def table(self) -> str:
        """All of it, for a page of the docs."""
        rows = {
            "runs": f"{self.runs:,}",
            "runs that broke a promise": f"{len(self.failures):,}",
            "operations of the store": f"{self.operations:,}, at least {self.fewest:,} in each run",
            "entries": f"{self.entries:,}",
            "faults": _listed(self.faults),
            "in the logs": _listed(self.events),
            "refused, or unknown": _listed(self.answers),
            "seconds": f"{self.seconds:,.0f}",
        }
        return "\n".join(["| what | how many |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows.items())])


def campaign(seeds: Iterable[int], *, jobs: int = 1, minutes: float | None = None) -> Iterator[Tally]:
    """Simulate the seeds, or as many of them as ``minutes`` allow. Yields the tally so far after each run.

    Runs are counted in the order of their seeds, so that a campaign that was stopped can go on after the
    last one that was counted.
    """
    tally, began = Tally(), time.monotonic()
    for report in _reports(seeds, jobs):
        tally.add(report)
        tally.seconds = time.monotonic() - began
        yield tally
        if minutes is not None and tally.seconds >= 60 * minutes:
            return


def _reports(seeds: Iterable[int], jobs: int) -> Iterator[Report]:
    """Raises `BrokenProcessPool` if a process dies.

    The processes are no children of this one, which may have threads and objects that no fork survives (those of
    Kafka's client do not). They are replaced now and then, so that whatever a run leaves behind in memory goes.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    left = iter(seeds)
    while block := [*islice(left, jobs * _TASKS * _TOGETHER)]:
        pool = ProcessPoolExecutor(jobs, context, _begin)
        try:
            yield from pool.map(_run, block, chunksize=_TOGETHER)
        finally:
            pool.shutdown(cancel_futures=True)


def _listed(counts: Counter[str]) -> str:
    return f"{sum(counts.values()):,}: " + ", ".join(f"{n:,} {name}" for name, n in sorted(counts.items()))


def story(seed: int, *, smaller: bool = True) -> str:
    """What happened in the run of a seed, made as small as possible if it fails."""
    plan = Plan.of(seed)
    if smaller and simulate(plan).problems:
        plan = shrink(plan, lambda candidate: bool(simulate(candidate).problems))
    outcome = simulate(plan)
    return "\n".join(_lines(outcome))


def _lines(outcome: Outcome) -> Iterator[str]:
    yield f"{outcome.plan}"
    yield f"{outcome.operations} store operations, {outcome.entries} entries, faults {outcome.faults}"
    yield from (f"PROBLEM {problem}" for problem in outcome.problems)
    if len(outcome.trace) > STORY_LINES:
        yield f"... {len(outcome.trace) - STORY_LINES} lines before"
    yield from outcome.trace[-STORY_LINES:]


def _begin() -> None:
    logging.disable(logging.CRITICAL)  # Trouble is what is wanted here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Who is interrupted at the keyboard is the parent.


def _run(seed: int) -> Report:
    try:
        outcome = simulate(Plan.of(seed))
    except Exception as error:  # noqa: BLE001  (a seed that breaks the simulator itself is a failure as well)
        return Report(seed, [f"the simulation itself failed: {error!r}"], 0, 0, {}, {}, {})
    return Report(
        seed,
        outcome.problems,
        outcome.operations,
        outcome.entries,
        outcome.faults,
        outcome.events,
        outcome.answers,
    )
