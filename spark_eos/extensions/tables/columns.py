"""The columns of a topic's table: those of its Parquet files, but for what only the log needs."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from spark_eos.errors import SchemaMismatchError
from spark_eos.log.data.parquet.columns import stored_schema
from spark_eos.log.topics import layout_of
from spark_eos.protocol.arrow_fields import SchemaField
from spark_eos.protocol.state import Topic

_REFUSED_IN_NAMES = re.compile(r"[ ,;{}()\n\t=]")
"""What Delta refuses in the name of a column."""


def table_schema(topic: Topic, versions: int) -> pa.Schema:
    """The columns of the topic's table when its schema had so many versions (0: Kafka-shaped)."""
    return stored_schema(layout_of(topic, versions))


def grows_into(topic: Topic, old: int, new: int) -> bool:
    """Whether a table with the columns of version ``new`` can have files of version ``old`` of the topic's schema.

    It can if columns were added since, and nothing else was changed: what a file does not have is null.
    """
    if old == new:
        return True
    if not 0 < old < new:
        return False
    shapes = {field.name: _shape(field) for field in layout_of(topic, new).fields}
    return all(shapes.get(field.name) == _shape(field) for field in layout_of(topic, old).fields)


def oldest_version(topic: Topic) -> int:
    """The oldest version of the topic's schema whose files a table can have that has its newest columns."""
    newest = len(topic.schemas)
    version = newest
    while version > 1 and grows_into(topic, version - 1, newest):
        version -= 1
    return version


def _shape(field: SchemaField) -> tuple[Any, ...]:
    """All of a field but whether it may be null: every column of a table may."""
    return (field.name, field.field_id, field.type, *map(_shape, field.children))


def check_delta_schema(schema: pa.Schema, place: str) -> None:
    """Raise `SchemaMismatchError`, which names the column, for what a Delta table cannot keep."""
    for field in schema:
        _check_field(field, field.name, place)


def _check_field(field: pa.Field, column: str, place: str) -> None:
    """Raise `SchemaMismatchError` for a name or type that Delta cannot keep."""
    if _REFUSED_IN_NAMES.search(field.name):
        raise SchemaMismatchError(
            f"column {column!r}: Delta refuses names with a space or one of ,;{{}}()= or a line break or tab; rename "
            f"it before the topic is published as {place}"
        )
    _check_type(field.type, column, place)


def _check_type(type_: pa.DataType, column: str, place: str) -> None:
    types = pa.types
    if types.is_struct(type_):
        if not type_.num_fields:
            raise SchemaMismatchError(
                f"column {column!r} is a struct without fields, which {place} cannot keep: drop it"
            )
        names: dict[str, str] = {}
        for number in range(type_.num_fields):
            field = type_.field(number)
            _check_field(field, f"{column}.{field.name}", place)
            earlier = names.setdefault(field.name.casefold(), field.name)
            if earlier != field.name:
                raise SchemaMismatchError(
                    f"column {column!r}: Delta ignores case, so its fields {earlier!r} and {field.name!r} have the "
                    f"same name; rename one before the topic is published as {place}"
                )
    elif types.is_map(type_):
        if _has_local_times(type_):
            raise SchemaMismatchError(
                f"column {column!r} is a map with timestamps without a time zone, which delta-rs cannot write: {place} "
                "cannot keep it. Give them a time zone, or use a list of structs"
            )
        _check_type(type_.key_type, f"{column}.key", place)
        _check_type(type_.item_type, f"{column}.value", place)
    elif types.is_list(type_):
        _check_type(type_.value_type, f"{column}.element", place)
    elif types.is_time(type_) or types.is_duration(type_):
        raise SchemaMismatchError(
            f"column {column!r} has the type {type_}, which Delta does not have: {place} cannot keep it. Store it as "
            "a number, or as a timestamp"
        )
    elif types.is_decimal(type_) and not 0 <= type_.scale <= type_.precision:
        raise SchemaMismatchError(
            f"column {column!r} has the type {type_}, whose scale Delta does not have: {place} cannot keep it. Cast it"
        )


def _has_local_times(type_: pa.DataType) -> bool:
    if pa.types.is_timestamp(type_):
        return type_.tz is None
    return any(_has_local_times(type_.field(at).type) for at in range(type_.num_fields))
