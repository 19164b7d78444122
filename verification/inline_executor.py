"""In place of a pool of threads, where a run has to be the same each time: what is submitted is done at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

__all__ = ["InlineExecutor"]

P = ParamSpec("P")
T = TypeVar("T")


class InlineExecutor(Executor):
    """As `concurrent.futures.ThreadPoolExecutor`, without threads."""

    def __init__(self, *_: object) -> None: ...

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Done when this returns, for better or worse; what is no `Exception` ends the caller."""
        future: Future[T] = Future()
        try:
            future.set_result(work(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  (raised again where the result is asked for)
            future.set_exception(error)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """There is nothing to wait for."""
