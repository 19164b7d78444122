"""Transactional ids whose producers were fenced lately: what one snapshot says, with no entry read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from spark_eos.errors import EosLogError
from spark_eos.log.snapshots.snapshots import newest_snapshot
from spark_eos.protocol.state import EMPTY, State
from spark_eos.ui.follower import Follower
from spark_eos.ui.question import Answer

__all__ = ["taken_over"]

_FOR_S = 600
"""The newest snapshot is read again after so many seconds at the earliest."""

_SHOWN = 5


class _Earlier(NamedTuple):
    """The epochs of all transactional ids after an entry."""

    seq: int
    epochs: Mapping[str, int]


def taken_over(follower: Follower) -> list[Answer]:
    """What needs attention: ids whose epoch has risen since a snapshot, those that rose most first.

    A Spark query that was started again once is as it should be, and left out.
    """
    earlier: _Earlier = follower.remember("epochs", lambda: _earlier(follower), for_s=_FOR_S)
    found = []
    for name, epoch in _epochs(follower.state).items():
        rise = epoch - earlier.epochs.get(name, 0)
        if rise > (1 if name in follower.state.queries else 0):
            found.append((rise, name, epoch))
    found.sort(key=lambda one: (-one[0], one[1]))
    return [
        {
            "level": "warn" if rise > 1 else "note",
            "text": f"producers of {name!r} were fenced {f'{rise:,} times' if rise > 1 else 'once'} since entry "
            f"{max(earlier.seq, 0):,} (the epoch is {epoch:,} now): a restart, an abort, or two programs that use one "
            "transactional id",
            "to": "transactions",
            "name": name,
        }
        for rise, name, epoch in found[:_SHOWN]
    ]


def _earlier(follower: Follower) -> _Earlier:
    try:
        state = newest_snapshot(follower.store) or EMPTY
    except EosLogError:
        state = (
            follower.state
        )  # What is to be seen of a damaged snapshot, or a store that is away, is said elsewhere.
    return _Earlier(state.seq, _epochs(state))


def _epochs(state: State) -> dict[str, int]:
    return {name: state.producers[number].epoch for name, number in state.transactional_ids.items()}
