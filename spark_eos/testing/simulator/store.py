"""The store of a simulated world: objects in memory, requests that take time, get lost, or come twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

from spark_eos.errors import EosLogError, OutcomeUnknownError, StoreUnavailableError
from spark_eos.log import names
from spark_eos.storage.meeting import Meeting
from spark_eos.storage.memory import MemoryStore
from spark_eos.storage.store import Data, ObjectInfo
from spark_eos.testing.simulator.meeting import Place, SimulatedMeeting
from spark_eos.testing.simulator.world import Killed, World
from spark_eos.testing.wrapped_store import WrappedStore

__all__ = ["SimulatedStore"]

T = TypeVar("T")


class SimulatedStore(WrappedStore):
    """What processes of one world share. Every call is two waits: the request travels, and the reply."""

    def __init__(self, world: World) -> None:
        super().__init__(MemoryStore())
        self.url = self.inner.url = "sim://world"
        self.is_local = False
        self._world = world
        self._busy_until = -1.0
        self._places: dict[str, Place] = {}
        self.landed: dict[str, float] = {}
        """When each entry came to be, in the world's time (s)."""
        self.written: dict[str, Data] = {}
        """The bytes of each entry, also of those that were retired."""
        self.archive = MemoryStore()
        """The files that were deleted: to read what the log once referred to."""

    def create(self, name: str, data: Data) -> None:
        def effect() -> None:
            self.inner.create(name, data)
            # Who slept may fill a slot again whose name was deleted; that is no entry.
            if name.startswith(names.LOG) and name not in self.written:
                self.landed[name], self.written[name] = self._world.now, data

        self._call("create", name, effect)

    def delete(self, name: str) -> None:
        def effect() -> None:
            if name.startswith(names.DATA):
                with suppress(EosLogError):
                    self.archive.create(name, self.inner.read(name))
            self.inner.delete(name)

        self._call("delete", name, effect)

    def meeting(self, name: str) -> Meeting:
        return SimulatedMeeting(self._world, self._places.setdefault(name, Place()))

    def settle(self, name: str) -> None:
        """Nothing: what is in memory is as durable as it gets."""

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        found = [*super().list(prefix)]
        self._world.random.shuffle(found)
        return iter(found)

    def _call(self, operation: str, name: str, effect: Callable[[], T]) -> T:
        reading = operation in {"read", "size", "list", "settle"}
        return (self._read if reading else self._change)(operation, name, effect)

    # -- Trouble ----------------------------------------------------------------------------------------

    def _travel(self, operation: str, name: str) -> None:
        world = self._world
        process = world.current()
        world.operations += 1
        process.breathe()
        if world.strikes("busy"):
            self._busy_until = world.now + world.random.choice([0.05, 0.5, 20.0])
        if world.now < self._busy_until and not world.calm:
            process.wait(0.001)
            raise StoreUnavailableError(f"{operation} {name}: busy (503)")

    def _reply(self) -> None:
        self._world.current().wait(self._world.random.expovariate(400))

    def _read(self, operation: str, name: str, effect: Callable[[], T]) -> T:
        self._travel(operation, name)
        if self._world.strikes("lost"):
            self._world.current().wait(1.0)
            raise StoreUnavailableError(f"{operation} {name}: no answer")
        try:
            return effect()
        finally:
            self._reply()

    def _change(self, operation: str, name: str, effect: Callable[[], T]) -> T:
        world, process = self._world, self._world.current()
        self._travel(operation, name)

        def late() -> None:
            with suppress(EosLogError):
                effect()
                world.note(f"{operation} {name}: done late")

        if world.strikes("lost"):
            world.note(f"{operation} {name}: request lost")
            process.wait(1.0)
            raise OutcomeUnknownError(f"{operation} {name}: no answer")
        if world.strikes("delayed"):
            world.note(f"{operation} {name}: request delayed")
            world.at(world.random.choice([0.5, 3.0, 100.0]), late)
            process.wait(1.0)
            raise OutcomeUnknownError(f"{operation} {name}: no answer")
        if world.strikes("doubled"):
            if world.random.random() < 0.5:
                with suppress(EosLogError):
                    effect()  # The library below retried by itself: it meets its own object.
            else:
                world.at(world.random.choice([0.01, 1.0, 50.0]), late)
        try:
            done = effect()
        except EosLogError as error:
            world.note(f"{operation} {name}: {type(error).__name__}")
            self._reply()
            raise
        world.note(f"{operation} {name}")
        if world.strikes("kill"):
            world.note("killed after")
            process.kill()
            raise Killed
        self._reply()
        if world.strikes("reply_lost"):
            world.note(f"{operation} {name}: reply lost")
            raise OutcomeUnknownError(f"{operation} {name}: the reply was lost")
        return done
