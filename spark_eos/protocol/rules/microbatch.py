"""Spark micro-batches: one run at a time, each batch once, and each where the last one ended.

`propose` is what a driver asks for, given the newest state; `commit` is the rule that the log enforces,
whoever asks. Both see the same state: the create of the entry proves it was the newest one.
"""

from __future__ import annotations

from typing import NamedTuple

from immutables import Map

from spark_eos.errors import CheckpointMismatchError, InvalidRequestError, ProducerFencedError
from spark_eos.protocol.actions import (
    Action,
    AppendBatches,
    CommitMicroBatch,
    EndTransaction,
    InitProducer,
    PartitionOffset,
    SourceProgress,
)
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules import groups
from spark_eos.protocol.rules.offsets import require_partition
from spark_eos.protocol.state import CommittedOffset, Producer, Query, State
from spark_eos.protocol.types import ProducerStamp, StagedFile

__all__ = ["ONE_SHOT_TIMEOUT_MS", "MicroBatch", "commit", "propose"]

ONE_SHOT_TIMEOUT_MS = 60_000
"""Spark's transactions are one shot and never open, so their timeout is never looked at."""


class MicroBatch(NamedTuple):
    """What a driver wants to commit: who it is, what it read, and what its tasks wrote."""

    transactional_id: str
    query_id: str
    run_id: str
    batch_id: int
    sources: tuple[SourceProgress, ...]
    topics: tuple[tuple[str, str], ...]
    files: tuple[StagedFile, ...]


def propose(
    state: State, batch: MicroBatch, *, finished: bool, before: tuple[Action, ...] = ()
) -> tuple[Action, ...]:
    """The actions that commit ``batch`` now; none if it is in the log and its run is registered.

    ``finished`` says that Spark has noted the batch as done in the checkpoint: if it is in the log as well,
    a successor has finished it, so this run is a zombie and must not fence its successor. ``before`` are
    actions that belong to the batch and come first (truncating in complete mode).

    Raises `ProducerFencedError` or `CheckpointMismatchError`; a refused batch never registers its run.
    """
    producer = state.producer_of(batch.transactional_id)
    last = state.queries.get(batch.transactional_id)
    current = producer is not None and producer.run_id == batch.run_id
    if producer is not None and not current and batch.run_id in producer.runs:
        raise _fenced(batch.transactional_id, batch.run_id, producer)
    register: tuple[Action, ...] = ()
    if producer is None:
        stamp = ProducerStamp(state.next_producer_id, 0, 0)
    elif current:
        stamp = ProducerStamp(producer.producer_id, producer.epoch, producer.number + 1)
    else:
        stamp = ProducerStamp(producer.producer_id, producer.epoch + 1, producer.number + 1)
    if not current:
        register = (
            InitProducer(
                stamp.producer_id, stamp.epoch, batch.transactional_id, ONE_SHOT_TIMEOUT_MS, batch.run_id
            ),
        )
    progress = CommitMicroBatch(
        batch.transactional_id, batch.query_id, batch.run_id, batch.batch_id, batch.sources
    )
    if last is not None and last.query_id == batch.query_id and batch.batch_id <= last.batch_id:
        if finished and not current:
            raise _fenced(batch.transactional_id, batch.run_id, producer)
        if batch.batch_id == last.batch_id and _same(batch.sources, last.sources):
            return register
        raise _older(progress, last)
    append = (AppendBatches(stamp, batch.topics, batch.files),) if batch.files else ()
    return (*register, *before, *append, progress, EndTransaction(stamp, commit=True))


def commit(state: State, action: CommitMicroBatch) -> tuple[State, None]:
    """The source offsets of a micro-batch, if its run is the current one and it continues the last batch."""
    producer = state.producer_of(action.transactional_id)
    if producer is None or producer.run_id != action.run_id:
        raise _fenced(action.transactional_id, action.run_id, producer)
    last = state.queries.get(action.transactional_id)
    same_query = last is not None and last.query_id == action.query_id
    if last is not None and same_query and action.batch_id <= last.batch_id:
        raise _older(action, last)
    if last is not None:
        _check_sources(action, last, same_query=same_query)
    offsets = _check_groups(state, action)
    query = Query(action.query_id, action.batch_id, action.sources)
    return replace(state, offsets=offsets, queries=state.queries.set(action.transactional_id, query)), None


def _check_sources(action: CommitMicroBatch, last: Query, *, same_query: bool) -> None:
    """Each source must start where the same source ended in the last batch."""
    if len(action.sources) != len(last.sources):
        raise CheckpointMismatchError(
            f"the query reads {len(action.sources)} sources, but the last micro-batch under transactional.id "
            f"{action.transactional_id!r} read {len(last.sources)}. " + _remedy(action, same_query=same_query)
        )
    for number, (source, before) in enumerate(zip(action.sources, last.sources, strict=True)):
        if source.group is not None and before.group is not None:
            matches = _continues(source.start_offsets, before.end_offsets)
        else:
            matches = source.start == before.end
        if not matches:
            raise CheckpointMismatchError(
                f"batch {action.batch_id} of query {action.query_id} reads source {number} from "
                f"{_text(source.start)}, but the last micro-batch under transactional.id "
                f"{action.transactional_id!r} (batch {last.batch_id} of query {last.query_id}) ended at "
                f"{_text(before.end)}. " + _remedy(action, same_query=same_query)
            )


