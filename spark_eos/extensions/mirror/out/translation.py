"""Offsets of the log's groups, translated to Kafka's, so that a consumer moves over and reads each record once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from spark_eos.errors import ConfigError, OffsetOutOfRangeError
from spark_eos.extensions.mirror.offset_map import OffsetMap, current
from spark_eos.extensions.mirror.out.kafka_target import KafkaTarget
from spark_eos.extensions.mirror.out.options import OutOptions
from spark_eos.extensions.mirror.out.out_map import OutMap
from spark_eos.extensions.mirror.out.topics import OutTopic
from spark_eos.extensions.mirror.positions import Position
from spark_eos.log.log import Log
from spark_eos.protocol.state import PartitionKey, State


class Brought(NamedTuple):
    """The records of a partition that the mirror into the log, which this one reverses, has brought from Kafka.

    ``end`` is the log's offset after the last one, ``kafka_end`` where it stands in Kafka. ``next`` is Kafka's offset
    of the first one that the group has not read.
    """

    end: int
    kafka_end: int
    next: int


def whole_offset(offset: int, sent: tuple[int, int], brought: Brought | None) -> int | None:
    """Kafka's offset that has before it what a group at the log's ``offset`` has read; None: there is no such offset.

    ``sent`` are Kafka's offsets of the first record that was sent from there on, and of the last one from before it
    (-1: none). Kafka has the records that were sent after all that were brought. So a group that has not read all that
    were brought must not have read one that was sent.
    """
    if brought is None:
        return sent[0]
    if offset >= brought.end:
        return max(sent[0], brought.kafka_end)
    return brought.next if sent[1] < 0 else None


def ahead(
    moves: Sequence[tuple[str, int, int, str]], committed: Mapping[tuple[str, int], int]
) -> list[tuple[str, int, int, str]]:
    """The moves that go forward: an offset of a group never goes back."""
    return [move for move in moves if move[2] > committed.get((move[0], move[1]), -1)]


class Translation:
    """Translates as of one state of the log, for these topics."""

    def __init__(
        self, log: Log, state: State, target: KafkaTarget, options: OutOptions, topics: Sequence[OutTopic]
    ) -> None:
        self._log = log
        self._state = state
        self._target = target
        self._options = options
        self._topics = {topic.topic: topic for topic in topics}
        self._positions: dict[PartitionKey, Position] = {}
        if options.reverses is not None:
            for at in current(state, options.reverses):
                self._positions[at.target_id, at.partition] = at
        self._maps: dict[PartitionKey, OutMap] = {}

    def commit(self, sent: Mapping[PartitionKey, int], ends: Mapping[PartitionKey, int]) -> Iterator[str]:
        """Commit the groups' offsets in Kafka; says what was not translated.

        ``sent`` are the log's offsets up to which partitions are sent, ``ends`` those of Kafka after the last record.
        """
        for group in sorted(self._state.offsets):
            if not re.fullmatch(self._options.groups or "", group):
                continue
            places: list[tuple[str, int, int, str]] = []
            for (name, number), committed in sorted(self._state.offsets[group].items()):
                topic = self._topics.get(name)
                if topic is None or topic.topic_id != committed.topic_id:
                    continue
                key = (topic.topic_id, number)
                place = self._translated(topic, number, committed.offset, sent.get(key, 0), ends.get(key, -1))
                if isinstance(place, str):
                    yield f"group {group}: {place}"
                else:
                    places.append((topic.kafka, number, place, committed.metadata))
            try:
                kafka_offsets = self._target.offsets_of(group) if places else {}
                moves = ahead(places, {at: offset for at, (offset, _) in kafka_offsets.items()})
                if moves and not self._target.has_members(group):
                    self._target.move_group(group, moves)
            except ConfigError as error:
                yield f"group {group}: {error}"

    def _translated(self, topic: OutTopic, number: int, offset: int, sent: int, end: int) -> int | str:
        """The offset in Kafka, or why there is none."""
        name, key = f"{topic.topic}-{number}", (topic.topic_id, number)
        if offset > sent:
            return f"offset {offset} of {name} is not sent yet"
        if key not in self._maps:
            self._maps[key] = OutMap(self._target, self._options.name, topic.kafka, number, (end, sent))
        position = self._positions.get(key)
        try:
            place = self._maps[key].to_kafka(offset)
            assert place is not None
            if position is None:
                return place.offset
            before = self._brought(position, offset)
            kafka_offset = whole_offset(offset, (place.offset, self._maps[key].last_before(offset)), before)
        except OffsetOutOfRangeError as error:
            return f"{error}"
        if kafka_offset is None:
            return (
                f"at offset {offset} of {name} it has read records that lie in Kafka after others that it has not "
                f"read: it is translated once it has read up to offset {before.end}"
            )
        return kafka_offset

    def _brought(self, position: Position, offset: int) -> Brought:
        end = max(position.log_end, 0)
        offsets = OffsetMap(self._log, self._state, self._options.reverses or "", position)
        place = offsets.to_kafka(min(offset, end))
        assert place is not None
        return Brought(end, position.offset, place.offset)
