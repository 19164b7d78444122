"""Spark micro-batches: one run at a time, each batch once, and each where the last one ended (docs/design/0003).

`propose` makes the actions that a driver asks for, given the newest state; `commit` is the rule that the log enforces
for every writer. Both see the same state: the create of the entry proves that it was the newest one. Without this rule
a driver that was replaced could commit a batch that its successor has committed, or a batch that leaves a gap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from immutables import Map

from spark_eos.errors import CheckpointMismatchError, InvalidRequestError, ProducerFencedError
from spark_eos.protocol.actions import groups
from spark_eos.protocol.actions.appends import AppendBatches
from spark_eos.protocol.actions.declaration import Bounds, Effects, Fate, Field, declare
from spark_eos.protocol.actions.offsets import require_partition
from spark_eos.protocol.actions.producers import EndTransaction, InitProducer
from spark_eos.protocol.actions.queries.history import check_history, left_groups, lowest, places, record_of
from spark_eos.protocol.actions.queries.sources import (
    Batches,
    by_name,
    changed_places,
    former_sources,
    moved,
    repeats,
    shown,
)
from spark_eos.protocol.encoding.avro import BOOLEAN, LONG, STRING
from spark_eos.protocol.encoding.values import SOURCES
from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import CommittedOffset, Producer, Query, State
from spark_eos.protocol.types import ProducerStamp, SourceProgress, StagedFile

if TYPE_CHECKING:
    from spark_eos.protocol.actions import Action

ONE_SHOT_TIMEOUT_MS = 60_000
"""Spark's transactions begin and end in one entry, so their timeout never matters."""


class CommitMicroBatch(NamedTuple):
    """Source offsets of a Spark micro-batch: accepted once, by the current run, where the last one ended.

    ``stateful`` says whether the query keeps state in its checkpoint, ``state_loss`` whether the user accepts to go on
    without the state of an earlier query.
    """

    transactional_id: str
    query_id: str
    run_id: str
    batch_id: int
    sources: tuple[SourceProgress, ...]
    stateful: bool = False
    state_loss: bool = False


class MicroBatch(NamedTuple):
    """What a driver wants to commit: its ids, the ranges that it read, and the files that its tasks wrote.

    ``stateful`` and ``state_loss`` as in `CommitMicroBatch`.
    """

    transactional_id: str
    query_id: str
    run_id: str
    batch_id: int
    sources: tuple[SourceProgress, ...]
    topics: tuple[tuple[str, str], ...]
    files: tuple[StagedFile, ...]
    stateful: bool = False
    state_loss: bool = False
    away: frozenset[str] = frozenset()
    """Names of sources that are in the checkpoint's batch and not in the query any more: nothing of them was read."""


def propose(
    state: State, batch: MicroBatch, *, finished: bool, before: tuple[Action, ...] = ()
) -> tuple[Action, ...]:
    """The actions that commit ``batch`` now; none if it is in the log and its run is registered.

    ``finished``: Spark has noted in the checkpoint that the batch is done. If the log has the batch as well, a
    successor has finished it. Then this run is a zombie, and must not fence its successor. ``before`` are actions that
    belong to the batch and come first (truncating in complete mode).

    A query that comes with another transactional id takes its old one as well: its run is registered under both ids,
    which fences a run that still uses the old one.

    Raises `ProducerFencedError` or `CheckpointMismatchError`; a refused batch never registers its run.
    """
    producer = state.producer_of(batch.transactional_id)
    old_ids = places(state, batch.transactional_id, batch.query_id)
    for name in (batch.transactional_id, *old_ids):
        holder = state.producer_of(name)
        if holder is not None and not _is_current(holder, batch.run_id) and batch.run_id in holder.runs:
            raise _fenced(name, batch.run_id, holder)
    current = _is_current(producer, batch.run_id)
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
    register += tuple(
        InitProducer(holder.producer_id, holder.epoch + 1, name, ONE_SHOT_TIMEOUT_MS, batch.run_id)
        for name in old_ids
        if (holder := state.producer_of(name)) is not None and not _is_current(holder, batch.run_id)
    )
    last = record_of(state, batch.transactional_id, batch.query_id)
    progress = CommitMicroBatch(
        *(batch.transactional_id, batch.query_id, batch.run_id, batch.batch_id, batch.sources),
        stateful=batch.stateful,
        state_loss=batch.state_loss,
    )
    if last is not None and batch.batch_id <= last.batch_id:
        if finished and not current:
            raise _fenced(batch.transactional_id, batch.run_id, producer)
        if batch.batch_id == last.batch_id and repeats(batch.sources, last.sources, batch.away):
            return register
        raise _older(progress, last)
    append = (AppendBatches(stamp, batch.topics, batch.files),) if batch.files else ()
    return (*register, *before, *append, progress, EndTransaction(stamp, commit=True))


