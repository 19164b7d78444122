"""Worlds in which the log's folder is put back from a copy while processes write, read, retire, and are frozen.

What was written between the copy and its return is lost with it. All else must hold: what was acknowledged to a call
that began later is in the log, once; what was acknowledged before the copy, too; and no process goes on from a state
that is not of the history that is there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from spark_eos.errors import CorruptRecordError, DivergedLogError, EosLogError
from spark_eos.log import paths
from spark_eos.log.clock import Retry, new_id
from spark_eos.log.log import Log
from spark_eos.log.topics import new_topic
from spark_eos.maintenance.verify.report import Finding, Verdict
from spark_eos.maintenance.verify.verify import verify
from spark_eos.protocol.state import State
from spark_eos.storage.store import Data
from verification.no_threads import NO_THREADS
from verification.retiring import RETIRED_AT_ONCE
from verification.simulator.clock import SimulatedClock
from verification.simulator.store import SimulatedStore
from verification.simulator.world import FaultProfile, Process, World

__all__ = ["Folder", "Restored", "opened_by_operator", "put_back_later", "restored", "run_to_its_end"]

_LAST_S = 120.0
_INTERVAL = 4


class Folder(SimulatedStore):
    """A folder that processes share: it tells one file from another in its place by a system call."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.requests_are_free = True
        self._network = None  # Leaders on other machines are for logs in object stores alone.
        self._times = 0
        """How often the files were put back."""
        self.overtaken: dict[str, tuple[Process, Data | None]] = {}
        """Entries that were retired by a process that had looked before the files were put back, and what they held."""

    @property
    def files(self) -> dict[str, pa.Buffer]:
        """The files that are there."""
        return {info.name: self.inner.read(info.name) for info in self.inner.list("")}

    def identity(self, name: str) -> Hashable | None:
        self._world.current().breathe()
        return self.inner.identity(name)

    def retire(self, name: str) -> None:
        asked, process = self._times, self._world.current()

        def effect() -> None:
            held = self.files.get(name)
            self.inner.retire(name)
            if asked != self._times:
                self.overtaken[name] = process, held

        self._call("retire", name, effect)

    def put_back(self, files: dict[str, pa.Buffer]) -> None:
        """All at once."""
        self._times += 1
        for info in [*self.inner.list("")]:
            self.inner.delete(info.name)
        for name, data in files.items():
            self.inner.create(name, data)  # A copy: another file with the same bytes.


class Operated(Protocol):
    """What operators do to a world's log, and what they find when all is done."""

    copied_s: float
    put_back_s: float
    lost: int
    problems: list[str]
    strays: int
    overtaken: int


@dataclass
class Restored:
    """What came of one world. ``problems`` is empty if all that must hold did."""

    seed: int
    copied_s: float = 0.0
    put_back_s: float = 0.0
    lost: int = 0
    """Entries that were in the log when it was put back, and not in the copy."""
    acknowledged: list[tuple[float, float, str]] = field(default_factory=list)
    """When the call began, when it ended, and which topic it made."""
    seen: list[tuple[float, State]] = field(default_factory=list)
    """States that processes had, and since when they looked for them."""
    diverged: int = 0
    strays: int = 0
    overtaken: int = 0
    """Entries that a frozen process retired in a history that it had not looked at, and that were put back for it."""
    problems: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)


def restored(seed: int) -> Restored:
    """Run the world of ``seed``."""
    chance = random.Random(seed)
    rate = chance.choice([0.0, 0.003, 0.02])
    world = World(seed, FaultProfile(freeze=rate, lost=rate / 2, reply_lost=rate / 2))
    found, store = Restored(seed), Folder(world)
    cast = _Cast(world, store, found, chance)
    world.calm = True
    run_to_its_end(world, cast.create)
    world.calm = False
    for at in range(chance.choice([1, 2, 4])):
        world.start(f"writer-{at}", cast.write, chance.random())
    for at in range(chance.choice([0, 1, 2])):
        world.start(f"reader-{at}", cast.read, chance.random())
    if chance.random() < 0.8:
        world.start("keeper", cast.keep, chance.random())
    first_s = chance.uniform(2, 60)
    put_back_later(world, store, found, first_s, chance.choice([0.0, 0.01, 0.3, 5.0, 40.0]))
    world.run(_LAST_S)
    world.calm = True
    world.run(20_000.0)
    found.trace = world.trace
    run_to_its_end(world, lambda process: _judge(process, store, found))
    found.problems += world.failures()
    return found


