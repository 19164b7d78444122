"""The columns of Avro values: Arrow's type of each Avro type, as Spark's Avro source chooses it."""

from __future__ import annotations

from enum import Enum as Enumeration

import pyarrow as pa

from spark_eos.errors import SchemaMismatchError
from spark_eos.extensions.value_formats.avro.types import (
    ArrayOf,
    AvroType,
    Enum,
    Fixed,
    MapOf,
    Primitive,
    Record,
    Recursion,
    Union,
    describe,
)

MAX_PRECISION = 38

_PRIMITIVES: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}

_LOGICAL: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}
"""Times of day, nanoseconds, durations and UUIDs stay numbers, bytes and text: Spark has no such type, or loses
digits."""


class UnionShape(Enumeration):
    """What a union is as a column."""

    SINGLE = "the only branch that is not null"
    NUMBER = "long for int and long, double for float and double"
    MEMBERS = "a struct with member0, member1, …, of which one is not null"


def union_shape(union: Union) -> tuple[UnionShape, list[int]]:
    """The shape of a union's column, and its branches without null, by number."""
    own = [number for number, branch in enumerate(union.branches) if branch != Primitive("null")]
    if len(own) <= 1:
        return UnionShape.SINGLE, own
    kinds = {getattr(union.branches[number], "kind", "") for number in own}
    plain = all(getattr(union.branches[number], "logical", "") is None for number in own)
    if plain and kinds in ({"int", "long"}, {"float", "double"}):
        return UnionShape.NUMBER, own
    return UnionShape.MEMBERS, own


def value_fields(type_: AvroType) -> list[pa.Field]:
    """The columns of a value: the fields of a record, or one column ``value``. All may be null.

    Raises `SchemaMismatchError`, naming the field, for a type that no column can have.
    """
    if isinstance(type_, Record):
        if not type_.fields:
            raise SchemaMismatchError(
                f"record {type_.name} has no fields, so its topic has no columns: read it with row.format=kafka"
            )
        return [pa.field(part.name, arrow_type(part.type, part.name)) for part in type_.fields]
    return [pa.field("value", arrow_type(type_, "value"))]


def arrow_type(type_: AvroType, path: str) -> pa.DataType:
    """The type of a column. Raises `SchemaMismatchError`, naming ``path``, if there is none."""
    match type_:
        case Primitive(_, "decimal", precision, scale) | Fixed(_, _, _, "decimal", precision, scale):
            if precision > MAX_PRECISION:
                raise SchemaMismatchError(
                    f"field {path!r} is a decimal with {precision} digits; a column has {MAX_PRECISION} at most. Read "
                    "the topic with row.format=kafka and decode its values in your program"
                )
            return pa.decimal128(precision, scale)
        case Primitive(kind, logical):
            return _LOGICAL.get(logical or "", _PRIMITIVES[kind])
        case Fixed():
            return pa.binary()
        case Enum():
            return pa.string()
        case ArrayOf(items):
            return pa.list_(pa.field("element", arrow_type(items, f"{path}.element")))
        case MapOf(values):
            value = pa.field("value", arrow_type(values, f"{path}.value"))
            return pa.map_(pa.field("key", pa.string(), nullable=False), value)
        case Record(name, _, fields):
            if not fields:
                raise SchemaMismatchError(
                    f"field {path!r} is record {name}, which has no fields: no column can be so"
                )
            return pa.struct(
                [pa.field(part.name, arrow_type(part.type, f"{path}.{part.name}")) for part in fields]
            )
        case Union():
            return _union_type(type_, path)
        case Recursion(name):
            raise SchemaMismatchError(
                f"field {path!r} is record {name} inside of itself. A column cannot have a recursive type: read the "
                "topic with row.format=kafka and decode its values in your program, or with a consumer, as dicts"
            )


def _union_type(union: Union, path: str) -> pa.DataType:
    shape, own = union_shape(union)
    if not union.branches:
        raise SchemaMismatchError(f"field {path!r} is {describe(union)}: it has no value")
    if shape is UnionShape.SINGLE:
        return arrow_type(union.branches[own[0]], path) if own else pa.null()
    if shape is UnionShape.NUMBER:
        integers = all(getattr(union.branches[number], "kind", "") in {"int", "long"} for number in own)
        return pa.int64() if integers else pa.float64()
    return pa.struct(
        [
            pa.field(f"member{place}", arrow_type(union.branches[number], f"{path}.member{place}"))
            for place, number in enumerate(own)
        ]
    )
