"""Invariants: what must hold in every state, and between a state and a later one, whatever requests were made.

Some hold only between a state and the state after *one* request, such as: a producer with an open transaction is not
forgotten. The next request of the same entry may already forget a producer whose transaction this one commits.
"""

from __future__ import annotations

from spark_eos.protocol.actions import Entry
from spark_eos.protocol.index import IndexPage, IndexRow, Kind
from spark_eos.protocol.publication import Pin, Publication
from spark_eos.protocol.rules.apply import Outcome, apply, check_history, judged_by, state_after
from spark_eos.protocol.state import Group, Partition, PartitionKey, Producer, Query, State, TransactionState


class InvariantError(AssertionError):
    """The rules themselves are wrong: no request may lead to this state."""


def apply_checked(state: State, entry: Entry) -> tuple[State, tuple[Outcome, ...]]:
    """The result of `spark_eos.protocol.rules.apply.apply_entry`, with `check_step` at each request.

    Raises `InvariantError`, and what `apply_entry` raises. O(requests times size of the state).
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

    O(size of both states, with their indexes): for tests, simulations and verification.
    """
    check_later(before, after)
    for key, old in before.partitions.items():
        new = after.partitions.get(key)
        if new is not None:
            _check_rows(key, old, new)
    for producer_id, producer in before.producers.items():
        if producer_id not in after.producers:
            _ensure(not producer.is_open, f"producer {producer_id} went with an open transaction")
    for name, group in before.groups.items():
        if actions > 1:
            continue
        if name in after.groups:
            _ensure(group.generation <= after.groups[name].generation, f"group {name!r} went back")
        else:
            _ensure(not group.members, f"group {name!r} went with its members")
    for name, query in before.queries.items():
        newer = after.queries.get(name) or _elsewhere(after, query)
        _ensure(newer is not None, f"query {name!r} is gone")
        is_same = newer is not None and newer.query_id == query.query_id
        _ensure(
            newer is None or not is_same or query.batch_id <= newer.batch_id,
            f"the batches of {name!r} went back",
        )


def _elsewhere(state: State, query: Query) -> Query | None:
    """The query under another transactional id, to which it has moved."""
    return next((other for other in state.queries.values() if other.query_id == query.query_id), None)


def check_later(before: State, after: State) -> None:
    """Raise `InvariantError` if ``after`` is impossible, or if no number of entries leads from ``before`` to it."""
    check_state(after)
    for name in (
        "seq",
        "time_resets",
        "next_producer_id",
        "staging_floor",
        "publication_floor",
        "encrypted_at",
        "data_placed_at",
    ):
        _ensure(getattr(before, name) <= getattr(after, name), f"{name} went back")
    was_reset = before.time_resets < after.time_resets
    _ensure(was_reset or before.timestamp_ms <= after.timestamp_ms, "timestamp_ms went back")
    _ensure(before.log_id in {"", after.log_id}, "the log changed its id")
    for key, old in before.partitions.items():
        new = after.partitions.get(key)
        if new is None:
            gone = all(topic.topic_id != key[0] for topic in after.topics.values())
            _ensure(gone, f"partition {key} is gone, and its topic is not")
            continue
        _ensure(old.start <= new.start, f"the start of partition {key} went back")
        _ensure(old.end <= new.end, f"the end of partition {key} went back")
        _ensure(old.last_stable_offset <= new.last_stable_offset, f"the LSO of partition {key} went back")
    for producer_id, producer in before.producers.items():
        later = after.producers.get(producer_id)
        if later is None:
            transactional_id = producer.transactional_id
            held = transactional_id in before.queries and transactional_id in after.queries
            _ensure(not held, f"the producer of query {transactional_id!r} is gone")
            _ensure(
                not producer.is_awaited, f"a decision of producer {producer_id} is gone that others wait for"
            )
            continue
        _ensure(producer.epoch <= later.epoch, f"the epoch of producer {producer_id} went back")
        _ensure(producer.number <= later.number, f"the number of producer {producer_id} went back")
        decided = not producer.is_open and producer.number == later.number
        _ensure(
            not decided or producer.transaction is later.transaction,
            f"transaction {producer.number} of producer {producer_id} was decided twice",
        )
        _check_later_prepared(producer, later)
        _check_later_decision(producer, later)
    for (app_id, topic_id), last in before.app_versions.items():
        newer = after.app_versions.get((app_id, topic_id))
        topic_exists = not topic_id or any(topic.topic_id == topic_id for topic in after.topics.values())
        _ensure(newer is not None or not topic_exists, f"the version of job {app_id!r} is gone")
        _ensure(newer is None or last.version <= newer.version, f"the versions of job {app_id!r} went back")
    _check_later_publications(before, after)
    new_ids = [producer_id for producer_id in after.producers if producer_id not in before.producers]
    _ensure(
        all(producer_id >= before.next_producer_id for producer_id in new_ids),
        "a producer id was given out twice",
    )


