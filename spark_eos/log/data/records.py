"""Reading what was planned: a fetch becomes an Arrow table with exactly the rows that were asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_eos.config.isolation import Isolation
from spark_eos.errors import CorruptRecordError
from spark_eos.log.data.layout import Layout
from spark_eos.log.data.planner import Fetch, end_offset, partition_of, plan
from spark_eos.log.data.reader import read_batch
from spark_eos.log.schemas.conversion import convert_table
from spark_eos.log.topics import layout_of
from spark_eos.protocol.actions.topics import require
from spark_eos.protocol.index import Load, in_memory
from spark_eos.protocol.state import State, Topic
from spark_eos.protocol.types import TopicPartition
from spark_eos.storage import Readable, Store

Offsets = npt.NDArray[np.int64]

SMALL_BYTES, SMALL_ROWS = 64 << 10, 1000
"""To decode all columns of a smaller batch takes less time than to tell Arrow which ones."""

_DAMAGE: Counter[str] = Counter()


class Records:
    """Rows in the order of their offsets, and the offset of each. Immutable; a slice copies nothing.

    ``offsets`` are None if they are consecutive, from ``first`` on. They may be a function, for those who will not
    ask for them.
    """

    __slots__ = ("_first", "_offsets", "table")

    def __init__(
        self, table: pa.Table, first: int, offsets: Offsets | Callable[[], Offsets] | None = None
    ) -> None:
        #: The rows, in the columns of the topic's newest layout.
        self.table = table
        self._first = first
        self._offsets = offsets

    @property
    def num_rows(self) -> int:
        """How many there are."""
        return int(self.table.num_rows)

    @property
    def offsets(self) -> Offsets:
        """The offset of each row."""
        if self._offsets is None:
            return np.arange(self._first, self._first + self.num_rows, dtype=np.int64)
        if callable(self._offsets):
            self._offsets = self._offsets()
        return self._offsets

    def offset(self, row: int) -> int:
        """The offset of one row."""
        return self._first + row if self._offsets is None else int(self.offsets[row])

    def slice(self, first: int, count: int | None = None) -> Records:
        """``count`` rows, or all, from number ``first`` on; fewer at the end."""
        table = self.table.slice(first, count)
        offsets = None if self._offsets is None else self.offsets[first : first + table.num_rows]
        return Records(table, self._first + first, offsets)

    def with_table(self, table: pa.Table) -> Records:
        """The same rows in other columns."""
        return Records(table, self._first, self._offsets)

    def column(self, name: str) -> pa.ChunkedArray:
        """A column of the rows."""
        return self.table.column(name)

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as dicts."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows


def read(store: Readable, topic: Topic, fetch: Fetch, columns: Collection[str] | None = None) -> Records:
    """The rows of ``fetch`` in the newest layout of the topic.

    ``columns`` names those of its columns that are wanted (None: all). The rows have these, and may have others.
    Raises `CorruptRecordError`, naming file, bytes and offsets, if they are not what was written.
    """
    try:
        return _read(store, topic, fetch, columns)
    except CorruptRecordError:
        note_damage(store.url)
        raise


def note_damage(url: str) -> None:
    """A read of the log at ``url`` has met damage."""
    _DAMAGE[url] += 1


def _read(store: Readable, topic: Topic, fetch: Fetch, columns: Collection[str] | None) -> Records:
    layout = layout_of(topic, fetch.file.schema_version)
    context = f"{fetch.topic}-{fetch.partition}, offset {fetch.base_offset}"
    newest = layout_of(topic)
    # Rows of an older version are made rows of the newest one as a whole.
    read_columns = columns if newest.version == layout.version else None
    if read_columns is not None:
        if not _is_stored(fetch, layout, read_columns):
            return Records(_not_stored(fetch, layout, read_columns), fetch.offset)
        if _is_all(fetch, layout, read_columns):
            read_columns = None
    table = read_batch(store, fetch.file, fetch.batch, layout, context=context, columns=read_columns)
    if fetch.file.offsets:
        records = _with_holes(table, fetch)
        if read_columns is not None:
            return records
        return records.with_table(convert_table(records.table, layout, newest, topic.schemas))
    if fetch.skip or fetch.count != table.num_rows:
        table = table.slice(fetch.skip, fetch.count)
    if table.num_rows != fetch.count:
        raise CorruptRecordError(
            f"{fetch.file.name} has {table.num_rows} rows where {fetch.count} were planned ({context})"
        )
    return Records(convert_table(table, layout, newest, topic.schemas), fetch.offset)


def times_damaged(url: str) -> int:
    """How often readers of this process, of whatever kind, have met damaged data of the log there: for metrics."""
    return _DAMAGE[url]


def needs_file(topic: Topic, fetch: Fetch, columns: Collection[str] | None) -> bool:
    """Whether `read` reads the file: not if it stores none of the columns that are wanted, and has no holes."""
    if columns is None or fetch.file.schema_version != layout_of(topic).version:
        return True
    return _is_stored(fetch, layout_of(topic), columns)


def _is_stored(fetch: Fetch, layout: Layout, columns: Collection[str]) -> bool:
    """Whether the file has to be read for these columns, or for the offsets of its rows."""
    file, batch = fetch.file, fetch.batch
    if file.offsets or not layout.names.difference(file.omitted).isdisjoint(columns):
        return True
    return layout.timestamp_column in columns and batch.min_timestamp_ms != batch.max_timestamp_ms


def _is_all(fetch: Fetch, layout: Layout, columns: Collection[str]) -> bool:
    """Whether all columns of the file are decoded: they are wanted, or it is small."""
    if fetch.size < SMALL_BYTES and fetch.batch.count < SMALL_ROWS:
        return True
    return layout.names.difference(fetch.file.omitted).issubset(columns)


def _not_stored(fetch: Fetch, layout: Layout, columns: Collection[str]) -> pa.Table:
    """As many rows, with those of the columns that the file leaves out."""
    arrays = {
        field.name: layout.fill(field, fetch.count, fetch.batch.max_timestamp_ms)
        for field in layout.physical
        if field.name in columns
    }
    # No topic has a column without a name, and a table without columns has no rows.
    return pa.table(arrays or {"": pa.nulls(fetch.count)})


def _with_holes(table: pa.Table, fetch: Fetch) -> Records:
    """Those rows of a batch with holes that the fetch is about."""
    rows = table.remove_column(0)
    if fetch.file.is_parquet:
        offsets: Offsets = np.from_dlpack(pa.concat_arrays(table.column(0).chunks))  # type: ignore[assignment]
        return _rows_of_fetch(rows, fetch, offsets)
    # Not to_numpy: that makes pyarrow import pandas.
    skipped: npt.NDArray[Any] = np.from_dlpack(pa.concat_arrays(table.column(0).chunks))
    last = fetch.base_offset + len(skipped) - 1 + int(skipped.sum(dtype=np.int64))
    count = partial(_count, fetch.base_offset, skipped)
    if fetch.part is None and not fetch.skip and last < fetch.next_offset:
        return Records(rows, fetch.offset, count)
    return _rows_of_fetch(rows, fetch, count())


def _rows_of_fetch(rows: pa.Table, fetch: Fetch, offsets: Offsets) -> Records:
    """The rows that the fetch is about, of all rows of its batch."""
    first, end = np.searchsorted(offsets, (fetch.offset, fetch.next_offset)).tolist()
    if fetch.part is not None:
        first, end = min(first + fetch.part[0], end), min(first + fetch.part[1], end)
    return Records(rows.slice(first, end - first), fetch.offset, offsets[first:end])


def _count(base_offset: int, skipped: npt.NDArray[Any]) -> Offsets:
    """The offsets of rows, given how many are skipped before each."""
    return base_offset + np.arange(len(skipped), dtype=np.int64) + np.cumsum(skipped, dtype=np.int64)


def offset_for_time(
    store: Store,
    state: State,
    at: TopicPartition,
    timestamp_ms: int,
    isolation: Isolation,
    load: Load = in_memory,
) -> tuple[int, int] | None:
    """Offset and timestamp (ms) of the first visible record that is not older than ``timestamp_ms``.

    None if there is none (Kafka's offsetsForTimes). Index pages and batches that end before are passed over by what
    the index says of them; only the batch that decides is read.
    """
    partition = partition_of(state, at)
    topic = require(state, at.topic)
    limit = end_offset(partition, isolation)
    column = layout_of(topic).timestamp_column
    for row in partition.index.scan(partition.start, load, newer_than_ms=timestamp_ms):
        first, last = max(row.base_offset, partition.start), min(row.next_offset, limit)
        if first >= last:
            continue
        for fetch in plan(state, at, first, last, isolation, load):
            records = read(store, topic, fetch, (column,))
            times = records.column(column).cast(pa.int64())
            late = pc.index(pc.greater_equal(times, timestamp_ms), value=True).as_py()
            if late >= 0:
                return records.offset(late), times[late].as_py()
    return None
