"""What is in the place of a table, and what a store says of it: a table goes only if it is the publication's own."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_eos import Log
from spark_eos.errors import (
    ConfigError,
    CorruptRecordError,
    InvalidRequestError,
    ObjectNotFoundError,
    ProducerFencedError,
    SegmentsReplacedError,
    StoreUnavailableError,
    TableChangedError,
    TableDamagedError,
)
from spark_eos.extensions.tables import publisher
from spark_eos.extensions.tables.copies import copy_files
from spark_eos.extensions.tables.delta.target import DeltaTarget
from spark_eos.extensions.tables.maintaining import Publications
from spark_eos.maintenance.maintain import Maintainer
from spark_eos.protocol.types import FileRef
from spark_eos.storage import MemoryStore
from tests.extensions.tables.refusing import refusing_store
from tests.extensions.tables.world import World, rows_of


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "log")


def another_programs_table(root, commits=3):
    for number in range(commits):
        write_deltalake(str(root), pa.table({"a": [number]}), mode="append")


def is_another_programs(root):
    return DeltaTable(str(root)).to_pyarrow_table().schema.names == ["a"]


def test_tables_with_copies_do_not_lie_in_the_log(world, tmp_path):
    for place in (tmp_path / "log", tmp_path / "log" / "tables"):
        with pytest.raises(ConfigError, match=r"the table .*/orders and the log .* lie in one another"):
            world.tables.create("p", ["orders"], mode="copied", location=str(place))
    assert world.tables.list_tables() == []


@pytest.mark.parametrize("found_late", [False, True])
def test_a_copy_of_another_size_is_no_copy(found_late):
    """``found_late``: another publisher has made it since it was looked for."""
    source = MemoryStore()
    source.create("data/t/1.parquet", b"12345")

    class Target(MemoryStore):
        is_late = found_late

        def size(self, name):
            if self.is_late:
                self.is_late = False
                raise ObjectNotFoundError(name)
            return super().size(name)

    target = Target()
    target.create("0-1.parquet", b"123")
    with pytest.raises(CorruptRecordError, match="has 3 bytes and not 5: remove it"):
        copy_files(source, target, {"0-1.parquet": FileRef("data/t/1.parquet", 5, 0)})
    target.overwrite("0-1.parquet", b"12345")
    target.is_late = found_late
    copy_files(source, target, {"0-1.parquet": FileRef("data/t/1.parquet", 5, 0)})


# -- Tables of other programs -----------------------------------------------------------------------------


def test_no_table_lies_at_the_place_of_one_in_it_or_around_it(world, tmp_path):
    """One of the two would be cleaned up with the other one."""
    lake = tmp_path / "lake"
    world.tables.create("first", ["orders"], mode="copied", location=str(lake))
    lake.mkdir()
    (tmp_path / "link").symlink_to(lake)
    before = world.log.follow().seq
    for place in (f"file://{lake}", str(tmp_path / "link"), str(lake / "orders")):
        with pytest.raises(
            InvalidRequestError, match=r"at the same place as .*, of publication 'first', in it or"
        ):
            world.tables.create("second", ["orders"], mode="copied", location=place)
    assert world.log.follow().seq == before
    world.tables.create("second", ["events"], mode="copied", location=str(lake))


@pytest.mark.parametrize("commits", [1, 3])
@pytest.mark.parametrize("rebuild", [False, True])
def test_nothing_is_published_over_the_table_of_another_program(world, tmp_path, commits, rebuild):
    world.tables.create("p", ["orders"], mode="copied", location=str(tmp_path))
    another_programs_table(tmp_path / "orders", commits)
    with pytest.raises(ConfigError, match="there is a table already"):
        world.tables.publish("p", rebuild=rebuild)
    assert is_another_programs(tmp_path / "orders")


@pytest.mark.parametrize("commits", [1, 3])
def test_a_table_that_another_program_puts_in_the_place_of_one_stays(world, tmp_path, commits):
    world.tables.create("p", ["orders"], mode="copied", location=str(tmp_path))
    world.tables.publish("p")
    shutil.rmtree(tmp_path / "orders")
    another_programs_table(tmp_path / "orders", commits)
    for _ in range(2):
        with pytest.raises(ConfigError, match="another program has put it there"):
            world.tables.publish("p")
    assert is_another_programs(tmp_path / "orders")


# -- Places and causes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a#b", "a?b", "a\\b"])
def test_a_folder_that_delta_rs_cannot_write_to_is_refused_when_the_publication_is_made(tmp_path, name):
    world = World(tmp_path / name / "log")
    seq = world.log.follow().seq
    with pytest.raises(ConfigError, match="cannot write into a folder with"):
        world.tables.create("p", ["orders"])
    with pytest.raises(ConfigError, match="cannot write into a folder with"):
        world.tables.create("p", ["orders"], mode="copied", location=str(tmp_path / name))
    assert world.log.follow().seq == seq


@pytest.mark.parametrize(("error", "tries"), [(TableDamagedError, 2), (TableChangedError, 20)])
def test_a_commit_that_fails_again_and_again_says_why(world, monkeypatch, error, tries):
    world.tables.create("p", ["orders"])
    asked = []

    def refused(*_):
        asked.append(1)
        raise error("the cause")

    monkeypatch.setattr(DeltaTarget, "commit", refused)
    with pytest.raises(error, match="the cause"):
        world.tables.publish("p")
    assert len(asked) == tries


def test_plans_that_are_outrun_again_and_again_say_why(world, monkeypatch):
    world.tables.create("p", ["orders"])

    def outrun(*_, **__):
        raise SegmentsReplacedError("the cause")

    monkeypatch.setattr(publisher, "seal", outrun)
    with pytest.raises(SegmentsReplacedError, match=r"planned 20 times.*the cause"):
        world.tables.publish("p")


# -- A publication that is made again ---------------------------------------------------------------------


def test_a_publisher_of_a_dropped_publication_does_not_write_for_the_next_one(world, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    world.tables.create("p", ["orders"], mode="copied", location=str(one))
    world.tables.publish("p")
    first, publications = world.tables.publisher("p"), Publications(world.log)
    assert publications.run(tell=print) == []
    world.tables.drop("p")
    shutil.rmtree(one)
    world.tables.create("p", ["events"], mode="copied", location=str(two))
    with pytest.raises(ProducerFencedError, match="dropped, and made again"):
        first.publish()
    with pytest.raises(ProducerFencedError, match="dropped, and made again"):
        first.drop()
    for _ in range(2):  # The first pass sees that its publisher is of no use any more.
        publications.run(tell=print)
    assert not one.exists()
    assert rows_of(str(two / "events")).num_rows == 0


def test_what_another_publication_has_published_is_no_version_of_this_one(world, tmp_path):
    """Tables with copies stay when a publication is dropped."""
    for name in ("first", "second"):
        world.tables.create(name, ["orders"], mode="copied", location=str(tmp_path / "lake"))
        assert world.tables.versions(name) == []
        if name == "first":
            world.tables.publish(name)
            assert len(world.tables.versions(name)) == 1
            world.tables.drop(name)


def test_a_publication_that_fails_stops_no_other_one(world, tmp_path):
    world.tables.create("a", ["orders"], mode="copied", location=str(tmp_path / "lake"))
    world.tables.create("b", ["events"])
    another_programs_table(tmp_path / "lake" / "orders")
    with pytest.raises(ConfigError, match="orders"):
        Publications(world.log).run(tell=print)
    assert world.log.follow().publications["b"].published is not None


# -- Looks -------------------------------------------------------------------------------------------------


def test_a_dry_run_writes_nothing(world, monkeypatch):
    """Nor does it end transactions whose time is over, as `publish` does."""
    ended = []
    monkeypatch.setattr(Log, "end_overdue", lambda _: ended.append(1))
    world.tables.create("p", ["orders", "events"])
    world.write(1)
    before = world.log.follow().seq
    (step,) = Maintainer(world.log, only=["publish"], dry_run=True).run()
    assert step.text == "would publish p"
    assert world.tables.publisher("p").is_due()
    assert (ended, world.log.follow().seq) == ([], before)
    world.tables.publish("p")
    assert ended


def test_to_open_a_table_its_log_is_not_listed(world, monkeypatch):
    """A listing takes time that grows with the commits of the table."""
    world.tables.create("p", ["orders"])
    world.tables.publish("p")
    publisher = world.tables.publisher("p")
    store = publisher._targets["orders"].files_store()
    monkeypatch.setattr(store, "list", lambda _: pytest.fail("listed"))
    world.write(1)
    assert publisher.publish().sequence == 2


# -- Stores that refuse ------------------------------------------------------------------------------------


@pytest.mark.deep("each")
@pytest.mark.parametrize("step", [4, 1], ids=["every fourth", "each"])
def test_a_table_is_not_damaged_because_a_store_refuses_a_request(step):
    """delta-rs says so in other words where it reads a checkpoint than where it opens a table."""
    with refusing_store() as store:
        world = World("s3://bucket/log", store.settings)
        world.tables.create("p", ["orders"])
        world.tables.publish("p")
        checkpoint(world, store.settings)
        published, number = 1, 0
        while True:
            world.write(1, ["orders"])
            store.refuse(number, "*.checkpoint.parquet")
            try:
                world.tables.publish("p")
            except StoreUnavailableError:
                assert store.heal() > number
                world.tables.publish("p")
            else:
                assert store.heal() <= number, "a request was refused, and nothing was said"
                break
            published, number = published + 1, number + step
            assert len(world.tables.versions("p")) == published
        assert number > 3


def checkpoint(world, settings):
    from spark_eos.storage.objects.library_options import library_options

    (table,) = world.tables.list_tables()
    options = library_options(table.location, settings)
    DeltaTable(table.location, storage_options=options).create_checkpoint()
