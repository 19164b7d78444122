"""Verify: walk a whole log and say what is wrong. `repair` rebuilds caches, and never touches entries or data.

Caches are snapshots and the sealed pages of indexes, as long as the entries are there that they were made from.
All is looked at as of the entry that was the last one at the beginning; writers, readers and maintenance may go on
meanwhile. What they have removed since is looked for in a newer state before it is called missing.

Memory: the log's state, its newest index rows, and 8 bytes for each data file. Time: all of the log is read, once.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from spark_eos.log import paths
from spark_eos.log.clock import SYSTEM, Clock
from spark_eos.log.data_place import data_place
from spark_eos.log.time_travel import iso
from spark_eos.log.timekeeping import MEND, is_ahead
from spark_eos.maintenance.verify.chain import Chain
from spark_eos.maintenance.verify.data import DataCheck
from spark_eos.maintenance.verify.index_pages import IndexPageCheck
from spark_eos.maintenance.verify.report import Finding, FindingCollector, Summary, Verdict
from spark_eos.protocol.state import State
from spark_eos.storage import NO_SETTINGS, Settings, Store, open_store

__all__ = ["Finding", "Summary", "Verdict", "verify"]


def verify(
    url: str | os.PathLike[str] | Store,
    found: Callable[[Finding], None],
    *,
    repair: bool = False,
    quick: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
    settings: Settings = NO_SETTINGS,
    clock: Clock = SYSTEM,
) -> Summary:
    """Look at everything there is of the log at ``url``; ``found`` is called with each finding as it is made.

    ``quick`` reads no data and no retired entries; ``progress`` is called with (what, done, of how many);
    ``settings`` are those of an object store; the log's time is compared with ``clock``.
    Raises `NotALogError`, `UnsupportedVersionError` for what a newer version wrote, and what the store raises when
    it is not there.
    """
    store = url if isinstance(url, Store) else open_store(url, settings)
    notes = FindingCollector(found, progress)
    pages = IndexPageCheck(store, notes, repair=repair)
    state = Chain(store, pages, notes, repair=repair, quick=quick).walk()
    _check_time(state, clock.now_ms(), notes)
    DataCheck(data_place(state).of(store), pages, notes, quick=quick).check(state)
    return notes.summary


def _check_time(state: State, now_ms: int, notes: FindingCollector) -> None:
    """By this machine's clock: to ask a store for the time makes an object, and looking never writes."""
    if is_ahead(state, now_ms):
        notes.add(
            Verdict.NOTE,
            paths.entry(state.seq, state.entries_per_folder),
            f"the log's time is {iso(state.timestamp_ms)}, that of this machine {iso(now_ms)}: a wrong clock has "
            "driven the log's time ahead, and what was used since does not expire; or this machine's clock is behind",
            MEND,
        )
