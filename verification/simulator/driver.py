"""A Spark driver with its tasks, as recordings show it (tests/spark_calls): offsets, plan, tasks, commit, done.

Source and sink are the real ones. Every call is told to the stage, and `spark_calls` knows which order Spark keeps.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from pyspark.sql.types import BinaryType, StructField, StructType

from spark_eos.config.compression import Compression
from spark_eos.errors import ObjectNotFoundError, RetriableError
from spark_eos.log.commit import tail
from spark_eos.log.data.planner import Fetch
from spark_eos.log.data.records import Records, read
from spark_eos.log.data.task_io import stage_rows
from spark_eos.log.data.writer import SegmentWriter
from spark_eos.protocol.state import State, Topic
from spark_eos.spark.options import parse_sink, parse_source
from spark_eos.spark.schema import kafka_schema
from spark_eos.spark.sink.sink import EosLogStreamWriter
from spark_eos.spark.source.offsets import SourceOffset
from spark_eos.spark.source.scan import ScanTask
from spark_eos.spark.source.source import EosLogStreamReader
from verification.simulator.clock import SimulatedClock
from verification.simulator.context import DELETE_DELAY_MS, INPUT, OUTPUT, Began, Done, Stage
from verification.simulator.spark_calls import Call
from verification.simulator.world import Process

__all__ = ["LOCATION", "URL", "Files", "QueryFailed", "Run", "TaskContext"]

T = TypeVar("T")

URL = "sim://world"
LOCATION = "/checkpoint"
_ROWS = StructType([StructField("value", BinaryType())])
_ATTEMPTS = 4
"""``spark.task.maxFailures``."""


class QueryFailed(Exception):  # noqa: N818  (Spark's own end of the query)
    """Another run has written to the checkpoint, or the query slept while its input was deleted."""


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


class TaskContext(NamedTuple):
    """What a task's Python knows of the task it is part of."""

    properties: dict[str, str]
    partition: int
    attempt: int

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802
        return self.properties.get(name)

    def partitionId(self) -> int:  # noqa: N802
        return self.partition

    def taskAttemptId(self) -> int:  # noqa: N802
        return self.attempt


class _TaskStage(NamedTuple):
    """What a task stages and reads with: the simulated store, and names that the seed decides."""

    process: Process
    stage: Stage
    base_seq: int

    def writer(
        self, topic: Topic, *, compression: Compression | None = None, request_bytes: int | None = None
    ) -> SegmentWriter:
        clock = SimulatedClock(self.process)
        return stage_rows(
            self.stage.store,
            topic,
            self.base_seq,
            clock,
            compression=compression,
            request_bytes=request_bytes,
        )

    @contextmanager
    def reading(
        self, topics: Mapping[str, Topic], _: Sequence[Fetch], columns: Collection[str] | None = None
    ) -> Iterator[Callable[[Fetch], Records]]:
        # One after the other: no threads are started here.
        yield lambda fetch: read(self.stage.store, topics[fetch.topic], fetch, columns)


