"""Producers that were fenced lately with something open: by two programs of one id, or by one that crashes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from spark_eos.log.log import Log
from spark_eos.monitoring.fencings import Fencing, fencings
from spark_eos.monitoring.troubles.trouble import LOG, Trouble, age
from spark_eos.protocol.state import State

__all__ = ["of_fencings"]

_FENCED_MS = 3_600_000
_ENTRIES = 100
"""Entries in which it is looked for producers that were fenced in the last hour."""

_OFTEN = 3
"""An id whose producer was fenced so often in an hour is used by two programs at once, or by one that crashes."""


def of_fencings(log: Log, state: State, now_ms: int) -> Iterator[Trouble]:
    """Ids whose producer was fenced a while ago with something open. Often is a fight, or a program that crashes.

    A program that ends and is started again, as cron does, has nothing open: that is a restart, and no trouble.
    """
    since_ms = now_ms - _FENCED_MS
    if not any(one.epoch > 0 and one.last_ms >= since_ms for one in state.producers.values()):
        return
    by_id: dict[str, list[Fencing]] = defaultdict(list)
    for one in fencings(log, max(state.seq - _ENTRIES + 1, 0), state.seq):
        if one.timestamp_ms >= since_ms and one.transactional_id and not one.is_restart:
            by_id[one.transactional_id].append(one)
    for name, found in sorted(by_id.items(), key=lambda one: -len(one[1]))[:5]:
        last = found[-1]
        writers = (
            ", ".join(sorted({repr(one.writer) for one in found if one.writer}))
            or "a client without client.id"
        )
        is_fight = len(found) >= _OFTEN
        times = f"{len(found)} times" if len(found) > 1 else "once"
        yield Trouble(
            "warning" if is_fight else "note",
            "fenced",
            f"transactional.id {name!r} was fenced {times} in the last hour, by {writers}, "
            f"{age(now_ms - last.timestamp_ms)} ago in entry {last.entry} ({last.why}): "
            f"producers with an epoch before {last.epoch} are zombies, and get PRODUCER_FENCED",
            "runbooks/zombie.md",
            (("transactions", "fencings", LOG, "--transactional-id", name),),
            (),
            "if several programs have this id, give each its own; a program that crashes and is started again keeps "
            "its id: find out why it crashes"
            if is_fight
            else "stop the old program, if it runs on",
            name,
        )
