"""A Delta table as a target: what delta-rs does, and that its versions are read rightly by delta-rs and Polars."""

from __future__ import annotations

import json
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from spark_eos.errors import ConfigError, SchemaMismatchError, TableChangedError, TableDamagedError
from spark_eos.extensions.tables.delta.target import DeltaTarget
from spark_eos.extensions.tables.target import DataFile, FileChange, Stamp, Version, application
from spark_eos.storage import open_store
from spark_eos.storage.objects.library_options import library_options
from tests.extensions.tables.merging import KEYED, merge, row

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("_offset", pa.int64())])
NAME = application("log", "p")


def stamp(sequence):
    return Stamp("log", "p", sequence, 10 * sequence, sequence, "t", "topic-id", {0: (0, sequence)}, 1000)


class Table:
    """A table in a folder of its own."""

    def __init__(self, folder):
        self.root = str(folder)
        self.folder = folder
        (folder / "_segments/0").mkdir(parents=True)
        self.target = DeltaTarget(self.root)

    def file(self, name, ids, **more):
        rows = {"id": ids, "name": [f"n{one}" for one in ids], "_offset": ids, **more}
        path = self.folder / "_segments/0" / name
        pq.write_table(pa.table(rows), path)
        return DataFile(f"_segments/0/{name}", path.stat().st_size, len(ids))

    def footer(self, one):
        return pq.read_metadata(self.folder / one.path)

    def publish(self, sequence, *added, target=None, schema=SCHEMA, removed=(), replaces_all=False):
        target = target or self.target
        change = FileChange(schema, added, tuple(removed), replaces_all)
        return target.commit(target.current(), change, stamp(sequence), self.footer)

    def ids(self, version=None):
        return sorted(
            DeltaTable(self.root, version=version).to_pyarrow_dataset().to_table()["id"].to_pylist()
        )


@pytest.fixture
def table(tmp_path):
    return Table(tmp_path / "table")


def test_versions_are_read_exactly_and_name_their_entries(table):
    one, two, three = (table.file(name, ids) for name, ids in (("a", [0, 1]), ("b", [2]), ("c", [0, 1, 2])))
    assert table.target.current() is None
    first = table.publish(1, one)
    table.publish(2, two)
    last = table.publish(3, three, removed=[one, two])
    assert [table.ids(version) for version in range(3)] == [[0, 1], [0, 1, 2], [0, 1, 2]]
    assert table.target.files() == (three.path,)
    assert [*table.target.versions()] == [last, Version(1, stamp(2)), first]
    assert last == Version(2, stamp(3))
    assert DeltaTable(table.root).transaction_version(NAME) == 3
    logged = (table.folder / f"_delta_log/{2:020}.json").read_text().splitlines()
    removed = [line["remove"] for line in map(json.loads, logged) if "remove" in line]
    assert {each["path"]: each["size"] for each in removed} == {one.path: one.size, two.path: two.size}
    frame = pl.scan_delta(table.root)
    assert frame.filter(pl.col("id") > 1).collect()["name"].to_list() == ["n2"]
    assert pl.scan_delta(table.root, version=0).collect()["id"].to_list() == [0, 1]
    # No reader takes a file of the log for one that Delta may delete.
    assert DeltaTable(table.root).vacuum(0, enforce_retention_duration=False, full=True) == []


def test_of_two_publishers_one_is_refused(table):
    other = DeltaTarget(table.root)
    assert other.current() is None
    first = table.publish(1, table.file("a", [0]))
    change = FileChange(SCHEMA, (table.file("b", [1]),))
    with pytest.raises(TableChangedError, match="created it first"):
        other.commit(None, change, stamp(1), table.footer)
    table.publish(2, table.file("c", [2]))
    for one in (change, change._replace(replaces_all=True)):
        with pytest.raises(TableChangedError, match="committed first"):
            other.commit(first, one, stamp(2), table.footer)
    grown = FileChange(SCHEMA.append(pa.field("new", pa.int64())), change.added)
    with pytest.raises(TableChangedError, match="committed first"):
        other.commit(first, grown, stamp(2), table.footer)
    assert table.ids() == [0, 2]


def test_a_table_that_is_gone_after_its_commit_was_changed(table, monkeypatch):
    monkeypatch.setattr(table.target, "current", lambda: None)
    with pytest.raises(TableChangedError, match="another process has committed after this one"):
        table.publish(1, table.file("a", [0]))


