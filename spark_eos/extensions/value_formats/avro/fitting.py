"""Values that fastavro would write as others than they are, which are refused.

It writes an int of any size, so that no reader takes the value; of 2.5 the 2, where a whole number should be; infinity
for a number that is too large for a float; whether it is true of what should be a boolean; nothing at all of what
should be null; and decimals with more digits than the schema has, of which those in a fixed may be cut off.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from numbers import Number
from typing import Any, TypeAlias

import numpy as np

from spark_eos.extensions.value_formats.avro.types import (
    ArrayOf,
    AvroSchema,
    AvroType,
    Fixed,
    MapOf,
    Primitive,
    Record,
    Recursion,
    Union,
)

Check: TypeAlias = "Callable[[Any], None]"
"""Raises `ValueError` for a value that would become another one. What is of another kind, fastavro refuses itself."""


@lru_cache(maxsize=256)
def check_of(schema: AvroSchema) -> Check | None:
    """The check of values of a schema; None if all that fastavro takes are written as they are."""
    return _check(schema.type, "value", {})


def _check(type_: AvroType, path: str, outer: dict[str, list[Check | None]]) -> Check | None:
    """``outer`` has the records around, each with its own check once there is one."""
    match type_:
        case Primitive("null" | "boolean" | "int" | "long" | "float" as kind):
            return _PRIMITIVES[kind](path)
        case Primitive(_, "decimal", precision, scale) | Fixed(_, _, _, "decimal", precision, scale):
            return _decimal(precision, scale, path)
        case ArrayOf(items):
            return _each(_check(items, f"{path}.element", outer), lambda value: value)
        case MapOf(values):
            return _each(_check(values, f"{path}.value", outer), lambda value: value.values())
        case Union(branches):
            # Of several ones fastavro looks itself for the one that has the value.
            own = [branch for branch in branches if branch != Primitive("null")]
            return _optional(_check(own[0], path, outer)) if len(own) == 1 else None
        case Recursion(name):
            return _again(outer[name])
        case Record(name, _, fields):
            checks: list[Check | None] = []
            inner, prefix = {**outer, name: checks}, "" if path == "value" else f"{path}."
            parts = {part.name: _check(part.type, f"{prefix}{part.name}", inner) for part in fields}
            checks.append(_record({name: check for name, check in parts.items() if check is not None}))
            return checks[0]
    return None


def _record(parts: dict[str, Check]) -> Check | None:
    def check(value: Any) -> None:
        for name, part in parts.items():
            if name in value:
                part(value[name])

    return check if parts else None


def _each(inner: Check | None, parts: Callable[[Any], Any]) -> Check | None:
    if inner is None:
        return None

    def check(value: Any) -> None:
        for part in parts(value):
            inner(part)

    return check


def _optional(inner: Check | None) -> Check | None:
    if inner is None:
        return None

    def check(value: Any) -> None:
        _, value = value if isinstance(value, tuple) else (None, value)  # It may name its branch.
        if value is not None:
            inner(value)

    return check


def _again(outer: list[Check | None]) -> Check:
    def check(value: Any) -> None:
        if outer[0] is not None:
            outer[0](value)

    return check


def _null(path: str) -> Check:
    def check(value: Any) -> None:
        if value is not None:
            raise ValueError(f"field {path}: {value!r} is not null")

    return check


def _boolean(path: str) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"field {path}: {value!r} is no boolean")  # noqa: TRY004  (as fastavro does)

    return check


def _whole(path: str, bits: int) -> Check:
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def check(value: Any) -> None:
        if type(value) is not int:
            if not isinstance(value, Number):
                return  # Such as a date.
            if int(value) != value:  # type: ignore[call-overload]  # all numbers but complex ones have it
                raise ValueError(f"field {path}: {value!r} is no whole number")
        if not least <= value <= most:
            raise ValueError(f"field {path}: {value!r} has more than {bits} bits")

    return check


def _float(path: str) -> Check:
    def check(value: Any) -> None:
        with suppress(struct.error):
            try:
                struct.pack("<f", value)
            except OverflowError:
                raise ValueError(f"field {path}: {value!r} is too large for a float") from None

    return check


def _decimal(precision: int, scale: int, path: str) -> Check:
    def check(value: Any) -> None:
        if isinstance(value, Decimal) and value and value.adjusted() >= precision - scale:
            raise ValueError(f"field {path}: {value!r} has more digits than decimal({precision}, {scale})")

    return check


_PRIMITIVES: dict[str, Callable[[str], Check]] = {
    "null": _null,
    "boolean": _boolean,
    "int": lambda path: _whole(path, 32),
    "long": lambda path: _whole(path, 64),
    "float": _float,
}
