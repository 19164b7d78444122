"""Read planning: which byte ranges hold the records of an offset range. Pure, and decided before any read.

Control batches and, under read_committed, aborted data are left out here, at no cost per row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from spark_eos.config.isolation import Isolation
from spark_eos.errors import OffsetOutOfRangeError, UnknownTopicOrPartitionError
from spark_eos.protocol.actions.topics import require
from spark_eos.protocol.index import IndexRow, Kind, Load, in_memory
from spark_eos.protocol.state import Partition, State
from spark_eos.protocol.types import BatchRef, FileRef, TopicPartition


class Fetch(NamedTuple):
    """Offsets ``offset`` to ``offset + count - 1`` of one batch, which begins ``skip`` offsets before them.

    Each has a record, the first one in row ``skip`` of the batch; but of a file that was rewritten
    (`FileRef.offsets`) only those that are left. ``part`` says then which of these are wanted, by number: from
    the first one to before the second; None: all.
    """

    topic: str
    partition: int
    offset: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not needed here
    skip: int
    file: FileRef
    batch: BatchRef
    part: tuple[int, int] | None = None

    @property
    def base_offset(self) -> int:
        """The first offset of the batch."""
        return self.offset - self.skip

    @property
    def next_offset(self) -> int:
        """The offset after the last one: where to go on when its records are read."""
        return self.offset + self.count

    @property
    def records(self) -> int:
        """How many records it has. Of a batch with holes that is read in part: at most."""
        if not self.file.offsets:
            return self.count
        count = min(self.count, self.batch.count)
        return count if self.part is None else min(self.part[1], count) - self.part[0]

    def take(self, first: int, records: int) -> Fetch:
        """So many of its records, from number ``first`` on."""
        if not self.file.offsets:
            return self._replace(offset=self.offset + first, skip=self.skip + first, count=records)
        first += 0 if self.part is None else self.part[0]
        return self._replace(part=(first, first + records))

    @property
    def size(self) -> int:
        """Bytes that have to be read for it."""
        return self.batch.length


def partition_of(state: State, at: TopicPartition) -> Partition:
    """The partition's state. Raises `UnknownTopicOrPartitionError`."""
    topic = require(state, at.topic)
    partition = state.partitions.get((topic.topic_id, at.partition))
    if partition is None:
        raise UnknownTopicOrPartitionError(
            f"topic {at.topic!r} has no partition {at.partition}: its partitions are 0 to {topic.partitions - 1}"
        )
    return partition


def end_offset(partition: Partition, isolation: Isolation) -> int:
    """Where readers of that isolation level stop: the LSO, or the end. Exclusive."""
    return partition.last_stable_offset if isolation is Isolation.READ_COMMITTED else partition.end


def plan(
    state: State,
    at: TopicPartition,
    start: int,
    end: int,
    isolation: Isolation,
    load: Load = in_memory,
) -> list[Fetch]:
    """The fetches for offsets ``start`` to ``end - 1``, in offset order.

    ``load`` reads what is sealed (`spark_eos.log.log.Log.load`). Raises `OffsetOutOfRangeError` if the range
    is not wholly inside the partition as this level sees it: what is planned is there, all of it.
    """
    return [fetch for _, fetch in planned_rows(state, at, start, end, isolation, load)]


def planned_rows(
    state: State,
    at: TopicPartition,
    start: int,
    end: int,
    isolation: Isolation,
    load: Load = in_memory,
) -> Iterator[tuple[IndexRow, Fetch]]:
    """As `plan`, with the rows of the index; what is behind the last one that is taken is not looked at."""
    partition = _checked_partition(state, at, start, end, isolation)
    for row in partition.index.scan(start, load):
        if row.base_offset >= end:
            break
        if (fetch := _fetch(partition, row, at, start, end, isolation)) is not None:
            yield row, fetch


def planned_back(
    state: State,
    at: TopicPartition,
    start: int,
    end: int,
    isolation: Isolation,
    load: Load = in_memory,
) -> Iterator[Fetch]:
    """As `plan`, the newest first. What is before the last one that is taken is not looked at."""
    partition = _checked_partition(state, at, start, end, isolation)
    for row in partition.index.back(end, load):
        if row.next_offset <= start:
            break
        if (fetch := _fetch(partition, row, at, start, end, isolation)) is not None:
            yield fetch


def _fetch(
    partition: Partition, row: IndexRow, at: TopicPartition, start: int, end: int, isolation: Isolation
) -> Fetch | None:
    """What is wanted of a batch; None if readers of that isolation level do not see it."""
    if row.file is None or row.batch is None or _is_hidden(partition, row, isolation):
        return None
    first, last = max(start, row.base_offset), min(end, row.next_offset)
    return Fetch(at.topic, at.partition, first, last - first, first - row.base_offset, row.file, row.batch)


def _checked_partition(
    state: State, at: TopicPartition, start: int, end: int, isolation: Isolation
) -> Partition:
    partition = partition_of(state, at)
    limit = end_offset(partition, isolation)
    if not partition.start <= start <= end <= limit:
        raise OffsetOutOfRangeError(
            f"offsets {start} to {end} of {at} are out of range: it has {partition.start} to {limit}"
        )
    return partition


def _is_hidden(partition: Partition, row: IndexRow, isolation: Isolation) -> bool:
    if row.kind is not Kind.DATA:
        return row.kind is not Kind.ABORTED or isolation is Isolation.READ_COMMITTED
    return (
        isolation is Isolation.READ_COMMITTED
        and bool(partition.aborted)
        and (row.producer.producer_id, row.producer.number) in partition.aborted
    )
