"""What invariants are checked with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spark_eos.protocol.packed_map import PackedMap


class InvariantError(AssertionError):
    """The rules themselves are wrong: no request may lead to this state."""


def ensure(holds: bool, otherwise: str) -> None:
    """Raise `InvariantError` with a text if something does not hold."""
    if not holds:
        raise InvariantError(otherwise)


def other(maps: Any, others: Any) -> Iterator[tuple[Any, Any]]:
    """Keys and values of a map that are not the same object in the other one."""
    if maps is others:
        return
    if isinstance(maps, PackedMap) and isinstance(others, PackedMap):
        yield from maps.other_than(others)
        return
    for key, value in maps.items():
        if others.get(key) is not value:
            yield key, value
