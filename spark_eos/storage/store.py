"""The ``Store`` interface: names and bytes, and the one primitive everything rests on, ``create``.

A store is a flat space of names (``a/b/c``, no leading slash) that hold immutable bytes. Safety needs
nothing but `Store.create`: atomic, durable, refused if the name exists. See docs/design/0002.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from spark_eos.storage.group_channel import GroupChannel

__all__ = ["ROUNDED_S", "Data", "ObjectInfo", "Readable", "Store", "Upload"]

Data: TypeAlias = bytes | bytearray | memoryview | pa.Buffer
"""Anything with a buffer; stores never change it."""


ROUNDED_S = 1.0
"""Stores say to the second when an object was made: S3, Azure, and some file systems."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a listing says of an object: its name and its size in bytes."""

    name: str
    size: int


class Upload(Protocol):
    """A file that becomes an object when its context ends without an exception, and nothing otherwise.

    It is a writable binary file (``write``, ``tell``), so Arrow can write into it; nothing of it is
    visible before the end.
    """

    def write(self, data: Data, /) -> int: ...
    def tell(self) -> int: ...


class Readable(Protocol):
    """As much of a `Store` as a reader of data needs."""

    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        """As `Store.read`."""


class Store(ABC):
    """Names and bytes. Instances are safe to share between threads.

    Every method raises `StorePermissionError` (denied or read-only), `StoreUnavailableError` (certainly
    not done, worth a retry) or another `StorageError`, never a bare ``OSError``. A name is relative and has
    no empty, ``.`` or ``..`` part; parts have at most 255 bytes in UTF-8, names 1024; names under ``_tmp/``
    belong to the store. Others are refused with `InvalidRequestError`.
    """

    url: str
    """How users name it; equal URLs are equal stores."""

    #: True where a ``size`` call is as cheap as a system call (a folder), False where it is a request.
    is_local: bool = False

    #: True where a single `create` that raises `ObjectExistsError` has met another's object for certain. False where
    #: something below may have sent the request twice, so that it can meet its own, or where a free name may be refused
    #: (S3 answers 409 to a create that ran into another request, and nothing is done): only reading tells.
    has_exact_conflicts: bool = False

    @abstractmethod
    def create(self, name: str, data: Data) -> None:
        """Make ``name`` hold ``data``: atomically, durably, and only if the name is free.

        Returns only when the object would survive a power cut. Raises `ObjectExistsError` if the name is
        taken (by any process, also by an earlier try of the caller: compare the body; unless the store
        `has_exact_conflicts`, look first whether it is there at all), `OutcomeUnknownError`
        if the object may or may not be there or may still appear (or may not outlive a power cut): only the
        same call, repeated, settles that. `StoreFullError` and all other errors: it certainly is not there.
        """

    @abstractmethod
    def upload(self, name: str, *, write_behind: bool = False) -> AbstractContextManager[Upload]:
        """`create` for large objects, written piece by piece; the errors of `create` come at the end.

        Nothing is created if the context ends with an exception, or after a write that failed. ``write_behind``: the
        caller has much to do between writes, so another thread may do theirs meanwhile, where the store gains by it.
        """

    @abstractmethod
    def read(self, name: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        """The bytes of ``name`` from ``offset``, at most ``length`` of them (fewer at the end of the object).

        From ``offset`` to the end if ``length`` is None; nothing if ``offset`` lies behind the end.
        Raises `ObjectNotFoundError`.
        """

    @abstractmethod
    def size(self, name: str) -> int:
        """The object's size in bytes. Raises `ObjectNotFoundError`."""

    def identity(self, name: str) -> Hashable | None:
        """What tells ``name`` from another object that takes its place, for the price of a system call.

        None where that would be a request. Two answers that are equal are the same object with the same bytes; the
        same bytes may get another answer, when they were copied. Raises `ObjectNotFoundError`.
        """
        return None

    @abstractmethod
    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """The objects whose names start with ``prefix``, in no particular order. Never part of a commit."""

    def ensure_durable(self, name: str) -> None:  # noqa: B027  (most stores have nothing to do)
        """Return only when ``name``, which was read, would survive a power cut, whichever process made it.

        Raises `StoreUnavailableError` or another `StorageError` if that is not sure. Does nothing here: most
        stores show only what is durable.
        """

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove the object; no error if it is not there."""

    @abstractmethod
    def overwrite(self, name: str, data: Data) -> None:
        """Replace the bytes of ``name`` atomically. For retiring old entries only: never for safety."""

    def age_s(self, name: str) -> float | None:
        """For how many seconds at least ``name`` has had its bytes, by the store's own clock; None if it cannot tell.

        Nothing but that clock counts, not this machine's: an implementation compares the time that the store gives
        the object with the time that it gives one made now, and takes off what its times are rounded by. None also
        for an empty object: retired entries may share one. Raises `ObjectNotFoundError`. To be called seldom.
        """
        self.size(name)
        return None

    def now_ms(self) -> int | None:
        """Milliseconds since 1970 by the store's own clock, to the second at least; None if it cannot tell.

        The time that the store gives an object made now. To be called seldom. Raises what making one raises.
        """
        return None

    def group_channel(self, name: str) -> GroupChannel | None:
        """Where the processes of this machine, or of this folder, that write to the log ``name`` meet; if they can."""
        return None

    def retire(self, name: str) -> None:
        """`overwrite` with nothing. After a power cut the bytes may be back."""
        self.overwrite(name, b"")
