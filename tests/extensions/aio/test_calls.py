"""The calls of clients for asyncio: one after the other, and what is undone is undone before the next one."""

from __future__ import annotations

import asyncio
import threading

import pytest

from spark_eos.extensions.aio.calls import Calls


class Made:
    """What was called, in order; the first call waits."""

    def __init__(self):
        self.calls = Calls("test")
        self.order = []
        self.begun, self.gate = threading.Event(), threading.Event()

    def first(self):
        self.begun.set()
        assert self.gate.wait(30)
        self.order.append("first")

    def task(self, name):
        call = self.first if name == "first" else lambda: self.order.append(name)
        return asyncio.create_task(self.calls.make(call, lambda _: self.order.append(f"not {name}")))


def test_behind_a_call_that_was_taken_back_the_one_before_it_is_waited_for():
    async def main():
        made = Made()
        first, taken_back, last = (made.task(name) for name in ("first", "taken back", "last"))
        assert await asyncio.to_thread(made.begun.wait, 30)
        taken_back.cancel()
        await asyncio.wait([taken_back])
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        made.gate.set()
        await last
        return made.order

    assert asyncio.run(main()) == ["first", "not first", "last"]


def test_a_call_that_is_cancelled_behind_the_end_is_cancelled():
    async def main():
        made = Made()
        first = made.task("first")
        assert await asyncio.to_thread(made.begun.wait, 30)
        closing = made.calls.last(lambda: made.order.append("closed"))
        first.cancel()
        await asyncio.wait([first])
        with pytest.raises(asyncio.CancelledError):
            first.result()
        made.gate.set()
        await closing
        return made.order

    assert asyncio.run(main()) == ["first", "closed"]
