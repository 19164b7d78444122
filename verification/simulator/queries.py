"""Queries of a simulated world, and what source, sink and clients find there in place of the real one.

The checkpoint is a dict of files that appear whole, as renamed files do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import greenlet

from spark_eos.errors import (
    CheckpointMismatchError,
    ProducerFencedError,
    RetriableError,
    StagedFileExpiredError,
)
from spark_eos.log.log import Log
from spark_eos.spark.sink import checkpoint, proof, task
from verification.simulator.context import GivenUp, Stage
from verification.simulator.driver import LOCATION, Files, QueryFailed, Run, TaskContext
from verification.simulator.world import Process, World

__all__ = ["query", "surroundings"]


@contextmanager
def surroundings(world: World) -> Iterator[None]:
    """Puts the simulated world in place of what source, sink and clients look for.

    They get the log and the checkpoint of the process that runs.
    """

    def shared(
        _url: object,
        _settings: object = None,
        *,
        create: bool = False,  # noqa: ARG001
        max_age_s: float = 0.0,
        maintenance: bool = True,
    ) -> Log:
        log: Log = world.current().query.log
        log.follow(max_age_s)
        return log if maintenance else log.without_maintenance()

    def text(path: Path) -> str | None:
        files: Files = world.current().query.files
        return files.files.get(path.relative_to(LOCATION).as_posix())

    def folder() -> Path:
        return Path(notes, world.current().name)

    with (
        tempfile.TemporaryDirectory() as notes,
        mock.patch.object(proof, "_folder", folder),
        mock.patch.object(proof, "TaskContext", _Context),
        mock.patch.object(task, "TaskContext", _Context),
        mock.patch.object(Log, "shared", shared),
        mock.patch.object(checkpoint, "_read", text),
        mock.patch.object(checkpoint, "_exists", lambda path: text(path) is not None),
    ):
        yield


class _Context:
    """Spark's class, whose ``get`` knows the task that is running."""

    @staticmethod
    def get() -> TaskContext | None:
        run: Run = greenlet.getcurrent().process.query  # type: ignore[attr-defined]
        return run.task


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
