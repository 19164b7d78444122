"""Offsets of the log's groups, translated to Kafka's, so that a consumer moves over and reads each record once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from spark_eos.errors import ConfigError, OffsetOutOfRangeError
from spark_eos.log.log import Log
from spark_eos.mirror.offset_map import OffsetMap, current
from spark_eos.mirror.out.kafka_target import KafkaTarget
from spark_eos.mirror.out.options import OutOptions
from spark_eos.mirror.out.out_map import OutMap
from spark_eos.mirror.out.topics import OutTopic
from spark_eos.mirror.positions import Position
from spark_eos.protocol.state import PartitionKey, State

__all__ = ["Brought", "ahead", "translate", "whole"]


class Brought(NamedTuple):
    """The records of a partition that the mirror into the log has brought, which was taken over from.

    ``end`` is the log's offset after the last one, ``kafka_end`` where it stands in Kafka. ``next`` is Kafka's offset
    of the first one that the group has not read.
    """

    end: int
    kafka_end: int
    next: int


def whole(offset: int, sent: tuple[int, int], brought: Brought | None) -> int | None:
    """Kafka's offset that has before it what a group at the log's ``offset`` has read; None: there is no such offset.

    ``sent`` are Kafka's offsets of the first record that was sent from there on, and of the last one from before it
    (-1: none). Records that were sent lie in Kafka after all that were brought: so as long as the group has not read
    all of these, it must have read none of those.
    """
    if brought is None:
        return sent[0]
    if offset >= brought.end:
        return max(sent[0], brought.kafka_end)
    return brought.next if sent[1] < 0 else None


def ahead(
    wanted: Sequence[tuple[str, int, int, str]], known: Mapping[tuple[str, int], int]
) -> list[tuple[str, int, int, str]]:
    """Those that go on: an offset of a group never goes back."""
    return [one for one in wanted if one[2] > known.get((one[0], one[1]), -1)]


def translate(
    log: Log,
    state: State,
    target: KafkaTarget,
    options: OutOptions,
    topics: Sequence[OutTopic],
    sent: Mapping[PartitionKey, int],
    ends: Mapping[PartitionKey, int],
) -> Iterator[str]:
    """Commit the groups' offsets in Kafka; says what was not translated."""
    by_name = {one.topic: one for one in topics}
    brought = {}
    if options.reverses is not None:
        for at in current(state, options.reverses):
            brought[at.target_id, at.partition] = at
    maps: dict[PartitionKey, OutMap] = {}
    for group in sorted(state.offsets):
        if not re.fullmatch(options.groups or "", group):
            continue
        wanted: list[tuple[str, int, int, str]] = []
        for (name, number), committed in sorted(state.offsets[group].items()):
            topic = by_name.get(name)
            if topic is None or topic.topic_id != committed.topic_id:
                continue
            key = (topic.topic_id, number)
            if committed.offset > sent.get(key, -1):
                yield f"group {group}: offset {committed.offset} of {name}-{number} is not sent yet"
                continue
            if key not in maps:
                end = (ends.get(key, -1), sent[key])
                maps[key] = OutMap(target, options.name, topic.kafka, number, end)
            position = brought.get(key)
            try:
                before = (
                    None if position is None else _brought(log, state, options, position, committed.offset)
                )
                place = maps[key].to_kafka(committed.offset)
                assert place is not None
                last = -1 if before is None else maps[key].last_before(committed.offset)
            except OffsetOutOfRangeError as error:
                yield f"group {group}: {error}"
                continue
            offset = whole(committed.offset, (place.offset, last), before)
            if offset is None:
                assert before is not None
                yield (
                    f"group {group}: at offset {committed.offset} of {name}-{number} it has read records that lie in "
                    "Kafka after others that it has not read: it is translated once it has read up to offset "
                    f"{before.end}"
                )
                continue
            wanted.append((topic.kafka, number, offset, committed.metadata))
        if not wanted:
            continue
        try:
            known = {at: offset for at, (offset, _) in target.offsets_of(group).items()}
            moves = ahead(wanted, known)
            if moves and not target.has_members(group):
                target.move_group(group, moves)
        except ConfigError as error:
            yield f"group {group}: {error}"


def _brought(log: Log, state: State, options: OutOptions, position: Position, offset: int) -> Brought:
    end = max(position.log_end, 0)
    place = OffsetMap(log, state, options.reverses or "", position).to_kafka(min(offset, end))
    assert place is not None
    return Brought(end, position.offset, place.offset)
