"""``mergeSchema``: a topic's columns and those of a frame together, as Delta merges them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as t

from spark_eos.errors import ConfigError, SchemaMismatchError
from spark_eos.log.schemas.edits import check_keys
from spark_eos.log.schemas.versions import by_name, new_ids, next_version, with_ids
from spark_eos.log.topics import check_segments, schema_of
from spark_eos.protocol.actions import AlterTopic
from spark_eos.protocol.replace import replace
from spark_eos.protocol.widening import widens, widens_by_itself
from spark_eos.spark.schema import topic_schema, typed_schema
from spark_eos.spark.types import bare, plain_type, restored

if TYPE_CHECKING:
    from spark_eos.log.log import Log
    from spark_eos.protocol.actions import Action
    from spark_eos.protocol.state import State, Topic


def merged_topic(topic: Topic, frame: t.StructType, *, by_column: bool) -> Topic:
    """The topic as it will be with the columns that ``frame`` has besides its own, and the wider types.

    ``by_column``: the column ``topic`` says where rows go, and is none of the topic's. Raises `SchemaMismatchError`,
    naming the column, if the two cannot be merged, and `ConfigError` for a Kafka-shaped topic.
    """
    if not topic.schemas:
        raise ConfigError(
            f"option mergeSchema: topic {topic.name!r} is Kafka-shaped, and has no columns of its own. Leave it out"
        )
    stored = _next(topic, frame, by_column=by_column)
    return topic if stored is None else replace(topic, schemas=(*topic.schemas, stored))


def merge_columns(log: Log, topic: Topic, frame: t.StructType, *, by_column: bool) -> Topic:
    """The same, written down. Nothing is written if the topic has all columns.

    It is an entry of its own, before any row: the columns of a write that fails afterwards stay, and are null.
    """
    if merged_topic(topic, frame, by_column=by_column) is topic:
        return topic

    def propose(state: State) -> tuple[Action, ...]:
        current = state.topics.get(topic.name)
        if current is None or current.topic_id != topic.topic_id:
            return ()  # What is written next says that the topic is gone.
        after = merged_topic(current, frame, by_column=by_column)
        return (
            ()
            if after is current
            else (AlterTopic(current.name, current.topic_id, schema=after.schemas[-1]),)
        )

    log.commit(propose, writer="mergeSchema")
    return log.topic(topic.name)


def _next(topic: Topic, frame: t.StructType, *, by_column: bool) -> bytes | None:
    """The topic's next schema; None if it has all columns."""
    current = with_ids(topic)
    current_names = {*current.names}
    topic_columns = typed_schema(schema_of(topic))
    frame_schema: pa.Schema = topic_schema(frame, by_column=by_column and "topic" not in current_names)
    columns = t.StructType([field for field in frame if field.name in frame_schema.names])
    merged_schema = topic_schema(merged(topic_columns, columns, topic.name))
    nullable = [
        field.with_nullable(current.field(field.name).nullable) if field.name in current_names else field
        for field in merged_schema
    ]
    schema = by_name(current, pa.schema(nullable), new_ids(topic))
    check_keys(topic, schema)
    stored = next_version(topic, schema)
    if stored is not None:
        check_segments(topic.name, topic.config, schema)
    return stored


def merged(own: t.StructType, frame: t.StructType, topic: str, inside: str = "") -> t.StructType:
    """The fields of ``own``, with the wider type where ``frame`` has one, and then those that only ``frame`` has.

    Raises `SchemaMismatchError`, naming the column, where neither type holds the values of the other one.
    """
    frame_fields = {field.name: field for field in frame}
    fields = [
        t.StructField(
            field.name,
            _type(field.dataType, frame_fields[field.name].dataType, topic, f"{inside}{field.name}"),
            field.nullable,
            field.metadata,
        )
        if field.name in frame_fields
        else field
        for field in own
    ]
    new = [t.StructField(field.name, field.dataType, True, field.metadata) for field in frame]
    own_names = {field.name for field in own}
    return t.StructType([*fields, *(field for field in new if field.name not in own_names)])


def _type(own_type: Any, frame_type: Any, topic: str, path: str) -> Any:
    if bare(own_type) == bare(frame_type):
        return own_type
    if isinstance(own_type, t.StructType) and isinstance(frame_type, t.StructType):
        return merged(own_type, frame_type, topic, f"{path}.")
    if isinstance(own_type, t.ArrayType) and isinstance(frame_type, t.ArrayType):
        return t.ArrayType(
            _type(own_type.elementType, frame_type.elementType, topic, f"{path}.element"), True
        )
    if (
        isinstance(own_type, t.MapType)
        and isinstance(frame_type, t.MapType)
        and bare(own_type.keyType) == bare(frame_type.keyType)
    ):
        return t.MapType(
            own_type.keyType, _type(own_type.valueType, frame_type.valueType, topic, f"{path}.value"), True
        )
    before, after = plain_type(own_type, path), plain_type(frame_type, path)
    if before is not None and after is not None:
        if widens_by_itself(before, after):
            return frame_type
        if widens(after, before):
            return own_type
        if widens(before, after):
            raise SchemaMismatchError(
                f"column {path!r} is {frame_type.simpleString()}, topic {topic!r} has {own_type.simpleString()}: "
                "mergeSchema does not turn whole numbers into other ones. Cast the column, or widen it with "
                "Admin.alter_topic(widen_columns=...) first"
            )
    raise SchemaMismatchError(
        f"column {path!r} is {frame_type.simpleString()}, topic {topic!r} has {own_type.simpleString()}, and neither "
        "type holds the values of the other: cast the column, or give it another name"
    )


def check_types(frame: t.StructType, typed: pa.Schema, topic: str | None) -> None:
    """Raise `SchemaMismatchError` if a column would come back as another type of Spark than it is written with.

    Arrow's types are the same by then. Nullability and metadata may differ: a new job builds its expressions again.
    """
    stored = {field.name: field for field in typed}
    for field in frame:
        if field.name in stored:
            own = restored(stored[field.name]).dataType
            if bare(own) != bare(field.dataType) and not takes(own, field.dataType):
                raise SchemaMismatchError(
                    f"column {field.name!r} is {field.dataType.simpleString()}, but "
                    f"{'the topic' if topic is None else f'topic {topic!r}'} has {own.simpleString()}, and it would be "
                    "read as such; cast it, or write to another topic"
                )


def takes(own_type: Any, frame_type: Any) -> bool:
    """Whether a column of Spark's type ``own_type`` can have the values of ``frame_type``: it is not narrower."""
    try:
        return bool(bare(_type(own_type, frame_type, "", "")) == bare(own_type))
    except SchemaMismatchError:
        return False
