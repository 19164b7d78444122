"""A persistent map that is stored in parts, each of which stays packed until someone asks for a key of it.

A log may have 100,000 producers. A process that opens it asks for those that it meets, and a snapshot stores again only
what has changed since the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar, overload
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
    """Some keys and values. Immutable: what is read of ``packed``, and packed of the values, is only kept here.

    ``unpack`` reads the values when they are needed. ``packed`` are its bytes in a snapshot, if they are known.
    Two threads may unpack or pack the same part at once: each has the same result.
    """

    __slots__ = ("_unpack", "_values", "packed")

    def __init__(
        self,
        values: Map[K, V] | None = None,
        unpack: Callable[[], Map[K, V]] | None = None,
        packed: bytes | None = None,
    ) -> None:
        self._values = values
        self._unpack = unpack
        self.packed = packed

    @property
    def values(self) -> Map[K, V]:
        """What is in it. Raises `CorruptRecordError` if the bytes are no such thing."""
        values = self._values
        if values is None:
            assert self._unpack is not None
            values = self._values = self._unpack()
        return values

    @property
    def is_unpacked(self) -> bool:
        """Whether someone has asked for a key of it, or it has changed since it was read."""
        return self._values is not None


_NONE: Map[Any, Any] = Map()


class PackedMap(Mapping[K, V]):
    """A map like `immutables.Map`; ``part_of`` says which part a key is in."""

    __slots__ = ("_part_of", "parts")

    def __init__(self, part_of: Callable[[K], int], parts: Map[int, Part[K, V]] = _NONE) -> None:
        self._part_of = part_of
        #: By their numbers. None of them is empty.
        self.parts = parts

    def _values(self, key: Any) -> Map[K, V]:
        part = self.parts.get(self._part_of(key))
        return _NONE if part is None else part.values

    def set(self, key: K, value: V) -> PackedMap[K, V]:
        """A map that has this value as well."""
        changed = Part(self._values(key).set(key, value))
        return PackedMap(self._part_of, self.parts.set(self._part_of(key), changed))

    def delete(self, key: K) -> PackedMap[K, V]:
        """A map without this key. Raises `KeyError` if it is not there."""
        left, number = self._values(key).delete(key), self._part_of(key)
        parts = self.parts.set(number, Part(left)) if left else self.parts.delete(number)
        return PackedMap(self._part_of, parts)

    def __getitem__(self, key: K) -> V:
        return self._values(key)[key]

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...
    def get(self, key: K, /, default: Any = None) -> Any:
        """The value, or ``default``."""
        return self._values(key).get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._values(key)

    def __iter__(self) -> Iterator[K]:
        for part in self.parts.values():
            yield from part.values

    def __len__(self) -> int:
        return sum(len(part.values) for part in self.parts.values())

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PackedMap):
            return NotImplemented
        return len(self.parts) == len(other.parts) and all(
            number in other.parts
            and (part is other.parts[number] or part.values == other.parts[number].values)
            for number, part in self.parts.items()
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PackedMap({dict(self)!r})"