class Run:
    """A driver, with its tasks. ``task`` is the one whose code is running."""

    task: TaskContext | None = None

    def __init__(self, stage: Stage, process: Process, files: Files) -> None:
        self.stage, self.process, self.files = stage, process, files
        self.run_id = str(UUID(bytes=SimulatedClock(process).unique(), version=4))
        self.log = stage.open(process)
        self._attempts = self._copies = 0
        self._looked_s: float | None = None
        """When the reader was asked last how far the log goes."""
        # From here on a driver goes by what it remembers: it does not look whether others have written since.
        self._planned, self._finished = files.newest("offsets"), files.newest("commits")
        self._ends = {number: files.offsets(number) for number in range(self._planned + 1)}
        self._initial: dict[str, Any] | None = None
        self._has_read_limits = stage.spark != "4.1"
        self._of_tasks: tuple[str, bytes] | None = None
        self.calls: list[Call] = []
        stage.drivers.append((dict(self._ends), self.calls))

    def begin(self, group: str, start: str) -> None:
        """What Spark does when a query starts. How much it reads at a time may be another than before."""
        chance = self.stage.chance
        self._source = {
            "path": URL,
            "subscribe": INPUT,
            "startingOffsets": start,
            "maxOffsetsPerTrigger": chance.choice(["3", "5", "20"]),
        }
        self._sink = {
            "path": URL,
            "topic": OUTPUT,
            "checkpointLocation": LOCATION,
            "transactional.id": "query",
            "group.id": group,
        }
        self._bounded = chance.random() < 0.2  # AvailableNow
        self._lowest = _ends_of_input(self.stage) if self._planned < 0 else {}
        self.name, self.reader = self._make("reader", INPUT, "reader", self._new_reader)
        if not self._has_read_limits:
            return
        if self._bounded:
            self._ask("prepareForTriggerAvailableNow", self.reader.prepareForTriggerAvailableNow)
        self.limit = self._ask("getDefaultReadLimit", self.reader.getDefaultReadLimit, plain=False)

    def go_on(self, until: Callable[[], bool]) -> None:
        """Micro-batches, one after the other; the last one again if it was not noted as done."""
        if not self._has_read_limits and self._planned >= 0:
            end = self._ends[self._planned]
            self._ask("partitions", self.reader.partitions, end, end, plain=False)
        has_run = self._planned > self._finished
        if has_run:
            self._batch(self._start_of(self._planned))
        while until():
            if has_run and self._bounded and not self._has_read_limits:  # One micro-batch is all.
                self.say("the query ends")
                return
            end = self._look()
            if end == self._ends.get(self._planned):
                if self._bounded:
                    self.say("the query ends")
                    return
                self.process.wait(0.5)
                continue
            number = self._planned + 1
            self._add(f"offsets/{number}", "v1\n{}\n" + json.dumps(end))
            self._planned, self._ends[number] = number, end
            if number:
                self._ask("commit", self.reader.commit, self._ends[number - 1])
            self._batch(self._start_of(number))
            has_run = True
        self.say("stopped")

    def _look(self) -> dict[str, Any]:
        """How far the next micro-batch is to go."""
        found: dict[str, Any]
        if not self._has_read_limits:
            self._looked_s = self.stage.world.now
            found = self._ask("latestOffset", self.reader.latestOffset)
            return found
        start = self._start_of(self._planned + 1)
        self._looked_s = self.stage.world.now
        found = self._ask("latestOffset", self.reader.latestOffset, start, self.limit)
        self._ask("reportLatestOffset", self.reader.reportLatestOffset)
        return found

    def say(self, what: str) -> None:
        """What became of the query."""
        self.calls.append(Call("", "", what))

    def _start_of(self, batch: int) -> dict[str, Any]:
        """Where a batch begins. Spark does not write down where batch 0 does: it asks each time it wants to know."""
        if batch:
            return self._ends[batch - 1]
        found: dict[str, Any] = self._ask("initialOffset", self.reader.initialOffset)
        return found

    def _batch(self, start: dict[str, Any]) -> None:
        number, end = self._planned, self._ends[self._planned]
        # A plan may rest on what the reader saw when it was asked for the end: the driver may have slept since.
        began = self.stage.world.now if self._looked_s is None else self._looked_s
        tasks = self._ask("partitions", self.reader.partitions, start, end, plain=False)
        if self._of_tasks is None:
            name, reader = self._make("planner", INPUT, "reader", self._new_reader)
            self._of_tasks = name, pickle.dumps(reader)
        name, planned = self._make("planner", "sink", "writer", self._new_writer)
        writer = name, pickle.dumps(planned)
        messages = [self._task(at, task, writer, began) for at, task in enumerate(tasks)]
        self.process.breathe()
        self.stage.dawdle(self.process)
        late = f"commits/{number}" in self.files.files
        try:
            self._end("commit", messages)
        except Exception:
            self._end("abort", messages)
            raise
        ended = SourceOffset.from_json_dict(end).positions
        self.stage.done.append(
            Done(self.files.query_id, self.run_id, number, dict(ended), self.stage.world.now, late)
        )
        self.process.breathe()
        self._add(f"commits/{number}", "v1\n{}")
        self._finished = number
        self.stage.world.note(f"batch {number} done")

    def _end(self, how: str, messages: list[Any]) -> None:
        """Commit or abort, by a writer that is made for it."""
        name, writer = self._make("committer", "sink", "writer", self._new_writer)
        arguments = pickle.loads(pickle.dumps(messages)), self._planned  # noqa: S301
        call = Call("committer", "sink", how, name, args=(None, self._planned))
        self._told(call, lambda: getattr(writer, how)(*arguments))

    # -- Tasks ----------------------------------------------------------------------------------------

    def _task(self, number: int, task: Any, writer: tuple[str, bytes], began: float) -> Any:
        """A task is tried a few times; then the query fails."""
        pickled = pickle.dumps(task)
        for attempt in range(_ATTEMPTS):
            self._attempts += 1
            properties = {
                "sql.streaming.queryId": self.files.query_id,
                "streaming.sql.batchId": str(self._planned),
                "spark.jobGroup.id": self.run_id,
            }
            self.task = TaskContext(properties, number, self._attempts)
            try:
                return self._attempt(pickle.loads(pickled), writer)  # noqa: S301
            except ObjectNotFoundError as error:
                # What was planned is there for as long as the topic says; who sleeps longer plans again.
                if (self.stage.world.now - began) * 1000 < DELETE_DELAY_MS:
                    raise
                raise QueryFailed(f"it slept longer than file.delete.delay.ms: {error}") from error
            except RetriableError:
                if attempt == _ATTEMPTS - 1:
                    self.task = None
                    self._end("abort", [])
                    raise
                self.process.wait(self.stage.chance.choice([0.05, 1.0]))
            finally:
                self.task = None
        raise AssertionError

    def _attempt(self, task: Any, writer: tuple[str, bytes]) -> Any:
        assert isinstance(task, ScanTask)
        assert self._of_tasks is not None
        copy, reader = self._copy(INPUT, "reader", self._of_tasks)

        def rows() -> list[Any]:
            return [batch.select(["value"]) for batch in reader.read(task)]

        place = _TaskStage(self.process, self.stage, task.stage.base_seq)
        task.stage = place  # type: ignore[assignment]  # quacks like one
        try:
            found = rows()
        except Exception:
            # Rows are read while they are written: the writer fails with the reader.
            name, _ = self._copy("sink", "writer", writer)
            for call in (Call("task", INPUT, "read", copy), Call("task", "sink", "write", name)):
                self._tell(call, failed=True)
            raise
        self._tell(Call("task", INPUT, "read", copy))
        name, sink = self._copy("sink", "writer", writer)
        target = sink._target  # noqa: SLF001
        sink._target = target._replace(stage=place._replace(base_seq=target.stage.base_seq))  # noqa: SLF001
        return self._told(Call("task", "sink", "write", name), lambda: sink.write(iter(found)))

    # -- Calls ----------------------------------------------------------------------------------------

    def _new_reader(self) -> EosLogStreamReader:
        return EosLogStreamReader(parse_source(self._source, streaming=True), kafka_schema())

    def _new_writer(self) -> EosLogStreamWriter:
        return EosLogStreamWriter(parse_sink(self._sink, streaming=True), _ROWS, overwrite=False)

    def _make(self, place: str, owner: str, kind: str, make: Callable[[], T]) -> tuple[str, T]:
        self._copies += 1
        name = f"{kind} {self._copies}"
        return name, self._told(Call(place, owner, kind, name), make)

    def _copy(self, owner: str, kind: str, original: tuple[str, bytes]) -> tuple[str, Any]:
        self._copies += 1
        name = f"{kind} {self._copies}"
        call = Call("task", owner, "unpickled", name, original[0])
        return name, self._told(call, lambda: pickle.loads(original[1]))  # noqa: S301

    def _ask(self, name: str, method: Callable[..., Any], *args: Any, plain: bool = True) -> Any:
        """A call of the driver's reader; offsets go there and back as JSON."""
        self.process.breathe()

        def call() -> Any:
            answer = method(*args)
            return json.loads(json.dumps(answer)) if plain else answer

        return self._told(Call("reader", INPUT, name, self.name, args=args), call, answered=plain)

    def _told(self, call: Call, function: Callable[[], T], *, answered: bool = False) -> T:
        call = call._replace(offsets=self._planned, commits=self._finished)
        try:
            answer = function()
        except Exception:
            self.calls.append(call._replace(failed=True))
            raise
        self.calls.append(call._replace(answer=answer if answered else None))
        return answer

    def _tell(self, call: Call, *, failed: bool = False) -> None:
        self.calls.append(call._replace(failed=failed, offsets=self._planned, commits=self._finished))

    # -- The checkpoint -------------------------------------------------------------------------------

    def _add(self, name: str, text: str) -> None:
        self.process.breathe()
        if name in self.files.files:
            raise QueryFailed(f"{name} is there: another run uses this checkpoint")
        self.files.files[name] = text
        if name == "offsets/0":  # At once: the driver may die with its next breath.
            self._note_beginning(self.files.offsets(0))
        self.process.breathe()

    def _note_beginning(self, end: dict[str, Any]) -> None:
        initial = dict(SourceOffset.from_json_dict(end).initial)
        highest = _ends_of_input(self.stage)
        self.stage.began.append(Began(self.files.query_id, initial, self._lowest, highest))


def _ends_of_input(stage: Stage) -> dict[int, int]:
    """Where the partitions of the input end in truth."""
    state: State = tail.Tail(stage.store.inner).follow()
    topic = state.topics[INPUT]
    return {number: state.partitions[topic.topic_id, number].end for number in range(topic.partitions)}
