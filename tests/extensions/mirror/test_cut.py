"""Cuts through a log: whole transactions, as many as fit, by properties that are checked against all possible cuts."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from spark_eos.extensions.mirror.out.covered import Covered
from spark_eos.extensions.mirror.out.cut import next_cut
from spark_eos.log.selection.whole_transactions import Part, Unit, is_before, most, records, torn

A, B, C = ("id", 0), ("id", 1), ("other", 0)


@st.composite
def logs(draw):
    """Units that are interleaved in up to three partitions, where each of them is stable, and what was sent before."""
    keys = [A, B, C][: draw(st.integers(1, 3))]
    rows = {key: draw(st.lists(st.integers(0, 4), max_size=7)) for key in keys}
    units = []
    for number in range(5):
        parts = {}
        for key, owners in rows.items():
            own = [at for at, owner in enumerate(owners) if owner == number]
            if own:
                parts[key] = Part(own[0], own[-1] + 1, len(own))
        if parts:
            units.append(Unit(draw(st.integers(0, 9)), parts))
    stops = {key: draw(st.integers(0, len(owners) + 1)) for key, owners in rows.items()}
    return units, dict.fromkeys(keys, 0), stops


def is_whole(units, cut):
    return all(
        is_before(unit, cut) or all(part.first >= cut[key] for key, part in unit.parts.items())
        for unit in units
    )


def cuts(start, stops):
    """All there are, whole or not."""
    keys = [*start]
    for ends in product(*(range(start[key], max(stops[key], start[key]) + 1) for key in keys)):
        yield dict(zip(keys, ends, strict=True))


def sent(units, at, cut):
    """How many records there are between two cuts, at most."""
    return records(units, at) - records(units, cut)


def least_with(unit, units, start, end):
    """The least whole cut that has the unit. Of two whole cuts, the lesser offsets of each partition are one, too."""
    found = end
    for other in cuts(start, end):
        if is_whole(units, other) and is_before(unit, other):
            found = {key: min(found[key], other[key]) for key in found}
    return found


@given(logs())
def test_the_greatest_whole_cut(log):
    units, start, stops = log
    found = most(start, stops, units)
    assert is_whole(units, found)
    assert all(start[key] <= found[key] <= max(stops[key], start[key]) for key in start)
    for other in cuts(start, stops):
        if is_whole(units, other):
            assert all(other[key] <= found[key] for key in other)


@given(logs(), st.integers(1, 8), st.integers(1, 20))
def test_transactions_of_kafka_have_whole_ones_of_the_log(log, wanted, limit):
    units, start, stops = log
    end = most(start, stops, units)
    at, seen = start, []
    while True:
        cut = next_cut(at, end, units, wanted, limit)
        assert all(at[key] <= cut[key] <= end[key] for key in at)
        if cut == at:
            break
        # There are no more records than offsets; of a part of a unit no more is known.
        offsets = sum(cut[key] - at[key] for key in at)
        assert (offsets if torn(units, cut) else min(offsets, sent(units, at, cut))) <= limit
        if torn(units, cut) and not torn(units, at):
            # The least that belongs together with what is torn is too large for one.
            assert not is_whole(units, cut)
            for unit in torn(units, cut):
                for other in cuts(at, least_with(unit, units, at, end)):
                    assert not is_whole(units, other) or sent(units, at, other) in {0, *range(limit + 1, 100)}
        seen.append(cut)
        at = cut
    assert at == end, "all of it is sent in the end"


def test_a_transaction_waits_for_its_other_partition():
    """An open transaction holds back one partition: what is there of the unit waits, and all that lies after it."""
    first = Unit(1, {A: Part(0, 2, 2), B: Part(5, 6, 1)})
    later = Unit(2, {A: Part(2, 3, 1)})
    before = Unit(0, {B: Part(0, 3, 3)})
    units = [before, first, later]
    assert most({A: 0, B: 0}, {A: 3, B: 4}, units) == {A: 0, B: 4}
    assert most({A: 0, B: 0}, {A: 3, B: 6}, units) == {A: 3, B: 6}


def test_it_holds_back_others_in_turn():
    one = Unit(1, {A: Part(0, 1, 1), B: Part(3, 4, 1)})
    two = Unit(2, {B: Part(4, 5, 1), C: Part(0, 1, 1)})
    three = Unit(3, {C: Part(1, 2, 1)})
    assert most({A: 0, B: 0, C: 0}, {A: 0, B: 5, C: 2}, [one, two, three]) == {A: 0, B: 3, C: 0}


def test_small_ones_go_together_and_one_that_is_too_large_is_torn():
    units = [Unit(number, {A: Part(number * 10, number * 10 + 10, 10)}) for number in range(4)]
    end = {A: 41}
    assert next_cut({A: 0}, end, units, 15, 100) == {A: 20}
    assert next_cut({A: 0}, end, units, 100, 30) == {A: 30}
    assert next_cut({A: 30}, end, units, 15, 100) == {A: 41}, "with the control batch after it"
    assert next_cut({A: 0}, end, units, 15, 4) == {A: 4}
    assert torn(units, {A: 4}) == units[:1]
    assert next_cut({A: 4}, end, units, 15, 6) == {A: 10}
    assert torn(units, {A: 10}) == []


def test_what_lies_before_and_ended_later_goes_first():
    """A long transaction began before a short one, and ended after it. Both are within the limit, and not together."""
    long, short = Unit(9, {A: Part(0, 3, 3)}), Unit(1, {A: Part(3, 5, 2)})
    assert next_cut({A: 0}, {A: 6}, [short, long], 100, 4) == {A: 3}
    assert next_cut({A: 3}, {A: 6}, [short], 100, 4) == {A: 6}


def test_what_lies_between_goes_along():
    outer = Unit(9, {A: Part(0, 10, 2)})
    inner = Unit(1, {A: Part(3, 4, 1), B: Part(0, 1, 1)})
    assert next_cut({A: 0, B: 0}, {A: 10, B: 1}, [inner, outer], 1, 100) == {A: 10, B: 1}


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5))), st.integers(0, 20), st.integers(0, 20))
def test_ranges_that_are_not_sent(ranges, first, length):
    taken, found = set(), []
    for begin, size in sorted(ranges):
        if begin not in taken and not {*range(begin, begin + size)} & taken:
            found.append((begin, begin + size))
            taken |= {*range(begin, begin + size)}
    covered = Covered({A: found})
    wanted = {*range(first, first + length)}
    rest = [offset for low, high in covered.rest(A, first, first + length) for offset in range(low, high)]
    assert rest == sorted(wanted - taken)
    assert covered.count(A, first, first + length) == len(wanted & taken)
    assert [*covered.rest(B, 0, 3)] == [(0, 3)]
