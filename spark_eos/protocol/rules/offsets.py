"""Committed offsets of consumer groups, alone or with a transaction (KIP-98, KIP-447)."""

from __future__ import annotations

from immutables import Map

from spark_eos.errors import InvalidRequestError, UnknownTopicOrPartitionError
from spark_eos.protocol.actions import CommitOffsets, PartitionOffset
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules import groups, producers, topics
from spark_eos.protocol.state import CommittedOffset, PartitionKey, State
from spark_eos.protocol.types import MAX_METADATA_BYTES

__all__ = ["commit", "is_pending", "require_partition"]


def require_partition(state: State, offset: PartitionOffset) -> PartitionKey:
    """The partition that ``offset`` names, in the incarnation it names."""
    topic = topics.require(state, offset.topic, offset.topic_id)
    if not 0 <= offset.partition < topic.partitions:
        raise UnknownTopicOrPartitionError(
            f"topic {offset.topic!r} has no partition {offset.partition}: it has {topic.partitions}"
        )
    return topic.topic_id, offset.partition


def commit(state: State, action: CommitOffsets) -> tuple[State, None]:
    """Positions of a group; inside a transaction they wait for its end and vanish with an abort.

    Only who reads the partitions now may say so (`groups.check_committer`).
    """
    if not action.group:
        raise InvalidRequestError("offsets can only be committed for a group: set group.id")
    committed = {}
    keys = []
    for wanted in action.offsets:
        keys.append(require_partition(state, wanted))
        if wanted.offset < 0:
            raise InvalidRequestError(
                f"offset {wanted.offset} cannot be committed for {wanted.topic}-{wanted.partition}"
            )
        # Surrogates have no UTF-8; the codec refuses them, and a rule may raise nothing but its own errors.
        if len(wanted.metadata.encode(errors="surrogatepass")) > MAX_METADATA_BYTES:
            raise InvalidRequestError(
                f"the metadata committed for {wanted.topic}-{wanted.partition} is longer than "
                f"{MAX_METADATA_BYTES} bytes"
            )
        committed[wanted.topic, wanted.partition] = CommittedOffset(
            wanted.topic_id, wanted.offset, wanted.metadata, state.timestamp_ms
        )
    groups.check_committer(state, action.group, action.member, keys)
    if action.producer is None:
        known = state.offsets.get(action.group, Map())
        return replace(state, offsets=state.offsets.set(action.group, known.update(committed))), None
    state, producer = producers.require_transaction(state, action.producer)
    pending = producer.pending.update({(action.group, *key): value for key, value in committed.items()})
    producer = replace(producer, pending=pending)
    return replace(state, producers=state.producers.set(producer.producer_id, producer)), None


def is_pending(state: State, group: str, topic: str, partition: int) -> bool:
    """Whether an open transaction carries an offset of the group for this partition."""
    return any(
        (group, topic, partition) in state.producers[producer_id].pending
        for producer_id in state.open_transactions
    )
