"""Which encoder a column gets for an Avro type, and which columns a schema takes at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa

from spark_eos.errors import SchemaMismatchError
from spark_eos.extensions.value_formats.avro.columns import UnionShape, arrow_type, union_shape
from spark_eos.extensions.value_formats.avro.defaults import constant
from spark_eos.extensions.value_formats.avro.encoder import (
    DecimalEncoder,
    Encoder,
    EnumEncoder,
    FixedEncoder,
    ListEncoder,
    MapEncoder,
    NullEncoder,
    OfType,
    RecordEncoder,
    UnionEncoder,
    booleans,
    floats,
    longs,
    text,
)
from spark_eos.extensions.value_formats.avro.types import (
    MISSING,
    ArrayOf,
    AvroSchema,
    AvroType,
    Enum,
    Fixed,
    MapOf,
    Primitive,
    Record,
    RecordField,
    Union,
    describe,
)
from spark_eos.log.data.layout import normalise_type
from spark_eos.log.values.problems import Problems

_FACTORS = {"timestamp-millis": 1000, "local-timestamp-millis": 1000}


@lru_cache(maxsize=256)
def encoder_of(schema: AvroSchema, columns: pa.Schema) -> RecordEncoder:
    """Encodes rows with these columns: the fields of a record, or one column ``value``.

    A field without a column gets its default, or null where that is allowed. Raises `SchemaMismatchError`, naming the
    column, for one that is unknown or of another type, and for a field without column and default.
    """
    if isinstance(schema.type, Record):
        return _record(schema, schema.type, list(columns), "")
    names = columns.names
    if names != ["value"]:
        raise SchemaMismatchError(
            f"the values are {describe(schema.type)}, which is one column, value; the rows have {', '.join(names)}"
        )
    return RecordEncoder("", [(_encoder(schema, schema.type, columns.field(0).type, "value"), "value")])


def _record(schema: AvroSchema, record: Record, columns: list[pa.Field], path: str) -> RecordEncoder:
    column_types = {field.name: field.type for field in columns}
    field_names = {part.name for part in record.fields}
    for name in column_types:
        if name not in field_names:
            near = [field_name for field_name in field_names if field_name.casefold() == name.casefold()]
            hint = f"rename it to {near[0]}" if near else "drop it, or add it to the schema"
            raise SchemaMismatchError(
                f"column {_below(path, name)!r} is no field of {describe(record)}, which has "
                f"{', '.join(part.name for part in record.fields) or 'none'}; {hint}"
            )
    parts: list[tuple[Encoder | bytes, str | None]] = []
    for part in record.fields:
        below = _below(path, part.name)
        if part.name in column_types:
            parts.append((_encoder(schema, part.type, column_types[part.name], below), part.name))
        else:
            parts.append((_default(schema, part, below), None))
    return RecordEncoder(path, parts)


def _encoder(schema: AvroSchema, type_: AvroType, column: pa.DataType, path: str) -> Encoder:
    target = arrow_type(type_, path)
    if pa.types.is_null(column) and not isinstance(type_, Union):
        return NullEncoder(path) if target == pa.null() else OfType(path, target, _never)
    match type_:
        case Primitive(kind, logical):
            return _primitive(kind, logical, column, target, path)
        case Fixed(_, _, size, "decimal"):
            _check_decimal(column, target, path)
            return DecimalEncoder(path, target, size)
        case Fixed(_, _, size):
            _check(column, target, path, type_)
            return FixedEncoder(path, size)
        case Enum(_, _, symbols):
            _check(column, target, path, type_)
            return EnumEncoder(path, symbols)
        case ArrayOf(items) if pa.types.is_list(column):
            return ListEncoder(path, _encoder(schema, items, column.value_type, f"{path}.element"))
        case MapOf(values) if pa.types.is_map(column) and column.key_type == pa.string():
            key = OfType(f"{path}.key", pa.string(), text)
            return MapEncoder(path, key, _encoder(schema, values, column.item_type, f"{path}.value"))
        case Record() if pa.types.is_struct(column):
            return _record(schema, type_, [column.field(place) for place in range(column.num_fields)], path)
        case Union():
            return _union(schema, type_, column, path)
    raise _mismatch(column, target, path, type_)


def _primitive(
    kind: str, logical: str | None, column: pa.DataType, target: pa.DataType, path: str
) -> Encoder:
    own = Primitive(kind, logical)
    if logical == "decimal":
        _check_decimal(column, target, path)
        return DecimalEncoder(path, target, None)
    _check(column, target, path, own)
    if kind in {"int", "long"}:
        if pa.types.is_timestamp(target):
            return OfType(path, target, _times(_FACTORS.get(logical or "", 1)))
        if pa.types.is_date(target):
            return OfType(path, target, _dates)
        return OfType(path, pa.int64(), longs)
    if kind == "null":
        return NullEncoder(path)
    if kind == "boolean":
        return OfType(path, target, booleans)
    return OfType(path, target, floats if kind in {"float", "double"} else text)


def _union(schema: AvroSchema, union: Union, column: pa.DataType, path: str) -> Encoder:
    shape, own = union_shape(union)
    null = next((number for number in range(len(union.branches)) if number not in own), None)
    if pa.types.is_null(column) and null is not None:
        return UnionEncoder(path, null, [(0, OfType(path, pa.null(), _never))], is_struct=False)
    if shape is UnionShape.SINGLE:
        members = [(number, _encoder(schema, union.branches[number], column, path)) for number in own]
        return UnionEncoder(path, null, members, is_struct=False)
    target = arrow_type(union, path)
    if shape is UnionShape.NUMBER:
        _check(column, target, path, union)
        wide = next(n for n in own if getattr(union.branches[n], "kind", "") in {"long", "double"})
        number = next((n for n in own if arrow_type(union.branches[n], path) == column), wide)
        return UnionEncoder(
            path, null, [(number, _encoder(schema, union.branches[number], column, path))], is_struct=False
        )
    names = (
        [column.field(place).name for place in range(column.num_fields)] if pa.types.is_struct(column) else []
    )
    if names != [target.field(place).name for place in range(target.num_fields)]:
        raise _mismatch(column, target, path, union)
    members = [
        (number, _encoder(schema, union.branches[number], column.field(place).type, f"{path}.member{place}"))
        for place, number in enumerate(own)
    ]
    return UnionEncoder(path, null, members, is_struct=True)


def _default(schema: AvroSchema, part: RecordField, path: str) -> bytes:
    """The bytes of a field without a column."""
    if part.default is MISSING:
        if isinstance(part.type, Union) and Primitive("null") in part.type.branches:
            return bytes([2 * part.type.branches.index(Primitive("null"))])
        if part.type == Primitive("null"):
            return b""
        raise SchemaMismatchError(
            f"column {path!r} is missing: the Avro schema has the field without a default, and it may not be null. Add "
            "the column, or give the field a default"
        )
    return _default_bytes(schema, part, path)


def _default_bytes(schema: AvroSchema, part: RecordField, path: str) -> bytes:

    value = constant(part.type, part.default, path)
    problems = Problems()
    encoded = _encoder(schema, part.type, value.type, path).write(value, np.zeros(1, np.int64), problems)
    if problems:
        raise SchemaMismatchError(f"the default of field {path!r} cannot be encoded: {problems.reasons[0]}")
    data: bytes = encoded[0].as_py()
    return data


def _check(column: pa.DataType, target: pa.DataType, path: str, type_: AvroType) -> None:
    """The same type, or a narrower number, of which each value is one of the wider type."""
    source = normalise_type(column, path)
    if source == target:
        return
    integers = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
    if source in integers and target in integers and integers.index(source) < integers.index(target):
        return
    if source == pa.float32() and target == pa.float64():
        return
    raise _mismatch(column, target, path, type_)


def _check_decimal(column: pa.DataType, target: pa.DataType, path: str) -> None:
    if not pa.types.is_decimal(column) or column.scale > target.scale:
        raise SchemaMismatchError(f"column {path!r} is {column}, the Avro schema has {target}; cast it")


def _mismatch(column: pa.DataType, target: pa.DataType, path: str, type_: AvroType) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"column {path!r} is {column}, the Avro schema has {describe(type_)}; cast it to {target}"
    )


def _times(factor: int) -> Callable[[pa.Array], pa.Array]:
    def encode(values: pa.Array) -> pa.Array:
        numbers = values.cast(pa.int64())
        if factor == 1:
            return longs(numbers)
        # Downwards, as the log's own timestamps: before 1970 Arrow's division would go upwards.
        floor = np.floor_divide(numbers.fill_null(0).to_numpy(), factor)
        return longs(pa.array(floor, mask=values.is_null().to_numpy(zero_copy_only=False)))

    return encode


def _dates(values: pa.Array) -> pa.Array:
    return longs(values.cast(pa.int32()).cast(pa.int64()))


def _never(values: pa.Array) -> pa.Array:
    """Of a column in which all is null where the schema allows none."""
    return pa.nulls(len(values), pa.binary())


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
