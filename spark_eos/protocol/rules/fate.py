"""Fate: whether a request was applied, as far as the state alone tells.

A writer that got no reply looks for its request in the entries. If its entry was retired before the writer saw it, only
the state is left. A request is applied as a whole or not at all, so one action that leaves a trace decides for all of
it. Each action declares its own evidence (`spark_eos.protocol.actions.declaration.declare`, ``fate``). Without it, a
writer could only report an unknown outcome, or repeat a request that was applied.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_eos.protocol.actions import Action
from spark_eos.protocol.actions.declaration import DECLARED, Fate
from spark_eos.protocol.state import State

__all__ = ["Fate", "fate_of", "is_repeatable"]


def fate_of(state: State, actions: Sequence[Action]) -> Fate:
    """Whether a request with these actions is part of ``state``, by transaction, sequence or batch number."""
    pairs = [(DECLARED[type(action)], action) for action in actions]
    for declared, action in pairs:
        if declared.fate is not None and declared.fate_decides:
            return declared.fate(state, action)
    for declared, action in pairs:
        if declared.fate is not None and (fate := declared.fate(state, action)) is not Fate.UNKNOWN:
            return fate
    return Fate.UNKNOWN


def is_repeatable(actions: Sequence[Action]) -> bool:
    """Whether applying the request twice does no harm."""
    return all(DECLARED[type(action)].is_repeatable(action) for action in actions)
