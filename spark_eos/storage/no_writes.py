"""Stores that refuse every write before it reaches the store that they look at."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import NoReturn

from spark_eos.storage.store import Data, Store, Upload


class NoWrites(Store):
    """All that writes, refused: a base of stores that only read. Before another base it hides the writes of that."""

    def create(self, name: str, data: Data) -> None:
        self._refuse("create", name)

    def upload(self, name: str, *, write_behind: bool = False) -> AbstractContextManager[Upload]:
        self._refuse("upload", name)

    def delete(self, name: str) -> None:
        self._refuse("delete", name)

    def overwrite(self, name: str, data: Data) -> None:
        self._refuse("overwrite", name)

    def retire(self, name: str) -> None:
        self._refuse("retire", name)

    @abstractmethod
    def _refuse(self, verb: str, name: str) -> NoReturn:
        """Raise the error that says which program only reads."""
