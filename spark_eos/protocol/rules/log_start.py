"""Where things begin: log start offsets, and the floor below which staged files are lost."""

from __future__ import annotations

from spark_eos.errors import InvalidRequestError, OffsetOutOfRangeError
from spark_eos.protocol.actions import TO_THE_END, AdvanceLogStart, RaiseStagingFloor
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.offsets import require_partition
from spark_eos.protocol.rules.sealing import trimmed
from spark_eos.protocol.state import State

__all__ = ["advance", "raise_staging_floor"]


def advance(state: State, action: AdvanceLogStart) -> tuple[State, None]:
    """Log starts never go back and never pass the last stable offset: an open transaction stays whole."""
    partitions = state.partitions
    for wanted in action.offsets:
        key = require_partition(state, wanted)
        partition = partitions[key]
        stable = partition.last_stable_offset
        start = stable if wanted.offset == TO_THE_END else wanted.offset
        if not 0 <= start <= stable:
            raise OffsetOutOfRangeError(
                f"the start of {wanted.topic}-{wanted.partition} cannot move to offset {start}: "
                f"it is {partition.start} and the last stable offset is {stable}"
            )
        if start > partition.start:
            moved = replace(partition, start=start, index=partition.index.since(start))
            partitions = partitions.set(key, trimmed(moved) if state.rules >= 2 else moved)
    return replace(state, partitions=partitions), None


def raise_staging_floor(state: State, action: RaiseStagingFloor) -> tuple[State, None]:
    """The floor only rises, and never above the log's own end."""
    if action.seq > state.seq + 1:
        raise InvalidRequestError(
            f"the staging floor cannot rise to {action.seq}: the log ends at {state.seq}"
        )
    return replace(state, staging_floor=max(state.staging_floor, action.seq)), None
