"""The network between the machines of a simulated world: it loses messages, is cut for a while, and leaders lie."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from spark_eos.extensions.machines.channel import MachinesChannel
from spark_eos.extensions.machines.hint import Hint, StoredHints
from spark_eos.extensions.machines.mailbox import Mailbox
from spark_eos.extensions.machines.message import Answer, Peer
from spark_eos.extensions.machines.objects import RequestObjects
from spark_eos.storage import Store
from spark_eos.storage.group_channel import GroupChannel
from verification.inline_executor import InlineExecutor
from verification.simulator.world import Process, World

__all__ = ["LIES", "Network", "SimulatedHost"]

LIES = ("in", "out", "leads", "idle")
"""``in``: an entry is there that is not. ``out``: no entry is there. ``leads``: it leads, and takes nothing along, but
names entries. ``idle``: it leads no more."""

_SHARE = 0.4
"""Of all worlds, so many have machines."""

_TRIP_S = 0.001
_HEARD_S = 0.05


@dataclass(eq=False)
class SimulatedHost:
    """What listens in a process that leads. ``lie`` is what it answers wrongly, or nothing."""

    hint: Hint
    mailbox: Mailbox
    process: Process
    machine: int
    lie: str = ""
    is_open: bool = True

    def close(self) -> None:
        self.is_open = False
        self.mailbox.resign()

    def abandon(self) -> None:
        self.is_open = False

    def answers(self, known: int) -> Answer:
        """The answer to a process that knows entry ``known``."""
        true = self.mailbox.answer()
        if self.lie == "in":
            return Answer(known + 1, leads=True)
        if self.lie == "out":
            return Answer(-1, leads=True)
        if self.lie == "idle":
            return Answer(true.newest, leads=False)
        return Answer(true.newest, leads=True) if self.lie == "leads" else true


class Network:
    """The network of all machines. Every few seconds it is drawn again which of them can reach each other."""

    def __init__(self, world: World, chance: random.Random, *, liars: float, cuts: float) -> None:
        self._world = world
        self._chance = chance
        self._liars = liars
        self._cuts = cuts
        self._machines = chance.choice([2, 3, 8])
        self._hosts: dict[int, SimulatedHost] = {}
        self._members = 0

    @staticmethod
    def of(world: World) -> Network | None:
        """Some worlds have machines, some of these have liars, or a network that is cut, now and then or always."""
        chance = random.Random(f"machines {world.seed}")
        if chance.random() >= _SHARE:
            return None
        return Network(
            world, chance, liars=chance.choice([0, 0, 0.5]), cuts=chance.choice([0, 0, 0.2, 0.5, 1])
        )

    def machine_of(self, process: Process) -> int:
        """On which machine a process runs."""
        return random.Random(f"{self._world.seed} {process.name}").randrange(self._machines)

    def channel(
        self,
        store: Store,
        local: GroupChannel,
        machine: int,
        served: Callable[[SimulatedHost], None] = lambda _: None,
        pool: Executor | None = None,
    ) -> GroupChannel:
        """For the process that is running, which is on ``machine``; ``served`` is called for each message."""
        world, process = self._world, self._world.current()
        member = self._new_member()
        aside = (pool or InlineExecutor()).submit

        def listen() -> SimulatedHost:
            lies = not world.calm and self._chance.random() < self._liars
            host = SimulatedHost(
                Hint(f"{len(self._hosts) + 1}", port=len(self._hosts) + 1),
                Mailbox(lambda: world.now),
                process,
                machine,
                self._chance.choice(LIES) if lies else "",
            )
            self._hosts[host.hint.port] = host
            world.note(f"leads all machines {host.lie}")
            return host

        def new_member() -> str:
            world.note("hands over by objects")
            return self._new_member()

        def call(hint: Hint) -> Peer | None:
            return _Peer(self, self._hosts[hint.port], member, machine, served)

        return MachinesChannel(
            local,
            StoredHints(store),
            listen,
            call,
            lambda: world.now,
            world.random.random,
            aside,
            RequestObjects(store, lambda: world.now, aside, new_member),
        )

    def _new_member(self) -> str:
        self._members += 1
        return f"{self._members:032x}"

    def delivers(self, one: int, other: int) -> bool:
        """Whether a message gets from one machine to another now."""
        world = self._world
        if world.calm:
            return True
        cut = random.Random(f"{world.seed} {sorted((one, other))} {world.now // 5}").random() < self._cuts
        return not (cut and one != other) and not world.strikes("lost")


class _Peer:
    def __init__(
        self,
        network: Network,
        host: SimulatedHost,
        member: str,
        machine: int,
        served: Callable[[SimulatedHost], None],
    ) -> None:
        self._network = network
        self._host = host
        self._member = member
        self._machine = machine
        self._served = served

    def exchange(self, bundle: bytes, known: int) -> Answer | None:
        world = self._network._world  # noqa: SLF001  (its own module)
        process, host = world.current(), self._host
        process.wait(_TRIP_S)
        if not self._is_there() or not self._network.delivers(self._machine, host.machine):
            process.wait(1.0 if host.is_open else 0.0)  # Nothing listens there any more, or nothing answers.
            return None
        self._served(host)
        host.mailbox.put(self._member, bundle)
        world.note("handed over to another machine")
        end = world.now + _HEARD_S
        while (answer := host.answers(known)).newest <= known and answer.leads and world.now < end:
            process.wait(_HEARD_S / 10)
        process.wait(_TRIP_S)
        if not self._is_there() or not self._network.delivers(self._machine, host.machine):
            process.wait(1.0)
            return None
        return host.answers(known)

    def _is_there(self) -> bool:
        return self._host.is_open and not self._host.process.dead and not self._host.process.ended

    def close(self) -> None:
        pass
