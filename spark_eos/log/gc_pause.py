"""Python's garbage collector, told to wait while very many values are made that refer to one another in no circle.

It looks through everything that is in memory each time there is a quarter more of it: half of the time that it takes
to read a snapshot of 100,000 partitions.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

LARGE_BYTES = 1 << 18
"""An entry or a snapshot of so many bytes is made of tens of thousands of values."""

MANY = 10_000
"""So many partitions or batches are."""

_lock = threading.Lock()
_waiting = 0
_was_on = False

_AS_BEFORE = nullcontext()
"""One for all: most entries are small, and every entry asks."""


def paused(*, when: bool) -> AbstractContextManager[None]:
    """Collect nothing in the block, in any thread; as before if not ``when``. Blocks may overlap."""
    return _paused() if when else _AS_BEFORE


@contextmanager
def _paused() -> Iterator[None]:
    global _waiting, _was_on  # noqa: PLW0603  (there is one collector in a process)
    with _lock:
        if not _waiting:
            _was_on = gc.isenabled()
            gc.disable()
        _waiting += 1
    try:
        yield
    finally:
        with _lock:
            _waiting = max(_waiting - 1, 0)  # In a child that was forked inside of the block it is 0 already.
            if not _waiting and _was_on:
                gc.enable()


def _in_child() -> None:
    """The blocks of the parent's threads never end in a child."""
    global _lock, _waiting  # noqa: PLW0603
    _lock = threading.Lock()
    if _waiting and _was_on:
        gc.enable()
    _waiting = 0


os.register_at_fork(after_in_child=_in_child)
