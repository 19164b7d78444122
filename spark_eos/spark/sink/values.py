"""Rows on their way into a topic with ``value.format``: their columns become values, or they are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_eos.errors import SchemaMismatchError, SerializationError
from spark_eos.log.data.schema_limits import check_limits
from spark_eos.log.topics import codec_of
from spark_eos.spark.schema import HEADERS, classify
from spark_eos.spark.sink.dead_letters import DeadLetters

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from spark_eos.log.values.codec import ValueCodec
    from spark_eos.protocol.state import Topic
    from spark_eos.spark.options import SinkOptions

_STORED_AS = {"_key": "key", "_headers": "headers", "_partition": "partition", "_timestamp": "timestamp"}
"""The columns beside those of the value, and what they are in a Kafka-shaped row."""


def codec_for(options: SinkOptions, columns: StructType | pa.Schema, topic: Topic) -> ValueCodec | None:
    """What encodes rows for the topic; None if they are written as they are."""
    if options.row_format == "kafka" or topic.schemas:
        return None
    codec = codec_of(topic)
    if codec is None:
        return None
    if codec.fields is None and options.row_format is None and classify(columns) == "kafka":
        return None  # JSON without a schema, in the column value.
    return codec


def check_value_columns(options: SinkOptions, codec: ValueCodec, frame: pa.Schema, topic: Topic) -> None:
    """Raise `SchemaMismatchError`, naming the column, unless the topic can take rows of ``frame``."""
    own, control = _divided(options, codec, frame)
    types = {"_key": "string or binary", "_partition": "int", "_timestamp": "timestamp"}
    for name in control:
        type_ = frame.field(name).type
        fits = {
            "_key": pa.types.is_string(type_) or pa.types.is_binary(type_),
            "_partition": pa.types.is_integer(type_),
            "_timestamp": pa.types.is_timestamp(type_) and type_.tz is not None,
            "topic": pa.types.is_string(type_),
        }.get(name, True)
        if not fits or (name == "_headers" and not _is_headers(type_)):
            raise SchemaMismatchError(
                f"control column {name!r} is {type_}; cast it to "
                f"{types.get(name, 'array<struct<key: string, value: binary>>')}"
            )
    try:
        columns = pa.schema([frame.field(name) for name in own])
        check_limits(columns)
        codec.encoder(columns)
    except SchemaMismatchError as error:
        raise SchemaMismatchError(
            f"topic {topic.name!r} has value.format={codec.format}: {error}. (The columns "
            f"{', '.join(_STORED_AS)} go beside the value. To write values that are encoded already, in a column "
            "value, set row.format=kafka)"
        ) from error


class RowEncoder:
    """Makes Kafka-shaped rows of a topic from columns.

    ``dead`` takes the rows that cannot be encoded; None: they are refused. ``task`` is the number of the Spark task,
    for errors.
    """

    def __init__(
        self, options: SinkOptions, codec: ValueCodec, topic: Topic, dead: DeadLetters | None, task: int
    ) -> None:
        self._options, self._codec, self._topic, self._dead, self._task = options, codec, topic, dead, task
        self._row_count = 0

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as key, value, headers, partition and timestamp. Raises `SerializationError`, naming the row."""
        own, control = _divided(self._options, self._codec, batch.schema)
        value_columns = batch.select(own)
        values, problems = self._codec.encoder(value_columns.schema)(value_columns)
        first_row, self._row_count = self._row_count, self._row_count + batch.num_rows
        columns: dict[str, Any] = {"value": values}
        for name in control:
            if name in _STORED_AS:
                columns[_STORED_AS[name]] = batch.column(name)
        rows = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        if not problems:
            return rows
        bad = np.array(sorted(problems.reasons), np.int64)
        if self._dead is None:
            row = int(bad[0])
            raise SerializationError(
                f"row {first_row + row} of the rows that task {self._task} writes to topic {self._topic.name!r} cannot "
                f"be encoded: {problems.reasons[row]}. The row is {_shown(value_columns, row)}. Nothing was written. "
                "Correct or filter such rows, or have them in another topic with option "
                "errors.deadletterqueue.topic.name"
            )
        self._dead.add_rows(
            self._topic.name,
            value_columns.take(pa.array(bad)),
            rows.column("key").take(pa.array(bad)) if "key" in columns else None,
            [problems.reasons[row] for row in bad.tolist()],
        )
        return rows.take(pa.array(np.flatnonzero(~problems.mask(batch.num_rows))))


def _divided(options: SinkOptions, codec: ValueCodec, frame: pa.Schema) -> tuple[list[str], list[str]]:
    """The columns of the value, and those beside it."""
    fields = codec.fields
    value_names = set() if fields is None else {field.name for field in fields}
    beside = {*_STORED_AS, *(("topic",) if options.topic is None else ())} - value_names
    return (
        [name for name in frame.names if name not in beside],
        [name for name in frame.names if name in beside],
    )


def _is_headers(type_: pa.DataType) -> bool:
    from spark_eos.log.data.layout import normalise_type

    try:
        return bool(normalise_type(type_, "_headers").equals(HEADERS))
    except SchemaMismatchError:
        return False


def _shown(rows: pa.RecordBatch, row: int) -> str:
    """A row for an error: not more than a line of it."""
    try:
        text = str(rows.slice(row, 1).to_pylist()[0])
    except (ValueError, OverflowError):
        text = str(rows.slice(row, 1).to_string())
    return text if len(text) <= 200 else text[:197] + "..."
