"""Proof that the rows of a micro-batch are those between the source offsets that are committed with them.

Spark plans a micro-batch in one Python process, reads it in others, and commits it in yet another one. It hands
over no offsets between them. So the source leaves notes, and the sink compares them with the checkpoint:

- `note_plan`, in the driver: from where to where the source has planned;
- `note_read`, in the tasks: which part of that plan a task has read to its end;
- `reads_of_task`, in the tasks of the sink: what has been read beside them, which goes to the driver with the
  task's message;
- `require_proof`, at the commit: refuses what does not belong together.

Notes are small files in a folder of the JVM that started the process (``SPARK_LOCAL_DIRS``: the driver's, or the
executor's), which deletes it when it ends. They cost no request to the store.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from spark_eos.errors import CheckpointMismatchError, StorageError
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.host import host
from spark_eos.spark.source.offsets import SourceOffset

_KEPT = 2
"""Notes of so many micro-batches stay: the one that runs, and the one before it."""


class Part(NamedTuple):
    """Offsets ``start`` to ``end - 1`` of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} from {self.start} to {self.end}"


class Plan(NamedTuple):
    """What a source plans for a micro-batch: one part for each partition, in order."""

    log_id: str
    topic_ids: tuple[tuple[str, str], ...]
    parts: tuple[Part, ...]

    @staticmethod
    def between(begin: Mapping[TopicPartition, int], finish: SourceOffset) -> Plan:
        """The plan from ``begin`` to ``finish``; partitions that are not in ``begin`` start at their first offset."""
        return Plan(
            finish.log_id,
            tuple(sorted(finish.topic_ids.items())),
            tuple(
                Part(at.topic, at.partition, begin.get(at, finish.initial.get(at, 0)), end)
                for at, end in sorted(finish.positions.items())
            ),
        )

    @property
    def digest(self) -> str:
        """A name for the plan: equal plans have the same one."""
        return _digest(self)

    @property
    def end_digest(self) -> str:
        """A name for where the plan ends: the same for plans from other starts."""
        return _digest([self.log_id, self.topic_ids, [part._replace(start=0) for part in self.parts]])

    def __str__(self) -> str:
        return ", ".join(str(part) for part in self.parts if part.start != part.end) or "no offsets"


class Read(NamedTuple):
    """Task ``number`` of the ``of`` tasks of a plan has read these parts to their ends."""

    digest: str
    cut: str
    """A name for how the plan is cut: two sources may have the same plan, each in tasks of its own (minPartitions)."""
    number: int
    of: int
    parts: tuple[Part, ...]

    @staticmethod
    def of_tasks(plan: Plan, parts: Sequence[Sequence[Part]]) -> list[Read]:
        """What each task is to read: task n the n-th parts."""
        digest, cut = plan.digest, _digest(parts)
        return [Read(digest, cut, number, len(parts), tuple(part)) for number, part in enumerate(parts)]


class PlanNotes:
    """The notes of one source of one query run."""

    def __init__(self) -> None:
        self._owner = uuid.uuid4().hex
        self._process = _this_process()
        self._files: deque[Path] = deque()

    def note(self, plan: Plan) -> None:
        """Say that this is what is planned. Raises `StorageError` if the note cannot be written."""
        path = host().notes() / "plans" / f"{plan.digest}.{plan.end_digest}.{self._process}.{self._owner}"
        try:
            _touch(path)
        except OSError as error:
            raise StorageError(
                f"the source cannot note what it has planned in {path.parent} (SPARK_LOCAL_DIRS): {error}. Without "
                "this note the sink refuses the micro-batch: make room there, or let Spark use another spark.local.dir"
            ) from error
        if path not in self._files:
            self._files.append(path)
        while len(self._files) > _KEPT:
            self._files.popleft().unlink(missing_ok=True)


def note_read(read: Read) -> None:
    """Say what this task has read. Nothing, outside of a micro-batch; without room, the plan's note has to do."""
    where = _place_of_task()
    if where is None:
        return
    folder, attempt = where
    with suppress(OSError):
        _write(folder / f"{read.digest}.{read.number}.{attempt}", json.dumps(read))
        _forget_before(folder)


def reads_of_task() -> tuple[Read, ...]:
    """What was read for the rows of this task, as far as it was read on this machine.

    After a shuffle the rows come from other tasks: then all that was read here and has not been told yet.
    """
    where = _place_of_task()
    if where is None:
        return ()
    folder, attempt = where
    names = sorted(path for path in _names(folder) if not path.name.endswith(".told"))
    attempt_paths = [path for path in names if path.name.endswith(f".{attempt}")]
    if attempt_paths:
        return tuple(_read(path) for path in attempt_paths)
    reads = []
    for path in names:
        told_path = path.with_name(f"{path.name}.told")
        with suppress(FileNotFoundError):  # Another task was faster.
            path.rename(told_path)
            reads.append(_read(told_path))
    return tuple(reads)


