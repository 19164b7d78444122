"""How far back a log can be read entry by entry, and which snapshots that needs.

Entries can be read for ``metadata.max.retention.ms``, by the log's time: mirrors, histories and time travel need them.
Who reads them begins with the state after an earlier one. So the oldest snapshot that stays, the *floor*, is at least
as old, and no entry after it is retired. Of the snapshots between it and the end few stay: the older, the fewer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from spark_eos.errors import CorruptRecordError, ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.protocol.encoding.snapshots import decode_snapshot
from spark_eos.protocol.rules.settings import setting
from spark_eos.protocol.state import State
from spark_eos.storage import Store

KEPT = 2
"""Snapshots that stay whatever their age: a process that has just listed them still finds the newest one."""

NOWHERE = -1
"""The floor of a log that can be read from its first entry on."""


def before_open(state: State) -> int | None:
    """The last boundary before the oldest open transaction of ``state`` began; None: no transaction is open.

    Its snapshot, and all entries after it, say what belongs to the transactions that have ended since.
    """
    begun = min(
        (state.producers[producer_id].started_seq for producer_id in state.open_transactions), default=None
    )
    return None if begun is None else (begun - 1) // state.snapshot_interval * state.snapshot_interval


def spread(seqs: Iterable[int]) -> set[int]:
    """Those snapshots that stay: the newest ones, and from there on one for each doubling of the way to the end.

    So a state is found by reading no more entries than there are after it, whatever there was dropped before, and the
    oldest one always stays. There are about twice as many as the number of boundaries has binary digits.
    """
    left = sorted(seqs, reverse=True)
    kept, left = left[:KEPT], left[KEPT:]
    while left:
        end, reach = kept[0], 2 * (kept[0] - kept[-1])
        kept.append(min((seq for seq in left if end - seq <= reach), default=left[0]))
        left = [seq for seq in left if seq < kept[-1]]
    return set(kept)


_REMEMBERED = 256
"""Snapshots whose times are remembered. Those of others are read again."""


class _Time(NamedTuple):
    """The log's time at a snapshot, and how often it was set back before."""

    timestamp_ms: float
    resets: int


_UNKNOWN = _Time(float("inf"), 1 << 62)
"""Of a snapshot that cannot be read: it is never the floor."""


class Horizon:
    """What one process knows of the times of snapshots."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._times: dict[int, _Time] = {}

    def saw(self, state: State) -> None:
        """Remember what time it was at a boundary. Not for ever: a process that only reads never asks for the floor."""
        self._times[state.seq] = _Time(state.timestamp_ms, state.time_resets)
        if len(self._times) > _REMEMBERED:
            self._times = dict([*self._times.items()][_REMEMBERED // 2 :])

    def floor(self, state: State, snapshots: Iterable[int]) -> int:
        """The newest of these snapshots up to which no reader needs the entries; `NOWHERE`: all are needed.

        The entry in which the oldest open transaction began is kept, and so are all entries after the boundary before
        it. That entry tells since when the transaction is open (`spark_eos.log.expiration`). All of them tell which
        records of the transactions that have ended since belong together (`spark_eos.log.selection.units`). What began
        after ``state`` is not known, so the floor is not after it. Times of snapshots only grow, so few are read.
        """
        begun = before_open(state)
        seqs = sorted(snapshots)
        newest = seqs[-1] if seqs else NOWHERE
        # Another thread may add one meanwhile (`saw`).
        times = [*self._times.items()]
        self._times = {seq: time for seq, time in times if seq > newest or seq in seqs}
        candidates = [seq for seq in seqs if seq <= (state.seq if begun is None else begun)]
        # Whole milliseconds: what seems to be n old may be almost n + 1.
        limit_ms = state.timestamp_ms - setting(state, "metadata.max.retention.ms") + 1
        low, high = 0, len(candidates)
        while low < high:
            middle = (low + high) // 2
            time = self._time(candidates[middle], state)
            # A time from before the log's time was set back tells nothing, and only a wrong clock made it.
            if time.timestamp_ms <= limit_ms or time.resets < state.time_resets:
                low = middle + 1
            else:
                high = middle
        return candidates[low - 1] if low else NOWHERE

    def _time(self, seq: int, state: State) -> _Time:
        time = self._times.get(seq)
        if time is None:
            name = paths.snapshot(seq)
            try:
                self.saw(decode_snapshot(self._store.read(name), seq, f"{self._store.url}/{name}"))
            except (ObjectNotFoundError, CorruptRecordError):
                self._times[seq] = _UNKNOWN
            time = self._times[seq]
        return time
