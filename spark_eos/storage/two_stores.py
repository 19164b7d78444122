"""Two stores that are one for all who use a log: the chain in one, data files in another (docs/design/0016)."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager
from itertools import chain as chained

import pyarrow as pa

from spark_eos.errors import (
    ConfigError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreUnavailableError,
)
from spark_eos.storage.group_channel import GroupChannel
from spark_eos.storage.object_names import TEMP_FOLDER
from spark_eos.storage.settings import Settings
from spark_eos.storage.store import Data, ObjectInfo, Store, Upload

__all__ = ["DATA_MARK", "TwoStores", "check_claim", "first_other", "is_data_name", "parts_of"]

DATA_MARK = "_data_of.json"
"""Lies with the data files, if the chain is elsewhere: whose they are."""

_FOLDERS = ("data/", "tables/")
"""What is with the data files: those of the log, and the tables that share them."""


def is_data_name(name: str) -> bool:
    """Whether the object of that name is in the store of the data files.

    Examples
    --------
    >>> [is_data_name(name) for name in ("data/t/1.arrow", "tables/t/_delta_log/0.json", "_log/0.avro")]
    [True, True, False]
    """
    return name.startswith(_FOLDERS) or name == DATA_MARK


class TwoStores(Store):
    """``chain``, but data files and tables are in the store at ``data_url``; empty: in ``chain``, too.

    ``settings`` are those of both; settings of the data's store alone begin with ``data.``. The URL is that of the
    chain. The log says where its data is, so a handle that has read it asks for that store by `with_data`.

    Examples
    --------
    >>> from spark_eos.storage import MemoryStore
    >>> both = MemoryStore().with_data("memory://example-of-data")
    >>> both.create("data/a", b"rows")
    >>> both.create("_log/a", b"entry")
    >>> [info.name for info in both.chain.list("")], [info.name for info in both.list("")]
    (['_log/a'], ['_log/a', 'data/a'])
    """

    def __init__(self, chain: Store, settings: Settings | None = None, data_url: str = "") -> None:
        from spark_eos.storage.urls import data_store

        self.chain = chain
        self.settings = chain.settings if settings is None else settings
        self.data_url = data_url
        self.data = data_store(data_url, self.settings) if data_url else chain
        self.url = chain.url
        self.encryption_key_id = chain.encryption_key_id
        self.requests_are_free = chain.requests_are_free and self.data.requests_are_free
        self.has_exact_conflicts = chain.has_exact_conflicts and self.data.has_exact_conflicts

    def __repr__(self) -> str:
        return f"TwoStores({self.chain!r}, {self.settings!r}, {self.data_url!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return TwoStores, (self.chain, self.settings, self.data_url)

    def with_data(self, url: str) -> Store:
        return self if url == self.data_url else TwoStores(self.chain, self.settings, url)

    def _of(self, name: str) -> Store:
        return self.data if is_data_name(name) else self.chain

    # -- As the store that has the name -------------------------------------------------------------------

    def create(self, name: str, data: Data) -> None:
        self._of(name).create(name, data)

    def upload(self, name: str, *, write_behind: bool = False) -> AbstractContextManager[Upload]:
        return self._of(name).upload(name, write_behind=write_behind)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        return self._of(name).read(name, offset, length)

    def size(self, name: str) -> int:
        return self._of(name).size(name)

    def identity(self, name: str) -> Hashable | None:
        return self._of(name).identity(name)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """As `Store.list`. What has a name that belongs into the other store is not listed: it is not the log's."""
        if not self.data_url:
            return self.chain.list(prefix)
        if prefix.startswith(_FOLDERS):
            return self.data.list(prefix)
        of_chain = (info for info in self.chain.list(prefix) if not is_data_name(info.name))
        if not any(name.startswith(prefix) for name in (*_FOLDERS, DATA_MARK)):
            return of_chain
        return chained(of_chain, (info for info in self.data.list(prefix) if is_data_name(info.name)))

    def ensure_durable(self, name: str) -> None:
        self._of(name).ensure_durable(name)

    def delete(self, name: str) -> None:
        self._of(name).delete(name)

    def overwrite(self, name: str, data: Data) -> None:
        self._of(name).overwrite(name, data)

    def age_s(self, name: str) -> float | None:
        return self._of(name).age_s(name)

    def key_of(self, name: str) -> str | None:
        return self._of(name).key_of(name)

    def retire(self, name: str) -> None:
        self._of(name).retire(name)

    # -- The chain's --------------------------------------------------------------------------------------

    def now_ms(self) -> int | None:
        return self.chain.now_ms()

    def group_channel(self, name: str) -> GroupChannel | None:
        return self.chain.group_channel(name)


def parts_of(store: Store) -> list[Store]:
    """The stores of which ``store`` consists, each once."""
    if not isinstance(store, TwoStores):
        return [store]
    return [store.chain, store.data] if store.data_url else [store.chain]


def check_claim(store: Store, data_url: str, log_id: str) -> None:
    """See that the data files of ``store``, which are at ``data_url``, are those of this log. Empty: need no mark.

    The first one that asks has them from then on. Two logs with their data in one place would delete each other's: also
    a copy of the chain alone, made by other means than ``eoslog copy``, is another log. Raises `ConfigError`.
    """
    if not data_url:
        return
    wanted = json.dumps({"log_id": log_id, "chain": store.url}, sort_keys=True).encode()
    found = _read(store)
    if found is None:
        try:
            store.create(DATA_MARK, wanted)
        except (ObjectExistsError, OutcomeUnknownError) as error:
            found = _read(store)
            if found is None:  # A store may refuse a free name.
                raise StoreUnavailableError(
                    f"{store.url}: {DATA_MARK} beside its data files could not be created: try again. No data "
                    "file was written or deleted"
                ) from error
        else:
            found = wanted
    if found != wanted:
        raise ConfigError(
            f"{store.url}: the place of its data files has those of another log or of another copy of this one "
            f"({DATA_MARK} there says {found.decode(errors='replace')}). No data file was written or deleted. A copy "
            "needs a place of its own for its data: make it by eoslog copy. If the chain was moved here by hand and is "
            f"nowhere else, delete {DATA_MARK} beside the data files"
        )


def _read(store: Store) -> bytes | None:
    try:
        return bytes(store.read(DATA_MARK))
    except ObjectNotFoundError:
        return None


def first_other(store: Store) -> str | None:
    """An object of a place that is to get data files, if there is any but a mark."""
    mine = (DATA_MARK, "_probe/", f"{TEMP_FOLDER}/")
    return next((info.name for info in store.list("") if not info.name.startswith(mine)), None)
