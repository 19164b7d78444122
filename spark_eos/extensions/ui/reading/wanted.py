"""Which records are wanted: with a text in key, value, headers or columns, with a key, or by an expression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark_eos.clients.arrow_reader import available_columns
from spark_eos.errors import CorruptRecordError, InvalidRequestError
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.reading.value_fields import ValueFields
from spark_eos.log.data.planner import Fetch
from spark_eos.log.data.records import Records
from spark_eos.log.selection.columns import place_column, place_names
from spark_eos.log.selection.row_filter import RowFilter
from spark_eos.log.topics import key_columns, layout_of
from spark_eos.protocol.state import Topic
from spark_eos.protocol.types import TopicPartition

MOST_BATCHES = 500
MOST_BYTES = 64 << 20
"""What one call reads at most. A search that has not ended says where to go on."""

MOST_SKIPS = 20_000
"""Batches that a filter leaves out in one call."""

_MOST_NARROWED = 500
"""Of a topic with more partitions, batches are left out one by one: the bisection of each partition takes longer."""


class Budget:
    """What is left of what one call may read, and what could not be read."""

    def __init__(self) -> None:
        self.batches, self.bytes = MOST_BATCHES, MOST_BYTES
        self.skips = self.looked_at = 0
        """Records that were compared with what is wanted."""
        self.damaged: list[str] = []

    def skip(self) -> None:
        """A batch was not read, since it can have no record that is wanted."""
        self.skips += 1

    def spend(self, fetch: Fetch) -> None:
        self.batches -= 1
        self.bytes -= fetch.size

    @property
    def read(self) -> int:
        """Batches that were read."""
        return MOST_BATCHES - self.batches

    @property
    def is_spent(self) -> bool:
        return self.batches <= 0 or self.bytes <= 0 or self.skips >= MOST_SKIPS


class Criteria(NamedTuple):
    """Which records are looked for: with a text in key, value, headers or columns, with a key, or by an expression."""

    text: str = ""
    key: str = ""
    row_filter: RowFilter | None = None
    value_fields: ValueFields | None = None

    @property
    def is_all(self) -> bool:
        return not self.text and not self.key and self.row_filter is None

    def may_be_in(self, fetch: Fetch) -> bool:
        """Whether a batch, which is not read for that, may have any."""
        return self.row_filter is None or bool(self.row_filter.kept([fetch]))

    def narrowed(self, topic: Topic, at: TopicPartition, start: int, end: int) -> tuple[int, int]:
        """The part of these offsets that may have any."""
        if self.row_filter is None or topic.partitions > _MOST_NARROWED:
            return start, end
        if not {*place_names(is_typed=bool(topic.schemas))[:3]} & {*self.row_filter.columns}:
            return start, end
        return self.row_filter.narrowed(at, start, end)


def matching(
    follower: Follower, topic: Topic, fetch: Fetch, criteria: Criteria, budget: Budget
) -> tuple[Records, Sequence[int]] | None:
    """The rows of a fetch, and the places of those that are wanted.

    None: the batch is damaged, which is named in ``budget.damaged``.
    """
    budget.spend(fetch)
    try:
        records = follower.read(topic, fetch)
    except CorruptRecordError as error:
        budget.damaged.append(str(error))
        return None
    if criteria.is_all:
        return records, range(records.num_rows)
    budget.looked_at += records.num_rows
    places = pa.array(range(records.num_rows), pa.int64())
    table = records.table
    if criteria.row_filter is not None:
        asked = {}
        if criteria.value_fields is not None:
            budget.bytes -= table.nbytes  # To decode all values takes much longer than to read them.
            asked = criteria.value_fields.columns(table.column("value").to_pylist())
        places = _kept(topic, records, fetch, criteria.row_filter, {"": places, **asked})  # No column is "".
        table = table.take(places)
    return records, places.filter(_mask(topic, table, criteria).combine_chunks()).to_pylist()


def _kept(
    topic: Topic, records: Records, fetch: Fetch, row_filter: RowFilter, columns: dict[str, pa.Array]
) -> pa.Array:
    """The places of the rows that the filter keeps: those of the column without a name."""
    for field in available_columns(topic):
        if field.name in row_filter.columns or not row_filter.columns:
            place = place_column(field, records, fetch, is_typed=bool(topic.schemas))
            columns[field.name] = records.column(field.name) if place is None else place
    return row_filter.apply(pa.table(columns)).column("").combine_chunks()


def dicts(topic: Topic, table: pa.Table) -> list[dict[str, Any]]:
    """The rows, their timestamps in milliseconds; columns of a schema as scalars, since Python has not all values."""
    name = layout_of(topic).timestamp_column
    at = table.schema.get_field_index(name)
    table = table.set_column(at, name, table.column(at).cast(pa.int64()))
    if not topic.schemas:
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows
    times = table.column(at).to_pylist()
    columns = zip(table.column_names, table.columns, strict=True)
    shown = [(column, values) for column, values in columns if column != name]
    return [
        {name: times[row], **{column: values[row] for column, values in shown}} for row in range(len(times))
    ]


def _mask(topic: Topic, table: pa.Table, criteria: Criteria) -> pa.ChunkedArray:
    """Which rows are wanted. A search looks at stored bytes and at columns as text, without regard to case."""
    mask = pa.chunked_array([pa.array([True] * table.num_rows, pa.bool_())])
    if criteria.key:
        columns = key_columns(topic)
        if len(columns) != 1:
            raise InvalidRequestError(
                f"the key of topic {topic.name!r} has {len(columns)} columns: use the search"
            )
        mask = pc.and_(
            mask, pc.fill_null(pc.equal(_as_bytes(table[columns[0]]), criteria.key.encode()), False)
        )
    if criteria.text:
        pattern = criteria.text.encode()
        hits = pa.chunked_array([pa.array([False] * table.num_rows, pa.bool_())])
        for column in table.columns:
            matches = pc.match_substring(_as_bytes(column), pattern, ignore_case=criteria.text.isascii())
            hits = pc.or_(hits, pc.fill_null(matches, False))
        mask = pc.and_(mask, hits)
    return mask


def _as_bytes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as something to search in: its bytes, its text, or what its values look like."""
    if pa.types.is_binary(column.type):
        return column
    if pa.types.is_string(column.type):
        return column.cast(pa.binary())
    if pa.types.is_nested(column.type):
        texts = [_joined(value) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.binary())])
    return column.cast(pa.string()).cast(pa.binary())


def _joined(value: Any) -> bytes | None:
    """All texts and bytes in a nested value, one after the other."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return value
    if isinstance(value, dict):
        return b"\0".join(_joined(item) or b"" for item in value.values())
    if isinstance(value, (list, tuple)):
        return b"\0".join(_joined(item) or b"" for item in value)
    return str(value).encode()
