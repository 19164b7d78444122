"""An Iceberg table as a target: what pyiceberg does; pyiceberg, Polars and DuckDB read its versions rightly."""

from __future__ import annotations

import gc
import json
import sys
from traceback import format_exception
from types import SimpleNamespace

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_eos.errors import (
    ConfigError,
    SchemaMismatchError,
    StoreUnavailableError,
    TableChangedError,
    TableDamagedError,
)
from spark_eos.extensions.tables.iceberg import cleanup
from spark_eos.extensions.tables.iceberg.catalog import address, open_catalog
from spark_eos.extensions.tables.iceberg.columns import columns, with_hidden
from spark_eos.extensions.tables.iceberg.rows import merge as merged_rows
from spark_eos.extensions.tables.iceberg.target import IcebergTarget
from spark_eos.extensions.tables.target import DataFile, FileChange, RowChange, Version
from spark_eos.storage import Settings, open_store

pytest.importorskip("pyiceberg", reason="the extra 'tables' is not installed")

from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.table.update import snapshot

from tests.extensions.tables.iceberg_reads import by_polars, collect
from tests.extensions.tables.merging import stamp

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("_partition", pa.int32())])


class Table:
    """A table in a folder of its own, with its catalog beside it."""

    def __init__(self, folder, **options):
        self.folder = folder / "log"
        (self.folder / "_segments").mkdir(parents=True)
        self.catalog = load_catalog("c", type="sql", uri=f"sqlite:///{folder}/catalog.db")
        self.options = options
        self.target = self.new()

    def new(self):
        return IcebergTarget(str(self.folder), "shop.t", self.catalog, **self.options)

    def load(self):
        return self.catalog.load_table("shop.t")

    def file(self, name, ids, **more):
        path = self.folder / "_segments" / name
        rows = {
            "id": ids,
            "name": [f"n{one}" for one in ids],
            "_partition": pa.array([0] * len(ids), pa.int32()),
        }
        pq.write_table(pa.table({**rows, **more}), path)
        return DataFile(f"_segments/{name}", path.stat().st_size, len(ids))

    def footer(self, one):
        return pq.read_metadata(self.folder / one.path)

    def publish(self, sequence, *added, schema=SCHEMA, retention_ms=0, **more):
        change = FileChange(schema, added, **more)
        return self.target.commit(self.target.current(), change, stamp(sequence, retention_ms), self.footer)

    def ids(self, version=None):
        return sorted(self.load().scan(snapshot_id=version).to_arrow()["id"].to_pylist())

    def metadata(self):
        return {path.name for path in self.folder.glob("_iceberg/shop.t/metadata/*")}


@pytest.fixture
def table(tmp_path):
    return Table(tmp_path)


# -- Readers ----------------------------------------------------------------------------------------------


@by_polars
def test_polars_and_duckdb_read_a_version_and_skip_by_its_bounds(table):
    first = table.publish(1, table.file("a", [0, 1]))
    table.publish(2, table.file("b", [700, 800]))
    frame = pl.scan_iceberg(table.load())
    assert collect(frame.filter(pl.col("id") > 100))["name"].to_list() == ["n700", "n800"]
    assert collect(pl.scan_iceberg(table.load(), snapshot_id=first.native))["id"].to_list() == [0, 1]
    scan = table.load().scan(row_filter="id > 100 and _topic_partition == 0")
    assert [task.file.record_count for task in scan.plan_files()] == [2]
    found = scan.to_duckdb("t").execute("select sum(id), min(_topic_partition) from t").fetchall()
    assert found == [(1500, 0)]
    files = [task.file.file_path for task in table.load().scan().plan_files()]
    assert duckdb.sql(f"select count(*) from read_parquet({files})").fetchall() == [(4,)]


TIMES = pa.array([0, 253_402_300_799_999_999, 253_402_300_800_000_000, -(2**62)], pa.int64())
"""The last two are of no calendar."""


