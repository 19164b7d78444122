"""Objects that follow from the entries alone: snapshots and index pages. Every process writes the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spark_eos.errors import ObjectExistsError, ObjectNotFoundError, StoreUnavailableError
from spark_eos.storage.store import Data, Store, Upload


def create_idempotent(store: Store, name: str, data: Data) -> None:
    """Return when ``name`` is there, stored now or before, by any process. Raises what `Store.create` does otherwise.

    What rests on it can be overwritten and deleted afterwards. A store without `Store.has_exact_conflicts` may say "it
    exists" of a free name: then the object is looked for. Raises `StoreUnavailableError` if it is not there.
    """
    try:
        store.create(name, data)
    except ObjectExistsError as error:
        _check_there(store, name, error)


@contextmanager
def idempotent_upload(store: Store, name: str) -> Iterator[Upload]:
    """The same for a large object. Its upload may meet its own object, after a reply that was lost."""
    try:
        with store.upload(name) as upload:
            yield upload
    except ObjectExistsError as error:
        _check_there(store, name, error)


def _check_there(store: Store, name: str, error: ObjectExistsError) -> None:
    if store.has_exact_conflicts:
        return
    try:
        store.size(name)
    except ObjectNotFoundError:
        raise StoreUnavailableError(
            f"{store.url}/{name} could not be created, as if it existed, and is not there: try again"
        ) from error
