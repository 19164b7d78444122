"""Objects for one thread at a time: a call while another thread is in one is refused, as by Kafka's consumer."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from spark_eos.errors import ConcurrentModificationError
from spark_eos.storage.forks import OfOneProcess

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="OfOneThread")

_USER = "thread"


class _InUse:
    """See `OfOneThread._in_use`."""

    __slots__ = ("_call", "_is_inner", "_owner", "_users")

    def __init__(self, owner: OfOneThread, users: dict[str, int], call: str, *, is_free: bool) -> None:
        self._owner, self._users, self._call = owner, users, call
        self._is_inner = is_free or owner._is_calling()  # noqa: SLF001

    def __enter__(self) -> None:
        if self._is_inner:
            return
        me = threading.get_ident()
        if self._users.setdefault(_USER, me) != me:
            raise ConcurrentModificationError(
                f"{self._call}: another thread is using this {type(self._owner).__name__}. It is for one thread at a "
                "time: make one for each thread, or lock the calls; only wakeup may come from another thread"
            )

    def __exit__(self, *_: object) -> None:
        if not self._is_inner and self._users.get(_USER) == threading.get_ident():
            self._users.clear()
            self._owner._is_free()  # noqa: SLF001


class OfOneThread(OfOneProcess):
    """What threads may use one after the other, but never at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self._users: dict[str, int] = {}
        """The thread that is in a call now. A dict, since its `setdefault` is atomic."""

    def _in_use(self, call: str) -> _InUse:
        """A block in which no other thread may be in a call. Raises `ConcurrentModificationError` at its begin."""
        return _InUse(self, self._users, call, is_free=self._is_foreign)

    def _is_calling(self) -> bool:
        """Whether this thread is in a call now."""
        return self._users.get(_USER) == threading.get_ident()

    def _is_free(self) -> None:
        """Called at the end of a call that is not inside of another one."""


def one_at_a_time(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Refuse the call while another thread is in one; calls inside of calls are of the same thread.

    Raises `ConcurrentModificationError`.
    """

    @functools.wraps(method)
    def called(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._in_use(method.__name__):
            return method(self, *args, **kwargs)

    return called
