"""A store whose listings have no order, as those of S3 Express One Zone."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from spark_eos.storage import ObjectInfo, Store
from spark_eos.testing.wrapped_store import WrappedStore

T = TypeVar("T")


class ShuffledStore(WrappedStore):
    """``inner``, whose listings come in another order each time, of which ``seed`` is the beginning."""

    def __init__(self, inner: Store, seed: int = 1) -> None:
        super().__init__(inner)
        self._random = random.Random(seed)

    def _call(self, operation: str, name: str, effect: Callable[[], T]) -> T:
        return effect()

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        found: list[Any] = [*self.inner.list(prefix)]
        self._random.shuffle(found)
        return iter(found)
