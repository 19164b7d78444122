"""Offsets of Kafka's groups, translated, so that a consumer moves over and reads each record once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from spark_eos.errors import OffsetOutOfRangeError
from spark_eos.log.log import Log
from spark_eos.mirror.offset_map import OffsetMap, current
from spark_eos.protocol.actions import CommitOffsets, PartitionOffset
from spark_eos.protocol.state import State

__all__ = ["moves", "translate"]

_Committed = Mapping[tuple[str, int], tuple[int, str]]


def translate(log: Log, mirror: str, groups: Mapping[str, _Committed]) -> Iterator[str]:
    """Commit the groups' offsets in the log; says what was not translated."""
    state = log.follow()
    maps: dict[tuple[str, int], tuple[OffsetMap, str, str]] = {}
    for one in current(state, mirror):
        maps[one.topic, one.partition] = OffsetMap(log, state, mirror, one), one.target, one.target_id
    for group, committed in sorted(groups.items()):
        wanted = []
        for at, (offset, metadata) in sorted(committed.items()):
            if at not in maps:
                continue
            offsets, target, target_id = maps[at]
            place = offsets.to_log(offset)
            if place is None:
                yield f"group {group}: offset {offset} of {at[0]}-{at[1]} is not mirrored yet"
                continue
            wanted.append(PartitionOffset(target, target_id, at[1], place.offset, metadata))
        try:
            log.commit(partial(moves, group=group, wanted=wanted), writer="mirror groups", alone=True)
        except OffsetOutOfRangeError as error:
            yield f"group {group}: {error}"


def moves(state: State, group: str, wanted: list[PartitionOffset]) -> tuple[CommitOffsets, ...]:
    """The offsets that go on. Those of a group that reads the log already stay: it has moved over."""
    members = state.groups.get(group)
    if members is not None and members.members:
        return ()
    ahead = []
    for at in wanted:
        known = state.offset_of(group, at.topic, at.partition)
        if known is None or known.topic_id != at.topic_id or known.offset < at.offset:
            ahead.append(at)
    return (CommitOffsets(group, tuple(ahead)),) if ahead else ()
