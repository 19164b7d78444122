"""Avro schemas by which a few bytes may stand for a value of any size or depth.

fastavro's compiled reader believes the count of an array whose items take no bytes, and follows a record in itself
until the stack of the process ends.
"""

from __future__ import annotations

from functools import lru_cache

from spark_eos.extensions.value_formats.avro.types import (
    ArrayOf,
    AvroType,
    Fixed,
    MapOf,
    Primitive,
    Record,
    Recursion,
    Union,
)

MOST_RECURSIVE_BYTES = 1000
"""Of a value of a recursive schema, what the compiled reader may be given: each level takes a byte at least."""


def _parts(type_: AvroType) -> tuple[AvroType, ...]:
    match type_:
        case Record(_, _, fields):
            return tuple(field.type for field in fields)
        case ArrayOf(inner) | MapOf(inner):
            return (inner,)
        case Union(branches):
            return branches
    return ()


def _takes_no_bytes(type_: AvroType) -> bool:
    match type_:
        case Primitive("null"):
            return True
        case Fixed(size=0):
            return True
        case Record(_, _, fields):
            return all(_takes_no_bytes(field.type) for field in fields)
    return False


@lru_cache(maxsize=256)
def is_recursive(type_: AvroType) -> bool:
    """Whether a value of the type may have another one of the same type in itself."""
    return isinstance(type_, Recursion) or any(map(is_recursive, _parts(type_)))


@lru_cache(maxsize=256)
def has_empty_items(type_: AvroType) -> bool:
    """Whether the type has an array whose items take no bytes."""
    if isinstance(type_, ArrayOf) and _takes_no_bytes(type_.items):
        return True
    return any(map(has_empty_items, _parts(type_)))
