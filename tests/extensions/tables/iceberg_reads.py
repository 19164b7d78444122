"""Who reads the published Iceberg tables in the tests: Polars, where it is one that finds columns by their names."""

from __future__ import annotations

import warnings

import polars as pl
import pyarrow as pa
import pytest

POLARS_READS = tuple(int(part) for part in pl.__version__.split(".")[:2]) >= (2, 1)
"""Earlier ones want field ids in the files. Polars 2.1 needs Python 3.11."""

by_polars = pytest.mark.skipif(not POLARS_READS, reason="Polars finds columns by their names since 2.1")


def collect(scan):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Polars would have its own planner.
        return scan.collect()


def rows_of(table, version=None):
    """The rows of a snapshot. pyiceberg's own reader makes empty lists of missing headers: they are missing here."""
    if POLARS_READS:
        frame = collect(pl.scan_iceberg(table, snapshot_id=version))
        return frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    found = table.scan(snapshot_id=version).to_arrow()
    if "headers" not in found.schema.names:
        return found
    headers = pa.array(
        [one or None for one in found["headers"].to_pylist()], found.schema.field("headers").type
    )
    return found.set_column(found.schema.get_field_index("headers"), "headers", headers)
