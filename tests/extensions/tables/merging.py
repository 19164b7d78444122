"""Rows that are merged into a table by their keys, as of a compacted topic."""

from __future__ import annotations

import pyarrow as pa

from spark_eos.extensions.tables.target import RowChange, Stamp

KEYED = pa.schema(
    [("key", pa.binary()), ("value", pa.binary()), ("partition", pa.int32()), ("offset", pa.int64())]
)


def stamp(sequence: int, retention_ms: int = 0) -> Stamp:
    return Stamp(
        "log", "p", sequence, 10 * sequence, sequence, "t", "topic-id", {0: (0, sequence)}, retention_ms
    )


def row(key, value, offset, **more):
    return {"key": key, "value": value, "partition": 0, "offset": offset, **more}


def merge(target, sequence, rows, removed=(), starts=None, *, replaces_all=False, schema=KEYED):
    """Commit these rows, and that those with these keys are gone."""
    gone = [{"key": key, "partition": 0} for key in removed]
    change = RowChange(
        schema,
        ("key", "partition"),
        ("partition", "offset"),
        lambda: rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows, schema=schema),
        lambda: pa.Table.from_pylist(gone, schema=KEYED).select(["key", "partition"]),
        starts or {0: 0},
        replaces_all,
    )
    return target.commit(target.current(), change, stamp(sequence), lambda _: None)
