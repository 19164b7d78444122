"""Entries that one process of a simulated world has read are not decoded and applied again by the others.

What an entry leads to depends on the entries before it and on nothing else, so this changes no run; it makes
most of them twice as fast. Some runs do without, so that it would be seen if it were not so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from spark_eos.log.commit import tail
from spark_eos.protocol.actions import Entry
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.rules.apply import Outcome, apply_entry
from spark_eos.protocol.state import State
from spark_eos.storage.store import Data

__all__ = ["remembering"]


@contextmanager
def remembering() -> Iterator[None]:
    """Within it, every `Tail` shares what the others have read."""
    decoded: dict[int, tuple[Data, Entry]] = {}
    applied: dict[int, tuple[Entry, tuple[State, tuple[Outcome, ...]]]] = {}

    def decode(data: Data, seq: int, source: str) -> Entry:
        known = decoded.get(seq)
        if known is None or known[0] != data:
            known = decoded[seq] = (data, decode_entry(data, seq, source))
        return known[1]

    def apply(state: State, entry: Entry) -> tuple[State, tuple[Outcome, ...]]:
        known = applied.get(entry.seq)
        if known is None or known[0] is not entry or state.seq + 1 != entry.seq:
            known = applied[entry.seq] = (entry, apply_entry(state, entry))
        return known[1]

    with mock.patch.object(tail, "decode_entry", decode), mock.patch.object(tail, "apply_entry", apply):
        yield
