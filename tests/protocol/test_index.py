"""The index of a partition: shared, append-only, and immutable to whoever holds it."""

from __future__ import annotations

import pytest

from spark_eos.protocol.index import IndexRow, Kind, Rows
from spark_eos.protocol.types import NO_PRODUCER


def row(base, count=5):
    return IndexRow(base, count, Kind.DATA, NO_PRODUCER, 0)


@pytest.fixture
def index():
    return Rows([row(10), row(15), row(20, 1)])


@pytest.mark.parametrize(
    ("offset", "at"), [(0, 0), (10, 0), (14, 0), (15, 1), (19, 1), (20, 2), (21, 3), (99, 3)]
)
def test_find(index, offset, at):
    assert index.find(offset) == at
    assert index.since(offset)[:] == index[at:]


def test_find_in_nothing():
    assert Rows().find(3) == 0
    assert len(Rows().since(3)) == 0


def test_holes_belong_to_what_follows():
    assert Rows([row(0), row(10)]).find(7) == 1


def test_nobody_sees_what_another_appends(index):
    ours = index.append(row(21))
    theirs = index.append(row(21, 7))
    assert [len(index), len(ours), len(theirs)] == [3, 4, 4]
    assert (ours[3].count, theirs[3].count) == (5, 7)
    assert index.find(22) == 3
    assert len(index.since(0)) == 3
    further = [ours.append(row(26)), theirs.append(row(28)), index.append(row(21, 9))]
    assert [[r.count for r in each][3:] for each in further] == [[5, 5], [7, 5], [9]]
    assert list(index) == [row(10), row(15), row(20, 1)]


def test_as_a_sequence(index):
    longer = index.append(row(21))
    assert (index[-1], index[0], index[1:]) == (row(20, 1), row(10), [row(15), row(20, 1)])
    for at in (3, -4):
        with pytest.raises(IndexError):
            index[at]
    assert longer != index == Rows(list(index))
    assert hash(index) == hash(Rows(list(index)))
    assert index != list(index)
    assert repr(Rows()) == "Rows([])"
