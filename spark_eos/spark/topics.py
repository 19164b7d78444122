"""Which topics and partitions a source reads, and the columns its rows have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from spark_eos.errors import ConfigError, SchemaMismatchError, UnknownTopicOrPartitionError
from spark_eos.log.log import Log
from spark_eos.log.topics import missing_topic, schema_of
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.schema import kafka_schema, typed_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from spark_eos.protocol.state import State
    from spark_eos.spark.options import SourceOptions

__all__ = ["check_columns", "selected_partitions", "source_schema"]


def selected_partitions(options: SourceOptions, state: State) -> list[TopicPartition]:
    """The partitions that ``subscribe``, ``subscribePattern`` or ``assign`` mean now, in order.

    Raises `UnknownTopicOrPartitionError` for a topic or partition that is named and not there.
    """
    if options.assign is not None:
        wanted = []
        for name, numbers in options.assign.items():
            partitions = _partitions(options, state, name)
            for number in numbers:
                if number >= partitions:
                    raise UnknownTopicOrPartitionError(
                        f"assign names partition {number} of topic {name!r}, which has the partitions "
                        f"0 to {partitions - 1}"
                    )
                wanted.append(TopicPartition(name, number))
        return sorted(wanted)
    if options.subscribe is not None:
        names = list(options.subscribe)
    else:
        pattern = re.compile(options.subscribe_pattern or "")
        names = [name for name in state.topics if pattern.fullmatch(name)]
    return [
        TopicPartition(name, number)
        for name in sorted(names)
        for number in range(_partitions(options, state, name))
    ]


def source_schema(options: SourceOptions) -> StructType:
    """The columns of the rows; all topics of one source must have the same ones."""
    state = Log.shared(options.path, options.settings).state
    names = sorted({at.topic for at in selected_partitions(options, state)})
    schemas = {name: schema_of(state.topics[name]) for name in names}
    for name in names[1:]:
        if schemas[name] != schemas[names[0]]:
            raise SchemaMismatchError(
                f"topics {names[0]!r} and {name!r} have different columns and cannot be read by one source: read each "
                "with its own, or choose topics of one schema"
            )
    schema = schemas[names[0]] if names else None
    if schema is None and options.include_metadata:
        raise ConfigError(
            "option includeMetadata is for topics with a schema: a Kafka-shaped one returns topic, partition, offset "
            "and timestamp anyway. Leave it out"
        )
    if schema is not None and options.include_headers:
        raise ConfigError("option includeHeaders: a topic with a schema has no headers. Leave it out")
    if schema is None:
        return kafka_schema(include_headers=options.include_headers)
    return typed_schema(schema, include_metadata=options.include_metadata)


def check_columns(options: SourceOptions, wanted: StructType) -> None:
    """A schema that the user gave with ``.schema(...)`` may leave columns out, and nothing else."""
    known = {field.name: field.dataType for field in source_schema(options)}
    for field in wanted:
        if field.name not in known:
            raise SchemaMismatchError(
                f"the schema that was given names column {field.name!r}, which is not there; there are "
                f"{', '.join(known)}. Leave .schema(...) out, or name only these"
            )
        if field.dataType != known[field.name]:
            raise SchemaMismatchError(
                f"the schema that was given says column {field.name!r} is {field.dataType.simpleString()}, but it is "
                f"{known[field.name].simpleString()}. Leave .schema(...) out and cast afterwards"
            )


def _partitions(options: SourceOptions, state: State, name: str) -> int:
    topic = state.topics.get(name)
    if topic is None:
        raise missing_topic(state, name, options.path)
    return topic.partitions
