"""Rows of a consumer's partitions, which take turns."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress

from spark_eos.clients.consumer.offset_manager import OffsetManager
from spark_eos.clients.consumer.partition_state import OutOfRange, PartitionState
from spark_eos.clients.consumer.prefetcher import Prefetcher
from spark_eos.errors import EosLogError, OffsetOutOfRangeError
from spark_eos.log.data.planner import partition_of
from spark_eos.log.data.records import Records
from spark_eos.log.log import Log
from spark_eos.log.topics import layout_of
from spark_eos.protocol.state import State
from spark_eos.protocol.types import TopicPartition

_LOG = logging.getLogger(__name__)

NO_LIMIT = 2**62
"""In place of a number of rows: one stored batch of each partition at most."""


class Fetcher:
    """Takes rows from the partitions in ``assigned``, the one that waited longest first."""

    def __init__(
        self, log: Log, offsets: OffsetManager, assigned: OrderedDict[TopicPartition, PartitionState]
    ) -> None:
        self._log = log
        self._offsets = offsets
        self._assigned = assigned
        self._checkpoints: list[tuple[PartitionState, int | None]] = []
        """Where partitions stood when rows were taken from them, since `start_poll`."""
        self._prefetcher = Prefetcher(log)

    def start_poll(self) -> None:
        """The caller has got all that was taken before."""
        self._checkpoints = []

    def rewind(self) -> None:
        """The caller gets nothing of what was taken since `start_poll`: it is taken again."""
        for assigned, position in reversed(self._checkpoints):
            assigned.seek(position)

    def fetch(
        self, state: State, limit: int, *, alike: bool = False
    ) -> Iterable[tuple[PartitionState, Records]]:
        """Rows of one partition after the other, until there are ``limit``; the next call starts after.

        An error is raised only if nothing was found before: what was taken is never lost.
        """
        batches: list[tuple[PartitionState, Records]] = []
        layout = None
        self._plan_ahead(state, limit)
        for at in list(self._assigned):
            assigned = self._assigned[at]
            if assigned.paused or limit <= 0:
                continue
            if alike and layout is not None and layout_of(assigned.topic).physical != layout:
                continue
            while limit > 0:
                try:
                    rows = self._take(assigned, state, limit)
                except (EosLogError, OSError):
                    if batches:
                        return batches
                    raise
                if rows is None:
                    break
                layout = layout_of(assigned.topic).physical
                batches.append((assigned, rows))
                limit -= rows.num_rows
                self._assigned.move_to_end(at)
                if limit > NO_LIMIT // 2:
                    break
        return batches

    @property
    def bytes_read(self) -> int:
        """How many bytes of stored batches were read since the start."""
        return self._prefetcher.bytes_read

    def close(self) -> None:
        """Forget what was read ahead."""
        self._prefetcher.close()

    def _plan_ahead(self, state: State, limit: int) -> None:
        """Where reading takes its time: plan all partitions before the first of them is read."""
        if self._log.store.requests_are_free:
            return
        reading = [assigned for assigned in self._assigned.values() if not assigned.paused]
        for assigned in reading:
            # What is wrong is said when the partition's turn has come.
            with suppress(EosLogError, OSError, OutOfRange):
                if self._is_placed(assigned, state):
                    assigned.prepare(state)
        self._prefetcher.plan(reading, 1 if limit > NO_LIMIT // 2 else limit)

    def _take(self, assigned: PartitionState, state: State, limit: int) -> Records | None:
        if not self._is_placed(assigned, state):
            return None
        self._checkpoints.append((assigned, assigned.position))
        try:
            return assigned.take(state, limit, self._prefetcher.read)
        except OutOfRange:
            state = self._log.follow()
            partition = partition_of(state, assigned.at)
            if not self._offsets.resets:
                raise OffsetOutOfRangeError(
                    f"offset {assigned.position} of {assigned.at} is out of range: it has {partition.start} to "
                    f"{partition.end}. Seek, or set auto.offset.reset"
                ) from None
            offset = self._offsets.reset_offset(assigned.at, state)
            _LOG.warning(
                "offset %d of %s is out of range: it has %d to %d. Reading goes on at %d, as auto.offset.reset says",
                *(assigned.position, assigned.at, partition.start, partition.end, offset),
            )
            self._checkpoints[-1] = (assigned, offset)
            assigned.seek(offset)
            return assigned.take(state, limit, self._prefetcher.read)

    def _is_placed(self, assigned: PartitionState, state: State) -> bool:
        """Whether it has a position; False: where to start is part of an open transaction, wait for its end."""
        if assigned.position is None:
            assigned.check_topic(state)
            if self._offsets.is_pending(state, assigned.at):
                return False
            self._offsets.start(assigned, state)
        return True
