"""What the rows of a topic look like when they are stored: columns, their types and their order.

A topic without a schema is Kafka-shaped: ``key``, ``value``, ``headers``, ``timestamp``. A topic with a
schema stores its own columns, and ``_timestamp`` after them. Types are stored in one spelling each
(`normalise_type`), the one Spark exchanges over Arrow, so that reading never has to convert.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from spark_eos.errors import CorruptRecordError, IllegalStateError, SchemaMismatchError
from spark_eos.log.data.arrow import constant_array
from spark_eos.log.data.value_ranges import has_times
from spark_eos.protocol.arrow_fields import FIELD_ID, SCHEMA_VERSION, SchemaField, fields_of

KAFKA_VERSION = 0
"""The schema version of Kafka-shaped topics; versions of topics with a schema start at 1."""

TIMESTAMP_TYPE = pa.timestamp("ms", "UTC")
"""Type of a row's timestamp: milliseconds, as Kafka's."""

SPARK_FIELD = b"spark.field.v1"
"""The key, in the metadata of a column's Arrow field, of Spark's own description of the column (JSON of a StructField).

Only columns have it whose type or metadata in Spark cannot be told from Arrow's. Files have none: it is the topic's.
"""

RESERVED_PREFIXES = ("_topic", "_partition", "_offset", "_timestamp")
"""Columns that reading adds; a topic's own columns must not begin like them."""

SKIPPED = pa.field("_skipped", pa.uint16(), nullable=False)
"""The first column of a file with holes (`FileRef.offsets`): how many offsets before each row have none.

It starts over with every batch: row ``i`` has the batch's first offset, plus ``i``, plus the sum of the column up to
and with it. A batch ends where a hole is longer than it can say: that costs nothing, two bytes a row do not much.
"""

_SAME_IN_SPARK = frozenset(
    {
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.date32(),
    }
)

_HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))

_KAFKA_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", _HEADERS),
        pa.field("timestamp", TIMESTAMP_TYPE, nullable=False),
    ]
)


