"""Topics as the log's users see them: settings, layouts, and creation on demand."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from spark_eos.config.compression import Compression, level_option
from spark_eos.config.nearest import nearest
from spark_eos.config.reader import check_stored, stored_value
from spark_eos.config.topic import TOPIC
from spark_eos.errors import (
    ConfigError,
    CorruptRecordError,
    InvalidRecordError,
    SchemaMismatchError,
    UnknownTopicOrPartitionError,
)
from spark_eos.extending import added, needed
from spark_eos.log.data.layout import (
    Layout,
    deserialise_schema,
    normalise_schema,
    serialise_schema,
)
from spark_eos.log.data.parquet.columns import check_columns
from spark_eos.log.data.schema_limits import check_limits, check_size
from spark_eos.protocol.actions import CreateTopic
from spark_eos.protocol.actions.topics import check_name, check_partitions, names_of_topics
from spark_eos.protocol.rules.gone import gone
from spark_eos.protocol.state import State, Topic

if TYPE_CHECKING:
    from spark_eos.log.values.codec import ValueCodec, ValueFormat


T = TypeVar("T")


def new_topic(
    name: str,
    partitions: int = 1,
    config: Mapping[str, object] | None = None,
    schema: pa.Schema | None = None,
    topic_id: str | None = None,
) -> CreateTopic:
    """The action that creates a topic, with a fresh topic id unless one is given.

    Raises `ConfigError`, `SchemaMismatchError`, `InvalidRequestError`.
    """
    check_name(name)
    check_partitions(name, partitions)
    settings = check_stored(TOPIC, config or {})
    check_values(name, settings, typed=schema is not None)
    check_compactable(name, settings, typed=schema is not None)
    stored = normal = None
    if schema is not None:
        normal = own_schema(schema)
        check_key_columns(name, settings, normal)
        stored = check_size(serialise_schema(normal))
    elif settings.get("key.columns"):
        raise ConfigError(
            f"topic {name!r}: key.columns needs a schema; a Kafka-shaped topic has its key column"
        )
    check_segments(name, settings, normal)
    return CreateTopic(
        name, topic_id or str(uuid.uuid4()), partitions, tuple(sorted(settings.items())), stored
    )


def check_segments(topic: str, settings: Mapping[str, str], schema: pa.Schema | None) -> None:
    """Raise unless files as the settings ``segment...`` say can have ``schema`` (None: key and value).

    `SchemaMismatchError` names a column that Parquet does not have, `ConfigError` one that can have no bloom filter.
    """
    columns = {"key": pa.binary(), "value": pa.binary()}
    if schema is not None:
        columns = {field.name: field.type for field in schema}
    for name in setting_of(topic, settings, "segment.bloom.filter.columns", tuple):
        where = f"topic {topic!r}, segment.bloom.filter.columns"
        if name not in columns:
            raise ConfigError(f"{where}: there is no column {name!r} for it; it has {', '.join(columns)}")
        if pa.types.is_floating(columns[name]):
            raise ConfigError(
                f"{where}: column {name!r} is {columns[name]}, which has no bloom filter: -0.0 equals 0.0, but would "
                "not be found by it"
            )
        if pa.types.is_nested(columns[name]) or pa.types.is_boolean(columns[name]):
            raise ConfigError(
                f"{where}: column {name!r} is {columns[name]}, which has no bloom filter in Parquet"
            )
    if schema is None or setting_of(topic, settings, "segment.format", str) != "parquet":
        return
    try:
        check_columns(schema)
    except SchemaMismatchError as error:
        raise SchemaMismatchError(f"topic {topic!r}, segment.format=parquet: {error}") from error


def check_values(topic: str, settings: Mapping[str, str], *, typed: bool) -> None:
    """Raise `ConfigError` unless the settings about values fit together (``value.format`` and what belongs to it)."""
    names = [name for name in settings if name.startswith(("value.", "schema.registry.")) and settings[name]]
    if not names:
        return
    format_ = settings.get("value.format", "bytes")
    if format_ != "bytes":
        _format(topic, format_).check(topic, settings, typed=typed)
        return
    for name in names:
        if name != "value.format":
            raise ConfigError(f"topic {topic!r}: {name} has no effect without value.format; set that, too")


def _format(topic: str, name: str) -> ValueFormat:
    """Raises `ConfigError` where the extension is missing that has it."""
    format_: ValueFormat = needed("value_formats", name, f"topic {topic!r}: value.format={name}")
    return format_


def codec_of(
    topic: Topic, user_info: str | None = None, registry_url: str | None = None
) -> ValueCodec | None:
    """What makes values of the topic from bytes, and bytes from values; None if they have no format.

    ``registry_url`` is used instead of the topic's own, and ``user_info`` (``user:password``) with either. Raises
    `ConfigError` if a schema of the topic cannot be used.
    """
    format_ = topic.config.get("value.format", "bytes")
    if format_ == "bytes":
        return None
    return _format(topic.name, format_).codec_of(topic, user_info, registry_url)


def kept_readable(topic: str, old: Mapping[str, str], new: dict[str, str]) -> dict[str, str]:
    """The settings after a change, with what the records that are there are read with. Raises `ConfigError`."""
    format_ = old.get("value.format", "bytes")
    return new if format_ == "bytes" else _format(topic, format_).kept(topic, old, new)


def with_registered(topic: str, stays: Mapping[str, str], new: Mapping[str, object]) -> Mapping[str, object]:
    """The settings ``new``, and of values in a schema registry what that knows: the schema, or its id.

    ``stays`` are those that the topic has and keeps. Raises `ConfigError`, `SchemaRegistryError`.
    """
    name = str({**stays, **new}.get("value.format", "bytes"))
    # A format that there is not is refused later, with all settings.
    format_: ValueFormat | None = None if name == "bytes" else added("value_formats", name)
    return new if format_ is None else format_.registered(topic, stays, new)


def own_schema(schema: pa.Schema) -> pa.Schema:
    """A schema that a user gave, as it is stored. Raises `SchemaMismatchError` unless a topic can have it."""
    check_limits(schema)
    return normalise_schema(schema)


def config_value(topic: Topic, name: str, kind: type[T]) -> T:
    """A setting of the topic, or its default, as a value of that kind. Raises `ConfigError` if a stored one is none."""
    return setting_of(topic.name, topic.config, name, kind)


def setting_of(topic: str, settings: Mapping[str, str], name: str, kind: type[T]) -> T:
    """The same for settings that a topic may get."""
    return stored_value(TOPIC, settings, name, kind, f"topic {topic!r}")


def compression_of_topic(topic: Topic, producers: Compression | None) -> Compression | None:
    """How new records of the topic are compressed: as its ``compression.type`` says, or as the producer chose."""
    codec = config_value(topic, "compression.type", str)
    return producers if codec == "producer" else compression_at_level(topic, codec)


def compression_at_level(topic: Topic, codec: str) -> Compression | None:
    """That codec (``none``: None), at the level that the topic has for it."""
    level = None if codec == "none" else config_value(topic, level_option(codec), int)
    return Compression.of(codec, level)


def key_columns(topic: Topic) -> tuple[str, ...]:
    """The columns that choose the partition: ``key``, or those of the setting ``key.columns``."""
    if not topic.schemas:
        return ("key",)
    return config_value(topic, "key.columns", tuple)


def is_compacted(topic: Topic) -> bool:
    """Whether a topic's records are compacted: ``cleanup.policy``, and that there are keys."""
    return "compact" in config_value(topic, "cleanup.policy", tuple) and bool(key_columns(topic))


