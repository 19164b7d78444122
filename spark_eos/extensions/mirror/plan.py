"""One batch of a mirror, planned on a state of the log: what goes into the entry. Pure.

The plan says at which offsets the rows will lie, since rows of the offset map do. It holds only on a state in which the
partitions end where they did, so its request is bound to that state (`LogWriter.commit`, ``alone``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_eos.errors import EosLogError, InvalidRequestError
from spark_eos.extensions.mirror.positions import MirroredBatch, MirroredPartition, Position, positions
from spark_eos.extensions.mirror.runs import MapRow, joined, runs_of
from spark_eos.protocol.actions import Action, AppendBatches, CommitMicroBatch, InitProducer, SourceProgress
from spark_eos.protocol.actions.queries.microbatch import ONE_SHOT_TIMEOUT_MS
from spark_eos.protocol.state import State
from spark_eos.protocol.types import NO_PRODUCER, StagedFile

NO_RECORDS: npt.NDArray[np.int64] = np.array([], np.int64)

MAX_PARTITIONS = 5000
"""Of one entry: a request has at most 10,000 actions."""


class PlanOutdatedError(EosLogError):
    """A partition does not end where it did when the batch was planned. The batch is planned again."""


class Share(NamedTuple):
    """What a batch has of one partition. ``before`` is the batch before, None at the first one.

    ``offsets`` are Kafka's, of the records. ``after`` is where the partition stands with them, but for where they are
    in the log.
    """

    partition: MirroredPartition
    run_id: str
    before: MirroredBatch | None
    after: Position
    offsets: npt.NDArray[np.int64]

    @property
    def batch_id(self) -> int:
        """The number of the batch."""
        return 0 if self.before is None else self.before.batch_id + 1


class BatchPlan(NamedTuple):
    """A batch on a state: the offset at which each share begins in the log, where it ends, and its row of the map."""

    shares: tuple[Share, ...]
    starts: tuple[int, ...]
    ends: tuple[Position, ...]
    rows: tuple[MapRow | None, ...]


def log_ends(state: State, shares: Sequence[Share]) -> tuple[int, ...]:
    """Where the log's partitions end now; 0 for one that is gone, which the rules refuse."""
    partitions = (
        state.partitions.get((share.partition.target_id, share.partition.partition)) for share in shares
    )
    return tuple(0 if partition is None else partition.end for partition in partitions)


def plan(state: State, shares: Sequence[Share]) -> BatchPlan:
    """The batch on this state."""
    starts = log_ends(state, shares)
    ends, rows = [], []
    for share, start in zip(shares, starts, strict=True):
        after = share.after
        before = None if share.before is None else share.before.position
        end = None if before is None or before.log_end < 0 else (before.kafka_end, before.log_end)
        row = None
        if len(share.offsets):
            runs = runs_of(share.offsets, start)
            row = joined(end, runs)
            end = runs[-1].end
        if end is not None:
            after = after._replace(kafka_end=end[0], log_end=end[1])
        ends.append(after)
        rows.append(row)
    return BatchPlan(tuple(shares), starts, tuple(ends), tuple(rows))


def actions(
    state: State, batch: BatchPlan, topics: Sequence[tuple[str, str]], files: Sequence[StagedFile]
) -> tuple[Action, ...]:
    """The request: the rows, those of the map, and the positions; nothing if it is in the log.

    Rows have no producer: the positions refuse a batch that comes a second time, and without a transaction there is no
    control batch, which would take an offset. Raises `PlanOutdatedError`.
    """
    if is_committed(state, batch):
        return ()
    if log_ends(state, batch.shares) != batch.starts:
        raise PlanOutdatedError("a partition has other records than when the batch was planned")
    append = (AppendBatches(NO_PRODUCER, tuple(topics), tuple(files)),) if files else ()
    moves = tuple(_move(share, end) for share, end in zip(batch.shares, batch.ends, strict=True))
    return (*append, *moves)


def _move(share: Share, end: Position) -> CommitMicroBatch:
    name = share.partition.transactional_id
    source = SourceProgress(None if share.before is None else share.before.text, end.text)
    return CommitMicroBatch(name, name, share.run_id, share.batch_id, (source,))


def is_committed(state: State, batch: BatchPlan) -> bool:
    """Whether this very batch is in the log."""
    for share, end in zip(batch.shares, batch.ends, strict=True):
        query = state.queries.get(share.partition.transactional_id)
        if query is None or query.batch_id != share.batch_id or query.sources[0].end != end.text:
            return False
        if not is_current(state, share.partition, share.run_id):
            return False
    return True


def is_current(state: State, partition: MirroredPartition, run_id: str) -> bool:
    """Whether this run is the one that may write the partition."""
    producer = state.producer_of(partition.transactional_id)
    return producer is not None and producer.run_id == run_id


def begin(state: State, first: Sequence[Position], mirror: str, run_id: str) -> tuple[Action, ...]:
    """Note where a topic begins, for all of its partitions at once; nothing if one of them is known.

    So a partition without a position is one that Kafka's topic got later, and begins at offset 0. Raises
    `InvalidRequestError` if the mirror brings another topic of Kafka there: an offset map is for one.
    """
    partitions = [MirroredPartition(mirror, at.source_id, at.target_id, at.partition) for at in first]
    if any(partition.transactional_id in state.queries for partition in partitions):
        return ()
    for other in positions(state, mirror):
        for at in first[:1]:
            if other.target_id == at.target_id:
                raise InvalidRequestError(
                    f"topic {at.target!r} is mirrored from Kafka's topic {other.topic!r} under this --name, and its "
                    f"offset map has no room for {at.topic!r}. Mirror that into another topic (--rename), or into the "
                    "same one under another --name with --append"
                )
    moves = tuple(
        _move(Share(partition, run_id, None, at, NO_RECORDS), at)
        for partition, at in zip(partitions, first, strict=True)
    )
    return (*take_over(state, [(partition, run_id) for partition in partitions]), *moves)


def take_over(state: State, runs: Sequence[tuple[MirroredPartition, str]]) -> tuple[Action, ...]:
    """Register these runs, which fences the earlier ones of each partition."""
    inits: list[Action] = []
    new = state.next_producer_id
    for partition, run_id in runs:
        name = partition.transactional_id
        producer = state.producer_of(name)
        if producer is None:
            inits.append(InitProducer(new, 0, name, ONE_SHOT_TIMEOUT_MS, run_id))
            new += 1
        elif producer.run_id != run_id:
            inits.append(
                InitProducer(producer.producer_id, producer.epoch + 1, name, ONE_SHOT_TIMEOUT_MS, run_id)
            )
    return tuple(inits)
