"""The newest records of a topic: its partitions are merged from their ends on, and no batch is read before its turn."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from spark_eos.config.isolation import Isolation
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.reading.wanted import Budget, Criteria, dicts, matching
from spark_eos.log.data.planner import end_offset, planned_back
from spark_eos.log.data.records import Records
from spark_eos.log.topics import layout_of
from spark_eos.protocol.state import State, Topic
from spark_eos.protocol.types import TopicPartition

_NAMED = 1000
"""Partitions whose places are all named. Of more only those are that a call has read from: a reply has a bound."""


class Newest(NamedTuple):
    """Records, the newest first.

    ``before``: the offsets of the partitions before which there are older ones; None: there are none. ``ends``: where
    the partitions ended, so that what is written later is after them; None: they are too many to be named.
    """

    records: list[FoundRecord]
    before: dict[int, int] | None
    ends: dict[int, int] | None


class FoundRecord(NamedTuple):
    """A record, by its columns."""

    partition: int
    offset: int
    row: dict[str, Any]


def newest(
    follower: Follower,
    topic: Topic,
    partitions: Collection[int],
    before: Mapping[int, int],
    after: Mapping[int, int],
    isolation: Isolation,
    criteria: Criteria,
    count: int,
    budget: Budget,
) -> Newest:
    """The newest ``count`` records of partitions.

    ``before`` and ``after`` are what earlier calls have returned as ``before`` and ``ends``; a partition that they do
    not name is read from its end to its start. Of two partitions the record with the later timestamp is first; in each
    the offsets fall, also where its timestamps do not. A batch is read when none of the others can have a newer record.
    """
    state = follower.state
    looking = criteria, budget
    parts = [
        _Part(follower, state, topic, number, (before, after), isolation, looking) for number in partitions
    ]
    ends = {part.at.partition: part.end for part in parts} if len(parts) <= _NAMED else None
    heap = [part.key() for part in parts if part.next_batch()]
    heapq.heapify(heap)
    hits: list[FoundRecord] = []
    while heap and len(hits) < count:
        part = _part_of(heap[0])
        if part.records is None:
            if budget.is_spent:
                break
            is_there = part.read()
        else:
            hits.append(part.take())
            is_there = part.next_record()
        if is_there:
            heapq.heapreplace(heap, part.key())
        else:
            heapq.heappop(heap)
    if not heap:
        return Newest(hits, None, ends)
    stated_parts = parts if len(parts) <= _NAMED else [part for part in parts if part.was_read]
    return Newest(hits, {**before, **{part.at.partition: part.before for part in stated_parts}}, ends)


_Key = tuple[int, int, int, "_Part"]


def _part_of(key: _Key) -> _Part:
    return key[-1]


class _Part:
    """A partition from its end on. ``records`` is the batch that was read, None before that."""

    def __init__(
        self,
        follower: Follower,
        state: State,
        topic: Topic,
        number: int,
        bounds: tuple[Mapping[int, int], Mapping[int, int]],
        isolation: Isolation,
        looking: tuple[Criteria, Budget],
    ) -> None:
        self._criteria, self._budget = looking
        self._follower, self._topic = follower, topic
        self.at = TopicPartition(topic.name, number)
        part = state.partitions[topic.topic_id, number]
        self.end = end = end_offset(part, isolation)
        before, after = bounds
        # Retention may have deleted more, or another topic has the name now.
        start = min(max(after.get(number, 0), part.start), end)
        self.before = min(max(before.get(number, end), start), end)
        start, self.before = self._criteria.narrowed(topic, self.at, start, self.before)
        self.was_read = number in before
        self._fetches = planned_back(state, self.at, start, self.before, isolation, follower.log.load)
        self.records: Records | None = None
        self._places: Sequence[int] = ()
        self._left = 0

    def key(self) -> _Key:
        """Where it is in the heap: by the time of its next record, or of the newest that its next batch may have."""
        if self.records is None:
            return -self._fetch.batch.max_timestamp_ms, -self.at.partition, -self._fetch.next_offset, self
        place = self._places[self._left - 1]
        return -self._times[place].value, -self.at.partition, -self.records.offset(place), self

    def next_batch(self) -> bool:
        """Go on to the batch before; whether there is one."""
        self.records = None
        for fetch in self._fetches:
            if self._budget.is_spent or self._criteria.may_be_in(fetch):
                self._fetch = fetch
                return True
            self._budget.skip()
            self.before, self.was_read = fetch.offset, True
        return False

    def read(self) -> bool:
        """Read its batch; whether the partition has more."""
        self.was_read = True
        matches = matching(self._follower, self._topic, self._fetch, self._criteria, self._budget)
        if matches is None or not matches[1]:
            self.before = self._fetch.offset
            return self.next_batch()
        self.records, self._places = matches
        column = self.records.table.column(layout_of(self._topic).timestamp_column)
        self._times, self._left = column, len(self._places)
        return True

    def take(self) -> FoundRecord:
        """Its next record."""
        assert self.records is not None
        place = self._places[self._left - 1]
        self.before = self.records.offset(place)
        (row,) = dicts(self._topic, self.records.table.slice(place, 1))
        return FoundRecord(self.at.partition, self.before, row)

    def next_record(self) -> bool:
        """Go on to the record before; whether there is one."""
        self._left -= 1
        if self._left:
            return True
        self.before = self._fetch.offset
        return self.next_batch()
