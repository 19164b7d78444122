"""What must hold in every state, and between a state and any later one, whatever was asked of the log."""

from __future__ import annotations

from spark_eos.protocol.state import Partition, PartitionKey, State, TransactionState

__all__ = ["InvariantError", "check_state", "check_step"]


class InvariantError(AssertionError):
    """The rules themselves are wrong: no request may ever lead here."""


def check_step(before: State, after: State) -> None:
    """Raise `InvariantError` if ``after`` is impossible, or cannot come after ``before``.

    O(size of both states, with their indexes): for tests and simulations.
    """
    check_state(after)
    for name in ("seq", "timestamp_ms", "next_producer_id", "staging_floor"):
        _ensure(getattr(before, name) <= getattr(after, name), f"{name} went back")
    _ensure(before.log_id in {"", after.log_id}, "the log changed its id")
    for key, old in before.partitions.items():
        new = after.partitions.get(key)
        if new is None:
            gone = all(topic.topic_id != key[0] for topic in after.topics.values())
            _ensure(gone, f"partition {key} is gone, and its topic is not")
            _ensure(not old.open, f"partition {key} went with an open transaction")
        else:
            _check_partition_step(key, old, new)
    for producer_id, producer in before.producers.items():
        later = after.producers.get(producer_id)
        _ensure(later is not None, f"producer {producer_id} is gone")
        assert later is not None
        _ensure(producer.epoch <= later.epoch, f"the epoch of producer {producer_id} went back")
        _ensure(producer.number <= later.number, f"the number of producer {producer_id} went back")
        decided = producer.transaction is not TransactionState.ONGOING and producer.number == later.number
        _ensure(
            not decided or producer.transaction is later.transaction,
            f"transaction {producer.number} of producer {producer_id} was decided twice",
        )
    for name, query in before.queries.items():
        newer = after.queries[name]
        same = newer.query_id == query.query_id
        _ensure(not same or query.batch_id <= newer.batch_id, f"the batches of {name!r} went back")


def check_state(state: State) -> None:
    """Raise `InvariantError` if ``state`` contradicts itself."""
    keys = {(topic.topic_id, n) for topic in state.topics.values() for n in range(topic.partitions)}
    _ensure(keys == set(state.partitions), "partitions are not those of the topics")
    for key, partition in state.partitions.items():
        _check_partition(key, partition)
    _check_producers(state)
    positions = [
        *((topic, n, at) for group in state.groups.values() for (topic, n), at in group.items()),
        *((topic, n, at) for p in state.producers.values() for (_, topic, n), at in p.pending.items()),
    ]
    for topic, number, at in positions:
        known = topic in state.topics and state.topics[topic].topic_id == at.topic_id
        _ensure(known and (at.topic_id, number) in keys, f"an offset is for no partition: {topic}-{number}")
        _ensure(at.offset >= 0, f"an offset of {topic}-{number} is negative")


def _check_producers(state: State) -> None:
    opened: dict[int, set[PartitionKey]] = {}
    for key, partition in state.partitions.items():
        for producer_id in partition.open:
            opened.setdefault(producer_id, set()).add(key)
    _ensure(set(opened) <= set(state.open_transactions), "a partition waits for no open transaction")
    for producer_id, producer in state.producers.items():
        ongoing = producer.transaction is TransactionState.ONGOING
        _ensure(
            producer_id == producer.producer_id < state.next_producer_id, f"producer {producer_id} is new"
        )
        _ensure(ongoing == (producer_id in state.open_transactions), f"producer {producer_id}: is it open?")
        _ensure(
            set(producer.touched) == opened.get(producer_id, set()), f"producer {producer_id} touched others"
        )
        _ensure(ongoing or not producer.pending, f"producer {producer_id} has offsets that wait for nothing")
        named = producer.transactional_id
        _ensure(
            named is None or state.transactional_ids.get(named) == producer_id,
            f"{named!r} is not producer {producer_id}",
        )


def _check_partition(key: PartitionKey, partition: Partition) -> None:
    stable = partition.last_stable_offset
    _ensure(0 <= partition.start <= stable <= partition.end, f"partition {key}: start, LSO, end out of order")
    at = partition.index[0].base_offset if partition.index else partition.end
    _ensure(at <= partition.start, f"partition {key} lacks its first rows")
    for row in partition.index:
        _ensure(row.base_offset == at and row.count >= 1, f"partition {key} has a hole at offset {at}")
        _ensure(row.next_offset > partition.start, f"partition {key} keeps rows before its start")
        at = row.next_offset
    _ensure(at == partition.end, f"partition {key} ends at {at}, not {partition.end}")


def _check_partition_step(key: PartitionKey, old: Partition, new: Partition) -> None:
    _ensure(old.start <= new.start, f"the start of partition {key} went back")
    _ensure(old.end <= new.end, f"the end of partition {key} went back")
    _ensure(old.last_stable_offset <= new.last_stable_offset, f"the LSO of partition {key} went back")
    kept = [row for row in old.index if row.next_offset > new.start]
    _ensure(new.index[: len(kept)] == kept, f"rows of partition {key} changed")
    _ensure(set(old.aborted) <= set(new.aborted), f"an abort in partition {key} was forgotten")


def _ensure(holds: bool, otherwise: str) -> None:
    if not holds:
        raise InvariantError(otherwise)