class _Cast:
    """What the processes do until the world is calm: each opens the log again after an error."""

    def __init__(self, world: World, store: Folder, found: Restored, chance: random.Random) -> None:
        self.world, self.store, self.found, self.chance = world, store, found, chance
        self._names = (f"t{number}" for number in range(1_000_000))

    def create(self, process: Process) -> None:
        Log.create(
            self.store,
            SimulatedClock(process),
            snapshot_interval=_INTERVAL,
            config=RETIRED_AT_ONCE,
            environment=NO_THREADS,
        )

    def write(self, process: Process) -> None:
        self._until_calm(process, self._write, [0.05, 0.5, 5.0])

    def read(self, process: Process) -> None:
        self._until_calm(process, Log.follow, [0.05, 1.0, 30.0])

    def keep(self, process: Process) -> None:
        self._until_calm(process, _keep, [0.3, 3.0])

    def _until_calm(self, process: Process, step: Callable[[Log], State | None], pauses: list[float]) -> None:
        log: Log | None = None
        while not self.world.calm:
            began = self.world.now
            try:
                log = log or self._open(process)
                began = self.world.now
                if (state := step(log)) is not None:
                    self.found.seen.append((began, state))
            except EosLogError as error:
                self.world.note(f"{type(error).__name__}: {error}")
                self.found.diverged += isinstance(error, DivergedLogError)
                log = None
            process.wait(self.chance.choice(pauses))

    def _open(self, process: Process) -> Log:
        retry = Retry(deadline_s=self.chance.choice([0, 10]))
        return Log.open(self.store, SimulatedClock(process), retry, environment=NO_THREADS)

    def _write(self, log: Log) -> State:
        name, began = next(self._names), self.world.now
        action = new_topic(name, 1, None, None, new_id(log.clock))
        log.commit(lambda _: (action,), writer="writer")
        self.found.acknowledged.append((began, self.world.now, name))
        return log.state


def _keep(log: Log) -> None:
    log.follow()
    log.maintenance.snapshot()
    log.maintenance.retire(log.state, 100)


def run_to_its_end(world: World, body: Callable[[Process], None]) -> None:
    """Run one more process, and raise what it raises."""
    process = world.start("operator", body)
    while not process.ended:
        world.run(1.0)
    if process.error is not None:
        raise process.error


def put_back_later(
    world: World, store: Folder, found: Operated, first_s: float, after_s: float, *, with_data: bool = True
) -> None:
    """Copy the files after so many seconds, and put them back so many later. ``with_data``: data files, too."""
    copy: dict[str, pa.Buffer] = {}

    def copies() -> None:
        found.copied_s = world.now
        copy.update(store.files)
        world.note("COPIED")

    def puts_back() -> None:
        found.put_back_s = world.now
        found.lost = sum(name.startswith(paths.LOG) for name in store.files.keys() - copy.keys())
        kept = {
            name: data for name, data in store.files.items() if name.startswith(paths.DATA) and not with_data
        }
        store.put_back({**kept, **copy})
        world.note("PUT BACK")

    world.at(first_s, copies)
    world.at(first_s + after_s, puts_back)


def _judge(process: Process, store: Folder, found: Restored) -> None:
    try:
        log = opened_by_operator(process, store, found)
    except EosLogError as error:
        found.problems.append(f"the log cannot be opened: {error}")
        return
    topics, kept = log.state.topics, log.state.lineages
    # By its own reckoning, not by that of the code under test: no world writes more than what is kept.
    history = [kept[at : at + 4] for at in range(0, len(kept), 4)] + [b""] * 1000
    for began, ended, name in found.acknowledged:
        if (began > found.put_back_s or ended < found.copied_s) and name not in topics:
            found.problems.append(
                f"{name} was acknowledged at {ended:.3f} s (asked for at {began:.3f} s), and is lost"
            )
    for began, state in found.seen:
        if began > found.put_back_s and state.lineage[:4] != history[state.seq]:
            found.problems.append(
                f"at {began:.3f} s a process went on from entry {state.seq} of another history"
            )
    # A process that was frozen at its create may leave an entry far beyond the end: `eoslog verify` names it.
    beyond = {paths.entry(log.state.seq + at, log.state.entries_per_folder) for at in range(1, 1000)}
    for name in beyond & store.files.keys():
        store.inner.delete(name)
        found.strays += 1
    found.problems += [f"verify: {one}" for one in _wrong(store)]


def _wrong(store: Folder) -> list[Finding]:
    findings: list[Finding] = []
    verify(store, findings.append)
    return [one for one in findings if one.verdict is Verdict.WRONG]


def opened_by_operator(process: Process, store: Folder, found: Operated) -> Log:
    """The log, after what `eoslog verify` tells operators to do."""
    _mend(store, found)
    return _opened(process, store, found)


def _mend(store: Folder, found: Operated) -> None:
    """What operators do who are told of an entry that a process retired when it woke: it is put back.

    The process had looked before it was frozen (docs/design/0002). It looks again before the next entry, so it
    overwrites one at most. An entry that the newer snapshots of this history stand for may be retired by now.
    """
    by = [process for process, _ in store.overtaken.values()]
    found.problems += [
        f"{one.name} retired several entries of another history" for one in {*by} if by.count(one) > 1
    ]
    while wrong := {one.name for one in _wrong(store)} & store.overtaken.keys():
        for name in wrong:
            _, held = store.overtaken.pop(name)
            if held is None:
                store.inner.delete(name)
            else:
                store.inner.overwrite(name, held)
            found.overtaken += 1


def _opened(process: Process, store: Folder, found: Operated) -> Log:
    """Take away what was created after a gap."""
    while True:
        try:
            return Log.open(store, SimulatedClock(process))
        except CorruptRecordError as error:
            stray = max(name for name in store.files if name.startswith(paths.LOG) and name in str(error))
            store.inner.delete(stray)
            found.strays += 1
        except DivergedLogError:
            # Of a process that was frozen between its look and its create. Its entry was never acknowledged.
            stray = min(one.name for one in _wrong(store) if "is of another history" in one.text)
            for name in [
                name for name in store.files if paths.entry(0) < name < paths.SNAPSHOTS and name >= stray
            ]:
                store.inner.delete(name)
                found.strays += 1
