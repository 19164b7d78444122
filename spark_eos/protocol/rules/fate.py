"""Whether a request was applied, told by the state alone: for a writer whose entry was retired before it saw it.

A request is applied as a whole or not at all, so one action that leaves a trace decides for all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from spark_eos.protocol.actions import (
    Action,
    AppendBatches,
    CommitMicroBatch,
    CreateTopic,
    EndTransaction,
    InitProducer,
)
from spark_eos.protocol.rules.producers import find_duplicate
from spark_eos.protocol.state import State, TransactionState
from spark_eos.protocol.types import NO_PRODUCER, NO_SEQUENCE

__all__ = ["Fate", "fate_of", "is_repeatable"]


class Fate(Enum):
    """What the state says of a request."""

    APPLIED = "applied"
    NOT_APPLIED = "not applied"
    UNKNOWN = "unknown"


def fate_of(state: State, actions: Sequence[Action]) -> Fate:
    """Whether a request with these actions is part of ``state``, by transaction, sequence or batch number."""
    for action in actions:
        if isinstance(action, InitProducer):
            # Others may have taken the same epoch and number meanwhile: only a run's own name tells.
            return _of_init(state, action)
    for action in actions:
        if (found := _of_action(state, action)) is not Fate.UNKNOWN:
            return found
    return Fate.UNKNOWN


def is_repeatable(actions: Sequence[Action]) -> bool:
    """Whether applying the request twice does no harm: rows without a producer are not recognised."""
    return not any(isinstance(one, AppendBatches) and one.producer == NO_PRODUCER for one in actions)


def _of_action(state: State, action: Action) -> Fate:
    if isinstance(action, EndTransaction):
        return _of_end(state, action)
    if isinstance(action, CommitMicroBatch):
        query = state.queries.get(action.transactional_id)
        if query is None or query.query_id != action.query_id:
            return Fate.UNKNOWN
        if query.batch_id < action.batch_id:
            return Fate.NOT_APPLIED
        # Another run may have committed it; then this one has to be refused, or to take over.
        producer = state.producer_of(action.transactional_id)
        ours = producer is not None and producer.run_id == action.run_id
        return Fate.APPLIED if ours else Fate.UNKNOWN
    if isinstance(action, AppendBatches):
        return _of_append(state, action)
    if isinstance(action, CreateTopic):
        topic = state.topics.get(action.name)
        return Fate.APPLIED if topic and topic.topic_id == action.topic_id else Fate.UNKNOWN
    return Fate.UNKNOWN


def _of_init(state: State, action: InitProducer) -> Fate:
    known = state.producers.get(action.producer_id)
    if known is None:
        return Fate.UNKNOWN
    if known.epoch < action.epoch:
        return Fate.NOT_APPLIED
    named = action.run_id is not None and action.run_id in known.runs
    return Fate.APPLIED if named else Fate.UNKNOWN


def _of_end(state: State, action: EndTransaction) -> Fate:
    stamp = action.producer
    producer = state.producers.get(stamp.producer_id)
    if producer is None or producer.number > stamp.number:
        return Fate.UNKNOWN
    if producer.number < stamp.number:
        return Fate.NOT_APPLIED
    if producer.epoch != stamp.epoch:
        return Fate.UNKNOWN  # A successor may have used the number for a transaction of its own.
    if producer.transaction is TransactionState.ONGOING:
        return Fate.NOT_APPLIED
    committed = producer.transaction is TransactionState.COMPLETE_COMMIT
    if committed is action.commit:
        # No other client commits it; an abort may come from fencing, with the same result.
        return Fate.APPLIED
    return Fate.NOT_APPLIED


def _of_append(state: State, action: AppendBatches) -> Fate:
    stamp = action.producer
    producer = state.producers.get(stamp.producer_id)
    if producer is None or producer.epoch != stamp.epoch:
        return Fate.UNKNOWN
    ids = dict(action.topics)
    for staged in action.files:
        for batch in staged.batches:
            if batch.base_sequence == NO_SEQUENCE:
                return Fate.UNKNOWN
            key = (ids.get(staged.topic, ""), batch.partition)
            found = find_duplicate(producer, key, stamp.number, batch)
            return Fate.APPLIED if found is not None else Fate.UNKNOWN
    return Fate.UNKNOWN