def _check_later_prepared(before: Producer, after: Producer) -> None:
    prepared, newer = before.prepared, after.prepared
    number = before.producer_id
    if prepared is None:
        return
    _ensure(
        newer is not None and prepared.epoch <= newer.epoch,
        f"producer {number} forgot a prepared transaction",
    )
    if newer is None or prepared.epoch < newer.epoch:
        return
    _ensure(
        prepared.committed in {None, newer.committed}, f"a prepared transaction of {number} was decided twice"
    )
    if newer.committed is None:
        is_same = before.number == after.number and set(after.touched) <= set(before.touched)
        is_same = is_same and all(before.pending.get(at) == offset for at, offset in after.pending.items())
        _ensure(is_same, f"a prepared transaction of producer {number} changed")


def _check_later_decision(before: Producer, after: Producer) -> None:
    decision, newer, number = before.decision, after.decision, before.producer_id
    if decision is None:
        return
    _ensure(newer is not None and decision.number <= newer.number, f"producer {number} forgot a decision")
    if newer is None or decision.number < newer.number:
        return
    _ensure(decision.committed in {None, newer.committed}, f"a decision of producer {number} was made twice")
    is_same = decision._replace(waiting=(), committed=None) == newer._replace(waiting=(), committed=None)
    _ensure(
        is_same and set(newer.waiting) <= set(decision.waiting), f"a decision of producer {number} changed"
    )


def check_state(state: State) -> None:
    """Raise `InvariantError` if ``state`` contradicts itself."""
    keys = {(topic.topic_id, n) for topic in state.topics.values() for n in range(topic.partitions)}
    _ensure(keys == set(state.partitions), "partitions are not those of the topics")
    for key, partition in state.partitions.items():
        _check_partition(key, partition)
    _check_producers(state)
    for publication in state.publications.values():
        _check_publication(state, publication)
    for name, group in state.groups.items():
        _check_group(name, group, keys)
    positions = [
        *((topic, n, at) for group in state.offsets.values() for (topic, n), at in group.items()),
        *((topic, n, at) for p in state.producers.values() for (_, topic, n), at in p.pending.items()),
    ]
    for topic, number, at in positions:
        topic_exists = topic in state.topics and state.topics[topic].topic_id == at.topic_id
        _ensure(
            topic_exists and (at.topic_id, number) in keys, f"an offset is for no partition: {topic}-{number}"
        )
        _ensure(at.offset >= 0, f"an offset of {topic}-{number} is negative")


