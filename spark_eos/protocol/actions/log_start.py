"""Log starts: records below an offset are deleted (Kafka's DeleteRecords, KIP-107, and retention).

A log start never goes back, and never passes the last stable offset: else an open transaction would become visible in
parts. What replaces all records (`TO_THE_END`) is refused as long as there is one: what came after it would stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from spark_eos.errors import OffsetOutOfRangeError
from spark_eos.protocol.actions.declaration import Field, declare
from spark_eos.protocol.actions.offsets import require_partition
from spark_eos.protocol.encoding.values import OFFSETS
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.sealing import trimmed
from spark_eos.protocol.state import Partition, State
from spark_eos.protocol.types import RETENTION, PartitionOffset, TrailNote

TO_THE_END = -1
"""In place of an offset in `AdvanceLogStart`: up to the end, wherever it is by then."""


class AdvanceLogStart(NamedTuple):
    """Records below these offsets are no longer readable."""

    offsets: tuple[PartitionOffset, ...]


def advance(state: State, action: AdvanceLogStart) -> tuple[State, None]:
    """Log starts never go back and never pass the last stable offset: an open transaction stays whole.

    Raises `OffsetOutOfRangeError` for an offset that is not there or is not stable, and for the end while a transaction
    is open.
    """
    partitions = state.partitions
    for target in action.offsets:
        key = require_partition(state, target)
        partition = partitions[key]
        stable = partition.last_stable_offset
        if target.offset == TO_THE_END and partition.open:
            raise _held(state, target, partition)
        start = stable if target.offset == TO_THE_END else target.offset
        if not 0 <= start <= stable:
            raise OffsetOutOfRangeError(
                f"the start of {target.topic}-{target.partition} cannot move to offset {start}: "
                f"it is {partition.start} and the last stable offset is {stable}"
            )
        if start > partition.start:
            moved = replace(partition, start=start, index=partition.index.since(start))
            partitions = partitions.set(key, trimmed(moved))
    return replace(state, partitions=partitions), None


def _held(state: State, target: PartitionOffset, partition: Partition) -> OffsetOutOfRangeError:
    first = min(partition.open, key=lambda producer_id: partition.open[producer_id])
    holder = state.producers[first].transactional_id
    return OffsetOutOfRangeError(
        f"the records of topic {target.topic!r} cannot be replaced: in partition {target.partition} transaction "
        f"{holder!r} is open since offset {partition.open[first]}, and what was written after it would stay. Wait "
        "for its end, or abort it with `eoslog transactions abort`, and write again"
    )


def _tell(before: State, after: State, action: AdvanceLogStart, writer: str) -> Iterator[TrailNote]:
    """What a person has deleted: retention does so all the time."""
    if writer == RETENTION:
        return
    deleted: dict[str, list[str]] = {}
    for target in action.offsets:
        key = (target.topic_id, target.partition)
        was, now = before.partitions.get(key), after.partitions.get(key)
        if was is not None and now is not None and now.start > was.start:
            text = f"partition {target.partition}, offsets {was.start} to {now.start - 1}"
            deleted.setdefault(target.topic, []).append(text)
    for topic, parts in deleted.items():
        yield TrailNote("records deleted", topic, "; ".join(parts))


declare(
    AdvanceLogStart,
    number=9,
    fields=(Field("offsets", OFFSETS),),
    rule=advance,
    tell=_tell,
)
