"""What every target does, whatever its format: read by readers of the formats, not by what wrote it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from spark_eos.errors import TableChangedError
from spark_eos.extensions.tables.delta.target import DeltaTarget
from spark_eos.extensions.tables.iceberg.target import IcebergTarget
from spark_eos.extensions.tables.target import DataFile, FileChange, RowChange, Target
from tests.extensions.tables.merging import KEYED, merge, row, stamp

pyiceberg_catalog = pytest.importorskip("pyiceberg.catalog", reason="the extra 'tables' is not installed")

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
        ("sizes", pa.map_(pa.string(), pa.int32())),
        ("price", pa.decimal128(12, 2)),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
    ]
)


class Place(NamedTuple):
    """A table of some format: ``new`` opens it, ``read`` gives the rows of one of its versions (None: the newest)."""

    folder: Path
    new: Callable[[], Target]
    read: Callable[[int | None], list[dict[str, Any]]]

    def file(self, name: str, ids: list[Any], schema: pa.Schema = SCHEMA, **more: Any) -> DataFile:
        rows = {
            "id": ids,
            "name": [f"n{one}" for one in ids],
            "at": ids,
            "tags": [["a", "b"]] * len(ids),
            "sizes": [[("s", 1)]] * len(ids),
            "price": [None] * len(ids),
            "_partition": [0] * len(ids),
            "_offset": [*range(len(ids))],
            **more,
        }
        table = pa.Table.from_pydict({field.name: rows[field.name] for field in schema}, schema=schema)
        path = self.folder / "_segments/0" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, compression="zstd", store_schema=False)
        return DataFile(f"_segments/0/{name}", path.stat().st_size, len(ids))

    def footer(self, one: DataFile) -> Any:
        return pq.read_metadata(self.folder / one.path)

    def publish(self, target: Target, sequence: int, *added: DataFile, **more: Any) -> Any:
        change = FileChange(more.pop("schema", SCHEMA), added, **more)
        return target.commit(target.current(), change, stamp(sequence), self.footer)

    def ids(self, version: int | None = None) -> list[Any]:
        return sorted(row["id"] for row in self.read(version))


@pytest.fixture(params=["delta", "iceberg"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    folder = tmp_path / "a table ü"
    folder.mkdir()
    if request.param == "delta":

        def rows(version: int | None) -> list[dict[str, Any]]:
            return DeltaTable(str(folder), version=version).to_pyarrow_dataset().to_table().to_pylist()

        return Place(folder, lambda: DeltaTarget(str(folder)), rows)
    uri = f"sqlite:///{tmp_path}/catalog.db"

    def catalog() -> Any:
        return pyiceberg_catalog.load_catalog("c", type="sql", uri=uri)

    def scanned(version: int | None) -> list[dict[str, Any]]:
        found = catalog().load_table("shop.t").scan(snapshot_id=version).to_arrow().to_pylist()
        renamed = {"_topic_partition": "_partition"}
        return [{renamed.get(name, name): value for name, value in row.items()} for row in found]

    return Place(folder, lambda: IcebergTarget(str(folder), "shop.t", catalog()), scanned)


def test_versions_are_read_exactly_and_name_their_entries(place):
    one, two, three = (place.file(name, ids) for name, ids in (("a", [0, 1]), ("b", [2]), ("c", [0, 1, 2])))
    target = place.new()
    assert target.current() is None
    found = [place.publish(target, 1, one), place.publish(target, 2, two)]
    found.append(place.publish(target, 3, three, removed=(one, two)))
    found.append(place.publish(target, 4))
    assert [place.ids(version.native) for version in found] == [[0, 1], [0, 1, 2], [0, 1, 2], [0, 1, 2]]
    assert [version.stamp for version in found] == [stamp(number) for number in range(1, 5)]
    again = place.new()
    assert [*again.versions()] == found[::-1]
    assert again.current() == found[-1]
    assert again.files() == (three.path,)
    assert again.schema() == SCHEMA
    assert place.read(found[0].native)[0] == {
        **dict.fromkeys(SCHEMA.names),
        "id": 0,
        "name": "n0",
        "tags": ["a", "b"],
        "sizes": [("s", 1)],
        "_partition": 0,
        "_offset": 0,
        "at": place.read(None)[0]["at"],
    }


def test_of_two_publishers_one_is_refused(place):
    target, other = place.new(), place.new()
    assert other.current() is None
    first = place.publish(target, 1, place.file("a", [0]))
    late = FileChange(SCHEMA, (place.file("b", [1]),))
    with pytest.raises(TableChangedError):
        other.commit(None, late, stamp(1), place.footer)
    place.publish(target, 2, place.file("c", [2]))
    for change in (late, late._replace(replaces_all=True), late._replace(added=())):
        with pytest.raises(TableChangedError):
            other.commit(first, change, stamp(2), place.footer)
    assert place.ids() == [0, 2]


def test_a_column_is_added_and_older_files_have_nulls_there(place):
    target = place.new()
    first = place.publish(target, 1, place.file("a", [0]))
    grown = SCHEMA.append(pa.field("new", pa.struct([("x", pa.int32())])))
    last = place.publish(target, 2, place.file("b", [1], grown, new=[{"x": 5}]), schema=grown)
    assert [(row["id"], row["new"]) for row in sorted(place.read(None), key=lambda row: row["id"])] == [
        (0, None),
        (1, {"x": 5}),
    ]
    assert place.ids(first.native) == [0]
    assert target.schema() == grown
    assert target.current() == last


def test_other_columns_replace_all_files_and_older_versions_stay_what_they_were(place):
    """A name that comes back, and with another type, is not taken for what it was."""
    other = pa.schema([("id", pa.string()), ("_offset", pa.int64())])
    target = place.new()
    found = [
        place.publish(target, 1, place.file("a", [7])),
        place.publish(target, 2, place.file("b", ["seven"], other), schema=other, replaces_all=True),
        place.publish(target, 3, place.file("c", [8]), replaces_all=True),
    ]
    assert [place.ids(one.native) for one in found] == [[7], ["seven"], [8]]
    assert [place.read(one.native)[0].get("name") for one in found] == ["n7", None, "n8"]
    assert place.new().schema() == SCHEMA


def test_a_dropped_table_is_gone_and_the_files_stay(place):
    target = place.new()
    one = place.file("a", [0])
    place.publish(target, 1, one)
    target.drop()
    assert target.current() is None
    assert place.new().current() is None
    assert (place.folder / one.path).exists()
    place.publish(target, 1, one)
    assert place.ids() == [0]


def test_rows_are_merged_by_their_keys(place):
    def found(version=None):
        return sorted(place.read(version), key=lambda one: one["offset"])

    target = place.new()
    first = merge(target, 1, [row(b"a", b"1", 0), row(b"b", b"2", 1), row(b"c", b"3", 2)])
    second = merge(target, 2, [row(b"a", b"4", 3), row(b"d", b"5", 4)], [b"b", b"never"])
    assert second.stamp == stamp(2)
    assert found() == [row(b"c", b"3", 2), row(b"a", b"4", 3), row(b"d", b"5", 4)]
    late = place.new()
    late.current = lambda: first  # type: ignore[method-assign]
    with pytest.raises(TableChangedError):
        merge(late, 2, [row(b"z", b"z", 9)])
    merge(target, 3, [], starts={0: 4})
    assert found() == [row(b"d", b"5", 4)]
    grown = KEYED.append(pa.field("a`b", pa.int32()))
    merge(target, 4, [row(b"e", b"6", 5, **{"a`b": 7})], schema=grown)
    merge(target, 5, [row(b"e", b"6", 5, **{"a`b": 8})], schema=grown)
    assert found() == [row(b"d", b"5", 4, **{"a`b": None}), row(b"e", b"6", 5, **{"a`b": 8})]
    merge(target, 6, [], [b"d", b"e"], schema=grown)
    assert found() == []
    merge(target, 7, [row(b"z", b"9", 6)], replaces_all=True)
    assert found() == [row(b"z", b"9", 6)]
    assert found(first.native) == [row(b"a", b"1", 0), row(b"b", b"2", 1), row(b"c", b"3", 2)]


def test_rows_are_merged_by_a_key_with_a_backtick_in_its_name(place):
    schema = pa.schema([("k`y", pa.int32()), ("partition", pa.int32()), ("offset", pa.int64())])
    target = place.new()
    for offset, key in enumerate((7, 8, 7)):
        rows = pa.table([[key], [0], [offset]], schema=schema)
        none = schema.empty_table().select(["k`y", "partition"])
        change = RowChange(
            schema,
            ("k`y", "partition"),
            ("partition", "offset"),
            lambda rows=rows: rows,
            lambda none=none: none,
            {0: 0},
        )
        target.commit(target.current(), change, stamp(offset + 1), place.footer)
    assert sorted((one["k`y"], one["offset"]) for one in place.read(None)) == [(7, 2), (8, 1)]


def test_copies_have_no_bounds_of_floating_point_numbers(place):
    """Those of Parquet leave NaN out, which is the greatest number of Spark."""
    target, inner = place.new(), pa.struct([("y", pa.float32())])
    schema = pa.schema([*KEYED, ("x", pa.float64()), ("in", inner)])
    nan = float("nan")
    merge(target, 1, [row(b"a", b"1", 0, x=1.0)], schema=schema, replaces_all=True)
    merge(target, 2, [row(b"a", b"1", 1, x=nan), row(b"b", b"2", 2, **{"in": {"y": nan}})], schema=schema)
    paths = [path for path in place.folder.rglob("*.parquet") if "_log" not in str(path)]
    bounded = [{*bounded_paths(path)} for path in paths]
    assert len(bounded) > 1
    assert all("offset" in one and not one & {"x", "in.y"} for one in bounded)


def bounded_paths(path):
    group = pq.read_metadata(path).row_group(0)
    for at in range(group.num_columns):
        found = group.column(at).statistics
        if found is not None and found.has_min_max:
            yield group.column(at).path_in_schema
