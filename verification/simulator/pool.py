"""In place of a pool of threads in a simulated world: what is submitted is done by a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

from verification.simulator.world import Process, World

__all__ = ["SimulatedPool"]

P = ParamSpec("P")
T = TypeVar("T")


class SimulatedPool(Executor):
    """As `concurrent.futures.ThreadPoolExecutor`, with as many threads as are needed."""

    def __init__(self, world: World) -> None:
        self._world = world

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """It begins now; to ask for its result waits until it is done."""
        future: Future[T] = _Future(self._world)

        def body(_: Process) -> None:
            try:
                future.set_result(work(*args, **kwargs))
            except Exception as error:  # noqa: BLE001  (raised again where the result is asked for)
                future.set_exception(error)

        process = Process(self._world, self._world.current().name, body)
        self._world.at(0.0, process.resume)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """What was submitted is done all the same."""


class _Future(Future[T]):
    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def result(self, timeout: float | None = None) -> T:
        if not self.done():
            process = self._world.current()
            self.add_done_callback(lambda _: self._world.at(0.0, process.resume))
            process.rest()
        return super().result(timeout)
