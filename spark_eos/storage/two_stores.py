"""Two stores that are one for all who use a log: the chain in one, data files in another (docs/design/0016)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager
from itertools import chain as chained
from typing import NamedTuple, TypeVar

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
from spark_eos.storage.store import Data, EarlierPlace, ObjectInfo, Store, Upload

DATA_MARK = "_data_of.json"
"""Lies with the data files, if the chain is elsewhere: whose they are."""

_FOLDERS = ("data/", "tables/")
"""What is with the data files: those of the log, and the tables that share them."""

_BESIDE = "./"
"""How a place begins that is a folder in the chain's own store."""
_INNER = "_data/"
"""What such folders have in common."""
_MOVE = "_data_move/"
"""How names begin that say at which of two places an object is (`at_place`). No object has such a name."""

_BASE_SEQ = re.compile(r"([0-9]{1,20})-.+")

T = TypeVar("T")


def is_data_name(name: str) -> bool:
    """Whether the object of that name is in the store of the data files.

    Examples
    --------
    >>> [is_data_name(name) for name in ("data/t/1.arrow", "tables/t/_delta_log/0.json", "_log/0.avro")]
    [True, True, False]
    """
    return name.startswith(_FOLDERS) or name == DATA_MARK


def is_apart(data_url: str) -> bool:
    """Whether the data files are in another store than the chain.

    Examples
    --------
    >>> [is_apart(url) for url in ("s3://bucket/data", "", "./_data/7")]
    [True, False, False]
    """
    return bool(data_url) and not data_url.startswith(_BESIDE)


def absolute_place(chain_url: str, data_url: str) -> str:
    """The URL of the place of data files, which may be a folder in the store of the chain.

    Examples
    --------
    >>> [absolute_place("s3://b/log", url) for url in ("s3://bucket/data", "", "./_data/7")]
    ['s3://bucket/data', 's3://b/log', 's3://b/log/_data/7']
    """
    if is_apart(data_url):
        return data_url
    return f"{chain_url.rstrip('/')}/{data_url.removeprefix(_BESIDE)}" if data_url else chain_url


def at_place(placed_at: int, name: str, *, new: bool) -> str:
    """The name by which a store has the object at the new or at the old place of the move that an entry began.

    It is for what copies files and deletes the old ones. Unless that move is under way there is no object of that name.
    """
    return f"{_MOVE}{placed_at}/{'new' if new else 'old'}/{name}"


class _Place(NamedTuple):
    """A store, or a folder in it."""

    store: Store
    folder: str = ""

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        for info in self.store.list(self.folder + prefix):
            yield ObjectInfo(info.name[len(self.folder) :], info.size) if self.folder else info


