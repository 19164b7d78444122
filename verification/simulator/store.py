"""The stores of simulated worlds: objects in memory, requests that take time, get lost, or come twice."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

from spark_eos.errors import (
    EosLogError,
    ObjectExistsError,
    OutcomeUnknownError,
    RetriableError,
    StoreUnavailableError,
)
from spark_eos.log import paths
from spark_eos.storage.group_channel import GroupChannel
from spark_eos.storage.memory import MemoryStore
from spark_eos.storage.store import ROUNDED_S, Data, ObjectInfo
from spark_eos.testing.wrapped_store import WrappedStore
from verification.simulator.clock import EPOCH_MS
from verification.simulator.group_channel import Place, SimulatedGroupChannel
from verification.simulator.machines import Network
from verification.simulator.world import Killed, World

__all__ = ["SimulatedObjectStore", "SimulatedStore"]

T = TypeVar("T")


class SimulatedStore(WrappedStore):
    """What processes of one world share. Every call is two waits: the request travels, and the reply."""

    def __init__(self, world: World) -> None:
        super().__init__(MemoryStore())
        self.url = self.inner.url = "sim://world"
        self.requests_are_free = False
        self._world = world
        self._busy_until = -1.0
        self._phase_s = random.Random(world.seed).random()
        self._places: dict[str, Place] = {}
        self._network = Network.of(world)
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
            if (
                paths.LOG in name and name not in self.written
            ):  # Of a second log, too (`verification.part_store`).
                self.landed[name], self.written[name] = self._world.now, data

        self._call("create", name, effect)

    def delete(self, name: str) -> None:
        def effect() -> None:
            if name.startswith((paths.DATA, paths.TABLES)):
                with suppress(EosLogError):
                    self.archive.create(name, self.inner.read(name))
            self.inner.delete(name)

        self._call("delete", name, effect)

    def group_channel(self, name: str) -> GroupChannel:
        if self._network is not None:
            machine = self._network.machine_of(self._world.current())
            place = self._places.setdefault(f"{name} {machine}", Place())
            return self._network.channel(self, SimulatedGroupChannel(self._world, place), machine)
        return SimulatedGroupChannel(self._world, self._places.setdefault(name, Place()))

    def age_s(self, name: str) -> float | None:
        """By the store's own clock, which says whole seconds. Only of entries."""

        def effect() -> float | None:
            if not self.inner.size(name):
                return None
            now, made = (math.floor(at + self._phase_s) for at in (self._world.now, self.landed[name]))
            return max(now - made - ROUNDED_S, 0.0)

        return self._call("age_s", name, effect)

    def now_ms(self) -> int | None:
        """The world's time, in whole seconds."""
        return self._call("now_ms", "", lambda: EPOCH_MS + math.floor(self._world.now + self._phase_s) * 1000)

    def ensure_durable(self, name: str) -> None:
        """Nothing: what is in memory is as durable as it gets."""

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        found = [*super().list(prefix)]
        self._world.random.shuffle(found)
        return iter(found)

    def _call(self, operation: str, name: str, effect: Callable[[], T]) -> T:
        reading = operation in {"read", "size", "age_s", "now_ms", "list", "ensure_durable"}
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


class SimulatedObjectStore(SimulatedStore):
    """An object store behind a client library that tries again by itself, for longer than some processes live.

    So a create whose reply was lost is told that the name is taken: by itself. It can be told so of a free name,
    too, as S3 answers 409 to a create that ran into another request: then nothing was done. What nobody heard of may
    be done by an earlier try, at any time. A listing comes page by page: what is there all the time is in it, what
    comes or goes meanwhile may be.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._tries = world.random.choice([1, 2, 3, 5])
        self._page = world.random.choice([2, 5, 1000])

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        found: list[ObjectInfo] = []
        after, more = "", True
        while more:

            def page(after: str = after) -> list[ObjectInfo]:
                rest = (info for info in self.inner.list(prefix) if info.name > after)
                return sorted(rest, key=lambda info: info.name)[: self._page]

            names = self._call("list", prefix, page)
            found += names
            after, more = names[-1].name if names else "", len(names) == self._page
        self._world.random.shuffle(found)
        return iter(found)

    def _read(self, operation: str, name: str, effect: Callable[[], T]) -> T:
        return self._again(lambda: super(SimulatedObjectStore, self)._read(operation, name, effect))

    def _change(self, operation: str, name: str, effect: Callable[[], T]) -> T:
        def request() -> T:
            if operation in {"create", "upload"} and self._world.strikes("conflict"):
                self._travel(operation, name)
                self._world.note(f"{operation} {name}: conflict")
                self._reply()
                raise ObjectExistsError(f"{operation} {name}: conflict (409)")
            return super(SimulatedObjectStore, self)._change(operation, name, effect)

        return self._again(request)

    def _again(self, request: Callable[[], T]) -> T:
        """The library below: other answers than trouble go to the caller, whichever try they are for."""
        trouble: RetriableError | None = None
        for attempt in range(self._tries):
            if attempt:
                self._world.current().wait(self._world.random.choice([0.1, 1.0, 30.0]))
            try:
                return request()
            except OutcomeUnknownError as error:
                trouble = error
            except StoreUnavailableError as error:
                trouble = trouble or error  # What an earlier try left in doubt stays so.
        assert trouble is not None
        raise trouble