@by_polars
@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", "x" * 5000, "b", "\ud7ff" * 17, "\uffff" * 17, "z" * 15 + "\U0010ffff" * 2]),
        pa.array([b"a", b"x" * 5000, b"b", b"\xff" * 17, b"z" * 15 + b"\xff\xff"]),
        TIMES.cast(pa.timestamp("us", "UTC")),
        TIMES.cast(pa.timestamp("us")),
        pa.array([0, 2_932_896, 3_000_000, -(2**31)], pa.int32()).cast(pa.date32()),
    ],
    ids=lambda values: str(values.type),
)
def test_no_value_is_hidden_whose_bounds_are_missing_or_cut(table, values):
    """Each is found, also where another row group of its file has bounds."""
    files = []
    for at in range(len(values)):
        rows = table.file(f"f{at}", [at, at], c=pa.concat_arrays([values.slice(0, 1), values.slice(at, 1)]))
        path = table.folder / rows.path
        pq.write_table(pq.read_table(path), path, row_group_size=1)
        files.append(rows._replace(size=path.stat().st_size))
    table.publish(1, *files, schema=SCHEMA.append(pa.field("c", values.type)))
    for at, value in enumerate(values):
        literal = pl.lit(pl.Series(pa.array([value]))).first()
        assert collect(pl.scan_iceberg(table.load()).filter(pl.col("c") == literal, id=at)).height > 0
        if at < 2 or not pa.types.is_temporal(values.type):  # What Python has a value for.
            scan = table.load().scan(row_filter=EqualTo("c", value.as_py()))
            assert at in scan.to_arrow()["id"].to_pylist()
    bounded = [
        one.file.lower_bounds.keys() & one.file.upper_bounds.keys()
        for one in table.load().scan().plan_files()
    ]
    assert any(4 in one for one in bounded), "those of which there are bounds have them"


def test_no_column_has_a_name_that_readers_have_themselves(table):
    """Spark's reader refuses a table with a column ``_partition``; the files have one."""
    table.publish(1, table.file("a", [3]))
    assert table.load().schema().column_names == ["id", "name", "_topic_partition"]
    assert table.target.schema() == SCHEMA
    assert table.load().scan().to_arrow()["_topic_partition"].to_pylist() == [0]


@by_polars
def test_columns_of_files_that_the_table_has_not_are_no_hindrance(table):
    """As the stored bytes of an Avro topic: in every file, and not in the table."""
    table.publish(1, table.file("a", [1], _value=[b"stored"]))
    table.publish(2, table.file("b", [2], _value=[b"stored"], _more=[{"deep": 1}]))
    assert table.load().schema().column_names == ["id", "name", "_topic_partition"]
    assert table.ids() == [1, 2]
    assert collect(pl.scan_iceberg(table.load()))["id"].to_list() == [2, 1]
    grown = SCHEMA.append(pa.field("late", pa.int64()))
    table.publish(3, table.file("c", [3], late=[9]), schema=grown)
    assert sorted(table.load().scan().to_arrow()["late"].to_pylist(), key=str) == [9, None, None]


@by_polars
def test_readers_and_lists_that_are_missing(table):
    """pyiceberg's own reader makes missing lists of structs empty ones; the table is right, as Polars sees it."""
    type_ = pa.list_(pa.struct([("k", pa.string())]))
    one = table.file("a", [1, 2], headers=pa.array([None, [{"k": "x"}]], type_))
    table.publish(1, one, schema=SCHEMA.append(pa.field("headers", type_)))
    assert collect(pl.scan_iceberg(table.load()))["headers"].to_list() == [None, [{"k": "x"}]]
    assert table.load().scan().to_arrow()["headers"].to_pylist() == [[], [{"k": "x"}]]


