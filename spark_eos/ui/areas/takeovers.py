"""Transactional ids whose producers were fenced lately in the middle of something: by two programs, or by crashes."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from spark_eos.errors import EosLogError
from spark_eos.log.snapshots.snapshots import newest_snapshot
from spark_eos.log.time_travel import replay
from spark_eos.monitoring.fencings import Fencing, added
from spark_eos.protocol.state import EMPTY, State
from spark_eos.ui.follower import Follower
from spark_eos.ui.question import Answer

__all__ = ["taken_over"]

_FOR_MS = 600_000
"""So long the page tells it."""

_SHOWN = 5


class _Seen(NamedTuple):
    """How far the log was looked at, and what was found."""

    state: State
    found: list[Fencing]


def taken_over(follower: Follower) -> list[Answer]:
    """What needs attention: ids by how often their producers were fenced, the most first. Restarts are left out.

    The first look begins with the newest snapshot.
    """
    seen: _Seen = follower.remember("fencings", lambda: _look_on(follower), for_s=0.0)
    by_id: dict[str, list[Fencing]] = defaultdict(list)
    for one in seen.found:
        if one.transactional_id and not one.is_restart:
            by_id[one.transactional_id].append(one)
    worst = sorted(by_id.items(), key=lambda one: (-len(one[1]), one[0]))[:_SHOWN]
    return [
        {
            "level": "warn" if len(found) > 1 else "note",
            "text": f"producers of {name!r} were fenced {f'{len(found):,} times' if len(found) > 1 else 'once'} with a "
            f"transaction open, the last time in entry {found[-1].entry:,} (the epoch is {found[-1].epoch:,} now): a "
            "crash, an abort, or two programs that use one transactional id",
            "to": "transactions",
            "name": name,
        }
        for name, found in worst
    ]


def _look_on(follower: Follower) -> _Seen:
    """Entries are read only if an epoch has risen since the last look."""
    key, state = "seen fencings", follower.state
    seen: _Seen | None = follower.memory.get(key)
    if seen is None:
        seen = _Seen(_earlier(follower), [])
    found = [one for one in seen.found if one.timestamp_ms >= state.timestamp_ms - _FOR_MS]
    before = _epochs(seen.state)
    if any(epoch > before.get(name, 0) for name, epoch in _epochs(state).items()):
        try:
            for step in replay(follower.log, seen.state, state.seq):
                found = added(found, step)
        except EosLogError:
            pass  # What is to be seen of a damaged entry, or a store that is away, is said elsewhere.
    seen = follower.memory[key] = _Seen(state, found)
    return seen


def _earlier(follower: Follower) -> State:
    try:
        return newest_snapshot(follower.store) or EMPTY
    except EosLogError:
        return follower.state


def _epochs(state: State) -> dict[str, int]:
    return {name: state.producers[number].epoch for name, number in state.transactional_ids.items()}
