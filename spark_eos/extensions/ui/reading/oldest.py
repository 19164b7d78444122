"""Records of a topic, the oldest first, from a place on: its partitions are merged, and no batch is read too early."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark_eos.config.isolation import Isolation
from spark_eos.errors import InvalidRequestError
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.reading.newest import FoundRecord
from spark_eos.extensions.ui.reading.wanted import Budget, Criteria, dicts, matching
from spark_eos.log.data.planner import Fetch, end_offset, planned_rows
from spark_eos.log.data.records import Records
from spark_eos.log.topics import layout_of
from spark_eos.protocol.state import State, Topic
from spark_eos.protocol.types import TopicPartition

_MOST_MERGED = 200
"""Partitions of one call: of each the index is asked where it begins, which costs a request or two if it is sealed."""


class Place(NamedTuple):
    """Where to begin in each partition: at an offset, or at the first record that is not older than a time."""

    offset: int = 0
    time_ms: int | None = None


class Oldest(NamedTuple):
    """Records, the oldest first. ``after``: where the partitions go on that were read; None: there are no more yet."""

    records: list[FoundRecord]
    after: dict[int, int] | None


def oldest(
    follower: Follower,
    topic: Topic,
    partitions: Collection[int],
    place: Place,
    after: Mapping[int, int],
    isolation: Isolation,
    criteria: Criteria,
    count: int,
    budget: Budget,
) -> Oldest:
    """The first ``count`` records of partitions from a place on; after an earlier call from its ``after`` on.

    Of two partitions the record with the earlier timestamp is first; in each the offsets rise, also where its
    timestamps do not. A batch is read when none of the others can have an older record.
    """
    if len(partitions) > _MOST_MERGED:
        raise InvalidRequestError(
            f"topic {topic.name!r} has {topic.partitions} partitions, and the oldest records are read from at most "
            f"{_MOST_MERGED} together: choose a partition, or the newest"
        )
    state, looking = follower.state, (criteria, budget)
    parts = [_Part(follower, state, topic, number, place, after, isolation, looking) for number in partitions]
    heap = [part.key() for part in parts if part.next_batch()]
    heapq.heapify(heap)
    hits: list[FoundRecord] = []
    while heap and len(hits) < count:
        part = heap[0][-1]
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
        return Oldest(hits, None)
    return Oldest(hits, {**after, **{part.at.partition: part.after for part in parts if part.was_read}})


class _Part:
    """A partition from its place on. ``records`` is the batch that was read, None before that."""

    def __init__(
        self,
        follower: Follower,
        state: State,
        topic: Topic,
        number: int,
        place: Place,
        after: Mapping[int, int],
        isolation: Isolation,
        looking: tuple[Criteria, Budget],
    ) -> None:
        self._criteria, self._budget = looking
        self._follower, self._topic = follower, topic
        self.at = TopicPartition(topic.name, number)
        part, load = state.partitions[topic.topic_id, number], follower.log.load
        end = end_offset(part, isolation)
        self.was_read = number in after
        self._since_ms = None if self.was_read else place.time_ms
        """Records before the first one that is not older are left out; None: it was found."""
        start = after.get(number, place.offset)
        if self._since_ms is not None:
            row = next(part.index.scan(part.start, load, newer_than_ms=self._since_ms), None)
            start = end if row is None else row.base_offset
        # Retention may have deleted more, or another topic has the name now.
        start = min(max(start, part.start), end)
        first, end = self._criteria.narrowed(topic, self.at, start, end)
        if self._since_ms is None:  # Else what is not wanted may be where the time is reached.
            start = first
        start = min(start, end)
        self.after = start
        self._planned = planned_rows(state, self.at, start, end, isolation, load)
        self.records: Records | None = None
        self._places: Sequence[int] = ()
        self._taken = 0

    def key(self) -> tuple[int, int, int, _Part]:
        """Where it is in the heap: by the time of its next record, or of the oldest that its next batch may have."""
        if self.records is None:
            first_ms = max(self._fetch.batch.min_timestamp_ms, self._since_ms or 0)
            return first_ms, self.at.partition, self._fetch.offset, self
        place = self._places[self._taken]
        return self._times[place].value, self.at.partition, self.records.offset(place), self

    def next_batch(self) -> bool:
        """Go on to the batch after; whether there is one."""
        self.records = None
        for _, fetch in self._planned:
            if self._since_ms is not None and fetch.batch.max_timestamp_ms < self._since_ms:
                continue
            if self._budget.is_spent or self._criteria.may_be_in(fetch):
                self._fetch = fetch
                return True
            self._budget.skip()
            self._pass(fetch)
        return False

    def read(self) -> bool:
        """Read its batch; whether the partition has more."""
        matches = matching(self._follower, self._topic, self._fetch, self._criteria, self._budget)
        if matches is not None:
            self._times = matches[0].table.column(layout_of(self._topic).timestamp_column)
            self._places = matches[1]
            if self._since_ms is not None:
                late = pc.index(
                    pc.greater_equal(self._times.cast(pa.int64()), self._since_ms), value=True
                ).as_py()
                self._places = [place for place in self._places if place >= late >= 0]
        self._pass(self._fetch)
        if matches is None or not self._places:
            return self.next_batch()
        self.records, self._taken = matches[0], 0
        self.after = self.records.offset(self._places[0])
        return True

    def _pass(self, fetch: Fetch) -> None:
        """Nothing of a batch is left: the next ones have all that is wanted from their first record on."""
        self.after, self.was_read, self._since_ms = fetch.next_offset, True, None

    def take(self) -> FoundRecord:
        """Its next record."""
        assert self.records is not None
        place = self._places[self._taken]
        offset = self.records.offset(place)
        self.after = offset + 1
        (row,) = dicts(self._topic, self.records.table.slice(place, 1))
        return FoundRecord(self.at.partition, offset, row)

    def next_record(self) -> bool:
        """Go on to the record after; whether there is one."""
        self._taken += 1
        if self._taken < len(self._places):
            return True
        self.after = self._fetch.next_offset
        return self.next_batch()