def test_ids_are_kept_by_name():
    struct = pa.struct([("x", pa.int8()), ("l", pa.list_(pa.map_(pa.string(), pa.int8())))])
    one = columns(pa.schema([("a", struct), ("b", pa.int8())]), {}, 0, 0)
    assert [*one.ids.values()] == [*range(1, 8)]
    hidden = with_hidden(one, [pa.schema([("b", pa.int8()), ("h", pa.struct([("y", pa.int8())]))])])
    assert (hidden.ids["h",], hidden.ids["h", "y"], hidden.last) == (8, 9, 9)
    two = columns(
        pa.schema([("b", pa.string()), ("c", pa.int8()), ("a", struct)]), hidden.ids, hidden.last, 1
    )
    wanted = [one.ids["b",], 10, one.ids["a",]]
    assert [field.field_id for field in two.table.fields] == wanted
    assert two.table.find_field("a.l.element.value").field_id == one.ids["a", "l", "element", "value"]


# -- Commits ----------------------------------------------------------------------------------------------


class Stale:
    """A catalog whose tables are as they were: as for a publisher that is slow between looking and committing."""

    def __init__(self, catalog):
        self.name = catalog.name
        self.known = catalog.load_table("shop.t")

    def load_table(self, _):
        return self.known


def test_pyiceberg_does_not_make_a_refused_commit_again(table):
    """Not even if another program has told the table so."""
    first = table.publish(1, table.file("a", [0]))
    with table.load().transaction() as transaction:
        transaction.set_properties({"commit.retry.num-retries": "4", "commit.retry.min-wait-ms": "0"})
    late = IcebergTarget(str(table.folder), "shop.t", Stale(table.catalog))
    table.publish(2, table.file("b", [1]))
    with pytest.raises(TableChangedError, match="branch main has changed"):
        late.commit(first, FileChange(SCHEMA, (table.file("c", [2]),)), stamp(2), table.footer)
    assert table.ids() == [0, 1]
    assert [one.stamp.sequence for one in table.target.versions()] == [2, 1]


def test_a_table_over_the_files_of_a_log_gives_none_of_them_to_other_programs(table):
    version = table.publish(1, table.file("a", [0]), retention_ms=6 * 86_400_000)
    properties = table.load().properties
    # With this, Spark refuses expire_snapshots, remove_orphan_files and DROP TABLE ... PURGE.
    assert properties["gc.enabled"] == "false"
    assert int(properties["history.expire.max-snapshot-age-ms"]) == 6 * 86_400_000
    # What lies in the table's own folder, other programs take for the table's own.
    assert table.load().location().endswith("/log/_iceberg/shop.t")
    table.publish(2, removed=(DataFile("_segments/a", 0, 0),))
    table.load().maintenance.expire_snapshots().by_id(version.native).commit()
    assert (table.folder / "_segments/a").exists()


def test_what_is_to_go_and_is_not_there_is_damage(table):
    table.publish(1, table.file("a", [0]))
    with pytest.raises(TableDamagedError, match="does not have the file"):
        table.publish(2, removed=(DataFile("_segments/other", 0, 0),))
    assert table.target.current().stamp == stamp(1)


def test_files_that_stay_are_not_replaced_by_themselves(table):
    one, two = table.file("a", [0]), table.file("b", [1])
    table.publish(1, one, two)
    table.publish(2, two, table.file("c", [2]), replaces_all=True)
    assert table.ids() == [1, 2]
    assert sorted(table.target.files()) == ["_segments/b", "_segments/c"]


class Killed(BaseException):
    """Nothing catches it, so nothing is tidied up."""


@pytest.mark.parametrize("at", ["manifests", "metadata", "committed"])
def test_killed_in_a_commit(table, monkeypatch, at):
    """All of a version or nothing; what is left behind is in the way of no other commit."""
    table.publish(1, table.file("a", [0]))
    place, name = {
        "manifests": (snapshot, "write_manifest_list"),
        "metadata": (SqlCatalog, "_write_metadata"),
        "committed": (SqlCatalog, "commit_table"),
    }[at]
    real = getattr(place, name)

    def killed(*values, **more):
        real(*values, **more)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(place, name, staticmethod(killed) if at == "metadata" else killed)
        with pytest.raises(Killed):
            table.publish(2)
    done = at == "committed"
    assert table.new().current().stamp == stamp(2 if done else 1)
    assert table.publish(3 if done else 2, table.file("b", [1])).stamp == stamp(3 if done else 2)
    assert table.ids() == [0, 1]


