"""Publications of Iceberg tables: each version of each table has the rows of the entry that it names."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from spark_eos.errors import ConfigError, SchemaMismatchError
from spark_eos.extensions.tables.iceberg import cleanup
from spark_eos.extensions.tables.tables import Tables
from tests.extensions.tables.iceberg_reads import rows_of
from tests.extensions.tables.world import World, in_order

pytest.importorskip("pyiceberg", reason="the extra 'tables' is not installed")

from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

SECRET = "s3cret-of-the-catalog"


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("PYICEBERG_CATALOG__NIGHTLY__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__NIGHTLY__CREDENTIAL", SECRET)
    world = World(tmp_path / "log")
    world.catalog = load_catalog("n2", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db")
    world.catalog.name = "nightly"
    return world


def create(world, name="p", topics=("events", "orders"), **more):
    config = {"catalog": "nightly", "namespace": "shop", **more.pop("config", {})}
    world.tables.create(name, [*topics], "iceberg", config=config, **more)


def rows(world, topic, version=None):
    found = rows_of(world.catalog.load_table(f"shop.{topic}"), version)
    names = [{"_topic_partition": "_partition"}.get(name, name) for name in found.schema.names]
    return found.rename_columns(names)


def same(world, name="p"):
    """Compare every version of every table with a read of the log at its entry. How many there are."""
    versions = world.tables.versions(name)
    for version in versions:
        found = in_order(rows(world, version.topic, version.version))
        expected = world.expected(version.topic, version.entry, found.schema.names)
        assert found.to_pylist() == expected.to_pylist()
    return len(versions)


def test_versions_are_the_log_at_their_entries(world):
    create(world)
    world.write()
    first = world.tables.publish("p")
    world.write(1, ["orders"])
    second = world.tables.publish("p")
    assert (first.is_new, second.sequence) == (True, 2)
    assert not world.tables.publish("p").is_new
    assert same(world) == 4
    (events, orders) = world.tables.list_tables()
    assert (events.location, orders.location) == (
        "iceberg:nightly.shop.events",
        "iceberg:nightly.shop.orders",
    )
    assert orders.version == second.versions["orders"]
    assert world.tables.version_at("p", "orders", first.entry).version == first.versions["orders"]
    # The log's own files, and nothing of the catalog in the log but its name.
    files = {task.file.file_path for task in world.catalog.load_table("shop.orders").scan().plan_files()}
    assert all("/_segments/" in one for one in files)
    stored = b"".join(path.read_bytes() for path in Path(world.url).rglob("*") if path.is_file())
    assert b"nightly" in stored
    assert SECRET.encode() not in stored
    assert b"catalog.db" not in stored


def test_columns_change_and_older_versions_stay_readable(world):
    create(world, topics=["orders"])
    world.write(2, ["orders"])
    world.tables.publish("p")
    world.admin.alter_topic("orders", add_columns={"count": pa.int32()})
    world.write(2, ["orders"], {"orders": lambda n: {"id": n, "name": "x", "count": n}})
    world.tables.publish("p")
    world.admin.alter_topic("orders", rename_columns={"name": "label"})
    world.tables.publish("p")
    world.admin.alter_topic("orders", drop_columns=["count"])
    world.tables.publish("p")
    found = [sorted(rows(world, "orders", one.version).schema.names) for one in world.tables.versions("p")]
    places = ["_offset", "_partition", "_timestamp"]
    assert found == [
        [*places, "id", "label"],
        [*places, "count", "id", "label"],
        [*places, "count", "id", "name"],
        [*places, "id", "name"],
    ]
    assert rows(world, "orders", world.tables.versions("p")[2].version)["name"].null_count == 0


def test_versions_past_their_retention_are_forgotten(world, monkeypatch):
    monkeypatch.setattr(cleanup, "MIN_EXPIRED", 1)
    create(world, topics=["orders"], retention_ms=0)
    for _ in range(2):
        world.write(1, ["orders"])
        world.tables.publish("p")
    assert same(world) == 1


def test_a_damaged_table_is_published_again(world, tmp_path):
    create(world, topics=["orders"])
    world.write()
    world.tables.publish("p")
    for path in tmp_path.glob("log/tables/*/_iceberg/shop.orders/metadata/*.json"):
        path.unlink()
    assert world.tables.publish("p").is_new
    assert same(world) == 1


def test_tables_with_copies_need_no_file_of_the_log(world, tmp_path):
    create(world, topics=["orders"], mode="copied", location=str(tmp_path / "lake"))
    world.write()
    world.tables.publish("p")
    world.write(1, ["orders"])
    world.tables.publish("p")
    assert same(world) == 2
    files = [task.file.file_path for task in world.catalog.load_table("shop.orders").scan().plan_files()]
    assert all("/lake/orders/" in one for one in files)
    world.tables.drop("p")
    assert rows(world, "orders").num_rows == 8


def test_a_dropped_publication_takes_its_shared_tables_along(world):
    create(world)
    world.write()
    world.tables.publish("p")
    world.tables.drop("p")
    assert world.catalog.list_tables("shop") == []
    create(world)
    world.tables.publish("p")
    assert same(world) == 2


def test_a_dropped_publication_leaves_the_table_of_another_one(world, tmp_path):
    """Names of topics may differ where names of tables do not."""
    for topic in ("a.b", "a_b"):
        world.admin.create_topic(topic, 1)
    create(world, "first", ["a.b"])
    create(world, "second", ["a_b"])
    published = world.tables.publish("first")
    with pytest.raises(ConfigError, match="there is a table already"):
        world.tables.publish("second")
    world.tables.drop("second")
    assert world.tables.versions("first")[0].version == published.versions["a.b"]
    assert not world.tables.publish("first").is_new
    world.catalog.create_table(
        "shop.orders", Schema(NestedField(1, "id", LongType())), str(tmp_path / "other")
    )
    create(world, "third", ["orders"])
    world.tables.drop("third")
    assert world.catalog.table_exists("shop.orders")


def test_a_publication_that_is_dropped_in_a_copy_of_the_log_leaves_the_table(world, tmp_path):
    create(world, topics=["orders"])
    world.write()
    published = world.tables.publish("p")
    shutil.copytree(world.url, tmp_path / "copy")
    Tables(str(tmp_path / "copy")).drop("p")
    assert world.tables.versions("p")[0].version == published.versions["orders"]
    assert not world.tables.publish("p").is_new
    world.tables.drop("p")
    assert not world.catalog.table_exists("shop.orders")


def test_compacted_topics_have_one_row_for_each_key(world, tmp_path):
    world.admin.alter_topic("events", config={"cleanup.policy": "compact"})
    create(world, topics=["events"], mode="copied", location=str(tmp_path / "lake"))
    world.write(5, ["events"])
    world.tables.publish("p")
    world.write(2, ["events"])
    world.tables.publish("p")
    found = rows(world, "events").to_pylist()
    keys = [(row["partition"], row["key"]) for row in found]
    assert len(keys) == len({*keys}) == 6
    newest = {}
    for row in in_order(world.expected("events", world.log.state.seq, [*found[0]])).to_pylist():
        newest[row["partition"], row["key"]] = row["offset"]
    assert {(row["partition"], row["key"]): row["offset"] for row in found} == newest


@pytest.mark.parametrize(
    ("config", "topics", "said"),
    [
        ({"catalog": ""}, ["orders"], "need catalog"),
        ({"catalog": "unknown"}, ["orders"], "knows no catalog 'unknown'"),
        ({"namespace": "a b"}, ["orders"], "namespace.table"),
        ({}, ["a.b", "a_b"], "both be the Iceberg table shop.a_b"),
    ],
)
def test_settings_that_do_not_fit_are_refused_before_anything_is_written(world, config, topics, said):
    for name in ("a.b", "a_b"):
        world.admin.create_topic(name, 1)
    seq = world.log.follow().seq
    with pytest.raises(ConfigError, match=said):
        create(world, topics=topics, config=config)
    assert world.log.follow().seq == seq


def test_a_column_that_iceberg_has_not_is_refused_when_the_publication_is_made(world):
    world.admin.create_topic("files", 1, schema=pa.schema([("_file", pa.string())]))
    with pytest.raises(SchemaMismatchError, match="'_file'"):
        create(world, topics=["files"])


def test_columns_that_iceberg_calls_the_same_are_refused_when_the_publication_is_made(world):
    columns = pa.schema([("a.b", pa.int64()), ("a", pa.struct([("b", pa.int64())]))])
    world.admin.create_topic("files", 1, schema=columns)
    with pytest.raises(SchemaMismatchError, match=r"'a.b' and 'a'"):
        create(world, topics=["files"])
