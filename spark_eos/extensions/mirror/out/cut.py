"""Where a Kafka transaction may begin and end: no transaction of the log is in two of them. Pure.

Each cut is whole (`spark_eos.log.selection.whole_transactions`), or a part of what is too large for one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_eos.log.selection.whole_transactions import Cut, Lists, Unit, is_before, part_of
from spark_eos.protocol.state import PartitionKey


def next_cut(start: Cut, end: Cut, units: Sequence[Unit], target: int, limit: int) -> dict[PartitionKey, int]:
    """The cut of the next Kafka transaction: from ``start`` on, not past ``end``, which `most` has found.

    It has whole units, in the order in which they ended, until there are ``target`` records. What belongs together and
    has more than ``limit`` is torn: then the cut is a part of it, with ``limit`` records. Whole units that lie before
    that, and that ended later, go first.
    """
    lists = Lists(units)
    cut = dict(start)
    in_cut: set[int] = set()
    count = 0
    order = sorted(range(len(units)), key=lambda number: units[number].seq)
    for number in order:
        if number in in_cut or not is_before(units[number], end) or is_before(units[number], cut):
            continue
        if count >= target:
            return cut
        group, grown = _closure(number, cut, units, lists, in_cut)
        more = sum(part_of(units[member], start) for member in group)
        if count and count + more > limit:
            return cut
        if more > limit:
            least, grown = _least(group, cut, units)
            return grown if least <= limit else _beginning(start, grown, limit)
        in_cut |= group
        cut, count = grown, count + more
    return dict(end)  # All of it, with what is no unit: control batches and aborted records.


def _closure(
    number: int, cut: Cut, units: Sequence[Unit], lists: Lists, in_cut: set[int]
) -> tuple[set[int], dict[PartitionKey, int]]:
    """The unit with all that has to be sent before or with it, and the cut after them."""
    grown, group, waiting = dict(cut), {number}, [number]
    while waiting:
        for key, part in units[waiting.pop()].parts.items():
            before = grown.get(key)
            if before is None or part.end <= before:
                continue
            for candidate in lists.beginning_before(key, part.end):
                if candidate in in_cut or candidate in group or units[candidate].parts[key].end <= cut[key]:
                    continue
                group.add(candidate)
                waiting.append(candidate)
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
    candidates = []
    for number in sorted({number for _, number in firsts.values()}):
        members, grown = _closure(number, cut, units, Lists(units), set())
        candidates.append(
            (sum(part_of(units[member], cut) for member in members), len(members), number, grown)
        )
    size, _, _, grown = min(candidates, key=lambda candidate: candidate[:3])
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
