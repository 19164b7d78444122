"""Gaps in the chain of entries: entries that are missing though later ones are there.

No entry is put after one that is not durable (docs/design/0002), so entries beyond a gap tell that there were some in
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
"""A writer in a folder looks at so many slots after the end, by a system call each; all others list what is there."""


def check_no_gap(store: Store, state: State, follow: Callable[[], State], clock: Clock, retry: Retry) -> None:
    """Raise `CorruptRecordError` if entries go on after ``state``, the end: some of the chain have been removed.

    ``follow`` reads on to the end. A network file system may go on for a while not to show a missing entry, so
    this waits up to the deadline of ``retry``; a bucket shows what is there.
    """
    deadline, attempt = clock.monotonic() + retry.deadline_s, 0
    beyond = _beyond(store, state)
    while beyond is not None:
        end, told = state.seq, _told(store, state, beyond)
        state = follow()
        if state.seq != end:
            beyond = _beyond(store, state)
            continue
        if clock.monotonic() >= deadline or not store.requests_are_free:
            raise CorruptRecordError(
                f"{told}. What was removed is lost, with all after it. Put it back from a copy; nothing was changed"
            )
        if not attempt:
            _LOG.warning(
                "%s: waiting up to %d s, as a network file system may go on for a while not to show it",
                *(told, retry.deadline_s),
            )
        clock.sleep(retry.wait_s(attempt, clock))
        attempt += 1


def listed_beyond(store: Store, end: int, per_folder: int) -> int | None:
    """The first entry that is listed behind the one after entry ``end``; None if there is no gap."""
    name = store.next_name(paths.ENTRIES, paths.entry(end + 1, per_folder))
    while name is not None:
        seq = paths.entry_seq(name)
        if seq is not None and seq > end + 1:
            return seq
        name = store.next_name(paths.ENTRIES, name)
    return None


def _beyond(store: Store, state: State) -> int | None:
    """An entry that is there though the one after the end is not.

    A log without a snapshot is listed in a folder, too: it has few entries, or it has lost its snapshot, and may have
    lost all names before it. Then only entry 0 and the entries after the snapshot are left, and it looks empty.
    """
    end = state.seq
    if end < state.snapshot_interval or not store.requests_are_free:
        return listed_beyond(store, end, state.entries_per_folder)
    for seq in range(end + 2, end + _LOOK_BEYOND):
        with suppress(ObjectNotFoundError):
            store.size(paths.entry(seq, state.entries_per_folder))
            return seq
    return None


def _told(store: Store, state: State, beyond: int) -> str:
    first, last, then = (
        paths.entry(seq, state.entries_per_folder) for seq in (state.seq + 1, beyond - 1, beyond)
    )
    url = safe_url(store.url)
    if first == last:
        return f"{url}/{first} is missing, though {then} is there"
    text = f"{url}/{first} and the entries up to {last} are missing, though {then} is there"
    # Entries are retired because a snapshot stands for them.
    return f"{text}, or the snapshot that stood for them is" if state.seq == 0 else text
