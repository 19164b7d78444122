"""The ``Store`` interface: names and bytes, and the one primitive on which a log rests, ``create``.

A store is a flat space of names (``a/b/c``, no leading slash) that hold immutable bytes. Safety needs nothing but
`Store.create`: atomic, durable, refused if the name exists. See docs/design/0002-storage.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from spark_eos.storage.group_channel import GroupChannel
from spark_eos.storage.settings import NO_SETTINGS, Settings

Data: TypeAlias = bytes | bytearray | memoryview | pa.Buffer
"""Anything with a buffer; stores never change it."""

ROUNDED_S = 1.0
"""Stores say to the second when an object was made: S3, Azure, and some file systems."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object in a listing.

    Attributes
    ----------
    name
        The name of the object.
    size
        Its size in bytes.
    """

    name: str
    size: int


class EarlierPlace(NamedTuple):
    """Where data files were before they began to be moved, for as long as something of them is there.

    Attributes
    ----------
    url
        The place; empty: beside the entries.
    until
        Files whose names begin with this entry, or with an earlier one, were staged there.
    is_copied
        Whether all of them that the log refers to are at the new place, too.
    """

    url: str
    until: int
    is_copied: bool


class Upload(Protocol):
    """A file that becomes an object when its context ends without an exception, and nothing otherwise.

    It is a writable binary file, so Arrow can write into it. Nothing of it is visible before the end.
    """

    def write(self, data: Data, /) -> int: ...
    def tell(self) -> int: ...


class Readable(Protocol):
    """As much of a `Store` as a reader of data needs."""

    url: str

    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        """As `Store.read`."""


class Store(ABC):
    """Names and bytes. Instances are safe to share between threads.

    Every method raises `StorePermissionError` (denied or read-only), `StoreUnavailableError` (certainly not done, worth
    a retry) or another `StorageError`, never a bare ``OSError``. A name is relative and has no empty, ``.`` or ``..``
    part; parts have at most 255 bytes in UTF-8, names 1024; names under ``_tmp/`` belong to the store. Other names are
    refused with `InvalidRequestError`.

    A subclass of your own defines the abstract methods, sets ``url``, and passes the tests of
    `spark_eos.testing.store_contract.StoreContract` (docs/guide/stores/own.md).

    Examples
    --------
    >>> from spark_eos.storage import MemoryStore
    >>> from spark_eos.errors import ObjectExistsError
    >>> store = MemoryStore()
    >>> store.create("a/b", b"first")
    >>> try:
    ...     store.create("a/b", b"second")
    ... except ObjectExistsError:
    ...     print(store.read("a/b").to_pybytes())
    b'first'
    """

    url: str
    """How users name it; equal URLs are equal stores."""

    #: The settings of an object store with which it was opened; others have none.
    settings: Settings = NO_SETTINGS

    #: The id of the key with which data files are encrypted; None: they are not (`spark_eos.extensions.encryption`).
    encryption_key_id: str | None = None

    #: True where a ``size`` call is as cheap as a system call (a folder), False where it is a request.
    requests_are_free: bool = False

    #: True if `ObjectExistsError` from a single `create` proves that another caller has made the object. False if only
    #: a read tells: where a library below may send the request twice and meet its own object, or where a free name may
    #: be refused (S3 answers 409 to a create that ran into another request, and does nothing).
    has_exact_conflicts: bool = False

    @abstractmethod
    def create(self, name: str, data: Data) -> None:
        """Make ``name`` hold ``data``: atomically, durably, and only if the name is free.

        Returns only when the object would survive a power cut.

        Parameters
        ----------
        name
            The name of the object.
        data
            Its bytes. The store keeps those of this moment.

        Raises
        ------
        ObjectExistsError
            The name is taken by an object of any process, or of an earlier try of this caller: compare the bytes.
            Unless the store `has_exact_conflicts`, first look whether the object is there at all.
        OutcomeUnknownError
            The object may be there, may appear later, or may not survive a power cut. Only the same call, repeated,
            decides that.
        StoreFullError
            There is no space. The object certainly is not there; the same holds for all other errors.
        """

    @abstractmethod
    def upload(self, name: str, *, write_behind: bool = False) -> AbstractContextManager[Upload]:
        """Create a large object piece by piece.

        Parameters
        ----------
        name
            The name of the object.
        write_behind
            The caller has much to do between writes: another thread may write meanwhile, if the store gains by it.

        Returns
        -------
        context manager of Upload
            A writable binary file. The object is created when the context ends; the errors of `create` come then. If
            the context ends with an exception, or a write has failed, nothing is created.
        """

    @abstractmethod
    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        """Read bytes of an object.

        Parameters
        ----------
        name
            The name of the object.
        offset
            The first byte, from 0.
        length
            How many bytes. None: to the end.

        Returns
        -------
        pyarrow.Buffer
            Fewer bytes at the end of the object, and none after it.

        Raises
        ------
        ObjectNotFoundError
            There is no object of that name.
        """

    @abstractmethod
    def size(self, name: str) -> int:
        """Look up the size of an object.

        Parameters
        ----------
        name
            The name of the object.

        Returns
        -------
        int
            Bytes.

        Raises
        ------
        ObjectNotFoundError
            There is no object of that name.
        """

    def identity(self, name: str) -> Hashable | None:
        """Tell an object from another one that takes its name, if that costs only a system call.

        Parameters
        ----------
        name
            The name of the object.

        Returns
        -------
        hashable or None
            Equal answers mean the same object with the same bytes. A copy of the same bytes may get another answer.
            None: it would cost a request.

        Raises
        ------
        ObjectNotFoundError
            There is no object of that name.
        """
        return None

    @abstractmethod
    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """List objects. No commit depends on a listing.

        Parameters
        ----------
        prefix
            What their names start with; empty: all.

        Returns
        -------
        iterator of ObjectInfo
            In no particular order.
        """

    def next_name(self, prefix: str, after: str) -> str | None:
        """Find the first name behind another one. This method lists them all; a store may begin a listing there.

        Parameters
        ----------
        prefix
            What the name starts with.
        after
            A name, which need not be there.

        Returns
        -------
        str or None
            None: there is none.
        """
        return min((info.name for info in self.list(prefix) if info.name > after), default=None)

    def ensure_durable(self, name: str) -> None:  # noqa: B027  (most stores have nothing to do)
        """Return only when an object that was read would survive a power cut, whichever process has made it.

        This method does nothing: most stores show only what is durable.

        Parameters
        ----------
        name
            The name of the object.

        Raises
        ------
        StoreUnavailableError
            The store cannot be sure. Another `StorageError` means the same.
        """

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove an object. It is no error if there is none.

        Parameters
        ----------
        name
            The name of the object.
        """

    @abstractmethod
    def overwrite(self, name: str, data: Data) -> None:
        """Replace the bytes of an object atomically. For retired entries and heartbeats: safety never depends on it.

        Parameters
        ----------
        name
            The name of the object.
        data
            The new bytes.
        """

    def age_s(self, name: str) -> float | None:
        """Tell how old an object is, by the store's own clock. Called seldom.

        The clock of this machine does not count: an implementation compares the time that the store gives the object
        with the time that the store gives a new object, and subtracts what its times are rounded by.

        Parameters
        ----------
        name
            The name of the object.

        Returns
        -------
        float or None
            Seconds for which the object has had its bytes, at least. None: the store cannot tell, or the object is
            empty (retired entries may share one object).

        Raises
        ------
        ObjectNotFoundError
            There is no object of that name.
        """
        self.size(name)
        return None

    def now_ms(self) -> int | None:
        """Tell the time by the store's own clock: the time that it gives an object made now. Called seldom.

        Returns
        -------
        int or None
            Milliseconds since 1970 (UTC), exact to the second at least. None: the store cannot tell.
        """
        return None

    def with_data(self, url: str, before: EarlierPlace | None = None) -> Store:
        """Give the store of a log whose entries are here and whose data files are at another place.

        A store around another one hands the call on to that, and puts itself around what it gets. It does not change: a
        handle that has not read of a move yet goes on with the store that it has.

        Parameters
        ----------
        url
            Where the data files are; empty: here. What begins with ``./`` is a folder here.
        before
            The place from which they are being moved.

        Returns
        -------
        Store
            Its settings for that place are those that begin with ``data.``.

        Notes
        -----
        docs/design/0016-chain-and-data-on-two-stores.md.
        """
        from spark_eos.storage.two_stores import TwoStores

        return TwoStores(self, self.settings, url, before) if url else self

    def key_of(self, name: str) -> str | None:
        """Look up with which key a data file is encrypted.

        Parameters
        ----------
        name
            The name of the object.

        Returns
        -------
        str or None
            The id of the key, from the header of the file; None: the file is not encrypted.
        """
        from spark_eos.storage.encrypted_files import HEADER, key_id_of

        return key_id_of(bytes(self.read(name, 0, HEADER)))

    def group_channel(self, name: str) -> GroupChannel | None:
        """Give the channel for group commit: where the writers of this machine, or of this folder, meet (design 0006).

        Parameters
        ----------
        name
            The id of the log.

        Returns
        -------
        GroupChannel or None
            None: there is no such place.
        """
        return None

    def retire(self, name: str) -> None:
        """Replace the bytes of an object with nothing. After a power cut the bytes may be back.

        Parameters
        ----------
        name
            The name of the object.
        """
        self.overwrite(name, b"")
