"""The shape of an Arrow schema message, read without Arrow: its columns, their depth, the number of fields.

The rules judge schemas by this. What they come to must be the same for every reader of an entry, so it must not depend
on the version of a library. Any bytes are either a shape or a `ValueError`, in time that grows with their
number. The message is a flatbuffer (github.com/apache/arrow: format/Message.fbs and Schema.fbs).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from spark_eos.protocol.flatbuffer import Table, uint32

MAX_SCHEMA_DEPTH = 63
"""Levels of a column: 1 for a number, 2 for a struct or a list of numbers, 3 for a map (it is a list of structs).

Arrow's files carry 64 levels, and Spark puts all columns into one struct when it hands them over.
"""

MAX_SCHEMA_FIELDS = 10_000
"""Fields of all levels together."""

MAX_SCHEMA_BYTES = 4 * 1024 * 1024
"""Length of the message. Every version of a topic's schema is in each snapshot, for as long as the topic is there."""

_SCHEMA_MESSAGE = 1
_MESSAGE_HEADER_TYPE, _MESSAGE_HEADER = 1, 2
SCHEMA_FIELDS = 1
FIELD_NAME, FIELD_TYPE, _FIELD_DICTIONARY, FIELD_CHILDREN = 0, 2, 4, 5

LIST, STRUCT, MAP = 12, 13, 17
_LEAVES = frozenset({2, 3, 4, 5, 6, 7, 8, 9, 10, 18})
"""Int, FloatingPoint, Binary, Utf8, Bool, Decimal, Date, Time, Timestamp, Duration: one spelling of each type."""


class Shape(NamedTuple):
    """What a schema has: the names of its columns, the levels of each, and all fields of all levels."""

    columns: tuple[str, ...]
    depths: tuple[int, ...]
    fields: int


def shape_of(data: bytes) -> Shape:
    """The shape of an encapsulated schema message. Raises `ValueError` for anything else.

    No more than `MAX_SCHEMA_FIELDS` fields are looked at: a few bytes can refer to one another many times.
    """
    try:
        return _shape(data)
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"it is damaged: {error}") from None


def schema_table(data: bytes) -> Table:
    """The table of the schema in an encapsulated message. Raises `ValueError` or ``struct.error`` for anything else."""
    start = 8 if data[:4] == b"\xff\xff\xff\xff" else 4
    message = Table(data, start + uint32(data, start))
    if message.byte(_MESSAGE_HEADER_TYPE) != _SCHEMA_MESSAGE:
        raise ValueError("it is no schema message")
    header = message.reference(_MESSAGE_HEADER)
    if header is None:
        raise ValueError("it is a message without a schema")
    return Table(data, header)


def _shape(data: bytes) -> Shape:
    columns = schema_table(data).vector(SCHEMA_FIELDS, MAX_SCHEMA_FIELDS)
    names, depths, field_count = [], [], 0
    for column in columns:
        name = Table(data, column).text(FIELD_NAME)
        deepest, waiting = 0, [(column, 1)]
        field_count += 1
        while waiting:
            place, level = waiting.pop()
            deepest = max(deepest, level)
            children = _children(Table(data, place), name)
            field_count += len(children)
            if field_count > MAX_SCHEMA_FIELDS:  # Before they wait: many fields can refer to the same ones.
                raise ValueError(f"it has more than {MAX_SCHEMA_FIELDS} fields")
            waiting += [(child, level + 1) for child in children]
        names.append(name)
        depths.append(deepest)
    return Shape(tuple(names), tuple(depths), field_count)


def _children(field: Table, column: str) -> list[int]:
    """Where the fields inside of a field are. Raises `ValueError` for a field that no topic has."""
    kind, children = field.byte(FIELD_TYPE), field.vector(FIELD_CHILDREN, MAX_SCHEMA_FIELDS)
    field.text(FIELD_NAME)
    fits = (
        (kind in _LEAVES and not children) or (kind in {LIST, MAP} and len(children) == 1) or kind == STRUCT
    )
    if not fits or field.reference(_FIELD_DICTIONARY) is not None:
        raise ValueError(
            f"column {column!r} has a field of a type in which no column is stored (number {kind} in Arrow's schema, "
            f"with {len(children)} fields inside)"
        )
    return children
