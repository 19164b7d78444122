"""Ranges of offsets that are not sent: the records of the log that a mirror from the same topics has brought."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping

from spark_eos.protocol.state import PartitionKey


class Covered:
    """Ranges by partition, which do not overlap."""

    def __init__(self, ranges: Mapping[PartitionKey, Iterable[tuple[int, int]]] | None = None) -> None:
        self._ranges = {key: sorted(spans) for key, spans in (ranges or {}).items()}

    def within(self, key: PartitionKey, first: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of the range ``first`` to ``end - 1`` that are covered, in order."""
        ranges = self._ranges.get(key, [])
        for at in range(max(bisect_right(ranges, (first, first)) - 1, 0), len(ranges)):
            begin, stop = ranges[at]
            if begin >= end:
                break
            low, high = max(begin, first), min(stop, end)
            if low < high:
                yield low, high

    def count(self, key: PartitionKey, first: int, end: int) -> int:
        """How many offsets of the range are covered."""
        return sum(high - low for low, high in self.within(key, first, end))

    def rest(self, key: PartitionKey, first: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of the range that are not covered, in order."""
        for low, high in self.within(key, first, end):
            if first < low:
                yield first, low
            first = high
        if first < end:
            yield first, end
