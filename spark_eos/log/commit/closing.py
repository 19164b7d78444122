"""A closed log: its next slot holds nothing, so no entry comes after its end. That is done when a log has moved.

Filling the slot is a create like any other. An entry that is there before it is part of the log, and a writer that
comes later meets a taken name and finds an empty entry, which no process takes for the end of a log. Nothing else in a
log looks so: an entry is retired only if a snapshot stands for it, and never the newest one.
"""

from __future__ import annotations

from spark_eos.errors import NotALogError, ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.log.snapshots.derived import create_idempotent
from spark_eos.protocol.state import State
from spark_eos.storage import Store

__all__ = ["check_not_closed", "close_after", "is_closed_after"]


def close_after(store: Store, state: State) -> None:
    """Close the log after ``state``, unless there is an entry after it: following the log tells which it was."""
    create_idempotent(store, paths.entry(state.seq + 1, state.entries_per_folder), b"")


def is_closed_after(store: Store, state: State) -> bool:
    """Whether the log is closed after ``state``, its newest state, given that no snapshot is newer."""
    try:
        if store.size(paths.entry(state.seq + 1, state.entries_per_folder)):
            return False
    except ObjectNotFoundError:
        return False
    try:
        store.size(paths.entry(state.seq + 2, state.entries_per_folder))
    except ObjectNotFoundError:
        return True
    return False


def check_not_closed(store: Store, state: State) -> None:
    """Raise `NotALogError` if the log is closed after ``state``; see `is_closed_after`."""
    if is_closed_after(store, state):
        raise NotALogError(
            f"{store.url}: the log was closed after entry {state.seq}, when it was moved to another place (eoslog copy "
            "--close). Nothing of this call is in it. Open the log at its new place"
        )
