"""A persistent map that is stored in parts, each of which stays packed until someone asks for a key of it.

A log may have 100,000 producers. A process that opens it asks for those that it meets, and a snapshot stores again only
what has changed since the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar, overload
from zlib import crc32

from immutables import Map

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_NUMBERS = 32
"""Numbers that follow one another and are in one part. Part of the format."""

_PARTS_OF_NAMES = 1024
"""Part of the format."""


def part_of_number(number: int) -> int:
    """The part that a number is in."""
    return number // _NUMBERS


def part_of_name(name: str) -> int:
    """The part that a name is in. It depends on nothing else: the same names are in the same parts in all processes."""
    return crc32(name.encode("utf-8", "surrogatepass")) % _PARTS_OF_NAMES


class Part(Generic[K, V]):
    """Keys and values, or their bytes in a snapshot, or both: what was made of the other one is kept beside it.

    Immutable but for that. Two threads may make it at once: each makes the same, and either one may stay.
    """

    __slots__ = ("packed", "values")

    def __init__(self, values: Map[K, V] | None = None, packed: bytes | None = None) -> None:
        self.values = values
        self.packed = packed


_NONE: Map[Any, Any] = Map()


class Layout(NamedTuple):
    """``part_of`` says which part a key is in, ``unpack`` reads a packed part of the snapshot ``where``.

    ``unpack`` is called with the part's number, its bytes, and ``where``, for messages. Whatever reads a key raises
    what it raises, `CorruptRecordError`.
    """

    part_of: Callable[[Any], int]
    unpack: Callable[[int, Any, str], Map[Any, Any]] | None = None
    where: str = ""


class PackedMap(Mapping[K, V]):
    """A map like `immutables.Map`. Each entry that is applied sets some keys: `set` and `get` make few calls."""

    __slots__ = ("layout", "parts")

    def __init__(self, layout: Layout, parts: Map[int, Part[K, V]] = _NONE) -> None:
        self.layout = layout
        #: By their numbers. None of them is empty.
        self.parts = parts

    def read_from(self, where: str) -> PackedMap[K, V]:
        """The same map, whose errors name the snapshot ``where``."""
        return PackedMap(self.layout._replace(where=where), self.parts)

    def values_in(self, number: int) -> Map[K, V]:
        """All that is in the part with this number."""
        part = self.parts.get(number)
        if part is None:
            return _NONE
        values = part.values
        if values is None:
            _, unpack, where = self.layout
            assert unpack is not None
            values = part.values = unpack(number, part.packed, where)
        return values

    def set(self, key: K, value: V) -> PackedMap[K, V]:
        """A map that has this value as well."""
        layout, parts = self.layout, self.parts
        number = layout.part_of(key)
        part = parts.get(number)
        values = (part and part.values) or self.values_in(number)
        return PackedMap(layout, parts.set(number, Part(values.set(key, value))))

    def delete(self, key: K) -> PackedMap[K, V]:
        """A map without this key. Raises `KeyError` if it is not there."""
        number = self.layout.part_of(key)
        left = self.values_in(number).delete(key)
        parts = self.parts.set(number, Part(left)) if left else self.parts.delete(number)
        return PackedMap(self.layout, parts)

    def __getitem__(self, key: K) -> V:
        return self.values_in(self.layout.part_of(key))[key]

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...
    def get(self, key: K, /, default: Any = None) -> Any:
        """The value, or ``default``."""
        number = self.layout.part_of(key)
        part = self.parts.get(number)
        return ((part and part.values) or self.values_in(number)).get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self.values_in(self.layout.part_of(key))

    def __iter__(self) -> Iterator[K]:
        for number in self.parts:
            yield from self.values_in(number)

    def __len__(self) -> int:
        return sum(len(self.values_in(number)) for number in self.parts)

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PackedMap):
            return NotImplemented
        return len(self.parts) == len(other.parts) and all(
            part is other.parts.get(number) or self.values_in(number) == other.values_in(number)
            for number, part in self.parts.items()
        )

    __hash__ = None  # type: ignore[assignment]

    def other_than(self, others: PackedMap[K, V]) -> Iterator[tuple[K, V]]:
        """What is not the same object in ``others``. Parts that both share are not read."""
        for number, part in self.parts.items():
            if others.parts.get(number) is not part:
                values = others.values_in(number)
                for key, value in self.values_in(number).items():
                    if values.get(key) is not value:
                        yield key, value

    def __repr__(self) -> str:
        return f"PackedMap({dict(self)!r})"
