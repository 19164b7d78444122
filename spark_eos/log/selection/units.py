"""What belongs together in some partitions: the units of `whole_transactions`, from the log's entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from spark_eos.errors import InvalidRequestError, ObjectNotFoundError
from spark_eos.log.history import Transaction, of_entry
from spark_eos.log.log import Log
from spark_eos.log.selection.whole_transactions import Cut, Part, Unit, is_before, most
from spark_eos.log.snapshots.horizon import before_open
from spark_eos.log.time_travel import earliest, replay, state_at
from spark_eos.protocol.index import IndexRow, Kind, Load, in_memory
from spark_eos.protocol.publication import Publication
from spark_eos.protocol.state import Partition, PartitionKey, State

Covered = Callable[[PartitionKey, int, int], int]
"""How many offsets of a range do not count: ``(partition, first, end)``."""


def whole_ends(log: Log, state: State, start: Cut) -> dict[PartitionKey, int]:
    """The ends of these partitions in ``state``, from ``start`` on, that split no committed transaction.

    They are the last stable offsets, unless a committed transaction has records behind one of them. Then the entries
    are read from a little before the oldest open transaction began. What ended before that is held back or not as a
    whole, and as entries are kept that long it is seldom held back.
    """
    try:
        return _ends(log, state, start)[0]
    except InvalidRequestError:  # Other processes have retired the entries meanwhile: nothing is known yet.
        return dict(start)


def whole_cut(log: Log, state: State) -> dict[PartitionKey, int]:
    """The ends of all partitions of ``state`` that split no committed transaction: the same for all who read.

    ``log`` is the one of now, ``state`` a state of it, also one as another log has decided (`Log.as_decided`). Raises
    `InvalidRequestError` if it is not known any more what belongs together of that which is held back.
    """
    ends, first = _ends(log, state, {key: partition.start for key, partition in state.partitions.items()})
    if first is not None and not is_before(first, ends):
        topics = [(topic.name, topic.topic_id) for topic in state.topics.values()]
        raise InvalidRequestError(
            f"{log.url} cannot be read in whole transactions: which records belonged together up to entry {first.seq} "
            f"is not known any more, and some of them wait for {'; '.join(map(str, _waiting(state, topics)))}. Read "
            "again when that has ended, or without wholeTransactions (whole_transactions)"
        )
    return ends


def _ends(log: Log, state: State, start: Cut) -> tuple[dict[PartitionKey, int], Unit | None]:
    """The ends, and what had ended before all that is known: if that is not before the ends, they are too low.

    Raises `InvalidRequestError` if the entries are retired.
    """
    stops = {key: max(state.partitions[key].last_stable_offset, first) for key, first in start.items()}
    if not any(_has_committed(state.partitions[key]) for key in start):
        return stops, None
    oldest = earliest(log)
    if oldest.seq > state.seq:
        raise InvalidRequestError(f"the entries up to {state.seq} of {log.url} are retired: read a later one")
    near = (before_open(state) or 0) - state.snapshot_interval
    if near > oldest.seq:
        ends, first = _known_from(log, state_at(log, near), state, start, stops)
        if first is None or is_before(first, ends):
            return ends, first
        # What is held back has ended, and began long before the oldest one that is open.
    return _known_from(log, oldest, state, start, stops)


def _known_from(
    log: Log, before: State, state: State, start: Cut, stops: Cut
) -> tuple[dict[PartitionKey, int], Unit | None]:
    """The same, by the entries between two states."""
    first = unknown(before, start, _none, log.load)
    units = [*_ended(log, before, state, start), *_decided(state, start), *([first] if first else ())]
    return most(start, stops, units), first


def _ended(log: Log, before: State, state: State, start: Cut) -> Iterator[Unit]:
    """What has ended between two states."""
    topics = {topic.topic_id: topic.name for topic in before.topics.values()}
    for step in replay(log, before, state.seq):
        for transaction in of_entry(step.entry, step.before, topics):
            unit = unit_of(transaction, start, _none)
            if unit is not None:
                yield unit


def _decided(state: State, start: Cut) -> Iterator[Unit]:
    """What readers see as committed though no entry says so: another log has decided it (`Log.as_decided`)."""
    for number in state.open_transactions:
        producer, parts = state.producers[number], {}
        for key in producer.touched:
            partition = state.partitions[key]
            rows = [
                row
                for row in partition.index.tail.rows(0)
                if (row.producer.producer_id, row.producer.number) == (number, producer.number)
                and is_closed(partition, row)
            ]
            if rows and rows[-1].next_offset > start.get(key, rows[-1].next_offset):
                first, end = rows[0].base_offset, rows[-1].next_offset
                parts[key] = Part(first, end, end - first)
        if parts:
            yield Unit(state.seq, parts)


class Wait(NamedTuple):
    """An open transaction with committed records behind it, in these partitions. Its text goes into a sentence."""

    producer_id: int
    transactional_id: str | None
    partitions: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"the transaction of {self.transactional_id!r} (producer id {self.producer_id}), which is open in "
            f"{', '.join(self.partitions)}"
        )


def held_by(state: State, publication: Publication) -> list[Wait]:
    """The open transactions that the tables wait for."""
    return _waiting(state, publication.topics)


def _waiting(state: State, topics: Iterable[tuple[str, str]]) -> list[Wait]:
    """The open transactions in these topics, by name and id, behind which committed records lie."""
    places_of: dict[int, list[str]] = {}
    for name, topic_id in topics:
        for number in range(state.topics[name].partitions):
            partition = state.partitions[topic_id, number]
            if _has_committed(partition):
                for producer_id in partition.open:
                    places_of.setdefault(producer_id, []).append(f"{name}-{number}")
    return [
        Wait(number, state.producers[number].transactional_id, tuple(places))
        for number, places in sorted(places_of.items())
    ]


def _has_committed(partition: Partition) -> bool:
    """Whether committed records lie behind the last stable offset: nothing there is in an index page."""
    stable = partition.last_stable_offset
    return stable < partition.end and any(is_closed(partition, row) for row in partition.index.scan(stable))


def _none(_key: PartitionKey, _first: int, _end: int) -> int:
    return 0


def unit_of(transaction: Transaction, start: Cut, covered: Covered) -> Unit | None:
    """The unit of a transaction that ended; None if it was aborted, or has no records from ``start`` on."""
    if not transaction.commit:
        return None
    parts = {}
    for span in transaction.spans:
        key = (span.topic_id, span.partition)
        end = span.last + 1
        if end > start.get(key, end):
            length = end - span.first - covered(key, span.first, end)
            parts[key] = Part(span.first, end, min(span.records, length))
    return Unit(transaction.seq, parts) if parts else None


def unknown(state: State, start: Cut, covered: Covered, load: Load = in_memory) -> Unit | None:
    """The records from ``start`` on that ended up to this state: which of them belong together is not known.

    None: there are none. Those of transactions that are open are known when these end.
    """
    parts = {}
    for key, offset in start.items():
        partition = state.partitions.get(key)
        if partition is None or offset >= partition.end:
            continue
        low = max(offset, partition.start)
        stable = partition.last_stable_offset
        rows = (row for row in partition.index.scan(low, load) if is_closed(partition, row))
        begin, end = low, stable
        try:
            first = next(rows, None)
        except (
            ObjectNotFoundError
        ):  # The page was rewritten since, and all of it is stable: from the offset on, then.
            pass
        else:
            if first is None:
                continue
            begin, end = max(first.base_offset, low), max(stable, first.next_offset)
        for row in partition.index.scan(
            end, load
        ):  # After the first open transaction, which is never long ago.
            if is_closed(partition, row):
                end = row.next_offset
        count = end - begin - covered(key, begin, end)
        if count:
            parts[key] = Part(begin, end, count)
    return Unit(state.seq, parts) if parts else None


def is_closed(partition: Partition, row: IndexRow) -> bool:
    """Whether the row has records of a transaction that is committed, or of none."""
    if row.kind is not Kind.DATA:
        return False
    stamp = row.producer
    is_open = partition.open.get(stamp.producer_id, row.next_offset) <= row.base_offset
    return not is_open and (stamp.producer_id, stamp.number) not in partition.aborted
