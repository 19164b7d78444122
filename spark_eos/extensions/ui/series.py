"""What changed over the last minutes: ends of partitions, records of topics, lag of groups and queries.

A sample is taken after each poll. It holds what differs from the sample before, so its size follows the traffic and not
the number of partitions.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import NamedTuple, TypeVar

from spark_eos.monitoring.places import places
from spark_eos.protocol.state import EMPTY, Partition, PartitionKey, State

Key = TypeVar("Key")

SAMPLES = 180
"""Samples that are kept: three minutes while a browser looks, half an hour otherwise."""

_NOW = 6
"""The newest samples, which "now" is about."""

_LAG_SHARE = 20
"""Computing the lag of all groups takes at most one part in so many of the time."""


class Total(NamedTuple):
    """Sums over the partitions of a topic."""

    start: int = 0
    end: int = 0
    held: int = 0
    """Offsets from the last stable offset to the end: what open transactions hold back."""

    @property
    def offsets(self) -> int:
        """Offsets that are there: records, and control batches and holes among them."""
        return self.end - self.start


class Point(NamedTuple):
    """A value at a time, in milliseconds since 1970 (UTC)."""

    time_ms: int
    value: float


class Sample(NamedTuple):
    """What was new at a poll: ends of partitions and topics that changed, and the lags, if they were computed."""

    time_ms: int
    seq: int
    end: int
    topics: Mapping[str, int]
    partitions: Mapping[PartitionKey, int]
    groups: Mapping[str, int] | None
    queries: Mapping[str, int] | None


class Series:
    """The samples of one log. One thread adds them; others read what is complete."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._state = EMPTY
        self._lock = threading.Lock()
        self._samples: deque[Sample] = deque()
        self._first_topics: dict[str, int] = {}
        self._first_partitions: dict[PartitionKey, int] = {}
        """Ends before the oldest sample that is kept."""
        self._lag_due = 0.0
        self.totals: dict[str, Total] = {}
        """By topic id."""
        self.group_lags: Mapping[str, int] = {}
        self.query_lags: Mapping[str, int] = {}
        self.unknown: Mapping[str, int] = {}
        """Partitions in which groups have committed nothing, though there is something to read."""

    def add(self, state: State, time_ms: int) -> None:
        """Take a sample."""
        changed = self._changed(state)
        totals = dict(self.totals)
        for key, before, after in changed:
            total = totals.get(key[0], Total())
            totals[key[0]] = Total(
                *(a - b + c for a, b, c in zip(total, _of(before), _of(after), strict=True))
            )
        if state.topics is not self._state.topics:
            topic_ids = {topic.topic_id for topic in state.topics.values()}
            totals = {topic_id: total for topic_id, total in totals.items() if topic_id in topic_ids}
        topics = {
            topic_id: total.end for topic_id, total in totals.items() if total != self.totals.get(topic_id)
        }
        partitions = {key: after.end for key, _, after in changed if after is not None}
        groups, queries = self._lags(state)
        self.totals, self._state = totals, state
        end = sum(total.end for total in totals.values())
        with self._lock:
            self._samples.append(Sample(time_ms, state.seq, end, topics, partitions, groups, queries))
            if len(self._samples) > SAMPLES:
                oldest = self._samples.popleft()
                self._first_topics.update(oldest.topics)
                self._first_partitions.update(oldest.partitions)

    def _changed(self, state: State) -> list[tuple[PartitionKey, Partition | None, Partition | None]]:
        """The partitions that are not the same objects as before: states share all that did not change."""
        before, after = self._state.partitions, state.partitions
        if before is after:
            return []
        changes: list[tuple[PartitionKey, Partition | None, Partition | None]] = [
            (key, earlier, partition)
            for key, partition in after.items()
            if (earlier := before.get(key)) is not partition
        ]
        if len(after) - sum(earlier is None for _, earlier, _ in changes) < len(before):
            changes += [(key, partition, None) for key, partition in before.items() if key not in after]
        return changes

    def _lags(self, state: State) -> tuple[Mapping[str, int] | None, Mapping[str, int] | None]:
        begun = self._monotonic()
        if begun < self._lag_due:
            return None, None
        self.group_lags, self.query_lags, self.unknown = _reader_lags(state)
        took = self._monotonic() - begun
        self._lag_due = begun + took * _LAG_SHARE if took > 1 / _LAG_SHARE else 0.0
        return self.group_lags, self.query_lags

    # -- Reading --------------------------------------------------------------------------------------------

    def _kept_samples(self) -> list[Sample]:
        with self._lock:
            return list(self._samples)

    def log_rates(self) -> list[Point]:
        """Offsets per second of all topics."""
        return _rates([(sample.time_ms, sample.end) for sample in self._kept_samples()])

    def entry_rates(self) -> list[Point]:
        """Entries per second."""
        return _rates([(sample.time_ms, sample.seq) for sample in self._kept_samples()])

    def topic_rates(self, topic_id: str) -> list[Point]:
        """Offsets per second of a topic."""
        return self._carried(self._first_topics.get(topic_id), lambda sample: sample.topics.get(topic_id))

    def partition_rates(self, key: PartitionKey) -> list[Point]:
        """Offsets per second of a partition."""
        return self._carried(self._first_partitions.get(key), lambda sample: sample.partitions.get(key))

    def rates_now(self) -> dict[str, float]:
        """Offsets per second of each topic that changed in the last few samples, by its id."""
        return self._now(lambda sample: sample.topics, self._first_topics)

    def partition_rates_now(self) -> dict[PartitionKey, float]:
        """The same for partitions."""
        return self._now(lambda sample: sample.partitions, self._first_partitions)

    def _now(
        self, ends_of: Callable[[Sample], Mapping[Key, int]], first: Mapping[Key, int]
    ) -> dict[Key, float]:
        samples = self._kept_samples()
        begin = max(len(samples) - _NOW, 1)
        after: dict[Key, int] = {}
        for sample in samples[begin:]:
            after.update(ends_of(sample))
        if not after:
            return {}
        before = {key: first.get(key, 0) for key in after}
        for sample in samples[:begin]:
            ends = ends_of(sample)
            before.update((key, ends[key]) for key in ends.keys() & after.keys())
        seconds = max((samples[-1].time_ms - samples[begin - 1].time_ms) / 1000, 0.001)
        return {key: round(max(end - before[key], 0) / seconds, 3) for key, end in after.items()}

    def lags(self, kind: str, name: str) -> list[Point]:
        """The lag of a group (``kind`` group) or query (``query``) over time, in offsets."""
        points = []
        for sample in self._kept_samples():
            lags = sample.groups if kind == "group" else sample.queries
            if lags is not None and name in lags:
                points.append(Point(sample.time_ms, lags[name]))
        return points

    def _carried(self, last: int | None, end_of: Callable[[Sample], int | None]) -> list[Point]:
        """Rates of what is in a sample only when it changed."""
        ends: list[tuple[int, int]] = []
        for sample in self._kept_samples():
            value = end_of(sample)
            last = last if value is None else value
            if last is not None:
                ends.append((sample.time_ms, last))
        return _rates(ends)


def _of(partition: Partition | None) -> Total:
    if partition is None:
        return Total()
    return Total(partition.start, partition.end, partition.end - partition.last_stable_offset)


def _rates(ends: list[tuple[int, int]]) -> list[Point]:
    rates = []
    for before, at in pairwise(ends):
        seconds = max((at[0] - before[0]) / 1000, 0.001)
        rates.append(Point(at[0], round(max(at[1] - before[1], 0) / seconds, 3)))
    return rates


def _reader_lags(state: State) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Offsets that groups are behind, and queries; and in how many partitions that is not known of groups."""
    groups: dict[str, int] = {}
    queries: dict[str, int] = {}
    unknown: dict[str, int] = {}
    for place in places(state):
        partition = state.partitions[place.key]
        if place.kind == "publication":
            continue
        if place.committed is None:
            if partition.end > partition.start:
                unknown[place.name] = unknown.get(place.name, 0) + 1
            continue
        sums = groups if place.kind == "group" else queries
        behind = max(partition.readable_end(place.committed) - place.committed, 0)
        sums[place.name] = sums.get(place.name, 0) + behind
    return groups, queries, unknown