class TwoStores(Store):
    """``chain``, but data files and tables are in the store at ``data_url``; empty: in ``chain``, too.

    ``settings`` are those of both; settings of the data's store alone begin with ``data.``. The URL is that of the
    chain. The log says where its data is, so a handle that has read it asks for that store by `with_data`.

    ``before`` is the place from which data files are being moved. A file that was staged before the move began is
    there, and, once all are copied, at the new place.

    Examples
    --------
    >>> from spark_eos.storage import MemoryStore
    >>> both = MemoryStore().with_data("memory://example-of-data")
    >>> both.create("data/a", b"rows")
    >>> both.create("_log/a", b"entry")
    >>> [info.name for info in both.chain.list("")], [info.name for info in both.list("")]
    (['_log/a'], ['_log/a', 'data/a'])
    """

    def __init__(
        self,
        chain: Store,
        settings: Settings | None = None,
        data_url: str = "",
        before: EarlierPlace | None = None,
    ) -> None:
        self.chain = chain
        self.settings = chain.settings if settings is None else settings
        self.data_url = data_url
        self.before = before
        self._chain = _Place(chain)
        self._data = self._open_place(data_url)
        self._earlier = None if before is None else self._open_place(before.url)
        self.url = chain.url
        self.encryption_key_id = chain.encryption_key_id
        self.requests_are_free = all(part.requests_are_free for part in self.parts)
        self.has_exact_conflicts = all(part.has_exact_conflicts for part in self.parts)

    def __repr__(self) -> str:
        return f"TwoStores({self.chain!r}, {self.settings!r}, {self.data_url!r}, {self.before!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return TwoStores, (self.chain, self.settings, self.data_url, self.before)

    def _open_place(self, url: str) -> _Place:
        from spark_eos.storage.urls import data_store

        if is_apart(url):
            return _Place(data_store(url, self.settings))
        return _Place(self.chain, f"{url.removeprefix(_BESIDE)}/" if url else "")

    @property
    def parts(self) -> list[Store]:
        """The stores of which it consists, each once."""
        stores = [self.chain]
        for place in (self._data, self._earlier):
            if place is not None and not any(place.store is store for store in stores):
                stores.append(place.store)
        return stores

    def with_data(self, url: str, before: EarlierPlace | None = None) -> Store:
        if (url, before) == (self.data_url, self.before):
            return self
        return TwoStores(self.chain, self.settings, url, before)

    # -- Which store has the name -------------------------------------------------------------------------

    def _places(self, name: str) -> tuple[_Place, ...]:
        """Where the object may be, and where it is made: in the first one."""
        if not is_data_name(name):
            return (self._chain,)
        if self.before is None or self._earlier is None or not self._is_earlier(name):
            return (self._data,)
        return (self._data, self._earlier) if self.before.is_copied else (self._earlier, self._data)

    def _is_earlier(self, name: str) -> bool:
        """Whether the file was staged before the data began to be moved."""
        match = _BASE_SEQ.fullmatch(name.rpartition("/")[2])
        return match is not None and self.before is not None and int(match[1]) <= self.before.until

    def _of(self, name: str) -> tuple[Store, str]:
        """The store in which an object of that name is made, and its name there."""
        if name.startswith(_MOVE):
            place, name = self._named_place(name)
        else:
            place = self._places(name)[0]
        return place.store, place.folder + name

    def _named_place(self, name: str) -> tuple[_Place, str]:
        """The place that the name says. Raises `ObjectNotFoundError` if that move is not under way."""
        entry, side, inner_name = name.removeprefix(_MOVE).split("/", 2)
        if self.before is None or self._earlier is None or entry != str(self.before.until):
            raise ObjectNotFoundError(
                f"{self.url}: the data files of this log are not being moved since entry {entry} any more"
            )
        return (self._data if side == "new" else self._earlier), inner_name

    def _read(self, name: str, call: Callable[[Store, str], T]) -> T:
        if name.startswith(_MOVE):
            return call(*self._of(name))
        *first, last = self._places(name)
        for place in first:
            try:
                return call(place.store, place.folder + name)
            except ObjectNotFoundError:
                continue
        return call(last.store, last.folder + name)

    # -- As the store that has the name -------------------------------------------------------------------

    def create(self, name: str, data: Data) -> None:
        store, name = self._of(name)
        store.create(name, data)

    def upload(self, name: str, *, write_behind: bool = False) -> AbstractContextManager[Upload]:
        store, name = self._of(name)
        return store.upload(name, write_behind=write_behind)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        return self._read(name, lambda store, at: store.read(at, offset, length))

    def size(self, name: str) -> int:
        return self._read(name, lambda store, at: store.size(at))

    def identity(self, name: str) -> Hashable | None:
        return self._read(name, lambda store, at: store.identity(at))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """As `Store.list`. What has a name that belongs into the other store is not listed: it is not the log's."""
        if prefix.startswith(_MOVE):
            place, inner_name = self._named_place(prefix)
            move_prefix = prefix.removesuffix(inner_name)
            return (ObjectInfo(move_prefix + info.name, info.size) for info in place.list(inner_name))
        if not self.data_url:
            return self.chain.list(prefix)
        if prefix.startswith(_FOLDERS):
            return self._list_data(prefix)
        of_chain = (info for info in self.chain.list(prefix) if not _is_not_the_chains(info.name))
        if not any(name.startswith(prefix) for name in (*_FOLDERS, DATA_MARK)):
            return of_chain
        return chained(of_chain, (info for info in self._list_data(prefix) if is_data_name(info.name)))

    def next_name(self, prefix: str, after: str) -> str | None:
        if prefix.startswith((*_FOLDERS, _MOVE)) or any(
            name.startswith(prefix) for name in (*_FOLDERS, DATA_MARK)
        ):
            return super().next_name(prefix, after)
        return self.chain.next_name(prefix, after)

    def _list_data(self, prefix: str) -> Iterator[ObjectInfo]:
        """Each name once. Until all are copied, the old place alone says which of the earlier files there are."""
        if self.before is None or self._earlier is None or self.before.is_copied:
            return self._data.list(prefix)
        return chained(
            (info for info in self._earlier.list(prefix) if self._is_earlier(info.name)),
            (info for info in self._data.list(prefix) if not self._is_earlier(info.name)),
        )

    def ensure_durable(self, name: str) -> None:
        self._read(name, lambda store, at: store.ensure_durable(at))

    def delete(self, name: str) -> None:
        """As `Store.delete`, at both places; last where it is listed, so that one who dies between is seen again."""
        if name.startswith(_MOVE):
            try:
                store, name = self._of(name)
            except ObjectNotFoundError:
                return
            store.delete(name)
            return
        for place in reversed(self._places(name)):
            place.store.delete(place.folder + name)

    def overwrite(self, name: str, data: Data) -> None:
        store, name = self._of(name)
        store.overwrite(name, data)

    def age_s(self, name: str) -> float | None:
        return self._read(name, lambda store, at: store.age_s(at))

    def key_of(self, name: str) -> str | None:
        return self._read(name, lambda store, at: store.key_of(at))

    def retire(self, name: str) -> None:
        store, name = self._of(name)
        store.retire(name)

    # -- The chain's --------------------------------------------------------------------------------------

    def now_ms(self) -> int | None:
        return self.chain.now_ms()

    def group_channel(self, name: str) -> GroupChannel | None:
        return self.chain.group_channel(name)


