"""Rows of a consumer's partitions, which take turns."""

from __future__ import annotations

from collections.abc import Iterable

from spark_eos.clients.assigned import Assigned, OutOfRange
from spark_eos.clients.offsets import Offsets
from spark_eos.errors import EosLogError, OffsetOutOfRangeError
from spark_eos.log.log import Log
from spark_eos.log.plan import partition_of
from spark_eos.log.read import Records
from spark_eos.log.topics import layout_of
from spark_eos.protocol.state import State
from spark_eos.protocol.types import TopicPartition

__all__ = ["NO_LIMIT", "Fetcher"]

NO_LIMIT = 2**62
"""In place of a number of rows: one stored batch of each partition at most."""


class Fetcher:
    """Takes rows from the partitions in ``assigned``, the one that waited longest first."""

    def __init__(self, log: Log, offsets: Offsets, assigned: dict[TopicPartition, Assigned]) -> None:
        self._log = log
        self._offsets = offsets
        self._assigned = assigned

    def turns(self, state: State, limit: int, *, alike: bool = False) -> Iterable[tuple[Assigned, Records]]:
        """Rows of one partition after the other, until there are ``limit``; the next call starts behind.

        An error is raised only if nothing was found before: what was taken is never lost.
        """
        found: list[tuple[Assigned, Records]] = []
        layout = None
        for at in list(self._assigned):
            assigned = self._assigned[at]
            if assigned.paused or limit <= 0:
                continue
            if alike and layout is not None and layout_of(assigned.topic).physical != layout:
                continue
            while limit > 0:
                try:
                    taken = self._take(assigned, state, limit)
                except (EosLogError, OSError):
                    if found:
                        return found
                    raise
                if taken is None:
                    break
                layout = layout_of(assigned.topic).physical
                found.append((assigned, taken))
                limit -= taken.num_rows
                self._assigned[at] = self._assigned.pop(at)
                if limit > NO_LIMIT // 2:
                    break
        return found

    def _take(self, assigned: Assigned, state: State, limit: int) -> Records | None:
        if assigned.position is None:
            assigned.check_topic(state)
            if self._offsets.is_pending(state, assigned.at):
                return None  # Where to start is part of an open transaction: wait for its end.
            self._offsets.start(assigned, state)
        try:
            return assigned.take(state, limit)
        except OutOfRange:
            state = self._log.follow()
            partition = partition_of(state, assigned.at)
            if not self._offsets.resets:
                raise OffsetOutOfRangeError(
                    f"offset {assigned.position} of {assigned.at} is out of range: it has {partition.start} to "
                    f"{partition.end}. Seek, or set auto.offset.reset"
                ) from None
            assigned.seek(self._offsets.reset_offset(assigned.at, state))
            return assigned.take(state, limit)
