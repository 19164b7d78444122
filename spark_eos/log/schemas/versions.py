"""The next version of a topic's schema: which field is which, ids for new ones, and whether it may follow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import count

import pyarrow as pa

from spark_eos.errors import InvalidRequestError, SchemaMismatchError
from spark_eos.log.data.layout import (
    SPARK_FIELD,
    check_topic_schema,
    deserialise_schema,
    normalise_schema,
    serialise_schema,
)
from spark_eos.log.data.schema_limits import check_limits, check_size
from spark_eos.protocol.arrow_fields import FIELD_ID, SCHEMA_VERSION, SchemaField, fields_of
from spark_eos.protocol.schema_versions import check_follows, highest_id
from spark_eos.protocol.state import Topic

_SPARK_TYPES = {
    "int16": "short",
    "int32": "integer",
    "int64": "long",
    "double": "double",
    "timestamp[us]": "timestamp_ntz",
}
"""What Spark calls the types that a column may be widened to."""


def with_ids(topic: Topic) -> pa.Schema:
    """The newest schema of the topic, every field with its id. Raises `InvalidRequestError` if it is Kafka-shaped."""
    if not topic.schemas:
        raise InvalidRequestError(
            f"topic {topic.name!r} is Kafka-shaped: it has no schema that could change, and cannot get one"
        )
    stored = topic.schemas[-1]
    schema = normalise_schema(deserialise_schema(stored), ids=True)
    pairs = zip(schema, fields_of(stored).fields, strict=True)
    return pa.schema([_with_id_of(field, node) for field, node in pairs])


def new_ids(topic: Topic) -> Iterator[int]:
    """Ids that no field of any version of the topic's schema ever had."""
    return count(highest_id(topic.schemas) + 1)


def numbered(field: pa.Field, ids: Iterator[int]) -> pa.Field:
    """A new field, and all fields inside of it, with new ids. It may be null."""
    field = pa.field(field.name, field.type, True, {**_spark(field), FIELD_ID: b"%d" % next(ids)})
    return with_inner(field, [_inside(inner, field.type, ids) for inner in inner_fields(field.type)])


def by_name(current: pa.Schema, new: pa.Schema, ids: Iterator[int]) -> pa.Schema:
    """``new`` with the ids of the fields of ``current`` (`with_ids`) that have the same names, and new ones.

    What ``current`` says of Spark's types stays, unless ``new`` says it of another type. The version of both
    is normalised.
    """
    return pa.schema([*_siblings(current, new, ids)])


def next_version(topic: Topic, schema: pa.Schema) -> bytes | None:
    """The topic's next schema as it is stored; None if nothing changes. All fields of ``schema`` have ids.

    Raises `SchemaMismatchError`, naming the column, if it may not follow the newest one.
    """
    check_limits(schema)
    check_topic_schema(schema)
    before = fields_of(topic.schemas[-1]).fields
    version = len(topic.schemas) + 1
    stored = check_size(serialise_schema(schema.with_metadata({SCHEMA_VERSION: b"%d" % version})))
    if fields_of(stored).fields == before and _field_metadata(schema) == _field_metadata(
        deserialise_schema(topic.schemas[-1])
    ):
        return None
    try:
        check_follows(topic.schemas, stored)
    except ValueError as error:
        raise SchemaMismatchError(f"topic {topic.name!r}: {error}") from error
    return stored


def inner_fields(type_: pa.DataType) -> list[pa.Field]:
    """The fields of a struct, the element of a list, the key and the value of a map; none of another type."""
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    if pa.types.is_list(type_):
        return [type_.value_field]
    return [type_.field(n) for n in range(type_.num_fields)] if pa.types.is_struct(type_) else []


def with_inner(field: pa.Field, inner: list[pa.Field]) -> pa.Field:
    """``field`` with other fields inside of it, as `inner_fields` has them."""
    if pa.types.is_map(field.type):
        return field.with_type(pa.map_(*inner))
    if pa.types.is_list(field.type):
        return field.with_type(pa.list_(inner[0]))
    return field.with_type(pa.struct(inner)) if pa.types.is_struct(field.type) else field


def respelled(field: pa.Field, type_: pa.DataType) -> dict[bytes, bytes]:
    """What is kept of a column's metadata if it gets another type: Spark's description, if any, says the new one.

    Raises `SchemaMismatchError` for a description that only Spark can change.
    """
    kept = _spark(field)
    if not kept:
        return kept
    described, text = json.loads(kept[SPARK_FIELD]), str(type_)
    name = _SPARK_TYPES.get(text) or (
        pa.types.is_decimal(type_) and f"decimal({type_.precision},{type_.scale})"
    )
    if not name or not isinstance(described.get("type"), str):
        raise SchemaMismatchError(
            f"column {field.name!r} has a type of Spark that Arrow does not have: change it with Spark, by a write "
            "with option('mergeSchema', 'true')"
        )
    described = {**described, "type": name}
    return {SPARK_FIELD: json.dumps(described, separators=(",", ":"), sort_keys=True).encode()}


def _with_id_of(field: pa.Field, node: SchemaField) -> pa.Field:
    if node.field_id:
        field = field.with_metadata({**_spark(field), FIELD_ID: b"%d" % node.field_id})
    inner = zip(inner_fields(field.type), node.children, strict=True)
    return with_inner(field, [_with_id_of(*pair) for pair in inner])


def _inside(field: pa.Field, parent: pa.DataType, ids: Iterator[int]) -> pa.Field:
    """A field inside of a new one: those of structs have ids."""
    if pa.types.is_struct(parent):
        return numbered(field, ids)
    return with_inner(field, [_inside(inner, field.type, ids) for inner in inner_fields(field.type)])


def _siblings(current: Iterable[pa.Field], new: Iterable[pa.Field], ids: Iterator[int]) -> Iterator[pa.Field]:
    current_fields = {field.name: field for field in current}
    for field in new:
        before = current_fields.get(field.name)
        if before is None:
            yield numbered(field, ids).with_nullable(field.nullable)
        else:
            yield _matched(before, field, ids)


def _matched(before: pa.Field, field: pa.Field, ids: Iterator[int]) -> pa.Field:
    """``field`` with the ids and, where its type is the same, Spark's description that it had before."""
    described = _spark(before) if before.type == field.type else _spark(field)
    if _spark(before) and not described:
        described = respelled(before, field.type)
    id_metadata = {FIELD_ID: before.metadata[FIELD_ID]} if FIELD_ID in (before.metadata or {}) else {}
    old, new = inner_fields(before.type), inner_fields(field.type)
    field = field.with_metadata({**described, **id_metadata} or None)
    if pa.types.is_struct(before.type) and pa.types.is_struct(field.type):
        return with_inner(field, [*_siblings(old, new, ids)])
    if len(old) == len(new) and before.type.id == field.type.id:
        return with_inner(field, [_matched(*pair, ids) for pair in zip(old, new, strict=True)])
    return field


def _spark(field: pa.Field) -> dict[bytes, bytes]:
    text = (field.metadata or {}).get(SPARK_FIELD)
    return {} if text is None else {SPARK_FIELD: text}


def _field_metadata(schema: pa.Schema) -> list[dict[bytes, bytes]]:
    return [_spark(field) for field in schema]
