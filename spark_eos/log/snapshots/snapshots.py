"""Snapshots: the state after an entry, so that no process has to read what came before it.

Any process may write one after a boundary (`spark_eos.protocol.rules.sealing`): all write the same bytes. The process
that created the boundary's entry does it, right after; if it died, the process that creates the next boundary's.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from spark_eos.errors import (
    CorruptRecordError,
    DivergedLogError,
    EosLogError,
    ObjectNotFoundError,
    OutcomeUnknownError,
)
from spark_eos.log import paths
from spark_eos.log.clock import SYSTEM, Clock
from spark_eos.log.gc_pause import LARGE_BYTES, MANY, paused
from spark_eos.log.snapshots.derived import create_idempotent
from spark_eos.log.snapshots.horizon import KEPT, NOWHERE, Horizon, before_open, spread
from spark_eos.log.snapshots.index_store import IndexPageStore, forget
from spark_eos.log.snapshots.worker import in_background
from spark_eos.protocol.encoding.snapshots import decode_snapshot, encode_snapshot
from spark_eos.protocol.index import IndexPage
from spark_eos.protocol.state import State
from spark_eos.storage import Store

LARGE = 256
"""Partitions from which on a snapshot may take longer than a commit should."""

LARGE_ROWS = 8192
"""Rows that were sealed and not yet encoded, from which on that may: some 10 µs each."""

LARGE_PARTS = 64
"""Parts of producers that were not yet encoded, from which on that may: some 1 ms each."""

_LOG = logging.getLogger(__name__)


def newest_snapshot(store: Store) -> State | None:
    """The newest state that is stored whole; None if there is none.

    A damaged one is passed over for an older one, and raised (`CorruptRecordError`) if none is good.
    """
    damage: CorruptRecordError | None = None
    gone: set[int] = set()
    while True:
        seqs = {paths.snapshot_seq(info.name) for info in store.list(paths.SNAPSHOTS)} - {None} - gone
        if not seqs:
            if damage is not None:
                raise damage
            return None
        for seq in sorted(seqs, reverse=True):  # type: ignore[type-var]  # None was taken out
            assert seq is not None
            name = paths.snapshot(seq)
            gone.add(seq)
            try:
                data = store.read(name)
                with paused(when=data.size > LARGE_BYTES):
                    return decode_snapshot(data, seq, f"{store.url}/{name}")
            except ObjectNotFoundError:
                break  # Newer ones have come since: look again.
            except CorruptRecordError as error:
                _LOG.warning("a snapshot is passed over: %s", error)
                damage = damage or error


class Snapshots:
    """The boundaries that one process has passed, and what it has in memory until they are stored."""

    def __init__(self, store: Store, pages: IndexPageStore, clock: Clock) -> None:
        self._store = store
        self._pages = pages
        # Simulated clocks know nothing of threads: there everything is done in turn.
        self._has_threads = clock is SYSTEM
        self._lock = threading.Lock()
        self._horizon = Horizon(store)
        self._passed: State | None = None
        self._must_store = False
        self.stored = -1
        """The newest snapshot that this process knows of, by its entry."""
        self.floor = NOWHERE
        """The snapshot up to which entries are retired, when that was looked up last (`find_floor`)."""
        self._looked_from = -1

    def passed(self, state: State, *, created: bool) -> None:
        """A boundary was read, or ``created`` by this process, which has to store the snapshot then.

        What was sealed before the boundary before this one can be dropped, if that one was stored by any process.
        """
        before, self._passed = self._passed, state
        self._horizon.saw(state)
        missed = False
        if before is not None and before.seq > self.stored:
            try:
                self._store.size(paths.snapshot(before.seq))
                # Entries are retired because of it: it must outlive a power cut, though another has stored it.
                self._store.ensure_durable(paths.snapshot(before.seq))
            except ObjectNotFoundError:
                missed = True
            except EosLogError:
                pass  # It is looked for at the next boundary.
            else:
                self.stored = max(self.stored, before.seq)
                self._forget(before)
        self._must_store = created or missed

    @property
    def is_due(self) -> bool:
        """Whether a snapshot is missing that this process should store: its own, or that of one that died."""
        return self._must_store and self._passed is not None and self._passed.seq > self.stored

    @property
    def is_floor_due(self) -> bool:
        """Whether there is a newer snapshot than when the floor was looked up last."""
        return self._looked_from != self.stored

    def find_floor(self, state: State, missing: int | None = None) -> list[int]:
        """Look up the floor at ``state``. Returns the snapshots that there are, and the one that is ``missing`` yet."""
        names = (paths.snapshot_seq(info.name) for info in self._store.list(paths.SNAPSHOTS))
        seqs = {seq for seq in (*names, missing) if seq is not None}
        self.floor, self._looked_from = self._horizon.floor(state, seqs), self.stored
        return sorted(seqs)

    @property
    def is_large(self) -> bool:
        """Whether a commit should not wait for the snapshot."""
        return self._passed is not None and self._takes_long(self._passed)

    def _takes_long(self, state: State) -> bool:
        if not self._has_threads:
            return False
        return (
            len(state.partitions) >= LARGE
            or sum(part.packed is None for part in state.producers.parts.values()) >= LARGE_PARTS
            or sum(page.rows for page in _pages(state)) >= LARGE_ROWS
        )

    def look(self) -> int:
        """Look for the newest stored snapshot, of any process: its entry, or -1. For full passes of maintenance.

        Raises `CorruptRecordError` if there are only damaged ones.
        """
        seqs = (paths.snapshot_seq(info.name) for info in self._store.list(paths.SNAPSHOTS))
        if max((seq for seq in seqs if seq is not None), default=-1) <= self.stored:
            return self.stored
        newest = newest_snapshot(self._store)
        if newest is not None and newest.seq > self.stored:
            self._store.ensure_durable(paths.snapshot(newest.seq))
            if self._passed is not None and self._passed.seq == newest.seq:
                self._forget(self._passed)
            self.stored = newest.seq
        return self.stored

    @property
    def missing(self) -> int | None:
        """The boundary that this process could store a snapshot of, if the one it knows of is older."""
        state = self._passed
        return state.seq if state is not None and state.seq > self.stored else None

    def write(self, check: Callable[[], None]) -> bool:
        """Store the newest boundary's pages and snapshot, unless they are; whether this process did.

        ``check`` raises `DivergedLogError` if files were exchanged, as it can happen while this process is paused: then
        the snapshot is of another history than the log that is there, and is deleted. Raises what the store raises;
        nothing is lost then but the memory that is kept.
        """
        with self._lock:
            state = self._passed
            if state is None or state.seq <= self.stored:
                return False
            # A snapshot must not outlive the entry it is the state of: the slot would be free again.
            self._store.ensure_durable(paths.entry(state.seq, state.entries_per_folder))
            self._pages.save(_pages(state))
            with paused(when=len(state.partitions) > MANY):
                data = encode_snapshot(state)
            self._store_snapshot(paths.snapshot(state.seq), data, check)
            self.stored = max(self.stored, state.seq)
            forget(_pages(state))
        return True

    def _store_snapshot(self, name: str, data: bytes, check: Callable[[], None]) -> None:
        try:
            create_idempotent(self._store, name, data)
        except OutcomeUnknownError:
            self._confirm(name, data, check)
            raise
        self._confirm(name, data, check)

    def _confirm(self, name: str, data: bytes, check: Callable[[], None]) -> None:
        """Delete the snapshot of this process if it is not of the log that is there. One of the same name may be."""
        try:
            check()
        except DivergedLogError:
            with suppress(ObjectNotFoundError):
                if self._store.read(name).to_pybytes() == data:
                    _LOG.warning("%s is of a history that is gone: it is deleted", name)
                    self._store.delete(name)
            raise

    def drop_old(self, state: State) -> int:
        """Delete the snapshots before the floor, and most of those after it (`spark_eos.log.snapshots.horizon`).

        The one from which all open transactions can be read stays: it will be the floor. Returns how many there were.
        """
        seqs, begun = self.find_floor(state), before_open(state)
        kept = spread(seq for seq in seqs if seq >= self.floor) | {*seqs[-KEPT:]}
        kept.update([seq for seq in seqs if begun is not None and seq <= begun][-1:])
        old = [seq for seq in seqs if seq not in kept]
        for seq in old:
            self._store.delete(paths.snapshot(seq))
        return len(old)

    def _forget(self, state: State) -> None:
        """Drop what another process has stored. It is measured first, to be found again: that may take long."""
        if not self._takes_long(state):
            forget(_pages(state))
            return

        def work() -> None:
            try:
                forget(_pages(state))
            except Exception:  # noqa: BLE001  (no caller waits for this thread)
                _LOG.exception("rows after entry %d stay in memory", state.seq)

        in_background(work)


def _pages(state: State) -> list[IndexPage]:
    return [page for page in state.sealed_pages() if page.is_held]
