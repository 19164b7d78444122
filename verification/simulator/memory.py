"""Entries that one process of a simulated world has read are not decoded and applied again by the others.

What an entry leads to depends on the entries before it and on nothing else, so this changes no run; it makes most of
them twice as fast. Some runs do without, so that a difference would be seen.
"""

from __future__ import annotations

from spark_eos.protocol.actions import Entry
from spark_eos.protocol.encoding.entries import decode_entry
from spark_eos.protocol.rules.apply import Outcome, apply_entry
from spark_eos.protocol.state import State
from spark_eos.storage.store import Data

__all__ = ["Memory"]


class Memory:
    """What the tails of one world have read. Its methods stand for `decode_entry` and `apply_entry`."""

    def __init__(self) -> None:
        self._decoded: dict[int, tuple[Data, Entry]] = {}
        self._applied: dict[int, tuple[Entry, tuple[State, tuple[Outcome, ...]]]] = {}

    def decode(self, data: Data, seq: int, source: str) -> Entry:
        """The entry."""
        known = self._decoded.get(seq)
        if known is None or known[0] != data:
            known = self._decoded[seq] = (data, decode_entry(data, seq, source))
        return known[1]

    def apply(self, state: State, entry: Entry) -> tuple[State, tuple[Outcome, ...]]:
        """The state after the entry, and what the rules made of its requests."""
        known = self._applied.get(entry.seq)
        if known is None or known[0] is not entry or state.seq + 1 != entry.seq:
            known = self._applied[entry.seq] = (entry, apply_entry(state, entry))
        return known[1]