def test_a_catalog_that_does_not_answer_is_no_damage(table, tmp_path):
    table.publish(1, table.file("a", [0]))
    (tmp_path / "catalog.db").write_bytes(b"not a database")
    table.catalog.engine.dispose()
    with pytest.raises(StoreUnavailableError, match="catalog"):
        table.new().current()


# -- Other hands ------------------------------------------------------------------------------------------


def test_a_table_of_another_program_has_no_stamp(table, tmp_path):
    table.catalog.create_namespace("shop")
    made = table.catalog.create_table("shop.t", pa.schema([("id", pa.int64())]), f"file://{tmp_path}/own")
    assert table.target.current() == Version(0, None)
    made.append(pa.table({"id": [1]}))
    assert table.target.current() == Version(table.load().current_snapshot().snapshot_id, None)
    assert [*table.target.versions()] == []


def test_rows_of_another_program_are_seen(table):
    table.publish(1, table.file("a", [0]))
    other = {"id": [9], "name": ["x"], "_topic_partition": pa.array([0], pa.int32())}
    table.load().append(pa.table(other))
    with pytest.raises(TableDamagedError, match="another program"):
        table.target.current()


def test_a_snapshot_that_changes_no_file_is_no_change(table):
    table.publish(1, table.file("a", [0]))
    with table.load().transaction() as transaction, transaction.update_snapshot().fast_append():
        pass
    head = table.load().current_snapshot().snapshot_id
    assert table.target.current() == Version(head, stamp(1))
    table.publish(2, table.file("b", [1]))
    assert [one.stamp.sequence for one in table.target.versions()] == [2, 1]


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_a_damaged_table_is_told_from_one_that_is_missing(table, damage):
    table.publish(1, table.file("a", [0]))
    (metadata,) = table.folder.glob("_iceberg/shop.t/metadata/*.metadata.json")
    metadata.write_bytes(metadata.read_bytes()[:40])
    if damage == "gone":
        metadata.unlink()
    with pytest.raises(TableDamagedError):
        table.target.current()
    table.target.drop()
    assert table.target.current() is None
    assert table.metadata() == set()
    table.publish(1, table.file("b", [1]))
    assert table.ids() == [1]


def test_lost_manifests_are_damage(table):
    table.publish(1, table.file("a", [0]))
    for manifest in table.folder.glob("_iceberg/shop.t/metadata/*-m0.avro"):
        manifest.unlink()
    with pytest.raises(TableDamagedError, match="gone"):
        table.target.files()


# -- Cleanup -----------------------------------------------------------------------------------------------


def test_versions_that_nothing_promises_are_forgotten_with_their_metadata(table, monkeypatch):
    monkeypatch.setattr(cleanup, "MIN_EXPIRED", 3)
    files = [table.file(str(number), [number]) for number in range(5)]
    for sequence, one in enumerate(files, 1):
        before = [] if sequence == 1 else [files[sequence - 2]]
        table.publish(sequence, one, removed=tuple(before), retention_ms=10**9)
    table.target.maintain()
    assert len([*table.target.versions()]) == 5
    before = len(table.metadata())
    table.publish(6)
    table.target.maintain()
    assert [one.stamp.sequence for one in table.target.versions()] == [6]
    assert len(table.metadata()) < before
    assert table.ids() == [4]
    # Never a file of the log.
    assert len([*table.folder.glob("_segments/*")]) == 5
    table.publish(7, table.file("new", [7]))
    assert table.ids() == [4, 7]


