"""Logs with many entries, made as quickly as entries can be encoded: in memory, none of them retired."""

from __future__ import annotations

from collections.abc import Callable

from spark_eos import Admin, Log, TopicPartition
from spark_eos.log import paths
from spark_eos.protocol.actions import Entry
from spark_eos.protocol.encoding.entries import decode_entry, encode_entry
from spark_eos.protocol.encoding.snapshots import encode_snapshot
from spark_eos.protocol.rules.apply import apply_entry
from spark_eos.storage import MemoryStore

__all__ = ["WIDE", "written"]

WIDE = 10_000
"""Partitions of its topic."""

_TOLD = 100_000


def written(
    length: int, tell: Callable[[str], None] = lambda _: None, *, partitions: int | None = None
) -> MemoryStore:
    """The store of a log of so many entries, which commit a group's offset, with one snapshot near the end.

    ``partitions``: of its topic; `WIDE` without it.
    """
    store = MemoryStore()
    log = Log.create(store)
    Admin(log).create_topic("wide", partitions or WIDE)
    Admin(log).alter_group_offsets("readers", {TopicPartition("wide", 0): 0})
    state = log.follow()
    request = decode_entry(store.read(paths.entry(state.seq)), state.seq, "entry").requests[0]
    while state.seq < length:
        seq = state.seq + 1
        request = request._replace(
            request_id=seq.to_bytes(16, "big"),
            timestamp_ms=max(request.timestamp_ms, state.timestamp_ms) + 100,
        )
        entry = Entry(seq, (request,), state.lineage, state.rules)
        store.create(paths.entry(seq, state.entries_per_folder), encode_entry(entry))
        state, _ = apply_entry(state, entry)
        if seq == length - length % 200:
            store.create(paths.snapshot(seq), encode_snapshot(state))
        if seq % _TOLD == 0:
            tell(f" {seq:,} of {length:,} entries are written")
    return store
