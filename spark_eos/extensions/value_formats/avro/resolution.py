"""Schema resolution: how values that were written with one Avro schema are read with another.

The rules are those of Avro's specification. Where a number is annotated by different logical types, which the
specification leaves open and implementations read as other times, this refuses.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from spark_eos.errors import SchemaMismatchError
from spark_eos.extensions.value_formats.avro.columns import UnionShape, arrow_type, union_shape, value_fields
from spark_eos.extensions.value_formats.avro.decoder import (
    BooleanDecoder,
    BytesDecoder,
    Cast,
    DecimalDecoder,
    Decoder,
    EnumDecoder,
    FloatDecoder,
    LongDecoder,
    NullDecoder,
    Refusal,
    TimeDecoder,
    Wrap,
)
from spark_eos.extensions.value_formats.avro.defaults import constant
from spark_eos.extensions.value_formats.avro.nested import (
    ArrayDecoder,
    Fields,
    MapDecoder,
    RecordDecoder,
    UnionDecoder,
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
    Recursion,
    Union,
    describe,
)

PROMOTIONS = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}


@lru_cache(maxsize=256)
def decoder_of(writer: AvroSchema, reader: AvroSchema) -> RecordDecoder | Fields:
    """Reads values that were written with ``writer`` into the columns of ``reader`` (`value_fields`).

    Raises `SchemaMismatchError`, naming the field, if no value can be read so, or no column can have the type.
    """
    if isinstance(reader.type, Record):
        fields = value_fields(reader.type)
        decoder = _resolve(writer.type, reader.type, "")
        return decoder if isinstance(decoder, RecordDecoder) else Fields(decoder, fields)
    fields = value_fields(reader.type)
    return RecordDecoder("value", [(_resolve(writer.type, reader.type, "value"), 0)], {}, fields)


def _resolve(writer: AvroType, reader: AvroType, path: str) -> Decoder:
    """Raises `SchemaMismatchError` if no value that was written can be read."""
    if isinstance(writer, Union):
        type_ = arrow_type(reader, path)
        branches = [_branch(branch, reader, path, type_) for branch in writer.branches]
        if branches and all(isinstance(branch, Refusal) for branch in branches):
            raise SchemaMismatchError(branches[0].reason)  # type: ignore[attr-defined]
        return UnionDecoder(path, branches, type_)
    if isinstance(reader, Union):
        return _into_union(writer, reader, path)
    match writer, reader:
        case Primitive(), Primitive():
            return _primitive(writer, reader, path)
        case Fixed(_, _, size), Fixed(_, _, other) if size == other and has_same_name(writer, reader):
            _check_logical(writer, reader, path)
            if reader.logical == "decimal":
                return DecimalDecoder(path, size, arrow_type(reader, path))
            return BytesDecoder(path, size, pa.binary())
        case Enum(_, _, written), Enum(_, _, known, default) if has_same_name(writer, reader):
            symbols = [symbol if symbol in known else default for symbol in written]
            return EnumDecoder(path, written, symbols)
        case Record(), Record() if has_same_name(writer, reader):
            return _record(writer, reader, path)
        case ArrayOf(written), ArrayOf(known):
            inner = _resolve(written, known, _below(path, "element"))
            return ArrayDecoder(path, inner, arrow_type(reader, path), least_bytes(written))
        case MapOf(written), MapOf(known):
            type_ = arrow_type(reader, path)
            value = _resolve(written, known, _below(path, "value"))
            key = BytesDecoder(_below(path, "key"), None, pa.string())
            fields = [pa.field("key", pa.string()), pa.field("value", type_.item_type)]
            entry = RecordDecoder(path, [(key, 0), (value, 1)], {}, fields)
            return MapDecoder(path, entry, type_, 1 + least_bytes(written))
        case _, Recursion() | Recursion(), _:
            arrow_type(reader if isinstance(reader, Recursion) else writer, path)
    raise SchemaMismatchError(_no_match(writer, reader, path))


def _branch(writer: AvroType, reader: AvroType, path: str, type_: pa.DataType) -> Decoder:
    """A branch of a union that was written. If it does not fit, values of it do not, and others do."""
    try:
        return _resolve(writer, reader, path)
    except SchemaMismatchError as error:
        return Refusal(path, type_, str(error))


def _into_union(writer: AvroType, reader: Union, path: str) -> Decoder:
    """The first branch of the same type, or else the first one that the value can be promoted to."""
    shape, own = union_shape(reader)
    type_ = arrow_type(reader, path)
    number, inner = _best(writer, reader, path)
    if number not in own:
        return NullDecoder(path, type_)
    if shape is UnionShape.MEMBERS:
        return Wrap(inner, type_, own.index(number))
    return Cast(inner, type_) if shape is UnionShape.NUMBER else inner


def _best(writer: AvroType, reader: Union, path: str) -> tuple[int, Decoder]:
    refused: SchemaMismatchError | None = None
    for exact in (True, False):
        for number, branch in enumerate(reader.branches):
            if exact and not _is_same(writer, branch):
                continue
            try:
                return number, _resolve(writer, branch, path)
            except SchemaMismatchError as error:
                refused = error if exact else refused
    raise refused or SchemaMismatchError(_no_match(writer, reader, path))


def _is_same(writer: AvroType, reader: AvroType) -> bool:
    if isinstance(writer, Primitive) and isinstance(reader, Primitive):
        return writer.kind == reader.kind
    if isinstance(writer, (Record, Enum, Fixed)) and isinstance(reader, (Record, Enum, Fixed)):
        return type(writer) is type(reader) and writer.name == reader.name
    return type(writer) is type(reader)


def _primitive(writer: Primitive, reader: Primitive, path: str) -> Decoder:
    if writer.kind != reader.kind and reader.kind not in PROMOTIONS.get(writer.kind, ()):
        raise SchemaMismatchError(_no_match(writer, reader, path))
    _check_logical(writer, reader, path)
    type_ = arrow_type(reader, path)
    if reader.logical == "decimal":
        return DecimalDecoder(path, None, type_)
    match writer.kind:
        case "null":
            return NullDecoder(path, type_)
        case "boolean":
            return BooleanDecoder(path)
        case "int" | "long":
            plain = {"int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64()}
            number = LongDecoder(path, writer.kind == "int", plain[reader.kind])
            if pa.types.is_temporal(type_):
                millis = (reader.logical or "").endswith("millis")
                return TimeDecoder(number, 1000 if millis else 1, type_)
            return number
        case "float" | "double":
            return FloatDecoder(path, 4 if writer.kind == "float" else 8, type_)
    return BytesDecoder(path, None, type_)


def _check_logical(writer: Primitive | Fixed, reader: Primitive | Fixed, path: str) -> None:
    """A number without an annotation may be read with one, and the other way; not as another unit."""
    if writer.logical == "decimal" or reader.logical == "decimal":
        writer_decimal = (writer.logical, writer.precision, writer.scale)
        if writer_decimal == (reader.logical, reader.precision, reader.scale):
            return
        if writer.logical is None or reader.logical is None:
            return
    elif writer.logical == reader.logical or writer.logical is None or reader.logical is None:
        return
    shown = [
        f"{part.logical}({part.precision}, {part.scale})" if part.logical == "decimal" else part.logical
        for part in (writer, reader)
    ]
    raise SchemaMismatchError(
        f"field {path!r} was written as {shown[0]} and is read as {shown[1]}: the numbers would mean something else. "
        "Keep the logical type of a field; add a field with the other one"
    )


def chosen_fields(writer: Record, reader: Record) -> dict[str, int]:
    """The reader's field for each one that was written: by name, or else by one of the reader's aliases."""
    names = {part.name: number for number, part in enumerate(reader.fields)}
    written_names = {part.name for part in writer.fields}
    for number, part in enumerate(reader.fields):
        if part.name not in written_names:
            for alias in part.aliases:
                names.setdefault(alias, number)
    written_by: dict[int, str] = {}
    for part in writer.fields:
        if part.name in names:
            written_by.setdefault(names[part.name], part.name)
    return {name: place for place, name in written_by.items()}


def _record(writer: Record, reader: Record, path: str) -> RecordDecoder:
    places = chosen_fields(writer, reader)
    decoders: list[tuple[Decoder, int | None]] = []
    for part in writer.fields:
        place, inner = places.get(part.name), _below(path, part.name)
        if place is None:
            decoders.append((_passed_over(part.type, inner), None))
        else:
            decoders.append((_resolve(part.type, reader.fields[place].type, inner), place))
    filled = {*places.values()}
    defaults = {
        number: _default(part, _below(path, part.name))
        for number, part in enumerate(reader.fields)
        if number not in filled
    }
    fields = [pa.field(part.name, arrow_type(part.type, _below(path, part.name))) for part in reader.fields]
    return RecordDecoder(path, decoders, defaults, fields)


def _passed_over(type_: AvroType, path: str) -> Decoder:
    """Reads what the reader does not have."""
    try:
        return _resolve(type_, type_, path)
    except SchemaMismatchError as error:
        raise SchemaMismatchError(
            f"field {path!r}, which the topic's schema does not have, was written as {describe(type_)}: {error}"
        ) from error


def _default(part: RecordField, path: str) -> pa.Array:
    if part.default is MISSING:
        raise SchemaMismatchError(
            f"field {path!r} was not written, and has no default in the schema that reads: give it one"
        )
    return constant(part.type, part.default, path)


def has_same_name(writer: Record | Enum | Fixed, reader: Record | Enum | Fixed) -> bool:
    """The names without their namespace, or one of the reader's aliases."""
    names = {reader.name, *reader.aliases}
    return writer.name in names or _short(writer.name) in {_short(name) for name in names}


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _no_match(writer: AvroType, reader: AvroType, path: str) -> str:
    subject = f"field {path!r}" if path else "the value"
    return f"{subject} was written as {describe(writer)}, which cannot be read as {describe(reader)}"


def least_bytes(type_: AvroType) -> int:
    """How many bytes a value takes at least."""
    match type_:
        case Primitive("null"):
            return 0
        case Primitive(kind):
            return {"float": 4, "double": 8}.get(kind, 1)
        case Fixed(_, _, size):
            return size
        case Record(_, _, fields):
            return sum(least_bytes(part.type) for part in fields)
    return 1
