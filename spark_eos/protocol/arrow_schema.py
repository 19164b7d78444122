"""The shape of an Arrow schema message, read without Arrow: its columns, their depth, the number of fields.

The rules judge schemas by this. What they come to must be the same for every reader of an entry, so it must not depend
on the version of a library. Any bytes are either a shape or a `ValueError`, in time that grows with their
number. The message is a flatbuffer (github.com/apache/arrow: format/Message.fbs and Schema.fbs).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

__all__ = ["MAX_SCHEMA_BYTES", "MAX_SCHEMA_DEPTH", "MAX_SCHEMA_FIELDS", "Shape", "shape_of"]

MAX_SCHEMA_DEPTH = 63
"""Levels of a column: 1 for a number, 2 for a struct or a list of numbers, 3 for a map (it is a list of structs).

Arrow's files carry 64 levels, and Spark puts all columns into one struct when it hands them over.
"""

MAX_SCHEMA_FIELDS = 10_000
"""Fields of all levels together."""

MAX_SCHEMA_BYTES = 4 * 1024 * 1024
"""Length of the message. Every version of a topic's schema is in each snapshot, for as long as the topic is there."""

_MAX_NAME_BYTES = 32_767
_SCHEMA_MESSAGE = 1
_MESSAGE_HEADER_TYPE, _MESSAGE_HEADER = 1, 2
_SCHEMA_FIELDS = 1
_FIELD_NAME, _FIELD_TYPE, _FIELD_DICTIONARY, _FIELD_CHILDREN = 0, 2, 4, 5

_LIST, _STRUCT, _MAP = 12, 13, 17
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


def _shape(data: bytes) -> Shape:
    start = 8 if data[:4] == b"\xff\xff\xff\xff" else 4
    message = _Table(data, start + _uint32(data, start))
    if message.byte(_MESSAGE_HEADER_TYPE) != _SCHEMA_MESSAGE:
        raise ValueError("it is no schema message")
    header = message.reference(_MESSAGE_HEADER)
    if header is None:
        raise ValueError("it is a message without a schema")
    columns = _Table(data, header).vector(_SCHEMA_FIELDS)
    names, depths, seen = [], [], 0
    for column in columns:
        name = _Table(data, column).text(_FIELD_NAME)
        deepest, waiting = 0, [(column, 1)]
        seen += 1
        while waiting:
            place, level = waiting.pop()
            deepest = max(deepest, level)
            children = _children(_Table(data, place), name)
            seen += len(children)
            if seen > MAX_SCHEMA_FIELDS:  # Before they wait: many fields can refer to the same ones.
                raise ValueError(f"it has more than {MAX_SCHEMA_FIELDS} fields")
            waiting += [(child, level + 1) for child in children]
        names.append(name)
        depths.append(deepest)
    return Shape(tuple(names), tuple(depths), seen)


def _children(field: _Table, column: str) -> list[int]:
    """Where the fields inside of a field are. Raises `ValueError` for a field that no topic has."""
    kind, children = field.byte(_FIELD_TYPE), field.vector(_FIELD_CHILDREN)
    field.text(_FIELD_NAME)
    fits = (
        (kind in _LEAVES and not children)
        or (kind in {_LIST, _MAP} and len(children) == 1)
        or kind == _STRUCT
    )
    if not fits or field.reference(_FIELD_DICTIONARY) is not None:
        raise ValueError(
            f"column {column!r} has a field of a type in which no column is stored (number {kind} in Arrow's schema, "
            f"with {len(children)} fields inside)"
        )
    return children


class _Table:
    """A flatbuffers table at ``place``; every read is checked against the end of the bytes."""

    def __init__(self, data: bytes, place: int) -> None:
        self._data = data
        self._place = place
        self._vtable = place - _int32(data, place)
        self._size = _uint16(data, self._vtable)

    def byte(self, field: int) -> int:
        """A field of one byte; 0 if it is left out."""
        place = self._at(field)
        if place is None:
            return 0
        if place >= len(self._data):
            raise ValueError("it ends too early")
        return self._data[place]

    def reference(self, field: int) -> int | None:
        """Where a field that is elsewhere begins; None if it is left out."""
        place = self._at(field)
        return None if place is None else place + _uint32(self._data, place)

    def text(self, field: int) -> str:
        """A field of text; empty if it is left out."""
        place = self.reference(field)
        if place is None:
            return ""
        length = _uint32(self._data, place)
        if length > _MAX_NAME_BYTES:
            raise ValueError(f"a name in it has {length} bytes; {_MAX_NAME_BYTES} are possible")
        if place + 4 + length > len(self._data):
            raise ValueError("it ends too early")
        return self._data[place + 4 : place + 4 + length].decode()

    def vector(self, field: int) -> list[int]:
        """Where the tables of a vector begin; none if it is left out."""
        place = self.reference(field)
        if place is None:
            return []
        count = _uint32(self._data, place)
        if count > MAX_SCHEMA_FIELDS:
            raise ValueError(f"it has more than {MAX_SCHEMA_FIELDS} fields")
        first = place + 4
        return [at + _uint32(self._data, at) for at in range(first, first + 4 * count, 4)]

    def _at(self, field: int) -> int | None:
        slot = 4 + 2 * field
        if slot + 2 > self._size:
            return None
        offset = _uint16(self._data, self._vtable + slot)
        return self._place + offset if offset else None


def _uint16(data: bytes, place: int) -> int:
    return int(_number("<H", data, place))


def _int32(data: bytes, place: int) -> int:
    return int(_number("<i", data, place))


def _uint32(data: bytes, place: int) -> int:
    return int(_number("<I", data, place))


def _number(form: str, data: bytes, place: int) -> int:
    if place < 0:
        raise ValueError("it refers to what is before it")
    (number,) = struct.unpack_from(form, data, place)
    return int(number)