def commit(state: State, action: CommitMicroBatch) -> tuple[State, None]:
    """The source offsets of a micro-batch, if its run is the current one and it continues the last batch."""
    old_ids = places(state, action.transactional_id, action.query_id)
    for name in (action.transactional_id, *old_ids):
        producer = state.producer_of(name)
        if not _is_current(producer, action.run_id):
            raise _fenced(name, action.run_id, producer)
    record = state.queries.get(action.transactional_id)
    own = record_of(state, action.transactional_id, action.query_id)
    if own is not None and action.batch_id <= own.batch_id:
        raise _older(action, own)
    if own is not None:
        _check_sources(action, own)
    if record is not None and record.query_id != action.query_id:
        _check_sources(action, record)
    if own is None:
        check_history(state, action)
    offsets = left_groups(state, _check_groups(state, action, own), own, action.sources, old_ids)
    former = former_sources(action.sources, own)
    query = Query(action.query_id, action.batch_id, action.sources, former, action.stateful)
    queries = state.queries.set(action.transactional_id, query)
    for name in old_ids:
        queries = queries.delete(name)
    run = state.producers[state.transactional_ids[action.transactional_id]]
    # A mirror's batch is no transaction: nothing else of it tells when the run was here last.
    producers = state.producers.set(run.producer_id, replace(run, last_ms=state.timestamp_ms))
    return replace(
        state,
        offsets=offsets,
        offset_commits=state.offset_commits + 1,
        queries=queries,
        producers=producers,
    ), None


def _fate_of_commit(state: State, action: CommitMicroBatch) -> Fate:
    query = state.queries.get(action.transactional_id)
    if query is None or query.query_id != action.query_id:
        return Fate.UNKNOWN
    if query.batch_id < action.batch_id:
        return Fate.NOT_APPLIED
    # Another run may have committed it; then this one has to be refused, or to take over.
    ours = _is_current(state.producer_of(action.transactional_id), action.run_id)
    return Fate.APPLIED if ours else Fate.UNKNOWN


declare(
    CommitMicroBatch,
    number=7,
    fields=(
        Field("transactional_id", STRING),
        Field("query_id", STRING),
        Field("run_id", STRING),
        Field("batch_id", LONG, bounds=Bounds(least=0)),
        Field("sources", SOURCES, bounds=Bounds(items=10_000)),
        Field("stateful", BOOLEAN),
        Field("state_loss", BOOLEAN),
    ),
    rule=commit,
    fate=_fate_of_commit,
    effects=lambda action: Effects(
        groups=frozenset(source.group for source in action.sources if source.group is not None)
    ),
)


def _is_current(producer: Producer | None, run_id: str) -> bool:
    """Whether the query run holds its transactional id."""
    return producer is not None and producer.run_id == run_id


def _check_sources(action: CommitMicroBatch, last: Query) -> None:
    """Each source must start where the same source ended in the last batch."""
    same_query = last.query_id == action.query_id
    batches = Batches(
        f"batch {action.batch_id} of query {action.query_id}",
        f"the last micro-batch under transactional.id {action.transactional_id!r} "
        f"(batch {last.batch_id} of query {last.query_id})",
        _plan_anew(action),
    )
    wrong = moved(action.sources, last, batches, same_query=same_query)
    if wrong is None:
        wrong = changed_places(action.sources, last, batches)
    if wrong is not None:
        remedy = "Nothing was written." if batches.again in wrong else _remedy(action, same_query=same_query)
        raise CheckpointMismatchError(f"{wrong}. {remedy}")


