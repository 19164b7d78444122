"""What a store is asked: whether it can carry a log (once, when a log is created), and whether an object is there."""

from __future__ import annotations

import contextlib
import uuid

from spark_eos.errors import EosLogError, ObjectExistsError, ObjectNotFoundError, UnsupportedStoreError
from spark_eos.storage.object_names import PROBES
from spark_eos.storage.store import Store

_TRIES = 5
"""Creates of a free name, of which one has to succeed."""


def probe(store: Store, unique: bytes | None = None) -> None:
    """Prove that ``store`` creates a name once and refuses to create it again.

    Works on one object of a unique name (``unique``, else random) under `PROBES` and deletes it.

    Raises `UnsupportedStoreError` if the store let the second create through, changed or lost the bytes, or
    cannot create at all, and the store's own errors if it could not be asked (denied, full, unavailable).
    """
    name = f"{PROBES}{(unique or uuid.uuid4().bytes).hex()}"
    first, second = (f"{name} {word}".encode() for word in ("first", "second"))
    try:
        _create(store, name, first)
        _expect(store, name, first, "an object that was just created does not hold its bytes")
        try:
            store.create(name, second)
        except ObjectExistsError:
            pass
        else:
            raise _unsupported(store, f"it let {name!r} be created twice")
        _expect(store, name, first, "a create that was refused changed the object")
    finally:
        with contextlib.suppress(EosLogError):  # the verdict matters, not a probe left behind
            store.delete(name)


def _create(store: Store, name: str, body: bytes) -> None:
    """Create a name that no other process knows."""
    for _ in range(_TRIES):
        try:
            store.create(name, body)
        except ObjectExistsError:
            # A library below may send a create twice and meet its own object; or a create that ran into another
            # request is refused, and nothing is done (S3's 409). Whether it is there tells which.
            with contextlib.suppress(ObjectNotFoundError):
                store.size(name)
                return
        else:
            return
    raise _unsupported(store, "it refuses names that are free")


def _expect(store: Store, name: str, body: bytes, problem: str) -> None:
    try:
        stored = store.read(name).to_pybytes()
    except ObjectNotFoundError as error:
        raise _unsupported(store, problem) from error
    if stored != body:
        raise _unsupported(store, problem)


def _unsupported(store: Store, problem: str) -> UnsupportedStoreError:
    return UnsupportedStoreError(
        f"{store.url} cannot carry a log, because {problem}: two writers could both believe to have "
        "committed. Use a folder on a local disk or NFS, whose file system has hard links, or a bucket of a store that "
        "refuses a PUT on the condition that nothing is there (S3, Azure, Google Cloud Storage, a recent MinIO or "
        "Ceph, R2)"
    )


def is_there(store: Store, name: str) -> bool:
    """Whether there is an object of this name."""
    try:
        store.size(name)
    except ObjectNotFoundError:
        return False
    return True