def _check_producers(state: State) -> None:
    opened: dict[int, set[PartitionKey]] = {}
    for key, partition in state.partitions.items():
        for producer_id in partition.open:
            opened.setdefault(producer_id, set()).add(key)
    _ensure(set(opened) <= set(state.open_transactions), "a partition waits for no open transaction")
    for producer_id, producer in state.producers.items():
        ongoing, prepared = producer.is_open, producer.prepared
        _ensure(
            producer_id == producer.producer_id < state.next_producer_id, f"producer {producer_id} is new"
        )
        _ensure(ongoing == (producer_id in state.open_transactions), f"producer {producer_id}: is it open?")
        _ensure(
            ongoing == (producer.started_seq >= 0),
            f"producer {producer_id}: a transaction began in entry {producer.started_seq}",
        )
        _ensure(
            set(producer.touched) == opened.get(producer_id, set()), f"producer {producer_id} touched others"
        )
        _ensure(ongoing or not producer.pending, f"producer {producer_id} has offsets that wait for nothing")
        waits = prepared is not None and prepared.committed is None
        _ensure(
            waits == (producer.transaction is TransactionState.PREPARED),
            f"producer {producer_id}: is its transaction prepared?",
        )
        _ensure(
            prepared is None or prepared.epoch <= producer.epoch,
            f"producer {producer_id} prepared a transaction at a later epoch",
        )
        decision = producer.decision
        _ensure(
            decision is None
            or (decision.committed is None) == (producer.has_timeout and decision.number == producer.number),
            f"producer {producer_id}: is its decision open?",
        )
        transactional_id = producer.transactional_id
        _ensure(
            transactional_id is None or state.transactional_ids.get(transactional_id) == producer_id,
            f"{transactional_id!r} is not producer {producer_id}",
        )


def _check_later_publications(before: State, after: State) -> None:
    for name, publication in before.publications.items():
        later = after.publications.get(name)
        floor = after.publication_floor
        if later is None or later.first > publication.first:
            dropped = floor > publication.epoch and floor >= publication.sequence
            _ensure(dropped, f"publication {name!r} is gone, and its epochs may come again")
            continue
        _ensure(publication.epoch <= later.epoch, f"the epoch of publication {name!r} went back")
        _ensure(publication.sequence <= later.sequence, f"the versions of publication {name!r} went back")
        published = publication.published, later.published
        _ensure(
            published[0] is None
            or (published[1] is not None and published[0].sequence <= published[1].sequence),
            f"a version of publication {name!r} is not published any more",
        )
        again = {version.sequence: version for version in later.versions}
        for version in publication.versions:
            now = again.get(version.sequence, version)
            is_same = all(now.pins[key][:2] == pin[:2] for key, pin in version.pins.items())
            _ensure(
                is_same
                and (now.entry, now.epoch, now.begun_seq)
                == (version.entry, version.epoch, version.begun_seq),
                f"version {version.sequence} of publication {name!r} changed",
            )


def _check_publication(state: State, publication: Publication) -> None:
    name, last = publication.name, None
    ids = {topic_id for _, topic_id in publication.topics}
    _ensure(
        all(
            topic in state.topics and state.topics[topic].topic_id == id_ for topic, id_ in publication.topics
        ),
        f"publication {name!r} has a topic that is gone",
    )
    for version in publication.versions:
        where = f"version {version.sequence} of publication {name!r}"
        _ensure(version.epoch <= publication.epoch, f"{where} has a later epoch")
        _ensure(0 <= version.entry < version.begun_seq <= state.seq + 1, f"{where} is of a later entry")
        _ensure(
            last is None or version.sequence == last.sequence + 1, f"{where} does not follow the last one"
        )
        for key, pin in version.pins.items():
            partition = state.partitions.get(key)
            _ensure(partition is not None and key[0] in ids, f"{where} has a partition {key} that is gone")
            before = None if last is None else last.pins.get(key)
            _ensure(
                before is None or (before.start <= pin.start and before.end <= pin.end), f"{where} went back"
            )
            _check_pin(f"{where}, partition {key}", pin, partition)
        _ensure(last is None or set(last.pins) <= set(version.pins), f"{where} lacks partitions")
        last = version


def _check_pin(where: str, pin: Pin, partition: Partition | None) -> None:
    stable = -1 if partition is None else partition.last_stable_offset
    _ensure(0 <= pin.start <= pin.end <= stable, f"{where}: no range of stable offsets")
    if not pin.pages:
        return
    at = pin.pages[0].base_offset
    _ensure(at <= pin.start, f"{where}: the first offsets are not pinned")
    for page in pin.pages:
        _ensure(page.base_offset == at, f"{where}: offset {at} is not pinned")
        at = page.next_offset
    _ensure(at >= pin.end, f"{where}: the last offsets are not pinned")