def _is_not_the_chains(name: str) -> bool:
    return is_data_name(name) or name.startswith(_INNER)


def parts_of(store: Store) -> list[Store]:
    """The stores of which ``store`` consists, each once."""
    return store.parts if isinstance(store, TwoStores) else [store]


def check_claim(store: Store, data_url: str, log_id: str) -> None:
    """See that the data files of ``store``, which are at ``data_url``, are those of this log.

    In the chain's own store they need no mark. The first one that asks has them from then on. Two logs with their data
    in one place would delete each other's: also a copy of the chain alone, made by other means than ``eoslog copy``, is
    another log. Raises `ConfigError`.
    """
    if not is_apart(data_url):
        return
    own_mark, mark = _own_mark(store, log_id), _read(store)
    if mark is None:
        try:
            store.create(DATA_MARK, own_mark)
        except (ObjectExistsError, OutcomeUnknownError) as error:
            mark = _read(store)
            if mark is None:  # A store may refuse a free name.
                raise StoreUnavailableError(
                    f"{store.url}: {DATA_MARK} beside its data files could not be created: try again. No data "
                    "file was written or deleted"
                ) from error
        else:
            mark = own_mark
    _refuse_foreign(store, mark, own_mark)


def check_unclaimed(store: Store, data_url: str, log_id: str) -> None:
    """As `check_claim`, but a place that no log has stays so."""
    if is_apart(data_url) and (mark := _read(store)) is not None:
        _refuse_foreign(store, mark, _own_mark(store, log_id))


def _own_mark(store: Store, log_id: str) -> bytes:
    return json.dumps({"log_id": log_id, "chain": store.url}, sort_keys=True).encode()


def _refuse_foreign(store: Store, mark: bytes, own_mark: bytes) -> None:
    if mark != own_mark:
        raise ConfigError(
            f"{store.url}: the place of its data files has those of another log or of another copy of this one "
            f"({DATA_MARK} there says {mark.decode(errors='replace')}). No data file was written or deleted. A copy "
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
    own_prefixes = (DATA_MARK, "_probe/", f"{TEMP_FOLDER}/")
    return next((info.name for info in store.list("") if not info.name.startswith(own_prefixes)), None)
