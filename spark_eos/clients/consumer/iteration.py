"""Iteration over a consumer, as kafka-python has it: ``for record in consumer``."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from spark_eos.clients.consumer.partition_state import PartitionState
from spark_eos.clients.records import ConsumerRecord
from spark_eos.protocol.types import TopicPartition


class _Waiting(NamedTuple):
    """A record that was polled and not yet handed out. ``seeks``: what the partition had counted by then."""

    partition: PartitionState
    seeks: int
    record: ConsumerRecord
    is_last: bool
    """Whether it is the last one of its partition that waits here."""


class ReadAhead:
    """Records that a poll took for an iteration, which hands them out one by one.

    The position of a partition, as users see and commit it, is that after the record that was handed out last. What
    waits here is dropped where the partition was sought in or lost, and given back where it was paused.
    """

    def __init__(self, assigned: Mapping[TopicPartition, PartitionState]) -> None:
        self._assigned = assigned
        self._waiting: deque[_Waiting] = deque()
        self.handed: _Waiting | None = None
        """What the last `next` gave: None before it, for `undo`."""

    def take(self, records: Sequence[ConsumerRecord]) -> None:
        """These were polled."""
        last: dict[tuple[str, int], int] = {}
        for row, record in enumerate(records):
            last[record.topic, record.partition] = row
        for row, record in enumerate(records):
            partition = self._assigned[TopicPartition(record.topic, record.partition)]
            is_last = last[record.topic, record.partition] == row
            self._waiting.append(_Waiting(partition, partition.seeks, record, is_last))
        for waiting in reversed(self._waiting):
            waiting.partition.shown = waiting.record.offset

    def undo(self) -> None:
        """An interrupt came before the caller got the record of the last `next`: it is the next one again."""
        handed, self.handed = self.handed, None
        if handed is not None and handed.partition.seeks == handed.seeks:
            handed.partition.shown = handed.record.offset
            if not (self._waiting and self._waiting[0] is handed):
                self._waiting.appendleft(handed)

    def next(self) -> ConsumerRecord | None:
        """The next record; None if there is none left."""
        while self._waiting:
            partition, seeks, record, is_last = self._waiting[0]
            if partition.seeks == seeks and self._assigned.get(partition.at) is partition:
                if not partition.paused:
                    self.handed = self._waiting[0]
                    partition.shown = None if is_last else record.offset + 1
                    self._waiting.popleft()
                    return record
                partition.seek(record.offset)
            self._waiting.popleft()
        return None

    def give_back(self) -> None:
        """Nothing more is handed out: the next poll takes these records again."""
        while self._waiting:
            partition, seeks, record, _ = self._waiting[0]
            if partition.seeks == seeks:
                partition.seek(record.offset)
            self._waiting.popleft()
