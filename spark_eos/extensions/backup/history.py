"""The part of a log's history that a backup has: a state, and the entries after it up to the newest one.

If there is an earlier backup of the same history, the new one begins where that one ends: every entry between them can
be restored. Else it begins at the oldest snapshot of the log whose entries are still there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from spark_eos.errors import CorruptRecordError, EosLogError, ObjectNotFoundError
from spark_eos.extensions.backup.manifest import Manifest, Pack
from spark_eos.extensions.backup.repository import Repository
from spark_eos.log import paths
from spark_eos.log.commit.closing import is_closing
from spark_eos.log.handle.unfinished import not_a_log
from spark_eos.protocol.actions import AppendBatches, Entry, ReplaceSegments
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.encoding.snapshots import decode_snapshot
from spark_eos.protocol.index import IndexRow, Load
from spark_eos.protocol.rules.apply import apply_entry
from spark_eos.protocol.state import EMPTY, State
from spark_eos.storage import Store
from spark_eos.storage.probe import is_there


@dataclass
class History:
    """States and entries.

    ``states`` are those after ``first`` (the earliest entry that may be restored) and after each entry since; ``added``
    are these entries. ``entries`` are the stored bytes that no earlier backup has, ``packs`` are those of earlier ones.
    ``snapshots`` are the stored bytes by entry, with their states; ``earlier_snapshots`` are the entries
    of those that an earlier backup has.
    """

    states: list[State] = field(default_factory=list)
    added: list[Entry] = field(default_factory=list)
    entries: dict[int, pa.Buffer] = field(default_factory=dict)
    packs: tuple[Pack, ...] = ()
    snapshots: dict[int, tuple[State, pa.Buffer]] = field(default_factory=dict)
    earlier_snapshots: frozenset[int] = frozenset()

    @property
    def last(self) -> State:
        """The newest state."""
        return self.states[-1]

    def then(self, data: pa.Buffer, seq: int, where: str, *, keep: bool) -> None:
        """Apply the next entry. ``keep``: its state may be restored."""
        entry = decode_entry(data, seq, where)
        state, _ = apply_entry(self.states[-1] if self.states else EMPTY, entry)
        if keep and self.states and self.states[-1].seq >= 0:
            self.states.append(state)
            self.added.append(entry)
        else:
            self.states[:] = [state]


class _GapError(Exception):
    """The entries that are there do not lead to the newest one."""


def read_history(
    source: Store, repository: Repository, earlier: Manifest | None, *, newest: bool = False
) -> History:
    """What is to be backed up now. ``newest``: begin at the newest snapshot, because something older is gone.

    Raises `NotALogError`, `CorruptRecordError`, and what the stores raise.
    """
    if not is_there(source, paths.entry(0)):
        raise not_a_log(source)
    if earlier is not None and not newest:
        with suppress(_GapError, CorruptRecordError, ObjectNotFoundError):
            return _going_on(source, repository, earlier)
    while True:
        seqs = _snapshots(source)
        for seq in seqs[-1:] if newest else seqs:
            with suppress(_GapError, ObjectNotFoundError):
                return _from_snapshot(source, seq)
        if not seqs:
            with suppress(_GapError):
                return _from_snapshot(source, None)
        newer = _snapshots(source)
        if newer == seqs:
            raise CorruptRecordError(
                f"the entries of {source.url} do not lead from a snapshot to its end: run eoslog verify {source.url}"
            )


def split(store: Store, pack: Pack) -> Iterator[tuple[int, pa.Buffer]]:
    """The entries in a pack."""
    data = store.read(pack.file.object_name)
    at = 0
    for seq, size in enumerate(pack.sizes, pack.first):
        yield seq, data.slice(at, size)
        at += size


def _going_on(source: Store, repository: Repository, earlier: Manifest) -> History:
    """The history of an earlier backup, and what came since."""
    store, last = repository.store, earlier.backup.last
    stored = {paths.snapshot_seq(file.name): file for file in earlier.files}
    base = max((seq for seq in stored if seq is not None), default=-1)
    history = History(
        packs=earlier.packs, earlier_snapshots=frozenset(seq for seq in stored if seq is not None)
    )
    if base >= 0:
        data = store.read(stored[base].object_name)
        state = decode_snapshot(data, base, f"{store.url}/{stored[base].object_name}")
        history.states = [state]
        history.snapshots[base] = state, data
    last_data, packs = None, []
    for pack in sorted(earlier.packs, key=lambda pack: pack.first):
        after = pack.first + len(pack.sizes)
        if after <= base and pack.first:
            continue  # The snapshot covers these entries.
        packs.append(pack)
        if after <= base and after == 1:
            continue  # The pack has entry 0 alone. It stays in the backup; the states begin later.
        for seq, data in split(store, pack):
            if after <= base:  # The snapshot covers all of the pack but entry 0, which each log needs.
                history.entries[0] = data
                packs.pop()
                break
            history.entries[seq] = data
            if seq == (history.states[-1].seq if history.states else -1) + 1:
                history.then(
                    data, seq, f"{store.url}/{pack.file.object_name}", keep=seq > earlier.backup.first
                )
            if seq == last:
                last_data = data
    if last_data is None or not history.states or history.last.seq != last:
        raise _GapError
    name = paths.entry(last, earlier.per_folder)
    if source.read(name) != last_data:
        raise _GapError  # The entry is retired, or the log was replaced by one with another history.
    _follow(source, history, _snapshots(source))
    history.packs = _merged(packs, history)
    return history


def _merged(packs: list[Pack], history: History) -> tuple[Pack, ...]:
    """The packs that stay. ``history.entries`` is left with the entries for a new pack.

    The last packs become part of the new one as long as each has at most as many entries as come after it. So there are
    few packs after any number of backups, and each entry is stored again a few times only.
    """
    remaining = [*packs]
    new = history.last.seq + 1 - (packs[-1].first + len(packs[-1].sizes)) if packs else 0
    while new > 0 and remaining and remaining[-1].first and len(remaining[-1].sizes) <= new:
        new += len(remaining.pop().sizes)
    for pack in remaining:
        for seq in range(pack.first, pack.first + len(pack.sizes)):
            history.entries.pop(seq, None)
    return (*remaining,)


def _from_snapshot(source: Store, seq: int | None) -> History:
    history = History()
    if seq is not None:
        data = source.read(paths.snapshot(seq))
        state = decode_snapshot(data, seq, f"{source.url}/{paths.snapshot(seq)}")
        history.states = [state]
        history.snapshots[seq] = state, data
        history.entries[0] = source.read(paths.entry(0))
        with suppress(ObjectNotFoundError):
            # The snapshot covers this entry, too. It is backed up because it shows which history the snapshot is of.
            data = source.read(paths.entry(seq, state.entries_per_folder))
            if data.size and seq:
                history.entries[seq] = data
    _follow(source, history, _snapshots(source))
    return history


def _follow(source: Store, history: History, stored: list[int]) -> None:
    """Read what is there of the log after the newest state."""
    while True:
        state = history.states[-1] if history.states else EMPTY
        seq = state.seq + 1
        name = paths.entry(seq, state.entries_per_folder)
        try:
            data = source.read(name)
        except ObjectNotFoundError:
            data = None
        if data is not None and is_closing(data):
            break
        if data is None or not data.size:
            # Entries that a snapshot covers are retired, and their names are deleted later.
            if any(at > state.seq for at in _snapshots(source)):
                if data is None and is_there(source, name):
                    continue  # The log has just gone on.
                raise _GapError
            if data is not None:
                raise _GapError  # Retired since.
            break
        history.then(data, seq, f"{source.url}/{name}", keep=True)
        history.entries[seq] = data
    source.ensure_durable(paths.entry(state.seq, state.entries_per_folder))
    for at in reversed(stored):
        if history.states[0].seq <= at <= state.seq and at not in history.snapshots:
            with suppress(EosLogError):
                data = source.read(paths.snapshot(at))
                snapshot = decode_snapshot(data, at, f"{source.url}/{paths.snapshot(at)}")
                if snapshot.lineage == history.states[at - history.states[0].seq].lineage:
                    history.snapshots[at] = snapshot, data
            break


def _snapshots(source: Store) -> list[int]:
    seqs = (paths.snapshot_seq(info.name) for info in source.list(paths.SNAPSHOTS))
    return sorted(seq for seq in seqs if seq is not None)


def added_rows(before: State, entry: Entry, after: State, load: Load) -> Iterator[IndexRow]:
    """The index rows that an entry has brought."""
    keys: set[tuple[str, int]] = set()
    for request in entry.requests:
        for action in request.actions:
            if isinstance(action, AppendBatches):
                ids = dict(action.topics)
                keys |= {
                    (ids.get(file.topic, ""), batch.partition)
                    for file in action.files
                    for batch in file.batches
                }
            elif isinstance(action, ReplaceSegments):
                key = (action.topic_id, action.partition)
                replaced: Any = after.partitions.get(key)
                if replaced is not None:
                    yield from _between(replaced, action.base_offset, action.next_offset, load)
    for key in sorted(keys):
        partition, earlier = after.partitions.get(key), before.partitions.get(key)
        if partition is not None:
            yield from partition.index.scan(0 if earlier is None else earlier.end, load)


def _between(partition: Any, first: int, end: int, load: Load) -> Iterator[IndexRow]:
    for row in partition.index.scan(first, load):
        if row.base_offset >= end:
            return
        yield row