def test_a_tagged_version_stays(table, monkeypatch):
    monkeypatch.setattr(cleanup, "MIN_EXPIRED", 1)
    tagged = table.publish(1, table.file("a", [0]))
    table.load().manage_snapshots().create_tag(tagged.native, "end-of-year").commit()
    table.publish(2, table.file("b", [1]), removed=(DataFile("_segments/a", 0, 0),))
    table.publish(3, table.file("c", [2]))
    table.target.maintain()
    assert [one.stamp.sequence for one in table.target.versions()] == [3]
    assert table.load().scan().use_ref("end-of-year").to_arrow()["id"].to_pylist() == [0]


def test_tags_of_all_versions_are_no_hindrance(table, monkeypatch):
    monkeypatch.setattr(cleanup, "MIN_EXPIRED", 1)
    for sequence in (1, 2, 3):
        version = table.publish(sequence, table.file(str(sequence), [sequence]))
        table.load().manage_snapshots().create_tag(version.native, f"v{sequence}").commit()
        table.target.maintain()
    assert [one.stamp.sequence for one in table.target.versions()] == [3, 2, 1]


def test_manifests_are_merged(table, monkeypatch):
    monkeypatch.setattr(cleanup, "MAX_MANIFESTS", 4)
    one = table.file("x", [0])
    table.publish(1, one)
    with table.load().transaction() as transaction:
        transaction.set_properties({"commit.manifest.min-count-to-merge": "2"})
    for sequence in range(2, 8):
        other = table.file(f"x{sequence}", [sequence])
        # Each exchange leaves a manifest of what has gone, which pyiceberg keeps.
        version = table.publish(sequence, other, removed=(one,))
        one = other
    manifests = len(table.load().current_snapshot().manifests(table.load().io))
    assert manifests > 4
    table.target.maintain()
    assert len(table.load().current_snapshot().manifests(table.load().io)) < 4
    assert table.target.current().stamp == version.stamp
    assert table.ids() == [7]
    assert table.publish(8, table.file("y", [8])).stamp == stamp(8)


# -- Rows -------------------------------------------------------------------------------------------------

