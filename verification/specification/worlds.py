"""Small simulated worlds for `specs/Commit.tla`: a few writers of one log, with all the simulator's trouble."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from spark_eos.errors import CommitOutcomeUnknownError, EosLogError
from spark_eos.log.clock import Retry
from spark_eos.log.environment import LAG, Lag
from spark_eos.log.log import Log
from spark_eos.maintenance.name_deletion import RetiredNames
from spark_eos.protocol.actions import Action, AlterTopic, AppendBatches, CreateTopic
from spark_eos.protocol.state import State
from spark_eos.protocol.types import NO_PRODUCER, BatchRef, FileRef, StagedFile
from verification.no_threads import NO_THREADS
from verification.retiring import RETIRED_AT_ONCE
from verification.simulator.clock import SimulatedClock
from verification.simulator.world import FaultProfile, Process, World
from verification.specification.events import Event
from verification.specification.recording import Recorder
from verification.specification.stores import RecordedObjectStore, RecordedStore

__all__ = ["REQUESTS", "WRITERS", "Run", "append", "proposal", "record"]

WRITERS = 3
"""At most, in one world."""

CROWD = 5
"""Writers in a world where processes lag."""

REACH = 3
"""Of submissions over a network."""

REQUESTS = 3
"""Of one writer, at most."""

_OPERATIONS = 3000
"""Calls of the store after which a world ends, at the latest."""

_SLEEPY = FaultProfile(freeze=0.04)
"""Processes sleep while others go on, and the names of what they knew are deleted."""

_FORGET_S = 8.0
"""After how long names of retired entries are deleted."""


class Run(NamedTuple):
    """What was recorded of the world of one seed."""

    seed: int
    events: list[Event]
    faults: dict[str, int]
    failures: list[str]
    """Processes that ended with an error: their traces may be behaviours, and are shorter than they should be."""


def record(seed: int) -> Run:
    """Run the world of a seed."""
    stage = _Stage(World(seed, _faults(random.Random(f"faults {seed}"))))
    world = stage.world
    world.calm = True
    world.start("setup", stage.setup)
    # Code with a planted mistake may come to no end.
    while world.operations < _OPERATIONS and world.run(100.0):
        pass
    for watch in stage.recorder.watches:
        if watch.dead():
            watch.crashed()
    reach = Event("Reach", 0, stage.store.reach)
    return Run(seed, [reach, *stage.recorder.trace()], world.faults, world.failures())


class _Stage:
    """What the processes of one world have in common."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.recorder = Recorder()
        chance = world.random
        self.store = (RecordedObjectStore if chance.random() < 0.5 else RecordedStore)(world)
        self.store.recorder, self.store.watched, self.store.copies = self.recorder, {}, []
        lag = random.Random(f"lag {world.seed}")
        self.lags = world.reports_outcomes and lag.random() < 0.5
        """Whether its processes lag: their requests are appends, whose results leaders report."""
        if not self.lags and lag.random() < 0.4:
            self.store.reach, world.reports_outcomes = REACH, False
        self.is_sleepy = world.fault_profile == _SLEEPY
        self.forgets = self.is_sleepy or chance.random() < 0.5
        self.is_crowded = chance.random() < 0.6 or self.lags or self.store.reach > 0
        self.plain = replace(
            NO_THREADS,
            lag=Lag(lag.choice([0, 1]), 0.0, lag.choice([2, 1000]), *lag.choice([(0.0, 0.0), (1.0, 1.0)]))
            if self.lags
            else LAG,
            away_s=_FORGET_S / 4 if self.forgets else NO_THREADS.away_s,
            names_kept_s=_FORGET_S if self.forgets else NO_THREADS.names_kept_s,
        )
        self.environment = self.recorder.environment(self.plain)

    def setup(self, process: Process) -> None:
        """A log; then all others begin."""
        world, chance = self.world, self.world.random
        interval = 2 if self.is_sleepy else chance.choice([2, 3, 1000])
        Log.create(
            self.store,
            SimulatedClock(process),
            snapshot_interval=interval,
            config=RETIRED_AT_ONCE,
            environment=self.plain,
        )
        world.calm = False
        crowd = CROWD if self.lags or self.store.reach else WRITERS
        for number in range(crowd if self.is_crowded else chance.randint(2, crowd)):
            delay = 0.0 if self.is_crowded else chance.choice([0.0, 0.01, 20.0])
            world.start(f"writer-{number}", self.writer, delay)
        if chance.random() < 0.6:
            world.start("maintainer", self.maintainer, 0.1)

    def writer(self, process: Process) -> None:
        """A few commits, each of them repeated while it is in doubt, or not."""
        chance = self.world.random
        log = self._opened(process)
        pause = [2.0] if self.is_sleepy else [0.0, 0.001] if self.is_crowded else [0.0, 5.0]
        for number in range(REQUESTS if self.is_crowded else chance.randint(1, 2)):
            name = f"{process.name}-{number}"
            _commit(log, append(name) if self.lags else proposal(chance, name), process)
            process.wait(chance.choice(pause))

    def maintainer(self, process: Process) -> None:
        """Snapshots, retired entries, deleted names."""
        log = Log(self.store, SimulatedClock(process), environment=self.plain)
        for _ in range(20):
            with suppress(EosLogError):
                state = log.follow()
                log.maintenance.snapshot()
                log.maintenance.retire(state, 10)
                if self.forgets:
                    RetiredNames(log, after_s=_FORGET_S).run()
            process.wait(self.world.random.choice([0.1, 2.0, 5.0]))

    def _opened(self, process: Process) -> Log:
        retry = Retry(deadline_s=self.world.random.choice([0, 2, 10]))
        log = Log(self.store, SimulatedClock(process), retry, environment=self.environment)
        self.store.watched[process] = watch = self.recorder.watches[-1]
        watch.dead = lambda: process.dead
        while True:
            try:
                log.follow()
            except EosLogError:
                process.wait(1.0)
            else:
                return log


