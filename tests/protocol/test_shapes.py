"""What is stored of a value follows from its shape: the schema of each version, what is written, what is read."""

from __future__ import annotations

from io import BytesIO
from typing import NamedTuple

import pytest
from fastavro import schemaless_reader, schemaless_writer
from immutables import Map

from spark_eos.errors import CorruptRecordError
from spark_eos.protocol.encoding import snapshots
from spark_eos.protocol.encoding.avro import (
    STRING,
    array_of,
    converted,
    keyed_by,
    map_of,
    optional_of,
    parsed,
    record_of,
    since,
    versions,
)
from spark_eos.protocol.encoding.snapshot_partitions import partition_columns, read_partitions
from spark_eos.protocol.encoding.snapshot_publications import Pins, Publications, _read_columns, resolved
from spark_eos.protocol.encoding.values import CONFIG, NUMBERS
from spark_eos.protocol.index import Index, IndexRow, Kind, Rows
from spark_eos.protocol.publication import Pin, Publication, PublicationVersion
from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import EMPTY, CommittedOffset, Partition, State
from spark_eos.protocol.types import NO_PRODUCER


class Inner(NamedTuple):
    """``late`` came with version 3."""

    name: str
    late: tuple[str, ...] = ("none",)


class Outer(NamedTuple):
    """``other`` came with version 2. ``derived`` is not stored."""

    by_name: Map[str, Inner]
    by_key: Map[tuple[str, int], Inner]
    by_one: Map[str, Inner]
    maybe: Inner | None = None
    other: str = "nothing"
    derived: int = 0


INNER = record_of(Inner, name=STRING, late=since(3, array_of(STRING)))
OUTER = record_of(
    Outer,
    by_name=keyed_by("name", INNER),
    by_key=map_of(INNER, topic="string", number="long"),
    by_one=map_of(INNER, key="string"),
    maybe=optional_of(INNER),
    other=since(2, converted(STRING, str.upper, str.lower)),
)
ONE, TWO = Inner("one", ("x", "y")), Inner("two", ())
VALUE = Outer(
    *(Map({"two": TWO, "one": ONE}), Map({("t", 1): TWO, ("t", 0): ONE}), Map({"a": TWO})),
    *(ONE, "something", 7),
)


def stored(shape, value, version):
    """What is read of the value after that version has written it."""
    schema = [*parsed(versions(shape).values()).values()][[*versions(shape)].index(version)]
    stream = BytesIO()
    schemaless_writer(stream, schema, shape.write(value))
    stream.seek(0)
    return shape.read(schemaless_reader(stream, schema, None))


def test_a_value_makes_the_round_trip():
    assert stored(OUTER, VALUE, 3) == VALUE._replace(derived=0)
    empty = Outer(Map(), Map(), Map())
    assert stored(OUTER, empty, 3) == empty


def test_maps_are_written_in_the_order_of_their_keys():
    written = OUTER.write(VALUE)
    assert [one["name"] for one in written["by_name"]] == ["one", "two"]
    assert [(one["topic"], one["number"]) for one in written["by_key"]] == [("t", 0), ("t", 1)]


PARTITIONS = [("t", 1), ("s", 0), ("t", 0)]
NAMES = ["b", "c", "a"]


@pytest.mark.parametrize(
    ("write", "keys", "value"),
    [
        (snapshots._windows, PARTITIONS, (1, 2)),
        (snapshots._group_offsets, PARTITIONS, CommittedOffset("id", 1, "", 0, 0)),
        (snapshots._sorted, PARTITIONS, True),
        (map_of(INNER, topic="string", number="long").write, PARTITIONS, Inner("one")),
        (map_of(INNER, key="string").write, NAMES, Inner("one")),
        (CONFIG.write, NAMES, "1"),
        (NUMBERS.write, NAMES, 1),
    ],
)
def test_the_same_map_is_stored_as_the_same_bytes_in_every_process(write, keys, value):
    """A map has its keys in another order in each of them."""
    assert write(dict.fromkeys(keys, value)) == write(dict.fromkeys(sorted(keys), value))


def test_producers_are_stored_in_the_order_of_their_ids():
    partition = Partition(0, 9, open={33: 4, 1: 2}, aborted={(33, 0): True, (1, 0): True})
    state = replace(EMPTY, open_transactions={33: True, 1: True}, partitions={("t", 0): partition})
    written = snapshots.SNAPSHOT.write(state)
    assert written["open_transactions"] == [1, 33]
    (other,) = written["partitions"]["others"]
    assert (other["open"], other["aborted"]) == ([(1, 2), (33, 4)], [(1, 0), (33, 0)])


def test_what_belongs_to_no_partition_is_damage():
    run = {"topic_id": "t", "first": 0, "count": 1}
    rows = Rows().append(IndexRow(0, 1, Kind.HOLE, NO_PRODUCER, -1))
    columns = partition_columns({("t", 0): Partition(0, 1, Index((), rows))})
    assert read_partitions(columns)["t", 0].end == 1
    with pytest.raises(CorruptRecordError, match="rows that belong to no partition"):
        read_partitions(columns._replace(body=columns.body + b"1"))
    with pytest.raises(CorruptRecordError, match="sequence numbers that belong to no partition"):
        snapshots._read_windows({"runs": [run], "counts": [1], "numbers": [1, 2]})
    with pytest.raises(CorruptRecordError, match="pinned pages that belong to no partition"):
        _read_columns(Pins([run], [0], [1], [1], [0, 1]))
    pins = Map({("t", 0): Pin(0, 1, (-1,))})
    published = PublicationVersion(1, 1, 1, 1, 1, Map(), pins)
    publications = Map({"p": Publication("p", "delta", Map(), (), published=published)})
    with pytest.raises(CorruptRecordError, match="pins no page"):
        resolved(Publications(publications, Map()), {("t", 0): Partition(0, 1)})


def test_what_came_later_has_its_default_in_what_an_older_version_wrote():
    assert [*versions(OUTER)] == [1, 2, 3]
    late = ("none",)
    older = VALUE._replace(
        by_name=Map({"two": Inner("two", late), "one": Inner("one", late)}),
        by_key=Map({("t", 0): Inner("one", late), ("t", 1): Inner("two", late)}),
        by_one=Map({"a": Inner("two", late)}),
        maybe=Inner("one", late),
        derived=0,
    )
    assert stored(OUTER, VALUE, 2) == older
    assert stored(OUTER, VALUE, 1) == older._replace(other="nothing")


def test_a_version_that_brings_nothing_makes_no_schema():
    assert [*versions(record_of(Inner, name=STRING, late=since(5, array_of(STRING))))] == [1, 5]


def test_a_name_is_of_one_schema():
    """Readers would take the second one for the first."""
    shape = record_of(Inner, name=record_of(Inner, name=STRING))
    with pytest.raises(ValueError, match="two schemas have the name Inner"):
        versions(shape)


def test_all_of_the_state_is_in_a_snapshot():
    (schema,) = snapshots.written().values()
    assert {field["name"] for field in schema["fields"]} == {*State._fields}
