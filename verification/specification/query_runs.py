"""Drivers, clients, readers and vacuums of one log in memory, as steps of `specs/Runs.tla`.

Requests are made by the code's `propose` and judged by its rules; vacuums are the real ones. What they meet is drawn:
runs that slept, requests that land late, files that are committed while a vacuum looks at them. What the code refuses
is recorded with its reason: the specification must refuse it for the same one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from spark_eos.errors import (
    CheckpointMismatchError,
    EosLogError,
    InvalidPidMappingError,
    InvalidTxnStateError,
    ProducerFencedError,
    StagedFileExpiredError,
)
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.maintenance.reachability import data_files
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.protocol import actions as a
from spark_eos.protocol.actions.appends import staged_at
from spark_eos.protocol.actions.queries.microbatch import MicroBatch, propose
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.types import (
    NO_PRODUCER,
    BatchRef,
    FileRef,
    PartitionOffset,
    SourceProgress,
    StagedFile,
)
from spark_eos.spark.sink.commit import delete_rejected_files
from spark_eos.storage import MemoryStore, ObjectInfo
from spark_eos.storage.store import Data
from verification.no_threads import NO_THREADS

__all__ = ["GROUPS", "NAMES", "READERS", "Run", "Step", "record"]

NAMES, QUERIES, RUNS, GROUPS, READERS = ("x", "y"), ("q", "p"), ("r1", "r2", "r3"), ("g", "h"), (1, 2)
_STEPS = 30
_TOPIC, _TOPIC_ID, _SOURCE, _SOURCE_ID = "t", "t-id", "in", "in-id"
_SECONDS = 40.0
"""A vacuum's sleep is at least as long as this."""

_REASONS = {
    ProducerFencedError: "fenced",
    CheckpointMismatchError: "mismatch",
    StagedFileExpiredError: "expired",
    InvalidPidMappingError: "mapping",
    InvalidTxnStateError: "state",
}

File = tuple[int, int]
"""Where the log's end was when its writer began, and a number."""


class Step(NamedTuple):
    """One step: its kind and what it names, what the code said of it, and what the log is like after it."""

    kind: str
    name: str
    number: int
    work: tuple[Any, ...]
    file: File | None
    said: str
    after: tuple[Any, ...]


class _Clock:
    """Time that goes on when it is waited for."""

    def __init__(self, chance: random.Random, slept: Callable[[], None]) -> None:
        self._chance, self._slept, self.now = chance, slept, 0.0

    def now_ms(self) -> int:
        return 1_800_000_000_000 + int(self.now * 1000)

    def now_ns(self) -> int:
        return self.now_ms() * 1_000_000

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, _SECONDS)
        self._slept()

    def unique(self) -> bytes:
        return self._chance.randbytes(16)

    def jitter(self) -> float:
        return self._chance.random()


class _Store(MemoryStore):
    """Tells of entries before and after they are created, and of files that are deleted."""

    told: Run | None = None

    def create(self, name: str, data: Data) -> None:
        run = self.told if name.startswith(paths.LOG) else None
        raised = None if run is None else run.raises(name, data)
        super().create(name, data)
        if run is not None and raised:
            run.raised()

    def delete(self, name: str) -> None:
        if self.told is not None and name.startswith(paths.DATA):
            self.told.deletes(name, partial(super().delete, name))
        else:
            super().delete(name)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return iter([*super().list(prefix)])


def record(seed: int) -> list[Step]:
    """The steps of the log of a seed."""
    return Run(seed).steps()