def test_a_column_is_added_and_older_files_have_nulls_there(table):
    table.publish(1, table.file("a", [0]))
    grown = SCHEMA.append(pa.field("new", pa.decimal128(9, 2)))
    column = pa.array([None], pa.decimal128(9, 2))
    version = table.publish(2, table.file("b", [1], new=column), schema=grown)
    assert table.target.schema().names == [*SCHEMA.names, "new"]
    assert table.target.current() == version
    # The column comes in a commit of its own, which stands for no entry.
    assert [one.native for one in table.target.versions()] == [2, 0]
    assert table.ids(1) == [0]
    assert pl.read_delta(table.root)["new"].to_list() == [None, None]


def test_a_column_that_was_added_before_a_crash_is_not_added_twice(table):
    first = table.publish(1, table.file("a", [0]))
    grown = SCHEMA.append(pa.field("new", pa.int64()))
    DeltaTable(table.root).alter.add_columns(
        table.target._library.Schema.from_arrow(pa.schema([("new", pa.int64())])).fields,
        commit_properties=CommitProperties(custom_metadata={"eoslog.prepares": "2"}),
    )
    assert table.target.current() == Version(1, first.stamp)
    assert table.publish(2, table.file("b", [1], new=[5]), schema=grown) == Version(2, stamp(2))


def test_no_filter_of_delta_rs_hides_rows(table):
    """Its datasets take a bound that is missing for one that excludes all values."""
    values = {
        "f": [1.5, float("nan")],
        "b": [True, None],
        "y": [b"y", None],
        "d": [Decimal("123456789012345678.90"), None],
        "t": ["x" * 5000, None],
    }
    types = {
        "f": pa.float64(),
        "b": pa.bool_(),
        "y": pa.binary(),
        "d": pa.decimal128(30, 2),
        "t": pa.string(),
    }
    schema = pa.schema([*SCHEMA, *types.items()])
    table.publish(1, table.file("a", [0, 1], **values), schema=schema)
    wider = pa.schema([*schema, ("more", pa.int64())])
    table.publish(2, table.file("b", [2, 3], **values, more=[7, 8]), schema=wider)

    def check():
        found = DeltaTable(table.root).to_pyarrow_dataset()
        for name, (value, _) in values.items():
            assert found.to_table(filter=pc.field(name) == pa.scalar(value, types[name])).num_rows == 2, name
        assert found.to_table(filter=pc.field("more").is_null()).num_rows == 2
        assert found.to_table(filter=pc.field("more") == 7).num_rows == 1

    check()
    # In a table with other columns, which has files without one of them from the start.
    table.publish(
        3, table.file("c", [0], t=["z"]), schema=SCHEMA.append(pa.field("t", pa.string())), replaces_all=True
    )
    again = [table.file("d", [0, 1], **values), table.file("e", [2, 3], **values, more=[7, 8])]
    table.publish(4, *again, schema=wider, replaces_all=True)
    check()


LAST_CHARACTERS = ("\U000fffff" * 33, "\U00100000", "a\U0010ffff", "\U0010ffff" * 32)
LAST_TIMES = (253_402_300_799_999_999, 253_402_300_800_000_000, -(2**62))
"""The last microsecond of the year 9999, and times that no calendar has."""


@pytest.mark.parametrize("type_", [pa.string(), pa.timestamp("us", "UTC"), pa.timestamp("us")], ids=str)
def test_no_value_at_the_end_of_its_type_is_hidden(table, type_):
    """Each is found by a filter, alone in its file and beside another one."""
    is_text = pa.types.is_string(type_)
    values = pa.array(LAST_CHARACTERS if is_text else LAST_TIMES, pa.string() if is_text else pa.int64())
    other = values.take([0])
    files = []
    for at in range(len(values)):
        alone, beside = values.slice(at, 1), pa.concat_arrays([other, values.slice(at, 1)])
        files += [
            table.file(f"a{at}", [at], c=alone.cast(type_)),
            table.file(f"b{at}", [at, at], c=beside.cast(type_)),
        ]
    table.publish(1, *files, schema=SCHEMA.append(pa.field("c", type_)))
    found, frame = DeltaTable(table.root).to_pyarrow_dataset(), pl.scan_delta(table.root)
    for at, value in enumerate(values.cast(type_)):
        same = pc.field("c") == value
        assert {*found.to_table(filter=same)["id"].to_pylist()} >= {at}, at
        assert found.to_table(filter=same & (pc.field("id") == at)).num_rows == (3 if at == 0 else 2), at
        literal = pl.Series(pa.array([value]))
        assert frame.filter(pl.col("c") == pl.lit(literal).first(), id=at).collect().height == (
            3 if at == 0 else 2
        )


