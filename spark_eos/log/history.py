"""What happened: the transactions that ended, one after the other, and what changed between two entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

from immutables import Map

from spark_eos.errors import InvalidRequestError
from spark_eos.log.log import Log
from spark_eos.log.time_travel import earliest, replay_what_is_left, state_at
from spark_eos.protocol.actions import DECLARED, CommitMicroBatch, Entry, Request
from spark_eos.protocol.index import IndexRow, Kind
from spark_eos.protocol.rules.apply import Accepted, apply, judged_by
from spark_eos.protocol.state import PartitionKey, State, TransactionState
from spark_eos.protocol.types import NO_PRODUCER, ProducerStamp, TopicPartition

ProducerRow: TypeAlias = "tuple[str | None, int, int, str]"

Key = TypeVar("Key")
Value = TypeVar("Value")

_ENDED = {TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}


class Span(NamedTuple):
    """``records`` of one transaction in a partition, from offset ``first`` to ``last``; others may lie between.

    Another topic may have the name by now: ``topic_id`` tells them apart.
    """

    topic: str
    partition: int
    first: int
    last: int
    records: int
    topic_id: str


@dataclass(frozen=True)
class Transaction:
    """A transaction, by the entry that ended it. One without a producer is a write that stands for itself.

    ``timestamp_ms`` is the time of that entry. ``groups`` are the offsets that were committed with it.
    """

    seq: int
    timestamp_ms: int
    writer: str
    producer: ProducerStamp
    commit: bool
    transactional_id: str | None = None
    query_id: str | None = None
    batch_id: int | None = None
    spans: tuple[Span, ...] = ()
    groups: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)

    @property
    def records(self) -> dict[str, int]:
        """Records by topic."""
        counts: dict[str, int] = {}
        for span in self.spans:
            counts[span.topic] = counts.get(span.topic, 0) + span.records
        return counts


def transactions(log: Log, first: int = 0, last: int | None = None) -> Iterator[Transaction]:
    """The transactions that ended in entries ``first`` to ``last`` (the newest), or where they are retained.

    What is retired, and all up to the oldest snapshot, is left out: see `spark_eos.log.time_travel.earliest`.
    """
    oldest, end = earliest(log), log.follow().seq
    last = end if last is None else min(last, end)
    start = oldest if first - 1 <= oldest.seq else state_at(log, min(first - 1, last))
    topics = {topic.topic_id: topic.name for topic in start.topics.values()}
    previous = start
    for step in replay_what_is_left(log, start, last):
        if step.before is not previous:  # Entries between were retired.
            topics.update((topic.topic_id, topic.name) for topic in step.before.topics.values())
        yield from of_entry(step.entry, step.before, topics)
        previous = step.after


def of_entry(entry: Entry, state: State, topics: dict[str, str]) -> Iterator[Transaction]:
    """The transactions that ended in an entry. ``state`` is the one before it; ``topics`` are names by id, kept up."""
    state = judged_by(state, entry.rules)
    for request in entry.requests:
        before, (state, outcome) = state, apply(state, request)
        if not isinstance(outcome, Accepted):
            continue
        if state.topics is not before.topics:
            topics.update((topic.topic_id, topic.name) for topic in state.topics.values())
        yield from _of_request(entry.seq, request, before, state, topics)


def _of_request(
    seq: int, request: Request, before: State, after: State, topics: dict[str, str]
) -> Iterator[Transaction]:
    for stamp, commit in ended_transactions(request, before, after).items():
        producer = after.producers.get(stamp.producer_id) or before.producers.get(stamp.producer_id)
        spans = tuple(_spans(request, before, after, stamp, topics))
        if stamp.number == NO_PRODUCER.number and not spans:
            continue  # A repetition of what was appended before.
        batch = next((action for action in request.actions if isinstance(action, CommitMicroBatch)), None)
        yield Transaction(
            seq,
            after.timestamp_ms,
            request.writer,
            stamp,
            commit,
            None if producer is None else producer.transactional_id,
            None if batch is None else batch.query_id,
            None if batch is None else batch.batch_id,
            spans,
            _groups(request, before, after, stamp),
        )


def ended_transactions(request: Request, before: State, after: State) -> dict[ProducerStamp, bool]:
    """The transactions that this request ended, and whether they were committed."""
    outcomes: dict[ProducerStamp, bool] = {}
    for action in request.actions:
        ended = DECLARED[type(action)].effects(action).ended
        if ended is not None and not _had_ended(before, ended[0]):
            outcomes[ended[0]] = ended[1]
    ended_keys = {(stamp.producer_id, stamp.number) for stamp in outcomes}
    for producer_id in before.open_transactions:
        stamp = before.producers[producer_id].stamp
        later = after.producers.get(producer_id)
        is_open = later is not None and later.is_open and later.number == stamp.number
        if not is_open and (producer_id, stamp.number) not in ended_keys:
            outcomes[stamp] = False  # A new epoch, or its timeout, has aborted it.
    return outcomes


def _had_ended(before: State, stamp: ProducerStamp) -> bool:
    """Whether the end only repeats an earlier one. A write outside of any transaction stands for itself."""
    producer = before.producers.get(stamp.producer_id)
    return (
        stamp.number != NO_PRODUCER.number
        and producer is not None
        and producer.number == stamp.number
        and producer.transaction in _ENDED
    )


def _spans(
    request: Request, before: State, after: State, stamp: ProducerStamp, topics: dict[str, str]
) -> Iterator[Span]:
    producer = before.producers.get(stamp.producer_id)
    keys: set[PartitionKey] = set()
    if producer is not None and producer.number == stamp.number:
        keys.update(producer.touched)
    for action in request.actions:
        effects = DECLARED[type(action)].effects(action)
        if effects.producer == stamp.producer_id:
            keys |= effects.partitions
    # A topic that the same request creates and deletes is in no state.
    keys = {key for key in keys if key[0] in topics}
    for key in sorted(keys, key=lambda key: (topics[key[0]], key[1])):
        rows = [row for row in _rows(before, after, key, stamp.producer_id) if _is_of(row, stamp)]
        if rows:
            records = sum(row.batch.count for row in rows if row.batch is not None)
            first, last = rows[0].base_offset, rows[-1].next_offset - 1
            yield Span(topics[key[0]], key[1], first, last, records, key[0])


def _rows(before: State, after: State, key: PartitionKey, producer_id: int) -> Iterator[IndexRow]:
    """What may be of a transaction that ends now: from its first offset on. None of it is sealed yet."""
    partition, earlier = after.partitions.get(key), before.partitions.get(key)
    if partition is None:
        return
    since = 0 if earlier is None else earlier.open.get(producer_id, earlier.end)
    for row in partition.index.scan(since):
        if row.base_offset >= since:
            yield row


def _is_of(row: IndexRow, stamp: ProducerStamp) -> bool:
    is_same = (row.producer.producer_id, row.producer.number) == (stamp.producer_id, stamp.number)
    return is_same and row.kind is Kind.DATA


def _groups(
    request: Request, before: State, after: State, stamp: ProducerStamp
) -> dict[str, dict[TopicPartition, int]]:
    names: set[str] = set()
    producer = before.producers.get(stamp.producer_id)
    if producer is not None and producer.number == stamp.number:
        names.update(group for group, _, _ in producer.pending)
    for action in request.actions:
        names |= DECLARED[type(action)].effects(action).groups
    groups = {}
    for group in sorted(names):
        old = before.offsets.get(group, Map())
        new = {
            TopicPartition(*at): offset.offset
            for at, offset in sorted(after.offsets.get(group, Map()).items())
            if old.get(at) != offset
        }
        if new:
            groups[group] = new
    return groups


# -- Between two entries --------------------------------------------------------------------------------


class PartitionChange(NamedTuple):
    """A partition: (start, end, last stable offset) before and after; records committed and aborted between."""

    topic: str
    partition: int
    before: tuple[int, int, int] | None
    after: tuple[int, int, int] | None
    committed: int
    aborted: int


@dataclass(frozen=True)
class Changes:
    """What differs between two states, as pairs (before, after): None where there was, or is, nothing.

    ``topics`` by name: (id, partitions, settings, versions of the schema). ``offsets`` by (group, topic,
    partition). ``producers`` by id: (transactional id, epoch, number of the newest transaction, its state).
    """

    first: int
    last: int
    topics: dict[str, tuple[object, object]]
    partitions: list[PartitionChange]
    offsets: dict[tuple[str, str, int], tuple[int | None, int | None]]
    producers: dict[int, tuple[ProducerRow | None, ProducerRow | None]]


def changes(log: Log, first: int, last: int, topic: str | None = None) -> Changes:
    """What changed from the state after entry ``first`` to that after ``last``; of one topic, if it is named.

    Raises `InvalidRequestError` for entries that are retired, not there yet, or the wrong way round.
    """
    if first > last:
        raise InvalidRequestError(f"entry {first} comes after entry {last}: name the earlier one first")
    before, after = state_at(log, first), state_at(log, last)
    counts: dict[tuple[str, int], list[int]] = {}
    for transaction in transactions(log, first + 1, last) if first < last else ():
        for span in transaction.spans:
            counts.setdefault((span.topic, span.partition), [0, 0])[0 if transaction.commit else 1] += (
                span.records
            )
    return Changes(
        first,
        last,
        _pairs(_topics(before, topic), _topics(after, topic)),
        [
            PartitionChange(*at, *pair, *counts.get(at, [0, 0]))
            for at, pair in _pairs(_partitions(before, topic), _partitions(after, topic)).items()
        ],
        _pairs(_offsets(before, topic), _offsets(after, topic)),
        {} if topic is not None else _pairs(_producers(before), _producers(after)),
    )


def _pairs(before: dict[Key, Value], after: dict[Key, Value]) -> dict[Key, tuple[Value | None, Value | None]]:
    keys = sorted({*before, *after})  # type: ignore[type-var]  # all keys here are texts, numbers, or tuples of them
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}


def _topics(state: State, only: str | None) -> dict[str, object]:
    return {
        name: (topic.topic_id, topic.partitions, dict(topic.config), len(topic.schemas))
        for name, topic in state.topics.items()
        if only in {None, name}
    }


def _partitions(state: State, only: str | None) -> dict[tuple[str, int], tuple[int, int, int]]:
    rows = {}
    for name, topic in state.topics.items():
        for number in range(topic.partitions) if only in {None, name} else ():
            partition = state.partitions[topic.topic_id, number]
            rows[name, number] = (partition.start, partition.end, partition.last_stable_offset)
    return rows


def _offsets(state: State, only: str | None) -> dict[tuple[str, str, int], int]:
    return {
        (group, topic, number): at.offset
        for group, offsets in state.offsets.items()
        for (topic, number), at in offsets.items()
        if only in {None, topic}
    }


def _producers(state: State) -> dict[int, ProducerRow]:
    return {
        number: (producer.transactional_id, producer.epoch, producer.number, producer.transaction.value)
        for number, producer in state.producers.items()
    }