def _faults(chance: random.Random) -> FaultProfile:
    """More trouble than in long runs: these are short."""
    kind = chance.random()
    if kind < 0.1:
        return FaultProfile()
    if kind < 0.3:
        return _SLEEPY
    rate = chance.choice([0.02, 0.05, 0.1])
    return FaultProfile(
        lost=rate * chance.random() * 2,
        reply_lost=rate * chance.random() * 2,
        delayed=rate * chance.random() * 2,
        doubled=rate * chance.random() * 2,
        busy=rate * chance.random() * 2,
        conflict=chance.choice([0, 0.1, 0.3]),
        kill=chance.choice([0, 0.005, 0.01]),
        freeze=chance.choice([0, 0.02, 0.1]),
    )


def proposal(chance: random.Random, name: str) -> Callable[[State], Sequence[Action]]:
    """What a request asks for: a topic of this name, or of one that others ask for, or what may be done twice."""
    topic = chance.choice([name, name, "same", "any"])
    if topic == "any":  # Whether it was done, no state tells; but to do it twice does no harm.
        return lambda state: (
            (AlterTopic("same", state.topics["same"].topic_id, config=(("retention.ms", "1000"),)),)
            if "same" in state.topics
            else (CreateTopic(name, f"id-of-{name}", 1),)
        )
    return lambda _: (CreateTopic(topic, f"id-of-{topic}-by-{name}", 1),)


def append(name: str) -> Callable[[State], Sequence[Action]]:
    """Rows for a topic that all writers share; the first request creates it."""
    file = StagedFile("same", FileRef(f"data/same/0-{name}.arrow", 14, 0), (BatchRef(0, 1, 0, 14, 7, 1, 2),))

    def propose(state: State) -> Sequence[Action]:
        if (topic := state.topics.get("same")) is None:
            return (CreateTopic("same", f"id-of-same-by-{name}", 1),)
        return (AppendBatches(NO_PRODUCER, (("same", topic.topic_id),), (file,)),)

    return propose


def _commit(log: Log, propose: Callable[[State], Sequence[Action]], process: Process) -> None:
    request_id = None
    for _ in range(process.world.random.choice([1, 2, 5])):
        try:
            log.commit(propose, request_id=request_id)
        except CommitOutcomeUnknownError as error:
            request_id = error.request_id
            process.wait(process.world.random.choice([0.1, 5.0]))
        except EosLogError:
            logging.getLogger(__name__).debug("refused", exc_info=True)
            return
        else:
            return
