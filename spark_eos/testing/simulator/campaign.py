"""Many seeds, on all cores: how much was tried, and the story of what failed."""

from __future__ import annotations

import logging
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from spark_eos.testing.simulator.scenario import Outcome, Plan, simulate
from spark_eos.testing.simulator.shrink import shrink

__all__ = ["Failure", "Tally", "campaign", "story"]

STORY_LINES = 120


class Failure(NamedTuple):
    """A seed that broke a promise."""

    seed: int
    problems: list[str]


@dataclass
class Tally:
    """What a campaign has tried."""

    runs: int = 0
    operations: int = 0
    entries: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        faults = ", ".join(f"{count:,} {name}" for name, count in sorted(self.faults.items()))
        return (
            f"{self.runs:,} runs, {self.operations:,} store operations, {self.entries:,} entries, "
            f"{sum(self.faults.values()):,} faults ({faults}): {len(self.failures)} failed; {self.seconds:.0f} s"
        )


def campaign(seeds: Iterable[int], *, jobs: int = 1, minutes: float | None = None) -> Iterator[Tally]:
    """Simulate the seeds, or as many of them as ``minutes`` allow. Yields the tally so far after each run."""
    tally, began = Tally(), time.monotonic()
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for seed, problems, operations, entries, faults in pool.imap_unordered(_run, seeds, chunksize=4):
            tally.runs += 1
            tally.operations += operations
            tally.entries += entries
            tally.faults.update(faults)
            if problems:
                tally.failures.append(Failure(seed, problems))
            tally.seconds = time.monotonic() - began
            yield tally
            if minutes is not None and tally.seconds >= 60 * minutes:
                return


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


def _run(seed: int) -> tuple[int, list[str], int, int, dict[str, int]]:
    logging.disable(logging.CRITICAL)  # Trouble is what is wanted here.
    try:
        outcome = simulate(Plan.of(seed))
    except Exception as error:  # noqa: BLE001  (a seed that breaks the simulator itself is a failure as well)
        return seed, [f"the simulation itself failed: {error!r}"], 0, 0, {}
    return seed, outcome.problems, outcome.operations, outcome.entries, outcome.faults