KEYED = pa.schema([("key", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])


def change_of(rows, removed=(), starts=None):
    return RowChange(
        KEYED,
        ("key", "partition"),
        ("partition", "offset"),
        lambda: pa.Table.from_pylist(rows, schema=KEYED),
        lambda: pa.Table.from_pylist([{"key": one, "partition": 0} for one in removed], schema=KEYED),
        starts or {0: 0},
    )


def test_only_files_with_rows_that_go_are_written_again_and_small_ones():
    def keyed(*numbers):
        return pa.Table.from_pylist(
            [{"key": f"k{one}", "partition": 0, "offset": one} for one in numbers], schema=KEYED
        )

    files = {"large": keyed(*range(100)), "touched": keyed(*range(100, 140)), "small": keyed(200)}
    looked = []

    def read(name, names):
        looked.append((name, names))
        return files[name] if names is None else files[name].select(names)

    counts = {name: one.num_rows for name, one in files.items()}
    (new,), gone = merged_rows(change_of(keyed(120).to_pylist()), counts, read)
    assert gone == ["small", "touched"]
    assert sorted(new["offset"].to_pylist()) == [*range(100, 140), 200]
    assert ("large", None) not in looked
    (new, kept), gone = merged_rows(change_of(keyed(120).to_pylist()), counts, read, max_rows=20)
    assert (new.num_rows, kept.num_rows, gone) == (2, 39, ["small", "touched"])
    many = keyed(*range(300, 350)).to_pylist()
    assert merged_rows(change_of(many), {"touched": 40}, read, max_rows=60)[1] == [], "together too large"
    old = {
        start: merged_rows(change_of([], starts={0: start}), {"touched": 40}, read) for start in (100, 101)
    }
    assert [len(gone) for _, gone in old.values()] == [0, 1], "records from the start on stay"
    # The same key in another partition is another one.
    assert merged_rows(change_of([{"key": "k5", "partition": 1, "offset": 0}]), {"large": 100}, read)[1] == []


@pytest.mark.parametrize(
    ("type_", "keys"),
    [
        (pa.string(), [None, "", "a"]),
        (pa.float64(), [None, float("nan"), 0.0, -0.0]),
        (pa.struct([("x", pa.int32())]), [None, {"x": None}, {"x": 1}]),
        (pa.list_(pa.int32()), [None, [], [None], [1]]),
    ],
    ids=["text", "number", "struct", "list"],
)
def test_keys_are_those_of_the_log_whatever_they_are(type_, keys):
    """One of several columns of a key may be null. Arrow's join takes no two nulls for the same, nor NaN."""
    schema = pa.schema(
        [("key", type_), ("id", pa.int32()), ("partition", pa.int32()), ("offset", pa.int64())]
    )

    def rows(offset, keys):
        places = [{"id": 7, "partition": 0, "offset": offset + number} for number in range(len(keys))]
        columns = [*zip(*(one.values() for one in places), strict=True)] or [[]] * 3
        arrays = [
            pa.array(column, field.type) for column, field in zip([keys, *columns], schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=schema)

    for at, key in enumerate(keys):
        for new, removed in (([key], []), ([], [key])):
            change = RowChange(
                schema,
                ("key", "id", "partition"),
                ("partition", "offset"),
                lambda new=new: rows(100, new),
                lambda removed=removed: rows(0, removed).drop_columns(["offset"]),
                {0: 0},
            )
            files = {"a": rows(0, keys)}
            found, gone = merged_rows(
                change,
                {"a": len(keys)},
                lambda name, names, files=files: files[name].select(names or schema.names),
            )
            left = {*range(len(keys))} - {at} | ({100} if new else set())
            assert {one for table in found for one in table["offset"].to_pylist()} == left, key
            assert gone == ["a"]


def test_files_of_a_table_of_copies_go_with_the_versions_that_had_them(tmp_path, monkeypatch):
    monkeypatch.setattr(cleanup, "MIN_EXPIRED", 1)
    table = Table(tmp_path, is_shared=False)
    for sequence in range(1, 5):
        rows = [{"key": "k", "partition": 0, "offset": sequence}]
        table.target.commit(table.target.current(), change_of(rows), stamp(sequence), lambda _: None)
    data = [*table.folder.glob("data/*.parquet")]
    assert len(data) == 4
    table.target.maintain()
    assert [str(path.relative_to(table.folder)) for path in table.folder.glob("data/*")] == [
        *table.target.files()
    ]
    assert table.load().scan().to_arrow()["offset"].to_pylist() == [4]
    assert table.load().properties["gc.enabled"] == "true"


def test_a_copy_that_is_in_the_table_again_stays(tmp_path, monkeypatch):
    """As where a setting of the topic was changed, and back: copies have the names that they had."""
    monkeypatch.setattr(cleanup, "MIN_EXPIRED", 1)
    table = Table(tmp_path, is_shared=False)
    first, second = table.file("first", [1]), table.file("second", [2])
    table.publish(1, first)
    between = table.publish(2, second, removed=(first,))
    table.load().manage_snapshots().create_tag(between.native, "not-forgotten-yet").commit()
    table.publish(3, first, removed=(second,))
    table.target.maintain()
    assert [one.stamp.sequence for one in table.target.versions()] == [3, 2]
    assert table.ids() == [1]


def test_a_copy_that_a_version_between_has_again_stays(tmp_path, monkeypatch):
    """As where a setting was changed and back, twice: neither the newest version has it, nor the oldest one left."""
    monkeypatch.setattr(cleanup, "MIN_EXPIRED", 1)
    table = Table(tmp_path, is_shared=False)
    first, second = (table.file(f"0-{number:020}-ab.parquet", [number]) for number in (1, 2))
    table.publish(1, first)
    versions = [
        table.publish(sequence, *pair[:1], removed=pair[1:])
        for sequence, pair in ((2, (second, first)), (3, (first, second)), (4, (second, first)))
    ]
    for number, version in enumerate(versions):
        table.load().manage_snapshots().create_tag(version.native, f"not-forgotten-yet-{number}").commit()
    table.target.maintain()
    assert [one.stamp.sequence for one in table.target.versions()] == [4, 3, 2]
    assert [table.ids(version.native) for version in versions] == [[2], [1], [2]]


# -- Refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "type_", "said"),
    [
        ("_file", pa.int64(), "'_file'"),
        ("_topic_partition", pa.int64(), "'_topic_partition'"),
        ("u", pa.uint32(), "'u' has the type uint32"),
        ("at", pa.timestamp("ns"), "'at'"),
        ("at", pa.timestamp("us", "Europe/Berlin"), "'at'"),
        ("took", pa.list_(pa.duration("us")), "'took.element'"),
        ("t", pa.time32("ms"), "'t'"),
        ("empty", pa.struct([]), "'empty'"),
        ("m", pa.map_(pa.string(), pa.null()), "'m.value'"),
        ("d", pa.decimal128(5, -2), "'d'"),
        ("d", pa.decimal256(50, 2), "'d'"),
    ],
)
def test_columns_that_iceberg_cannot_keep_are_named(table, name, type_, said):
    schema = pa.schema([("fine", pa.int64()), ("_partition", pa.int32()), (name, type_)])
    with pytest.raises(SchemaMismatchError, match=said):
        table.target.check_schema(schema)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ([("a.b", pa.int64()), ("a", pa.struct([("b", pa.int64())]))], "'a.b' and 'a'.* 'a.b'"),
        ([("a", pa.list_(pa.int64())), ("a.element", pa.int64())], "'a' and 'a.element'"),
        ([("a", pa.map_(pa.string(), pa.int64())), ("a.key", pa.int64())], "'a' and 'a.key'"),
        (
            [("a", pa.struct([("b.c", pa.int64()), ("b", pa.struct([("c", pa.int64())]))]))],
            "'a' and 'a'.* 'a.b.c'",
        ),
        ([("_partition", pa.struct([("x", pa.int32())])), ("_topic_partition.x", pa.int32())], "partition.x"),
    ],
)
def test_columns_that_iceberg_calls_the_same_are_named(table, columns, said):
    with pytest.raises(SchemaMismatchError, match=said):
        table.target.check_schema(pa.schema(columns))
    for column in columns[: len(columns) - 1]:
        table.target.check_schema(pa.schema([column]))


