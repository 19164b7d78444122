"""Defaults of Avro's fields: their JSON as an array of one value."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from spark_eos.errors import SchemaMismatchError
from spark_eos.extensions.value_formats.avro.columns import UnionShape, arrow_type, union_shape
from spark_eos.extensions.value_formats.avro.types import (
    MISSING,
    ArrayOf,
    AvroType,
    Enum,
    Fixed,
    MapOf,
    Primitive,
    Record,
    Union,
    describe,
)


def constant(type_: AvroType, default: Any, path: str) -> pa.Array:
    """The default, as the type's column has it. Raises `SchemaMismatchError` if it is no value of the type."""
    column_type = arrow_type(type_, path)
    try:
        return pa.array([_plain(type_, default, path)], column_type)
    except (pa.ArrowException, ValueError, TypeError, OverflowError, KeyError) as error:
        raise SchemaMismatchError(
            f"the default of field {path!r}, {default!r}, is no value of {describe(type_)}: {error}"
        ) from error


def _plain(type_: AvroType, default: Any, path: str) -> Any:
    """What `pyarrow.array` takes."""
    match type_:
        case Primitive() | Fixed():
            return _simple(type_, default)
        case Enum(_, _, symbols):
            if default not in symbols:
                raise ValueError("it is none of the symbols")
            return default
        case ArrayOf(items):
            return [_plain(items, item, path) for item in default]
        case MapOf(values):
            return [(key, _plain(values, value, path)) for key, value in default.items()]
        case Record(_, _, fields):
            return {
                part.name: _plain(part.type, _default_of_field(default, part.name, part.default), path)
                for part in fields
            }
        case Union():
            return _of_union(type_, default, path)
    raise ValueError("a recursive type has no column")


def _default_of_field(default: Any, name: str, own: Any) -> Any:
    value = default.get(name, own)
    if value is MISSING:
        raise ValueError(f"it has no field {name!r}")
    return value


def _simple(type_: Primitive | Fixed, default: Any) -> Any:
    value: Any = default
    kind = type_.kind if isinstance(type_, Primitive) else "bytes"
    checks: dict[str, tuple[type, ...]] = {
        "null": (type(None),),
        "boolean": (bool,),
        "int": (int,),
        "long": (int,),
        "float": (int, float),
        "double": (int, float),
        "string": (str,),
        "bytes": (str,),
    }
    if not isinstance(default, checks[kind]) or (kind != "boolean" and isinstance(default, bool)):
        raise ValueError(f"expected {kind}")
    if kind == "bytes":
        data = value.encode("iso-8859-1")
        if type_.logical == "decimal":
            return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-type_.scale, Context(prec=80))
        return data
    if kind in {"float", "double"}:
        return float(value)
    if type_.logical is not None and kind in {"int", "long"}:
        return _time(type_.logical, value)
    return value


def _time(logical: str, number: int) -> int:
    """In the unit of the column: `pyarrow.array` takes numbers for times."""
    return number * 1000 if logical.endswith("timestamp-millis") else number


def _of_union(union: Union, default: Any, path: str) -> Any:
    """The value of the first branch that it is one of."""
    shape, own = union_shape(union)
    for number, branch in enumerate(union.branches):
        try:
            value = _plain(branch, default, path)
            arrow_type(branch, path)
        except (ValueError, TypeError, AttributeError, KeyError):
            continue
        if number not in own:
            return None
        if shape is UnionShape.MEMBERS:
            return {f"member{own.index(number)}": value}
        return value
    raise ValueError("it is of none of the union's types")
