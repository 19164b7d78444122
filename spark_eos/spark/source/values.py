"""Values of a topic with ``value.format`` as columns of a source."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_eos.errors import ConfigError, RecordDeserializationError, SchemaMismatchError
from spark_eos.log.data.arrow import array_from_numpy, constant_array
from spark_eos.log.data.schema_limits import check_limits
from spark_eos.log.topics import codec_of
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.schema import HEADERS, METADATA, READ_TIMESTAMP
from spark_eos.spark.types import as_spark, of_arrow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.types import StructType

    from spark_eos.log.data.planner import Fetch
    from spark_eos.log.data.records import Records
    from spark_eos.log.values.codec import ValueCodec
    from spark_eos.log.values.problems import Problems
    from spark_eos.protocol.state import Topic
    from spark_eos.spark.options import SourceOptions

CORRUPT = "_corrupt_record"
"""The column of records whose value cannot be decoded, by Spark's own name for it."""

CORRUPT_RECORD = pa.struct(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", READ_TIMESTAMP),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("error", pa.string()),
    ]
)
"""The whole record, so that it can be kept elsewhere, and why it was not decoded."""

_KEY = pa.field("_key", pa.binary())
_HEADERS = pa.field("_headers", HEADERS)


def codec_for(options: SourceOptions, topic: Topic) -> ValueCodec | None:
    """What decodes the values of the topic; None if its rows are read as they are stored."""
    if options.row_format == "kafka" or topic.schemas:
        return None
    codec = codec_of(topic, options.schema_registry_basic_auth_user_info, options.schema_registry_url)
    if codec is None or (codec.fields is None and options.row_format is None):
        return None
    return codec


def added_columns(options: SourceOptions) -> list[pa.Field]:
    """The columns beside those of the value."""
    choice = options.columns is not None  # They are among what can be chosen.
    added = [_KEY, *METADATA] if options.include_metadata or choice else []
    if options.include_headers or choice:
        added.append(_HEADERS)
    if options.mode == "permissive":
        added.append(pa.field(CORRUPT, CORRUPT_RECORD))
    return added


def all_columns(options: SourceOptions) -> SourceOptions:
    """The options with which a source has all columns that there are."""
    return replace(options, columns=())


def value_columns(options: SourceOptions, topic: Topic, codec: ValueCodec) -> StructType:
    """The columns of rows. Raises `SchemaMismatchError`, `ConfigError` for a topic that has none."""
    from pyspark.sql.types import StructField, StructType

    own = codec.fields
    if own is None:
        raise ConfigError(
            f"option row.format=typed: the JSON values of topic {topic.name!r} have no schema to take columns from. "
            "Give the columns with .schema(...), or set value.schema of the topic"
        )
    fields = [*own, *added_columns(options)]
    _check_names(topic, fields)
    return StructType([StructField(field.name, of_arrow(field.type), True) for field in fields])


def check_free(options: SourceOptions, topic: Topic, schema: StructType) -> bool:
    """Whether the user's columns are those of JSON values without a schema. Raises `SchemaMismatchError`."""
    codec = codec_for(options, topic)
    if codec is None or codec.fields is not None:
        return False
    from spark_eos.log.values.json_values import to_column
    from spark_eos.spark.schema import arrow_schema

    added = {field.name: field for field in added_columns(options)}
    fields = arrow_schema(schema)
    _check_names(topic, list(fields))
    for field, any_null in zip(schema, schema.toNullable(), strict=True):
        if field != any_null:
            raise SchemaMismatchError(
                f"the schema that was given says that column {field.name!r}, or something in it, is never null, but "
                "any part of a JSON value may be missing: leave NOT NULL out (schema.toNullable())"
            )
    for field in fields:
        if field.name in added:
            if of_arrow(added[field.name].type) != schema[field.name].dataType:
                raise SchemaMismatchError(
                    f"the schema that was given says column {field.name!r} is "
                    f"{schema[field.name].dataType.simpleString()}, but it is "
                    f"{of_arrow(added[field.name].type).simpleString()}"
                )
        else:
            to_column(field.type)
    return True


