"""The action that alters a topic: its partitions, its settings and its columns, in one entry."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from spark_eos.errors import SchemaMismatchError
from spark_eos.log.data.layout import SPARK_FIELD
from spark_eos.log.schemas.edits import Edits, check_keys, edited
from spark_eos.log.schemas.versions import by_name, new_ids, next_version, with_ids
from spark_eos.log.topics import (
    check_compactable,
    check_segments,
    check_values,
    config_value,
    kept_readable,
    schema_of,
)
from spark_eos.protocol.actions import AlterTopic
from spark_eos.protocol.state import Topic


def alteration(
    topic: Topic,
    partitions: int | None,
    config: Mapping[str, str | None] | None,
    new_schema: pa.Schema | None,
    edits: Edits,
) -> AlterTopic:
    """The action, given the topic as it is now.

    ``config`` are the settings that change (None: back to the default). ``new_schema`` are all columns, without ids, or
    None. Raises `SchemaMismatchError`, `ConfigError`, `InvalidRequestError`.
    """
    settings = None
    if config is not None:
        stays = {key: value for key, value in topic.config.items() if key not in config}
        settings = {**stays, **{key: value for key, value in config.items() if value is not None}}
    stored, schema = None, schema_of(topic)
    if new_schema is not None or edits:
        if new_schema is not None:
            schema, renamed = _all_columns(topic, new_schema), dict[str, str]()
        else:
            schema, renamed = edited(topic, edits)
        for setting in ("key.columns", "segment.bloom.filter.columns"):
            if not renamed or setting in (config or {}):
                continue
            names: tuple[str, ...] = config_value(topic, setting, tuple)
            following = tuple(renamed.get(name, name) for name in names)
            if following != names:
                settings = {**(topic.config if settings is None else settings), setting: ",".join(following)}
        check_keys(topic, schema, settings=settings)
        stored = next_version(topic, schema)
    if settings is not None:
        settings = kept_readable(topic.name, topic.config, settings)
        check_values(topic.name, settings, typed=bool(topic.schemas))
        check_compactable(topic.name, settings, typed=bool(topic.schemas))
    if stored is not None or any(name.startswith("segment.") for name in config or {}):
        check_segments(topic.name, topic.config if settings is None else settings, schema)
    stored_settings = None if settings is None else tuple(sorted(settings.items()))
    return AlterTopic(topic.name, topic.topic_id, partitions, stored_settings, stored)


def _all_columns(topic: Topic, new: pa.Schema) -> pa.Schema:
    """The columns ``new`` with the ids of those that are there; none of them may be missing."""
    current = with_ids(topic)
    for column in current:
        if column.name not in new.names:
            raise SchemaMismatchError(
                f"topic {topic.name!r}: column {column.name!r} is missing from the new schema. All columns are named "
                "in it; drop_columns and rename_columns are for those that go or get another name"
            )
        ours, theirs = _spark(column), _spark(new.field(column.name))
        if theirs not in (None, ours) and column.type == new.field(column.name).type:
            raise SchemaMismatchError(
                f"column {column.name!r} would become another type or other metadata in Spark (it has {ours!r}, the "
                f"new schema says {theirs!r}); leave the metadata of its field as it is"
            )
    return by_name(current, new, new_ids(topic))


def _spark(column: pa.Field) -> bytes | None:
    spark_type: bytes | None = (column.metadata or {}).get(SPARK_FIELD)
    return spark_type
