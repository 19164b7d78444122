"""Many machines on one log, simulated: real commit loops, S3's delays, and a network, in time that jumps.

Each writer is a process of its own, ten on each machine. Decoding and applying an entry is done once for all of them,
and takes no time: what is measured is how requests are arranged. The leader of all machines takes `_HAND_OVER_S` for
each request that reaches it, one after the other.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from spark_eos.log.clock import Retry
from spark_eos.log.environment import Environment
from spark_eos.log.log import Log
from spark_eos.log.paths import LOG
from spark_eos.protocol.actions import Action, Entry, SetAppVersion
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.rules.apply import Outcome, apply_entry
from spark_eos.protocol.state import State
from spark_eos.storage import Data
from spark_eos.storage.group_channel import GroupChannel
from spark_eos.storage.memory import MemoryStore
from spark_eos.testing.wrapped_store import WrappedStore
from verification.latency import Latency
from verification.no_threads import StillThread
from verification.simulator.clock import SimulatedClock
from verification.simulator.group_channel import Place, SimulatedGroupChannel
from verification.simulator.machines import Network, SimulatedHost
from verification.simulator.pool import SimulatedPool
from verification.simulator.world import FaultProfile, Process, World

__all__ = ["Found", "run"]

T = TypeVar("T")

PER_MACHINE = 10
_HAND_OVER_S = 0.001
"""Of the leader's time for one exchange: measured over loopback it is less than that (`tests/storage`)."""
_WARM_UP_S = 20.0
_VERBS = {
    "create": "PUT",
    "overwrite": "PUT",
    "read": "GET",
    "size": "HEAD",
    "list": "LIST",
    "delete": "DELETE",
}


class Found(NamedTuple):
    """What was measured after the warm-up."""

    commits_s: float
    puts_per_slot: float
    puts_per_commit: float
    gets_per_commit: float
    p50_ms: float
    p99_ms: float
    gap_s: float
    """The longest time without a new entry: with a failure, how long it takes until writers go on."""
    busiest_ms: float
    """Of the processor, real milliseconds for each commit of all, in the process that took most: the leader."""


def run(
    machines: int,
    *,
    shared: bool,
    seconds: float = 20.0,
    kill: bool = False,
    cut: bool = False,
    seed: int = 1,
) -> Found:
    """So many machines write for so long; ``shared``: with group commit across them.

    ``kill``: the leader's process dies half-way. ``cut``: no machine can reach another one.
    """
    world = World(seed, FaultProfile())
    network = Network(world, world.random, liars=0, cuts=float(cut)) if shared else None
    store = _Store(world, network)
    log = Log.create(store.inner)
    environment = _environment(world)
    took: list[tuple[float, float]] = []

    def write(process: Process) -> None:
        clock = SimulatedClock(process)
        own = Log.open(store, clock, Retry(), environment=environment).without_maintenance()
        version = 0
        while True:
            began, version = world.now, version + 1
            own.commit(_proposal(process.name, version))
            took.append((began, world.now))

    busy: Counter[str] = Counter()
    for number in range(machines * PER_MACHINE):
        process = world.start(f"{number // PER_MACHINE}/{number}", write, delay=world.random.random())
        process.resume = _timed(process, busy)  # type: ignore[method-assign]
    world.run(_WARM_UP_S)
    begin, before = world.now, log.follow().seq
    store.counts.clear()
    busy.clear()
    if kill:
        world.run(seconds / 2)
        store.kill_leader()
        world.run(seconds / 2)
    else:
        world.run(seconds)
    slots = log.follow().seq - before
    for process in world.processes:
        if process.error is not None:
            raise process.error
    durations = [(end - began) * 1000 for began, end in took if end > begin]
    landed = [begin, *(at for at in store.landed if at > begin), world.now]
    quantiles = statistics.quantiles(durations, n=100, method="inclusive")
    return Found(
        len(durations) / seconds,
        store.counts["PUT"] / slots,
        store.counts["PUT"] / len(durations),
        store.counts["GET"] / len(durations),
        quantiles[49],
        quantiles[98],
        max(later - earlier for earlier, later in itertools.pairwise(landed)),
        max(busy.values()) / 1e6 / len(durations),
    )


def _timed(process: Process, busy: Counter[str]) -> Callable[[], None]:
    """Let the process run on, and count the nanoseconds of the processor."""
    resume = process.resume

    def timed() -> None:
        began = time.thread_time_ns()
        resume()
        busy[process.name] += time.thread_time_ns() - began

    return timed


def _proposal(name: str, version: int) -> Callable[[State], tuple[Action, ...]]:
    return lambda _: (SetAppVersion(name, version),)


class _Store(WrappedStore):
    """One bucket: each call takes as long as S3's."""

    def __init__(self, world: World, network: Network | None) -> None:
        super().__init__(MemoryStore())
        self.requests_are_free = False
        self.counts: Counter[str] = Counter()
        self.landed: list[float] = []
        self._world = world
        self._latency = Latency(seed=world.seed)
        self._network = network
        self._places: dict[str, Place] = {}
        self._hosts: list[SimulatedHost] = []

    def create(self, name: str, data: Data) -> None:
        super().create(name, data)
        if name.startswith(LOG):
            self.landed.append(self._world.now)

    def ensure_durable(self, name: str) -> None:
        """Nothing: an object store shows only what is durable."""

    def group_channel(self, name: str) -> GroupChannel:
        machine = int(self._world.current().name.partition("/")[0])
        local = SimulatedGroupChannel(self._world, self._places.setdefault(f"{name} {machine}", Place()))
        if self._network is None:
            return local
        served = _Served(self._world, self._hosts)
        return self._network.channel(self, local, machine, served, SimulatedPool(self._world))

    def kill_leader(self) -> None:
        """The process that leads all machines ends."""
        for host in self._hosts:
            if host.is_open:
                host.process.kill()

    def _call(self, operation: str, name: str, effect: Callable[[], T]) -> T:
        verb = _VERBS.get(operation, "HEAD")
        self.counts[verb] += 1
        wait = self._latency.draw(verb)
        process = self._world.current()
        process.wait(wait / 2)
        try:
            return effect()
        finally:
            process.wait(wait / 2)


class _Served:
    """The leader's time: requests that reach it wait for each other."""

    def __init__(self, world: World, hosts: list[SimulatedHost]) -> None:
        self._world = world
        self._hosts = hosts
        self._free: dict[int, float] = {}

    def __call__(self, host: SimulatedHost) -> None:
        if host not in self._hosts:
            self._hosts.append(host)
        begin = max(self._free.get(host.hint.port, 0.0), self._world.now)
        self._free[host.hint.port] = begin + _HAND_OVER_S
        self._world.current().wait(begin + _HAND_OVER_S - self._world.now)


def _environment(world: World) -> Environment:
    decoded: dict[int, tuple[Data, Entry]] = {}
    applied: dict[tuple[int, int], tuple[State, Entry, tuple[State, tuple[Outcome, ...]]]] = {}

    def decode(data: Data, seq: int, what: str) -> Entry:
        if seq not in decoded:
            decoded[seq] = data, decode_entry(data, seq, what)
        return decoded[seq][1]

    def apply(state: State, entry: Entry) -> tuple[State, tuple[Outcome, ...]]:
        key = id(state), id(entry)
        if key not in applied:
            applied[key] = state, entry, apply_entry(state, entry)
        return applied[key][2]

    return Environment(thread=StillThread, pool=lambda *_: SimulatedPool(world), decode=decode, apply=apply)
