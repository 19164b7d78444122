"""The operations of a history, and what is known of each value: where it is, who wrote it, whether it is in."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from spark_eos.errors import InvalidRequestError
from spark_eos.protocol.types import TopicPartition
from spark_eos.testing.history.events import READ_COMMITTED, Action, Event, Kind, Poll, Send

FinalReads = Mapping[TopicPartition, Sequence[tuple[int, Any]]]
"""For each partition that was read from its start to its end when all was over: (offset, value), in order."""

Key = tuple[TopicPartition, Any]
"""A partition and a value, which is unique there."""

FINAL = "final read"


class Fate(Enum):
    """Whether a write is in the log."""

    COMMITTED = "committed"
    """It must be: it was acknowledged, or a reader saw a part of it that only a commit could show."""
    ABORTED = "aborted"
    """It must not be."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, eq=False)
class Operation:
    """An invocation and its completion, if there was one."""

    invoke: Event
    completion: Event | None
    is_final: bool = False
    """It is a final read, which no process made."""

    @property
    def kind(self) -> Kind:
        return Kind.INFO if self.completion is None else self.completion.kind

    @property
    def process(self) -> str:
        return self.invoke.process

    @property
    def transaction(self) -> str | None:
        return self.invoke.transaction

    @cached_property
    def streamed(self) -> bool:
        """Whether the transaction appended before its end."""
        return any(event.streamed for event in self.events)

    @property
    def is_committed_read(self) -> bool:
        """Whether its polls show committed records only."""
        return self.invoke.isolation == READ_COMMITTED

    @property
    def one_shot(self) -> bool:
        """A transaction that is in or out as a whole, at one instant."""
        return self.transaction is not None and not self.streamed

    @cached_property
    def atomic(self) -> bool:
        """All that it wrote became visible at the instant at which it was written."""
        return self.one_shot or (self.transaction is None and len(self.sends) <= 1)

    @property
    def events(self) -> tuple[Event, ...]:
        """Its one or two events."""
        return (self.invoke,) if self.completion is None else (self.invoke, self.completion)

    @property
    def fate(self) -> Event:
        """The event that says most about it."""
        return self.completion or self.invoke

    @cached_property
    def actions(self) -> tuple[Action, ...]:
        """What is known of its sends and polls."""
        if self.completion is None or not self.completion.actions:
            return self.invoke.actions
        return self.completion.actions

    @cached_property
    def sends(self) -> tuple[Send, ...]:
        """What it sent; for an operation that did not succeed, also what it only said it would send."""
        sends = tuple(action for action in self.actions if isinstance(action, Send))
        if self.kind is Kind.OK:
            return sends
        sent = {(send.partition, send.value) for send in sends}
        planned = (action for action in self.invoke.actions if isinstance(action, Send))
        return (*sends, *(send for send in planned if (send.partition, send.value) not in sent))

    @cached_property
    def polls(self) -> tuple[Poll, ...]:
        """What it polled."""
        return tuple(action for action in self.actions if isinstance(action, Poll))

    def __str__(self) -> str:
        return FINAL if self.is_final else f"#{self.invoke.index} ({self.process}, {self.invoke.call})"


def pair(history: Iterable[Event]) -> list[Operation]:
    """The operations, in the order of their invocations.

    Raises `InvalidRequestError` if a completion has no invocation, or contradicts it.
    """
    pairs: list[tuple[Event, list[Event]]] = []
    waiting: dict[str, tuple[Event, list[Event]]] = {}
    last = -1
    for event in history:
        if event.index <= last:
            raise InvalidRequestError(f"event {event.index} comes after event {last}: merge() numbers events")
        last = event.index
        if event.kind is Kind.INVOKE:
            waiting[event.process] = (event, [])
            pairs.append(waiting[event.process])
            continue
        invoke, completion = waiting.pop(event.process, (None, []))
        if invoke is None or (invoke.call, invoke.transaction) != (event.call, event.transaction):
            raise InvalidRequestError(
                f"event {event.index} completes {event.call} of {event.process}, which was not invoked: "
                "a process has one call at a time, and completes each at most once"
            )
        completion.append(event)
    return [Operation(invoke, completion[0] if completion else None) for invoke, completion in pairs]


def final_operations(final: FinalReads) -> Iterator[Operation]:
    """The final reads as operations, with negative indexes."""
    for number, (partition, records) in enumerate(sorted(final.items())):
        poll = Poll(partition, tuple(records), reassigned=True)
        event = Event(number - len(final), float("inf"), f"{FINAL} of {partition}", Kind.OK, "poll", (poll,))
        yield Operation(event, event, is_final=True)


