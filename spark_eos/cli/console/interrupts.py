"""Ctrl-C and SIGTERM while records are written or read: the command ends what it does, and says so."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(KeyboardInterrupt):
    """A signal came. Clients take it as they take Ctrl-C: no call of theirs is left half done."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class Interrupts:
    """The signal that came, if one did.

    What a handler raises in a finalizer or a callback of a weak reference goes no further (each ``import`` has one, for
    the lock of the module). A command looks here before it does what cannot be taken back, or waits once more.
    """

    def __init__(self) -> None:
        self.came: Interrupted | None = None

    def check(self) -> None:
        """Raise `Interrupted` if a signal came."""
        if self.came is not None:
            raise self.came


@contextmanager
def interruptible() -> Iterator[Interrupts]:
    """In it the first SIGINT or SIGTERM raises `Interrupted`, at its end at the latest; the next ends the process."""
    interrupts = Interrupts()

    def interrupt(number: int, _frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        interrupts.came = Interrupted(number)
        raise interrupts.came

    before: dict[int, object] = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, interrupt)
    except ValueError:  # Not the main thread: its owner ends it.
        pass
    try:
        yield interrupts
        interrupts.check()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)  # type: ignore[arg-type]
