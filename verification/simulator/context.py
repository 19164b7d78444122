"""What the actors of a simulated world have in common."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from spark_eos.clients.producer.producer import Producer
from spark_eos.errors import RetriableError
from spark_eos.log.clock import Retry
from spark_eos.log.environment import Lag
from spark_eos.log.log import Log
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.version import TRIED
from spark_eos.testing.history import Recorder
from verification.no_threads import NO_THREADS
from verification.simulator.clock import SimulatedClock
from verification.simulator.database import Database, Pairs
from verification.simulator.memory import Memory
from verification.simulator.outcomes import Outcomes, heard
from verification.simulator.spark_calls import Call
from verification.simulator.store import SimulatedStore
from verification.simulator.world import Process, World

__all__ = [
    "AUTO",
    "COPIERS",
    "DELETE_DELAY_MS",
    "INPUT",
    "OUTPUT",
    "PARTITIONS",
    "RAW",
    "SHARED",
    "Began",
    "Done",
    "GivenUp",
    "Stage",
]

T = TypeVar("T")

INPUT, OUTPUT, SHARED, RAW = "input", "output", "shared", "raw"
"""Copiers read the first and write the second; all actors write to the third.

The fourth is for rogue clients; it is deleted and created again, and its records are.
"""

COPIERS, AUTO = "group", "auto"
"""The group that copies, and one of plain consumers with auto-commit."""


PARTITIONS = {INPUT: 2, OUTPUT: 3, SHARED: 2, RAW: 2}

DELETE_DELAY_MS = 1000
"""How long a file stays after the last reference to it is gone."""


class Done(NamedTuple):
    """A micro-batch that a driver was told is done, ``at`` the world's time (s).

    ``late``: another run had noted it as done before this one asked.
    """

    query_id: str
    run_id: str
    batch_id: int
    end: dict[TopicPartition, int]
    at: float
    late: bool


class Began(NamedTuple):
    """Where a query was to begin as its first micro-batch says, and what the ends of the input were around that."""

    query_id: str
    initial: dict[TopicPartition, int]
    lowest: dict[int, int]
    highest: dict[int, int]


class GivenUp(Exception):  # noqa: N818  (the application's own end, not an error of the log)
    """The application has tried for long enough."""


class Stage:
    """What the actors of one world have in common."""

    def __init__(
        self,
        world: World,
        store: SimulatedStore,
        operations: int,
        *,
        memory: bool = False,
        forget_s: float | None = None,
        spark: str = TRIED[-1],
    ) -> None:
        """With ``memory`` processes share what they have decoded; ``forget_s`` after which names are deleted."""
        self.spark = spark
        self.world = world
        self.store = store
        self.recorder = Recorder(lambda: world.now)
        self.operations = operations
        self.chance = world.random
        self.told: list[Outcomes] = []
        remembered = Memory() if memory else None
        self.environment = replace(
            NO_THREADS,
            away_s=NO_THREADS.away_s if forget_s is None else forget_s / 4,
            names_kept_s=NO_THREADS.names_kept_s if forget_s is None else forget_s,
            decode=NO_THREADS.decode if remembered is None else remembered.decode,
            apply=NO_THREADS.apply if remembered is None else remembered.apply,
            # Most processes lag soon, and go on from snapshots now and then.
            lag=Lag(after=2, requests=1.0, skips=8, most_s=0.05, each_s=0.01),
            around_commit=heard(world, self.told.append, lambda: world.random.randbytes(16)),
        )
        self.done: list[Done] = []
        self.began: list[Began] = []
        self.drivers: list[tuple[dict[int, Any], list[Call]]] = []
        """Of each Spark driver: where the batches of its checkpoint ended when it started, and Spark's calls."""
        self.delivered: set[tuple[int, int]] = set()
        """(partition, offset) of what the consumers with auto-commit were given of the shared topic."""
        self.broken: list[str] = []
        """What readers of tables saw and must not see."""
        self.databases: defaultdict[str, Database] = defaultdict(Database)
        """Of the tills, by transactional id."""
        self.pairs = Pairs()
        """What is sent to two logs."""
        self.memories: list[tuple[Process, Log, Producer | None]] = []
        """What processes have in memory: forked ones begin with a copy of it."""
        self._values = 0

    @property
    def begins(self) -> dict[int, int]:
        """Where the query began in each partition of the input; those with other checkpoints are refused."""
        initial = self.began[0].initial if self.began else {}
        return {at.partition: offset for at, offset in initial.items()}

    @property
    def goes_on(self) -> bool:
        """Whether there is still time to begin something."""
        return self.world.operations < self.operations

    def open(self, process: Process) -> Log:
        """The log, as this process sees it; tried for as long as it takes."""
        log = self.patiently(
            process,
            lambda: Log.open(
                self.store,
                SimulatedClock(process),
                Retry(deadline_s=self.chance.choice([0, 10])),
                environment=self.environment,
            ),
        )
        self.memories.append((process, log, None))
        return log

    def producer(self, process: Process, log: Log, settings: Mapping[str, object]) -> Producer:
        """A producer of this process."""
        producer = Producer(log, settings)
        self.memories.append((process, log, producer))
        return producer

    def patiently(self, process: Process, call: Callable[[], T]) -> T:
        """Call again after a `RetriableError`, as applications do."""
        for _ in range(400):
            try:
                return call()
            except RetriableError:
                process.wait(self.chance.choice([0.05, 1.0]))
        raise GivenUp

    def value(self, process: Process) -> str:
        """Text that no other process sends."""
        self._values += 1
        return f"{process.name}:{self._values}"

    def partition(self, topic: str = SHARED) -> TopicPartition:
        """One that is there from the beginning."""
        return TopicPartition(topic, self.chance.randrange(PARTITIONS[topic]))

    def dawdle(self, process: Process) -> None:
        """Take some time, now and then more than any timeout allows."""
        if self.chance.random() < 0.3:
            process.wait(self.chance.choice([0.01, 0.3, 3.0, 80.0]))
