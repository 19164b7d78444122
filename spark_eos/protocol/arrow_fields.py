"""The fields of an Arrow schema message as a tree, read without Arrow: names, types, and the ids that follow a field.

A field is a column, or a field of a struct. Its id stays when it is renamed and is never used again when it is dropped,
so rows that were written under one version of a schema are read under another one by ids. A version that no program has
changed beyond adding columns has no ids in it: there each field has the number of its place, counted from 1, a column
before the fields inside of it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from spark_eos.protocol.arrow_schema import (
    FIELD_CHILDREN,
    FIELD_NAME,
    FIELD_TYPE,
    LIST,
    MAP,
    MAX_SCHEMA_DEPTH,
    MAX_SCHEMA_FIELDS,
    SCHEMA_FIELDS,
    STRUCT,
    schema_table,
    shape_of,
)
from spark_eos.protocol.flatbuffer import Table

FIELD_ID = b"field.id"
"""The key, in the metadata of a field of Arrow, of its id as a decimal number."""

SCHEMA_VERSION = b"schema.version"
"""The key, in the metadata of the schema, of its number among the topic's schemas, from 1."""

_MOST_METADATA = 100
_NULLABLE, _TYPE, _METADATA = 1, 3, 6
_SCHEMA_METADATA = 2
_KEY, _VALUE = 0, 1
_ID = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_UNITS = ("s", "ms", "us", "ns")
_FLOATS = ("halffloat", "float", "double")


class SchemaField(NamedTuple):
    """A column, a field of a struct, or the inside of a list or a map (which has the id 0).

    ``type`` is as Arrow writes it (``int32``, ``decimal128(10, 2)``, ``timestamp[us]``), or ``list``, ``struct``,
    ``map``. A list has its element as the only child, a map its key and its value.
    """

    name: str
    field_id: int
    type: str
    nullable: bool
    children: tuple[SchemaField, ...] = ()


class SchemaVersion(NamedTuple):
    """What a schema message says. ``number`` is None if it says no number: then it has no ids either."""

    number: int | None
    fields: tuple[SchemaField, ...]


@lru_cache(maxsize=64)
def fields_of(data: bytes) -> SchemaVersion:
    """The fields of an encapsulated schema message. Raises `ValueError` for anything else, as `shape_of` does."""
    if max(shape_of(data).depths, default=0) > MAX_SCHEMA_DEPTH:
        raise ValueError(f"it is nested more than {MAX_SCHEMA_DEPTH} levels deep")
    try:
        schema = schema_table(data)
        number = _number_in(schema, _SCHEMA_METADATA, SCHEMA_VERSION)
        places = schema.vector(SCHEMA_FIELDS, MAX_SCHEMA_FIELDS)
        fields = tuple(_field(data, place, is_named=True) for place in places)
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"it is damaged: {error}") from None
    if number is None:
        ids = iter(range(1, MAX_SCHEMA_FIELDS + 1))
        fields = tuple(_numbered(field, ids, is_named=True) for field in fields)
    elif any(not field.field_id for field in named_fields(fields)):
        raise ValueError("it has a field without an id")
    return SchemaVersion(number, fields)


def named_fields(fields: tuple[SchemaField, ...], *, inside: bool = False) -> Iterator[SchemaField]:
    """The columns and the fields of structs, however deep; those ``inside`` of a list or a map have no id."""
    for field in fields:
        if not inside:
            yield field
        yield from named_fields(field.children, inside=field.type != "struct")


def _field(data: bytes, place: int, *, is_named: bool) -> SchemaField:
    table = Table(data, place)
    kind = table.byte(FIELD_TYPE)
    places = table.vector(FIELD_CHILDREN, MAX_SCHEMA_FIELDS)
    if kind == MAP:  # It is stored as a list of structs.
        places = Table(data, places[0]).vector(FIELD_CHILDREN, MAX_SCHEMA_FIELDS)
        if len(places) != 2:
            raise ValueError("it has a map without a key and a value")
    name = table.text(FIELD_NAME)
    field_id = _number_in(table, _METADATA, FIELD_ID) if is_named else None
    children = tuple(_field(data, inner, is_named=kind == STRUCT) for inner in places)
    nullable = bool(table.byte(_NULLABLE))
    return SchemaField(name, field_id or 0, _type(kind, table), nullable, children)


def _type(kind: int, field: Table) -> str:
    if kind in {LIST, STRUCT, MAP}:
        return {LIST: "list", STRUCT: "struct", MAP: "map"}[kind]
    place = field.reference(_TYPE)
    if place is None:
        raise ValueError("it has a field without a type")
    type_ = Table(field.data, place)
    if kind == 2:
        return f"{'' if type_.byte(1) else 'u'}int{type_.number(0, '<i', 0)}"
    if kind == 3:
        return _one_of(_FLOATS, type_.number(0, "<h", 0))
    if kind == 7:
        return f"decimal{type_.number(2, '<i', 128)}({type_.number(0, '<i', 0)}, {type_.number(1, '<i', 0)})"
    if kind == 8:
        return "date64[ms]" if type_.number(0, "<h", 1) else "date32[day]"
    if kind == 9:
        return f"time{type_.number(1, '<i', 32)}[{_one_of(_UNITS, type_.number(0, '<h', 1))}]"
    if kind == 10:
        zone = type_.text(1)
        return f"timestamp[{_one_of(_UNITS, type_.number(0, '<h', 0))}{zone and f', tz={zone}'}]"
    if kind == 18:
        return f"duration[{_one_of(_UNITS, type_.number(0, '<h', 1))}]"
    return {4: "binary", 5: "string", 6: "bool"}[kind]


def _one_of(names: tuple[str, ...], number: int) -> str:
    if not 0 <= number < len(names):
        raise ValueError(f"it has a type with the parameter {number}, which Arrow does not have")
    return names[number]


def _number_in(table: Table, field: int, key: bytes) -> int | None:
    """A number in a table's metadata; None if it has none of that key."""
    for place in table.vector(field, _MOST_METADATA):
        pair = Table(table.data, place)
        if pair.text(_KEY) == key.decode():
            text = pair.text(_VALUE)
            if not _ID.fullmatch(text):
                raise ValueError(f"its {key.decode()} is {text[:20]!r}, and no number from 1 to 999999999")
            return int(text)
    return None


def _numbered(field: SchemaField, numbers: Iterator[int], *, is_named: bool) -> SchemaField:
    field_id = next(numbers) if is_named else 0
    children = tuple(_numbered(child, numbers, is_named=field.type == "struct") for child in field.children)
    return field._replace(field_id=field_id, children=children)
