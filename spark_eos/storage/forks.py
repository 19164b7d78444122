"""Forks of this process: what a child must not share with its parent.

``os.fork`` copies the memory and one thread. In the child, a lock that another thread held stays locked for ever, and
all other threads are missing. And what a process is towards others is there twice: a producer, the member of a group,
the leader of a commit. So objects with any of these register (`tell_in_child`), and change in the child before
`os.fork` returns there.
"""

from __future__ import annotations

import os
import threading
from typing import Any, NoReturn, Protocol
from weakref import WeakSet

from spark_eos.errors import IllegalStateError


class Forked(Protocol):
    """What has to be told."""

    def forked(self) -> None:
        """This is a child of the process in which this object was made. No other thread runs; must not fail."""


_listeners: WeakSet[Forked] = WeakSet()
_generation = 0


def generation() -> int:
    """How many forks lie between this process and its first ancestor that had loaded this module.

    It is higher in a child than in its parent: an object that notes it knows whether it is where it was made.
    """
    return _generation


def tell_in_child(listener: Forked) -> None:
    """Call ``listener.forked()`` in every process that is forked from this one, as long as ``listener`` is there."""
    _listeners.add(listener)


def _in_child() -> None:
    global _generation  # noqa: PLW0603  (it belongs to the process)
    _generation += 1
    failure = None
    for listener in list(_listeners):
        try:
            listener.forked()
        except Exception as error:  # noqa: BLE001  (the others are notified all the same)
            failure = error
    if failure is not None:
        raise failure


os.register_at_fork(after_in_child=_in_child)


class Lock:
    """A lock that is free in a child, whichever thread of the parent held it at the fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        tell_in_child(self)

    def forked(self) -> None:
        """See `Forked`."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        if self._lock.locked():  # Not after a fork inside of the block.
            self._lock.release()


class OfOneProcess:
    """What is one thing for all others: a second one in another process, or a copy, would pass for it.

    Copies and pickles are refused, and in a child each call that asks `_check_process`.
    """

    _instead = "make one in that process"
    """What the user does instead."""

    def __init__(self) -> None:
        self._made_in = generation()

    @property
    def _is_foreign(self) -> bool:
        """Whether it was made in another process than this one."""
        return self._made_in != _generation

    def _check_process(self, call: str) -> None:
        if self._made_in != _generation:
            raise IllegalStateError(
                f"{call}: this {type(self).__name__} was made in the process that this one was forked from, which goes "
                f"on with it: {self._instead}"
            )

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise IllegalStateError(
            f"a {type(self).__name__} cannot be copied, pickled or sent to another process: it would pass for this "
            "one. Make one where it is needed; its URL, and its settings, can go there"
        )
