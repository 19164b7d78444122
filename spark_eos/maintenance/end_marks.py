"""Notes in the store of where the log stood when: what one pass of maintenance tells a later one."""

from __future__ import annotations

import re
from typing import NamedTuple

from spark_eos.errors import ObjectNotFoundError
from spark_eos.storage import Store

__all__ = ["LogEndMarks", "Milestone"]

_LINE = re.compile(r"^([0-9]{1,18}) ([0-9]{1,18})$", re.MULTILINE | re.ASCII)

_KEPT = 50
"""Of them for the time that is waited."""


class Milestone(NamedTuple):
    """At ``time_ms`` since 1970, by the clock of the process that noted it, the log stood at ``seq``."""

    time_ms: int
    seq: int


class LogEndMarks:
    """One file of them; lines that are none are passed over. Two who note at once lose one, which waits longer."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name

    def read(self, limit: int) -> list[Milestone]:
        """All of them up to ``limit``, by time: what lies after it was noted of another log."""
        try:
            text = bytes(self._store.read(self._name)).decode("ascii", "replace")
        except ObjectNotFoundError:
            return []
        milestones = (Milestone(int(found[1]), int(found[2])) for found in _LINE.finditer(text))
        return sorted(one for one in milestones if one.seq <= limit)

    def add(self, milestones: list[Milestone], new: Milestone, wait_ms: float) -> None:
        """Add one to those that were read, unless there is a recent one; of those past the wait one stays."""
        if milestones and new.time_ms - milestones[-1].time_ms < wait_ms / _KEPT:
            return
        limit_ms = new.time_ms - wait_ms
        old = [one for one in milestones if one.time_ms <= limit_ms][-1:]
        kept = [*old, *(one for one in milestones if one.time_ms > limit_ms), new]
        self._store.overwrite(self._name, "".join(f"{one.time_ms} {one.seq}\n" for one in kept).encode())
