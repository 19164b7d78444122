"""Retention: the oldest records of a partition go when they are too old, or when there are too many.

Of topics whose ``cleanup.policy`` contains ``delete``. As in Kafka a stretch goes when its newest record is older than
``retention.ms``, or when at least ``retention.bytes`` are left without it; always from the start on, and never past
the last stable offset. A stretch is one appended batch here, or a whole sealed page of them; of what is in Parquet
files, a whole file. So the log's start does not lie inside of a file, which would have to be written again for tables.

What is old is decided by the clock of this process, as Kafka's brokers do, but a clock that runs ahead must not empty
a log: it counts no further than a day (`SLACK_MS`) past the newest entry of the log, which the clock of another
process has stamped, and past the time that this process has seen pass since; and no further than the store's own
clock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from spark_eos.errors.hidden import safe_url
from spark_eos.log.log import Log
from spark_eos.log.topics import config_value
from spark_eos.maintenance.unreadable import Unreadable
from spark_eos.protocol.actions import Action, AdvanceLogStart, PartitionOffset
from spark_eos.protocol.index import IndexPage, IndexRow, Load
from spark_eos.protocol.state import Partition, State, Topic
from spark_eos.protocol.types import RETENTION, TopicPartition

SLACK_MS = 86_400_000
"""How far behind the newest entry of a log the clock is believed, unless it is to be trusted."""

_AGREED_MS = 60_000
"""Clocks that differ by less are the same: stores say whole seconds."""

_WRITER = RETENTION
_LOG = logging.getLogger(__name__)

_Goes = Callable[["IndexPage | IndexRow"], bool]


class Due(NamedTuple):
    """A partition whose first records go: those from ``start`` to ``offset - 1``."""

    topic: Topic
    partition: int
    start: int
    offset: int

    @property
    def at(self) -> TopicPartition:
        """The partition by its name."""
        return TopicPartition(self.topic.name, self.partition)


class Retention:
    """The retention of one log. ``trust_clock`` believes this machine's clock whatever it says."""

    def __init__(self, log: Log, *, trust_clock: bool = False) -> None:
        self._log = log
        self._trust_clock = trust_clock
        self._left = Unreadable()
        self._first_look: tuple[int, float] | None = None
        """The newest entry's time at first, and when that was on the monotonic clock."""
        self._warned = False
        self.held_back_ms = 0
        """By how much the clock was not believed when it was last asked."""

    def look(self) -> list[Due]:
        """What is past its time or size in the newest state.

        Raises what the store raises, and `ConfigError` for a stored setting of a topic that is none.
        """
        due = self._due()
        self._left.say()
        return due

    def _due(self) -> list[Due]:
        state = self._log.follow()
        now_ms = self._now_ms(state)

        def of(topic: Topic) -> Iterator[Due]:
            for number in range(topic.partitions) if _deletes(topic) else ():
                partition = state.partitions[topic.topic_id, number]
                offset = _kept_from(topic, partition, now_ms, self._log.load)
                offset = _file_border(partition, offset, self._log.load)
                if offset > partition.start:
                    yield Due(topic, number, partition.start, offset)

        return [*self._left.each(sorted(state.topics.values(), key=lambda topic: topic.name), of)]

    def run(self) -> list[Due]:
        """Move the log starts, all in one entry; what was moved. Raises as `look` does, after that."""
        due = self._due()
        moved: list[Due] = []

        def propose(state: State) -> tuple[Action, ...]:
            moved[:] = [move for move in due if _is_still(state, move)]
            offsets = tuple(
                PartitionOffset(move.topic.name, move.topic.topic_id, move.partition, move.offset)
                for move in moved
            )
            return (AdvanceLogStart(offsets),) if offsets else ()

        if due:
            self._log.commit(propose, writer=_WRITER)
        self._left.say()
        return moved

    def _now_ms(self, state: State) -> int:
        now_ms, monotonic = self._log.clock.now_ms(), self._log.clock.monotonic()
        store_ms = self._log.time.now_ms(state)
        if self._first_look is None:
            self._first_look = (state.timestamp_ms, monotonic)
        passed_ms = int((monotonic - self._first_look[1]) * 1000)
        limit_ms = max(state.timestamp_ms, self._first_look[0] + passed_ms) + SLACK_MS
        wrong_ms = now_ms - store_ms if now_ms - store_ms > _AGREED_MS else 0
        self.held_back_ms = 0 if self._trust_clock else max(now_ms - limit_ms, wrong_ms, 0)
        if self.held_back_ms and not self._warned:
            self._warned = True
            _LOG.warning(
                "this machine's clock is %.1f days ahead of the newest entry of %s: records are deleted as if it were "
                "one day at most, and no later than the store's clock says. If the clock is right, and the log was "
                "only quiet, run `eoslog maintain --trust-clock`",
                (now_ms - state.timestamp_ms) / 86_400_000,
                safe_url(self._log.url),
            )
        return now_ms - self.held_back_ms


