"""The transaction log in words: entries, their actions, and the control batches that came of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spark_eos.log.log import Log
from spark_eos.log.time_travel import replay_what_is_left, state_before
from spark_eos.protocol.actions import DECLARED, Request
from spark_eos.protocol.index import Kind
from spark_eos.protocol.rules.apply import Rejected, apply
from spark_eos.protocol.state import PartitionKey, State


def dump(log: Log, first: int = 0) -> Iterator[dict[str, Any]]:
    """A dict for each request (``kind`` request), action and control batch, from entry ``first`` on.

    Or from the earliest one that is not retired. The outcome of an entry depends on the state before it, so the log is
    read from the nearest snapshot on. Raises `CorruptRecordError` and `UnsupportedVersionError`.
    """
    begin = state_before(log, first)
    topics = {topic.topic_id: name for name, topic in begin.topics.items()}
    last_state = begin
    for step in replay_what_is_left(log, begin, log.state.seq):
        seq, state = step.entry.seq, step.before
        if state is not last_state:  # Entries between were retired.
            topics.update((topic.topic_id, name) for name, topic in state.topics.items())
        last_state = step.after
        for request in step.entry.requests:
            before = state
            state, outcome = apply(before, request)
            error = outcome.error if isinstance(outcome, Rejected) else None
            if state.topics is not before.topics:
                topics.update((topic.topic_id, name) for name, topic in state.topics.items())
            if seq < first:
                continue
            yield {
                "kind": "request",
                "seq": seq,
                "request_id": request.request_id.hex(),
                "timestamp_ms": request.timestamp_ms,
                "writer": request.writer,
                "error": None if error is None else f"{type(error).__name__}: {error}",
            }
            for action in request.actions:
                fields = DECLARED[type(action)].show(action)
                yield {"kind": "action", "seq": seq, "action": type(action).__name__, "fields": fields}
            for key in sorted(_touched(request, before)):
                yield from _controls(seq, topics, key, before, state)


def _touched(request: Request, before: State) -> set[PartitionKey]:
    """Where a request can have put control batches.

    That is where it appends, and where transactions were open that it may have ended: a log has many
    partitions, and a request few.
    """
    touched: set[PartitionKey] = set()
    for action in request.actions:
        effects = DECLARED[type(action)].effects(action)
        touched |= effects.partitions
        producer = before.producers.get(effects.producer)
        if producer is not None:
            touched.update(producer.touched)
    return touched


def _controls(
    seq: int, topics: dict[str, str], key: PartitionKey, before: State, after: State
) -> Iterator[dict[str, Any]]:
    """The control batches that a request put into a partition; none if it was rejected."""
    partition, earlier = after.partitions.get(key), before.partitions.get(key)
    if partition is None or partition is earlier:
        return
    since = 0 if earlier is None else earlier.end
    for row in partition.index.scan(since):
        if row.kind is not Kind.DATA and row.base_offset >= since:
            yield {
                "kind": "control",
                "seq": seq,
                "topic": topics[key[0]],
                "partition": key[1],
                "offset": row.base_offset,
                "type": row.kind.name,
                "producer_id": row.producer.producer_id,
                "epoch": row.producer.epoch,
                "number": row.producer.number,
            }
