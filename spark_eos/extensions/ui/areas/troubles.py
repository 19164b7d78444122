"""What is wrong with the log: what ``eoslog status`` says, each with the view that shows more."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from spark_eos.errors import EosLogError
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Answer
from spark_eos.log import paths
from spark_eos.monitoring.lag import Lag, lags_at
from spark_eos.monitoring.members import SilentMember
from spark_eos.monitoring.sizes import Size, Sizes
from spark_eos.monitoring.status import silent_or_refused, space_troubles, view_of
from spark_eos.monitoring.troubles.of_state import of_snapshots, troubles_of
from spark_eos.monitoring.troubles.trouble import LOG, Level, Trouble, worst_first
from spark_eos.protocol.state import PartitionKey, State

_FOR_S = 3.0
"""What is computed over all readers is computed again after so many seconds at the earliest."""

_REQUESTS_FOR_S = 30.0
"""And what costs requests, for all browsers together."""

_LEVELS: dict[Level, str] = {"critical": "bad", "warning": "warn", "note": "note"}

_VIEWS = {
    "hanging transaction": "transactions",
    "held back": "transactions",
    "prepared waits": "transactions",
    "publication behind": "publications",
    "publication unfinished": "publications",
    "clock": "health",
    "disk full": "storage",
    "little space": "storage",
    "read-only": "storage",
    "damage": "health",
    "no backup": "health",
    "no verify": "health",
    "small batches": "storage",
    "no snapshot": "storage",
    "retention behind": "storage",
    "query silent": "groups",
}
"""Others are about a reader, and shown with it."""


def troubles(follower: Follower) -> list[Trouble]:
    """The worst first."""
    worst_first: list[Trouble] = follower.remember("troubles", lambda: _look(follower), for_s=_FOR_S)
    return worst_first


def lags_now(follower: Follower, has: Callable[[State], bool] | None = None) -> tuple[State, list[Lag]]:
    """How far all readers are behind, and the state that says so; a new one, if ``has`` misses something in it.

    What is not even in the newest state is missed in the state that is returned, too.
    """

    def measure() -> tuple[State, list[Lag]]:
        state = follower.state
        return state, lags_at(follower.log, state, follower.now_ms())

    def serves(earlier: tuple[State, list[Lag]]) -> bool:
        return has is None or has(earlier[0]) or not has(follower.state)

    measured: tuple[State, list[Lag]] = follower.remember("lags", measure, for_s=_FOR_S, serves=serves)
    return measured


def sizes(follower: Follower) -> dict[PartitionKey, Size]:
    """What the partitions hold."""
    memo: Sizes = follower.memory.setdefault("sizes", Sizes())
    measured: dict[PartitionKey, Size] = follower.remember(
        "measured sizes", lambda: memo.of(follower.state), for_s=_REQUESTS_FOR_S
    )
    return measured


def newest_snapshot(follower: Follower) -> int | None:
    """The entry of the newest snapshot, 0 if there is none; None if the store does not say."""

    def look() -> int | None:
        try:
            seqs = [paths.snapshot_seq(info.name) for info in follower.store.list(paths.SNAPSHOTS)]
        except EosLogError:
            return None
        return max((seq for seq in seqs if seq is not None), default=0)

    newest: int | None = follower.remember("newest snapshot", look, for_s=_REQUESTS_FOR_S)
    return newest


def silent_members(follower: Follower) -> tuple[SilentMember, ...]:
    """Members without a sign of life, as far as that may be looked at."""
    return _silent(follower)[0] or ()


def as_found(trouble: Trouble, state: State) -> Answer:
    """As the first page lists it."""
    view = _VIEWS.get(trouble.name)
    row: Answer = {"level": _LEVELS[trouble.level], "text": trouble.text}
    if trouble.name == "fenced":
        return {**row, "to": "transactions", "name": trouble.about}
    if view is not None:
        return {**row, "to": view}
    if not trouble.about:
        return {**row, "to": "groups"}
    return {**row, "to": "query" if trouble.about in state.queries else "group", "name": trouble.about}


def commands(trouble: Trouble, follower: Follower) -> list[str]:
    """What to type: what cures it, else what shows more."""
    return [
        shlex.join(["eoslog", *(follower.url if word == LOG else word for word in words)])
        for words in trouble.cure or trouble.look
    ]


def _look(follower: Follower) -> list[Trouble]:
    state, lags = lags_now(follower)
    small = {key: size.small for key, size in sizes(follower).items()}
    silent, refused = _silent(follower)
    view = view_of(follower.log, state, follower.now_ms(), lags, small, silent or ())
    newest = newest_snapshot(follower)
    space = follower.remember(
        "space", lambda: space_troubles(follower.store, state, follower.space), for_s=_REQUESTS_FOR_S
    )
    return worst_first(
        [
            *space,
            *refused,
            *troubles_of(view),
            *(of_snapshots(state, newest) if newest is not None else ()),
        ]
    )


def _silent(follower: Follower) -> tuple[tuple[SilentMember, ...] | None, list[Trouble]]:
    def look() -> tuple[tuple[SilentMember, ...] | None, list[Trouble]]:
        try:
            return silent_or_refused(follower.log, follower.state, follower.now_ms(), follower.settings)
        except EosLogError:  # That the store is away is said elsewhere.
            return None, []

    seen: tuple[tuple[SilentMember, ...] | None, list[Trouble]] = follower.remember(
        "silent members", look, for_s=_REQUESTS_FOR_S
    )
    return seen
