"""Looking offsets up: which record of the log is Kafka's record number so-and-so, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from spark_eos.config.isolation import Isolation
from spark_eos.errors import ConfigError, OffsetOutOfRangeError
from spark_eos.extensions.mirror.positions import Position, map_topic, mirrors, positions
from spark_eos.extensions.mirror.runs import KAFKA, LOG, MapRow, Place, Run, located
from spark_eos.log.data.planner import partition_of, plan, planned_rows
from spark_eos.log.data.records import read
from spark_eos.log.log import Log
from spark_eos.protocol.state import State
from spark_eos.protocol.types import TopicPartition


class OffsetMap:
    """The map of one mirrored partition, as of one state of the log. A lookup reads a few rows of it."""

    def __init__(self, log: Log, state: State, mirror: str, position: Position) -> None:
        self._log = log
        self._state = state
        self._position = position
        self._at = TopicPartition(map_topic(mirror, position.target), position.partition)
        self._target = TopicPartition(position.target, position.partition)
        topic = state.topics.get(self._at.topic)
        partition = None if topic is None else state.partitions.get((topic.topic_id, self._at.partition))
        if partition is None or partition.start or (position.log_end >= 0 and not partition.end):
            raise self._not_whole()
        self._rows = partition.end
        self._read: dict[int, MapRow] = {}

    @property
    def is_same(self) -> bool:
        """Whether each record has the same offset in the log as in Kafka."""
        if not self._rows:
            return True
        first = self._row(0).runs[0]
        return self._rows == 1 and len(self._row(0).runs) == 1 and first.kafka == first.log

    def to_log(self, offset: int) -> Place | None:
        """Where Kafka's ``offset`` is in the log; None: it is not mirrored yet."""
        if offset > self._position.offset:
            return None
        return self._locate(offset, KAFKA)

    def to_kafka(self, offset: int) -> Place | None:
        """Where the log's ``offset`` is in Kafka; None: it is after all that is mirrored."""
        if offset > max(self._position.log_end, 0):
            return None
        return self._locate(offset, LOG)

    def runs(self) -> Iterator[Run]:
        """All runs, each with its end."""
        topic = self._state.topics[self._at.topic]
        last: Run | None = None
        for fetch in plan(self._state, self._at, 0, self._rows, Isolation.READ_COMMITTED, self._log.load):
            values = read(self._log.store, topic, fetch).table.column("value").to_pylist()
            for number, value in enumerate(values, fetch.offset):
                row = self._parsed(number, value)
                if last is not None and row.end is not None:
                    yield last._replace(count=row.end[LOG] - last.log)
                yield from row.runs[:-1]
                last = row.runs[-1]
        if last is not None:
            yield last._replace(count=self._position.log_end - last.log)

    def resume(self, offset: int) -> int | None:
        """Where a reader that has read Kafka's records before ``offset`` goes on in the log; None: not mirrored yet.

        That is after the last of them, and not at the next one: records of other writers may lie between the two.
        """
        if offset > self._position.offset:
            return None
        end = 0
        for number in range(self._row_of(offset - 1, KAFKA), self._rows):
            for run in self._runs(number):
                if run.kafka >= offset:
                    return end
                end = run.log + min(offset - run.kafka, run.count)
        return end

    def others(self, first: int, end: int) -> int | None:
        """The first record of the log from ``first`` to ``end - 1`` that did not come from Kafka; None: all did.

        One of a transaction that is open counts.
        """
        partition = partition_of(self._state, self._target)
        for low, high in self._gaps(first, end):
            stable = min(high, partition.last_stable_offset)
            start = max(low, partition.start)
            if start < stable:
                rows = planned_rows(
                    self._state, self._target, start, stable, Isolation.READ_COMMITTED, self._log.load
                )
                for _, fetch in rows:
                    return fetch.offset
            if stable < high:
                return max(start, stable)
        return None

    def _gaps(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """The offsets of the log from ``first`` to ``end - 1`` that no run has: from and to, exclusive."""
        at = first
        for number in range(self._row_of(first, LOG), self._rows):
            for run in self._runs(number):
                if at < min(run.log, end):
                    yield at, min(run.log, end)
                at = max(at, run.end[LOG])
            if at >= end:
                return
        yield at, end

    def _row_of(self, offset: int, side: int) -> int:
        """The last row that does not begin after the offset; the first one if all do."""
        low, high = 0, self._rows
        while low < high:
            middle = (low + high) // 2
            if self._row(middle).runs[0][side] <= offset:
                low = middle + 1
            else:
                high = middle
        return max(low - 1, 0)

    def _locate(self, offset: int, side: int) -> Place:
        first = self._row_of(offset, side)
        for number in range(first, min(first + 2, self._rows)):
            if (place := located(self._runs(number), offset, side)) is not None:
                return place
        end = (self._position.offset, max(self._position.log_end, 0))
        return Place(end[1 - side], exact=False)

    def _runs(self, number: int) -> list[Run]:
        """The runs of a row, the last one with the length that it has now."""
        runs = list(self._row(number).runs)
        end = self._end_of(number)
        runs[-1] = runs[-1]._replace(count=end[KAFKA] - runs[-1].kafka)
        return runs

    def _end_of(self, number: int) -> tuple[int, int]:
        """Where the last run of a row ends."""
        if number + 1 < self._rows:
            end = self._row(number + 1).end
            assert end is not None
            return end
        return self._position.kafka_end, self._position.log_end

    def _row(self, number: int) -> MapRow:
        if number not in self._read:
            fetches = plan(
                self._state, self._at, number, number + 1, Isolation.READ_COMMITTED, self._log.load
            )
            topic = self._state.topics[self._at.topic]
            (fetch,) = fetches
            table = read(self._log.store, topic, fetch).table
            self._read[number] = self._parsed(number, table.column("value")[0].as_py())
        return self._read[number]

    def _parsed(self, number: int, data: bytes | None) -> MapRow:
        row = MapRow.of(data, f"{self._at}, offset {number}")
        if (row.end is None) != (number == 0):  # Each row but the first says where the one before it ends.
            raise self._not_whole()
        return row

    def _not_whole(self) -> OffsetOutOfRangeError:
        return OffsetOutOfRangeError(
            f"the offset map {self._at} is not whole any more: its topic, or records of it, were deleted, or it has "
            f"those of another topic of Kafka. Offsets of {self._target} cannot be looked up. Mirror the topic under "
            "another --name"
        )


class MirrorOffsets(NamedTuple):
    """Where a mirror stands in one partition.

    ``offset`` is the next one to read in Kafka, ``log_end`` the offset after the last mirrored record in the log.
    ``is_same``: each record has the same offset on both sides.
    """

    source: str
    partition: int
    target: str
    offset: int
    log_end: int
    is_same: bool


def mirror_offsets(log: Log, mirror: str) -> list[MirrorOffsets]:
    """Where the mirror stands."""
    state = log.follow()
    return [
        MirrorOffsets(
            position.topic,
            position.partition,
            position.target,
            position.offset,
            max(position.log_end, 0),
            OffsetMap(log, state, mirror, position).is_same,
        )
        for position in current(state, mirror)
    ]


def current(state: State, mirror: str) -> list[Position]:
    """The positions of the mirror in topics that are in the log."""
    return [
        position
        for position in positions(state, mirror)
        if position.target in state.topics and state.topics[position.target].topic_id == position.target_id
    ]


def not_mirrored(state: State, mirror: str, topic: str | None) -> ConfigError:
    """The error for a mirror that has mirrored nothing, or not this topic."""
    if topic is not None:
        names = ", ".join(sorted({position.topic for position in current(state, mirror)}))
        return ConfigError(f"mirror {mirror!r} has not mirrored a topic {topic!r}; it has mirrored {names}")
    names = ", ".join(mirrors(state)) or "none"
    return ConfigError(
        f"mirror {mirror!r} has mirrored nothing into this log; mirrors that have: {names}. Start eoslog mirror in, or "
        "wait until it has mirrored the first records"
    )


def opened_map(log: Log, mirror: str, topic: str, partition: int) -> OffsetMap:
    """The map of a partition; ``topic`` is Kafka's name or the log's. Raises `ConfigError`."""
    state = log.follow()
    of_partition = [position for position in current(state, mirror) if position.partition == partition]
    matches = [position for position in of_partition if position.target == topic] or [
        position for position in of_partition if position.topic == topic
    ]
    if len(matches) > 1:  # The topic was made again in Kafka, and is mirrored under another name.
        names = ", ".join(position.target for position in matches)
        raise ConfigError(f"topic {topic!r} of Kafka is mirrored into {names}: give one of these as --topic")
    if not matches:
        raise ConfigError(
            f"mirror {mirror!r} has no partition {partition} of a topic {topic!r}: eoslog mirror offsets lists them"
        )
    return OffsetMap(log, state, mirror, matches[0])
