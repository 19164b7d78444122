"""Tables of a flatbuffer, read without its library: every read is checked against the end of the bytes."""

from __future__ import annotations

import struct

_MAX_TEXT_BYTES = 32_767


class Table:
    """A flatbuffer's table at ``place`` of ``data``; every read is checked against the end of the bytes."""

    def __init__(self, data: bytes, place: int) -> None:
        self.data = data
        self._place = place
        self._vtable = place - _int32(data, place)
        self._size = _uint16(data, self._vtable)

    def byte(self, field: int) -> int:
        """A field of one byte; 0 if it is left out."""
        place = self._at(field)
        if place is None:
            return 0
        if place >= len(self.data):
            raise ValueError("it ends too early")
        return self.data[place]

    def reference(self, field: int) -> int | None:
        """Where a field that is elsewhere begins; None if it is left out."""
        place = self._at(field)
        return None if place is None else place + uint32(self.data, place)

    def number(self, field: int, form: str, default: int) -> int:
        """A field of a number, in the form of ``struct``; ``default`` if it is left out."""
        place = self._at(field)
        return default if place is None else _number(form, self.data, place)

    def text(self, field: int) -> str:
        """A field of text; empty if it is left out."""
        place = self.reference(field)
        if place is None:
            return ""
        length = uint32(self.data, place)
        if length > _MAX_TEXT_BYTES:
            raise ValueError(f"a name in it has {length} bytes; {_MAX_TEXT_BYTES} are possible")
        if place + 4 + length > len(self.data):
            raise ValueError("it ends too early")
        return self.data[place + 4 : place + 4 + length].decode()

    def vector(self, field: int, most: int) -> list[int]:
        """Where the tables of a vector begin, at most so many; none if it is left out."""
        place = self.reference(field)
        if place is None:
            return []
        count = uint32(self.data, place)
        if count > most:
            raise ValueError(f"it has more than {most} fields")
        first = place + 4
        return [at + uint32(self.data, at) for at in range(first, first + 4 * count, 4)]

    def _at(self, field: int) -> int | None:
        slot = 4 + 2 * field
        if slot + 2 > self._size:
            return None
        offset = _uint16(self.data, self._vtable + slot)
        return self._place + offset if offset else None


def _uint16(data: bytes, place: int) -> int:
    return int(_number("<H", data, place))


def _int32(data: bytes, place: int) -> int:
    return int(_number("<i", data, place))


def uint32(data: bytes, place: int) -> int:
    """A number of 32 bits."""
    return int(_number("<I", data, place))


def _number(form: str, data: bytes, place: int) -> int:
    if place < 0:
        raise ValueError("it refers to what is before it")
    (number,) = struct.unpack_from(form, data, place)
    return int(number)
