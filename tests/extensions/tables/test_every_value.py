"""A Delta table gives every value of its topic: all types and shapes that it can keep, with nulls at every level."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from spark_eos import Admin, Log, Producer
from spark_eos.errors import SchemaMismatchError
from spark_eos.extensions.tables.tables import Tables
from tests.clients.test_every_value import TABLES, same
from tests.extensions.tables.world import rows_of


@pytest.mark.deep
@pytest.mark.parametrize("mode", ["shared", "copied"])
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(TABLES)
def test_every_value_of_columns(mode, tmp_path_factory, given):
    schema, rows = given
    columns = [
        pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    table = pa.table(columns, schema=schema)
    folder = tmp_path_factory.mktemp("every")
    log = Log.open_or_create(str(folder / "log"))
    Admin(log).create_topic("t", schema=schema, config={"segment.format": "parquet"})
    tables = Tables(log)
    try:
        tables.create("p", ["t"], mode=mode, location=str(folder / "lake") if mode == "copied" else None)
    except SchemaMismatchError:
        return  # What Delta does not have is refused, by name, before anything is published.
    with Producer(log) as producer:
        producer.send_arrow("t", table)
    tables.publish("p")
    (one,) = tables.list_tables()
    same(rows_of(one.location).select(schema.names).cast(schema).to_pylist(), table.to_pylist())


LOCAL = pa.timestamp("us")


@pytest.mark.parametrize(
    ("type_", "path"),
    [
        (pa.map_(pa.string(), LOCAL), "c"),
        (pa.map_(LOCAL, pa.string()), "c"),
        (pa.list_(pa.map_(pa.string(), pa.struct([("a", LOCAL)]))), "c.element"),
        (pa.struct([("m", pa.map_(pa.string(), pa.list_(LOCAL)))]), "c.m"),
    ],
)
@pytest.mark.parametrize("mode", ["shared", "copied"])
def test_timestamps_without_a_time_zone_in_maps_are_refused_by_name(type_, path, mode, tmp_path):
    """delta-rs does not see them, and makes a table that it cannot open."""
    log = Log.open_or_create(str(tmp_path / "log"))
    Admin(log).create_topic("t", schema=pa.schema([("c", type_)]), config={"segment.format": "parquet"})
    place = {"location": str(tmp_path / "lake")} if mode == "copied" else {}
    with pytest.raises(
        SchemaMismatchError, match=f"column '{path}' is a map with timestamps without a time zone"
    ):
        Tables(log).create("p", ["t"], mode=mode, **place)
