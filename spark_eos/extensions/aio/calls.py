"""Blocking calls of one client, made by one thread in the order in which the event loop asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Calls:
    """A thread, and a queue of calls for it. For one event loop.

    A task that is cancelled while its call waits takes the call back: nothing happens. If the call is being made, it is
    made whole, and ``undo`` is called before any other call.
    """

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, name)

    def begin(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Make the call after those before it; the future may be awaited, or not."""
        return asyncio.wrap_future(self._pool.submit(call))

    async def make(self, call: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
        """Make the call, and wait for it. ``undo`` gets the result if the task was cancelled meanwhile."""
        made: Future[T] = self._pool.submit(call)
        waiting = asyncio.wrap_future(made)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            if not made.cancel() and undo is not None:
                self._pool.submit(_undone, made, undo)
            waiting.add_done_callback(_looked_at)
            raise

    def end(self) -> None:
        """Make what waits, and no more."""
        self._pool.shutdown(wait=False)


def _undone(made: Future[T], undo: Callable[[T], object]) -> None:
    if made.exception() is None:
        undo(made.result())


def _looked_at(waiting: asyncio.Future[T]) -> None:
    if not waiting.cancelled():
        waiting.exception()