@dataclass(frozen=True)
class Layout:
    """The stored columns of one schema version of a topic. Make one with `kafka` or `typed`.

    ``physical`` has the columns in their stored order, the timestamp last; ``version`` is 0 for
    Kafka-shaped topics; ``timestamp_column`` names the timestamp: the only column that is filled in
    (with the time of writing) where a row has none.
    """

    physical: pa.Schema
    version: int
    timestamp_column: str
    described: bytes = b""
    """The schema message of the topic's own columns, with the ids of its fields."""

    @cached_property
    def fields(self) -> tuple[SchemaField, ...]:
        """The topic's own columns by their ids, in the order of ``physical``; none if it is Kafka-shaped."""
        return fields_of(self.described).fields if self.described else ()

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the stored columns."""
        return frozenset(self.physical.names)

    @cached_property
    def timed(self) -> tuple[int, ...]:
        """Which of the stored columns hold dates or timestamps, however deep."""
        return tuple(at for at, field in enumerate(self.physical) if has_times(field.type))

    @staticmethod
    def kafka() -> Layout:
        """The layout of topics without a schema. A null ``value`` is a tombstone."""
        return _KAFKA

    @staticmethod
    def typed(schema: pa.Schema, version: int) -> Layout:
        """The layout of a topic with ``schema`` (its own columns only, normalised here).

        Raises `SchemaMismatchError` as `check_topic_schema` does.
        """
        if version <= KAFKA_VERSION:
            raise IllegalStateError(
                f"schema version {version}: versions of a topic with a schema start at {KAFKA_VERSION + 1}"
            )
        check_topic_schema(schema)
        columns = pa.schema(
            [pa.field(field.name, normalise_type(field.type, field.name), field.nullable) for field in schema]
        )
        return Layout(
            columns.append(pa.field("_timestamp", TIMESTAMP_TYPE, nullable=False)),
            version,
            "_timestamp",
            serialise_schema(normalise_schema(schema, ids=True).with_metadata(schema.metadata)),
        )

    @property
    def is_kafka(self) -> bool:
        """Whether the topic has no schema of its own."""
        return self.version == KAFKA_VERSION

    @property
    def omittable(self) -> tuple[str, ...]:
        """The columns that a file may leave out: those that may be null, and the timestamp.

        One column always stays, ``value`` or the first: not every tool sees the number of rows of an Arrow
        record batch without columns.
        """
        stays = "value" if self.is_kafka else self.physical.names[0]
        return tuple(
            field.name
            for field in self.physical
            if (field.nullable or field.name == self.timestamp_column) and field.name != stays
        )

    def fill(self, field: pa.Field, rows: int, timestamp_ms: int) -> pa.Array:
        """The values of a column that a file left out: null, or ``timestamp_ms`` in all rows."""
        if field.name == self.timestamp_column:
            return constant_array(timestamp_ms, field.type, rows)
        return pa.nulls(rows, field.type)

    def stored(self, omitted: tuple[str, ...], *, offsets: bool = False) -> pa.Schema:
        """The columns of a file without ``omitted``, and with `SKIPPED` in front if it has ``offsets``.

        Raises `SchemaMismatchError` for an unknown one.
        """
        if offsets:
            return pa.schema([SKIPPED, *self.stored(omitted)])
        if not omitted:
            return self.physical
        names, left_out = set(self.physical.names), set(omitted)
        unknown = [name for name in omitted if name not in names]
        if unknown:
            raise SchemaMismatchError(
                f"columns {unknown} cannot be omitted: version {self.version} of the topic's schema has "
                f"{self.physical.names}; read the file with the schema version it was written with"
            )
        return pa.schema([field for field in self.physical if field.name not in left_out])


_KAFKA = Layout(_KAFKA_SCHEMA, KAFKA_VERSION, "timestamp")


def check_topic_schema(schema: pa.Schema) -> None:
    """Raise `SchemaMismatchError`, naming the column, unless a topic can have ``schema``.

    There is at least one column; names are not empty, differ in more than case (Spark ignores it) and do
    not begin like the columns that reading adds; types are ones that Spark carries over Arrow.
    """
    if not len(schema):
        raise SchemaMismatchError(
            "a topic's schema needs at least one column; leave it out for key and value"
        )
    names: dict[str, str] = {}
    for field in schema:
        name, folded = field.name, field.name.casefold()
        if not name:
            raise SchemaMismatchError("a column of the schema has no name; give it one")
        if folded in names:
            raise SchemaMismatchError(
                f"columns {names[folded]!r} and {name!r} have the same name (Spark ignores case); rename one"
            )
        if folded.startswith(RESERVED_PREFIXES):
            raise SchemaMismatchError(
                f"column {name!r}: names that begin with {', '.join(RESERVED_PREFIXES)} are kept for the "
                "columns that reading adds; rename it"
            )
        names[folded] = name
        normalise_type(field.type, name)


def normalise_schema(schema: pa.Schema, *, ids: bool = False) -> pa.Schema:
    """``schema`` as it is stored: each type in its one spelling, nullability kept, of metadata only `SPARK_FIELD`.

    With ``ids`` those of its fields (`FIELD_ID`) are kept as well, however deep.

    Inside of lists, structs and maps every value but a map's key may be null: Spark declares nested
    nullability by how an expression was built, and the same job would not fit its own topic after a
    rewrite. Raises `SchemaMismatchError` as `check_topic_schema` does.
    """
    check_topic_schema(schema)
    return pa.schema(
        [
            pa.field(
                field.name,
                normalise_type(field.type, field.name, ids=ids),
                field.nullable,
                {**(_kept_metadata(field) or {}), **(_id_of(field) if ids else {})} or None,
            )
            for field in schema
        ]
    )


def normalise_type(type_: pa.DataType, path: str, *, ids: bool = False) -> pa.DataType:
    """The one spelling in which ``type_`` is stored; with ``ids`` those of the fields in it are kept.

    string, binary and list for their large, view and fixed-size forms; the value type of a dictionary;
    microseconds for timestamps and durations, nanoseconds for times of day, UTC for every time zone (a timestamp
    without one keeps having none). Raises `SchemaMismatchError` with ``path``, the name of the column (and of the
    field in it), for a type that Spark cannot carry.
    """
    types = pa.types
    if type_ in _SAME_IN_SPARK or types.is_decimal128(type_):
        return type_
    if types.is_large_string(type_) or types.is_string_view(type_):
        return pa.string()
    if types.is_large_binary(type_) or types.is_fixed_size_binary(type_) or types.is_binary_view(type_):
        return pa.binary()
    if types.is_timestamp(type_):
        return pa.timestamp("us", None if type_.tz is None else "UTC")
    if types.is_time(type_):
        return pa.time64("ns")
    if types.is_duration(type_):
        return pa.duration("us")
    if types.is_dictionary(type_):
        return normalise_type(type_.value_type, path, ids=ids)
    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        element = normalise_type(type_.value_type, f"{path}.element", ids=ids)
        return pa.list_(pa.field("element", element))
    if types.is_map(type_):
        key = pa.field("key", normalise_type(type_.key_type, f"{path}.key", ids=ids), nullable=False)
        value = pa.field("value", normalise_type(type_.item_type, f"{path}.value", ids=ids))
        return pa.map_(key, value)
    if types.is_struct(type_):
        return pa.struct([_struct_field(type_, n, path, ids=ids) for n in range(type_.num_fields)])
    raise SchemaMismatchError(
        f"column {path!r} has the type {type_}, which Spark cannot carry over Arrow; cast it to one of bool, "
        "int8 to int64, float, double, decimal128, string, binary, date32, time64, timestamp, duration, "
        "or lists, structs and maps of them"
    )


def serialise_schema(schema: pa.Schema) -> bytes:
    """``schema`` as an Arrow IPC schema message; equal schemas give equal bytes.

    Of the schema's own metadata only the number of its version (`SCHEMA_VERSION`) is kept.
    """
    number = (schema.metadata or {}).get(SCHEMA_VERSION)
    kept = schema.with_metadata(None if number is None else {SCHEMA_VERSION: number})
    body: bytes = kept.serialize().to_pybytes()
    return body


def deserialise_schema(data: bytes) -> pa.Schema:
    """The schema of `serialise_schema`. Raises `CorruptRecordError` if ``data`` is not one."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data))
        schema.names  # noqa: B018  (one that is not text is found only when it is asked for)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptRecordError(f"{len(data)} bytes are not an Arrow schema: {error}") from error
    return schema


def _kept_metadata(field: pa.Field) -> dict[bytes, bytes] | None:
    """What is kept of a field's metadata."""
    text = (field.metadata or {}).get(SPARK_FIELD)
    return None if text is None else {SPARK_FIELD: text}


def _id_of(field: pa.Field) -> dict[bytes, bytes]:
    field_id = (field.metadata or {}).get(FIELD_ID)
    return {} if field_id is None else {FIELD_ID: field_id}


def _struct_field(type_: pa.StructType, position: int, path: str, *, ids: bool) -> pa.Field:
    field = type_.field(position)
    if not field.name or type_.get_field_index(field.name) != position:
        raise SchemaMismatchError(
            f"column {path!r} is a struct with an empty or repeated field name {field.name!r}; rename it"
        )
    inner = normalise_type(field.type, f"{path}.{field.name}", ids=ids)
    return pa.field(field.name, inner, metadata=(_id_of(field) or None) if ids else None)
