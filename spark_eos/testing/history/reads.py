"""Anomalies of readers: what they saw that is not so, passed over, met twice, or saw only a part of."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, groupby

from spark_eos.protocol.types import TopicPartition
from spark_eos.testing.history.events import Event, Kind, Poll
from spark_eos.testing.history.operations import Facts, Fate, Key, Operation
from spark_eos.testing.history.report import Anomaly


def at(partition: TopicPartition, offset: int | None) -> str:
    """A place, for people."""
    return f"{partition}@{'?' if offset is None else offset}"


def fate(*operations: Operation | None) -> tuple[Event, ...]:
    """Their events, each once, in the order of the history."""
    events = {op.fate.index: op.fate for op in operations if op is not None}
    return tuple(events[index] for index in sorted(events))


# -- Values -----------------------------------------------------------------------------------------


def misplaced_values(facts: Facts) -> Iterator[Anomaly]:
    """inconsistent-offset and duplicate."""
    for partition, offsets in facts.values.items():
        for offset, values in offsets.items():
            if len(values) > 1:
                text = f"the offset holds {' and '.join(map(repr, values))}"
                yield Anomaly("inconsistent-offset", at(partition, offset), fate(*values.values()), text)
    for (partition, value), places in facts.places.items():
        if len(places) > 1:
            text = f"value {value!r} is at offsets {', '.join(map(str, sorted(places)))}"
            yield Anomaly("duplicate", at(partition, min(places)), fate(*places.values()), text)


def aborted_reads(facts: Facts) -> Iterator[Anomaly]:
    """G1a. Without read_committed, the records of an aborted streamed transaction may be seen, and only they."""
    for key, reader in facts.reads.items():
        writer = facts.writers.get(key)
        if writer is None or facts.fate(key) is not Fate.ABORTED:
            continue
        if writer.streamed and key not in facts.committed_reads:
            continue
        witness = facts.committed_reads.get(key, reader)
        text = f"{witness} read {key[1]!r}, which {writer} wrote, and that failed"
        yield Anomaly("G1a", at(key[0], facts.offset(key)), fate(writer, witness), text)


def precommitted_reads(facts: Facts) -> Iterator[Anomaly]:
    """precommitted-read. Without read_committed, a streamed transaction may see what it appended."""
    for operation in facts.operations:
        if operation.streamed and not operation.is_committed_read:
            continue
        own = {(send.partition, send.value) for send in operation.sends}
        for poll in operation.polls:
            for offset, value in poll.records:
                if (poll.partition, value) in own:
                    text = f"{operation} polled its own {value!r}"
                    yield Anomaly("precommitted-read", at(poll.partition, offset), fate(operation), text)


# -- Order ------------------------------------------------------------------------------------------


@dataclass
class Run:
    """A stretch of one partition that a reader read without being moved."""

    partition: TopicPartition
    committed: bool
    start: int
    end: int
    """One past the last offset it passed."""


@dataclass
class _Cursor:
    run: Run
    position: int
    operation: Operation


class _Reader:
    """The positions of one process at one isolation level."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._cursors: dict[TopicPartition, _Cursor] = {}
        self.runs: list[Run] = []

    def poll(self, operation: Operation, poll: Poll) -> Iterator[Anomaly]:
        """What is wrong with the order of these records, after all that it read before."""
        partition = poll.partition
        lost_track = operation.kind is Kind.INFO and not poll.records and poll.position is None
        if poll.reassigned or lost_track:
            self._cursors.pop(partition, None)
        for offset, _ in poll.records:
            yield from self._move(operation, partition, offset)
            self._reach(operation, partition, offset, offset + 1)
        if poll.position is not None:
            yield from self._move(operation, partition, poll.position)
            self._reach(operation, partition, poll.position, poll.position)

    def _move(self, operation: Operation, partition: TopicPartition, offset: int) -> Iterator[Anomaly]:
        cursor = self._cursors.get(partition)
        if cursor is None or offset == cursor.position:
            return
        inside = "int-" if cursor.operation is operation else ""
        if offset < cursor.position:
            text = f"{operation} goes to offset {offset}, though offset {cursor.position - 1} was passed"
            yield Anomaly(
                f"{inside}nonmonotonic-poll",
                at(partition, offset),
                fate(cursor.operation, operation),
                text,
            )
            return
        missed = self._facts.first_between(partition, cursor.position, offset)
        if missed is not None:
            witness = next(iter(self._facts.places[partition, missed[1]].values()))
            text = f"{operation} goes from offset {cursor.position} to {offset}, past {missed[1]!r}"
            yield Anomaly(
                f"{inside}poll-skip",
                at(partition, missed[0]),
                fate(cursor.operation, operation, witness),
                text,
            )

    def _reach(self, operation: Operation, partition: TopicPartition, offset: int, position: int) -> None:
        cursor = self._cursors.get(partition)
        if cursor is None:
            run = Run(partition, operation.is_committed_read, offset, position)
            self.runs.append(run)
            self._cursors[partition] = _Cursor(run, position, operation)
            return
        cursor.run.start = min(cursor.run.start, offset)
        cursor.run.end = max(cursor.run.end, position)
        cursor.position, cursor.operation = position, operation


