"""The history of a Spark query: its last micro-batch under any transactional id, and whether it has state to lose.

A query has one record in the log. It lies under the transactional id of its last
micro-batch, and moves with the query to another id; so does the group that is named like the old id. Without that, a
query that is restarted under another id would write batches a second time (docs/design/0003).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from immutables import Map

from spark_eos.errors import CheckpointMismatchError
from spark_eos.protocol.state import CommittedOffset, Query, State
from spark_eos.protocol.types import PartitionOffset, SourceProgress

if TYPE_CHECKING:
    from spark_eos.protocol.actions.queries.microbatch import CommitMicroBatch

Offsets = Map[str, Map[tuple[str, int], CommittedOffset]]


def record_of(state: State, transactional_id: str, query_id: str) -> Query | None:
    """The query's last micro-batch under any transactional id."""
    names = places(state, transactional_id, query_id)
    queries = [*map(state.queries.get, names), state.queries.get(transactional_id)]
    own = [query for query in queries if query is not None and query.query_id == query_id]
    return max(own, key=lambda query: query.batch_id, default=None)


def places(state: State, transactional_id: str, query_id: str) -> tuple[str, ...]:
    """The other transactional ids under which there are micro-batches of the query."""
    record = state.queries.get(transactional_id)
    if record is not None and record.query_id == query_id:
        return ()  # It is the only record.
    return tuple(
        sorted(
            name
            for name, query in state.queries.items()
            if query.query_id == query_id and name != transactional_id
        )
    )


def check_history(state: State, action: CommitMicroBatch) -> None:
    """Check the first batch that the log sees of a query: it must be batch 0, and no state may be lost."""
    if action.batch_id > 0:
        raise CheckpointMismatchError(
            f"this log has no micro-batch of query {action.query_id}, but batch {action.batch_id} is to be committed: "
            "the earlier ones went to another log or sink, were written with processing.guarantee=at_least_once, or "
            "another query has gone on under the same transactional.id. Nothing was written. Give the query the log "
            "that it wrote to, or a new checkpoint"
        )
    if not action.stateful or action.state_loss:
        return
    for name, query in sorted(state.queries.items()):
        if query.stateful and (name == action.transactional_id or _goes_on(action, query)):
            raise CheckpointMismatchError(
                f"query {action.query_id} goes on where query {query.query_id} ended (transactional.id {name!r}), "
                "which keeps state (of aggregations, joins, dropDuplicates, ...) in its checkpoint; in the new "
                "checkpoint that state is empty, and results would be wrong. Nothing was written. Start the query with "
                "the old checkpoint; or read everything again: startingOffsets=earliest, another transactional.id, "
                "group.id and topic; or accept the loss of the state with option allowStateLoss=true"
            )


def _goes_on(action: CommitMicroBatch, query: Query) -> bool:
    """Whether a source begins where one of the query ended, for the same group."""
    ends = {
        (source.group, at)
        for source in query.sources
        for at in _positions(source.end_offsets)
        if source.group is not None
    }
    return any(
        (source.group, at) in ends
        for source in action.sources
        for at in _positions(source.start_offsets)
        if source.group is not None
    )


def _positions(offsets: tuple[PartitionOffset, ...]) -> list[tuple[str, int, int]]:
    return [(at.topic_id, at.partition, at.offset) for at in offsets]


def left_groups(
    state: State,
    offsets: Offsets,
    last: Query | None,
    sources: tuple[SourceProgress, ...],
    names: tuple[str, ...],
) -> Offsets:
    """The offsets without those of groups that are named like ``names``, the transactional ids that the query has left.

    They are committed for the group of the new id instead. An offset that another client has moved stays, and so does a
    group that another query reads for, or that has members.
    """
    if last is None:
        return offsets
    left_offsets = lowest(
        [(source.group, source.end_offsets) for source in last.sources if source.group in names]
    )
    if not left_offsets:
        return offsets
    ends = lowest([(source.group, source.end_offsets) for source in sources])
    read = {(topic, partition) for _, topic, partition in ends}
    other_groups = {
        source.group
        for query in state.queries.values()
        if query.query_id != last.query_id
        for source in query.sources
    }
    for (group, topic, partition), at in left_offsets.items():
        committed = offsets.get(group, _NOTHING).get((topic, partition))
        is_kept = group in other_groups or (group in state.groups and state.groups[group].members)
        if (
            (group, topic, partition) in ends
            or (topic, partition) not in read
            or is_kept
            or committed is None
        ):
            continue
        if (committed.topic_id, committed.offset) == (at.topic_id, at.offset):
            offsets = offsets.set(group, offsets[group].delete((topic, partition)))
            if not offsets[group] and group not in state.groups:
                offsets = offsets.delete(group)
    return offsets


def lowest(
    positions: list[tuple[str | None, tuple[PartitionOffset, ...]]],
) -> dict[tuple[str, str, int], PartitionOffset]:
    """For each group and partition the lowest position."""
    least: dict[tuple[str, str, int], PartitionOffset] = {}
    for group, offsets in positions:
        for at in offsets if group else ():
            key = (group or "", at.topic, at.partition)
            if key not in least or at.offset < least[key].offset:
                least[key] = at
    return least


_NOTHING: Map[tuple[str, int], CommittedOffset] = Map()
