"""Records that cannot be encoded or decoded, on their way into the dead-letter topic of a write.

They are Kafka-shaped records of another topic in the same commit. Their headers say what was wrong, by the names that
Kafka Connect gives them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_eos.errors import RecordDeserializationError
from spark_eos.log.values.json_values import dumps
from spark_eos.protocol.types import TopicPartition
from spark_eos.spark.schema import HEADERS

CORRUPT = "_corrupt_record"
"""The column in which the source has records that it could not decode."""

_PREFIX = "__connect.errors."


class DeadLetters:
    """The dead letters of one task, until they are staged."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []

    def add_rows(
        self, topic: str, rows: pa.RecordBatch, keys: pa.Array | None, reasons: Sequence[str]
    ) -> None:
        """Rows that cannot be encoded for a topic: their columns as JSON."""
        key_values = keys.to_pylist() if keys is not None else [None] * rows.num_rows
        for row, (key, reason) in enumerate(zip(key_values, reasons, strict=True)):
            headers = _headers(topic, None, None, reason)
            self._rows.append({"key": _bytes(key), "value": _json(rows.slice(row, 1)), "headers": headers})

    def add_records(self, corrupt: pa.Array) -> None:
        """Records that were not decoded, as they were read, of the column `CORRUPT`."""
        for record in corrupt.to_pylist():
            # One without a name, of a log of an earlier version, could not be written again.
            headers = [
                dict(header) for header in record.get("headers") or () if header and header["key"] is not None
            ]
            headers += _headers(
                record.get("topic"), record.get("partition"), record.get("offset"), record.get("error")
            )
            self._rows.append(
                {"key": _bytes(record.get("key")), "value": _bytes(record.get("value")), "headers": headers}
            )

    def take(self) -> pa.RecordBatch | None:
        """The letters that were added since the last call, as Kafka-shaped rows."""
        rows, self._rows = self._rows, []
        if not rows:
            return None
        return pa.record_batch(
            {
                "key": pa.array([row["key"] for row in rows], pa.binary()),
                "value": pa.array([row["value"] for row in rows], pa.binary()),
                "headers": pa.array([row["headers"] for row in rows], HEADERS),
            }
        )


def corrupt_rows(batch: pa.RecordBatch, dead: DeadLetters | None) -> pa.RecordBatch:
    """The rows without column `CORRUPT`; those with a record in it go to the dead letters.

    Raises `RecordDeserializationError`, naming topic, partition and offset, if there are none.
    """
    column = batch.column(CORRUPT)
    rows = batch.drop_columns([CORRUPT])
    if column.null_count == len(column):
        return rows
    corrupt = column.filter(column.is_valid())
    if dead is None:
        record = corrupt[0].as_py()
        at = TopicPartition(str(record.get("topic")), int(record.get("partition") or 0))
        raise RecordDeserializationError(
            f"a row is the record of {at} at offset {record.get('offset')}, which the source could not decode "
            f"({record.get('error')}). Nothing was written. Filter such rows ({CORRUPT} is not null), or have them in "
            "another topic with option errors.deadletterqueue.topic.name",
            at,
            int(record.get("offset") or 0),
        )
    dead.add_records(corrupt)
    return rows.filter(pc.is_null(column))


def _headers(topic: Any, partition: Any, offset: Any, reason: Any) -> list[dict[str, Any]]:
    parts = {"topic": topic, "partition": partition, "offset": offset, "stage": "VALUE_CONVERTER"}
    context = {**parts, "exception.message": reason}
    return [
        {"key": f"{_PREFIX}{name}", "value": str(value).encode()}
        for name, value in context.items()
        if value is not None
    ]


def _json(row: pa.RecordBatch) -> bytes:
    """The columns of a row as JSON; what JSON does not have, as text."""
    values = {}
    for name, column in zip(row.schema.names, row.columns, strict=True):
        try:
            value = column[0].as_py()
            dumps(value)
        except (ValueError, TypeError, OverflowError):
            value = _text(column)
        values[name] = value
    return dumps(values)


def _text(column: pa.Array) -> str:
    try:
        return str(column[0])
    except (ValueError, OverflowError):  # Python has no times before the year 1, and after 9999.
        return str(column.to_string(skip_new_lines=True))


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