def read_order(facts: Facts) -> tuple[list[Anomaly], list[Run]]:
    """poll-skip and nonmonotonic-poll, between polls and inside an event; and what stretches were read."""
    readers: dict[tuple[str, bool], _Reader] = {}
    anomalies: list[Anomaly] = []
    for operation in facts.readings:
        key = (operation.process, operation.is_committed_read)
        if key not in readers:
            readers[key] = _Reader(facts)
        for poll in operation.polls:
            anomalies += readers[key].poll(operation, poll)
    return anomalies, [run for reader in readers.values() for run in reader.runs]


# -- Torn transactions ------------------------------------------------------------------------------


class _Blockers:
    """Streamed transactions by the places of their records: what may hold back a last stable offset."""

    def __init__(self, facts: Facts) -> None:
        self._placed: dict[TopicPartition, list[tuple[int, Operation]]] = defaultdict(list)
        self._unplaced: dict[TopicPartition, list[Operation]] = defaultdict(list)
        for operation in facts.operations:
            if not operation.streamed:
                continue
            for send in operation.sends:
                offset = facts.offset((send.partition, send.value))
                if offset is None:
                    self._unplaced[send.partition].append(operation)
                else:
                    self._placed[send.partition].append((offset, operation))
        for placed in self._placed.values():
            placed.sort(key=lambda place: place[0])

    def between(self, partition: TopicPartition, start: int, end: int, writer: Operation) -> bool:
        """Whether one that ``writer`` did not find ended may hold back readers from ``start`` to ``end``."""
        placed = self._placed.get(partition, [])
        first = bisect_left(placed, start, key=lambda place: place[0])
        behind = (blocker for offset, blocker in placed[first:] if offset < end)
        return any(
            # One that failed may be open still, until it is aborted.
            blocker.kind is not Kind.OK or blocker.fate.index > writer.invoke.index
            for blocker in chain(behind, self._unplaced.get(partition, ()))
        )


class _Witness:
    """One reader: which transactions it saw a part of, and in which partitions the rest is still to come."""

    def __init__(self, facts: Facts, blockers: _Blockers) -> None:
        self._facts, self._blockers = facts, blockers
        self._positions: dict[TopicPartition, int] = {}
        self._readers: dict[int, Operation] = {}
        self._pending: dict[TopicPartition, list[tuple[int, int, Operation]]] = defaultdict(list)
        self._reported: set[tuple[int, TopicPartition, bool]] = set()

    def turn(self, operation: Operation, polls: list[Poll]) -> Iterator[Anomaly]:
        """What is torn in polls that were answered from one state, or against what was seen before.

        The state a reader goes by never goes back. So when it has seen one record of a transaction, in this
        turn or before, and reads another partition to the end that it has in this turn, then the
        transaction's records there must lie before that end.
        """
        for poll in polls:
            if poll.reassigned:
                self._positions.pop(poll.partition, None)
            for offset, value in poll.records:
                self._positions[poll.partition] = offset + 1
                self._see(operation, (poll.partition, value))
            if poll.position is not None:
                self._positions[poll.partition] = poll.position
        for poll in polls:
            yield from self._check(operation, poll)

    def _see(self, reader: Operation, key: Key) -> None:
        writer = self._facts.writers.get(key)
        if writer is None or writer.transaction is None or writer.invoke.index in self._readers:
            return
        if self._facts.outcome(writer) is not Fate.COMMITTED:
            return
        if writer.streamed and not reader.is_committed_read:
            return  # it may still have been open
        self._readers[writer.invoke.index] = reader
        for send in writer.sends:
            offset = self._facts.offset((send.partition, send.value))
            if send.partition != key[0] and offset is not None:
                heapq.heappush(self._pending[send.partition], (offset, writer.invoke.index, writer))

    def _check(self, reader: Operation, poll: Poll) -> Iterator[Anomaly]:
        pending, end = self._pending[poll.partition], self._positions.get(poll.partition)
        if end is None:
            return
        while pending and pending[0][0] < end:
            heapq.heappop(pending)
        if not poll.caught_up:
            return
        held: list[tuple[int, int, Operation]] = []
        while pending:
            entry = offset, number, writer = heapq.heappop(pending)
            held_back = reader.is_committed_read and self._blockers.between(
                poll.partition, end, offset, writer
            )
            if held_back:
                held.append(entry)
            case = (number, poll.partition, held_back)
            if case in self._reported:
                continue
            self._reported.add(case)
            text = (
                f"{reader} is at the end of {poll.partition}, {end}, and does not see {writer} there, "
                f"of which {self._readers[number]} saw records elsewhere"
            )
            yield Anomaly(
                "torn",
                at(poll.partition, offset),
                fate(writer, self._readers[number], reader),
                text + (" (a streamed transaction may hold back the end)" if held_back else ""),
                allowed=writer.streamed or held_back,
            )
        pending.extend(held)  # sorted, hence a heap


def torn_reads(facts: Facts) -> Iterator[Anomaly]:
    """torn: a reader saw a record of a transaction, and then the end of a partition before its other records."""
    blockers = _Blockers(facts)
    witnesses: dict[tuple[str, bool], _Witness] = {}
    for operation in facts.operations:
        key = (operation.process, operation.is_committed_read)
        if key not in witnesses:
            witnesses[key] = _Witness(facts, blockers)
        for _, polls in groupby(operation.polls, lambda poll: poll.turn):
            yield from witnesses[key].turn(operation, [*polls])
