"""Committed offsets of consumer groups, alone or as a part of a transaction (KIP-98, KIP-447).

Inside a transaction the offsets wait for its end: they become visible together with its rows, or not at all. Else a
job that reads, transforms and writes would read records twice, or lose them, after a crash between the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from immutables import Map

from spark_eos.errors import GroupNotEmptyError, InvalidRequestError, UnknownTopicOrPartitionError
from spark_eos.errors.counting import counted
from spark_eos.protocol.actions import groups, producers, topics
from spark_eos.protocol.actions.declaration import INT32, Effects, Field, declare
from spark_eos.protocol.encoding.avro import STRING, optional_of
from spark_eos.protocol.encoding.values import MEMBERSHIP, NUMBERED_TOPICS, OFFSETS, STAMP
from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import CommittedOffset, Group, PartitionKey, State
from spark_eos.protocol.types import (
    ADMIN,
    MAX_METADATA_BYTES,
    Membership,
    PartitionOffset,
    ProducerStamp,
    TrailNote,
)


class CommitOffsets(NamedTuple):
    """A consumer group's positions; with a producer they wait for the end of its transaction.

    ``member`` is None where the group has no members: a consumer with assigned partitions.
    """

    group: str
    offsets: tuple[PartitionOffset, ...]
    producer: ProducerStamp | None = None
    member: Membership | None = None


def commit(state: State, action: CommitOffsets) -> tuple[State, None]:
    """Positions of a group; inside a transaction they wait for its end and vanish with an abort.

    Of a group with members, only the member that holds a partition commits for it (`groups.check_committer`).
    """
    if not action.group:
        raise InvalidRequestError("offsets can only be committed for a group: set group.id")
    committed = {}
    keys = []
    for target in action.offsets:
        keys.append(require_partition(state, target))
        if target.offset < 0:
            raise InvalidRequestError(
                f"offset {target.offset} cannot be committed for {target.topic}-{target.partition}"
            )
        # Surrogates have no UTF-8; the codec refuses them, and a rule may raise nothing but its own errors.
        if len(target.metadata.encode(errors="surrogatepass")) > MAX_METADATA_BYTES:
            raise InvalidRequestError(
                f"the metadata committed for {target.topic}-{target.partition} is longer than "
                f"{MAX_METADATA_BYTES} bytes"
            )
        committed[target.topic, target.partition] = CommittedOffset(
            target.topic_id, target.offset, target.metadata, state.timestamp_ms, state.offset_commits
        )
    groups.check_committer(state, action.group, action.member, keys)
    state = replace(state, offset_commits=state.offset_commits + 1)
    if action.producer is None:
        of_group = state.offsets.get(action.group, Map())
        return replace(state, offsets=state.offsets.set(action.group, of_group.update(committed))), None
    state, producer = producers.require_transaction(state, action.producer)
    pending = producer.pending.update({(action.group, *key): value for key, value in committed.items()})
    producer = replace(producer, pending=pending)
    return replace(state, producers=state.producers.set(producer.producer_id, producer)), None


def _tell_reset(_before: State, _after: State, action: CommitOffsets, writer: str) -> Iterable[TrailNote]:
    if writer != ADMIN or not action.offsets:
        return ()
    return [
        TrailNote(
            "offsets of a group set",
            action.group,
            ", ".join(f"{target.topic}-{target.partition}: {target.offset}" for target in action.offsets),
        )
    ]


declare(
    CommitOffsets,
    number=6,
    fields=(
        Field("group", STRING),
        Field("offsets", OFFSETS),
        Field("producer", optional_of(STAMP)),
        Field("member", optional_of(MEMBERSHIP)),
    ),
    rule=commit,
    effects=lambda action: Effects(groups=frozenset({action.group})),
    tell=_tell_reset,
)


class DeleteOffsets(NamedTuple):
    """A group forgets what it committed for these partitions (topic, number); all of them if none are named."""

    group: str
    partitions: tuple[tuple[str, int], ...] = ()


def delete_offsets(state: State, action: DeleteOffsets) -> tuple[State, None]:
    """A group forgets offsets, or is forgotten as a whole; rejected while members read these topics.

    What open transactions carry of them goes too, as in Kafka (OffsetMetadataManager.replay: "Remove all the pending
    offset commits related to the tombstone").
    """
    group = state.groups.get(action.group, Group())
    offsets = state.offsets.get(action.group, Map())
    if not action.partitions:
        if group.members:
            raise GroupNotEmptyError(
                f"group {action.group!r} has {counted(len(group.members), 'member')}: stop them first, "
                "or remove those whose processes are gone (eoslog groups remove-members)"
            )
        return groups.forgotten(_nothing_pending(state, action.group), action.group), None
    read = {topic for member in group.members.values() for topic in member.topics}
    for at in action.partitions:
        if at[0] in read:
            raise GroupNotEmptyError(
                f"group {action.group!r} has members that subscribe to topic {at[0]!r}: stop them first, or "
                "remove those whose processes are gone (eoslog groups remove-members)"
            )
        if at in offsets:
            offsets = offsets.delete(at)
    state = _nothing_pending(state, action.group, action.partitions)
    return replace(state, offsets=state.offsets.set(action.group, offsets)), None


def _nothing_pending(state: State, group: str, partitions: tuple[tuple[str, int], ...] = ()) -> State:
    """No open transaction carries an offset of the group for these partitions any more; for none, if none are named."""
    producers = state.producers
    for producer_id in state.open_transactions:
        producer = producers[producer_id]
        gone = [
            key for key in producer.pending if key[0] == group and (not partitions or key[1:] in partitions)
        ]
        if gone:
            left = replace(producer, pending=topics.without(producer.pending, gone))
            producers = producers.set(producer_id, left)
    return replace(state, producers=producers)


def _tell_deleted(before: State, after: State, action: DeleteOffsets, _writer: str) -> Iterable[TrailNote]:
    kind, gone = "offsets of a group deleted", groups.offsets_gone(before, after, action.group)
    if not action.partitions and groups.is_gone(before, after, action.group):
        return [TrailNote(kind, action.group, "all")]
    return [TrailNote(kind, action.group, ", ".join(gone))] if gone else []


declare(
    DeleteOffsets,
    number=11,
    fields=(Field("group", STRING), Field("partitions", NUMBERED_TOPICS, bounds=INT32)),
    rule=delete_offsets,
    tell=_tell_deleted,
)


def require_partition(state: State, offset: PartitionOffset) -> PartitionKey:
    """The partition that ``offset`` names, in the incarnation it names."""
    topic = topics.require(state, offset.topic, offset.topic_id)
    if not 0 <= offset.partition < topic.partitions:
        raise UnknownTopicOrPartitionError(
            f"topic {offset.topic!r} has no partition {offset.partition}: it has {topic.partitions}"
        )
    return topic.topic_id, offset.partition


def is_pending(state: State, group: str, topic: str, partition: int) -> bool:
    """Whether an open transaction carries an offset of the group for this partition."""
    return any(
        (group, topic, partition) in state.producers[producer_id].pending
        for producer_id in state.open_transactions
    )
