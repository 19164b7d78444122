"""Blocking calls of one client, made by one thread in the order in which the event loop asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from spark_eos.errors import IllegalStateError

T = TypeVar("T")


class Calls:
    """A thread, and a queue of calls for it. For one event loop.

    A task that is cancelled while its call waits takes the call back: nothing happens. If the call is being made, it is
    made whole, and ``undo`` is called before any other call: each waits until the one before it has ended, which is
    when its task has got the result.
    """

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, name)
        self._newest: asyncio.Future[None] | None = None
        """Done with the end of the newest call."""
        self._begun: set[asyncio.Future[Any]] = set()
        """The event loop itself would not keep them."""
        self._has_ended = False

    def begin(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Make the call after those before it; the future may be awaited, or not."""
        before, mine = self._turn()
        begun = asyncio.ensure_future(self._made(before, call, None))
        self._begun.add(begun)
        begun.add_done_callback(self._begun.discard)
        begun.add_done_callback(lambda _: _pass_on(before, mine))  # Also if it was cancelled before it ran.
        return begun

    async def make(self, call: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
        """Make the call, and wait for it. ``undo`` gets the result if the task was cancelled meanwhile."""
        before, mine = self._turn()
        try:
            return await self._made(before, call, undo)
        finally:
            _pass_on(before, mine)

    async def end(self, call: Callable[[], object]) -> None:
        """Make this call, and no more. It is made also if the task is cancelled while it waits."""
        before, mine = self._turn()
        try:
            if before is not None:
                await asyncio.shield(before)
        finally:
            closing = self.last(call)
            _pass_on(before, mine)
        await asyncio.shield(closing)

    def last(self, call: Callable[[], object]) -> asyncio.Future[object]:
        """Make this call at once, after the one that is being made, and no more."""
        closing = asyncio.wrap_future(self._pool.submit(call))
        closing.add_done_callback(_looked_at)
        self._has_ended = True
        self._pool.shutdown(wait=False)
        return closing

    def _turn(self) -> tuple[asyncio.Future[None] | None, asyncio.Future[None]]:
        """The end of the call before this one, and that of this one."""
        before, mine = self._newest, asyncio.get_running_loop().create_future()
        self._newest = mine
        return before, mine

    async def _made(
        self, before: asyncio.Future[None] | None, call: Callable[[], T], undo: Callable[[T], object] | None
    ) -> T:
        if before is not None:
            await asyncio.shield(before)
        if self._has_ended:
            raise IllegalStateError("the client was stopped while the call waited")
        made: Future[T] = self._pool.submit(call)
        waiting = asyncio.wrap_future(made)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            if not made.cancel() and undo is not None and not self._has_ended:
                self._pool.submit(lambda: undo(made.result()))  # Of one that fails there is nothing to undo.
            waiting.add_done_callback(_looked_at)
            raise


def _pass_on(before: asyncio.Future[None] | None, mine: asyncio.Future[None]) -> None:
    """This call has ended. If it was taken back, those before it may not have."""
    if before is None or before.done():
        mine.set_result(None)
    else:
        before.add_done_callback(lambda _: mine.set_result(None))


def _looked_at(waiting: asyncio.Future[T]) -> None:
    if not waiting.cancelled():
        waiting.exception()
