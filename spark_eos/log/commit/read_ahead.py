"""Entries that were said to be there, read from the store at the same time: one after the other, each takes a request.

A process that is far behind would else read as fast as one writer writes, and never get to the end.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress

import pyarrow as pa

from spark_eos.errors import ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.log.clock import Clock
from spark_eos.storage import Store

AHEAD = 16
"""So many entries are read at a time, at most."""

_BELIEVED_S = 2.0
"""What was read longer ago is read again: an entry may be retired, or the log put back from a copy."""


class ReadAhead:
    """For one thread. What was said is not believed: an entry that is not there is an `ObjectNotFoundError`.

    Parameters
    ----------
    store
        Where the log is.
    make_pool
        As `spark_eos.log.environment.Environment.pool`; called when two entries are missing or more.
    clock
        Tells what was read long ago.
    """

    def __init__(self, store: Store, make_pool: Callable[[int, str], Executor], clock: Clock) -> None:
        self._store = store
        self._make_pool = make_pool
        self._clock = clock
        self._reads: dict[int, tuple[float, Future[pa.Buffer]]] = {}

    def read(self, seq: int, newest: int, entries_per_folder: int) -> pa.Buffer:
        """Entry ``seq``, and begin to read the next ones up to ``newest``, which are said to be there."""
        now = self._clock.monotonic()
        self._reads = {
            entry_seq: begun
            for entry_seq, begun in self._reads.items()
            if entry_seq >= seq and now - begun[0] <= _BELIEVED_S
        }
        if seq not in self._reads and newest > seq:
            self._begin(range(seq, min(newest + 1, seq + AHEAD)), entries_per_folder, now)
        if seq in self._reads:
            try:
                return self._reads.pop(seq)[1].result()
            except ObjectNotFoundError:
                self.forget()  # It may have come since.
        return self._store.read(paths.entry(seq, entries_per_folder))

    def forget(self) -> None:
        """What was read so far may be of long ago."""
        self._reads = {}

    def _begin(self, seqs: range, entries_per_folder: int, now: float) -> None:
        pool = self._make_pool(len(seqs), "read-ahead")
        for seq in seqs:
            if seq not in self._reads:
                with suppress(RuntimeError):  # The interpreter ends: one is read after the other.
                    self._reads[seq] = (
                        now,
                        pool.submit(self._store.read, paths.entry(seq, entries_per_folder)),
                    )
        pool.shutdown(wait=False)  # Its threads end when all is read.
