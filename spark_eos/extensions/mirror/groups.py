"""Offsets of Kafka's groups, translated, so that a consumer moves over and reads each record once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from spark_eos.errors import OffsetOutOfRangeError
from spark_eos.extensions.mirror.offset_map import OffsetMap, current
from spark_eos.extensions.mirror.positions import Position
from spark_eos.log.log import Log
from spark_eos.protocol.actions import CommitOffsets, PartitionOffset
from spark_eos.protocol.state import State

_Committed = Mapping[tuple[str, int], tuple[int, str]]

Maps = Mapping[tuple[str, int], tuple[Position, OffsetMap]]


class Translation(NamedTuple):
    """An offset that a group has committed in Kafka, and the same place in the log.

    ``place`` is None if the mirror is not there yet. ``committed`` is the offset that the group has in the log, None
    without one. ``left_out`` is the first record that the group would leave out: it lies before ``place``, and a
    producer of the log wrote it.
    """

    topic: str
    partition: int
    offset: int
    place: PartitionOffset | None
    committed: int | None
    left_out: int | None

    @property
    def name(self) -> str:
        """Kafka's topic and number, as in messages."""
        return f"{self.topic}-{self.partition}"

    @property
    def has_moved(self) -> bool:
        """Whether the group stands in the log where it stood in Kafka, or further."""
        return self.place is not None and self.committed is not None and self.committed >= self.place.offset


def maps_of(log: Log, state: State, mirror: str) -> Maps:
    """The offset maps of a mirror, by Kafka's topic and partition."""
    return {
        (position.topic, position.partition): (position, OffsetMap(log, state, mirror, position))
        for position in current(state, mirror)
    }


def translations(state: State, maps: Maps, group: str, committed: _Committed) -> list[Translation]:
    """The group's offsets in topics of the mirror, sorted by topic and partition."""
    result = []
    for at, (offset, metadata) in sorted(committed.items()):
        if at not in maps:
            continue
        position, offsets = maps[at]
        place = offsets.resume(offset)
        in_log = state.offset_of(group, position.target, at[1])
        stands = None if in_log is None or in_log.topic_id != position.target_id else in_log.offset
        if place is None:
            result.append(Translation(*at, offset, None, stands, None))
            continue
        log_place = PartitionOffset(position.target, position.target_id, at[1], place, metadata)
        left_out = offsets.others(stands or 0, place) if (stands or 0) < place else None
        result.append(Translation(*at, offset, log_place, stands, left_out))
    return result


def translate(log: Log, mirror: str, groups: Mapping[str, _Committed]) -> Iterator[str]:
    """Commit the groups' offsets in the log. The texts say which were not translated, and why."""
    state = log.follow()
    maps = maps_of(log, state, mirror)
    for group, committed in sorted(groups.items()):
        places = []
        for translation in translations(state, maps, group, committed):
            if translation.place is None:
                yield f"group {group}: offset {translation.offset} of {translation.name} is not mirrored yet"
            elif translation.left_out is not None:
                yield f"group {group}: {passed_over(translation)}"
            else:
                places.append(translation.place)
        try:
            log.commit(partial(moves, group=group, places=places), writer="mirror groups", alone=True)
        except OffsetOutOfRangeError as error:
            yield f"group {group}: {error}"


def passed_over(translation: Translation) -> str:
    """Why an offset is not translated: the group would pass over a record that a producer of the log wrote."""
    assert translation.place is not None, "the mirror has the offset of a group that would pass over a record"
    return (
        f"its offset {translation.offset} of {translation.name} in Kafka is {translation.place.offset} in the log, but "
        f"a producer of the log wrote the record {translation.left_out} before that, which the group would never read: "
        "producers moved before this group"
    )


def moves(state: State, group: str, places: list[PartitionOffset]) -> tuple[CommitOffsets, ...]:
    """The commit of the offsets that are ahead of the group's; none if it has members in the log: it has moved over."""
    members = state.groups.get(group)
    if members is not None and members.members:
        return ()
    ahead = []
    for at in places:
        committed = state.offset_of(group, at.topic, at.partition)
        if committed is None or committed.topic_id != at.topic_id or committed.offset < at.offset:
            ahead.append(at)
    return (CommitOffsets(group, tuple(ahead)),) if ahead else ()