def check_compactable(topic: str, settings: Mapping[str, str], *, typed: bool) -> None:
    """Raise `ConfigError` if the topic is to be compacted, but its columns have no keys."""
    if not typed or setting_of(topic, settings, "key.columns", tuple):
        return
    if "compact" in setting_of(topic, settings, "cleanup.policy", tuple):
        raise ConfigError(
            f"topic {topic!r}: cleanup.policy={settings['cleanup.policy']} keeps the newest row of each key, and no "
            "column is one: set key.columns as well, or leave it at delete"
        )


def max_message_bytes(topic: Topic) -> int | None:
    """Longest record, in bytes. Topics with a schema have no limit unless one was set for them."""
    if topic.schemas and "max.message.bytes" not in topic.config:
        return None
    return config_value(topic, "max.message.bytes", int)


def layout_of(topic: Topic, version: int | None = None) -> Layout:
    """The stored columns of the topic in a schema version (default: the newest)."""
    newest = len(topic.schemas)
    version = newest if version is None else version
    if version == 0:
        return Layout.kafka()
    with _naming_topic(topic):
        return _typed(topic.schemas[version - 1], version)


def schema_of(topic: Topic) -> pa.Schema | None:
    """The newest Arrow schema of the topic, or None if it is Kafka-shaped.

    Raises `CorruptRecordError`, naming the topic, for one that cannot be read.
    """
    with _naming_topic(topic):
        return deserialise_schema(topic.schemas[-1]) if topic.schemas else None


