"""What is done to whom, by a seed: kills, freezes past every timeout, rivals, lost checkpoints, a full disk."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spark_eos.log.log import Log
from verification.chaos.actors import Actor, Frozen, Run
from verification.chaos.checkpoints import LostCheckpoints
from verification.chaos.cluster import Cluster, python_workers
from verification.chaos.disk import SmallDisk
from verification.chaos.workloads import GROUP
from verification.processes import send

__all__ = ["FAULTS", "Nemesis", "Scene"]

FREEZE_S = (6.0, 9.0)
"""Longer than every timeout: sessions and transactions 2.5 s, Spark's network 5 s."""
RIVAL_S = 240.0
"""The longest freeze: until its successor has taken over, or so long."""
FULL_S = (8.0, 16.0)

FAULTS = {
    "kill client": 24,
    "kill maintainer": 8,
    "kill driver": 10,
    "kill executor": 14,
    "kill python worker": 14,
    "freeze client": 9,
    "freeze maintainer": 4,
    "freeze driver": 4,
    "freeze executor": 4,
    "freeze python worker": 4,
    "zombie": 14,
    "lose checkpoint": 12,
    "fill disk": 8,
}
"""What can be done, and how often each is tried."""


@dataclass
class Scene:
    """Everything that can be struck."""

    actors: list[Actor]
    cluster: Cluster | None
    checkpoints: LostCheckpoints | None
    checkpoints_of: Actor | None
    disk: SmallDisk | None
    fenced: Log | None
    """The log of the query whose checkpoint two drivers use."""