def test_other_columns_replace_all_files(table):
    table.publish(1, table.file("a", [0]))
    other = pa.schema([("number", pa.int64()), ("_offset", pa.int64())])
    pq.write_table(pa.table({"number": [7], "_offset": [0]}), table.folder / "_segments/0/b")
    new = DataFile("_segments/0/b", (table.folder / "_segments/0/b").stat().st_size, 1)
    table.publish(2, new, schema=other, replaces_all=True)
    assert pl.read_delta(table.root).to_dict(as_series=False) == {"number": [7], "_offset": [0]}
    assert table.ids(0) == [0]
    with pytest.raises(TableDamagedError, match="replaced by itself"):
        table.publish(3, new, schema=other, replaces_all=True)


def test_a_folder_with_blanks_and_accents(tmp_path):
    table = Table(tmp_path / "a table ü")
    table.publish(1, table.file("a", [0]))
    table.publish(2, table.file("b", [1]))
    assert table.ids() == [0, 1]
    assert table.target.current() == Version(1, stamp(2))


def test_opening_stays_quick(table):
    one = table.file("a", [0])
    table.publish(1, one)
    for sequence in range(2, 45):
        table.publish(sequence)
    newest = json.loads((table.folder / "_delta_log/_last_checkpoint").read_text())
    assert newest["version"] >= 39
    assert table.ids() == [0]
    assert table.ids(30) == [0]


# -- Other hands ------------------------------------------------------------------------------------------


def test_a_vacuum_of_the_table_leaves_it_as_published(table):
    table.publish(1, table.file("a", [0]))
    removed = table.file("../../b", [1])._replace(path="b")
    table.publish(2, removed)
    version = table.publish(3, removed=[removed])
    DeltaTable(table.root).vacuum(0, enforce_retention_duration=False, dry_run=False)
    now = table.target.current()
    assert not (table.folder / "b").exists()
    assert now == Version(version.native + 2, version.stamp)
    assert table.publish(4, table.file("c", [2])).stamp == stamp(4)


def test_many_commits_that_leave_the_rows_as_they_are_hide_no_version(table):
    version = table.publish(1, table.file("a", [0]))
    for number in range(60):
        DeltaTable(table.root).alter.set_table_properties({"delta.checkpointInterval": str(100 + number)})
    assert table.target.current() == Version(version.native + 60, version.stamp)


def test_rows_of_another_program_are_seen(table):
    table.publish(1, table.file("a", [0]))
    write_deltalake(table.root, pa.table({"id": [9], "name": ["x"], "_offset": [9]}), mode="append")
    with pytest.raises(TableDamagedError, match="another program"):
        table.target.current()


def test_a_table_of_another_program_has_no_stamp(table):
    write_deltalake(table.root, pa.table({"id": [9]}))
    assert table.target.current() == Version(0, None)


@pytest.mark.parametrize("left", [0, 10])
def test_a_damaged_table_is_told_from_one_that_is_missing(table, left):
    table.publish(1, table.file("a", [0]))
    with (table.folder / "_delta_log/00000000000000000000.json").open("r+b") as file:
        file.truncate(left)
    with pytest.raises(TableDamagedError):
        table.target.current()
    table.target.drop()
    assert table.target.current() is None
    assert (table.folder / "_segments/0/a").exists()
    table.publish(1, table.file("b", [1]))
    assert table.ids() == [1]


def test_a_table_without_its_first_entries_is_damaged(table):
    for sequence in range(1, 4):
        table.publish(sequence)
    (table.folder / "_delta_log/00000000000000000001.json").unlink()
    with pytest.raises(TableDamagedError):
        table.target.current()


# -- Merging ----------------------------------------------------------------------------------------------


def found(root):
    table = DeltaTable(root).to_pyarrow_dataset().to_table()
    return sorted(table.to_pylist(), key=lambda one: one["offset"])


@pytest.mark.parametrize(
    "value",
    [
        pa.scalar(Decimal("0.000000000000001"), pa.decimal128(15, 15)),
        pa.scalar(3_000_000, pa.int32()).cast(pa.date32()),
        pa.scalar(LAST_TIMES[1], pa.int64()).cast(pa.timestamp("us", "UTC")),
    ],
    ids=["small", "day", "time"],
)
def test_a_value_of_which_delta_rs_makes_no_bounds_is_merged_and_found(tmp_path, value):
    target = DeltaTarget(str(tmp_path / "t"))
    for at, key in enumerate((b"a", b"b")):
        rows = pa.Table.from_pylist([row(key, b"v", at)], schema=KEYED).append_column("c", pa.array([value]))
        merge(target, at + 1, rows, schema=rows.schema)
    same = DeltaTable(target.root).to_pyarrow_dataset().to_table(filter=pc.field("c") == value)
    assert same.num_rows == 2


