"""Whether bytes are one value of an Avro schema, by the rules that `lanes` and `decoder` have for columns.

fastavro's compiled reader believes any bytes: it counts a negative number of a branch or symbol from the other end of
the list, takes numbers that their type does not hold, and follows a record in itself until the stack of the process
ends. So each value is walked through before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from spark_eos.extensions.value_formats.avro.resolution import least_bytes
from spark_eos.extensions.value_formats.avro.types import (
    ArrayOf,
    AvroSchema,
    AvroType,
    Enum,
    Fixed,
    MapOf,
    Primitive,
    Record,
    Recursion,
    Union,
)

Step: TypeAlias = "Callable[[bytes, int], int]"
"""Goes over a value that begins at a place, and returns where it ends: past the end of the bytes, if they are too few.

Raises `IndexError` where the bytes end, and `ValueError` with the reason.
"""


@lru_cache(maxsize=256)
def step_of(schema: AvroSchema) -> Step:
    """What goes over the values of a schema. Raises `ValueError` if a few bytes could be a value of any size."""
    return _step(schema.type, "value", {})


def _step(type_: AvroType, path: str, outer: dict[str, list[Step]]) -> Step:
    """``outer`` has the records around, each with its own step once there is one."""
    match type_:
        case Primitive(kind):
            return _PRIMITIVES.get(kind, _text)(path)
        case Fixed(size=size):
            return lambda _, at: at + size
        case Enum(symbols=symbols):
            return _enum(len(symbols), path)
        case ArrayOf(items):
            if not least_bytes(items):
                raise ValueError(
                    "its Avro schema has an array whose items take no bytes, so that a few bytes could stand for any "
                    "number of them: such values are not read one by one"
                )
            return _blocks(_step(items, f"{path}.element", outer), path)
        case MapOf(values):
            key, value = _text(f"{path}.key"), _step(values, f"{path}.value", outer)
            return _blocks(lambda data, at: value(data, key(data, at)), path)
        case Union(branches):
            return _union([_step(branch, path, outer) for branch in branches], path)
        case Recursion(name):
            return _again(outer[name])
        case Record(name, _, fields):
            own: list[Step] = []
            inner = {**outer, name: own}
            prefix = "" if path == "value" else f"{path}."
            own.append(_record([_step(part.type, f"{prefix}{part.name}", inner) for part in fields]))
            return own[0]
    raise AssertionError(type_)


def _again(outer: list[Step]) -> Step:
    def step(data: bytes, at: int) -> int:
        return outer[0](data, at)

    return step


def _long(data: bytes, at: int, path: str) -> tuple[int, int]:
    byte = data[at]
    at += 1
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        if shift > 63:
            raise ValueError(f"field {path}: a number is longer than 10 bytes")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), at


def _int(path: str) -> Step:
    def step(data: bytes, at: int) -> int:
        number, at = _long(data, at, path)
        if not -(2**31) <= number < 2**31:
            raise ValueError(f"field {path}: an int has more than 32 bits")
        return at

    return step


def _boolean(path: str) -> Step:
    def step(data: bytes, at: int) -> int:
        if data[at] > 1:
            raise ValueError(f"field {path}: a boolean is neither 0 nor 1")
        return at + 1

    return step


def _text(path: str) -> Step:
    def step(data: bytes, at: int) -> int:
        size, at = _long(data, at, path)
        if not 0 <= size <= len(data) - at:
            raise ValueError(f"field {path}: the value ends early, or its length is wrong")
        return at + size

    return step


def _enum(count: int, path: str) -> Step:
    def step(data: bytes, at: int) -> int:
        number, at = _long(data, at, path)
        if not 0 <= number < count:
            raise ValueError(f"field {path}: the enum has no symbol of that number")
        return at

    return step


def _union(branches: list[Step], path: str) -> Step:
    def step(data: bytes, at: int) -> int:
        number, at = _long(data, at, path)
        if not 0 <= number < len(branches):
            raise ValueError(f"field {path}: the union has no branch of that number")
        return branches[number](data, at)

    return step


def _record(fields: list[Step]) -> Step:
    def step(data: bytes, at: int) -> int:
        for field in fields:
            at = field(data, at)
        return at

    return step


def _blocks(item: Step, path: str) -> Step:
    def step(data: bytes, at: int) -> int:
        while True:
            size, at = _long(data, at, path)
            if size == 0:
                return at
            if size < 0:  # The number of bytes follows, for those who pass over the block.
                _, at = _long(data, at, path)
                size = -size
            if size > len(data) - at:
                raise ValueError(f"field {path}: a block has more items than the value has room for")
            for _ in range(size):
                at = item(data, at)

    return step


_PRIMITIVES: dict[str, Callable[[str], Step]] = {
    "null": lambda _: lambda _, at: at,
    "boolean": _boolean,
    "int": _int,
    "long": lambda path: lambda data, at: _long(data, at, path)[1],
    "float": lambda _: lambda _, at: at + 4,
    "double": lambda _: lambda _, at: at + 8,
}
"""Those of other kinds are bytes with their number in front."""
