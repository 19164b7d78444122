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

__all__ = [
    "KAFKA_VERSION",
    "RESERVED_PREFIXES",
    "SKIPPED",
    "SPARK_FIELD",
    "TIMESTAMP_TYPE",
    "Layout",
    "check_topic_schema",
    "deserialise_schema",
    "evolve_check",
    "normalise_schema",
    "normalise_type",
    "serialise_schema",
    "upgrade",
]

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
        own = normalise_schema(schema)
        columns = pa.schema([field.remove_metadata() for field in own])
        return Layout(
            columns.append(pa.field("_timestamp", TIMESTAMP_TYPE, nullable=False)), version, "_timestamp"
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
        known, left_out = set(self.physical.names), set(omitted)
        unknown = [name for name in omitted if name not in known]
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
    seen: dict[str, str] = {}
    for field in schema:
        name, folded = field.name, field.name.casefold()
        if not name:
            raise SchemaMismatchError("a column of the schema has no name; give it one")
        if folded in seen:
            raise SchemaMismatchError(
                f"columns {seen[folded]!r} and {name!r} have the same name (Spark ignores case); rename one"
            )
        if folded.startswith(RESERVED_PREFIXES):
            raise SchemaMismatchError(
                f"column {name!r}: names that begin with {', '.join(RESERVED_PREFIXES)} are kept for the "
                "columns that reading adds; rename it"
            )
        seen[folded] = name
        normalise_type(field.type, name)


def normalise_schema(schema: pa.Schema) -> pa.Schema:
    """``schema`` as it is stored: each type in its one spelling, nullability kept, of metadata only `SPARK_FIELD`.

    Inside of lists, structs and maps every value but a map's key may be null: Spark declares nested
    nullability by how an expression was built, and the same job would not fit its own topic after a
    rewrite. Raises `SchemaMismatchError` as `check_topic_schema` does.
    """
    check_topic_schema(schema)
    return pa.schema(
        [
            pa.field(field.name, normalise_type(field.type, field.name), field.nullable, _kept(field))
            for field in schema
        ]
    )


def normalise_type(type_: pa.DataType, path: str) -> pa.DataType:
    """The one spelling in which ``type_`` is stored.

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
        return normalise_type(type_.value_type, path)
    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        return pa.list_(pa.field("element", normalise_type(type_.value_type, f"{path}.element")))
    if types.is_map(type_):
        key = pa.field("key", normalise_type(type_.key_type, f"{path}.key"), nullable=False)
        return pa.map_(key, pa.field("value", normalise_type(type_.item_type, f"{path}.value")))
    if types.is_struct(type_):
        return pa.struct([_struct_field(type_, position, path) for position in range(type_.num_fields)])
    raise SchemaMismatchError(
        f"column {path!r} has the type {type_}, which Spark cannot carry over Arrow; cast it to one of bool, "
        "int8 to int64, float, double, decimal128, string, binary, date32, time64, timestamp, duration, "
        "or lists, structs and maps of them"
    )


def serialise_schema(schema: pa.Schema) -> bytes:
    """``schema`` as an Arrow IPC schema message; equal schemas give equal bytes."""
    body: bytes = schema.remove_metadata().serialize().to_pybytes()
    return body


def deserialise_schema(data: bytes) -> pa.Schema:
    """The schema of `serialise_schema`. Raises `CorruptRecordError` if ``data`` is not one."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data))
        schema.names  # noqa: B018  (one that is not text is found only when it is asked for)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptRecordError(f"{len(data)} bytes are not an Arrow schema: {error}") from error
    return schema


def evolve_check(old: pa.Schema, new: pa.Schema) -> pa.Schema:
    """``new``, normalised; raise `SchemaMismatchError` unless it is ``old`` with nullable columns added at the end.

    Both are topics' schemas, without the timestamp; spellings of a type do not matter. What ``old`` says of Spark's
    types (`SPARK_FIELD`) stays: ``new`` may leave it out, and not say something else.
    """
    before, after = normalise_schema(old), normalise_schema(new)
    for position, field in enumerate(before):
        if position >= len(after):
            raise SchemaMismatchError(
                f"column {field.name!r} is missing; a new schema keeps all columns of the old"
            )
        found = after.field(position)
        if found != field:
            raise SchemaMismatchError(
                f"column {position} was {_describe(field)} and would become {_describe(found)}; a new schema "
                "keeps the columns of the old and adds nullable ones at the end"
            )
        if _kept(found) not in (None, _kept(field)):
            raise SchemaMismatchError(
                f"column {field.name!r} would become another type or other metadata in Spark (it has "
                f"{_kept(field)}, the new schema says {_kept(found)}); leave the metadata of its field as it is"
            )
        after = after.set(position, field)
    for position in range(len(before), len(after)):
        field = after.field(position)
        if not field.nullable:
            raise SchemaMismatchError(
                f"column {field.name!r} is new and not nullable, but older rows have no value for it; "
                "make it nullable"
            )
    return after


def upgrade(table: pa.Table, layout: Layout) -> pa.Table:
    """``table``, read with an older version's layout, with the columns of ``layout``: new ones are null.

    Raises `SchemaMismatchError` if a column that is not nullable, or of another type, would be needed.
    """
    if table.schema.equals(layout.physical):
        return table
    columns = []
    for field in layout.physical:
        position = table.schema.get_field_index(field.name)
        if position >= 0 and table.schema.field(position).type == field.type:
            columns.append(table.column(position))
        elif position < 0 and field.nullable:
            columns.append(pa.nulls(table.num_rows, field.type))
        else:
            raise SchemaMismatchError(
                f"rows with the columns {table.schema.names} cannot be read as version {layout.version} of "
                f"the topic's schema: column {_describe(field)} is missing or of another type"
            )
    return pa.table(columns, schema=layout.physical)


def _kept(field: pa.Field) -> dict[bytes, bytes] | None:
    """What is kept of a field's metadata."""
    text = (field.metadata or {}).get(SPARK_FIELD)
    return None if text is None else {SPARK_FIELD: text}


def _describe(field: pa.Field) -> str:
    return f"{field.name!r} {field.type}{'' if field.nullable else ' not null'}"


def _struct_field(type_: pa.StructType, position: int, path: str) -> pa.Field:
    field = type_.field(position)
    if not field.name or type_.get_field_index(field.name) != position:
        raise SchemaMismatchError(
            f"column {path!r} is a struct with an empty or repeated field name {field.name!r}; rename it"
        )
    return pa.field(field.name, normalise_type(field.type, f"{path}.{field.name}"))
