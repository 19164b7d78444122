"""The columns of a topic's table: those of its Parquet files, but for what only the log needs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from spark_eos.log.data.parquet.columns import stored_schema
from spark_eos.log.topics import layout_of
from spark_eos.protocol.arrow_fields import SchemaField
from spark_eos.protocol.state import Topic

__all__ = ["grows_into", "oldest_version", "table_schema"]


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
    now = {field.name: _shape(field) for field in layout_of(topic, new).fields}
    return all(now.get(field.name) == _shape(field) for field in layout_of(topic, old).fields)


def oldest_version(topic: Topic) -> int:
    """The oldest version of the topic's schema whose files a table can have that has its newest columns."""
    newest = len(topic.schemas)
    found = newest
    while found > 1 and grows_into(topic, found - 1, newest):
        found -= 1
    return found


def _shape(field: SchemaField) -> tuple[Any, ...]:
    """All of a field but whether it may be null: every column of a table may."""
    return (field.name, field.field_id, field.type, *map(_shape, field.children))