def _check_groups(
    state: State, action: CommitMicroBatch, own: Query | None
) -> Map[str, Map[tuple[str, int], CommittedOffset]]:
    """The offsets of all groups after the batch; what they had must be where its sources start.

    Two sources may read one partition in the same group (a self-join): the group then stands at the one
    that has read less.
    """
    for source in action.sources:
        if not source.group and (source.start_offsets or source.end_offsets):
            raise InvalidRequestError("source offsets of this log need the group they are committed for")
    starts = lowest([(source.group, source.start_offsets) for source in action.sources])
    ends = lowest([(source.group, source.end_offsets) for source in action.sources])
    read = {(group, topic) for group, topic, _ in ends}
    for group in sorted({group for group, _ in read}):
        groups.check_committer(state, group, None, ())
    offsets = state.offsets
    for group, topic in sorted(read):
        for (known_topic, partition), position in offsets.get(group, _NO_OFFSETS).items():
            start = starts.get((group, topic, partition))
            if known_topic == topic and (
                start is None or (start.topic_id, start.offset) != (position.topic_id, position.offset)
            ):
                raise CheckpointMismatchError(
                    f"group {group!r} has committed offset {position.offset} for {topic}-{partition}, but batch "
                    f"{action.batch_id} of query {action.query_id} reads it from "
                    f"{'nowhere' if start is None else start.offset}. "
                    + (_remedy(action, same_query=False) if own is None else _begin_at(action, group))
                )
    committed: dict[str, dict[tuple[str, int], CommittedOffset]] = {}
    for (group, topic, partition), end in ends.items():
        if topic not in state.topics:
            continue  # Deleted since: the query may go on without it, and no group keeps offsets of it.
        require_partition(state, end)
        if end.offset < 0:
            raise InvalidRequestError(
                f"group {group!r} cannot go on at offset {end.offset} of {topic}-{partition}"
            )
        of_group = committed.setdefault(group, {})
        of_group[topic, partition] = CommittedOffset(
            end.topic_id, end.offset, "", state.timestamp_ms, state.offset_commits
        )
    for group, new in committed.items():
        offsets = offsets.set(group, offsets.get(group, _NO_OFFSETS).update(new))
    return offsets


def _older(action: CommitMicroBatch, last: Query) -> CheckpointMismatchError:
    if action.batch_id == last.batch_id:
        differs = "; ".join(
            f"source {number}: {shown(source.start)} to {shown(source.end)} instead of "
            f"{shown(before.start)} to {shown(before.end)}"
            for number, source in by_name(action.sources).items()
            if (before := by_name(last.sources).get(number, _NOWHERE))
            and (source.start, source.end) != (before.start, before.end)
        )
        problem = (
            f"batch {action.batch_id} of query {action.query_id} was committed with other offsets ({differs})"
        )
    else:
        problem = (
            f"batch {action.batch_id} of query {action.query_id} comes after batch {last.batch_id} "
            "of the same query"
        )
    return CheckpointMismatchError(
        f"{problem}: the checkpoint is older than the log. It was put back, or copied from a backup. "
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
        "startingOffsets=committed and the same group.id; to start over, use another transactional.id "
        "and group.id."
    )


def _plan_anew(action: CommitMicroBatch) -> str:
    return (
        f"Remove offsets/{action.batch_id} from the checkpoint, with its sums in offsets/.{action.batch_id}.crc, so "
        "that Spark plans this micro-batch again, which was not committed"
    )


def _begin_at(action: CommitMicroBatch, group: str) -> str:
    """For a source that is new in a query, or has another group than before."""
    return (
        "Nothing was written. Begin the source where its group stands (startingOffsets=committed and "
        f"group.id={group!r} on the source), or give the source a group.id that has committed nothing yet. "
        f"{_plan_anew(action)}."
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


_NO_OFFSETS: Map[tuple[str, int], CommittedOffset] = Map()
_NOWHERE = SourceProgress(None, None)
