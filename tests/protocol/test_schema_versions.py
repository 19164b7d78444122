"""Which version of a topic's schema may follow which: rows of each are readable under all later ones."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from spark_eos.errors import InvalidRequestError
from spark_eos.protocol.actions import AlterTopic
from spark_eos.protocol.arrow_fields import fields_of, named_fields
from spark_eos.protocol.arrow_schema import FIELD_TYPE, MAP, SCHEMA_FIELDS, schema_table
from spark_eos.protocol.flatbuffer import Table
from spark_eos.protocol.schema_versions import check_follows, differences, highest_id
from spark_eos.protocol.widening import widens, widens_by_itself
from tests.protocol.schemas import field, numbered

INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()
SHOP = pa.struct([field("zip", INT, 4), field("city", TEXT, 5)])
FIRST = pa.schema(
    [
        pa.field("id", LONG, nullable=False),
        ("n", INT),
        ("shop", pa.struct([("zip", INT), ("city", TEXT)])),
        ("seen", pa.list_(pa.struct([("x", INT)]))),
        ("by", pa.map_(pa.struct([("k", INT)]), INT)),
    ]
)
STORED = FIRST.serialize().to_pybytes()
ID, N, WHERE = field("id", LONG, 1, nullable=False), field("n", INT, 2), field("shop", SHOP, 3)
SEEN = field("seen", pa.list_(pa.struct([field("x", INT, 7)])), 6)
BY = field("by", pa.map_(pa.struct([field("k", INT, 9)]), INT), 8)


@pytest.fixture
def topic(log):
    """A log, and what tries a version of its topic's schema: the fields of version 2, or bytes."""
    log.topic("typed", schema=STORED)

    def become(*fields, version=2):
        schema = fields[0] if isinstance(fields[0], bytes) else numbered(version, *fields)
        log.do(AlterTopic("typed", "typed-id", schema=schema))
        return log.state.topics["typed"].schemas

    return become


def test_places_are_ids_until_a_schema_has_ids():
    found = fields_of(STORED)
    assert found.number is None
    assert [(one.name, one.field_id) for one in named_fields(found.fields)] == [
        *(("id", 1), ("n", 2), ("shop", 3), ("zip", 4), ("city", 5)),
        *(("seen", 6), ("x", 7), ("by", 8), ("k", 9)),
    ]
    wider = FIRST.append(pa.field("new", TEXT)).serialize().to_pybytes()
    assert fields_of(wider).fields[:5] == found.fields  # A column at the end changes no other's place.


def test_types_are_spelled_as_arrow_does():
    types = [
        *(pa.bool_(), pa.int8(), pa.int16(), INT, LONG, pa.uint16(), pa.float32(), pa.float64(), TEXT),
        *(pa.binary(), pa.date32(), pa.decimal128(9, 2), pa.time64("ns"), pa.duration("us")),
        *(pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("s"), pa.time32("ms"), pa.float16()),
    ]
    data = pa.schema([(f"c{n}", type_) for n, type_ in enumerate(types)]).serialize().to_pybytes()
    assert [one.type for one in fields_of(data).fields] == [*map(str, types)]


def test_what_a_schema_may_become(topic):
    topic(
        field("article", TEXT, 10),  # new, and in front
        field("id", LONG, 1),  # may be null now
        field("number", LONG, 2),  # renamed and wider
        field("shop", pa.struct([field("town", TEXT, 5), field("street", TEXT, 11)]), 3),
        field("seen", pa.list_(pa.struct([field("x", LONG, 7)])), 6),
        field("by", pa.map_(pa.struct([field("k", INT, 9)]), pa.float64()), 8),
    )
    third = topic(field("n", TEXT, 12), field("number", pa.decimal128(22, 2), 2), version=3)[-1]
    assert len(topic(numbered(4, field("number", pa.decimal128(22, 2), 2)))) == 4
    assert highest_id([STORED, third]) == 12


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ([field("id", INT, 1), N], "column 'id' is int64 and cannot become int32"),
        ([field("id", TEXT, 1)], "column 'id' is int64 and cannot become string"),
        ([field("n", INT, 2, nullable=False)], "column 'n' may be null"),
        ([field("new", INT, 9)], "column 'new' is new here, and has the id 9, which another field had"),
        ([field("new", INT, 4)], "column 'new' is new here, and has the id 4"),
        ([field("new", pa.struct([field("zip", INT, 4)]), 10)], "column 'new' is new here, and has the id 4"),
        ([field("new", INT, 10, nullable=False)], "column 'new' is new and not nullable"),
        ([N, field("m", INT, 2)], "two fields in it have the id 2"),
        ([N, field("m", pa.struct([field("x", INT, 2)]), 10)], "two fields in it have the id 2"),
        ([field("m", INT)], "a field without an id"),
        ([field("m", pa.struct([field("x", INT)]), 10)], "a field without an id"),
        ([field("shop", INT, 3)], "column 'shop' is struct and cannot become int32"),
        ([field("shop", pa.struct([field("a", INT, 4), field("a", TEXT, 5)]), 3)], "two fields of 'shop'"),
        ([field("shop", pa.struct([field("zip", TEXT, 4)]), 3)], "column 'shop.zip' is int32"),
        ([field("seen", pa.list_(INT), 6)], "column 'seen.element' is struct and cannot become int32"),
        ([field("by", pa.map_(pa.struct([field("k", LONG, 9)]), INT), 8)], "the type of its keys"),
        ([field("by", pa.map_(pa.struct([field("k", INT, 9)]), TEXT), 8)], "column 'by.value' is int32"),
    ],
)
def test_what_a_schema_may_not_become(topic, fields, told):
    with pytest.raises(InvalidRequestError, match=f"cannot become this one: .*{told}|{told}"):
        topic(*fields)


