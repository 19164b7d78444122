"""Blocking calls of one client, made by one thread in the order in which the event loop asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from spark_eos.errors import IllegalStateError

T = TypeVar("T")


class Calls:
    """A thread, and a queue of calls for it. For one event loop.

    A task that is cancelled while its call waits takes the call back: nothing happens. If the call is being made, it is
    made whole, and ``undo`` is called before any other task's call: that waits until this task has got the result.
    """

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, name)
        self._turn = asyncio.Lock()
        self._has_ended = False

    def begin(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Make the call after those before it; the future may be awaited, or not."""
        return asyncio.wrap_future(self._pool.submit(call))

    async def make(self, call: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
        """Make the call, and wait for it. ``undo`` gets the result if the task was cancelled meanwhile."""
        async with self._turn:
            if self._has_ended:
                raise IllegalStateError("the client was stopped while the call waited")
            made: Future[T] = self._pool.submit(call)
            waiting = asyncio.wrap_future(made)
            try:
                return await asyncio.shield(waiting)
            except asyncio.CancelledError:
                if not made.cancel() and undo is not None and not self._has_ended:
                    self._pool.submit(_undone, made, undo)
                waiting.add_done_callback(_looked_at)
                raise

    async def end(self, call: Callable[[], object]) -> None:
        """Make this call, and no more. It is made also if the task is cancelled while it waits."""
        try:
            await self._turn.acquire()
        except asyncio.CancelledError:
            self.last(call)
            raise
        try:
            await asyncio.shield(self.last(call))
        finally:
            self._turn.release()

    def last(self, call: Callable[[], object]) -> asyncio.Future[object]:
        """Make this call after those before it, and no more."""
        closing = self.begin(call)
        closing.add_done_callback(_looked_at)
        self._has_ended = True
        self._pool.shutdown(wait=False)
        return closing


def _undone(made: Future[T], undo: Callable[[T], object]) -> None:
    if made.exception() is None:
        undo(made.result())


def _looked_at(waiting: asyncio.Future[T]) -> None:
    if not waiting.cancelled():
        waiting.exception()
