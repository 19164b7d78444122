"""Spark's own types beside Arrow's: what Arrow cannot say of a column is written into the topic's schema.

VARIANT, GEOMETRY, GEOGRAPHY, collations, char and varchar, the fields of an interval, user-defined types and the
metadata of fields have no Arrow type of their own. A column with one has Spark's description of it in the metadata of
its Arrow field (`SPARK_FIELD`); other columns have none, and their schema is what any client would have written.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as t

from spark_eos.errors import SchemaMismatchError
from spark_eos.log.data.layout import SPARK_FIELD, normalise_type
from spark_eos.spark.version import from_arrow_type, to_arrow_type

_INTERNAL = ("__", "spark.")
"""How the keys begin that Spark uses for itself in the metadata of fields: watermarks, aliases, padding."""


def annotated(field: t.StructField, stored: pa.Field) -> pa.Field:
    """``stored``, the Arrow field of a topic's column, with Spark's field beside it where Arrow's says less."""
    if _has_class(field.dataType.jsonValue()):
        raise SchemaMismatchError(
            f"column {field.name!r} has a user-defined type, {field.dataType.simpleString()}: it is a class of your "
            "program, which a topic cannot keep. Select its fields, or cast it to its plain type"
        )
    spark_field = t.StructField(
        field.name, _stored_type(field.dataType), True, _user_metadata(field.metadata)
    )
    if spark_field == t.StructField(field.name, of_arrow(stored.type), True):
        return stored
    text = json.dumps(spark_field.jsonValue(), separators=(",", ":"), sort_keys=True)
    return stored.with_metadata({SPARK_FIELD: text.encode()})


def restored(field: pa.Field) -> t.StructField:
    """The field that Spark gets for a topic's column: what `annotated` wrote down, else what Arrow's type says.

    Raises `SchemaMismatchError` if what is written there is no field of Spark, or one of other values.
    """
    text = (field.metadata or {}).get(SPARK_FIELD)
    if text is None:
        return t.StructField(field.name, of_arrow(field.type), field.nullable)
    spark_field = _parsed(field.name, text)
    if normalise_type(arrow_type(spark_field.dataType), field.name) != normalise_type(field.type, field.name):
        raise SchemaMismatchError(
            f"column {field.name!r} is {field.type}, but the topic's schema says that it is Spark's "
            f"{spark_field.dataType.simpleString()}, which has other values: create the topic again with a schema that "
            "fits"
        )
    return t.StructField(field.name, spark_field.dataType, field.nullable, spark_field.metadata)


def same_types(first: pa.Schema | None, second: pa.Schema | None) -> bool:
    """Whether topics with these schemas (None: Kafka-shaped) have the same columns, in Arrow and in Spark."""
    if first is None or second is None:
        return first is second
    return bool(first == second) and all(
        bare(restored(first_field).dataType) == bare(restored(second_field).dataType)
        for first_field, second_field in zip(first, second, strict=True)
        if (first_field.metadata or {}).get(SPARK_FIELD) != (second_field.metadata or {}).get(SPARK_FIELD)
    )


def as_spark(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """A stored column as Spark's Arrow type, in which nested values may be declared never null.

    Arrow's own cast refuses that if the value around them is null, where they are never looked at.
    """
    if column.type == type_ or not pa.types.is_nested(type_):
        return column.cast(type_)
    return pa.chunked_array([_viewed(chunk, type_) for chunk in column.chunks], type_)


def _viewed(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if array.type == type_:
        return array
    if pa.types.is_struct(type_):
        fields = [type_.field(number) for number in range(type_.num_fields)]
        children = [_viewed(array.field(number), field.type) for number, field in enumerate(fields)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
    if pa.types.is_list(type_):
        child = _viewed(array.values, type_.value_type)
    elif pa.types.is_map(type_):
        pairs = [_viewed(array.keys, type_.key_type), _viewed(array.items, type_.item_type)]
        child = pa.StructArray.from_arrays(pairs, fields=[type_.key_field, type_.item_field])
    else:
        return array.cast(type_)
    return pa.Array.from_buffers(
        type_, len(array), array.buffers()[:2], array.null_count, array.offset, children=[child]
    )


def _stored_type(type_: Any) -> Any:
    """The type as it is written down: all nested values may be null, as they are stored, and no internal metadata."""
    return _rebuilt(type_, _user_metadata)


def bare(type_: Any) -> Any:
    """The type without what may differ between two frames that are written to one topic."""
    return _rebuilt(type_, lambda _metadata: {})


def without(field: t.StructField, key: str) -> t.StructField:
    """The field without ``key`` in its metadata and, however deep, in that of the fields in it."""

    def kept(metadata: dict[str, Any] | None) -> dict[str, Any]:
        return {name: value for name, value in (metadata or {}).items() if name != key}

    return t.StructField(field.name, _rebuilt(field.dataType, kept), field.nullable, kept(field.metadata))


def _rebuilt(type_: Any, metadata: Any) -> Any:
    if isinstance(type_, t.ArrayType):
        return t.ArrayType(_rebuilt(type_.elementType, metadata), True)
    if isinstance(type_, t.MapType):
        return t.MapType(_rebuilt(type_.keyType, metadata), _rebuilt(type_.valueType, metadata), True)
    if isinstance(type_, t.StructType):
        return t.StructType(
            [
                t.StructField(
                    field.name, _rebuilt(field.dataType, metadata), True, metadata(field.metadata or {})
                )
                for field in type_
            ]
        )
    return type_


def _user_metadata(metadata: dict[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (metadata or {}).items() if not key.startswith(_INTERNAL)}


def plain_type(type_: Any, path: str) -> str | None:
    """Arrow's name of a type of Spark, if that says all of it; None if not."""
    try:
        arrow = normalise_type(arrow_type(type_), path)
        return str(arrow) if of_arrow(arrow) == type_ else None
    except (PySparkException, SchemaMismatchError):
        return None


def of_arrow(type_: pa.DataType) -> Any:
    """Spark's type of Arrow's; a timestamp without a time zone stays one."""
    return from_arrow_type(type_)


def arrow_type(type_: Any) -> pa.DataType:
    """Spark's type in Arrow, in UTC. Raises Spark's error for a type that Arrow does not have."""
    return to_arrow_type(type_)


@lru_cache(maxsize=4096)
def _parsed(name: str, text: bytes) -> t.StructField:
    try:
        value = json.loads(text)
        field = None if _has_class(value) else t.StructField.fromJson(value)
    except Exception as error:
        raise SchemaMismatchError(
            f"column {name!r}: Spark's type of it, as the topic's schema has it, cannot be made here: {error!r}. Read "
            "the topic with the Spark that wrote it, or a later one"
        ) from error
    if field is None:
        raise SchemaMismatchError(
            f"column {name!r}: the topic's schema says that it has a user-defined type, whose code is not taken from a "
            "log: read the topic with another client"
        )
    return field


def _has_class(value: Any) -> bool:
    """Whether JSON of a type has a user-defined one: pyspark would import its module, or unpickle its class."""
    if isinstance(value, dict):
        return value.get("type") == "udt" or any(_has_class(inner) for inner in value.values())
    return isinstance(value, list) and any(_has_class(inner) for inner in value)