@pytest.mark.parametrize("version", [None, 1, 3])
def test_of_two_changes_at_once_the_second_is_refused(topic, version):
    with pytest.raises(InvalidRequestError, match="version 2 is the next one: the schema was changed"):
        topic(ID, N, WHERE, SEEN, BY, version=version)


def test_a_dropped_column_does_not_come_back(topic):
    topic(ID, WHERE, SEEN, BY)
    with pytest.raises(InvalidRequestError, match="'n' is new here, and has the id 2"):
        topic(ID, N, WHERE, SEEN, BY, version=3)
    topic(ID, field("n", INT, 10), WHERE, SEEN, BY, version=3)
    with pytest.raises(InvalidRequestError, match=r"'shop\.new' is new here, and has the id 10"):
        topic(ID, field("shop", pa.struct([field("new", INT, 10)]), 3), version=4)


def test_the_id_of_the_last_column_is_not_used_again(topic):
    topic(ID, N)
    with pytest.raises(InvalidRequestError, match="'new' is new here, and has the id 9"):
        topic(ID, N, field("new", INT, 9), version=3)
    topic(ID, N, field("new", INT, 10), version=3)


def test_numbers_that_are_no_ids():
    for text in (b"0", b"-1", b"1.5", b"9999999999", "٣".encode()):
        data = pa.schema([pa.field("a", INT, metadata={b"field.id": text})], {b"schema.version": b"2"})
        with pytest.raises(ValueError, match=r"its field\.id is"):
            fields_of(data.serialize().to_pybytes())
    many = {f"k{n}".encode(): b"" for n in range(101)}
    with pytest.raises(ValueError, match="more than 100"):
        fields_of(pa.schema([pa.field("a", INT, metadata=many)]).serialize().to_pybytes())


WIDENINGS = {
    "int8": {
        "int16",
        "int32",
        "int64",
        "double",
        "decimal128(10, 0)",
        "decimal128(12, 2)",
        "decimal128(20, 0)",
    },
    "int16": {"int32", "int64", "double", "decimal128(10, 0)", "decimal128(12, 2)", "decimal128(20, 0)"},
    "int32": {"int64", "double", "decimal128(10, 0)", "decimal128(12, 2)", "decimal128(20, 0)"},
    "int64": {"decimal128(20, 0)"},
    "float": {"double"},
    "double": set(),
    "decimal128(10, 0)": {"decimal128(12, 2)", "decimal128(20, 0)"},
    "decimal128(11, 2)": {"decimal128(12, 2)"},
    "decimal128(12, 2)": set(),
    "decimal128(20, 0)": set(),
    "date32[day]": {"timestamp[us]"},
    "timestamp[us]": set(),
    "timestamp[us, tz=UTC]": set(),
    "string": set(),
    "binary": set(),
    "bool": set(),
}
"""Delta's table (PROTOCOL.md, type widening), over all pairs of these types."""


def test_widenings():
    found = {one: {other for other in WIDENINGS if widens(one, other)} for one in WIDENINGS}
    assert found == WIDENINGS
    assert widens_by_itself("int32", "int64")
    assert widens_by_itself("float", "double")
    assert widens_by_itself("decimal128(10, 0)", "decimal128(12, 2)")
    assert widens_by_itself("date32[day]", "timestamp[us]")
    assert not widens_by_itself("int32", "double")
    assert not widens_by_itself("int8", "decimal128(10, 0)")
    assert not widens("int32", "decimal128(8, -2)")


def test_what_changed():
    second = numbered(
        2,
        field("id", LONG, 1),
        field("shop", pa.struct([field("town", TEXT, 5), field("zip", LONG, 4)]), 3),
        field("seen", pa.list_(pa.struct([field("x", INT, 7), field("y", INT, 11)])), 6),
        field("by", pa.map_(pa.struct([field("k", INT, 9)]), LONG), 8),
        field("article", TEXT, 10),
    )
    check_follows([STORED], second)
    assert differences(fields_of(STORED).fields, fields_of(second).fields) == [
        "column 'id' may be null now",
        "column 'n' was dropped",
        "column 'shop.zip' was widened from int32 to int64",
        "column 'shop.city' was renamed to 'town'",
        "column 'seen.element.y' (int32) was added",
        "column 'by.value' was widened from int32 to int64",
        "column 'article' (string) was added",
    ]


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_a_map_has_a_key_and_a_value(parts):
    """A list of structs is stored as a map is, but for one byte."""
    inner = pa.struct([(f"f{number}", INT) for number in range(parts)])
    data = pa.schema([("m", pa.list_(inner))]).serialize().to_pybytes()
    (column,) = schema_table(data).vector(SCHEMA_FIELDS, 1)
    place = Table(data, column)._at(FIELD_TYPE)
    data = data[:place] + bytes([MAP]) + data[place + 1 :]
    if parts == 2:
        assert [field.type for field in fields_of(data).fields] == ["map"]
    else:
        with pytest.raises(ValueError, match="a map without a key and a value"):
            fields_of(data)


def test_a_text_that_ends_too_early():
    vtable, table = struct.pack("<HHHH", 6, 8, 4, 0), struct.pack("<iI", 8, 4)
    data = vtable + table + struct.pack("<I", 5) + b"hello"
    assert Table(data, len(vtable)).text(0) == "hello"
    for end in range(len(data) - 5, len(data)):
        with pytest.raises(ValueError, match="it ends too early"):
            Table(data[:end], len(vtable)).text(0)
