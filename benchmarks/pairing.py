"""Runs side by side: all contenders in turn, again and again, so that what else the machine does meets all alike.

A ratio is taken within one round, of runs that follow each other; then the median over the rounds.
"""

from __future__ import annotations

import math
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from benchmarks.machine import processor_seconds

__all__ = ["Interval", "Runs", "Taken", "faster", "interval", "less", "rounds", "timed"]


class Taken(NamedTuple):
    """What a run took: seconds by the clock, and of the processor in all its processes (NaN: unknown)."""

    clock: float
    processor: float = float("nan")


Run = Callable[[], Taken]
Runs = dict[str, list[Taken]]


class _Timer:
    taken = Taken(float("nan"))


@contextmanager
def timed() -> Iterator[_Timer]:
    """Time the block; the processor's time is that of this process and of all below it: Spark's, and the broker's."""
    timer = _Timer()
    before, began = processor_seconds(), time.perf_counter()
    yield timer
    clock = time.perf_counter() - began
    timer.taken = Taken(clock, processor_seconds() - before)


def rounds(
    contenders: Mapping[str, Run], repeat: int, *, warm_up: int = 1, say: Callable[[str], None] = print
) -> Runs:
    """Run all ``contenders`` ``repeat`` times in turn, every other time backwards; first ``warm_up`` times for nothing.

    Before each run the disk is given time to write what the one before it has left.
    """
    runs: Runs = {name: [] for name in contenders}
    for number in range(-warm_up, repeat):
        order = list(contenders) if number % 2 == 0 else list(contenders)[::-1]
        for name in order:
            os.sync()
            taken = contenders[name]()
            if number >= 0:
                runs[name].append(taken)
        if number >= 0:
            last = ", ".join(f"{name} {runs[name][-1].clock:.3g} s" for name in contenders)
            say(f"  round {number + 1} of {repeat}: {last}")
    return runs


def faster(ours: Sequence[Taken], theirs: Sequence[Taken]) -> tuple[float, ...]:
    """Our speed as a multiple of theirs, round by round, for the same work."""
    return tuple(them.clock / us.clock for us, them in zip(ours, theirs, strict=True))


def less(ours: Sequence[Taken], theirs: Sequence[Taken]) -> tuple[float, ...]:
    """Our time as a multiple of theirs, round by round."""
    return tuple(us.clock / them.clock for us, them in zip(ours, theirs, strict=True))


class Interval(NamedTuple):
    """The mean of some ratios (geometric), and where it lies with 95 % of the chance."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.4f} ×, 95 % interval {self.low:.4f} to {self.high:.4f}"


def interval(ratios: Sequence[float], *, samples: int = 10_000, seed: int = 0) -> Interval:
    """The mean of ratios of pairs and its interval: bootstrap over the pairs, on logarithms. The same each time."""
    logs = [math.log(one) for one in ratios]
    chance = random.Random(seed)
    means = sorted(statistics.fmean(chance.choices(logs, k=len(logs))) for _ in range(samples))
    low, high = (means[round(share * (samples - 1))] for share in (0.025, 0.975))
    return Interval(*map(math.exp, (statistics.fmean(logs), low, high)))
