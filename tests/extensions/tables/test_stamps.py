"""What a version of a table stands for, read from real tables: Delta by delta-rs, Iceberg by pyiceberg."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from spark_eos.errors import ConfigError, InvalidRequestError, TableDamagedError
from spark_eos.extensions.tables.stamps import stamped_version
from spark_eos.extensions.tables.target import Stamp

ROWS = pa.table({"n": pa.array([1], pa.int64())})


def stamp(entry, end=7):
    return Stamp("log", "p", entry, entry, 1_000, "flights", "id", {0: (0, end)}, 0)


def commit(table, entry=None):
    """A version, by the log after ``entry``, or by another program."""
    properties = {} if entry is None else stamp(entry).properties()
    write_deltalake(
        table, ROWS, mode="append", commit_properties=CommitProperties(custom_metadata=properties)
    )


@pytest.fixture
def delta(tmp_path):
    """A table whose versions 0, 1 and 3 a log has published, and 2 and 4 another program has written."""
    table = str(tmp_path / "table")
    for entry in (10, 20, None, 40, None):
        commit(table, entry)
    return table


def test_of_each_version(delta):
    assert stamped_version(delta, 0) == (0, stamp(10))
    assert stamped_version(delta, 1) == (1, stamp(20))
    assert stamped_version(delta, 3) == (3, stamp(40))


def test_the_newest_that_was_published(delta):
    assert stamped_version(delta) == (3, stamp(40))


def test_none_was_published(delta, tmp_path):
    with pytest.raises(InvalidRequestError, match=f"version 2 of table {delta} was not published by a log"):
        stamped_version(delta, 2)
    with pytest.raises(InvalidRequestError, match=r"there is no table .* with version 5"):
        stamped_version(delta, 5)
    for table in (tmp_path / "none", tmp_path):
        with pytest.raises(InvalidRequestError, match="with a version that a log has published"):
            stamped_version(str(table))
    assert not (tmp_path / "none").exists()


def test_a_commit_that_is_gone(delta, tmp_path):
    (tmp_path / "table" / "_delta_log" / f"{1:020d}.json").unlink()
    with pytest.raises(InvalidRequestError, match="not known any more"):
        stamped_version(delta, 1)
    assert stamped_version(delta, 3) == (3, stamp(40))


def test_a_damaged_commit(delta, tmp_path):
    (tmp_path / "table" / "_delta_log" / f"{1:020d}.json").write_text("{")
    with pytest.raises(TableDamagedError, match="is not a commit of a Delta table"):
        stamped_version(delta, 1)


def test_the_history_of_delta_rs_cannot_be_used(delta, tmp_path):
    """The fact that the module rests on: if this fails, delta-rs counts versions rightly by now."""
    early = DeltaTable(delta, version=1).history()[0]
    assert (early["version"], Stamp.of(early)) == (1, None), "the newest commit, under the number of another"
    DeltaTable(delta).create_checkpoint()
    (tmp_path / "table" / "_delta_log" / f"{2:020d}.json").unlink()
    counted = {one["version"]: Stamp.of(one) for one in DeltaTable(delta).history()}
    assert counted[2] == stamp(20)


@pytest.fixture
def iceberg(tmp_path, monkeypatch):
    """An Iceberg table that a log has published twice, with a version of another program in between."""
    from pyiceberg import catalog as catalogs
    from pyiceberg.utils.config import Config

    monkeypatch.setenv("PYICEBERG_CATALOG__TESTED__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__TESTED__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__TESTED__WAREHOUSE", f"file://{tmp_path}/warehouse")
    # pyiceberg reads its configuration when it is imported.
    monkeypatch.setattr(catalogs, "_ENV_CONFIG", Config())
    catalog = catalogs.load_catalog("tested")
    catalog.create_namespace("sales")
    table = catalog.create_table("sales.flights", ROWS.schema)
    table.append(ROWS, snapshot_properties=stamp(10).properties())
    table.append(ROWS)
    table.append(ROWS, snapshot_properties=stamp(30).properties())
    return [snapshot.snapshot_id for snapshot in table.snapshots()]


def test_the_catalog_of_an_iceberg_table_is_closed(iceberg, monkeypatch):
    from pyiceberg.catalog.sql import SqlCatalog

    closed, close = [], SqlCatalog.close
    monkeypatch.setattr(SqlCatalog, "close", lambda self: (closed.append(self.name), close(self)))
    assert stamped_version("iceberg:tested.sales.flights", iceberg[0]) == (iceberg[0], stamp(10))
    assert closed == ["tested"]


def test_of_an_iceberg_table(iceberg):
    name = "iceberg:tested.sales.flights"
    assert stamped_version(name) == (iceberg[2], stamp(30))
    assert stamped_version(name, iceberg[0]) == (iceberg[0], stamp(10))
    with pytest.raises(InvalidRequestError, match="was not published by a log"):
        stamped_version(name, iceberg[1])
    with pytest.raises(InvalidRequestError, match="there is no table"):
        stamped_version("iceberg:tested.sales.none")


def test_no_name_of_an_iceberg_table():
    with pytest.raises(ConfigError, match="expected iceberg:<catalog>"):
        stamped_version("iceberg:flights")
    with pytest.raises(ConfigError, match="pyiceberg knows no catalog 'unheard'"):
        stamped_version("iceberg:unheard.sales.flights")
