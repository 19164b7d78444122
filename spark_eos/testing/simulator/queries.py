"""Spark's side of a micro-batch, as Spark does it: offsets, tasks, commit, done; replay after a crash.

Source and sink are the real ones. The checkpoint is a dict of files that appear whole, as renamed files do.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock
from uuid import UUID

from pyspark.sql.types import BinaryType, StructField, StructType

from spark_eos.clients import heartbeat, sender
from spark_eos.errors import (
    CheckpointMismatchError,
    ObjectNotFoundError,
    ProducerFencedError,
    RetriableError,
    StagedFileExpiredError,
)
from spark_eos.log import ahead
from spark_eos.log.log import Log
from spark_eos.log.plan import Fetch
from spark_eos.log.read import Records, read
from spark_eos.log.segments import SegmentWriter
from spark_eos.log.stage import stage_rows
from spark_eos.protocol.state import Topic
from spark_eos.spark import checkpoint, proof
from spark_eos.spark.offsets import SourceOffset
from spark_eos.spark.options import parse_sink, parse_source
from spark_eos.spark.scan import ScanTask
from spark_eos.spark.schema import kafka_schema
from spark_eos.spark.sink import EosLogStreamWriter
from spark_eos.spark.source import EosLogStreamReader
from spark_eos.spark.task import TaskMessage
from spark_eos.testing.at_once import AtOnce
from spark_eos.testing.simulator.clock import SimulatedClock
from spark_eos.testing.simulator.memory import remembering
from spark_eos.testing.simulator.stage import DELETE_DELAY_MS, INPUT, OUTPUT, Done, GivenUp, Stage
from spark_eos.testing.simulator.world import Process, World

__all__ = ["Files", "query", "surroundings"]

URL = "sim://world"
LOCATION = "/checkpoint"
_ROWS = StructType([StructField("value", BinaryType())])


class Files:
    """A checkpoint that several drivers may believe to be theirs. ``query_id`` outlives them all."""

    def __init__(self, query_id: str) -> None:
        self.query_id = query_id
        self.files: dict[str, str] = {"metadata": json.dumps({"id": query_id})}

    def offsets(self, batch: int) -> dict[str, Any]:
        """Where a batch ends."""
        found: dict[str, Any] = json.loads(self.files[f"offsets/{batch}"].split("\n")[2])
        return found

    def put_back(self, batch: int) -> Files:
        """A copy from before ``batch``, as out of a backup."""
        older = Files(self.query_id)
        older.files = {
            name: text
            for name, text in self.files.items()
            if name == "metadata" or int(name.split("/")[1]) < batch
        }
        return older

    def newest(self, folder: str) -> int:
        """The highest batch that has a file in ``folder``, or -1."""
        return max(
            (int(name.split("/")[1]) for name in self.files if name.startswith(f"{folder}/")), default=-1
        )


class _TaskStage(NamedTuple):
    """What a task stages and reads with: the simulated store, and names that the seed decides."""

    process: Process
    stage: Stage
    base_seq: int

    def writer(self, topic: Topic, *, compression: str | None = None) -> SegmentWriter:
        return stage_rows(
            self.stage.store, topic, self.base_seq, SimulatedClock(self.process), compression=compression
        )

    @contextmanager
    def reading(self, _: Sequence[Fetch]) -> Iterator[Callable[[Topic, Fetch], Records]]:
        yield partial(read, self.stage.store)  # One after the other: no threads are started here.


@contextmanager
def surroundings(world: World, *, memory: bool) -> Iterator[None]:
    """Puts the simulated world in place of what source, sink and clients look for.

    They get the log and the checkpoint of whoever is running. No threads are started: actors do by turns
    what those would do. With ``memory`` an entry is decoded and applied once and not by every process.
    """

    def shared(
        _url: object,
        _settings: object = None,
        *,
        create: bool = False,  # noqa: ARG001
        max_age_s: float = 0.0,
        upkeep: bool = True,
    ) -> Log:
        log: Log = world.current().query.log
        log.follow(max_age_s)
        return log if upkeep else log.without_upkeep()

    def text(path: Path) -> str | None:
        files: Files = world.current().query.files
        return files.files.get(path.relative_to(LOCATION).as_posix())

    def folder() -> Path:
        return Path(notes, world.current().name)

    with (
        tempfile.TemporaryDirectory() as notes,
        mock.patch.object(proof, "_folder", folder),
        mock.patch.object(Log, "shared", shared),
        mock.patch.object(checkpoint, "_read", text),
        mock.patch.object(checkpoint, "_exists", lambda path: text(path) is not None),
        mock.patch.object(sender, "threading", _Threading),
        mock.patch.object(heartbeat, "threading", _Threading),
        mock.patch.object(ahead, "ThreadPoolExecutor", AtOnce),
        remembering() if memory else nullcontext(),
    ):
        yield


class _Threading:
    """The module, but for its threads."""

    Event, Lock, RLock = threading.Event, threading.Lock, threading.RLock
    current_thread = staticmethod(threading.current_thread)

    class Thread:
        ident = None

        def __init__(self, **_: object) -> None: ...

        def start(self) -> None: ...

        def join(self) -> None: ...


def query(
    stage: Stage, files: Callable[[], Files | None], *, group: str, until: Callable[[], bool]
) -> Callable[[Process], None]:
    """One run of the query ``input -> output``: restarts, zombies and successors are further ones.

    ``files`` gives its checkpoint; None: not yet.
    """

    def body(process: Process) -> None:
        while (own := files()) is None:
            if not until():
                return
            process.wait(2.0)
        run = process.query = Run(stage, process, own)
        try:
            run.begin(group)
            run.go_on(until)
        except (
            *(QueryFailed, GivenUp, ProducerFencedError, CheckpointMismatchError, RetriableError),
            StagedFileExpiredError,
        ) as error:
            stage.world.note(f"the query ends: {type(error).__name__}: {error}")

    return body


class QueryFailed(Exception):  # noqa: N818  (Spark's own end of the query)
    """Another run has written to the checkpoint, or the query slept while its input was deleted."""


class Run:
    """A driver, with its tasks."""

    reader: EosLogStreamReader
    writer: EosLogStreamWriter

    def __init__(self, stage: Stage, process: Process, files: Files) -> None:
        self.stage, self.process, self.files = stage, process, files
        self.run_id = str(UUID(bytes=SimulatedClock(process).unique(), version=4))
        self.log = stage.open(process)

    def begin(self, group: str) -> None:
        """What Spark does when a query starts. How much it reads at a time may be another than before."""
        limit = self.stage.chance.choice(["3", "5", "20"])
        source = {
            "path": URL,
            "subscribe": INPUT,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": limit,
        }
        sink = {
            "path": URL,
            "topic": OUTPUT,
            "checkpointLocation": LOCATION,
            "transactional.id": "query",
            "group.id": group,
        }
        self.reader = EosLogStreamReader(parse_source(source, streaming=True), kafka_schema())
        options = parse_sink(sink, streaming=True)
        self.writer = self.stage.patiently(
            self.process, lambda: EosLogStreamWriter(options, _ROWS, overwrite=False)
        )

    def go_on(self, until: Callable[[], bool]) -> None:
        """Micro-batches, one after the other; the last one again if it was not noted as done."""
        files = self.files
        last = files.newest("offsets")
        if last > files.newest("commits"):
            begin = files.offsets(last - 1) if last else self._initial(files.offsets(0))
            self._batch(last, begin, files.offsets(last))
        # From here on a driver goes by what it remembers: it does not look whether others have written since.
        while until():
            patiently = self.stage.patiently
            start = files.offsets(last) if last >= 0 else patiently(self.process, self.reader.initialOffset)
            end = patiently(
                self.process,
                partial(self.reader.latestOffset, start, self.reader.getDefaultReadLimit()),
            )
            if end == start:
                self.process.wait(0.5)
                continue
            self._add(f"offsets/{last + 1}", "v1\n{}\n" + json.dumps(end))
            last += 1
            self._batch(last, start, end)

    def _initial(self, end: dict[str, Any]) -> dict[str, Any]:
        """Spark does not write down where batch 0 began: it asks again."""
        return self.stage.patiently(self.process, self.reader.initialOffset)

    def _batch(self, number: int, start: dict[str, Any], end: dict[str, Any]) -> None:
        # A failed task is tried again; a failed commit ends the run.
        messages = self.stage.patiently(self.process, lambda: self._tasks(start, end))
        self.process.breathe()
        self.stage.dawdle(self.process)
        late = f"commits/{number}" in self.files.files
        self.writer.commit(messages, number)
        ended = SourceOffset.from_json_dict(end).positions
        self.stage.done.append(
            Done(self.files.query_id, self.run_id, number, dict(ended), self.stage.world.now, late)
        )
        self.process.breathe()
        self._add(f"commits/{number}", "v1\n{}")
        self.stage.world.note(f"batch {number} done")

    def _tasks(self, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
        target = self.writer._target  # noqa: SLF001
        place = _TaskStage(self.process, self.stage, target.stage.base_seq)
        began = self.stage.world.now
        self.writer._target = target._replace(stage=place)  # type: ignore[arg-type]  # noqa: SLF001
        messages = []
        for task in self.reader.partitions(start, end):
            assert isinstance(task, ScanTask)
            task.stage = place  # type: ignore[assignment]  # quacks like one
            try:
                rows = [batch.select(["value"]) for batch in self.reader.read(task)]
            except ObjectNotFoundError as error:
                # What was planned is there for as long as the topic says; who sleeps longer plans anew.
                if (self.stage.world.now - began) * 1000 < DELETE_DELAY_MS:
                    raise
                raise QueryFailed(f"it slept longer than file.delete.delay.ms: {error}") from error
            message = self.writer.write(iter(rows))
            message.query_id, message.run_id = self.files.query_id, self.run_id  # type: ignore[attr-defined]
            messages.append(message)
        if not messages:
            messages.append(TaskMessage(query_id=self.files.query_id, run_id=self.run_id))
        return messages

    def _add(self, name: str, text: str) -> None:
        self.process.breathe()
        if name in self.files.files:
            raise QueryFailed(f"{name} is there: another run uses this checkpoint")
        self.files.files[name] = text
        self.process.breathe()
