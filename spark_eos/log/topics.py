"""Topics as the log's users see them: settings, layouts, and creation on demand."""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache

import pyarrow as pa

from spark_eos.errors import (
    ConfigError,
    CorruptRecordError,
    SchemaMismatchError,
    UnknownTopicOrPartitionError,
)
from spark_eos.log.compression import LEVELS, Levels, chosen, level_setting
from spark_eos.log.data.layout import (
    Layout,
    deserialise_schema,
    normalise_schema,
    serialise_schema,
)
from spark_eos.log.data.schema_limits import check_limits, check_size
from spark_eos.protocol.actions import CreateTopic
from spark_eos.protocol.state import State, Topic

__all__ = [
    "TOPIC_CONFIGS",
    "check_config",
    "codec_of_topic",
    "config_value",
    "key_columns",
    "layout_of",
    "max_message_bytes",
    "missing_topic",
    "new_topic",
    "own_schema",
    "schema_error",
    "schema_of",
    "unless_exists",
]

TOPIC_CONFIGS: dict[str, str] = {
    "cleanup.policy": "delete",
    "compression.lz4.level": str(LEVELS["lz4"].default),
    "compression.type": "producer",
    "compression.zstd.level": str(LEVELS["zstd"].default),
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "key.columns": "",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
}
"""Settings of a topic and their defaults. All but ``key.columns`` (the columns of a topic with a schema
whose values choose the partition, separated by commas) are Kafka's."""

_INTEGERS = frozenset(name for name in TOPIC_CONFIGS if name.endswith((".ms", ".bytes")))
_LEVELS = {level_setting(codec): levels for codec, levels in LEVELS.items()}
_CHOICES = {
    "cleanup.policy": {"delete", "compact", "compact,delete", "delete,compact"},
    "compression.type": {"producer", "none", "lz4", "zstd"},
    "message.timestamp.type": {"CreateTime"},
}


def new_topic(
    name: str,
    partitions: int = 1,
    config: Mapping[str, object] | None = None,
    schema: pa.Schema | None = None,
    topic_id: str | None = None,
) -> CreateTopic:
    """The action that creates a topic, with a fresh topic id unless one is given.

    Raises `ConfigError`, `SchemaMismatchError`.
    """
    settings = check_config(config or {})
    stored = None
    if schema is not None:
        normal = own_schema(schema)
        _check_key_columns(name, settings, normal)
        stored = check_size(serialise_schema(normal))
    elif settings.get("key.columns"):
        raise ConfigError(
            f"topic {name!r}: key.columns needs a schema; a Kafka-shaped topic has its key column"
        )
    return CreateTopic(
        name, topic_id or str(uuid.uuid4()), partitions, tuple(sorted(settings.items())), stored
    )


def own_schema(schema: pa.Schema) -> pa.Schema:
    """A schema that a user gave, as it is stored. Raises `SchemaMismatchError` unless a topic can have it."""
    check_limits(schema)
    return normalise_schema(schema)


def check_config(config: Mapping[str, object]) -> dict[str, str]:
    """The settings as text. Raises `ConfigError` for an unknown one (with the nearest known) or a bad value."""
    checked = {}
    for name, value in config.items():
        if name not in TOPIC_CONFIGS:
            near = difflib.get_close_matches(name, TOPIC_CONFIGS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(TOPIC_CONFIGS)}"
            raise ConfigError(f"unknown topic setting {name!r}{hint}")
        text = str(value)
        if name in _INTEGERS and not _is_integer(text):
            raise ConfigError(f"topic setting {name!r} must be a whole number from -1 up, not {text!r}")
        if name.startswith("message.timestamp.") and name in _INTEGERS and int(text) < 0:
            raise ConfigError(f"topic setting {name!r} must be a whole number from 0 up, not {text!r}")
        if name in _LEVELS and not _is_level(text, _LEVELS[name]):
            bounds = f"from {_LEVELS[name].lowest} to {_LEVELS[name].highest}"
            raise ConfigError(f"topic setting {name!r} must be a whole number {bounds}, not {text!r}")
        if name in _CHOICES and text not in _CHOICES[name]:
            raise ConfigError(f"topic setting {name!r} must be one of {sorted(_CHOICES[name])}, not {text!r}")
        if name == "min.cleanable.dirty.ratio" and not _is_ratio(text):
            raise ConfigError(f"topic setting {name!r} must be a number from 0 to 1, not {text!r}")
        checked[name] = text
    return checked


