"""The end of a process: its producers send what waits, for a bounded time, and say what did not get in.

`atexit` runs when all threads but daemons have ended, and the thread of a producer still goes on. Children of
multiprocessing skip it, and run finalizers of their own. A child that was forked has nothing to do for the producers
of its parent.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from spark_eos.log.clock import SYSTEM

WAIT_S = 10.0
"""For so long the end of a process waits for all its producers together."""

_PRIORITY = -10
"""Of the finalizer: after those of pools and queues, whose threads may still send."""


End: TypeAlias = Callable[[Any, float], str]
"""Brings to an end what waits for an object, until a time of `SYSTEM.monotonic`. What there is to say, or empty."""

_watched: WeakKeyDictionary[object, End] = WeakKeyDictionary()
_ended = False
"""Whether `_end` was called: handlers that were registered before it come after it."""
_finalized_in = 0
"""The process in which a finalizer of multiprocessing was registered last."""


def watch(client: object, end: End) -> None:
    """Call ``end`` for ``client`` at the end of this process, if ``client`` is still there; after the end at once."""
    global _finalized_in  # noqa: PLW0603  (it belongs to the process)
    if _ended:
        end(client, SYSTEM.monotonic())
        return
    _watched[client] = end
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None and _finalized_in != os.getpid():
        from multiprocessing.util import Finalize

        Finalize(None, _end, exitpriority=_PRIORITY)
        _finalized_in = os.getpid()


def say(text: str) -> None:
    """On standard error, if there is one."""
    with suppress(Exception):
        sys.stderr.write(f"spark_eos: {text}\n")
        sys.stderr.flush()


@atexit.register
def _end() -> None:
    global _ended  # noqa: PLW0603  (it belongs to the process)
    _ended = True
    deadline = SYSTEM.monotonic() + WAIT_S
    for reference in _watched.keyrefs():  # A list of its own: other threads may still make producers.
        client = reference()
        try:
            message = "" if client is None else _watched[client](client, deadline)
        except BaseException as error:  # noqa: BLE001  (Ctrl-C ends the wait for this one; the others follow)
            message = f"{client!r} could not send what waits: {error!r}"
        if message:
            say(message)
