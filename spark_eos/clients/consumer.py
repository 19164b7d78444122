"""The consumer: records of assigned partitions, in order, each once."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TypeVar

import pyarrow as pa

from spark_eos.clients.config import consumer_config
from spark_eos.clients.fetcher import Assigned, OutOfRange, to_arrow, to_records
from spark_eos.clients.records import ConsumerGroupMetadata, ConsumerRecord, OffsetAndTimestamp
from spark_eos.errors import (
    ConfigError,
    EosLogError,
    IllegalStateError,
    InvalidRequestError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    UnstableOffsetCommitError,
)
from spark_eos.log.log import Log
from spark_eos.log.plan import Isolation, end_offset, partition_of
from spark_eos.log.topics import layout_of
from spark_eos.protocol.actions import CommitOffsets, PartitionOffset
from spark_eos.protocol.rules.offsets import is_pending
from spark_eos.protocol.state import State
from spark_eos.protocol.types import OffsetAndMetadata, TopicPartition

__all__ = ["Consumer"]

_LOG = logging.getLogger(__name__)

_IDLE_S = 0.05
"""How long a poll that found nothing waits before it looks again."""

_LARGE = 2**62

T = TypeVar("T")


class Consumer:
    """Reads the partitions that `assign` names. For one thread at a time, as Kafka's.

    ``config`` has Kafka's keys. ``isolation.level`` is ``read_uncommitted`` unless set, as in Kafka. Reading
    creates nothing: `NotALogError` if there is no log. ``url`` may also be an open `Log`.
    """

    def __init__(self, url: str | os.PathLike[str] | Log, config: Mapping[str, object] | None = None) -> None:
        self._settings = consumer_config(config)
        self._log = url if isinstance(url, Log) else Log.shared(url)
        self._isolation = Isolation(self._settings["isolation.level"])
        self._group: str | None = self._settings["group.id"]
        self._assigned: dict[TopicPartition, Assigned] = {}
        self._order: list[TopicPartition] = []
        self._committed: dict[TopicPartition, int] = {}
        self._next_commit = self._log.clock.monotonic() + self._settings["auto.commit.interval.ms"] / 1000
        self._closed = False

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- Assignment and positions -----------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, and no others. Those that were assigned before keep their positions.

        Raises `UnknownTopicOrPartitionError`.
        """
        self._check_open()
        wanted = [TopicPartition(*at) for at in partitions]
        state = self._log.follow()
        assigned = {}
        for at in wanted:
            topic = self._log.topic(at.topic)
            partition_of(state, at)
            known = self._assigned.get(at)
            same = known is not None and known.topic.topic_id == topic.topic_id
            if known is None or not same:
                known = Assigned(self._log, at, topic, self._isolation)
            assigned[at] = known
        self._auto_commit(now=True)
        self._assigned = assigned
        self._order = list(assigned)

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are assigned."""
        return set(self._assigned)

    def seek(self, at: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Read on from ``offset``."""
        number = offset.offset if isinstance(offset, OffsetAndMetadata) else offset
        if number < 0:
            raise InvalidRequestError(f"offset {number} cannot be sought in {at}: offsets start at 0")
        self._one(at).seek(number)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read on from the first record. Without arguments: of all assigned partitions."""
        for at, offset in self.beginning_offsets(partitions or self._order).items():
            self._one(at).seek(offset)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read on from the end; under read_committed that is the last stable offset."""
        for at, offset in self.end_offsets(partitions or self._order).items():
            self._one(at).seek(offset)

    def position(self, at: TopicPartition) -> int:
        """The offset of the next record. Raises `NoOffsetForPartitionError` as `poll`."""
        assigned = self._one(at)
        if assigned.position is None:
            self._start(assigned, self._log.follow())
        assert assigned.position is not None
        return assigned.position

    def pause(self, *partitions: TopicPartition) -> None:
        """Leave these partitions out of `poll` until `resume`."""
        for at in partitions:
            self._one(at).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Read these partitions again."""
        for at in partitions:
            self._one(at).paused = False

    # -- Records ----------------------------------------------------------------------------------------

    def poll(self, timeout_ms: int = 0, max_records: int | None = None) -> list[ConsumerRecord]:
        """The next records, at most ``max_records`` (``max.poll.records``); none after the timeout.

        Partitions take turns. Control batches, and under read_committed aborted records, are passed over.
        Raises `UnknownTopicOrPartitionError` if an assigned topic is another one now, and with
        ``auto.offset.reset=none`` `OffsetOutOfRangeError` and `NoOffsetForPartitionError`;
        `CorruptRecordError`.
        """
        limit = self._settings["max.poll.records"] if max_records is None else max_records

        def gather(state: State) -> list[ConsumerRecord]:
            return [
                record
                for assigned, offset, rows in self._turns(state, limit)
                for record in to_records(assigned.topic, assigned.at.partition, offset, rows)
            ]

        return self._wait(timeout_ms, limit, gather) or []

    def poll_arrow(self, timeout_ms: int = 0, max_records: int | None = None) -> pa.Table:
        """The next records as a table, of topics with the same columns; others come with the next call.

        Columns: ``topic``, ``partition``, ``offset``, ``timestamp``, ``key``, ``value``, ``headers``; of a
        topic with a schema ``_topic``, ``_partition``, ``_offset``, ``_timestamp`` and its own. Without
        ``max_records`` one stored batch of each partition at most. No rows after the timeout.
        """
        limit = _LARGE if max_records is None else max_records

        def gather(state: State) -> list[pa.Table]:
            return [
                to_arrow(assigned.topic, assigned.at.partition, offset, rows)
                for assigned, offset, rows in self._turns(state, limit, alike=True)
            ]

        tables = self._wait(timeout_ms, limit, gather)
        if tables:
            return pa.concat_tables(tables)
        if not self._order:
            return pa.table({})
        first = self._assigned[self._order[0]]
        empty = layout_of(first.topic).physical.empty_table()
        return to_arrow(first.topic, 0, 0, empty)

    # -- Offsets ----------------------------------------------------------------------------------------

    def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group committed; None where nothing.

        Under read_committed it waits for open transactions that carry offsets of the group: raises
        `UnstableOffsetCommitError` after ``default.api.timeout.ms``.
        """
        group = self._need_group("committed")
        wanted = [TopicPartition(*at) for at in partitions]
        clock = self._log.clock
        deadline = clock.monotonic() + self._settings["default.api.timeout.ms"] / 1000
        while True:
            state = self._log.follow()
            pending = [at for at in wanted if self._is_pending(state, group, at)]
            if not pending:
                return {at: self._committed_offset(state, group, at) for at in wanted}
            if clock.monotonic() >= deadline:
                raise UnstableOffsetCommitError(
                    f"an open transaction carries an offset of group {group!r} for {pending[0]}: wait for its end"
                )
            clock.sleep(_IDLE_S)

    def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """Commit offsets for the group (the next ones to read), or the positions of all partitions."""
        group = self._need_group("commit")
        if offsets is None:
            offsets = {at: one.position for at, one in self._assigned.items() if one.position is not None}
        wanted = []
        for at, value in offsets.items():
            offset = value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(value)
            known = self._assigned.get(at)
            topic = self._log.topic(at[0]) if known is None else known.topic
            wanted.append(PartitionOffset(at[0], topic.topic_id, at[1], offset.offset, offset.metadata))
        if wanted:
            action = CommitOffsets(group, tuple(wanted))
            self._log.commit(lambda _state: (action,), writer=self._settings["client.id"] or group)
            self._committed.update({TopicPartition(at.topic, at.partition): at.offset for at in wanted})

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The group, for `Producer.send_offsets_to_transaction`."""
        return ConsumerGroupMetadata(self._need_group("group_metadata"))

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        state = self._log.follow()
        wanted = [TopicPartition(*at) for at in partitions]
        return {at: partition_of(state, at).start for at in wanted}

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last record; under read_committed the last stable offset."""
        state = self._log.follow()
        wanted = [TopicPartition(*at) for at in partitions]
        return {at: end_offset(partition_of(state, at), self._isolation) for at in wanted}

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time (ms); None where there is none (yet)."""
        self._log.follow()
        found = {}
        for at, timestamp_ms in times.items():
            answer = self._log.offset_for_time(TopicPartition(*at), timestamp_ms, self._isolation)
            found[TopicPartition(*at)] = None if answer is None else OffsetAndTimestamp(*answer)
        return found

    def close(self) -> None:
        """Commit the positions if ``enable.auto.commit`` is on, and read no more."""
        if not self._closed:
            self._auto_commit(now=True)
            self._closed = True

    # -- Inside -----------------------------------------------------------------------------------------

    def _wait(self, timeout_ms: int, limit: int, gather: Callable[[State], list[T]]) -> list[T]:
        self._check_open()
        if limit < 1:
            raise ConfigError(f"max_records={limit}: at least one record has to be asked for")
        self._auto_commit()
        clock = self._log.clock
        deadline = clock.monotonic() + timeout_ms / 1000
        while True:
            found = gather(self._log.follow())
            left = deadline - clock.monotonic()
            if found or left <= 0:
                return found
            clock.sleep(min(_IDLE_S, left))

    def _turns(
        self, state: State, limit: int, *, alike: bool = False
    ) -> Iterable[tuple[Assigned, int, pa.Table]]:
        """Rows of one partition after the other, until there are ``limit``; the next call starts behind.

        An error is raised only if nothing was found before: what was taken is never lost.
        """
        found: list[tuple[Assigned, int, pa.Table]] = []
        layout = None
        for at in list(self._order):
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
                found.append((assigned, *taken))
                limit -= taken[1].num_rows
                self._order.remove(at)
                self._order.append(at)
                if limit > _LARGE // 2:
                    break
        return found

    def _take(self, assigned: Assigned, state: State, limit: int) -> tuple[int, pa.Table] | None:
        if assigned.position is None:
            assigned.check_topic(state)
            if self._group is not None and self._is_pending(state, self._group, assigned.at):
                return None  # Where to start is part of an open transaction: wait for its end.
            self._start(assigned, state)
        try:
            return assigned.take(state, limit)
        except OutOfRange:
            state = self._log.follow()
            partition = partition_of(state, assigned.at)
            if self._settings["auto.offset.reset"] == "none":
                raise OffsetOutOfRangeError(
                    f"offset {assigned.position} of {assigned.at} is out of range: it has {partition.start} to "
                    f"{partition.end}. Seek, or set auto.offset.reset"
                ) from None
            assigned.seek(self._reset_offset(assigned.at, state))
            return assigned.take(state, limit)

    def _start(self, assigned: Assigned, state: State) -> None:
        """Where reading begins: at what the group committed, else as ``auto.offset.reset`` says."""
        if self._group is not None:
            committed = self.committed([assigned.at])[assigned.at]
            if committed is not None:
                self._committed[assigned.at] = committed.offset
                assigned.seek(committed.offset)
                return
        if self._settings["auto.offset.reset"] == "none":
            raise NoOffsetForPartitionError(
                f"group {self._group!r} has no committed offset for {assigned.at}, and auto.offset.reset is "
                "none: seek, or set it to earliest or latest"
            )
        assigned.seek(self._reset_offset(assigned.at, state))

    def _reset_offset(self, at: TopicPartition, state: State) -> int:
        partition = partition_of(state, at)
        earliest = self._settings["auto.offset.reset"] == "earliest"
        return partition.start if earliest else end_offset(partition, self._isolation)

    def _is_pending(self, state: State, group: str, at: TopicPartition) -> bool:
        stable = self._isolation is Isolation.READ_COMMITTED
        return stable and is_pending(state, group, at.topic, at.partition)

    def _committed_offset(self, state: State, group: str, at: TopicPartition) -> OffsetAndMetadata | None:
        partition_of(state, at)
        offsets = state.groups.get(group)
        known = None if offsets is None else offsets.get((at.topic, at.partition))
        return None if known is None else known.public

    def _auto_commit(self, *, now: bool = False) -> None:
        clock = self._log.clock
        if not self._settings["enable.auto.commit"] or not (now or clock.monotonic() >= self._next_commit):
            return
        self._next_commit = clock.monotonic() + self._settings["auto.commit.interval.ms"] / 1000
        moved = {
            at: one.position
            for at, one in self._assigned.items()
            if one.position is not None and self._committed.get(at) != one.position
        }
        try:
            if moved:
                self.commit(moved)
        except EosLogError as error:
            # As in Kafka: reading goes on, and the next commit covers these offsets too.
            _LOG.warning("offsets of group %r were not committed: %s", self._group, error)

    def _one(self, at: TopicPartition) -> Assigned:
        self._check_open()
        assigned = self._assigned.get(TopicPartition(*at))
        if assigned is None:
            raise IllegalStateError(
                f"{TopicPartition(*at)} is not assigned to this consumer: call assign first"
            )
        return assigned

    def _need_group(self, call: str) -> str:
        self._check_open()
        if self._group is None:
            raise ConfigError(f"{call} needs the setting group.id")
        return self._group

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateError("the consumer is closed")
