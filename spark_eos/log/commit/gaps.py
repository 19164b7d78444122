"""Gaps in the chain of entries: an entry that is missing though later ones are there.

No entry is put after one that is not durable (docs/design/0002), so entries beyond a gap tell that there was one in
it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from spark_eos.errors import CorruptRecordError, ObjectNotFoundError
from spark_eos.errors.hidden import safe_url
from spark_eos.log import paths
from spark_eos.log.clock import Clock, Retry
from spark_eos.protocol.state import State
from spark_eos.storage import Store

_LOG = logging.getLogger(__name__)

_LOOK_BEYOND = 16
"""In a folder, so many slots after the end are looked at: each costs a system call."""


def check_no_gap(store: Store, state: State, follow: Callable[[], State], clock: Clock, retry: Retry) -> None:
    """Raise `CorruptRecordError` if entries go on after ``state``, the end: one of the chain has been removed.

    ``follow`` reads on to the end. A network file system may go on for a while not to show the missing entry, so
    this waits up to the deadline of ``retry``.
    """
    deadline, attempt = clock.monotonic() + retry.deadline_s, 0
    while (beyond := _beyond(store, state)) is not None:
        end, missing = state.seq, paths.entry(state.seq + 1, state.entries_per_folder)
        state = follow()
        if state.seq != end:
            continue
        if clock.monotonic() >= deadline:
            raise CorruptRecordError(
                f"{store.url}/{missing} is missing, though {beyond} is there: it was removed, and what it held "
                "is lost, with all after it. Put it back from a copy; nothing was changed"
            )
        if not attempt:
            _LOG.warning(
                "%s/%s is missing, though %s is there: waiting up to %d s, as a network file system may go on for a "
                "while not to show it",
                *(safe_url(store.url), missing, beyond, retry.deadline_s),
            )
        clock.sleep(retry.wait_s(attempt, clock))
        attempt += 1


def _beyond(store: Store, state: State) -> str | None:
    """An entry that is there though the one after the end is not. Only the next one is asked for by a request."""
    end = state.seq
    for seq in range(end + 2, end + (_LOOK_BEYOND if store.requests_are_free else 3)):
        with suppress(ObjectNotFoundError):
            name = paths.entry(seq, state.entries_per_folder)
            store.size(name)
            return name
    return None