class Facts:
    """All that a history says about values and their places.

    ``starts``: the first offset that each partition still has at the final read (default 0).
    """

    def __init__(
        self, history: Iterable[Event], final: FinalReads, starts: Mapping[TopicPartition, int]
    ) -> None:
        self.operations = pair(history)
        self.final, self.starts = final, starts
        self.readings = [*self.operations, *final_operations(final)]
        """Operations, and final reads after them."""
        self.writers: dict[Key, Operation] = {}
        self.written: set[TopicPartition] = set()
        """Partitions with recorded writers. What is in others comes from outside."""
        self.values: dict[TopicPartition, dict[int, dict[Any, Operation]]] = defaultdict(dict)
        """partition → offset → value → the first who says that it is there."""
        self.places: dict[Key, dict[int, Operation]] = {}
        """value → offset → the first who says that it is there."""
        self.committed_reads: dict[Key, Operation] = {}
        self.reads: dict[Key, Operation] = {}
        self._collect()
        self._fates = {id(operation): self._outcome(operation) for operation in self.operations}

    def _collect(self) -> None:
        for operation in self.readings:
            for send in operation.sends:
                key = (send.partition, send.value)
                if key in self.writers:
                    raise InvalidRequestError(
                        f"value {send.value!r} is sent to {send.partition} twice, by {self.writers[key]} and "
                        f"{operation}: values must be unique in their partition"
                    )
                self.writers[key] = operation
                self.written.add(send.partition)
                if send.offset is not None:
                    self._place(key, send.offset, operation)
            for poll in operation.polls:
                for offset, value in poll.records:
                    key = (poll.partition, value)
                    self._place(key, offset, operation)
                    self.reads.setdefault(key, operation)
                    if operation.is_committed_read:
                        self.committed_reads.setdefault(key, operation)

    def _place(self, key: Key, offset: int, operation: Operation) -> None:
        self.places.setdefault(key, {}).setdefault(offset, operation)
        self.values[key[0]].setdefault(offset, {}).setdefault(key[1], operation)

    def _outcome(self, operation: Operation) -> Fate:
        if operation.kind is Kind.OK:
            return Fate.COMMITTED
        if operation.kind is Kind.FAIL:
            return Fate.ABORTED
        # What a one-shot transaction or a plain send wrote is never seen before it is in for good.
        shown = self.committed_reads if operation.streamed else self.reads
        was_read = any((send.partition, send.value) in shown for send in operation.sends)
        return Fate.COMMITTED if was_read else Fate.UNKNOWN

    def outcome(self, operation: Operation) -> Fate:
        """What became of an operation; of a plain one with several sends: of at least one of them."""
        return self._fates[id(operation)]

    def fate(self, key: Key) -> Fate:
        """What became of a value."""
        writer = self.writers.get(key)
        if writer is None:
            return Fate.COMMITTED if key in self.committed_reads else Fate.UNKNOWN
        if writer.transaction is None and writer.kind is Kind.INFO:
            return Fate.COMMITTED if key in self.reads else Fate.UNKNOWN
        return self.outcome(writer)

    def offset(self, key: Key) -> int | None:
        """Where a value is: at the lowest of its offsets."""
        return min(self.places.get(key, ()), default=None)

    @cached_property
    def _due(self) -> dict[TopicPartition, list[tuple[int, Any]]]:
        due = {}
        for partition, offsets in self.values.items():
            start = self.starts.get(partition, 0)
            due[partition] = [
                (offset, value)
                for offset in sorted(offsets)
                for value in offsets[offset]
                if offset >= start and self.fate((partition, value)) is Fate.COMMITTED
            ]
        return due

    def due(self, partition: TopicPartition) -> Sequence[tuple[int, Any]]:
        """Offset and value of all that is known to be in, by offset."""
        return self._due.get(partition, ())

    def first_between(self, partition: TopicPartition, start: int, end: int) -> tuple[int, Any] | None:
        """The first known to be in, from offset ``start`` to before ``end``: a reader who passes must see it."""
        due = self.due(partition)
        at = bisect_left(due, start, key=_offset)
        return due[at] if at < len(due) and due[at][0] < end else None


def _offset(record: tuple[int, Any]) -> int:
    return record[0]
