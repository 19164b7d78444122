"""Worlds in which a log moves to another place while processes write, read, retire, and are frozen or killed.

`spark_eos.maintenance.copying.copy_log` closes the log. What was acknowledged at the old place is in the log at the new
one, what was refused is not, and no call that began after the log was closed is acknowledged at the old place. The
process that copies may be frozen or killed anywhere: the same call is made again, also beside one that sleeps.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from spark_eos.errors import CommitOutcomeUnknownError, CorruptRecordError, EosLogError, NotALogError
from spark_eos.log.clock import Retry, new_id
from spark_eos.log.commit.closing import CLOSED
from spark_eos.log.log import Log
from spark_eos.log.topics import new_topic
from spark_eos.maintenance.copying import MARK, copy_log
from spark_eos.maintenance.verify.report import Finding, Verdict
from spark_eos.maintenance.verify.verify import verify
from spark_eos.protocol.state import State
from spark_eos.storage.store import Data
from verification.no_threads import NO_THREADS
from verification.retiring import RETIRED_AT_ONCE
from verification.simulator.clock import SimulatedClock
from verification.simulator.store import SimulatedObjectStore, SimulatedStore
from verification.simulator.world import FaultProfile, Process, World

__all__ = ["Moved", "moved"]

_LAST_S = 150.0
_INTERVAL = 4


@dataclass
class Moved:
    """What came of one world. ``problems`` is empty if all that must hold did."""

    seed: int
    closed_s: float | None = None
    """When the mark of a closed log came to be, whatever the reply said."""
    movers: int = 0
    """Processes that have copied."""
    acknowledged: dict[str, list[tuple[float, float, str]]] = field(
        default_factory=lambda: {"old": [], "new": []}
    )
    """By place: when the call began, when it ended, and which topic it made."""
    refused: list[str] = field(default_factory=list)
    """Topics that are certainly not in the log."""
    seen: list[tuple[float, State]] = field(default_factory=list)
    """States that processes had at the old place, and since when they looked for them."""
    met: int = 0
    """How often a process found that the log was closed."""
    problems: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)


def moved(seed: int) -> Moved:
    """Run the world of ``seed``."""
    chance = random.Random(seed)
    rate = chance.choice([0.0, 0.003, 0.02])
    world = World(seed, FaultProfile(freeze=rate, lost=rate / 2, reply_lost=rate / 2, kill=rate / 20))
    found = Moved(seed)
    cast = _Cast(world, found, chance)
    world.calm = True
    _run(world, cast.create)
    world.calm = False
    for at in range(chance.choice([1, 2, 4])):
        world.start(f"writer-{at}", cast.write, chance.random())
    for at in range(chance.choice([0, 1, 2])):
        world.start(f"reader-{at}", cast.read, chance.random())
    if chance.random() < 0.8:
        world.start("keeper", cast.keep, chance.random())
    world.at(chance.uniform(2, 60), cast.start_mover)
    world.run(_LAST_S)
    world.calm = True
    world.run(20_000.0)
    found.trace = world.trace
    _run(world, cast.judge)
    found.problems += world.failures()
    return found


class _Cast:
    """What the processes do until the world is calm: each opens the log again after an error, where it is by then."""

    def __init__(self, world: World, found: Moved, chance: random.Random) -> None:
        self.world, self.found, self.chance = world, found, chance
        make = chance.choice([SimulatedStore, SimulatedObjectStore])
        self.stores = {"old": make(world), "new": make(world)}
        exact = make is SimulatedStore and chance.random() < 0.5
        for place, store in self.stores.items():
            store.url = store.inner.url = f"sim://{place}"
            store.has_exact_conflicts = exact
        self._names = (f"t{number}" for number in range(1_000_000))
        self._watch_for_the_mark()

    def _watch_for_the_mark(self) -> None:
        inner = self.stores["old"].inner
        create = inner.create

        def created(name: str, data: Data) -> None:
            create(name, data)
            if bytes(data) == CLOSED:
                self.found.closed_s = self.world.now
                self.world.note(f"CLOSED by {name}")

        inner.create = created  # type: ignore[method-assign]

    def create(self, process: Process) -> None:
        Log.create(
            self.stores["old"],
            SimulatedClock(process),
            snapshot_interval=_INTERVAL,
            config=RETIRED_AT_ONCE,
            environment=NO_THREADS,
        )

    # -- The move ---------------------------------------------------------------------------------------

    def start_mover(self) -> None:
        """Another process that copies, now, and again when this one has died, or has slept for long.

        No other one follows one that has failed: it would fail as well, again and again for hours of the world.
        """
        if self._is_done():
            return
        self.found.movers += 1
        mover = self.world.start(f"mover-{self.found.movers}", self._move)

        def replaced() -> None:
            if not mover.ended and self.chance.random() < 0.5:
                self.start_mover()

        def ended() -> None:
            if mover.error is None:
                self.world.at(1.0, self.start_mover)

        mover.on_end = ended
        self.world.at(60.0, replaced)

    def _is_done(self) -> bool:
        names = {info.name for info in self.stores["new"].inner.list("")}
        return MARK not in names and bool(names)

    def _move(self, process: Process) -> None:
        old, new = self.stores["old"], self.stores["new"]
        while not self._is_done():
            try:
                clock = SimulatedClock(process)
                copy_log(old, new, lambda _: None, close=True, clock=clock, environment=NO_THREADS)
            except EosLogError as error:
                self.world.note(f"{type(error).__name__}: {error}")
                process.wait(self.chance.choice([0.5, 5.0]))

    # -- The others -------------------------------------------------------------------------------------

    def write(self, process: Process) -> None:
        self._until_calm(process, self._write, [0.05, 0.5, 5.0])

    def read(self, process: Process) -> None:
        self._until_calm(process, lambda log, _: log.follow(), [0.05, 1.0, 30.0])

    def keep(self, process: Process) -> None:
        self._until_calm(process, _keep, [0.3, 3.0])

    def _until_calm(
        self, process: Process, step: Callable[[Log, str], State | None], pauses: list[float]
    ) -> None:
        log: Log | None = None
        place = "old"
        while not self.world.calm:
            began = self.world.now
            try:
                log = log or self._open(process, place)
                began = self.world.now
                if (state := step(log, place)) is not None and place == "old":
                    self.found.seen.append((began, state))
            except EosLogError as error:
                self.world.note(f"{type(error).__name__}: {error}")
                if isinstance(error, CorruptRecordError):
                    self.found.problems.append(f"a process was told of damage at the {place} place: {error}")
                log = None
                if place == "old" and isinstance(error, NotALogError) and "was closed" in str(error):
                    self.found.met += 1
                    # A process that gets no answer looks at the old place again.
                    place = self.chance.choice(["old", "new"])
            process.wait(self.chance.choice(pauses))

    def _open(self, process: Process, place: str) -> Log:
        retry = Retry(deadline_s=self.chance.choice([0, 10]))
        return Log.open(self.stores[place], SimulatedClock(process), retry, environment=NO_THREADS)

    def _write(self, log: Log, place: str) -> State:
        name, began = next(self._names), self.world.now
        action = new_topic(name, 1, None, None, new_id(log.clock))
        request_id = log.clock.unique()
        while True:
            try:
                log.commit(lambda _: (action,), writer="writer", request_id=request_id)
            except CommitOutcomeUnknownError:
                log.clock.sleep(self.chance.choice([0.1, 3.0]))
                continue
            except EosLogError:
                self.found.refused.append(name)
                raise
            self.found.acknowledged[place].append((began, self.world.now, name))
            return log.state

    # -- What must hold ---------------------------------------------------------------------------------

    def judge(self, process: Process) -> None:
        found, closed_s = self.found, self.found.closed_s
        if not self._is_done():
            found.problems.append("the log was never moved")
            return
        if closed_s is None:
            found.problems.append("the log was moved, and not closed")
            closed_s = _LAST_S
        with suppress(NotALogError):
            seq = Log(self.stores["old"], SimulatedClock(process), environment=NO_THREADS).follow().seq
            found.problems.append(f"the old log goes on after it was closed, up to entry {seq}")
        log = Log.open(self.stores["new"], SimulatedClock(process), environment=NO_THREADS)
        topics, kept = log.state.topics, log.state.lineages
        # By its own reckoning, not by that of the code under test: no world writes more than what is kept.
        history = [kept[at : at + 4] for at in range(0, len(kept), 4)] + [b""] * 1000
        for place, calls in found.acknowledged.items():
            for began, ended, name in calls:
                if name not in topics:
                    found.problems.append(
                        f"{name} was acknowledged at the {place} place at {ended:.3f} s, and is lost"
                    )
                if place == "old" and began > closed_s:
                    found.problems.append(
                        f"{name} was acknowledged at the old place, by a call that began at {began:.3f} s; the "
                        f"log was closed at {closed_s:.3f} s"
                    )
        found.problems += [
            f"{name} was refused, and is in the log" for name in found.refused if name in topics
        ]
        for began, state in found.seen:
            if state.lineage[:4] != history[state.seq]:
                found.problems.append(f"at {began:.3f} s a process saw entry {state.seq}, which did not move")
        for place, store in self.stores.items():
            findings: list[Finding] = []
            verify(store, findings.append)
            wrong = [one for one in findings if one.verdict is Verdict.WRONG]
            found.problems += [f"verify the {place} log: {one}" for one in wrong]


def _keep(log: Log, _place: str) -> None:
    log.follow()
    log.maintenance.snapshot()
    log.maintenance.retire(log.state, 100)


def _run(world: World, body: Callable[[Process], None]) -> None:
    process = world.start("operator", body)
    while not process.ended:
        world.run(1.0)
    if process.error is not None:
        raise process.error