@pytest.mark.parametrize(
    "place", ["memory://table", "az://container/x", "/tmp/100%", "/tmp/a#b", "/tmp/a?b", "/tmp/a\nb"]
)
def test_places_that_iceberg_does_not_reach_are_refused(place):
    with pytest.raises(ConfigError, match="Iceberg"):
        address(place)


@pytest.mark.parametrize("identifier", ["t", "shop.", "shop.a b", "shop..t"])
def test_a_table_has_a_namespace(table, identifier):
    with pytest.raises(ConfigError, match=r"namespace\.table"):
        IcebergTarget(str(table.folder), identifier, table.catalog)


# -- Catalogs and secrets ---------------------------------------------------------------------------------


def test_a_catalog_is_known_by_its_name_alone(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="PYICEBERG_CATALOG__NIGHTLY_ONE__URI"):
        open_catalog("nightly-one")
    monkeypatch.setenv("PYICEBERG_CATALOG__NIGHTLY_ONE__URI", f"sqlite:///{tmp_path}/one.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__NIGHTLY_ONE__S3__REGION", "mars")
    catalog = open_catalog("nightly-one", Settings({"s3.region": "venus", "s3.session-token": "t"}))
    assert catalog.properties["s3.region"] == "mars"
    assert catalog.properties["s3.session-token"] == "t"
    monkeypatch.setenv("PYICEBERG_CATALOG__BROKEN__URI", "nonsense://user:secret@host/db")
    with pytest.raises(ConfigError, match="broken") as error:
        open_catalog("broken")
    assert "secret" not in "".join(format_exception(error.value))


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("sqlite:////no/such/folder/one.db", "OperationalError"),
        ("http://user:secret@127.0.0.1:9/?token=secret", "ConnectionError"),
    ],
)
def test_a_catalog_that_is_down_is_an_error_of_ours(monkeypatch, uri, says):
    """One of a library would end the maintenance of the log."""
    monkeypatch.setenv("PYICEBERG_CATALOG__DOWN__URI", uri)
    with pytest.raises(StoreUnavailableError, match=f"catalog 'down' cannot be opened: {says}") as error:
        open_catalog("down")
    assert "secret" not in "".join(format_exception(error.value))


