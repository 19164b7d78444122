"""Queries of a simulated world, and what source, sink and clients find there in place of the real one.

The checkpoint is a dict of files that appear whole, as renamed files do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import greenlet

from spark_eos.errors import (
    CheckpointMismatchError,
    ProducerFencedError,
    RetriableError,
    StagedFileExpiredError,
)
from spark_eos.log.log import Log
from spark_eos.spark.host import Host, hosted
from spark_eos.storage import NO_SETTINGS, Settings
from verification.simulator.context import GivenUp, Stage
from verification.simulator.driver import LOCATION, Files, QueryFailed, Run
from verification.simulator.world import Process, World

__all__ = ["query", "surroundings"]


@contextmanager
def surroundings(world: World) -> Iterator[None]:
    """Puts the simulated world in place of what source, sink and clients look for.

    They get the log and the checkpoint of the process that runs.
    """
    with tempfile.TemporaryDirectory() as notes, hosted(_SimulatedHost(world, Path(notes))):
        yield


class _SimulatedHost(Host):
    """Log, task and checkpoint of the simulated process that runs."""

    def __init__(self, world: World, notes: Path) -> None:
        self._world = world
        self._notes = notes

    def log(
        self,
        _url: str,
        _settings: Settings = NO_SETTINGS,
        *,
        create: bool = False,
        max_age_s: float = 0.0,
        maintenance: bool = True,
    ) -> Log:
        log: Log = self._world.current().query.log
        log.follow(max_age_s)
        return log if maintenance else log.without_maintenance()

    def task(self) -> Any:
        run: Run = greenlet.getcurrent().process.query  # type: ignore[attr-defined]
        return run.task

    def notes(self) -> Path:
        return Path(self._notes, self._world.current().name)

    def read_bytes(self, path: Path) -> bytes:
        text = self._text(path)
        if text is None:
            raise FileNotFoundError(path)
        return text.encode()

    def exists(self, path: Path) -> bool:
        return self._text(path) is not None

    def _text(self, path: Path) -> str | None:
        files: Files = self._world.current().query.files
        return files.files.get(path.relative_to(LOCATION).as_posix())


def query(
    stage: Stage, files: Callable[[], Files | None], *, group: str, start: str, until: Callable[[], bool]
) -> Callable[[Process], None]:
    """One run of the query ``input -> output``: restarts, zombies and successors are further ones.

    ``files`` gives its checkpoint; None: not yet. ``start`` is the option ``startingOffsets``.
    """

    def body(process: Process) -> None:
        while (own := files()) is None:
            if not until():
                return
            process.wait(2.0)
        run = process.query = Run(stage, process, own)
        try:
            run.begin(group, start)
            run.go_on(until)
        except (
            *(QueryFailed, GivenUp, ProducerFencedError, CheckpointMismatchError, RetriableError),
            StagedFileExpiredError,
        ) as error:
            run.say("the query fails")
            stage.world.note(f"the query ends: {type(error).__name__}: {error}")

    return body
