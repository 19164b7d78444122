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

__all__ = ["Maps", "Translation", "maps_of", "moves", "passed_over", "translate", "translations"]

_Committed = Mapping[tuple[str, int], tuple[int, str]]

Maps = Mapping[tuple[str, int], tuple[Position, OffsetMap]]


class Translation(NamedTuple):
    """An offset that a group has committed in Kafka, and the same place in the log.

    ``wanted`` is None if the mirror is not there yet. ``known`` is the offset that the group has in the log, None
    without one. ``other`` is the first record that the group would leave out: it lies before ``wanted``, and a producer
    of the log wrote it.
    """

    topic: str
    partition: int
    offset: int
    wanted: PartitionOffset | None
    known: int | None
    other: int | None

    @property
    def name(self) -> str:
        """Kafka's topic and number, as in messages."""
        return f"{self.topic}-{self.partition}"

    @property
    def has_moved(self) -> bool:
        """Whether the group stands in the log where it stood in Kafka, or further."""
        return self.wanted is not None and self.known is not None and self.known >= self.wanted.offset


def maps_of(log: Log, state: State, mirror: str) -> Maps:
    """The offset maps of a mirror, by Kafka's topic and partition."""
    return {
        (one.topic, one.partition): (one, OffsetMap(log, state, mirror, one))
        for one in current(state, mirror)
    }


def translations(state: State, maps: Maps, group: str, committed: _Committed) -> list[Translation]:
    """The group's offsets in topics of the mirror, sorted by topic and partition."""
    found = []
    for at, (offset, metadata) in sorted(committed.items()):
        if at not in maps:
            continue
        position, offsets = maps[at]
        place = offsets.resume(offset)
        known = state.offset_of(group, position.target, at[1])
        stands = None if known is None or known.topic_id != position.target_id else known.offset
        if place is None:
            found.append(Translation(*at, offset, None, stands, None))
            continue
        wanted = PartitionOffset(position.target, position.target_id, at[1], place, metadata)
        other = offsets.others(stands or 0, place) if (stands or 0) < place else None
        found.append(Translation(*at, offset, wanted, stands, other))
    return found


def translate(log: Log, mirror: str, groups: Mapping[str, _Committed]) -> Iterator[str]:
    """Commit the groups' offsets in the log. The texts say which were not translated, and why."""
    state = log.follow()
    maps = maps_of(log, state, mirror)
    for group, committed in sorted(groups.items()):
        wanted = []
        for one in translations(state, maps, group, committed):
            if one.wanted is None:
                yield f"group {group}: offset {one.offset} of {one.name} is not mirrored yet"
            elif one.other is not None:
                yield f"group {group}: {passed_over(one)}"
            else:
                wanted.append(one.wanted)
        try:
            log.commit(partial(moves, group=group, wanted=wanted), writer="mirror groups", alone=True)
        except OffsetOutOfRangeError as error:
            yield f"group {group}: {error}"


def passed_over(one: Translation) -> str:
    """Why an offset is not translated: the group would pass over a record that a producer of the log wrote."""
    assert one.wanted is not None, "the mirror has the offset of a group that would pass over a record"
    return (
        f"its offset {one.offset} of {one.name} in Kafka is {one.wanted.offset} in the log, but a producer of the log "
        f"wrote the record {one.other} before that, which the group would never read: producers moved before this group"
    )


def moves(state: State, group: str, wanted: list[PartitionOffset]) -> tuple[CommitOffsets, ...]:
    """The commit of the offsets that are ahead of the group's; none if it has members in the log: it has moved over."""
    members = state.groups.get(group)
    if members is not None and members.members:
        return ()
    ahead = []
    for at in wanted:
        known = state.offset_of(group, at.topic, at.partition)
        if known is None or known.topic_id != at.topic_id or known.offset < at.offset:
            ahead.append(at)
    return (CommitOffsets(group, tuple(ahead)),) if ahead else ()