def decoded(
    options: SourceOptions, topic: Topic, fetch: Fetch, records: Records, columns: pa.Schema
) -> list[Any] | None:
    """The columns of the rows of a fetch; None if they are read as they are stored.

    Raises `RecordDeserializationError` for a value that cannot be decoded, unless the mode is permissive.
    """
    codec = codec_for(options, topic)
    if codec is None:
        return None
    # A filter may name any of them. Beside columns that the user gave, none is added for it.
    shown = options if options.where is None or codec.fields is None else all_columns(options)
    added = {field.name for field in added_columns(shown)}
    fields = [field for field in columns if field.name not in added]
    if codec.fields is not None:
        fields_by_name = {field.name: field for field in codec.fields}
        for field in fields:
            if field.name not in fields_by_name:
                raise SchemaMismatchError(
                    f"topic {topic.name!r} has no column {field.name!r}, which the query was planned with: start it "
                    "again, or read this topic with a source of its own"
                )
        fields = [fields_by_name[field.name] for field in fields]
    values = records.column("value").combine_chunks()
    values = (
        values
        if isinstance(values, pa.Array)
        else pa.concat_arrays(values.chunks or [pa.array([], pa.binary())])
    )
    arrays, problems = codec.decode_columns(values, fields)
    if problems and options.mode == "failfast":
        row = min(problems.reasons)
        raise _refusal(fetch, records.offset(row), problems.reasons[row])
    arrays_by_name = {field.name: array for field, array in zip(fields, arrays, strict=True)}
    return [
        as_spark(pa.chunked_array([arrays_by_name[field.name]]), field.type)
        if field.name in arrays_by_name
        else _added(field, fetch, records, problems)
        for field in columns
    ]


def stored_names(
    options: SourceOptions | None, topics: Mapping[str, Topic], columns: pa.Schema
) -> frozenset[str]:
    """The stored columns that have to be read for these columns of a source."""
    names = frozenset(columns.names)
    if options is None or all(codec_for(options, topic) is None for topic in topics.values()):
        return names
    if CORRUPT in names:
        return names | {"key", "value", "headers", "timestamp"}
    beside = {"_key": "key", "_headers": "headers", "_timestamp": "timestamp"}
    return names | {"value"} | {beside[name] for name in names & beside.keys()}


def _added(field: pa.Field, fetch: Fetch, records: Records, problems: Problems) -> Any:
    count = records.num_rows
    match field.name:
        case "_key" | "_headers":
            return as_spark(records.column(field.name[1:]), field.type)
        case "_topic":
            return constant_array(fetch.topic, field.type, count)
        case "_partition":
            return constant_array(fetch.partition, field.type, count)
        case "_offset":
            return array_from_numpy(records.offsets, field.type)
        case "_timestamp":
            return as_spark(records.column("timestamp"), field.type)
    return as_spark(pa.chunked_array([_corrupt(fetch, records, problems)]), field.type)


def _corrupt(fetch: Fetch, records: Records, problems: Problems) -> pa.Array:
    """The records with a problem as structs, null for all others."""
    count = records.num_rows
    if not problems:
        return pa.nulls(count, CORRUPT_RECORD)
    rows = np.array(sorted(problems.reasons), np.int64)
    bad_records = records.table.take(pa.array(rows))
    columns = {
        "topic": constant_array(fetch.topic, pa.string(), len(rows)),
        "partition": constant_array(fetch.partition, pa.int32(), len(rows)),
        "offset": pa.array(records.offsets[rows]),
        "timestamp": bad_records.column("timestamp").cast(READ_TIMESTAMP),
        "key": bad_records.column("key"),
        "value": bad_records.column("value"),
        "headers": bad_records.column("headers").cast(HEADERS),
        "error": pa.array([problems.reasons[row] for row in rows.tolist()]),
    }
    flat = [
        array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks) for array in columns.values()
    ]
    structs = pa.StructArray.from_arrays(flat, fields=list(CORRUPT_RECORD))
    indices = np.full(count, -1, np.int64)
    indices[rows] = np.arange(len(rows))
    return structs.take(pa.array(indices, mask=indices < 0))


def _refusal(fetch: Fetch, offset: int, reason: str) -> RecordDeserializationError:
    at = TopicPartition(fetch.topic, fetch.partition)
    return RecordDeserializationError(
        f"the value of the record of {at} at offset {offset} cannot be decoded: {reason}. Set mode=PERMISSIVE to have "
        "such records in the column _corrupt_record, from which the sink's option "
        "errors.deadletterqueue.topic.name takes them; or correct the topic's value.format and value.schema",
        at,
        offset,
    )


def _check_names(topic: Topic, fields: Sequence[pa.Field]) -> None:
    names: dict[str, str] = {}
    for field in fields:
        earlier = names.setdefault(field.name.casefold(), field.name)
        if earlier != field.name or [column.name for column in fields].count(field.name) > 1:
            raise SchemaMismatchError(
                f"topic {topic.name!r}: columns {earlier!r} and {field.name!r} have the same name (Spark ignores case; "
                "_key, _topic, _partition, _offset, _timestamp, _headers and _corrupt_record are columns that options "
                "add). Leave the option out, or read the topic with row.format=kafka and decode its values"
            )
    try:
        check_limits(pa.schema(fields))
    except SchemaMismatchError as error:
        raise SchemaMismatchError(
            f"topic {topic.name!r}: {error}. Or read the topic with row.format=kafka and decode its values"
        ) from error