def _check_group(name: str, group: Group, keys: set[PartitionKey]) -> None:
    members = list(group.members.values())
    _ensure(set(group.members) == set(group.assignment), f"group {name!r}: an assignment for others")
    _ensure((group.empty_since_ms < 0) == bool(members), f"group {name!r}: is it empty?")
    held = [key for member in members for key in member.held]
    _ensure(len(held) == len(set(held)), f"group {name!r}: a partition has two readers")
    _ensure(set(held) <= keys, f"group {name!r} reads a partition that is gone")
    shared = [key for share in group.assignment.values() for key in share]
    _ensure(len(shared) == len(set(shared)), f"group {name!r}: a partition is assigned twice")
    instances = [member.instance_id for member in members if member.instance_id is not None]
    _ensure(len(instances) == len(set(instances)), f"group {name!r}: two members are one instance")
    held_by_others = {
        key for member in members if member.generation != group.generation for key in member.held
    }
    for member in members:
        _ensure(member.generation <= group.generation, f"group {name!r}: a member is ahead")
        if member.generation == group.generation:
            share = [key for key in group.assignment[member.member_id] if key not in held_by_others]
            _ensure(list(member.held) == share, f"group {name!r}: {member.member_id} lacks its share")


def _check_partition(key: PartitionKey, partition: Partition) -> None:
    stable = partition.last_stable_offset
    _ensure(0 <= partition.start <= stable <= partition.end, f"partition {key}: start, LSO, end out of order")
    at = partition.end if partition.index.start is None else partition.index.start
    _ensure(at <= partition.start, f"partition {key} lacks its first rows")
    for page in partition.index.pages:
        _ensure(page.base_offset == at, f"partition {key} has a hole at offset {at}")
        _ensure(page.next_offset > partition.start, f"partition {key} keeps rows before its start")
        at = page.next_offset
    _ensure(at <= stable, f"partition {key}: rows are sealed whose transaction is open")
    for row in partition.index.tail:
        _ensure(row.base_offset == at and row.count >= 1, f"partition {key} has a hole at offset {at}")
        _ensure(row.next_offset > partition.start, f"partition {key} keeps rows before its start")
        at = row.next_offset
    _ensure(at == partition.end, f"partition {key} ends at {at}, not {partition.end}")


def _check_rows(key: PartitionKey, old: Partition, new: Partition) -> None:
    # Stable rows may be rewritten (`ReplaceSegments`), and are sealed then; nothing else may change.
    kept = [_shown(old, row) for row in old.index.tail if row.next_offset > new.start]
    held = _rows_in_memory(new)
    rows = {row.base_offset: _shown(new, row) for row in held}
    sealed = new.index.pages[-1].next_offset if new.index.pages else 0
    files = {row.file for row in old.index.tail}
    rewritten = [row for row in held if row.file not in files or row.kind is Kind.HOLE]
    for row in kept:
        # An open transaction may be aborted; an aborted or committed one stays so.
        later = rows.get(row.base_offset)
        aborted = row._replace(kind=Kind.ABORTED) if row.producer.producer_id in old.open else row
        if later not in (row, aborted):
            stable = row.next_offset <= min(old.last_stable_offset, sealed)
            replaced = any(
                new_row.base_offset < row.next_offset and row.base_offset < new_row.next_offset
                for new_row in rewritten
            )
            _ensure(stable and replaced, f"rows of partition {key} changed")


def _rows_in_memory(partition: Partition) -> list[IndexRow]:
    """All rows that are in memory: pages may have dropped theirs."""
    rows: list[IndexRow] = []
    pages = [*partition.index.pages]
    while pages:
        content = pages.pop().content or ()
        pages += [part for part in content if isinstance(part, IndexPage)]
        rows += [part for part in content if isinstance(part, IndexRow)]
    return [*rows, *partition.index.tail]


def _shown(partition: Partition, row: IndexRow) -> IndexRow:
    """The row with its transaction's abort written into it, as sealing does."""
    aborted = (row.producer.producer_id, row.producer.number) in partition.aborted
    return row._replace(kind=Kind.ABORTED) if row.kind is Kind.DATA and aborted else row


def _ensure(holds: bool, otherwise: str) -> None:
    if not holds:
        raise InvariantError(otherwise)
