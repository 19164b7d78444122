"""Rows merged by their keys into an Iceberg table: files with rows that have gone are written again, without them.

All in one snapshot: files out, files in. So no reader sees the one without the other, and none needs delete files.

A version would add a small file each time. So the smallest files are written into the new one as long as that has as
many rows as they have: the files grow like powers of two, and a row is written again only a logarithm of times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_eos.extensions.tables.iceberg.columns import stored_form
from spark_eos.extensions.tables.target import RowChange
from spark_eos.maintenance.cleaner import hashes_of

MAX_ROWS = 1 << 20
"""A file with more rows is not written again only to have fewer files."""

_AT = "_eoslog_row"

Read = Callable[[str, list[str] | None], pa.Table]


def merge(
    change: RowChange, files: Mapping[str, int], read: Read, max_rows: int = MAX_ROWS
) -> tuple[list[pa.Table], list[str]]:
    """What to write as new files, and the addresses of the files that go.

    ``files`` are those of the version before, with their rows. ``read`` gives the rows of a file: some columns, or all
    of them (None). Columns that it does not have are null.
    """
    schema = stored_form(change.schema)
    new = change.rows().cast(schema)
    if change.replaces_all:
        return _nonempty([new]), [*files]
    keys = list(change.keys)
    changed = pa.concat_tables(
        [new.select(keys), change.removed().select(keys).cast(new.select(keys).schema)]
    )
    tables: list[pa.Table] = []
    old_files: list[str] = []
    parts = [new]
    rows = new.num_rows
    for address, count in sorted(files.items(), key=lambda item: item[1]):
        looked = read(address, [*dict.fromkeys([*keys, *change.place])])
        stays = _staying(looked, changed, change)
        if stays is None and (count > rows or rows + count > max_rows):
            continue
        whole = _fitted(read(address, None), schema)
        remaining = whole if stays is None else whole.take(stays)
        old_files.append(address)
        if rows + remaining.num_rows > max_rows:
            tables.append(remaining)
        else:
            parts.append(remaining)
            rows += remaining.num_rows
    return _nonempty([pa.concat_tables(parts), *tables]), old_files


def _nonempty(tables: Iterable[pa.Table]) -> list[pa.Table]:
    return [table for table in tables if table.num_rows]


def _staying(rows: pa.Table, changed: pa.Table, change: RowChange) -> pa.Array | None:
    """The numbers of the rows that stay, rising; None: all of them."""
    numbered = rows.append_column(_AT, pa.array(range(rows.num_rows), pa.int64()))
    partition, offset = change.place
    for number, start in change.starts.items():
        if start:
            old = pc.and_(pc.equal(numbered[partition], number), pc.less(numbered[offset], start))
            numbered = numbered.filter(pc.invert(old))
    if changed.num_rows:
        numbered = _without(numbered, changed, list(change.keys))
    if numbered.num_rows == rows.num_rows:
        return None
    staying = numbered[_AT].combine_chunks()
    return staying.take(pc.sort_indices(staying))


def _without(rows: pa.Table, changed: pa.Table, keys: list[str]) -> pa.Table:
    """The rows with other keys."""
    if all(_can_join(column) for column in changed.columns):
        return rows.select([*keys, _AT]).join(changed, keys, join_type="left anti")
    hashes = hashes_of(rows.select(keys).cast(changed.schema).columns)
    return rows.filter(pa.array(~np.isin(hashes, hashes_of(changed.columns))))


def _can_join(column: pa.ChunkedArray) -> bool:
    """Whether Arrow's join takes two values for the same as the log does: it never does so with nulls and NaN."""
    type_ = column.type
    return not (column.null_count or pa.types.is_nested(type_) or pa.types.is_floating(type_))


def _fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows in the columns of ``schema``: a column that is not there is null."""
    names = {*table.column_names}
    arrays: list[Any] = [
        table[field.name].cast(field.type) if field.name in names else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
