"""Worlds in which many processes write to one folder at the same time, so that most of them lag.

Group commit decides there what each entry holds, and what its leader tells the others. In some worlds the folder is
put back from a copy meanwhile. All that was acknowledged is in the log once, at the offset that its process was told,
unless it went with the history that is gone; then the process gets an error before it gets another answer.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from spark_eos.clients.consumer.consumer import Consumer
from spark_eos.clients.producer.producer import Producer
from spark_eos.clients.records import RecordMetadata
from spark_eos.errors import (
    AbortableError,
    CommitOutcomeUnknownError,
    DivergedLogError,
    EosLogError,
    ObjectNotFoundError,
    RetriableError,
)
from spark_eos.log.clock import Retry
from spark_eos.log.commit.entry_builder import Committed
from spark_eos.log.environment import Commit, Environment, Lag
from spark_eos.log.log import Log
from spark_eos.protocol.types import TopicPartition
from verification.no_threads import NO_THREADS
from verification.retiring import RETIRED_AT_ONCE
from verification.simulator.clock import SimulatedClock
from verification.simulator.restores import Folder, opened_by_operator, put_back_later, run_to_its_end
from verification.simulator.world import FaultProfile, Process, World

__all__ = ["Answer", "Crowd", "crowd", "totals"]

_LAST_S = 6.0
_TOPIC = "t"
_PARTITIONS = 3


class Answer(NamedTuple):
    """What a client was answered of a record, and when (s).

    ``at``: partition and offset. None: nothing. An offset of -1: it was found to be in after its reply was lost.
    """

    client: str
    began: float
    ended: float = math.inf
    at: tuple[int, int] | None = None


@dataclass
class Crowd:
    """What came of one world. ``problems`` is empty if all that must hold did."""

    seed: int
    answers: dict[bytes, Answer] = field(default_factory=dict)
    refused: dict[bytes, str] = field(default_factory=dict)
    """Values that certainly were not written, and why."""
    lagging: int = 0
    """Commits of processes that did not read what others wrote."""
    diverged: int = 0
    """Errors of clients that name the exchange of the files, with or without a commit in doubt."""
    strays: int = 0
    overtaken: int = 0
    copied_s: float = 0.0
    put_back_s: float = 0.0
    """0 if it was not put back."""
    lost: int = 0
    problems: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)


def crowd(seed: int) -> Crowd:
    """Run the world of ``seed``."""
    chance = random.Random(f"crowd {seed}")
    rate = chance.choice([0.0, 0.002, 0.01])
    profile = FaultProfile(freeze=rate / 2, kill=rate / 2, lost=rate, reply_lost=rate, busy=rate)
    world = World(seed, profile)
    world.reports_outcomes = True
    store, found = Folder(world), Crowd(seed)
    stage = _Stage(world, store, found, chance)
    world.calm = True
    run_to_its_end(world, stage.create)
    world.calm = False
    for number in range(chance.choice([2, 3, 5, 8])):
        world.start(f"writer-{number}", partial(stage.write, f"w{number}"), chance.random() / 10)
    if chance.random() < 0.85:
        world.start("keeper", stage.keep, chance.random())
    if chance.random() < 0.3:
        # The log alone: a data file that waits for its commit would be gone.
        after_s = chance.choice([0.01, 0.3, 2.0])
        put_back_later(world, store, found, chance.uniform(1, _LAST_S / 2), after_s, with_data=False)
    world.run(_LAST_S)
    world.calm = True
    world.run(20_000.0)
    found.trace, found.faults = world.trace, world.faults
    run_to_its_end(world, stage.judge)
    found.problems += world.failures()
    return found


def _is_of_exchanged_files(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, DivergedLogError):
            return True
        error = error.__cause__
    return False


class _Stage:
    """What the processes of one world have in common."""

    def __init__(self, world: World, store: Folder, found: Crowd, chance: random.Random) -> None:
        self.world, self.store, self.found, self.chance = world, store, found, chance
        after = chance.choice([0, 1, 2, 4])
        self.environment: Environment = replace(
            NO_THREADS,
            lag=Lag(
                after,
                0.0,
                chance.choice([4, 4, 8, 1000]),
                *chance.choice([(0.0, 0.0), (0.05, 0.01), (0.5, 0.1)]),
            ),
            around_commit=self._counted,
        )
        self._values = (b"%d" % number for number in range(10**9))

    def _counted(self, commit: Commit) -> Commit:
        def call(*args: object, **kwargs: object) -> Committed:
            committed = commit(*args, **kwargs)  # type: ignore[arg-type]
            self.found.lagging += committed.is_lagging
            return committed

        return call

    def create(self, process: Process) -> None:
        interval = self.chance.choice([4, 4, 16, 1000])
        Log.create(
            self.store, SimulatedClock(process), snapshot_interval=interval, config=RETIRED_AT_ONCE
        ).ensure_topic(_TOPIC, _PARTITIONS)

    def write(self, name: str, process: Process) -> None:
        """Records, one after the other, in transactions or without; a new client after each fatal error."""
        send = self._transaction if self.chance.random() < 0.5 else self._record
        lives = 0
        while not self.world.calm:
            lives += 1
            client = f"{name}.{lives}"
            try:
                settings = (
                    {"transactional.id": name} if send == self._transaction else {"delivery.timeout.ms": 100}
                )
                producer = Producer(self._open(process), settings)
                if send == self._transaction:
                    self._patiently(process, producer.init_transactions)
                while not self.world.calm:
                    send(process, producer, client)
                    process.wait(self.chance.choice([0.0, 0.001, 0.01]))
            except EosLogError as error:
                self.world.note(f"{type(error).__name__}: {error}")
                self.found.diverged += _is_of_exchanged_files(error)
                process.wait(0.1)

    def _transaction(self, process: Process, producer: Producer, client: str) -> None:
        value = self._begun(client)
        producer.begin_transaction()
        future = producer.send(_TOPIC, value, partition=self.chance.randrange(_PARTITIONS))
        try:
            self._patiently(process, producer.commit_transaction)
        except AbortableError as error:
            self._patiently(process, producer.abort_transaction)
            self._refused(value, error)
        except (CommitOutcomeUnknownError, DivergedLogError):
            raise  # An earlier try may have been in the history that is gone; or in this one.
        except EosLogError as error:
            self._refused(value, error)
            raise
        else:
            self._answered(value, future.result(0))

    def _record(self, _process: Process, producer: Producer, client: str) -> None:
        value = self._begun(client)
        future = producer.send(_TOPIC, value, partition=self.chance.randrange(_PARTITIONS))
        try:
            producer.flush()
            self._answered(value, future.result(0))
        except (CommitOutcomeUnknownError, DivergedLogError):
            raise
        except EosLogError as error:
            self._refused(value, error)

    def _begun(self, client: str) -> bytes:
        """A value that may be in the log from now on: until its caller hears more, or if the process dies."""
        value = next(self._values)
        self.found.answers[value] = Answer(client, self.world.now)
        return value

    def _answered(self, value: bytes, told: RecordMetadata) -> None:
        before = self.found.answers[value]
        self.found.answers[value] = before._replace(ended=self.world.now, at=(told.partition, told.offset))
        self.world.note(f"{value.decode()} is at {told.partition}, {told.offset}")

    def _refused(self, value: bytes, error: EosLogError) -> None:
        del self.found.answers[value]
        self.found.refused[value] = f"{type(error).__name__}: {error}"

    def _patiently(self, process: Process, call: Callable[[], object]) -> None:
        while True:
            try:
                call()
            except RetriableError:
                if self.world.calm and self.world.now > 10_000:
                    raise
                process.wait(0.05)
            else:
                return

    def _open(self, process: Process) -> Log:
        retry = Retry(deadline_s=self.chance.choice([0, 10]))
        return Log.open(self.store, SimulatedClock(process), retry, environment=self.environment)

    def keep(self, process: Process) -> None:
        """Snapshots, and retired entries."""
        log, pauses = None, self.chance.choice([[0.05], [0.3, 3.0]])
        while not self.world.calm:
            with suppress(EosLogError):
                log = log or self._open(process)
                log.follow()
                log.maintenance.snapshot()
                log.maintenance.retire(log.state, 100)
            process.wait(self.chance.choice(pauses))

    def judge(self, process: Process) -> None:
        """Compare what is in the log with what was answered."""
        found = self.found
        there = self._records(opened_by_operator(process, self.store, found))
        for value, places in there.items():
            if len(places) > 1:
                found.problems.append(f"{value!r} is at {places}")
            if value in found.refused:
                found.problems.append(f"{value!r} was refused ({found.refused[value]}), and is at {places}")
        lost: set[str] = set()
        for value, answer in found.answers.items():
            places = there.get(value, [])
            if answer.at is None or places == [answer.at] or (answer.at[1] < 0 and places):
                continue
            if not (answer.began < found.put_back_s and answer.ended > found.copied_s):
                found.problems.append(f"{value!r} was told to be at {answer.at}, and is at {places}")
            lost.add(answer.client)
        for value, answer in found.answers.items():
            if answer.at is not None and answer.client in lost and answer.began > found.put_back_s:
                found.problems.append(f"{answer.client} lost a record, and was told that {value!r} is in")

    def _records(self, log: Log) -> dict[bytes, list[tuple[int, int]]]:
        reader = Consumer(log, {"auto.offset.reset": "earliest", "isolation.level": "read_committed"})
        reader.assign([TopicPartition(_TOPIC, number) for number in range(_PARTITIONS)])
        there: dict[bytes, list[tuple[int, int]]] = {}
        try:
            while records := reader.poll(0, max_records=10_000):
                for record in records:
                    there.setdefault(record.value or b"", []).append((record.partition, record.offset))
        except ObjectNotFoundError as error:
            self.found.problems.append(f"a file is gone: {error}")
        return there


def totals(worlds: list[Crowd]) -> Counter[str]:
    """What happened in all of them."""
    return Counter(
        {
            "worlds": len(worlds),
            "answers": sum(answer.at is not None for world in worlds for answer in world.answers.values()),
            "lagging": sum(world.lagging for world in worlds),
            "refused": sum(len(world.refused) for world in worlds),
            "diverged": sum(world.diverged for world in worlds),
            "put back": sum(world.put_back_s > 0 for world in worlds),
        }
    )
