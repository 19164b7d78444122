"""Where a Kafka transaction may begin and end: no transaction of the log is in two of them. Pure.

A *cut* says for each partition up to which offset its records are sent. Order is kept in a partition, so what is sent
is always a beginning of it. A cut is whole if each unit, a transaction of the log or an entry that stands for itself,
lies before it in all of its partitions or after it in all of them. The last stable offset of one partition can hold
back part of a unit whose other partitions are free, and with it all that lies after it there: hence a fixpoint.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from spark_eos.protocol.state import PartitionKey

__all__ = ["Cut", "Part", "Unit", "chosen", "is_before", "most", "part_of", "records", "torn"]

Cut = Mapping[PartitionKey, int]
"""The offset up to which (exclusive) a partition is sent."""


class Part(NamedTuple):
    """The records of a unit in a partition: ``records`` of them lie from ``first`` on and before ``end``."""

    first: int
    end: int
    records: int


class Unit(NamedTuple):
    """What belongs together. ``seq`` is the entry that ended it, in which order units are sent if all else is equal."""

    seq: int
    parts: Mapping[PartitionKey, Part]


def most(start: Cut, stops: Cut, units: Sequence[Unit]) -> dict[PartitionKey, int]:
    """The greatest whole cut from ``start`` on that goes nowhere past ``stops``."""
    end = {key: max(stop, start[key]) for key, stop in stops.items()}
    lists = _Lists(units)
    waiting = [
        number
        for number, unit in enumerate(units)
        if any(part.end > end.get(key, part.end) for key, part in unit.parts.items())
    ]
    held = {*waiting}
    while waiting:
        for key, part in units[waiting.pop()].parts.items():
            # A unit of which a part is sent already was torn before: what is left of it begins here.
            first = max(part.first, start.get(key, 0))
            if first < end.get(key, 0):
                for number in lists.ending_after(key, first):
                    if number not in held:
                        held.add(number)
                        waiting.append(number)
                end[key] = first
    return end


def chosen(start: Cut, end: Cut, units: Sequence[Unit], wanted: int, limit: int) -> dict[PartitionKey, int]:
    """The cut of the next Kafka transaction: from ``start`` on, not past ``end``, which `most` has found.

    It has whole units, in the order in which they ended, until there are ``wanted`` records. What belongs together and
    has more than ``limit`` is torn: then the cut is a part of it, with ``limit`` records. Whole units that lie before
    that, and that ended later, go first.
    """
    lists = _Lists(units)
    cut = dict(start)
    taken: set[int] = set()
    count = 0
    order = sorted(range(len(units)), key=lambda number: units[number].seq)
    for number in order:
        if number in taken or not is_before(units[number], end) or is_before(units[number], cut):
            continue
        if count >= wanted:
            return cut
        group, grown = _closure(number, cut, units, lists, taken)
        more = sum(part_of(units[one], start) for one in group)
        if count and count + more > limit:
            return cut
        if more > limit:
            least, grown = _least(group, cut, units)
            return grown if least <= limit else _beginning(start, grown, limit)
        taken |= group
        cut, count = grown, count + more
    return dict(end)  # All of it, with what is no unit: control batches and aborted records.


def _closure(
    number: int, cut: Cut, units: Sequence[Unit], lists: _Lists, taken: set[int]
) -> tuple[set[int], dict[PartitionKey, int]]:
    """The unit with all that has to be sent before or with it, and the cut after them."""
    grown, group, waiting = dict(cut), {number}, [number]
    while waiting:
        for key, part in units[waiting.pop()].parts.items():
            before = grown.get(key)
            if before is None or part.end <= before:
                continue
            for other in lists.beginning_before(key, part.end):
                if other in taken or other in group or units[other].parts[key].end <= cut[key]:
                    continue
                group.add(other)
                waiting.append(other)
            grown[key] = part.end
    return group, grown


def _least(group: set[int], cut: Cut, units: Sequence[Unit]) -> tuple[int, dict[PartitionKey, int]]:
    """The smallest part of a group that can be sent by itself: how many records it has at most, and the cut after it.

    It has the first unit of some partition, since what is sent is a beginning of each.
    """
    firsts: dict[PartitionKey, tuple[int, int]] = {}
    for number in group:
        for key, part in units[number].parts.items():
            if part.end > cut.get(key, part.end):
                firsts[key] = min(firsts.get(key, (part.first, number)), (part.first, number))
    found = []
    for number in sorted({number for _, number in firsts.values()}):
        members, grown = _closure(number, cut, units, _Lists(units), set())
        found.append((sum(part_of(units[one], cut) for one in members), len(members), number, grown))
    size, _, _, grown = min(found, key=lambda one: one[:3])
    return size, grown


def _beginning(start: Cut, end: Cut, limit: int) -> dict[PartitionKey, int]:
    """A part of ``end`` with ``limit`` records at most; the first partitions come first."""
    cut = dict(start)
    for key in sorted(end):
        if end[key] <= start[key]:
            continue
        # Offsets are as many as records, or more: a part never has more than ``limit`` records.
        cut[key] = min(start[key] + limit, end[key])
        limit -= cut[key] - start[key]
        if limit <= 0:
            break
    return cut


def part_of(unit: Unit, cut: Cut) -> int:
    """How many records of the unit are after the cut, at most."""
    return sum(
        min(part.records, max(part.end - max(part.first, cut[key]), 0))
        for key, part in unit.parts.items()
        if key in cut
    )


def is_before(unit: Unit, cut: Cut) -> bool:
    """Whether all of the unit is sent."""
    return all(part.end <= cut.get(key, part.end) for key, part in unit.parts.items())


def torn(units: Iterable[Unit], cut: Cut) -> list[Unit]:
    """The units of which the cut has a part."""
    return [
        unit
        for unit in units
        if not is_before(unit, cut) and any(part.first < cut.get(key, 0) for key, part in unit.parts.items())
    ]


def records(units: Iterable[Unit], cut: Cut) -> int:
    """How many records of these units are not sent yet, at most."""
    return sum(part_of(unit, cut) for unit in units)


class _Lists:
    """The units of each partition by where they end, and by where they begin."""

    def __init__(self, units: Sequence[Unit]) -> None:
        ends: dict[PartitionKey, list[tuple[int, int]]] = {}
        firsts: dict[PartitionKey, list[tuple[int, int]]] = {}
        for number, unit in enumerate(units):
            for key, part in unit.parts.items():
                ends.setdefault(key, []).append((part.end, number))
                firsts.setdefault(key, []).append((part.first, number))
        self._ends = {key: sorted(found) for key, found in ends.items()}
        self._firsts = {key: sorted(found) for key, found in firsts.items()}

    def ending_after(self, key: PartitionKey, offset: int) -> list[int]:
        """Those with a part that ends after ``offset``; each is given once."""
        found = self._ends.get(key, [])
        at = bisect_left(found, (offset + 1, -1))
        self._ends[key], after = found[:at], found[at:]
        return [number for _, number in after]

    def beginning_before(self, key: PartitionKey, offset: int) -> list[int]:
        """Those with a part that begins before ``offset``; each is given once."""
        found = self._firsts.get(key, [])
        at = bisect_left(found, (offset, -1))
        before, self._firsts[key] = found[:at], found[at:]
        return [number for _, number in before]
