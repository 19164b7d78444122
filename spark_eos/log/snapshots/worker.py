"""Work that no commit should wait for, in a thread of its own."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable

_EXIT_S = 10.0
"""For so long the end of a process waits for what is being done."""

_working: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def in_background(work: Callable[[], object]) -> None:
    """Start ``work``, which handles its errors itself."""
    thread = threading.Thread(target=work, name="eoslog-snapshot", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        work()  # A process that ends has no new threads (from Python 3.12 on).
        return
    _working.add(thread)


@atexit.register
def _wait_at_exit() -> None:
    """A process that ends right after it has passed a boundary shall not leave the snapshot to others."""
    for thread in list(_working):
        thread.join(_EXIT_S)