def config_value(topic: Topic, name: str) -> str:
    """A setting of the topic, or its default."""
    return topic.config.get(name, TOPIC_CONFIGS[name])


def codec_of_topic(topic: Topic, producers: str | None) -> str | None:
    """How new records of the topic are compressed, as `spark_eos.log.compression` has it.

    As its ``compression.type`` says, at its own level; with ``producer`` as the producer chose, at the producer's.
    """
    codec = config_value(topic, "compression.type")
    return producers if codec == "producer" else chosen(codec, {**TOPIC_CONFIGS, **topic.config})


def key_columns(topic: Topic) -> tuple[str, ...]:
    """The columns that choose the partition: ``key``, or those of the setting ``key.columns``."""
    if not topic.schemas:
        return ("key",)
    return tuple(name.strip() for name in config_value(topic, "key.columns").split(",") if name.strip())


def max_message_bytes(topic: Topic) -> int | None:
    """Longest record, in bytes. Topics with a schema have no limit unless one was set for them."""
    if topic.schemas and "max.message.bytes" not in topic.config:
        return None
    return int(config_value(topic, "max.message.bytes"))


def layout_of(topic: Topic, version: int | None = None) -> Layout:
    """The stored columns of the topic in a schema version (default: the newest)."""
    newest = len(topic.schemas)
    version = newest if version is None else version
    if version == 0:
        return Layout.kafka()
    with _named(topic):
        return _typed(topic.schemas[version - 1], version)


def schema_of(topic: Topic) -> pa.Schema | None:
    """The newest Arrow schema of the topic, or None if it is Kafka-shaped.

    Raises `CorruptRecordError`, naming the topic, for one that cannot be read.
    """
    with _named(topic):
        return deserialise_schema(topic.schemas[-1]) if topic.schemas else None


def schema_error(topic: Topic) -> str | None:
    """Why rows of the topic can be neither read nor written; None if they can, as for every topic of this version."""
    try:
        for version in range(1, len(topic.schemas) + 1):
            layout_of(topic, version)
    except CorruptRecordError as error:
        return str(error)
    return None


@contextmanager
def _named(topic: Topic) -> Iterator[None]:
    """Errors of a schema that is stored, which older versions let be anything, say of which topic it is."""
    try:
        yield
    except (CorruptRecordError, SchemaMismatchError, UnicodeDecodeError) as error:
        raise CorruptRecordError(
            f"the schema of topic {topic.name!r} cannot be used: {error}. Other topics are not affected; "
            "delete this one and create it again with another schema"
        ) from error


def missing_topic(state: State, name: str, url: str) -> UnknownTopicOrPartitionError:
    """The error for a topic that is not there; reading never creates one."""
    near = difflib.get_close_matches(name, list(state.topics), 1)
    hint = (
        f"did you mean {near[0]!r}?"
        if near
        else f"its topics are: {', '.join(sorted(state.topics)) or 'none'}"
    )
    return UnknownTopicOrPartitionError(f"the log {url} has no topic {name!r}; {hint}")


def unless_exists(state: State, action: CreateTopic) -> tuple[CreateTopic, ...]:
    """The action, unless a topic of that name was created in the meantime."""
    return () if action.name in state.topics else (action,)


@lru_cache(maxsize=256)
def _typed(schema: bytes, version: int) -> Layout:
    return Layout.typed(deserialise_schema(schema), version)


def _check_key_columns(name: str, settings: Mapping[str, str], schema: pa.Schema) -> None:
    for column in (part.strip() for part in settings.get("key.columns", "").split(",")):
        if column and column not in schema.names:
            raise ConfigError(
                f"topic {name!r}: key.columns names {column!r}, which is no column of its schema "
                f"({', '.join(schema.names)})"
            )


def _is_integer(text: str) -> bool:
    return text.lstrip("-").isdecimal() and int(text) >= -1


def _is_level(text: str, levels: Levels) -> bool:
    return text.removeprefix("-").isdecimal() and levels.lowest <= int(text) <= levels.highest


def _is_ratio(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False