def test_a_merge_that_changes_nothing_is_a_version_too(tmp_path):
    """delta-rs commits nothing then: the publisher would wait for its version for ever."""
    target = DeltaTarget(str(tmp_path / "t"))
    merge(target, 1, [row(b"a", b"1", 0)])
    assert merge(target, 2, []).stamp.sequence == 2
    assert merge(target, 3, [], [b"never"]).native == 2
    assert found(target.root) == [row(b"a", b"1", 0)]


def test_versions_have_their_numbers_while_others_commit(table, monkeypatch):
    """delta-rs counts back from the version that it has opened, and lists what has come since, too."""
    for sequence in (1, 2):
        table.publish(sequence, table.file(f"{sequence}.parquet", [sequence]))
    other, history = DeltaTarget(table.root), DeltaTable.history
    new = [table.file(f"{sequence}.parquet", [sequence]) for sequence in (3, 4)]

    def late(self, limit=None):
        with monkeypatch.context() as patch:
            patch.setattr(DeltaTable, "history", history)
            if new:
                table.publish(int(new[0].path[-9]), new.pop(0), target=other)
        return history(self, limit)

    monkeypatch.setattr(DeltaTable, "history", late)
    found = [(one.native, one.stamp.sequence) for one in table.target.versions()]
    assert found == [(3, 4), (2, 3), (1, 2), (0, 1)]
    new.append(table.file("5.parquet", [5]))
    assert (table.target.current().native, table.target.current().stamp) == (4, stamp(5))


# -- Refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "type_", "said"),
    [
        ("a b", pa.int64(), "'a b'"),
        ("a=b", pa.int64(), "'a=b'"),
        ("at", pa.time64("ns"), "'at'"),
        ("took", pa.list_(pa.duration("us")), "'took.element'"),
        ("s", pa.struct([("in ner", pa.int8())]), "'s.in ner'"),
        ("empty", pa.struct([]), "'empty'"),
        ("m", pa.map_(pa.string(), pa.time64("ns")), "'m.value'"),
        ("d", pa.decimal128(5, -2), "'d'"),
        ("l", pa.list_(pa.struct([("A", pa.int64()), ("a", pa.int64())])), "'l.element': .* 'A' and 'a'"),
    ],
)
def test_columns_that_delta_cannot_keep_are_named(tmp_path, name, type_, said):
    target = DeltaTarget(str(tmp_path / "t"))
    with pytest.raises(SchemaMismatchError, match=said):
        target.check_schema(pa.schema([("fine", pa.int64()), (name, type_)]))
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("place", ["memory://table", "100%", "a#b", "a?b", "a\\b", "a\nb", "a\x7f"])
def test_places_that_delta_rs_does_not_reach_are_refused(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="delta-rs"):
        DeltaTarget(place)


# -- Object stores ----------------------------------------------------------------------------------------


def test_a_table_in_a_bucket(minio_server, tmp_path):
    """Settings of the log's store reach delta-rs, and a commit there is a compare-and-set, too."""
    root, settings = f"{minio_server.url}/tests/table-in-a-bucket", minio_server.settings
    file = Table(tmp_path / "table").file("a", [0, 1])
    footer = pq.read_metadata(tmp_path / "table" / file.path)
    open_store(root, settings).create(file.path, (tmp_path / "table" / file.path).read_bytes())
    targets = [DeltaTarget(root, settings) for _ in range(2)]
    change = FileChange(SCHEMA, (file,))
    first = targets[0].commit(None, change, stamp(1), lambda _: footer)
    with pytest.raises(TableChangedError):
        targets[1].commit(None, change, stamp(1), lambda _: footer)
    empty = FileChange(SCHEMA, ())
    last = targets[0].commit(first, empty, stamp(2), lambda _: footer)
    with pytest.raises(TableChangedError):
        targets[1].commit(first, empty, stamp(2), lambda _: footer)
    options = library_options(root, settings)
    assert pl.scan_delta(root, storage_options=options).collect()["id"].to_list() == [0, 1]
    assert DeltaTable(root, storage_options=options).version() == last.native == 1
    targets[0].drop()
    assert targets[1].current() is None
