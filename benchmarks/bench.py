"""What a workload is given: the peers, a folder on the disk to be measured, and how much to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TypeVar

from benchmarks.pairing import Run, Runs, Taken, rounds
from benchmarks.peers import Peers
from benchmarks.results import Figure, Result

__all__ = ["LIMIT", "Bench", "Case"]

LIMIT = "no-op"
"""The contender that is the limit of Python data sources, in figures."""

T = TypeVar("T")


@dataclass
class Bench:
    """One workload's run, in a folder of its own. ``repeat`` None is each workload's own default."""

    peers: Peers
    folder: Path
    quick: bool = False
    repeat: int | None = None
    _numbers: Iterator[int] = field(default_factory=count)

    def choose(self, quick: T, full: T) -> T:
        """One of the two."""
        return quick if self.quick else full

    def repeats(self, quick: int, full: int) -> int:
        """How many rounds."""
        return self.repeat or self.choose(quick, full)

    def fresh(self, name: str) -> Path:
        """A folder that does not exist yet, and never did: Python's workers remember logs by their paths."""
        return self.folder / f"{name}-{next(self._numbers)}"

    @contextmanager
    def passing(self, name: str) -> Iterator[Path]:
        """Such a folder, which is gone afterwards: what some write in seconds fills a disk in a few rounds."""
        path = self.fresh(name)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def say(self, text: str) -> None:
        """Tell how far it is."""
        print(text, flush=True)


class Case:
    """Contenders for the same piece of work; those that are not there are not added."""

    def __init__(self, bench: Bench, name: str) -> None:
        self.name = name
        self._bench = bench
        self._contenders: dict[str, Run] = {}
        self.runs: Runs = {}

    def add(self, name: str, run: Run, *, there: bool = True) -> None:
        """Let a contender take part, if it is there."""
        if there:
            self._contenders[name] = run

    def run(self, repeat: int, *, warm_up: int = 1) -> None:
        """All of them, in rounds."""
        self._bench.say(f" {self.name}")
        self.runs = rounds(self._contenders, repeat, warm_up=warm_up, say=self._bench.say)

    def figures(self, result: Result, value: Callable[[Taken], float], unit: str) -> None:
        """Keep the absolute figures of all contenders."""
        for name, taken in self.runs.items():
            result.figures.append(Figure(self.name, name, tuple(value(one) for one in taken), unit))
