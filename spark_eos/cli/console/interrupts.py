"""Ctrl-C and SIGTERM while records are written or read: the command ends what it does, and says so."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Interrupted", "interruptible"]


class Interrupted(KeyboardInterrupt):
    """A signal came. Clients take it as they take Ctrl-C: no call of theirs is left half done."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


@contextmanager
def interruptible() -> Iterator[None]:
    """Within it, the first SIGINT or SIGTERM raises `Interrupted`; the next one ends the process."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        raise Interrupted(number)

    before: dict[int, object] = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, interrupt)
    except ValueError:  # Not the main thread: its owner ends it.
        pass
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)  # type: ignore[arg-type]
