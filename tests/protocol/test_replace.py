"""`replace` does what `NamedTuple._replace` does."""

from __future__ import annotations

import pytest

from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import EMPTY, Group, Member, Partition, Producer, Query, State, Topic

VALUES = [
    EMPTY,
    Partition(),
    Producer(7, 3, "a"),
    Group(),
    Member("m", ("t",), ("range",), 1),
    Topic("t", "id", 1, EMPTY.config, ()),
    Query("q", 1, ()),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_as_the_library(value):
    for name in value._fields:
        change = {name: object()}
        assert replace(value, **change) == value._replace(**change)
    assert replace(value) == value
    assert replace(value) is not value


def test_the_old_value_stays():
    new = replace(EMPTY, seq=5)
    assert (new.seq, EMPTY.seq) == (5, -1)
    assert isinstance(new, State)
    with pytest.raises(AttributeError):
        new.seq = 6


def test_a_field_that_is_not_there():
    for value in (EMPTY, Partition()):
        with pytest.raises(TypeError, match=f"{type(value).__name__} has no field 'sequence'"):
            replace(value, sequence=5)
