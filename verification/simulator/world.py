"""Processes that share a store, in a world that one seed decides: who runs next, what fails, what time it is.

A process is real code in a greenlet. It gives way at every call of the store and at every sleep; nothing else
takes time. So one seed gives one run, to the byte. Discrete events: the world's time jumps to whatever comes
next, and requests take random times, which makes every interleaving possible.
"""

from __future__ import annotations

import heapq
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import greenlet

__all__ = ["FaultProfile", "Killed", "Process", "World"]


_YEAR_MS = 31_536_000_000
_LAGGING = 0.75
"""In this share of the worlds processes may lag."""

JUMPS_MS = (-86_400_000, -5000, 5000, 3_600_000, 73 * _YEAR_MS, -20 * _YEAR_MS)
"""How far wall clocks jump: by a little, and by years."""


class Killed(BaseException):
    """The process is dead: raised in it wherever it stands, and by whatever it still tries to do."""


@dataclass(frozen=True)
class FaultProfile:
    """How often things go wrong, as probabilities for each call of the store.

    ``lost`` the request never arrives, ``reply_lost`` it is done and the reply is lost, ``delayed`` it is done after
    all deadlines, ``doubled`` it is done twice, ``busy`` a burst of refusals begins. ``conflict``: an object
    store says of a create that the name is taken, and nothing is done. ``kill`` and ``freeze`` strike the process
    that calls, ``jump`` its wall clock.
    """

    lost: float = 0.0
    reply_lost: float = 0.0
    delayed: float = 0.0
    doubled: float = 0.0
    busy: float = 0.0
    conflict: float = 0.0
    kill: float = 0.0
    freeze: float = 0.0
    jump: float = 0.0

    @staticmethod
    def of(chance: random.Random) -> FaultProfile:
        """Some runs are calm, some have one kind of trouble, some have all of it."""
        names = [field.name for field in fields(FaultProfile)]
        kind = chance.random()
        if kind < 0.1:
            return FaultProfile()
        if kind < 0.4:
            name = chance.choice(names)
            # Who is killed at every fifth call comes to nothing.
            rates = [0.005, 0.01, 0.03] if name == "kill" else [0.01, 0.05, 0.2]
            return FaultProfile(**{name: chance.choice(rates)})
        heavy = chance.choice([0.002, 0.01, 0.03])
        return FaultProfile(**{name: heavy * chance.random() * 2 for name in names})


class World:
    """Runs processes until all have ended or ``operations`` calls of the store were made."""

    def __init__(self, seed: int, fault_profile: FaultProfile | None = None) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.fault_profile = FaultProfile.of(self.random) if fault_profile is None else fault_profile
        self.now = 0.0
        self.operations = 0
        self.faults: dict[str, int] = {}
        self.trace: list[str] = []
        self.processes: list[Process] = []
        self.reports_outcomes = random.Random(f"outcomes {seed}").random() < _LAGGING
        """Whether processes may lag."""
        self.calm = False
        """No more faults: what is left runs to its end."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._hub = greenlet.getcurrent()
        self._thread = threading.get_ident()

    def at(self, delay: float, event: Callable[[], None]) -> None:
        """Do something later, for instance what a slow request asked for."""
        self._count += 1
        heapq.heappush(self._events, (self.now + delay, self._count, event))

    def start(self, name: str, body: Callable[[Process], None], delay: float = 0.0) -> Process:
        """A new process; it begins after ``delay`` seconds."""
        process = Process(self, name, body)
        self.processes.append(process)
        self.at(delay, process.resume)
        return process

    def run(self, seconds: float) -> bool:
        """Let time pass until ``seconds`` later, or nothing is left to happen; whether something is."""
        end = self.now + seconds
        self._hub = greenlet.getcurrent()
        while self._events and self._events[0][0] <= end:
            self.now, _, event = heapq.heappop(self._events)
            event()
        if self._events:
            self.now = max(self.now, end)
        return bool(self._events)

    def current(self) -> Process:
        """The process that is running."""
        # Compared before getcurrent is called: that registers a thread with greenlet. When such a thread has ended,
        # greenlet cleans up after it in the main thread, inside of any function call.
        assert threading.get_ident() == self._thread, (
            f"thread {threading.current_thread().name} touches the simulated world: only processes may"
        )
        running = greenlet.getcurrent()
        assert isinstance(running, _Greenlet), "only processes may touch the simulated world"
        return running.process

    def failures(self, *expected: type[BaseException]) -> list[str]:
        """The processes that ended with an error, but for those ``expected``."""
        return [
            f"{process.name} failed: {process.error!r}"
            for process in self.processes
            if process.error is not None and not isinstance(process.error, expected)
        ]

    def strikes(self, fault: str) -> bool:
        """Whether this kind of trouble happens now."""
        probability: float = getattr(self.fault_profile, fault)
        if self.calm or not probability or self.random.random() >= probability:
            return False
        self.faults[fault] = self.faults.get(fault, 0) + 1
        return True

    def note(self, text: str) -> None:
        """A line of the story, with time and process."""
        running = greenlet.getcurrent()
        who = running.process.name if isinstance(running, _Greenlet) else "world"
        self.trace.append(f"{self.now:12.3f} {who:14} {text}")


class _Greenlet(greenlet.greenlet):
    process: Process


class Process:
    """One simulated process: its code, its clocks, and whether it is alive."""

    def __init__(self, world: World, name: str, body: Callable[[Process], None]) -> None:
        self.world = world
        self.name = name
        self.dead = False
        self.ended = False
        self.error: BaseException | None = None
        self.wall_skew_ms = 0
        self.on_end: Callable[[], None] = lambda: None
        self.query: Any = None
        """The run of a Spark query that goes on in it, if it is a driver."""
        self._body = body
        self._greenlet = _Greenlet(self._run)
        self._greenlet.process = self

    def resume(self) -> None:
        """Run on until it waits. Called by the world alone."""
        if not self.ended:
            self._greenlet.switch()

    def wait(self, seconds: float) -> None:
        """Give way for so long. Raises `Killed` if the process died meanwhile."""
        if self.dead:
            raise Killed
        self.world.at(seconds, self.resume)
        self.rest()

    def rest(self) -> None:
        """Give way until an event resumes it. Raises `Killed` if the process died meanwhile."""
        self.world._hub.switch()  # noqa: SLF001
        if self.dead:
            raise Killed

    def breathe(self) -> None:
        """A moment at which it may be killed, frozen, or find its clock changed."""
        world = self.world
        if self.dead:
            raise Killed
        if world.strikes("kill"):
            self.kill()
            raise Killed
        if world.strikes("freeze"):
            seconds = world.random.choice([2.0, 30.0, 400.0, 7200.0])
            world.note(f"frozen for {seconds:.0f} s")
            self.wait(seconds)
        if world.strikes("jump"):
            self.wall_skew_ms += world.random.choice(JUMPS_MS)
            world.note(f"wall clock off by {self.wall_skew_ms} ms")
        self.wait(world.random.expovariate(200))

    def kill(self) -> None:
        """It does nothing any more: whatever it still tries raises `Killed`."""
        if not self.ended and not self.dead:
            self.dead = True
            self.world.note(f"{self.name} KILLED")

    def _run(self) -> None:
        try:
            self._body(self)
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001  (the world reports it)
            self.error = error
            self.world.note(f"FAILED {error!r}")
        finally:
            self.ended = True
        self.on_end()
        # Back to the hub for good: never to the greenlet that happened to start this one.
        self._greenlet.parent = self.world._hub  # noqa: SLF001