class Run:
    """The log of a seed, in ``store``."""

    def __init__(self, seed: int) -> None:
        self._chance = chance = random.Random(f"runs {seed}")
        self._steps: list[Step] = []
        clock = _Clock(chance, self._slept)
        self.store = _Store()
        Log.create(self.store, clock, environment=NO_THREADS)
        open_ = partial(Log, self.store, clock, environment=NO_THREADS)
        self._log, self._of_vacuum = open_(), open_()
        self._log.commit(
            lambda _: (a.CreateTopic(_TOPIC, _TOPIC_ID, 1), a.CreateTopic(_SOURCE, _SOURCE_ID, 1))
        )
        self._clock = clock
        self._first = self._log.follow().seq + 1
        self._of_vacuum.follow()
        self._files = 0
        self._staged: list[File] = []
        self._offsets: list[int] = []
        """Where the rows of each committed file are."""
        self._proposed: list[tuple[tuple[Any, ...], tuple[a.Action, ...]]] = []
        self._readers: set[int] = set()
        self._phase = ""
        self._is_inside = False
        self.store.told = self

    def steps(self) -> list[Step]:
        """What is done, and what the log is like after each step."""
        while len(self._steps) < _STEPS:
            if self._chance.random() < 0.12:
                self._vacuum()
            else:
                self._one()
        return self._steps

    # -- What is seen ---------------------------------------------------------------------------------

    def _add(
        self,
        kind: str,
        name: str = "",
        number: int = 0,
        work: tuple[Any, ...] = (),
        file: File | None = None,
        said: str = "yes",
    ) -> None:
        self._steps.append(Step(kind, name, number, work, file, said, self._after()))

    def _after(self) -> tuple[Any, ...]:
        state = self._log.follow()
        known = [state.producer_of(name) for name in NAMES]
        batches = [state.queries.get(name) for name in NAMES]
        groups = [state.offset_of(group, _SOURCE, 0) for group in GROUPS]
        return (
            state.seq + 1 - self._first,
            max(0, state.staging_floor - self._first),
            tuple("" if one is None else one.run_id or "" for one in known),
            tuple(-1 if one is None else one.batch_id for one in batches),
            tuple(-1 if one is None else one.offset for one in groups),
            tuple(sorted({self._file(name) for name in data_files(state, self._log.load)})),
            sum(1 for _ in self.store.list(paths.DATA)),
        )

    def _file(self, name: str) -> File:
        return staged_at(name) - self._first, int(name.rpartition("-")[2].removesuffix(".arrow"))

    def _name(self, file: File) -> str:
        return paths.data_file(_TOPIC, _TOPIC_ID, file[0] + self._first, str(file[1]))

    # -- Requests -------------------------------------------------------------------------------------

    def _one(self) -> None:
        steps: list[tuple[float, Callable[[], object]]] = [
            (0.5, self._batch),
            (0.12, self._land),
            (0.08, self._write),
            (0.12, self._stage),
            (0.03, self._take),
            (0.04, self._move),
            (0.05, self._retain),
            (0.06, self._reader),
        ]
        weights, kinds = zip(*steps, strict=True)
        self._chance.choices(kinds, weights)[0]()

    def _commit(self, actions: Sequence[a.Action]) -> tuple[str, tuple[Any, ...]]:
        try:
            done = self._log.commit(lambda _: tuple(actions))
        except EosLogError as error:
            return _REASONS[type(error)], ()
        return "yes", done.results

    def _stage(self) -> File:
        """A file of a writer that has looked at the log's end now, or long ago."""
        size = self._log.follow().seq + 1 - self._first
        self._files += 1
        file = (max(0, size - self._chance.choice([0, 0, 0, 1, 3, 9])), self._files)
        self.store.create(self._name(file), b"rows of a file")
        self._staged.append(file)
        self._add("Stage", file=file)
        return file

    def _append(self, file: File) -> StagedFile:
        return StagedFile(_TOPIC, FileRef(self._name(file), 14, 0), (BatchRef(0, 1, 0, 14, 7, 1, 2),))

    def _batch(self) -> None:
        chance, state = self._chance, self._log.follow()
        name, query, run = (
            chance.choice(("x", "x", "y")),
            chance.choice(("q", "q", "q", "p")),
            chance.choice(RUNS),
        )
        known = [one for one in state.queries.values() if one.query_id == query]
        last = known[0] if known else None
        number = 0 if last is None else last.batch_id + chance.choice((1, 1, 1, 1, 0, -1))
        group = chance.choice(("g", "g", "g", "h")) if last is None else last.sources[0].group
        at = state.offset_of(group or "", _SOURCE, 0)
        start = 0 if at is None else at.offset
        if last is not None:
            start = last.sources[0].end_offsets[0].offset
            if number == last.batch_id:
                start = last.sources[0].start_offsets[0].offset
        end = start + chance.choice((1, 1, 2))
        if last is not None and number == last.batch_id and chance.random() < 0.7:
            end = last.sources[0].end_offsets[0].offset
        if chance.random() < 0.1:  # A checkpoint that was put back, or another one.
            start, number = max(0, start + chance.choice((-1, 1))), max(0, number + chance.choice((0, 1)))
            end, group = max(start, end), chance.choice(GROUPS)
        file = None if chance.random() < 0.3 else self._file_for(earlier=chance.random() < 0.3)
        work = (name, query, run, max(0, number), group, start, end, file)
        self._propose(work, finished=chance.random() < 0.3)

    def _file_for(self, *, earlier: bool) -> File:
        return self._staged[-1] if earlier and self._staged else self._stage()

    def _propose(self, work: tuple[Any, ...], *, finished: bool) -> None:
        name, query, run, number, group, start, end, file = work
        begin, stop = ((PartitionOffset(_SOURCE, _SOURCE_ID, 0, at),) for at in (start, end))
        source = SourceProgress(f"{start}", f"{end}", group, begin, stop)
        files = () if file is None else (self._append(file),)
        batch = MicroBatch(name, query, run, number, (source,), ((_TOPIC, _TOPIC_ID),), files)
        try:
            actions = propose(self._log.follow(), batch, finished=finished)
        except EosLogError as error:
            self._add("Propose", "", int(finished), work, said=_REASONS[type(error)])
            return
        self._add("Propose", "", int(finished), work, said="asked" if actions else "nothing")
        if actions:
            self._used(file)
            self._proposed.append((work, actions))
            if self._chance.random() < 0.8:
                self._land(len(self._proposed))

    def _used(self, file: File | None) -> None:
        if file in self._staged:
            self._staged.remove(file)

    def _land(self, number: int = 0) -> None:
        if not self._proposed:
            return
        number = number or self._chance.randint(1, len(self._proposed))
        work, actions = self._proposed[number - 1]
        said, results = self._commit(actions)
        self._offsets += [
            one[0].base_offset for one in results if isinstance(one, tuple) and type(one) is tuple
        ]
        self._add("Land", "", number, work, said=said)
        file = work[-1]
        if said != "yes" and file is not None and self._chance.random() < 0.7:
            delete_rejected_files(self._log, ((_TOPIC, _TOPIC_ID),), (self._append(file),))

    def _write(self) -> None:
        file = self._file_for(earlier=True)
        self._used(file)
        said, results = self._commit(
            (a.AppendBatches(NO_PRODUCER, ((_TOPIC, _TOPIC_ID),), (self._append(file),)),)
        )
        self._offsets += [one[0].base_offset for one in results]
        self._add("Write", file=file, said=said)

    def _take(self) -> None:
        name = self._chance.choice(NAMES)
        state = self._log.follow()
        known = state.producer_of(name)
        at = (state.next_producer_id, 0) if known is None else (known.producer_id, known.epoch + 1)
        self._commit((a.InitProducer(*at, name, 1000),))
        self._add("Take", name)

    def _move(self) -> None:
        group, to = self._chance.choice(GROUPS), self._chance.randint(0, 3)
        self._commit((a.CommitOffsets(group, (PartitionOffset(_SOURCE, _SOURCE_ID, 0, to),)),))
        self._add("Move", group, to)

    def _retain(self) -> None:
        if not self._offsets:
            return
        number = self._chance.randint(1, len(self._offsets))
        start = self._log.follow().partitions[_TOPIC_ID, 0].start
        if self._offsets[number - 1] >= start:
            to = PartitionOffset(_TOPIC, _TOPIC_ID, 0, self._offsets[number - 1] + 1)
            self._commit((a.AdvanceLogStart((to,)),))
            self._add("Retain", "", number)

    def _reader(self) -> None:
        reader = self._chance.choice(READERS)
        if reader in self._readers:
            self._readers.remove(reader)
            self._add("Finish", "", reader)
        elif any(data_files(self._log.follow(), self._log.load)):
            self._readers.add(reader)
            self._add("Plan", "", reader)

    # -- Vacuum ---------------------------------------------------------------------------------------

    def _vacuum(self) -> None:
        self._is_inside, self._phase = True, "begun"
        self._clock.now += self._chance.choice((0, 50, 500))
        Vacuum(self._of_vacuum, min_age_s=self._chance.choice((0.0, 0.0, 100.0))).run()
        self._sure()
        self._is_inside = False
        self._add("Rest")

    def raises(self, name: str, data: Data) -> bool:
        """An entry is about to be created: does it raise the floor? Others are quicker at times."""
        if not self._is_inside:
            return False
        seq = int(name.rpartition("/")[2].removesuffix(".avro"))
        (action,) = (one for request in decode_entry(data, seq, name).requests for one in request.actions)
        assert isinstance(action, a.RaiseStagingFloor)
        if self._phase == "begun":
            self._phase = "looked"
            self._add("Look", "", action.seq - self._first)
            self._others()
        return True

    def raised(self) -> None:
        """The floor has risen."""
        self._phase = "raised"
        self._add("Raise")
        self._others()

    def _sure(self) -> None:
        if self._phase == "begun":
            self._add("Look", "", 0)
        if self._phase in {"begun", "looked"}:
            self._add("Raise")
        if self._phase != "sure":
            self._phase = "sure"
            self._add("Sure")

    def _slept(self) -> None:
        """The vacuum waits: readers that have planned before finish in time."""
        if self._phase != "sure":
            self._sure()
            self._others()
        for reader in sorted(self._readers):
            self._add("Finish", "", reader)
        self._readers.clear()

    def deletes(self, name: str, delete: Callable[[], None]) -> None:
        """A file is about to be deleted: by the vacuum, or by its writer."""
        if self._is_inside:
            self._sure()
        delete()
        self._add("Delete" if self._is_inside else "Drop", file=self._file(name))

    def _others(self) -> None:
        self._is_inside = False
        for _ in range(self._chance.choice((0, 0, 1, 2))):
            self._one()
        self._is_inside = True
