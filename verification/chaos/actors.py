"""Who is struck: programs that are started again whenever they end, and what happened to each."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verification.chaos.journal import CONCURRENT, NotesReader
from verification.processes import Process, send

__all__ = ["FENCED", "Actor", "Frozen", "Run", "Tally"]

FENCED = "ProducerFencedError"
_REST_S = 0.5
"""Before a program that has ended is started again."""

Start = Callable[["Actor", int], tuple[list[str], Path]]
"""The command of the actor's run of that number, and the file of its notes."""


@dataclass
class Tally:
    """What happened to an actor."""

    kills: Counter[str] = field(default_factory=Counter)
    """By kind of process: driver, executor, python worker, client, maintainer."""
    freezes: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    fenced: int = 0
    """Runs that were refused with `ProducerFencedError`: a newer one had taken over."""
    stopped: int = 0
    """Runs that Spark itself ended: another one wrote to the same checkpoint."""
    errors: Counter[str] = field(default_factory=Counter)
    """By name, of all that went wrong without an end of the verdict."""


@dataclass
class Frozen:
    """Processes under SIGSTOP."""

    kind: str
    pids: list[int]
    until: float
    condition: Callable[[], bool] | None = None
    """Holds before they go on, if it is there; ``until`` is then the latest time."""

    def is_over(self) -> bool:
        """Whether they go on now."""
        now = time.monotonic()
        return now >= self.until or (self.condition is not None and self.condition())

    def thaw(self) -> None:
        """SIGCONT."""
        send(self.pids, signal.SIGCONT)


@dataclass
class Run:
    """One life of a program."""

    number: int
    process: Process
    notes: NotesReader
    ready: bool = False
    application: str = ""
    frozen: bool = False
    explained: bool = False
    """It was killed, or has told of an error: its end is no riddle."""


class Actor:
    """A program that always runs, and a second time beside itself when that is asked for."""

    def __init__(self, name: str, kind: str, start: Start, folder: Path, run_id: str) -> None:
        self.name = name
        self.kind = kind
        self.tally = Tally()
        self.runs: list[Run] = []
        self.wanted = True
        self.heard_notes = 0
        self.heard: Callable[[Run, dict[str, Any]], None] | None = None
        """Who else wants to know of notes."""
        self._start = start
        self._folder = folder
        self._run_id = run_id
        self._rest_until = 0.0

    @property
    def ready(self) -> list[Run]:
        """Runs that are up, and neither frozen nor over."""
        return [run for run in self.runs if run.ready and not run.frozen and run.process.running]

    def start(self) -> Run:
        """One more run."""
        number = self.tally.starts
        self.tally.starts += 1
        command, notes = self._start(self, number)
        process = Process(command, self._output(number), self._run_id)
        self.runs.append(Run(number, process, NotesReader(notes)))
        return self.runs[-1]

    def tick(self) -> None:
        """Hear what the runs say, bury those that have ended, and keep one going."""
        for run in [*self.runs]:
            ended = not run.process.running
            for note in run.notes.new():
                self._hear(run, note)
            if ended:
                self.runs.remove(run)
                self._rest_until = time.monotonic() + _REST_S
                run.process.kill()  # what it has left behind
                if not run.explained and not run.ready:
                    self.tally.errors[f"ended with status {run.process.code} before it was ready"] += 1
        awake = [run for run in self.runs if not run.frozen]
        if self.wanted and not awake and not self.runs and time.monotonic() >= self._rest_until:
            self.start()

    def kill(self, run: Run, *, alone: bool = False) -> None:
        """SIGKILL to the run and all that it has started, or to the program alone."""
        run.explained = True
        self.tally.kills[self.kind] += 1
        if alone:
            run.process.kill_alone()
        else:
            run.process.kill()

    def end(self) -> None:
        """For good, uncounted."""
        self.wanted = False
        for run in self.runs:
            for note in run.notes.new():
                self._hear(run, note)
            run.process.kill()
        self.runs.clear()

    def outputs(self) -> list[Path]:
        """What each of its runs has said."""
        return [self._output(number) for number in range(self.tally.starts)]

    def facts(self) -> list[str]:
        """What its runs told of trouble, in a sentence."""
        told = dict(self.tally.errors)
        if self.tally.stopped:
            told["ended by Spark for another writer of its checkpoint"] = self.tally.stopped
        errors = ", ".join(f"{count} {name}" for name, count in sorted(told.items()))
        return [f"errors that {self.name} told and went on from: {errors}"] if told else []

    def _output(self, number: int) -> Path:
        return self._folder / f"{self.name}-{number}.out"

    def _hear(self, run: Run, note: dict[str, Any]) -> None:
        what = note["what"]
        self.heard_notes += 1
        if what == "ready":
            run.ready = True
        elif what == "registered":
            run.application = note["application"]
        elif "error" in note:
            run.explained = True
            self._count(note["error"])
        if self.heard is not None:
            self.heard(run, note)

    def _count(self, error: str) -> None:
        if error == FENCED:
            self.tally.fenced += 1
        elif error == CONCURRENT:
            self.tally.stopped += 1
        else:
            self.tally.errors[error] += 1
