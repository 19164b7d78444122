"""Rows on their way into a topic: checked against its layout and brought to the stored types."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eos.errors import InvalidRecordError, RecordTooLargeError, SchemaMismatchError
from spark_eos.log.data.arrow import bytes_of_rows, constant_array
from spark_eos.log.data.layout import Layout, normalise_type
from spark_eos.log.data.timestamps import TimestampBounds
from spark_eos.log.data.value_ranges import first_without_name, outside

Columns = list[pa.Array | None]
"""One array for each stored column of a layout, in its order; None where all rows are null (a timestamp:
where all rows get the time of writing)."""


class RowConverter:
    """Turns record batches into `Columns` of one topic, or refuses them.

    ``now_ms`` is the timestamp of rows that have none, ``times`` bounds the others. A row without a value in any of the
    columns ``keys`` is refused: where the topic is compacted. ``max_message_bytes`` (None: no limit) bounds all that is
    in a row but its timestamp (`bytes_of_rows`).
    """

    def __init__(
        self,
        topic: str,
        layout: Layout,
        *,
        now_ms: int,
        max_message_bytes: int | None = None,
        keys: Sequence[str] = (),
        times: TimestampBounds | None = None,
    ) -> None:
        self._topic = topic
        self._layout = layout
        (self._now,) = constant_array(now_ms, layout.physical.field(layout.timestamp_column).type, 1)
        self._limit = max_message_bytes
        self._times = times
        self._headers_at = layout.physical.get_field_index("headers")
        self._keys = keys
        self._keys_at = [layout.physical.get_field_index(name) for name in keys]
        self._time_at = layout.physical.get_field_index(layout.timestamp_column)
        self._schema: pa.Schema | None = None
        self._positions: list[int | None] = []

    def convert(self, batch: pa.RecordBatch, before: int = 0) -> Columns:
        """The columns of ``batch``, by their names in the layout; those that may be null may be missing.

        Types: as stored, or another spelling of it (`normalise_type`); ``key`` and ``value`` also as text;
        the timestamp in any unit, with a time zone, null where it is the time of writing. Raises
        `SchemaMismatchError` for a wrong, missing or unknown column, `InvalidRecordError` for a value that
        cannot be stored or that a reader could not show, `RecordTooLargeError` for a row over the limit. Errors number
        the rows as the caller was given them: so many came ``before`` the batch.
        """
        self._check_whole(batch)
        if self._schema is None or not batch.schema.equals(self._schema):
            self._positions = self._match(batch.schema)
            self._schema = batch.schema
        columns = [
            self._column(field, None if position is None else batch.column(position), batch.num_rows, before)
            for field, position in zip(self._layout.physical, self._positions, strict=True)
        ]
        for at in self._layout.timed:
            array = columns[at]
            if array is not None and (time := outside(array)) is not None:
                raise InvalidRecordError(
                    f"column {self._layout.physical.field(at).name!r} of topic {self._topic!r}: {time} lies outside "
                    "of the years 1 to 9999. Not every reader could show it; send it as a number or a text"
                )
        headers = columns[self._headers_at] if self._layout.is_kafka else None
        if headers is not None and (row := first_without_name(headers)) is not None:
            raise InvalidRecordError(
                f"row {before + row} of those for topic {self._topic!r} has a header that is null or has no name "
                "(column 'headers'). Leave it out of the list"
            )
        times = columns[self._time_at]
        if self._times is not None and times is not None:
            self._times.check_column(times)
        if self._keys_at and batch.num_rows:
            self._check_keys(columns, before)
        if self._limit is not None:
            self._check_sizes(columns, self._limit, before)
        return columns

    def _check_whole(self, batch: pa.RecordBatch) -> None:
        """Arrow believes what a program says of buffers that it has made itself; readers would not."""
        try:
            batch.validate(full=True)
        except (pa.ArrowException, ValueError) as error:
            raise InvalidRecordError(
                f"rows for topic {self._topic!r} are not what their Arrow types say: {error}. Convert the column"
            ) from error

    def _match(self, schema: pa.Schema) -> list[int | None]:
        """Where in ``schema`` each stored column is; None if it is not there."""
        expected = self._layout.physical
        names, stored_names = schema.names, set(expected.names)
        at = {name: position for position, name in enumerate(names)}
        for position, name in enumerate(names):
            if name not in stored_names:
                raise SchemaMismatchError(
                    f"topic {self._topic!r} has no column {name!r}; it has {', '.join(expected.names)}"
                )
            if at[name] != position:
                raise SchemaMismatchError(
                    f"column {name!r} for topic {self._topic!r} is there twice; keep one"
                )
        positions: list[int | None] = []
        for field in expected:
            place = at.get(field.name)
            if place is not None:
                self._check_type(field, schema.field(place).type)
            elif not field.nullable and field.name != self._layout.timestamp_column:
                raise SchemaMismatchError(
                    f"column {field.name!r} of topic {self._topic!r} is missing: it is {field.type} and "
                    "not nullable"
                )
            positions.append(place)
        return positions

    def _check_type(self, field: pa.Field, type_: pa.DataType) -> None:
        types = pa.types
        if type_ == field.type or types.is_null(type_):
            return
        if field.name == self._layout.timestamp_column:
            fits = types.is_timestamp(type_) and type_.tz is not None
        else:
            normal = normalise_type(type_, field.name)
            fits = normal == field.type or (self._is_message(field) and types.is_string(normal))
        if not fits:
            raise SchemaMismatchError(
                f"column {field.name!r} of topic {self._topic!r} is {field.type}, found {type_}; cast it"
            )

    def _is_message(self, field: pa.Field) -> bool:
        """Whether this is the key or value of a Kafka-shaped topic: bytes, which may come as text."""
        return self._layout.is_kafka and pa.types.is_binary(field.type)

    def _column(self, field: pa.Field, column: pa.Array | None, rows: int, before: int) -> pa.Array | None:
        if column is None:
            return None
        is_timestamp = field.name == self._layout.timestamp_column
        array = column if column.type == field.type else self._cast(field, column)
        nulls = array.null_count
        if not nulls:
            return array
        if is_timestamp:
            return None if nulls == rows else array.fill_null(self._now)
        if not field.nullable:
            raise InvalidRecordError(
                f"column {field.name!r} of topic {self._topic!r} is not nullable, but row "
                f"{before + pc.index(array.is_null(), True).as_py()} of those for it has no value there"
            )
        return None if nulls == rows else array

    def _cast(self, field: pa.Field, column: pa.Array) -> pa.Array:
        try:
            if field.name == self._layout.timestamp_column and not pa.types.is_null(column.type):
                # Milliseconds are what is kept of finer units; coarser ones must not overflow.
                if column.type.unit in ("s", "ms"):
                    return column.cast(field.type)
                return _milliseconds(column).cast(field.type)
            if self._is_message(field) and not pa.types.is_null(column.type):
                column = column.cast(normalise_type(column.type, field.name))
            return column.cast(field.type)
        except pa.ArrowNotImplementedError as error:
            raise SchemaMismatchError(
                f"column {field.name!r} of topic {self._topic!r} is {field.type}, found {column.type}, which "
                f"Arrow cannot convert ({error}); cast it"
            ) from error
        except pa.ArrowInvalid as error:
            raise InvalidRecordError(
                f"column {field.name!r} of topic {self._topic!r}: a value of type {column.type} cannot be "
                f"stored as {field.type}: {error}"
            ) from error

    def _check_keys(self, columns: Columns, before: int) -> None:
        key_columns = [columns[at] for at in self._keys_at]
        arrays = [array for array in key_columns if array is not None]
        if any(not array.null_count for array in arrays):
            return
        row = 0
        if arrays:
            lacks = reduce(pc.and_, [array.is_null() for array in arrays])
            row = pc.index(lacks, True).as_py()
        if row >= 0:
            raise InvalidRecordError(
                f"row {before + row} of those for topic {self._topic!r} has no key ({', '.join(self._keys)}), and the "
                "topic is compacted (cleanup.policy): give it a key, or set cleanup.policy=delete"
            )

    def _check_sizes(self, columns: Columns, limit: int, before: int) -> None:
        arrays = [array for at, array in enumerate(columns) if array is not None and at != self._time_at]
        # Two quick bounds of the largest row. The first is the size of all rows together (a bool takes a bit, and
        # counts as a byte: hence the 8). The second is the sum of the largest values of all columns.
        if 8 * sum(array.nbytes for array in arrays) <= limit:
            return
        sizes = [bytes_of_rows(array) for array in arrays]
        if sum(size if isinstance(size, int) else int(size.max(initial=0)) for size in sizes) <= limit:
            return
        total = np.zeros(len(arrays[0]), np.int64)
        for size in sizes:
            total += size
        row = int(total.argmax())
        if (largest := int(total[row])) > limit:
            raise RecordTooLargeError(
                f"row {before + row} of those for topic {self._topic!r} has {largest} bytes, more than the limit of "
                f"{limit} (max.message.bytes of the topic, or max.request.size of the write); raise it or send smaller "
                "rows"
            )


def _milliseconds(times: pa.Array) -> pa.Array:
    """The whole milliseconds since 1970 at a time in a finer unit, cut downwards: before 1970 Arrow cuts upwards."""
    fine = times.cast(pa.int64())
    cut = times.cast(pa.timestamp("ms", times.type.tz), safe=False).cast(pa.int64())
    if (pc.min(fine).as_py() or 0) < 0:
        parts = {"us": 1_000, "ns": 1_000_000}[times.type.unit]
        rounded_up = pc.greater(pc.multiply(cut, parts), fine)
        cut = pc.subtract(cut, rounded_up.cast(pa.int64()))
    return cut