def test_a_catalog_whose_driver_is_not_installed_is_not_called_one_that_is_down(monkeypatch):
    monkeypatch.setenv("PYICEBERG_CATALOG__BARE__URI", "postgresql+psycopg2://user:secret@127.0.0.1:9/db")
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with pytest.raises(ConfigError, match="catalog 'bare': a package that pyiceberg needs for it is missing"):
        open_catalog("bare")


def test_no_traceback_has_the_address_of_a_catalog_that_goes_away(table):
    def goes_away(_):
        raise ConnectionError("Max retries exceeded with url: /v1/config?token=secret")

    table.publish(1, table.file("a", [0]))
    target = table.new()
    target._catalog = SimpleNamespace(load_table=goes_away)
    with pytest.raises(StoreUnavailableError, match=r"exceeded with url: /v1/config$") as error:
        target.current()
    assert "secret" not in "".join(format_exception(error.value))


def test_a_catalog_that_a_target_has_opened_is_closed_with_it(tmp_path, monkeypatch):
    closed, close = [], SqlCatalog.close
    monkeypatch.setattr(SqlCatalog, "close", lambda self: (closed.append(self.name), close(self)))
    monkeypatch.setenv("PYICEBERG_CATALOG__OPENED__URI", f"sqlite:///{tmp_path}/catalog.db")
    target = IcebergTarget(str(tmp_path), "shop.t", "opened")
    assert target.current() is None
    assert closed == []
    del target
    gc.collect()
    assert closed == ["opened"]
    given = Table(tmp_path)
    del given.target
    gc.collect()
    assert given.catalog.list_namespaces() == []
    assert closed == ["opened"]


@pytest.mark.deep
def test_a_table_in_a_bucket(minio_server, tmp_path):
    """Settings of the log's store reach pyiceberg, and no secret of them the table."""
    root, settings = f"{minio_server.url}/tests/iceberg-in-a-bucket", Settings(minio_server.settings)
    file = Table(tmp_path).file("a", [0, 1])
    footer = pq.read_metadata(tmp_path / "log" / file.path)
    store = open_store(root, settings)
    store.create(file.path, (tmp_path / "log" / file.path).read_bytes())
    catalog = load_catalog("b", type="sql", uri=f"sqlite:///{tmp_path}/bucket.db", **settings)
    target = IcebergTarget(root, "shop.t", catalog, settings)
    target.commit(None, FileChange(SCHEMA, (file,)), stamp(1), lambda _: footer)
    last = target.commit(target.current(), FileChange(SCHEMA, ()), stamp(2), lambda _: footer)
    assert target.current() == last
    assert catalog.load_table("shop.t").scan().to_arrow()["id"].to_pylist() == [0, 1]
    names = [info.name for info in store.list("_iceberg/")]
    texts = [bytes(store.read(name)) for name in names if name.endswith(".json")]
    assert all(json.loads(text)["location"] == f"{root}/_iceberg/shop.t" for text in texts)
    assert texts
    assert not any(settings["s3.secret-access-key"].encode() in text for text in texts)
    target.drop()
    assert target.current() is None
    assert [info.name for info in store.list("_iceberg/")] == []
