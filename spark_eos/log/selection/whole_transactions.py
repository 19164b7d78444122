"""Up to where the records of several partitions go without a part of a transaction. Pure.

A *cut* has an offset for each partition; the records before it are a beginning of the partition. A *unit* is a
transaction of the log, or an entry that stands for itself. A cut is whole if each unit lies before it in all of the
unit's partitions, or after it in all of them. The last stable offset of one partition can hold back part of a unit.
Then the unit's other parts are held back as well, and all records after them, and so on: hence a fixpoint.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from spark_eos.protocol.state import PartitionKey

Cut = Mapping[PartitionKey, int]
"""The offset up to which (exclusive) a partition goes."""


class Part(NamedTuple):
    """The records of a unit in a partition: ``records`` of them lie from ``first`` on and before ``end``."""

    first: int
    end: int
    records: int


class Unit(NamedTuple):
    """What belongs together. ``seq`` is the entry that ended it, in which order units go if all else is equal."""

    seq: int
    parts: Mapping[PartitionKey, Part]


def most(start: Cut, stops: Cut, units: Sequence[Unit]) -> dict[PartitionKey, int]:
    """The greatest whole cut from ``start`` on that goes nowhere past ``stops``."""
    end = {key: max(stop, start[key]) for key, stop in stops.items()}
    lists = Lists(units)
    waiting = [
        number
        for number, unit in enumerate(units)
        if any(part.end > end.get(key, part.end) for key, part in unit.parts.items())
    ]
    held = {*waiting}
    while waiting:
        for key, part in units[waiting.pop()].parts.items():
            # A unit of which a part lies before the start was torn before: what is left of it begins here.
            first = max(part.first, start.get(key, 0))
            if first < end.get(key, 0):
                for number in lists.ending_after(key, first):
                    if number not in held:
                        held.add(number)
                        waiting.append(number)
                end[key] = first
    return end


def part_of(unit: Unit, cut: Cut) -> int:
    """How many records of the unit are after the cut, at most."""
    return sum(
        min(part.records, max(part.end - max(part.first, cut[key]), 0))
        for key, part in unit.parts.items()
        if key in cut
    )


def is_before(unit: Unit, cut: Cut) -> bool:
    """Whether all of the unit is before the cut."""
    return all(part.end <= cut.get(key, part.end) for key, part in unit.parts.items())


def torn(units: Iterable[Unit], cut: Cut) -> list[Unit]:
    """The units of which the cut has a part."""
    return [
        unit
        for unit in units
        if not is_before(unit, cut) and any(part.first < cut.get(key, 0) for key, part in unit.parts.items())
    ]


def records(units: Iterable[Unit], cut: Cut) -> int:
    """How many records of these units are after the cut, at most."""
    return sum(part_of(unit, cut) for unit in units)


class Lists:
    """The units of each partition by where they end, and by where they begin."""

    def __init__(self, units: Sequence[Unit]) -> None:
        ends: dict[PartitionKey, list[tuple[int, int]]] = {}
        firsts: dict[PartitionKey, list[tuple[int, int]]] = {}
        for number, unit in enumerate(units):
            for key, part in unit.parts.items():
                ends.setdefault(key, []).append((part.end, number))
                firsts.setdefault(key, []).append((part.first, number))
        self._ends = {key: sorted(pairs) for key, pairs in ends.items()}
        self._firsts = {key: sorted(pairs) for key, pairs in firsts.items()}

    def ending_after(self, key: PartitionKey, offset: int) -> list[int]:
        """Those with a part that ends after ``offset``; each is given once."""
        pairs = self._ends.get(key, [])
        at = bisect_left(pairs, (offset + 1, -1))
        self._ends[key], after = pairs[:at], pairs[at:]
        return [number for _, number in after]

    def beginning_before(self, key: PartitionKey, offset: int) -> list[int]:
        """Those with a part that begins before ``offset``; each is given once."""
        pairs = self._firsts.get(key, [])
        at = bisect_left(pairs, (offset, -1))
        before, self._firsts[key] = pairs[:at], pairs[at:]
        return [number for _, number in before]
