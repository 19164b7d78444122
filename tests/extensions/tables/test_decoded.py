"""Topics with Avro and JSON values as tables with copies: columns as Spark's source gives them, row by row."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from spark_eos import Admin, Log, Producer
from spark_eos.errors import SchemaMismatchError
from spark_eos.extensions.tables.tables import Tables

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "item", "type": "string"},
        {"name": "count", "type": ["null", "int"], "default": None},
        {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
JSON = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["item"],
}
PLACES = ["_key", "_headers", "_partition", "_offset", "_timestamp"]


class World:
    def __init__(self, tmp_path, format_, schema):
        self.url = str(tmp_path / "log")
        self.lake = str(tmp_path / "lake")
        self.log = Log.open_or_create(self.url)
        self.admin = Admin(self.log)
        config = {"value.format": format_, "value.schema": json.dumps(schema)}
        self.admin.create_topic("orders", 1, config=config)
        self.tables = Tables(self.log)

    def send(self, *values):
        with Producer(self.url) as producer:
            for value in values:
                producer.send("orders", value, key=b"k")

    def create(self, format_="delta", **more):
        config = {"catalog": "lake", "namespace": "shop"} if format_ == "iceberg" else {}
        self.tables.create("p", ["orders"], format_, mode="copied", location=self.lake, config=config, **more)

    def rows(self, version=None, place="_offset"):
        table = DeltaTable(f"{self.lake}/orders", version=version).to_pyarrow_dataset().to_table()
        return table.sort_by(place)


def order(item, count=None, **more):
    return {"item": item, "count": count, "placed": 1_700_000_000_000, "tags": ["a"], **more}


@pytest.fixture
def world(tmp_path):
    return World(tmp_path, "avro-single-object", AVRO)


def test_values_are_columns_and_broken_ones_are_null(world):
    world.send(order("apples", 2), b"broken", None, order("pears"))
    world.create()
    world.tables.publish("p")
    found = world.rows()
    assert found.schema.names == ["item", "count", "placed", "tags", *PLACES]
    assert found.schema.field("placed").type == pa.timestamp("us", "UTC")
    assert found["item"].to_pylist() == ["apples", None, None, "pears"]
    assert found["count"].to_pylist() == [2, None, None, None]
    assert found["tags"].to_pylist() == [["a"], None, None, ["a"]]
    assert found["_offset"].to_pylist() == [0, 1, 2, 3]
    assert found["_key"].to_pylist() == [b"k"] * 4
    # The log keeps what the table cannot show.
    world.send(order("plums"))
    world.tables.publish("p")
    assert world.rows()["item"].to_pylist() == ["apples", None, None, "pears", "plums"]
    assert world.rows(0).num_rows == 4
    assert not world.tables.publish("p").is_new


def test_floating_point_numbers_have_no_bounds(tmp_path):
    """Those of Parquet leave NaN out, which is the greatest number of Spark."""
    world = World(
        tmp_path,
        "avro-single-object",
        {**AVRO, "fields": [{"name": "x", "type": "double"}, AVRO["fields"][0]]},
    )
    world.send({"x": 1.0, "item": "a"}, {"x": float("nan"), "item": "b"})
    world.create()
    world.tables.publish("p")
    (copy,) = (tmp_path / "lake/orders").glob("**/*.parquet")
    group = pq.read_metadata(copy).row_group(0)
    assert [group.column(at).is_stats_set for at in (0, 1)] == [False, True]


def test_another_schema_is_published_at_once_and_replaces_all(world):
    world.send(order("apples", 2))
    world.create()
    first = world.tables.publish("p")
    grown = {**AVRO, "fields": [*AVRO["fields"], {"name": "shop", "type": "string", "default": "main"}]}
    world.admin.alter_topic("orders", config={"value.schema": json.dumps(grown)})
    second = world.tables.publish("p")
    assert second.is_new
    # A record of before has the default, as Avro's rules say.
    assert world.rows()["shop"].to_pylist() == ["main"]
    assert "shop" not in world.rows(first.versions["orders"]).schema.names
    assert not world.tables.publish("p").is_new
    world.send(order("pears", shop="other"))
    world.tables.publish("p")
    assert world.rows()["shop"].to_pylist() == ["main", "other"]
    world.admin.alter_topic("orders", config={"value.schema": json.dumps(AVRO)})
    world.tables.publish("p")
    assert world.rows().schema.names == ["item", "count", "placed", "tags", *PLACES]


def test_values_that_are_bytes_or_rows_of_keys_from_now_on_replace_all(world):
    world.send(order("apples", 2), order("pears"))
    world.create()
    world.tables.publish("p")
    world.admin.alter_topic("orders", config={"cleanup.policy": "compact"})
    world.tables.publish("p")
    assert world.rows(place="offset").schema.names == [
        "key",
        "value",
        "headers",
        "timestamp",
        "partition",
        "offset",
    ]
    assert world.rows(place="offset").num_rows == 1
    world.admin.alter_topic("orders", config={"cleanup.policy": "delete"})
    world.tables.publish("p")
    assert world.rows()["item"].to_pylist() == ["apples", "pears"]
    world.admin.alter_topic("orders", config={"value.format": "bytes", "value.schema": None})
    world.tables.publish("p")
    assert world.rows(place="offset")["key"].to_pylist() == [b"k", b"k"]
    assert not world.tables.publish("p").is_new


def test_json_values(tmp_path):
    world = World(tmp_path, "json", JSON)
    world.send({"item": "apples", "count": 2}, {"item": "pears", "shop": "early"}, b"{")
    world.create()
    world.tables.publish("p")
    found = world.rows()
    assert found.schema.names == ["item", "count", *PLACES]
    assert found.select(["item", "count"]).to_pylist() == [
        {"item": "apples", "count": 2},
        {"item": "pears", "count": None},
        {"item": None, "count": None},
    ]
    more = {**JSON, "properties": {**JSON["properties"], "shop": {"type": "string"}}}
    world.admin.alter_topic("orders", config={"value.schema": json.dumps(more)})
    world.send({"item": "plums", "shop": "main"})
    world.tables.publish("p")
    assert world.rows()["shop"].to_pylist() == [None, "early", None, "main"]


def test_an_iceberg_table_has_the_same_columns(world, tmp_path, monkeypatch):
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/catalog.db")
    from pyiceberg.catalog import load_catalog

    world.send(order("apples", 2))
    world.create("iceberg")
    first = world.tables.publish("p").versions["orders"]
    smaller = {**AVRO, "fields": AVRO["fields"][:2]}
    world.admin.alter_topic("orders", config={"value.schema": json.dumps(smaller)})
    world.tables.publish("p")
    table = load_catalog("c", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db")
    table.name = "lake"
    table = table.load_table("shop.orders")
    places = [name.replace("_partition", "_topic_partition") for name in PLACES]
    assert table.scan().to_arrow().schema.names == ["item", "count", *places]
    assert table.scan(snapshot_id=first).to_arrow()["tags"].to_pylist() == [["a"]]
    assert table.scan().to_arrow()["item"].to_pylist() == ["apples"]


def test_tables_over_the_files_of_the_log_have_the_stored_bytes(world):
    world.send(order("apples"))
    world.tables.create("p", ["orders"])
    world.tables.publish("p")
    (table,) = world.tables.list_tables()
    assert "value" in DeltaTable(table.location).schema().to_arrow().names


def test_a_copy_that_a_killed_publisher_left_is_taken(world, monkeypatch):
    world.send(order("apples"))
    world.create()
    publisher = world.tables.publisher("p")
    target = publisher._targets["orders"]

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(target, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        publisher.publish()
    assert world.tables.publish("p").is_new
    assert world.rows()["item"].to_pylist() == ["apples"]


def test_columns_that_would_have_one_name_are_refused_when_the_publication_is_made(tmp_path):
    fields = [{"name": "_Offset", "type": "int"}]
    world = World(tmp_path, "avro", {"type": "record", "name": "R", "fields": fields})
    with pytest.raises(SchemaMismatchError, match="'_Offset' and '_offset'"):
        world.create()
