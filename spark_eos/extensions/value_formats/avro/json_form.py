"""Avro's JSON, by fastavro: what a person types of a value, and what is printed of it.

JSON has no NaN and no infinities: there they are text, as Java's library has them.
"""

from __future__ import annotations

import io
import json
import math
from typing import Any

import pyarrow as pa

from spark_eos.extensions.value_formats.avro.types import (
    ArrayOf,
    AvroSchema,
    AvroType,
    MapOf,
    Primitive,
    Record,
    Recursion,
    Union,
)
from spark_eos.log.values.json_values import to_column

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_WHOLE = to_column(pa.int64())


def from_json(schema: AvroSchema, value: Any) -> Any:
    """The value that fastavro writes of a JSON value. Raises `ValueError` with the reason."""
    import fastavro

    _check(schema)
    try:
        text = json.dumps(_with_numbers(schema.type, value))
        (avro_value,) = fastavro.json_reader(io.StringIO(text), schema.parsed)
    except Exception as error:  # noqa: BLE001  (fastavro's parser raises plain ones, too)
        raise ValueError(
            f"it is not the JSON of a value of the topic's Avro schema ({type(error).__name__}: {error}); in "
            'Avro\'s JSON a value of a union names its type, such as {"string": "x"}'
        ) from None
    return avro_value


def to_json(schema: AvroSchema, value: Any) -> bytes:
    """The JSON of a value. Raises `ValueError` with the reason."""
    import fastavro

    _check(schema)
    out = io.StringIO()
    try:
        fastavro.json_writer(out, schema.parsed, [value])
    except Exception as error:
        raise ValueError(
            f"its value cannot be written as Avro's JSON ({type(error).__name__}: {error})"
        ) from error
    return json.dumps(json.loads(out.getvalue(), parse_constant=str), ensure_ascii=False).encode()


def _check(schema: AvroSchema) -> None:
    if _is_recursive(schema.type):
        raise ValueError(
            "its Avro schema has a type inside of itself, which fastavro cannot bring into Avro's JSON, or out of it"
        )


def _is_recursive(type_: AvroType) -> bool:
    """Whether a value of the type may have another one of the same type in itself."""
    match type_:
        case Record(_, _, fields):
            return any(_is_recursive(field.type) for field in fields)
        case ArrayOf(inner) | MapOf(inner):
            return _is_recursive(inner)
        case Union(branches):
            return any(map(_is_recursive, branches))
    return isinstance(type_, Recursion)


def _with_numbers(type_: AvroType, value: Any) -> Any:
    """The JSON value, with numbers in place of the texts that stand for NaN and the infinities; 1e3 is whole, too."""
    match type_:
        case Primitive("float" | "double"):
            return _NOT_FINITE.get(value, value) if isinstance(value, str) else value
        case Primitive("int" | "long") if isinstance(value, float):
            return _WHOLE(value)
        case ArrayOf(items) if isinstance(value, list):
            return [_with_numbers(items, item) for item in value]
        case MapOf(values) if isinstance(value, dict):
            return {key: _with_numbers(values, item) for key, item in value.items()}
        case Record(_, _, fields) if isinstance(value, dict):
            types = {field.name: field.type for field in fields}
            return {
                name: _with_numbers(types[name], item) if name in types else item
                for name, item in value.items()
            }
        case Union(branches) if isinstance(value, dict):
            # It names its type.
            by_name = {_name(branch): branch for branch in branches}
            return {
                name: _with_numbers(by_name[name], item) if name in by_name else item
                for name, item in value.items()
            }
    return value


def _name(type_: AvroType) -> str:
    """What a union calls a branch."""
    match type_:
        case Primitive(kind):
            return kind
        case ArrayOf():
            return "array"
        case MapOf():
            return "map"
        case Union():
            raise AssertionError("a union has none inside of it")
    return type_.name
