"""Which topics and partitions a source reads, and the columns its rows have."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from spark_eos.config.nearest import nearest
from spark_eos.errors import ConfigError, SchemaMismatchError, UnknownTopicOrPartitionError
from spark_eos.log.data.layout import deserialise_schema
from spark_eos.log.topics import schema_of, topic_of
from spark_eos.protocol.arrow_fields import fields_of
from spark_eos.protocol.schema_versions import differences
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.host import host
from spark_eos.spark.schema import kafka_schema, typed_schema
from spark_eos.spark.source.values import all_columns, check_free, codec_for, value_columns
from spark_eos.spark.source.where import Where, filter_of
from spark_eos.spark.types import same_types

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from spark_eos.log.log import Log
    from spark_eos.protocol.state import State, Topic
    from spark_eos.spark.options import SourceOptions


def selected_partitions(
    options: SourceOptions, state: State, gone_topics: Collection[str] = ()
) -> list[TopicPartition]:
    """The partitions that ``subscribe``, ``subscribePattern`` or ``assign`` mean now, in order.

    Raises `UnknownTopicOrPartitionError` for a topic or partition that is named and not there, unless it is one of
    the topics ``gone_topics``.
    """
    if options.assign is not None:
        selected = []
        for name, numbers in options.assign.items():
            if name in gone_topics and name not in state.topics:
                continue
            partitions = _partitions(options, state, name)
            for number in numbers:
                if number >= partitions:
                    raise UnknownTopicOrPartitionError(
                        f"assign names partition {number} of topic {name!r}, which has the partitions "
                        f"0 to {partitions - 1}"
                    )
                selected.append(TopicPartition(name, number))
        return sorted(selected)
    if options.subscribe is not None:
        names = list(options.subscribe)
    else:
        pattern = re.compile(options.subscribe_pattern or "")
        names = [name for name in state.topics if pattern.fullmatch(name)]
    names = [name for name in names if name in state.topics or name not in gone_topics]
    return [
        TopicPartition(name, number)
        for name in sorted(names)
        for number in range(_partitions(options, state, name))
    ]


def source_schema(options: SourceOptions) -> StructType:
    """The columns of the rows; all topics of one source must have the same ones, and those of option ``where``."""
    topics = _shown_topics(options)
    where_filter(options)
    names = [*topics]
    schemas = {name: schema_of(topic) for name, topic in topics.items()}
    decoded = [name for name in names if codec_for(options, topics[name]) is not None]
    if options.columns is not None:
        if names and not decoded:
            _check_undecoded(options, schemas[names[0]])
        return _chosen_of_all(options, options.columns, topics)
    for name in names[1:]:
        if decoded:
            same = _columns(options, topics[name]) == _columns(options, topics[names[0]])
        else:
            same = same_types(schemas[name], schemas[names[0]])
        if not same:
            raise SchemaMismatchError(
                f"topics {names[0]!r} and {name!r} have different columns and cannot be read by one source: read each "
                "with its own, or choose topics of one schema"
            )
    if not names:
        return kafka_schema(include_headers=options.include_headers)
    if decoded:
        return _columns(options, topics[names[0]])
    _check_undecoded(options, schemas[names[0]])
    if schemas[names[0]] is None and options.include_metadata:
        raise ConfigError(
            "option includeMetadata is for topics with a schema: a Kafka-shaped one returns topic, partition, offset "
            "and timestamp anyway. Leave it out"
        )
    if schemas[names[0]] is not None and options.include_headers:
        raise ConfigError("option includeHeaders: a topic with a schema has no headers. Leave it out")
    return _columns(options, topics[names[0]])


def where_filter(options: SourceOptions, schema: StructType | None = None) -> Where | None:
    """The filter of option ``where``. ``schema`` is that of the query, which JSON values without one need.

    Raises `ConfigError`, `SchemaMismatchError`.
    """
    if options.where is None:
        return None
    columns = {name: _all_columns(options, topic, schema) for name, topic in _shown_topics(options).items()}
    return filter_of(options.where, columns or {"(none is selected yet)": kafka_schema(include_headers=True)})


def _all_columns(options: SourceOptions, topic: Topic, schema: StructType | None) -> StructType:
    """What option ``columns`` could choose from; of JSON values without a schema, what the user gave."""
    if schema is not None and check_free(options, topic, schema):
        return schema
    return _columns(all_columns(options), topic)


def _shown_topics(options: SourceOptions) -> dict[str, Topic]:
    """The topics that are selected, by name, as of the moment that is read."""
    log = host().log(options.path, options.settings)
    past = shown_past(options, log)
    state = log.state if past is None else past.state
    # A query that may go on without a deleted topic has to know its columns first.
    gone_topics = () if options.fail_on_data_loss else options.named_topics
    names = sorted({at.topic for at in selected_partitions(options, state, gone_topics)})
    return {name: state.topics[name] for name in names}


def _chosen_of_all(options: SourceOptions, names: tuple[str, ...], topics: dict[str, Topic]) -> StructType:
    """The columns that option ``columns`` names, which the topics need not have more of in common."""
    if not topics:
        return _chosen_columns(
            names, kafka_schema(include_headers=True), "a Kafka-shaped topic (none is selected yet)"
        )
    schemas = {
        name: _chosen_columns(names, _columns(options, topics[name]), f"topic {name!r}") for name in topics
    }
    first, *other_topics = schemas
    for name in other_topics:
        if schemas[name] != schemas[first]:
            raise SchemaMismatchError(
                f"topics {first!r} and {name!r} have different types for option columns={','.join(names)} "
                f"({schemas[first].simpleString()} and {schemas[name].simpleString()}) and cannot be read by one "
                "source: read each with its own"
            )
    return schemas[first]


def _chosen_columns(names: tuple[str, ...], columns: StructType, of: str) -> StructType:
    from pyspark.sql.types import StructType

    fields = {field.name: field for field in columns}
    for name in names:
        if name not in fields:
            near = nearest(name, fields)
            hint = f"did you mean {near}? It" if near else "it"
            raise ConfigError(
                f"option columns names {name!r}, which {of} does not have; {hint} has {', '.join(fields)}"
            )
    return StructType([fields[name] for name in names])


def _check_undecoded(options: SourceOptions, schema: pa.Schema | None) -> None:
    """Refuse options about values where none is decoded."""
    kind = "kafka" if schema is None else "typed"
    if options.row_format not in (None, kind):
        raise ConfigError(
            f"option row.format={options.row_format} is for topics with value.format; "
            + (
                "this one has a schema of its own"
                if kind == "typed"
                else "values of this one are bytes without one"
            )
            + ". Leave the option out"
        )
    for name, is_given in (
        ("mode", options.mode != "failfast"),
        ("schema.registry.url", options.schema_registry_url is not None),
        ("schema.registry.basic.auth.user.info", options.schema_registry_basic_auth_user_info is not None),
    ):
        if is_given:
            raise ConfigError(
                f"option {name} is for values that are decoded: those of a topic with value.format, unless "
                "row.format=kafka. Leave it out"
            )


def shown_past(options: SourceOptions, log: Log) -> Log | None:
    """The log as of ``versionAsOf`` or ``timestampAsOf``; None: as it is now."""
    from spark_eos.log.time_travel import as_of, entry_at_time

    seq = options.version_as_of
    if options.timestamp_as_of_ms is not None:
        seq = entry_at_time(log, options.timestamp_as_of_ms)
    return None if seq is None else as_of(log, seq)


def check_columns(options: SourceOptions, schema: StructType) -> None:
    """A schema that the user gave with ``.schema(...)`` may leave columns out, and nothing else.

    Of JSON values without a schema, it says which columns there are.
    """
    if len({*schema.names}) < len(schema.names):
        raise SchemaMismatchError(
            f"the schema that was given names a column twice: {', '.join(schema.names)}. Leave .schema(...) out"
        )
    state = host().log(options.path, options.settings).state
    if options.row_format == "typed":
        gone_topics = options.named_topics
        names = {at.topic for at in selected_partitions(options, state, gone_topics)} & set(state.topics)
        if names and all(check_free(options, state.topics[name], schema) for name in names):
            return
    columns = source_schema(options)
    for field in schema:
        if field.name not in columns.names:
            raise SchemaMismatchError(
                f"the schema that was given names column {field.name!r}, which is not there; there are "
                f"{', '.join(columns.names)}. Leave .schema(...) out, or name only these"
            )
        given_type, own = field.dataType.simpleString(), columns[field.name]
        if given_type != own.dataType.simpleString():
            raise SchemaMismatchError(
                f"the schema that was given says column {field.name!r} is {given_type}, but it is "
                f"{own.dataType.simpleString()}. Leave .schema(...) out and cast afterwards"
            )
        if field.dataType != own.dataType or (own.nullable and not field.nullable):
            raise SchemaMismatchError(
                f"the schema that was given is another one than the topic's in what may be null in column "
                f"{field.name!r} ({given_type}), or in metadata of its fields. Leave .schema(...) out (option columns "
                "chooses columns as they are), or make the DataFrame again if the topic was altered since"
            )


class ColumnCheck:
    """Holds the columns that a query reads against those of its topics, which change while it runs.

    If the query reads all columns of a topic, as of any version of its schema, it was meant to read all, and each
    topic must have exactly these now. Otherwise the user chose them with ``.schema(...)`` or option ``columns``: then
    each topic must have at least these.
    """

    def __init__(self, options: SourceOptions, schema: StructType, where: Where | None = None) -> None:
        self._options = options
        self._schema = schema
        self._filtered = () if where is None else where.columns
        """The columns that option ``where`` names."""
        self._fitting: Mapping[str, tuple[int, object]] = {}
        """The version of the schema, and the settings, with which each topic was last found to fit, by its id."""

    def check(self, topics: Collection[Topic]) -> None:
        """Raise `SchemaMismatchError`, naming topic and columns, if a topic does not fit."""
        versions = {topic.topic_id: (len(topic.schemas), topic.config) for topic in topics}
        if versions == self._fitting:
            return  # Spark asks every few milliseconds.
        if all(check_free(self._options, topic, self._schema) for topic in topics):
            return
        whole = self._options.columns is None and any(
            _columns(self._options, topic, version) == self._schema
            for topic in topics
            for version in range(min(1, len(topic.schemas)), len(topic.schemas) + 1)
        )
        for topic in sorted(topics, key=lambda topic: topic.name):
            self._check(topic, whole=whole)
        self._fitting = versions

    def _check(self, topic: Topic, *, whole: bool) -> None:
        columns = _columns(self._options, topic)
        available = _columns(all_columns(self._options), topic) if self._filtered else columns
        own = {field.name: field.dataType for field in available}
        query_types = {field.name: field.dataType for field in (*self._filtered, *self._schema)}
        changes = self._changes(topic, self._fitting.get(topic.topic_id, (None,))[0], whole=whole)
        problems = [f"it has no column {name!r}" for name in query_types if name not in own]
        problems += [
            f"its column {name!r} is {own[name].simpleString()}, not {type_.simpleString()}"
            for name, type_ in query_types.items()
            if name in own and own[name] != type_
        ]
        problems += [
            f"its column {field.name!r} may be null now"
            for field in columns
            if field.nullable and field.name in self._schema.names and not self._schema[field.name].nullable
        ]
        if whole:
            problems += [
                f"its column {name!r} would be dropped" for name in columns.names if name not in query_types
            ]
        if not problems and not changes:
            return
        # The names and the types may be the same again, but of other columns.
        problems = problems or ["its columns are not those that the query was planned with"]
        planned = (
            version
            for version in range(len(topic.schemas) - 1, 0, -1)
            if _columns(self._options, topic, version) == self._schema
        )
        changes = changes or self._changes(topic, next(planned, None), whole=True)
        remedy = (
            f"Its schema was changed since the DataFrame was made: {'; '.join(changes)}. Make the DataFrame again and "
            "start the query again with the same checkpoint: it goes on with the new columns, and records from before "
            "have null in those that were added"
            if changes
            else "All topics of one source need the same columns: leave this topic out of the source, and read it with "
            "a source of its own"
        )
        raise SchemaMismatchError(
            f"the query cannot read topic {topic.name!r}: {'; '.join(problems)}. {remedy}. No record of it was passed "
            "over"
        )

    def _changes(self, topic: Topic, since: int | None, *, whole: bool) -> list[str]:
        """What became of the columns that the query reads since a version of the schema; nothing if it is None."""
        if since is None or since >= len(topic.schemas):
            return []
        before, after = fields_of(topic.schemas[since - 1]).fields, fields_of(topic.schemas[-1]).fields
        if not whole:
            names = {*self._schema.names, *(field.name for field in self._filtered)}
            before = tuple(field for field in before if field.name in names)
            ids = {field.field_id for field in before}
            after = tuple(field for field in after if field.field_id in ids)
        return differences(before, after)


def _columns(options: SourceOptions, topic: Topic, version: int | None = None) -> StructType:
    """The columns of the rows of a topic, in a version of its schema (default: the newest).

    Those are all that there are if option ``columns`` chooses among them.
    """
    codec = codec_for(options, topic)
    if codec is not None:
        return value_columns(options, topic, codec)
    schemas, choice = topic.schemas[:version], options.columns is not None
    return _columns_of(
        schemas[-1] if schemas else None,
        headers=options.include_headers or choice,
        metadata=options.include_metadata or choice,
    )


@lru_cache(maxsize=64)
def _columns_of(stored: bytes | None, *, headers: bool, metadata: bool) -> StructType:
    if stored is None:
        return kafka_schema(include_headers=headers)
    return typed_schema(deserialise_schema(stored), include_metadata=metadata)


def _partitions(options: SourceOptions, state: State, name: str) -> int:
    return topic_of(state, name, options.path).partitions
