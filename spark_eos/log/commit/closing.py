"""A closed log: its next slot holds a mark and no entry, so no entry comes after its end. That is done when it moves.

Filling the slot is a create like any other. An entry that is there before it is part of the log, and a writer that
comes later meets a taken name and finds the mark. The mark has bytes of its own, since an empty file in that place is
an entry whose bytes were lost.
"""

from __future__ import annotations

import pyarrow as pa

from spark_eos.errors import NotALogError, ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.log.snapshots.derived import create_idempotent
from spark_eos.protocol.state import State
from spark_eos.storage import Store

CLOSED = b"eoslog: closed, version 1\n"
"""What the slot after the last entry of a closed log holds (docs/reference/format.md)."""


def close_after(store: Store, state: State) -> None:
    """Close the log after ``state``, unless there is an entry after it: following the log tells which it was."""
    create_idempotent(store, paths.entry(state.seq + 1, state.entries_per_folder), CLOSED)


def is_closing(data: pa.Buffer) -> bool:
    """Whether these bytes of a slot are the mark of a closed log."""
    return data.size == len(CLOSED) and bytes(data) == CLOSED


def is_closed_after(store: Store, state: State) -> bool:
    """Whether the slot after ``state`` holds the mark of a closed log."""
    try:
        return is_closing(store.read(paths.entry(state.seq + 1, state.entries_per_folder)))
    except ObjectNotFoundError:
        return False


def closed_error(store: Store, seq: int) -> NotALogError:
    """The error of every call to a log that is closed after entry ``seq``."""
    return NotALogError(
        f"{store.url}: the log was closed after entry {seq}, when it was moved to another place (eoslog copy --close). "
        "Nothing of this call is in it. Open the log at its new place"
    )
