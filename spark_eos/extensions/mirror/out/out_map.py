"""The offset map of a mirror to Kafka, which is in Kafka: a lookup reads what a bisection needs."""

from __future__ import annotations

import time
from contextlib import closing
from typing import NamedTuple

from spark_eos.errors import ConfigError, OffsetOutOfRangeError
from spark_eos.extensions.mirror.out.kafka_target import KafkaTarget
from spark_eos.extensions.mirror.out.position import Head, Sent, map_topic, parsed, position_topic
from spark_eos.extensions.mirror.runs import KAFKA, LOG, MapRow, Place, located
from spark_eos.log.log import Log
from spark_eos.protocol.state import State

_RUNS = 100_000
"""Ranges of offsets that are in memory at a time."""

_VISIBLE_S = 10.0
"""A transaction that is committed becomes visible in each partition by itself, which takes a moment."""


class OutMap:
    """The map of one partition. ``end`` is the offset after the last record, by side."""

    def __init__(
        self, target: KafkaTarget, mirror: str, kafka: str, partition: int, end: tuple[int, int]
    ) -> None:
        self._target = target
        self._topic = map_topic(mirror, kafka)
        self._partition = partition
        self._end = end
        self._rows: dict[int, tuple[int, MapRow] | None] = {}

    def to_kafka(self, offset: int) -> Place | None:
        """Where the log's ``offset`` is in Kafka; None: it is not sent yet."""
        return None if offset > self._end[LOG] else self._locate(offset, LOG)

    def to_log(self, offset: int) -> Place | None:
        """Where Kafka's ``offset`` is in the log; None: it is after all that was sent."""
        return None if offset > self._end[KAFKA] else self._locate(offset, KAFKA)

    def last_before(self, offset: int) -> int:
        """Kafka's offset of the last record that was sent from before the log's ``offset``; -1: there is none."""
        self._locate(offset, LOG)  # Raises where the map lacks its last rows.
        row, _ = self._row_of(offset - 1, LOG)
        if row is None:
            return -1
        last = -1
        for run in row[1].runs:
            if run.log < offset:
                last = run.kafka + min(run.count, offset - run.log) - 1
        return last

    def sent(self, first: int, end: int) -> list[tuple[int, int]]:
        """The ranges of Kafka's offsets whose records the mirror sent, in their order, as far as one read gives them.

        Those with offsets of ``first`` to ``end - 1``; none, if there are none.
        """
        row, after = self._row_of(first, KAFKA)
        at = row or after
        if at is None:
            return []
        ranges: list[tuple[int, int]] = []
        with closing(self._target.records(self._topic, self._partition, at[0])) as rows:
            for position, value in rows:
                runs = MapRow.of(value, self._where(position)).runs
                ranges += [(run.kafka, run.end[KAFKA]) for run in runs if run.end[KAFKA] > first]
                if len(ranges) >= _RUNS or (ranges and ranges[-1][1] >= end):
                    break
        return [run for run in ranges if run[0] < end]

    def _locate(self, offset: int, side: int) -> Place:
        deadline = time.monotonic() + _VISIBLE_S
        while True:
            row, after = self._row_of(offset, side)
            for candidate in (row, after):
                place = None if candidate is None else located(candidate[1].runs, offset, side)
                if place is not None:
                    return place
            # After all that the map has. A reader would pass over what it lacks.
            if (0 if row is None else row[1].runs[-1].end[KAFKA]) >= self._end[KAFKA]:
                return Place(max(self._end[1 - side], 0), exact=False)
            if time.monotonic() > deadline:
                raise self._not_whole()
            self._rows.clear()
            time.sleep(0.1)

    def _row_of(self, offset: int, side: int) -> tuple[tuple[int, MapRow] | None, tuple[int, MapRow] | None]:
        """The last row that begins at the offset or before it, and the next one, each with its place in the map."""
        low, _ = self._target.bounds(self._topic, self._partition)
        first = self._row_at(low)
        if first is not None and first[1].end is not None:
            raise self._not_whole()
        high = max(self._target.ends(self._topic, self._partition + 1)[self._partition], low)
        if low == high and self._end[KAFKA] > 0:
            raise self._not_whole()
        row: tuple[int, MapRow] | None = None
        after: tuple[int, MapRow] | None = None
        while low < high:
            middle = (low + high) // 2
            middle_row = self._row_at(middle)
            if middle_row is None:
                high = middle
            elif middle_row[1].runs[0][side] <= offset:
                row, low = middle_row, middle_row[0] + 1
            else:
                after, high = middle_row, middle
        return row, after

    def _row_at(self, at: int) -> tuple[int, MapRow] | None:
        if at not in self._rows:
            record = self._target.record_at(self._topic, self._partition, at)
            self._rows[at] = None if record is None else (record[0], MapRow.of(record[1], self._where(at)))
        return self._rows[at]

    def _not_whole(self) -> OffsetOutOfRangeError:
        return OffsetOutOfRangeError(
            f"the offset map {self._topic}-{self._partition} of Kafka is not whole any more: it, or records of it, "
            "were deleted. Offsets of this partition cannot be looked up"
        )

    def _where(self, at: int) -> str:
        return f"{self._topic}-{self._partition}, offset {at},"


class SentOffsets(NamedTuple):
    """Where a mirror to Kafka stands in one partition.

    ``offset`` is the next one of the log, ``kafka_end`` the offset in Kafka after the last record that was sent.
    ``lag`` is how many offsets of the log it is behind what may be sent now.
    """

    topic: str
    partition: int
    kafka: str
    offset: int
    kafka_end: int
    lag: int


def read_positions(target: KafkaTarget, log: Log, mirror: str) -> dict[str, Sent]:
    """How far the mirror is in each topic. Raises `ConfigError` if there is none of this log."""
    name = position_topic(mirror)
    where = f"topic {name!r} of Kafka at {target.address}"
    head: Head | None = None
    topics: dict[str, Sent] = {}
    if target.found(name) is not None:
        head, topics = parsed(target.committed(name, waits=False), where)
    if head is None or head.log_id != log.log_id:
        raise ConfigError(f"Kafka at {target.address} has no mirror {mirror!r} of {log.url}: look at --name")
    return topics


def sent_offsets(state: State, topics: dict[str, Sent]) -> list[SentOffsets]:
    """Where the mirror stands, for topics that are in the log."""
    offsets = []
    for sent in sorted(topics.values()):
        for number, offset in enumerate(sent.next):
            partition = state.partitions.get((sent.topic_id, number))
            if partition is not None:
                lag = max(partition.last_stable_offset - offset, 0)
                end = max(sent.ends[number], 0)
                offsets.append(SentOffsets(sent.topic, number, sent.kafka, offset, end, lag))
    return offsets
