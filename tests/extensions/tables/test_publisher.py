"""The publisher over Delta tables: each version has exactly the rows of the entry that it names."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_eos import Admin, Log, Producer
from spark_eos.errors import (
    ConfigError,
    InvalidRequestError,
    ProducerFencedError,
    SchemaMismatchError,
    UnknownTopicOrPartitionError,
)
from spark_eos.extensions.tables.contents import topic_of
from spark_eos.extensions.tables.tables import Tables
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.storage import Settings
from tests.extensions.tables import killed
from tests.extensions.tables.world import World, rows_of


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path / "log")
    world.tables.create("p", ["events", "orders"])
    return world


def location(world, topic):
    (found,) = [
        one.location for one in world.tables.list_tables() if (one.publication, one.topic) == ("p", topic)
    ]
    return found


def test_a_single_topic_need_not_be_in_a_list(world):
    """A name is not its letters: those may be topics, too."""
    for name in ("a", "b", "ab"):
        world.log.ensure_topics(name)
    assert {"a", "b", "ab"} <= set(world.log.state.topics)
    world.tables.create("one", "ab")
    assert [table.topic for table in world.tables.list_tables() if table.publication == "one"] == ["ab"]


# -- Versions ---------------------------------------------------------------------------------------------


def test_versions_of_all_tables_stand_for_one_entry(world):
    world.write()
    first = world.tables.publish("p")
    entry = world.write(1, ["orders"])
    second = world.tables.publish("p")
    assert (first.sequence, second.sequence) == (1, 2)
    assert second.entry >= entry
    assert world.check() == 4
    # From an entry to the version, and back.
    assert world.tables.version_at("p", "orders", first.entry).version == first.versions["orders"]
    assert world.tables.version_at("p", "events", 10**9).entry == second.entry
    with pytest.raises(InvalidRequestError, match="no version for entry 0"):
        world.tables.version_at("p", "orders", 0)


def test_publishing_again_writes_nothing(world):
    world.write()
    done = world.tables.publish("p")
    seq = world.log.follow().seq
    assert world.tables.publish("p") == done._replace(is_new=False)
    assert world.log.follow().seq == seq


def test_an_empty_log_is_published(world):
    world.tables.publish("p")
    assert world.check() == 2
    assert rows_of(location(world, "orders")).num_rows == 0


def test_rows_share_the_files_of_the_log(world):
    world.write()
    world.tables.publish("p")
    assert {Path(name).parent.name for name in DeltaTable(location(world, "events")).file_uris()} == {
        "0",
        "1",
    }
    assert all(Path(name).exists() for name in DeltaTable(location(world, "events")).file_uris())


def test_tables_of_a_log_on_two_stores_lie_with_its_data(tmp_path):
    data = tmp_path / "data"
    log = Log.create(tmp_path / "log", settings=Settings({"data.url": str(data)}))
    world = World(tmp_path / "log", log=log)
    world.tables.create("p", ["events", "orders"])
    world.write()
    world.tables.publish("p")
    world.write()
    world.tables.publish("p")
    assert world.check() == 4
    for topic in ("events", "orders"):
        assert location(world, topic).startswith(str(data))
    assert not {path.name for path in (tmp_path / "log").iterdir()} & {"data", "tables"}
    # Programs that know the tables alone.
    assert rows_of(location(world, "events")).num_rows == 12
    for topic in ("events", "orders"):
        world.admin.alter_topic(topic, config={"file.delete.delay.ms": 0})
    Vacuum(log, min_age_s=0).run()
    assert world.check() == 4
    with pytest.raises(InvalidRequestError, match="tables of publication 'p' share them"):
        Admin(log).move_data(str(tmp_path / "moved"))
    world.write()
    world.tables.publish("p")
    assert world.check() == 6


def test_open_and_aborted_transactions_are_not_in_a_version(world):
    producer = Producer(world.log, transactional_id="t")
    producer.init_transactions()
    for end in (producer.commit_transaction, producer.abort_transaction, None):
        producer.begin_transaction()
        producer.send("events", b"x", partition=0)
        producer.flush()
        world.write(1)
        if end is not None:
            end()
    done = world.tables.publish("p")
    found = rows_of(location(world, "events"))
    assert world.check() == 2
    producer.commit_transaction()
    world.tables.publish("p")
    assert world.check() == 4
    assert rows_of(location(world, "events")).num_rows > found.num_rows
    assert world.tables.versions("p", "events")[1].entry == done.entry


def test_deleted_records_leave_the_next_version(world):
    world.write(5)
    world.tables.publish("p")
    Admin(world.log).delete_records({("orders", 0): 3, ("events", 1): 5})
    world.tables.publish("p")
    found = rows_of(location(world, "orders"))
    assert found.num_rows == 7
    assert world.tables.versions("p", "orders")[0].offsets == {0: (3, 5), 1: (0, 5)}
    assert found == world.expected("orders", world.log.state.seq, found.schema.names)


def test_a_partition_that_is_added_is_published(world):
    world.write(1)
    world.tables.publish("p")
    world.admin.create_partitions({"orders": 3})
    world.write(1, ["orders"])
    world.tables.publish("p")
    assert world.check() == 4
    assert [*world.tables.versions("p", "orders")[0].offsets] == [0, 1, 2]


def test_growing_files_are_merged_and_the_table_follows(world):
    world.admin.alter_topic("events", config={"segment.format": "parquet"})
    for _ in range(12):
        world.write(2)
        world.tables.publish("p")
        for _ in Maintainer(world.log, only=["roll"]).run():
            pass
    assert world.check() == 24
    world.write(2)
    world.tables.publish("p")
    assert len(DeltaTable(location(world, "events")).file_uris()) < 12


# -- Columns ----------------------------------------------------------------------------------------------


def test_columns_follow_the_topic(world):
    world.write(2)
    world.tables.publish("p")
    world.admin.alter_topic("orders", add_columns={"more": pa.float64()})
    world.write(2, make={"orders": lambda n: {"id": n, "name": "x", "more": n / 2}})
    world.tables.publish("p")
    assert rows_of(location(world, "orders")).schema.names[-1] == "more"
    assert len(DeltaTable(location(world, "orders")).file_uris()) == 4, "older files stay"
    assert world.check() == 4
    world.admin.alter_topic("orders", rename_columns={"name": "title"}, drop_columns=["id"])
    world.write(2, make={"orders": lambda n: {"title": "y", "more": n / 2}})
    world.tables.publish("p")
    found = rows_of(location(world, "orders"))
    assert {*found.schema.names} == {"title", "more", "_partition", "_offset", "_timestamp"}
    assert found == world.expected("orders", world.log.state.seq, found.schema.names)


def test_a_column_that_comes_again_has_no_values_of_the_one_that_went(world):
    world.write(2)
    world.tables.publish("p")
    world.admin.alter_topic("orders", drop_columns=["name"])
    world.admin.alter_topic("orders", add_columns={"name": pa.string()})
    world.write(1)
    world.tables.publish("p")
    found = rows_of(location(world, "orders"))
    assert found["name"].null_count == 4
    assert found == world.expected("orders", world.log.state.seq, found.schema.names)


def test_columns_that_delta_cannot_keep_are_refused_before_anything_is_written(world):
    world.admin.create_topic("odd", schema=pa.schema([("a b", pa.int64())]))
    seq = world.log.follow().seq
    with pytest.raises(SchemaMismatchError, match="'a b'"):
        world.tables.create("q", ["odd"])
    world.admin.create_topic("fine", schema=pa.schema([("a", pa.int64())]))
    world.tables.create("r", ["fine"])
    world.admin.alter_topic("fine", add_columns={"at": pa.time64("ns")})
    seq = world.log.follow().seq
    with pytest.raises(SchemaMismatchError, match="'at'"):
        world.tables.publish("r")
    assert world.log.follow().seq == seq


# -- Crashes, and other publishers --------------------------------------------------------------------------


def test_a_publisher_that_is_killed_at_any_stage_leaves_nothing_wrong(tmp_path):
    worlds = {}
    for stage in killed.STAGES:
        worlds[stage] = world = World(tmp_path / stage.replace(" ", "-"))
        world.tables.create("p", ["events", "orders"])
        world.write(2)
        if stage != "sealed":  # So the first version is tried at one stage, the second at all others.
            world.tables.publish("p")
            world.write(2)
    lines = "".join(f"{world.url}\t{stage}\n" for stage, world in worlds.items())
    run = subprocess.run(
        [sys.executable, "-m", "tests.extensions.tables.killed"],
        input=lines,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    for stage, world in worlds.items():
        log = Log.open(world.url)
        assert Tables(log).publish("p").is_new is (stage != "ended"), stage
        count = 2 if stage == "sealed" else 4
        assert world.check() == count, stage
        assert {one.sequence for one in world.tables.versions("p")} == {*range(1, count // 2 + 1)}
        Vacuum(world.log, min_age_s=0).run(wait=False)
        assert world.check() == count, stage


def test_of_two_publishers_the_later_one_holds(world):
    world.write(1)
    old, new = world.tables.publisher("p"), world.tables.publisher("p")
    old.publish()
    world.write(1)
    new.publish()
    world.write(1)
    with pytest.raises(ProducerFencedError, match="another publisher"):
        old.publish()
    new.publish()
    assert world.check() == 6


@pytest.mark.parametrize("moment", ["_begin", "_commit"])
def test_a_publisher_that_was_paused_is_refused(world, monkeypatch, moment):
    """It stands still before it notes its intent, or before it commits to a table, and another one goes on."""
    world.write(1)
    world.tables.publish("p")
    world.write(1)
    zombie = world.tables.publisher("p")
    real = getattr(zombie, moment)

    def paused(*arguments, **named):
        world.tables.publish("p")
        world.write(1)
        world.tables.publish("p")
        return real(*arguments, **named)

    monkeypatch.setattr(zombie, moment, paused)
    with pytest.raises(ProducerFencedError):
        zombie.publish()
    assert world.check() == 6


def test_a_table_that_another_publisher_commits_first_is_not_written_twice(world, monkeypatch):
    world.write(1)
    world.tables.publish("p")
    world.write(1)
    one = world.tables.publisher("p")
    target = one._targets["orders"]
    real = target.commit

    def late(*arguments):
        monkeypatch.setattr(target, "commit", real)
        world.tables.publish("p")
        return real(*arguments)

    monkeypatch.setattr(target, "commit", late)
    with pytest.raises(ProducerFencedError):
        one.publish()
    assert world.check() == 4


# -- Tables that are lost ---------------------------------------------------------------------------------


def remove_log(root):
    shutil.rmtree(root / "_delta_log")


def spoil_first_entry(root):
    path = root / "_delta_log/00000000000000000000.json"
    path.write_bytes(path.read_bytes()[:40])


def append_rows(root):
    table = DeltaTable(str(root)).to_pyarrow_table()
    write_deltalake(str(root), table, mode="append")


@pytest.mark.parametrize("harm", [remove_log, spoil_first_entry, append_rows])
def test_a_table_that_is_lost_or_damaged_is_published_again(world, harm):
    world.write(2)
    world.tables.publish("p")
    harm(Path(location(world, "orders")))
    done = world.tables.publish("p")
    assert done.sequence == 2
    assert world.check() == 3
    assert rows_of(location(world, "orders")).num_rows == 4


def test_rebuild_makes_the_tables_from_nothing(world):
    world.write(2)
    world.tables.publish("p")
    done = world.tables.publish("p", rebuild=True)
    assert (done.sequence, done.versions) == (2, {"events": 0, "orders": 0})
    assert world.check() == 2


def test_a_table_of_another_program_is_left_alone(world):
    root = location(world, "orders")
    write_deltalake(root, pa.table({"a": [1]}))
    with pytest.raises(ConfigError, match="there is a table already"):
        world.tables.publish("p")
    assert rows_in(root) == 1


def rows_in(root):
    return DeltaTable(root).to_pyarrow_table().num_rows


# -- Drop, list, refusals ---------------------------------------------------------------------------------


def test_a_publication_that_is_dropped_leaves_no_table_and_can_be_made_again(world):
    world.write(1)
    world.tables.publish("p")
    root = location(world, "orders")
    world.tables.drop("p")
    assert not DeltaTable.is_deltatable(root)
    assert world.tables.list_tables() == []
    world.tables.create("p", ["orders"])
    assert world.tables.publish("p").sequence > 1
    assert world.check() == 1


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"topics": ["nix"]}, UnknownTopicOrPartitionError, "nix"),
        ({"format": "hudi"}, ConfigError, "format='hudi'"),
        ({"mode": "linked"}, ConfigError, "mode='linked'"),
        ({"mode": "copied"}, ConfigError, "location"),
        ({"location": "/elsewhere"}, ConfigError, "location"),
        ({"config": {"modus": "x"}}, ConfigError, "modus"),
        ({"config": {"catalog": "x"}}, ConfigError, "catalog"),
        ({"name": "p"}, InvalidRequestError, "there already"),
        ({"name": "q"}, InvalidRequestError, "same place"),
        ({"topics": []}, InvalidRequestError, "one topic or more"),
        ({"config": {"mode": "copied"}}, ConfigError, "mode is no setting of config.*--mode"),
        ({"config": {"retention.ms": "1"}}, ConfigError, "--retention-ms"),
        ({"retention_ms": -1}, InvalidRequestError, "retention.ms"),
    ],
)
def test_publications_that_cannot_be_are_refused(world, arguments, error, said):
    seq = world.log.follow().seq
    with pytest.raises(error, match=said):
        world.tables.create(**{"name": "r", "topics": ["orders"], **arguments})
    assert world.log.follow().seq == seq


def test_a_topic_of_the_same_name_is_another_one(world):
    state = world.log.state
    assert topic_of(state, "events", state.topics["events"].topic_id).name == "events"
    with pytest.raises(UnknownTopicOrPartitionError, match="with id gone is not in the log any more"):
        topic_of(state, "events", "gone")


def test_a_publication_that_is_not_there(world):
    with pytest.raises(InvalidRequestError, match="no publication 'nix'"):
        world.tables.publish("nix")
    with pytest.raises(InvalidRequestError, match="no topic 'nix'"):
        world.tables.versions("p", "nix")


# -- Copies -----------------------------------------------------------------------------------------------


def test_tables_with_copies_need_nothing_of_the_log(world, tmp_path):
    world.tables.create("copies", ["events", "orders"], mode="copied", location=str(tmp_path / "lake"))
    world.write(2)
    world.tables.publish("copies")
    world.write(2)
    world.tables.publish("copies")
    assert world.check("copies") == 4
    shutil.rmtree(Path(world.url) / "tables")
    assert rows_of(str(tmp_path / "lake/orders")).num_rows == 8
    world.tables.drop("copies")
    assert rows_of(str(tmp_path / "lake/orders"), 0).num_rows == 4


def test_a_location_is_the_same_place_from_every_folder(world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    world.tables.create("copies", ["orders"], mode="copied", location="lake/")
    monkeypatch.chdir("/")
    world.write(2)
    world.tables.publish("copies")
    assert location(world, "orders").endswith(world.log.topic("orders").topic_id)
    (copied,) = [one.location for one in world.tables.list_tables() if one.publication == "copies"]
    assert copied == str(tmp_path / "lake/orders")
    assert rows_of(copied).num_rows == 4
    with pytest.raises(InvalidRequestError, match="same place"):
        world.tables.create("again", ["orders"], mode="copied", location=str(tmp_path / "lake"))


# -- Object stores ----------------------------------------------------------------------------------------


def test_tables_in_a_bucket(minio_server):
    world = World(f"{minio_server.url}/tests/published", minio_server.settings)
    world.tables.create("p", ["events", "orders"])
    world.tables.create("copies", ["orders"], mode="copied", location=f"{minio_server.url}/tests/lake")
    for _ in range(2):
        world.write(2)
        world.tables.publish("p")
        world.tables.publish("copies")
    assert world.check() == 4
    assert world.check("copies") == 2
    assert {one.location.split("://")[0] for one in world.tables.list_tables()} == {"s3"}


# -- Readers ----------------------------------------------------------------------------------------------


def test_polars_and_duckdb_read_a_version(world):
    """And leave files out by the bounds in the table's log, without losing a row."""
    world.write(3)
    world.tables.publish("p")
    world.write(3)
    done = world.tables.publish("p")
    root = location(world, "orders")
    for version in (0, 1):
        rows = pl.read_delta(root, version=version)
        assert rows.sort("id")["id"].to_list() == sorted(rows_of(root, version)["id"].to_pylist())
    assert pl.scan_delta(root).filter(pl.col("id") >= 20).collect().height == 4
    table = DeltaTable(root, version=done.versions["orders"])
    for relation in (
        duckdb.arrow(table.to_pyarrow_dataset()),
        duckdb.read_parquet(table.file_uris()),
    ):
        assert len(relation.filter("id >= 20").fetchall()) == 4