def _deletes(topic: Topic) -> bool:
    return "delete" in config_value(topic, "cleanup.policy", tuple)


def _is_still(state: State, due: Due) -> bool:
    """Whether it is still to be done: the topic is there, with these settings, and no other process was faster."""
    topic = state.topics.get(due.topic.name)
    if topic is None or (topic.topic_id, topic.config) != (due.topic.topic_id, due.topic.config):
        return False
    return state.partitions[topic.topic_id, due.partition].start < due.offset


def _kept_from(topic: Topic, partition: Partition, now_ms: int, load: Load) -> int:
    offset = partition.start
    age_ms = config_value(topic, "retention.ms", int)
    if age_ms >= 0:
        offset = first_kept(partition, load, lambda part: now_ms - part.max_timestamp_ms > age_ms)
    limit = config_value(topic, "retention.bytes", int)
    if limit >= 0:
        offset = max(offset, first_kept(partition, load, _Excess(_size(partition, load) - limit)))
    return offset


class _Excess:
    """Lets things go as long as what they take fits into what is too much."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __call__(self, part: IndexPage | IndexRow) -> bool:
        size = _size_of(part)
        if self._size <= 0 or size > self._size:
            return False
        self._size -= size
        return True


def first_kept(partition: Partition, load: Load, goes: _Goes) -> int:
    """After the longest run of batches from the partition's start on of which ``goes`` says so, or the start.

    ``goes`` is asked of a sealed page as a whole first, then of what is in it, each once and in order.
    """
    offset, all_went = _past_pages(partition.index.pages, partition.start, load, goes)
    if all_went:
        stable = partition.last_stable_offset
        tail = partition.index.tail
        for row in tail[tail.find(offset) :]:
            if row.next_offset > stable or not goes(row):
                break
            offset = row.next_offset
    return offset


def _file_border(partition: Partition, offset: int, load: Load) -> int:
    """``offset``, or the start of the Parquet file that goes on there."""
    border, file = partition.start, None
    # What lies before is deleted now, so nothing is looked through twice but a part of one file.
    for row in partition.index.scan(partition.start, load) if offset > partition.start else ():
        if row.base_offset >= offset:
            return border if row.file is not None and row.file.is_parquet and row.file == file else offset
        if row.file is not None and row.file != file:
            border, file = max(row.base_offset, partition.start), row.file
    return offset


def _past_pages(pages: Sequence[IndexPage], offset: int, load: Load, goes: _Goes) -> tuple[int, bool]:
    """How far it goes from ``offset`` on, and whether that is past all of them."""
    for page in pages:
        if page.next_offset <= offset:
            continue
        if page.base_offset >= offset and goes(page):
            offset = page.next_offset
            continue
        content = load(page)
        if page.level:
            offset, all_went = _past_pages(content, offset, load, goes)  # type: ignore[arg-type]  # pages
        else:
            offset, all_went = _past_rows(content, offset, goes)  # type: ignore[arg-type]  # rows, on level 0
        if not all_went:
            return offset, False
    return offset, True


def _past_rows(rows: Sequence[IndexRow], offset: int, goes: _Goes) -> tuple[int, bool]:
    for row in rows:
        if row.next_offset <= offset:
            continue
        if not goes(row):
            return offset, False
        offset = row.next_offset
    return offset, True


def _size(partition: Partition, load: Load) -> int:
    """Bytes of the batches that are left of a partition."""
    size = 0

    def count(part: IndexPage | IndexRow) -> bool:
        nonlocal size
        size += _size_of(part)
        return True

    stable = first_kept(partition, load, count)
    return size + sum(map(_size_of, partition.index.tail.since(stable)))


def _size_of(part: IndexPage | IndexRow) -> int:
    if isinstance(part, IndexPage):
        return part.bytes
    return 0 if part.batch is None else part.batch.length