class Nemesis:
    """Strikes when `strike` is called; `tick` ends what has to end again. ``only``: these faults, not all."""

    def __init__(self, scene: Scene, seed: int, only: Sequence[str] = ()) -> None:
        self._scene = scene
        self._names = [name for name in FAULTS if not only or name in only]
        self._chance = random.Random(seed)
        self.done: Counter[str] = Counter()
        self._frozen: list[tuple[Actor, Run | None, Frozen]] = []
        self._full_until = 0.0
        self._faults: dict[str, Callable[[], str]] = {
            "kill client": lambda: self._kill("client"),
            "kill maintainer": lambda: self._kill("maintainer"),
            "kill driver": self._kill_driver,
            "kill executor": lambda: self._part("executor", kill=True),
            "kill python worker": lambda: self._part("python worker", kill=True),
            "freeze client": self._freeze_client,
            "freeze maintainer": lambda: self._freeze_program("maintainer"),
            "freeze driver": lambda: self._freeze_program("driver"),
            "freeze executor": lambda: self._part("executor", kill=False),
            "freeze python worker": lambda: self._part("python worker", kill=False),
            "zombie": self._zombie,
            "lose checkpoint": self._lose,
            "fill disk": self._fill,
        }

    @property
    def kills(self) -> int:
        """All so far."""
        return sum(actor.tally.kills.total() for actor in self._scene.actors)

    @property
    def freezes(self) -> int:
        """All so far."""
        return sum(actor.tally.freezes.total() for actor in self._scene.actors)

    @property
    def under_way(self) -> bool:
        """Whether anything is frozen, or the disk is full: it takes its time to count."""
        return bool(self._frozen) or (self._scene.disk is not None and self._scene.disk.is_full)

    def strike(self, only: str | None = None) -> str | None:
        """One deed (``only``: of that beginning); what it was; None without a target."""
        names = [name for name in self._names if only is None or name.startswith(only)] or self._names
        (name,) = self._chance.choices(names, [FAULTS[name] for name in names])
        done = self._faults[name]()
        if not done:
            return None
        self.done[name] += 1
        return f"{name}: {done}"

    def wait(self) -> float:
        """A factor for the next pause, 0.3 to 1.7."""
        return 0.3 + 1.4 * self._chance.random()

    def tick(self) -> None:
        """Thaw what was frozen for long enough; empty the disk again."""
        for entry in [*self._frozen]:
            _, run, frozen = entry
            if frozen.is_over() or (run is not None and not run.process.running):
                self._thaw(entry)
        disk = self._scene.disk
        if disk is not None and disk.is_full and time.monotonic() >= self._full_until:
            disk.free()

    def end(self) -> None:
        """All frozen ones go on, the disk is emptied."""
        for entry in [*self._frozen]:
            self._thaw(entry)
        if self._scene.disk is not None:
            self._scene.disk.free()

    # -- faults --------------------------------------------------------------------------------------

    def _kill(self, kind: str) -> str:
        actor, run = self._one(kind)
        if run is None:
            return ""
        actor.kill(run)
        return actor.name

    def _kill_driver(self) -> str:
        actor, run = self._one("driver")
        if run is None:
            return ""
        alone = self._chance.random() < 0.4
        actor.kill(run, alone=alone)
        checkpoints = self._scene.checkpoints
        if checkpoints is not None and actor is self._scene.checkpoints_of:
            run.process.kill()  # a copy is taken of what no process writes to any more
            checkpoints.keep()
        return f"{actor.name}{', its JVM alone' if alone else ''}"

    def _part(self, kind: str, *, kill: bool) -> str:
        """An executor, or a python worker of a driver or an executor."""
        actor, run = self._one("driver")
        cluster = self._scene.cluster
        if run is None or cluster is None:
            return ""
        pids = executors = cluster.executors(run.application)
        if kind == "python worker":
            pids = [pid for jvm in (run.process.pid, *executors) for pid in python_workers(jvm)]
        if not pids:
            return ""
        victim = self._chance.choice(sorted(pids))
        if not kill:
            return self._freeze(actor, None, kind, [victim])
        if send([victim], signal.SIGKILL):
            actor.tally.kills[kind] += 1
        return f"of {actor.name}"

    def _freeze_client(self) -> str:
        """Half of the copiers get a rival with the same ``transactional.id`` meanwhile."""
        actor, run = self._one("client")
        if run is None:
            return ""
        members = [one for one in self._scene.actors if one.name.startswith(GROUP)]
        if actor in members and not all(one.ready for one in members):
            return ""  # a successor has to run already
        told = self._freeze(actor, run, "client", run.process.family())
        if actor.name.startswith(GROUP) and self._chance.random() < 0.5:
            actor.start()
            return f"{told}, with a rival"
        return told

    def _freeze_program(self, kind: str) -> str:
        actor, run = self._one(kind)
        return "" if run is None else self._freeze(actor, run, kind, run.process.family())

    def _zombie(self) -> str:
        """A second driver on the checkpoint, while the first one is frozen, or alive."""
        log = self._scene.fenced
        actor = next((one for one in self._scene.actors if one.name == "zombies"), None)
        if actor is None or log is None or len(actor.runs) != 1 or not actor.ready:
            return ""
        if self._chance.random() < 0.3:
            actor.start()
            return "a rival beside a living driver"
        (run,) = actor.ready
        before = log.follow().producer_of("zombies")
        known = None if before is None else before.run_id

        def taken_over() -> bool:
            now = log.follow().producer_of("zombies")
            return now is not None and now.run_id != known

        told = self._freeze(actor, run, "driver", run.process.family(), taken_over)
        actor.start()
        return f"{told}, until a rival has taken over"

    def _lose(self) -> str:
        checkpoints, actor = self._scene.checkpoints, self._scene.checkpoints_of
        if checkpoints is None or actor is None or not actor.ready or not checkpoints.can_strike:
            return ""
        return checkpoints.strike(actor, actor.ready[0], self._chance)

    def _fill(self) -> str:
        disk = self._scene.disk
        if disk is None or not disk.possible or disk.is_full:
            return ""
        leave = self._chance.choice([0, 0, 4096, 16_384, 65_536])
        disk.fill(leave)
        self._full_until = time.monotonic() + self._chance.uniform(*FULL_S)
        return f"{leave} bytes left"

    # -- inside -------------------------------------------------------------------------------------

    def _one(self, kind: str) -> tuple[Actor, Run] | tuple[Actor, None]:
        """A run of that kind that is up, by chance."""
        able = [(actor, run) for actor in self._scene.actors if actor.kind == kind for run in actor.ready]
        if kind == "driver":  # two on one checkpoint are left to one another
            able = [(actor, run) for actor, run in able if len(actor.runs) == 1]
        return self._chance.choice(able) if able else (self._scene.actors[0], None)

    def _freeze(
        self,
        actor: Actor,
        run: Run | None,
        kind: str,
        pids: list[int],
        condition: Callable[[], bool] | None = None,
    ) -> str:
        seconds = RIVAL_S if condition else self._chance.uniform(*FREEZE_S)
        if not send(pids, signal.SIGSTOP):
            return ""
        actor.tally.freezes[kind] += 1
        if run is not None:
            run.frozen = True
        self._frozen.append((actor, run, Frozen(kind, pids, time.monotonic() + seconds, condition)))
        return f"{kind} of {actor.name}" + ("" if condition else f" for {seconds:.1f} s")

    def _thaw(self, entry: tuple[Actor, Run | None, Frozen]) -> None:
        _, run, frozen = entry
        self._frozen.remove(entry)
        frozen.thaw()
        if run is not None:
            run.frozen = False