def has_columns(topic: Topic) -> InvalidRecordError:
    """The error for a record that is sent by itself to a topic with columns."""
    columns = list(schema_of(topic) or ())
    shown = ", ".join(f"{field.name}: {field.type}" for field in columns)
    rows = ", ".join(f"{field.name!r}: [...]" for field in columns)
    return InvalidRecordError(
        f"topic {topic.name!r} has the columns {shown}, and send is for topics without: send rows, as "
        f"send_arrow({topic.name!r}, pyarrow.table({{{rows}}}))"
    )


def schema_error(topic: Topic) -> str | None:
    """Why rows of the topic can be neither read nor written; None if they can, as for every topic of this version."""
    try:
        for version in range(1, len(topic.schemas) + 1):
            layout_of(topic, version)
    except CorruptRecordError as error:
        return str(error)
    return None


@contextmanager
def _naming_topic(topic: Topic) -> Iterator[None]:
    """Errors of a schema that is stored say of which topic it is: the rules take types that no client writes."""
    try:
        yield
    except (CorruptRecordError, SchemaMismatchError, UnicodeDecodeError) as error:
        raise CorruptRecordError(
            f"the schema of topic {topic.name!r} cannot be used: {error}. Other topics are not affected; "
            "delete this one and create it again with another schema"
        ) from error


def missing_topic(state: State, name: str, url: str) -> UnknownTopicOrPartitionError:
    """The error for a topic that is not there; reading never creates one."""
    near = nearest(name, state.topics)
    hint = f"did you mean {near!r}?" if near else f"its topics are: {names_of_topics(state)}"
    return UnknownTopicOrPartitionError(f"the log {url} has no topic {name!r}{gone(state, name)}; {hint}")


def topic_of(state: State, name: str, url: str) -> Topic:
    """The topic in that state. Raises `UnknownTopicOrPartitionError` (`missing_topic`)."""
    topic = state.topics.get(name)
    if topic is None:
        raise missing_topic(state, name, url)
    return topic


def unless_exists(state: State, action: CreateTopic) -> tuple[CreateTopic, ...]:
    """The action, unless a topic of that name was created in the meantime."""
    return () if action.name in state.topics else (action,)


@lru_cache(maxsize=256)
def _typed(schema: bytes, version: int) -> Layout:
    return Layout.typed(deserialise_schema(schema), version)


def check_key_columns(name: str, settings: Mapping[str, str], schema: pa.Schema) -> None:
    """Raise `ConfigError` unless the setting ``key.columns`` names columns of the schema."""
    for column in setting_of(name, settings, "key.columns", tuple):
        if column not in schema.names:
            raise ConfigError(
                f"topic {name!r}: key.columns names {column!r}, which is no column of its schema "
                f"({', '.join(schema.names)})"
            )