def require_proof(
    plans: Sequence[Plan],
    reads: Iterable[Read],
    *,
    batch_id: int,
    may_be_away: Collection[Plan] = (),
    notes: Path | None = None,
) -> tuple[Plan, ...]:
    """Raise `CheckpointMismatchError` unless ``plans``, from the checkpoint, are what was planned and read.

    Of each plan either all tasks have told what they have read, and it is the whole plan, or the source has noted
    this very plan in this driver, and its process lives. No task may have read for another plan. ``notes`` is the
    folder of notes (`Host.notes`) of the driver, where this is a process that Spark has not started.

    Returns the plans of ``may_be_away`` to whose ends nothing was planned: their sources are not in the query.
    """
    by_cut: dict[tuple[str, str], dict[int, Read]] = {}
    for read in reads:
        by_cut.setdefault((read.digest, read.cut), {})[read.number] = read
    by_digest = {plan.digest: plan for plan in plans}
    proved = set()
    for (digest, _), by_number in by_cut.items():
        tasks = [*by_number.values()]
        parts = sorted(part for read in tasks for part in read.parts)
        shown = ", ".join(map(str, parts)) or "no offsets"
        if digest not in by_digest:
            raise _refused(batch_id, plans, shown)
        if len(tasks) == tasks[0].of:
            if not _tile(by_digest[digest], parts):
                raise _refused(batch_id, plans, shown)
            proved.add(digest)
    told = {digest for digest, _ in by_cut}
    away = []
    for plan in plans:
        if plan.digest in proved:
            continue
        noted = _noted_ends(notes)
        if plan.digest in noted:
            continue
        if plan in may_be_away and plan.digest not in told and plan.end_digest not in noted.values():
            away.append(plan)
            continue
        raise _refused(
            batch_id,
            plans,
            f"nothing that was planned for {plan} (Spark does not plan a source of which the query can use no row, "
            "for instance behind limit(0): leave such a source out of the query)",
        )
    return tuple(away)


def _noted_ends(folder: Path | None) -> dict[str, str]:
    """The ends of what sources have planned whose processes live, by the plans' digests."""
    notes = [path.name.split(".") for path in _names((folder or host().notes()) / "plans")]
    alive = {process for process in {process for _, _, process, _ in notes} if _lives(process)}
    return {name: end for name, end, process, _ in notes if process in alive}


def _tile(plan: Plan, parts: Sequence[Part]) -> bool:
    """Whether the parts make up the plan: no offset is missing, and none is there twice."""
    reached = {(part.topic, part.partition): part.start for part in plan.parts}
    for part in sorted(parts):
        at = (part.topic, part.partition)
        if reached.get(at) != part.start:
            return False
        reached[at] = part.end
    return all(reached[part.topic, part.partition] == part.end for part in plan.parts)


def _refused(batch_id: int, plans: Sequence[Plan], actual: str) -> CheckpointMismatchError:
    recorded = "; ".join(map(str, plans))
    return CheckpointMismatchError(
        f"the checkpoint records that batch {batch_id} reads {recorded}, but the tasks of this run have read {actual}: "
        "the rows and the offsets do not belong together. Nothing was written. Start the query again, which plans the "
        "batch again; if that does not help, start from a new checkpoint with startingOffsets=committed and the same "
        "transactional.id, and report this error"
    )


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:32]


def _this_process() -> str:
    """This process, and no other one that gets its number later."""
    return f"{os.getpid()}-{_began(os.getpid())}"


def _lives(process: str) -> bool:
    """Whether the process is there. That of a query that has ended is not: its notes say nothing of a later query."""
    number, _, began = process.partition("-")
    if began != _began(int(number)):
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _began(number: int) -> str:
    """When a process began, in the kernel's ticks; "gone" for one that is over, "" where the kernel does not tell."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return "gone" if Path("/proc/self/stat").exists() else ""
    except OSError:
        return "gone"
    return "gone" if fields[0] in "ZX" else fields[19]


def _place_of_task() -> tuple[Path, int] | None:
    """The folder for what the tasks of this micro-batch have read here, and the number of this attempt of a task."""
    context = host().task()
    if context is None:
        return None
    run, batch = (
        context.getLocalProperty("spark.jobGroup.id"),
        context.getLocalProperty("streaming.sql.batchId"),
    )
    if not run or not batch or not batch.isdecimal():
        return None
    return host().notes() / "reads" / run / batch, context.taskAttemptId()


def _forget_before(folder: Path) -> None:
    """Delete what was read for micro-batches that are over."""
    for sibling in _names(folder.parent):
        if sibling.name.isdecimal() and int(sibling.name) <= int(folder.name) - _KEPT:
            shutil.rmtree(sibling, ignore_errors=True)


def _touch(path: Path) -> None:
    try:
        path.touch()
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    temporary.write_text(text)
    temporary.replace(path)


def _read(path: Path) -> Read:
    digest, cut, number, of, parts = json.loads(path.read_text())
    return Read(digest, cut, number, of, tuple(Part(*part) for part in parts))


def _names(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if not path.name.startswith(".")]
    except FileNotFoundError:
        return []
