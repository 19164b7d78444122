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

__all__ = ["Columns", "RowConverter"]

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
            if array is not None and (found := outside(array)) is not None:
                raise InvalidRecordError(
                    f"column {self._layout.physical.field(at).name!r} of topic {self._topic!r}: {found} lies outside "
                    "of the years 1 to 9999. Not every reader could show it; send it as a number or a text"
                )
        headers = columns[self._headers_at] if self._layout.is_kafka else None
        if headers is not None and (row := first_without_name(headers)) is not None:
            raise InvalidRecordError(
                f"row {before + row} of those for topic {self._topic!r} has a header that is null or has no name "
                "(column 'headers'). Leave it out of the list"
            )
        given = columns[self._time_at]
        if self._times is not None and given is not None:
            self._times.check_column(given)
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
        names, known = schema.names, set(expected.names)
        at = {name: position for position, name in enumerate(names)}
        for position, name in enumerate(names):
            if name not in known:
                raise SchemaMismatchError(
                    f"topic {self._topic!r} has no column {name!r}; it has {', '.join(expected.names)}"
                )
            if at[name] != position:
                raise SchemaMismatchError(
                    f"column {name!r} for topic {self._topic!r} is there twice; keep one"
                )
        positions: list[int | None] = []
        for field in expected:
            found = at.get(field.name)
            if found is not None:
                self._check_type(field, schema.field(found).type)
            elif not field.nullable and field.name != self._layout.timestamp_column:
                raise SchemaMismatchError(
                    f"column {field.name!r} of topic {self._topic!r} is missing: it is {field.type} and "
                    "not nullable"
                )
            positions.append(found)
        return positions

    def _check_type(self, field: pa.Field, found: pa.DataType) -> None:
        types = pa.types
        if found == field.type or types.is_null(found):
            return
        if field.name == self._layout.timestamp_column:
            fits = types.is_timestamp(found) and found.tz is not None
        else:
            normal = normalise_type(found, field.name)
            fits = normal == field.type or (self._is_message(field) and types.is_string(normal))
        if not fits:
            raise SchemaMismatchError(
                f"column {field.name!r} of topic {self._topic!r} is {field.type}, found {found}; cast it"
            )

    def _is_message(self, field: pa.Field) -> bool:
        """Whether this is the key or value of a Kafka-shaped topic: bytes, which may come as text."""
        return self._layout.is_kafka and pa.types.is_binary(field.type)

    def _column(self, field: pa.Field, found: pa.Array | None, rows: int, before: int) -> pa.Array | None:
        if found is None:
            return None
        is_timestamp = field.name == self._layout.timestamp_column
        array = found if found.type == field.type else self._cast(field, found)
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

    def _cast(self, field: pa.Field, found: pa.Array) -> pa.Array:
        try:
            if field.name == self._layout.timestamp_column and not pa.types.is_null(found.type):
                # Milliseconds are what is kept of finer units; coarser ones must not overflow.
                if found.type.unit in ("s", "ms"):
                    return found.cast(field.type)
                return _milliseconds(found).cast(field.type)
            if self._is_message(field) and not pa.types.is_null(found.type):
                found = found.cast(normalise_type(found.type, field.name))
            return found.cast(field.type)
        except pa.ArrowNotImplementedError as error:
            raise SchemaMismatchError(
                f"column {field.name!r} of topic {self._topic!r} is {field.type}, found {found.type}, which "
                f"Arrow cannot convert ({error}); cast it"
            ) from error
        except pa.ArrowInvalid as error:
            raise InvalidRecordError(
                f"column {field.name!r} of topic {self._topic!r}: a value of type {found.type} cannot be "
                f"stored as {field.type}: {error}"
            ) from error

    def _check_keys(self, columns: Columns, before: int) -> None:
        found = [columns[at] for at in self._keys_at]
        given = [array for array in found if array is not None]
        if any(not array.null_count for array in given):
            return
        row = 0
        if given:
            lacks = reduce(pc.and_, [array.is_null() for array in given])
            row = pc.index(lacks, True).as_py()
        if row >= 0:
            raise InvalidRecordError(
                f"row {before + row} of those for topic {self._topic!r} has no key ({', '.join(self._keys)}), and the "
                "topic is compacted (cleanup.policy): give it a key, or set cleanup.policy=delete"
            )

    def _check_sizes(self, columns: Columns, limit: int, before: int) -> None:
        given = [array for at, array in enumerate(columns) if array is not None and at != self._time_at]
        # No row is larger than all of them together, which costs nothing to know (a bool counts as a byte, and takes a
        # bit), nor than the largest values together.
        if 8 * sum(array.nbytes for array in given) <= limit:
            return
        sizes = [bytes_of_rows(array) for array in given]
        if sum(one if isinstance(one, int) else int(one.max(initial=0)) for one in sizes) <= limit:
            return
        total = np.zeros(len(given[0]), np.int64)
        for one in sizes:
            total += one
        row = int(total.argmax())
        if (largest := int(total[row])) > limit:
            raise RecordTooLargeError(
                f"row {before + row} of those for topic {self._topic!r} has {largest} bytes, more than the limit of "
                f"{limit} (max.message.bytes of the topic, or max.request.size of the write); raise it or send smaller "
                "rows"
            )


def _milliseconds(found: pa.Array) -> pa.Array:
    """The whole milliseconds since 1970 at a time in a finer unit, cut downwards: before 1970 Arrow cuts upwards."""
    fine = found.cast(pa.int64())
    cut = found.cast(pa.timestamp("ms", found.type.tz), safe=False).cast(pa.int64())
    if (pc.min(fine).as_py() or 0) < 0:
        parts = {"us": 1_000, "ns": 1_000_000}[found.type.unit]
        rounded_up = pc.greater(pc.multiply(cut, parts), fine)
        cut = pc.subtract(cut, rounded_up.cast(pa.int64()))
    return cut
