"""The columns that Spark sees: what reading returns, and what a frame must have to be written.

Spark refuses a first Arrow batch that is not exactly what `arrow_schema` gives for the declared columns,
nullability included. A topic's schema survives the way to Spark and back unchanged.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from spark_eos.errors import ConfigError, SchemaMismatchError
from spark_eos.log.data.layout import normalise_schema, normalise_type
from spark_eos.log.schemas.fitting import fits_into
from spark_eos.protocol.widening import widens_by_itself
from spark_eos.spark.types import annotated, restored
from spark_eos.spark.version import to_arrow_schema, to_arrow_type

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

READ_TIMESTAMP = pa.timestamp("us", "UTC")
"""Spark's timestamp; a log stores milliseconds."""

HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))

_KAFKA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", READ_TIMESTAMP),
        ("timestampType", pa.int32()),
    ]
)

METADATA = pa.schema(
    [
        ("_topic", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_timestamp", READ_TIMESTAMP),
    ]
)
"""What includeMetadata puts after the columns of a topic with a schema."""

_ROW_COLUMNS = frozenset({"key", "value", "headers"})
_IGNORED = frozenset({"offset", "timestampType"})
_CONTROL = ("topic", "_partition", "_timestamp")
_COLUMN_TYPES = {
    "key": "string or binary",
    "value": "string or binary",
    "headers": "array<struct<key: string, value: binary>>",
    "topic": "string",
    "partition": "int",
    "timestamp": "timestamp",
}


def kafka_schema(*, include_headers: bool = False) -> StructType:
    """The columns of rows of a Kafka-shaped topic: those of Spark's Kafka source, all nullable."""
    return _spark(_KAFKA.append(pa.field("headers", HEADERS)) if include_headers else _KAFKA)


def typed_schema(schema: pa.Schema, *, include_metadata: bool = False) -> StructType:
    """The columns of rows of a topic with ``schema``; `METADATA` after them if asked for."""
    from pyspark.sql.types import StructType

    own = [restored(field) for field in normalise_schema(schema)]
    return StructType([*own, *_spark(METADATA)] if include_metadata else own)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Spark's ``schema`` over Arrow, in UTC. Raises `SchemaMismatchError` for a type that Arrow has not."""
    from pyspark.errors import PySparkException

    try:
        return to_arrow_schema(schema)
    except (PySparkException, ValueError) as error:  # ValueError: elements of array() have no type.
        for field in schema:
            try:
                to_arrow_type(field.dataType)
            except (PySparkException, ValueError):
                raise SchemaMismatchError(
                    f"column {field.name!r} is {field.dataType.simpleString()}, which cannot be carried over "
                    f"Arrow: {error}; cast or drop it"
                ) from error
        raise SchemaMismatchError(
            f"the columns cannot be carried over Arrow: {error}; cast or drop the one it names"
        ) from error


def classify(
    columns: StructType | pa.Schema, row_format: Literal["kafka", "typed"] | None = None
) -> Literal["kafka", "typed"]:
    """The kind of topic to create: what option row.format says, else Kafka-shaped with key, value or headers.

    Raises `SchemaMismatchError` for a frame that has one of these and other columns, unless ``row_format`` says what it
    is. The case of letters does not matter here, so that ``Value`` meets `check_sink_schema`'s advice.
    """
    if row_format is not None:
        return row_format
    kafkas = [name for name in columns.names if name.casefold() in _ROW_COLUMNS]
    if not kafkas:
        return "typed"
    kafka_names = {name.casefold() for name in (*_COLUMN_TYPES, *_IGNORED)}
    extra = [name for name in columns.names if name.casefold() not in kafka_names]
    if extra:
        raise SchemaMismatchError(
            f"column {kafkas[0]!r} is one of a Kafka-shaped topic, column {extra[0]!r} is not: say what the rows are. "
            "With option('row.format', 'typed') all columns are the topic's own; with option('row.format', 'kafka') "
            f"the topic is Kafka-shaped: drop {', '.join(extra)}, or put them into value (to_json(struct(...)))"
        )
    return "kafka"


def topic_schema(frame: StructType, *, by_column: bool = False) -> pa.Schema:
    """The schema of a topic that is created for a frame with typed columns: its own, all nullable.

    (Spark infers nullability from how an expression was built, so the next job would differ.) Types that Arrow has not
    are written beside Arrow's. ``by_column``: the column ``topic`` says where rows go, and is none of the topic's.
    Raises `SchemaMismatchError` if no topic can have it.
    """
    control = _CONTROL if by_column else _CONTROL[1:]
    fields = {field.name: field for field in frame if field.name not in control}
    own = [pa.field(field.name, field.type) for field in arrow_schema(frame) if field.name not in control]
    return pa.schema([annotated(fields[field.name], field) for field in normalise_schema(pa.schema(own))])


def check_sink_schema(
    frame: pa.Schema, *, typed: pa.Schema | None, topic_option: str | None, topic: str | None = None
) -> None:
    """Raise unless rows of ``frame`` can be written to a topic with the schema ``typed``.

    A topic without one (None) takes ``value``, and optionally ``key``, ``headers``, ``topic``, ``partition``
    and ``timestamp``; ``offset`` and ``timestampType``, which reading returns, are left out. A topic with
    one takes its columns by name in any order, those that may be null optionally, and the control columns
    ``topic``, ``_partition`` and ``_timestamp``. Nulls where none may be show up only in the rows.

    ``topic`` is the name of the topic, if it is known. Raises `SchemaMismatchError`, naming the column;
    `ConfigError` if neither ``topic_option`` nor a column ``topic`` says where the rows go.
    """
    names = set(frame.names)
    if len(names) < len(frame):
        twice = next(name for name, count in Counter(frame.names).items() if count > 1)
        raise SchemaMismatchError(f"column {twice!r} is in the frame twice; rename or drop one")
    if typed is None:
        _check_kafka(frame)
    else:
        _check_typed(frame, normalise_schema(typed), topic or topic_option, by_column=topic_option is None)
    named_by_row = "topic" in names and (typed is None or "topic" not in typed.names)
    if topic_option is None and not named_by_row:
        raise ConfigError(
            "topic option required when no 'topic' attribute is present: give option topic, or a column topic"
        )


def _spark(schema: pa.Schema) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def _check_kafka(frame: pa.Schema) -> None:
    if "value" not in frame.names:
        raise SchemaMismatchError(
            "Required attribute 'value' not found: a Kafka-shaped topic takes a column value (string or "
            f"binary), and the frame has {', '.join(frame.names) or 'no columns'}; "
            f"{_other_case('value', tuple(frame.names), back=True)}add it. Rows whose column topic names topics with "
            "a schema need option('row.format', 'typed')"
        )
    extra = [name for name in frame.names if name not in _COLUMN_TYPES and name not in _IGNORED]
    problems = [_extra_columns("a Kafka-shaped topic", extra, tuple(_COLUMN_TYPES))] if extra else []
    problems += [
        f"column {field.name!r} is {field.type}; cast it to {_COLUMN_TYPES[field.name]}"
        for field in frame
        if field.name in _COLUMN_TYPES and not _fits(field.name, field.type)
    ]
    if problems:
        raise SchemaMismatchError(". ".join(problems))


def _extra_columns(topic: str, names: list[str], own: tuple[str, ...]) -> str:
    """What to do about columns that a Kafka-shaped topic does not have."""
    renamed = "".join(_other_case(name, own) for name in names)
    shown = ", ".join(map(repr, names))
    columns, them = ("column", "it") if len(names) == 1 else ("columns", "them")
    return (
        f"{topic} has no {columns} {shown}; {renamed}drop {them}, put {them} into value (to_json(struct(...)) or a "
        f"cast), or create a topic with a schema: .drop({shown}) before the write leaves {them} out, "
        "option('row.format', 'typed') makes all columns of the frame the topic's own"
    )


def _check_typed(frame: pa.Schema, own: pa.Schema, topic: str | None, *, by_column: bool) -> None:
    types, frame_names = {field.name: field.type for field in own}, set(frame.names)
    the_topic = "the topic" if topic is None else f"topic {topic!r}"
    for field in own:
        if not field.nullable and field.name not in frame_names:
            raise SchemaMismatchError(
                f"column {field.name!r} ({field.type}) is missing, and {the_topic} does not allow it to be "
                f"null; {_other_case(field.name, tuple(frame.names), back=True)}add it"
            )
    extra = [name for name in frame.names if name not in types and name not in _CONTROL]
    if extra:
        renamed = "".join(_other_case(name, tuple(own.names)) for name in extra)
        columns, them = ("column", "it") if len(extra) == 1 else ("columns", "them")
        raise SchemaMismatchError(
            f"{the_topic} has no {columns} {', '.join(map(repr, extra))}; {renamed}drop {them}, or add {them} to the "
            f"topic's schema, which has {', '.join(own.names)} (option('mergeSchema', 'true') adds {them})"
        )
    for field in frame:
        name = field.name
        if name in types:
            given_type = normalise_type(field.type, name)
            if not fits_into(given_type, types[name]):
                wider = ", or let option('mergeSchema', 'true') widen the topic's column"
                raise SchemaMismatchError(
                    f"column {name!r} is {field.type}, {the_topic} has {types[name]}; cast it"
                    f"{wider if widens_by_itself(str(types[name]), str(given_type)) else ''}"
                )
        elif name == "topic" and not by_column:
            raise SchemaMismatchError(
                f"{the_topic} has no column 'topic', and option topic says where all rows go: the column would be "
                "lost. Drop or rename it, leave the option out if the column names the topics, or add it to the "
                "topic's schema"
            )
        elif not _fits(name.lstrip("_"), field.type):
            control_type = _COLUMN_TYPES[name.lstrip("_")]
            raise SchemaMismatchError(f"control column {name!r} is {field.type}; cast it to {control_type}")


def _fits(name: str, type_: pa.DataType) -> bool:
    """Whether a column of Kafka-shaped rows, by its name, may have a type."""
    types = pa.types
    if name == "timestamp":
        return bool(types.is_timestamp(type_) and type_.tz is not None)
    if name == "partition":
        return bool(types.is_integer(type_))
    try:
        stored = normalise_type(type_, name)
    except SchemaMismatchError:
        return False
    if name == "headers":
        return bool(stored.equals(HEADERS))
    return bool(stored == pa.string() or (name != "topic" and stored == pa.binary()))


def _other_case(name: str, candidates: tuple[str, ...], *, back: bool = False) -> str:
    """The remedy where a name differs in case alone, which Spark ignores and Arrow does not."""
    matches = [candidate for candidate in candidates if candidate.casefold() == name.casefold()]
    if not matches:
        return ""
    return f"rename {matches[0] if back else name} to {name if back else matches[0]}, "
