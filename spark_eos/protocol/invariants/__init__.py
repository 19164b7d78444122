"""Invariants: what must hold in every state, and between a state and a later one, whatever requests were made.

Some hold only between a state and the state after *one* request, such as: a producer with an open transaction is not
forgotten. The next request of the same entry may already forget a producer whose transaction this one commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from immutables import Map

from spark_eos.protocol.actions import Entry
from spark_eos.protocol.invariants.comparing import InvariantError, ensure, other
from spark_eos.protocol.invariants.publications import check_later_publications, check_publication
from spark_eos.protocol.invariants.rows import check_partition, check_rows
from spark_eos.protocol.rules.apply import Outcome, apply, check_history, judged_by, state_after
from spark_eos.protocol.state import (
    CommittedOffset,
    Group,
    Partition,
    Producer,
    Query,
    State,
    TransactionState,
)

__all__ = ["InvariantError", "apply_checked", "check_later", "check_state", "check_step"]

_NOTHING = State()
_EMPTY = Partition()


def apply_checked(state: State, entry: Entry) -> tuple[State, tuple[Outcome, ...]]:
    """The result of `spark_eos.protocol.rules.apply.apply_entry`, with `check_step` at each request.

    Raises `InvariantError`, and what `apply_entry` raises.
    """
    check_history(state, entry)
    state = before = judged_by(state, entry.rules)
    outcomes = []
    for number, request in enumerate(entry.requests, 1):
        state, outcome = apply(state, request)
        outcomes.append(outcome)
        if number < len(entry.requests):  # The last one is checked with what follows the entry.
            check_step(before, state, len(request.actions))
            before = state
    state = state_after(state, entry)
    check_step(before, state, len(entry.requests[-1].actions) if entry.requests else 1)
    return state, tuple(outcomes)


def check_step(before: State, after: State, actions: int = 1) -> None:
    """Raise `InvariantError` if ``after`` is impossible, or if no single request leads from ``before`` to it.

    ``actions`` is the number of the request's actions: a group whose members leave by one may be forgotten by the next.

    ``before`` is a state in which everything holds: what is the same object in both is not looked at again. For tests,
    simulations and verification.
    """
    check_state(after, before)
    _check_later(before, after)
    for key, old in other(before.partitions, after.partitions):
        new = after.partitions.get(key)
        if new is not None:
            check_rows(key, old, new)
    for producer_id, producer in other(before.producers, after.producers):
        if producer_id not in after.producers:
            ensure(not producer.is_open, f"producer {producer_id} went with an open transaction")
    for name, group in other(before.groups, after.groups) if actions == 1 else ():
        if name in after.groups:
            ensure(group.generation <= after.groups[name].generation, f"group {name!r} went back")
        else:
            ensure(not group.members, f"group {name!r} went with its members")
    for name, query in other(before.queries, after.queries):
        newer = after.queries.get(name) or _elsewhere(after, query)
        ensure(newer is not None, f"query {name!r} is gone")
        is_same = newer is not None and newer.query_id == query.query_id
        ensure(
            newer is None or not is_same or query.batch_id <= newer.batch_id,
            f"the batches of {name!r} went back",
        )


def _elsewhere(state: State, query: Query) -> Query | None:
    """The query under another transactional id, to which it has moved."""
    return next((other for other in state.queries.values() if other.query_id == query.query_id), None)


def check_later(before: State, after: State) -> None:
    """Raise `InvariantError` if ``after`` is impossible, or if no number of entries leads from ``before`` to it."""
    check_state(after)
    _check_later(before, after)


def _check_later(before: State, after: State) -> None:
    for name in (
        "seq",
        "time_resets",
        "next_producer_id",
        "offset_commits",
        "staging_floor",
        "publication_floor",
        "encrypted_at",
        "data_placed_at",
    ):
        ensure(getattr(before, name) <= getattr(after, name), f"{name} went back")
    was_reset = before.time_resets < after.time_resets
    ensure(was_reset or before.timestamp_ms <= after.timestamp_ms, "timestamp_ms went back")
    ensure(before.log_id in {"", after.log_id}, "the log changed its id")
    for key, old in other(before.partitions, after.partitions):
        new = after.partitions.get(key)
        if new is None:
            gone = all(topic.topic_id != key[0] for topic in after.topics.values())
            ensure(gone, f"partition {key} is gone, and its topic is not")
            continue
        ensure(old.start <= new.start, f"the start of partition {key} went back")
        ensure(old.end <= new.end, f"the end of partition {key} went back")
        ensure(old.last_stable_offset <= new.last_stable_offset, f"the LSO of partition {key} went back")
    for producer_id, producer in other(before.producers, after.producers):
        later = after.producers.get(producer_id)
        if later is None:
            transactional_id = producer.transactional_id
            held = transactional_id in before.queries and transactional_id in after.queries
            ensure(not held, f"the producer of query {transactional_id!r} is gone")
            ensure(
                not producer.is_awaited, f"a decision of producer {producer_id} is gone that others wait for"
            )
            continue
        ensure(producer.epoch <= later.epoch, f"the epoch of producer {producer_id} went back")
        ensure(producer.number <= later.number, f"the number of producer {producer_id} went back")
        decided = not producer.is_open and producer.number == later.number
        ensure(
            not decided or producer.transaction is later.transaction,
            f"transaction {producer.number} of producer {producer_id} was decided twice",
        )
        _check_later_prepared(producer, later)
        _check_later_decision(producer, later)
    for (app_id, topic_id), last in other(before.app_versions, after.app_versions):
        newer = after.app_versions.get((app_id, topic_id))
        topic_exists = not topic_id or any(topic.topic_id == topic_id for topic in after.topics.values())
        ensure(newer is not None or not topic_exists, f"the version of job {app_id!r} is gone")
        ensure(newer is None or last.version <= newer.version, f"the versions of job {app_id!r} went back")
    for group, offsets in other(before.offsets, after.offsets):
        new_offsets = after.offsets.get(group, Map())
        for (topic, number), offset in other(offsets, new_offsets):
            later_offset = new_offsets.get((topic, number), offset)
            ensure(
                offset.number <= later_offset.number, f"an earlier offset of {group!r} for {topic}-{number}"
            )
    check_later_publications(before, after)
    for producer_id, _ in other(after.producers, before.producers):
        is_new = producer_id not in before.producers
        ensure(not is_new or producer_id >= before.next_producer_id, "a producer id was given out twice")


def _check_later_prepared(before: Producer, after: Producer) -> None:
    prepared, newer = before.prepared, after.prepared
    number = before.producer_id
    if prepared is None:
        return
    ensure(
        newer is not None and prepared.epoch <= newer.epoch,
        f"producer {number} forgot a prepared transaction",
    )
    if newer is None or prepared.epoch < newer.epoch:
        return
    ensure(
        prepared.committed in {None, newer.committed}, f"a prepared transaction of {number} was decided twice"
    )
    if newer.committed is None:
        is_same = before.number == after.number and set(after.touched) <= set(before.touched)
        is_same = is_same and all(before.pending.get(at) == offset for at, offset in after.pending.items())
        ensure(is_same, f"a prepared transaction of producer {number} changed")


def _check_later_decision(before: Producer, after: Producer) -> None:
    decision, newer, number = before.decision, after.decision, before.producer_id
    if decision is None:
        return
    ensure(newer is not None and decision.number <= newer.number, f"producer {number} forgot a decision")
    if newer is None or decision.number < newer.number:
        return
    ensure(decision.committed in {None, newer.committed}, f"a decision of producer {number} was made twice")
    is_same = decision._replace(waiting=(), committed=None) == newer._replace(waiting=(), committed=None)
    ensure(
        is_same and set(newer.waiting) <= set(decision.waiting), f"a decision of producer {number} changed"
    )


def check_state(state: State, before: State = _NOTHING) -> None:
    """Raise `InvariantError` if ``state`` contradicts itself.

    What is the same object in a state ``before``, in which everything holds, is not looked at again.
    """
    count = sum(topic.partitions for topic in state.topics.values())
    ensure(len(state.partitions) == count, "partitions are not those of the topics")
    if state.topics is not before.topics:  # All the others rest on them.
        before = _NOTHING
        for topic in state.topics.values():
            are_there = all((topic.topic_id, n) in state.partitions for n in range(topic.partitions))
            ensure(are_there, "partitions are not those of the topics")
    for key, partition in other(state.partitions, before.partitions):
        check_partition(key, partition, before.partitions.get(key, _EMPTY))
    _check_open(state, before)
    for producer_id, producer in other(state.producers, before.producers):
        _check_producer(state, producer_id, producer)
    for _, publication in other(state.publications, before.publications):
        check_publication(state, publication)
    for name, group in other(state.groups, before.groups):
        _check_group(name, group, state)
    for name, offsets in other(state.offsets, before.offsets):
        for (topic_name, number), offset in other(offsets, before.offsets.get(name, Map())):
            _check_offset(state, topic_name, number, offset)


def _check_offset(state: State, name: str, number: int, at: CommittedOffset) -> None:
    topic_exists = name in state.topics and state.topics[name].topic_id == at.topic_id
    ensure(
        topic_exists and (at.topic_id, number) in state.partitions,
        f"an offset is for no partition: {name}-{number}",
    )
    ensure(at.offset >= 0, f"an offset of {name}-{number} is negative")
    ensure(at.number < state.offset_commits, f"an offset of {name}-{number} was not committed yet")


def _check_open(state: State, before: State) -> None:
    """Partitions, producers and ids say the same of what is open, and of which producer has an id."""
    for key, producer_id in {
        *((key, producer_id) for key, at in _either(state, before, "partitions") for producer_id in at.open),
        *(
            (key, producer_id)
            for producer_id, by in _either(state, before, "producers")
            for key in by.touched
        ),
    }:
        producer, waits = (
            state.producers.get(producer_id),
            producer_id in state.partitions.get(key, _EMPTY).open,
        )
        ensure(
            not waits or producer_id in state.open_transactions, "a partition waits for no open transaction"
        )
        touches = producer is not None and key in producer.touched
        ensure(waits == touches, f"producer {producer_id} touched others")
    for producer_id, _ in _either(state, before, "open_transactions"):
        producer = state.producers.get(producer_id)
        is_open = producer is not None and producer.is_open
        ensure(is_open == (producer_id in state.open_transactions), f"producer {producer_id}: is it open?")
    for transactional_id, producer_id in other(before.transactional_ids, state.transactional_ids):
        producer = state.producers.get(producer_id)
        has_it = producer is not None and producer.transactional_id == transactional_id
        ensure(
            not has_it or state.transactional_ids.get(transactional_id) == producer_id,
            f"{transactional_id!r} is not producer {producer_id}",
        )


def _either(state: State, before: State, name: str) -> Iterator[tuple[Any, Any]]:
    """What one of the states has in a map, and the other one has not as the same object."""
    maps = getattr(state, name), getattr(before, name)
    return chain(other(*maps), other(*reversed(maps)))


def _check_producer(state: State, producer_id: int, producer: Producer) -> None:
    ongoing, prepared = producer.is_open, producer.prepared
    ensure(producer_id == producer.producer_id < state.next_producer_id, f"producer {producer_id} is new")
    ensure(ongoing == (producer_id in state.open_transactions), f"producer {producer_id}: is it open?")
    for (_, topic, number), offset in producer.pending.items():
        _check_offset(state, topic, number, offset)
    ensure(
        ongoing == (producer.started_seq >= 0),
        f"producer {producer_id}: a transaction began in entry {producer.started_seq}",
    )
    ensure(ongoing or not producer.pending, f"producer {producer_id} has offsets that wait for nothing")
    waits = prepared is not None and prepared.committed is None
    ensure(
        waits == (producer.transaction is TransactionState.PREPARED),
        f"producer {producer_id}: is its transaction prepared?",
    )
    ensure(
        prepared is None or prepared.epoch <= producer.epoch,
        f"producer {producer_id} prepared a transaction at a later epoch",
    )
    decision = producer.decision
    ensure(
        decision is None
        or (decision.committed is None) == (producer.has_timeout and decision.number == producer.number),
        f"producer {producer_id}: is its decision open?",
    )
    transactional_id = producer.transactional_id
    ensure(
        transactional_id is None or state.transactional_ids.get(transactional_id) == producer_id,
        f"{transactional_id!r} is not producer {producer_id}",
    )


def _check_group(name: str, group: Group, state: State) -> None:
    members = list(group.members.values())
    ensure(set(group.members) == set(group.assignment), f"group {name!r}: an assignment for others")
    ensure((group.empty_since_ms < 0) == bool(members), f"group {name!r}: is it empty?")
    held = [key for member in members for key in member.held]
    ensure(len(held) == len(set(held)), f"group {name!r}: a partition has two readers")
    ensure(all(key in state.partitions for key in held), f"group {name!r} reads a partition that is gone")
    shared = [key for share in group.assignment.values() for key in share]
    ensure(len(shared) == len(set(shared)), f"group {name!r}: a partition is assigned twice")
    instances = [member.instance_id for member in members if member.instance_id is not None]
    ensure(len(instances) == len(set(instances)), f"group {name!r}: two members are one instance")
    held_by_others = {
        key for member in members if member.generation != group.generation for key in member.held
    }
    for member in members:
        ensure(member.generation <= group.generation, f"group {name!r}: a member is ahead")
        if member.generation == group.generation:
            share = [key for key in group.assignment[member.member_id] if key not in held_by_others]
            ensure(list(member.held) == share, f"group {name!r}: {member.member_id} lacks its share")