def _continues(start: tuple[PartitionOffset, ...], end: tuple[PartitionOffset, ...]) -> bool:
    """Every partition that was read goes on at its end; further ones may join."""
    wanted = {(at.topic, at.topic_id, at.partition): at.offset for at in start}
    return all(wanted.get((at.topic, at.topic_id, at.partition)) == at.offset for at in end)


def _check_groups(state: State, action: CommitMicroBatch) -> Map[str, Map[tuple[str, int], CommittedOffset]]:
    """The offsets of all groups after the batch; what they had must be where its sources start.

    Two sources may read one partition in the same group (a self-join): the group then stands at the one
    that is further behind.
    """
    starts = _lowest([(source.group, source.start_offsets) for source in action.sources])
    ends = _lowest([(source.group, source.end_offsets) for source in action.sources])
    read = {(group, topic) for group, topic, _ in ends}
    for group in sorted({group for group, _ in read}):
        groups.check_committer(state, group, None, ())
    offsets = state.offsets
    for group, topic in sorted(read):
        for (known_topic, partition), known in offsets.get(group, _NO_OFFSETS).items():
            start = starts.get((group, topic, partition))
            if known_topic == topic and (
                start is None or (start.topic_id, start.offset) != (known.topic_id, known.offset)
            ):
                raise CheckpointMismatchError(
                    f"group {group!r} has committed offset {known.offset} for {topic}-{partition}, but batch "
                    f"{action.batch_id} of query {action.query_id} reads it from "
                    f"{'nowhere' if start is None else start.offset}. " + _remedy(action, same_query=False)
                )
    for (group, topic, partition), end in ends.items():
        if topic not in state.topics:
            continue  # Deleted since: the query may go on without it, and no group keeps offsets of it.
        require_partition(state, end)
        if end.offset < 0:
            raise InvalidRequestError(
                f"group {group!r} cannot go on at offset {end.offset} of {topic}-{partition}"
            )
        committed = CommittedOffset(end.topic_id, end.offset, "", state.timestamp_ms)
        offsets = offsets.set(group, offsets.get(group, _NO_OFFSETS).set((topic, partition), committed))
    return offsets


def _lowest(
    positions: list[tuple[str | None, tuple[PartitionOffset, ...]]],
) -> dict[tuple[str, str, int], PartitionOffset]:
    lowest: dict[tuple[str, str, int], PartitionOffset] = {}
    for group, offsets in positions:
        if not group:
            if offsets:
                raise InvalidRequestError("source offsets of this log need the group they are committed for")
            continue
        for at in offsets:
            key = (group, at.topic, at.partition)
            if key not in lowest or at.offset < lowest[key].offset:
                lowest[key] = at
    return lowest


def _same(ours: tuple[SourceProgress, ...], theirs: tuple[SourceProgress, ...]) -> bool:
    return [(at.start, at.end) for at in ours] == [(at.start, at.end) for at in theirs]


def _older(action: CommitMicroBatch, last: Query) -> CheckpointMismatchError:
    if action.batch_id == last.batch_id:
        differs = "; ".join(
            f"source {number}: {_text(source.start)} to {_text(source.end)} instead of "
            f"{_text(before.start)} to {_text(before.end)}"
            for number, (source, before) in enumerate(zip(action.sources, last.sources, strict=False))
            if (source.start, source.end) != (before.start, before.end)
        )
        what = (
            f"batch {action.batch_id} of query {action.query_id} was committed with other offsets ({differs})"
        )
    else:
        what = (
            f"batch {action.batch_id} of query {action.query_id} comes after batch {last.batch_id} "
            "of the same query"
        )
    return CheckpointMismatchError(
        f"{what}: the checkpoint is older than the log. It was put back, or copied from a backup. "
        + _remedy(action, same_query=True)
    )


def _remedy(action: CommitMicroBatch, *, same_query: bool) -> str:
    if same_query:
        return (
            "Nothing was written. Go on with a new checkpoint, the same transactional.id "
            f"({action.transactional_id!r}, set it as an option) and startingOffsets=committed, which "
            "continues exactly where the log stands."
        )
    return (
        "Nothing was written. To go on where the log stands, start from a new checkpoint with "
        "startingOffsets=committed and the same group.id; to begin anew, use another transactional.id "
        "and group.id."
    )


def _fenced(transactional_id: str, run_id: str, producer: Producer | None) -> ProducerFencedError:
    if producer is None:
        who = "it never registered"
    else:
        who = (
            "another client has taken over"
            if producer.run_id is None
            else f"run {producer.run_id} has taken over"
        )
    return ProducerFencedError(
        f"query run {run_id} of transactional.id {transactional_id!r} is not the current one: {who}. "
        "Nothing of this micro-batch was written; stop this query, the newer one goes on"
    )


def _text(offset: str | None) -> str:
    return "an unknown place" if offset is None else offset


_NO_OFFSETS: Map[tuple[str, int], CommittedOffset] = Map()
