"""A log whose data files are in a store of their own: all that reads, writes and maintains it, on two folders."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition, read_arrow
from spark_eos.errors import ConfigError, NotALogError, StorageError
from spark_eos.log import paths
from spark_eos.log.data.task_io import TaskStorage
from spark_eos.log.data_place import check_apart, data_place
from spark_eos.maintenance import copying
from spark_eos.maintenance.copying import copy_log
from spark_eos.maintenance.rolling import Roller
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.maintenance.verify.verify import verify
from spark_eos.monitoring.status import status_of
from spark_eos.storage import PosixStore, Settings, Store, open_store
from spark_eos.storage.store import Data, EarlierPlace
from spark_eos.storage.two_stores import DATA_MARK
from tests.maintenance.sparse_world import World, everything, small_pages
from tests.needing import needs
from tests.storage.shuffled_store import ShuffledStore
from verification.retiring import RETIRED_AT_ONCE


def names(folder: Path) -> set[str]:
    """The first parts of all names of objects."""
    return {info.name.partition("/")[0] for info in PosixStore(folder).list("")}


def place(tmp_path: Path, name: str = "files") -> Settings:
    return Settings({"data.url": str(tmp_path / name)})


def send(log: str | Log, *values: bytes) -> None:
    with Producer(log) as producer:
        for value in values:
            producer.send("t", value).result()


def received(log: str | Log) -> list[bytes]:
    with Consumer(
        log, {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    ) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        return [record.value for record in consumer.poll(10_000)]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A log with one record."""
    url = str(tmp_path / "chain")
    Admin(url, {"data.url": str(tmp_path / "files")}).create_topic("t")
    send(url, b"one")
    return url


def test_the_chain_alone_names_the_log(url: str, tmp_path: Path) -> None:
    assert received(url) == [b"one"]
    assert names(tmp_path / "chain") == {"_log"}
    assert names(tmp_path / "files") == {"data", DATA_MARK}
    described = Admin(url).describe_log()
    assert (described.url, described.data_url) == (url, str(tmp_path / "files"))
    assert read_arrow(url, "t").read_all().num_rows == 1
    log = Log.open(url, settings=place(tmp_path))
    assert log.data_location == str(tmp_path / "files")
    assert log.store is log.store, "the connections of both are made once"


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_maintenance_of_both_and_listings_without_an_order(form: str, tmp_path: Path) -> None:
    chain, files = tmp_path / "chain", tmp_path / "files"
    store = ShuffledStore(open_store(chain, place(tmp_path)))
    with small_pages():
        world = World(store, config={"segment.format": form, "file.delete.delay.ms": "0"})
        for number in range(30):
            world.append(b"%d" % number)
        world.seal()
        before = everything(Log.open(store))
        Roller(Log.open(store), tail_rows=1).run()
        Vacuum(Log.open(store), min_age_s=0).run(wait=False)
        Log.open(store).maintenance.snapshot()
        assert everything(Log.open(store)) == before
        assert everything(Log.open(chain)) == before, "without any settings"
        assert verify(store, print).is_sound
        assert verify(str(chain), print).unreferenced_files == 0
    assert names(chain) <= {"_log", "_maintenance"}
    assert names(files) == {"tables" if form == "parquet" else "data", DATA_MARK} | (names(files) & {"data"})


def test_vacuum_deletes_what_no_entry_refers_to_and_nothing_else(url: str, tmp_path: Path) -> None:
    Admin(url).alter_topic("t", config={"file.delete.delay.ms": "0"})
    log = Log.open(url)
    with log.stage(log.topic("t")) as writer:
        writer.append(pa.table({"value": [b"left over"]}), 0)
        left = writer.finish()[0].file.name
    assert (tmp_path / "files" / left).exists()
    # Of another log's time: not this log's, as data files are not looked for there.
    stray = tmp_path / "chain" / left
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"")
    send(url, b"two")
    Vacuum(Log.open(url), min_age_s=0).run(wait=False)
    assert not (tmp_path / "files" / left).exists()
    assert stray.exists()
    assert received(url) == [b"one", b"two"]


def test_a_copied_chain_neither_writes_nor_deletes_beside_the_original(url: str, tmp_path: Path) -> None:
    """Both have the same log id, and one place for their data."""
    shutil.copytree(url, tmp_path / "by-hand")
    other = str(tmp_path / "by-hand")
    assert received(other) == [b"one"], "it may be read"
    with pytest.raises(ConfigError, match="another copy of this one"):
        send(other, b"lost")
    log = Log.open(url)
    with log.stage(log.topic("t")) as writer:
        writer.append(pa.table({"value": [b"under way"]}), 0)
        staged = writer.finish()[0].file.name
    Admin(other).alter_topic("t", config={"file.delete.delay.ms": "0"})
    with pytest.raises(ConfigError, match="another copy of this one"):
        Vacuum(Log.open(other), min_age_s=0).run(wait=False)
    assert (tmp_path / "files" / staged).exists()
    assert verify(url, print).is_sound


# -- Creating -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("url")
def test_a_place_that_is_not_free_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "holiday.jpg").write_bytes(b"")
    for wanted, error, text in (
        ("full", NotALogError, "holiday.jpg"),
        ("files", NotALogError, "is not empty"),
        ("new", ConfigError, "lie in one another"),
        ("new/inner", ConfigError, "lie in one another"),
    ):
        with pytest.raises(error, match=text):
            Log.create(tmp_path / "new", settings=place(tmp_path, wanted))
    assert not (tmp_path / "new").exists()


def test_a_place_with_a_mark_alone_is_taken(tmp_path: Path) -> None:
    Log.create(tmp_path / "one", settings=place(tmp_path))
    with pytest.raises(NotALogError, match="another log's data files"):
        Log.create(tmp_path / "two", settings=place(tmp_path))


def test_no_log_is_made_among_data_files(url: str, tmp_path: Path) -> None:
    """Its vacuum would delete them."""
    with pytest.raises(NotALogError, match=DATA_MARK):
        Log.create(tmp_path / "files")
    assert received(url)
    for lost in ("_log/00000000000000000000.avro", "_log"):
        whole = tmp_path / lost.replace("/", "-")
        send(str(whole), b"one")
        (shutil.rmtree if lost == "_log" else os.unlink)(whole / lost)
        before = names(whole)
        with pytest.raises(NotALogError, match="put it back from a backup or a copy"):
            send(str(whole), b"two")
        assert names(whole) == before
    entries = tmp_path / "entries"
    Admin(str(Log.create(entries).store.url)).create_topic("t")
    (entries / "_log/00000000000000000000.avro").unlink()
    with pytest.raises(NotALogError, match="put it back from a backup or a copy"):
        Log.create(entries)


def test_two_logs_that_are_created_at_once_do_not_share_a_place(tmp_path: Path, monkeypatch) -> None:
    """Both have seen that it is free: one of them has it, the other never writes there."""
    monkeypatch.setattr("spark_eos.log.data_place._is_taken", lambda _: False)
    Admin(str(tmp_path / "one"), {"data.url": str(tmp_path / "files")}).create_topic("t")
    with pytest.raises(ConfigError, match="another log"):
        Log.create(tmp_path / "two", settings=place(tmp_path))
    Admin(str(tmp_path / "two")).create_topic("t")
    with pytest.raises(ConfigError, match="another log"):
        send(str(tmp_path / "two"), b"lost")
    send(str(tmp_path / "one"), b"kept")
    assert received(str(tmp_path / "one")) == [b"kept"]


def test_another_place_than_the_logs_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.url=.*other: the data files of .* are at .*files"):
        Log.open(url, settings=place(tmp_path, "other"))
    Log.create(tmp_path / "plain")
    with pytest.raises(ConfigError, match="are beside its entries"):
        Log.open(tmp_path / "plain", settings=place(tmp_path, "other"))


def test_a_store_of_data_that_is_not_there_is_named(url: str, tmp_path: Path) -> None:
    shutil.move(tmp_path / "files", tmp_path / "gone")
    with pytest.raises(StorageError, match=str(tmp_path / "files")):
        received(url)
    found = []
    assert not verify(url, found.append).is_sound
    shutil.move(tmp_path / "gone", tmp_path / "files")
    assert received(url) == [b"one"]


# -- Handles --------------------------------------------------------------------------------------------------


def test_handles_and_tasks_find_the_data_in_other_processes(url: str, tmp_path: Path) -> None:
    log = pickle.loads(pickle.dumps(Log.open(url)))
    assert received(log) == [b"one"]
    storage = TaskStorage(url, log.state.seq + 1, place=data_place(log.state))
    with pickle.loads(pickle.dumps(storage)).writer(log.topic("t")) as writer:
        writer.append(pa.table({"value": [b"x"]}), 0)
        assert (tmp_path / "files" / writer.finish()[0].file.name).exists()


@needs("ui")
def test_a_store_that_only_reads_reads_both(url: str) -> None:
    from spark_eos.extensions.ui.read_only import ReadOnlyStore

    store = ReadOnlyStore(open_store(url))
    log = Log.open(store)
    assert received_by(log) == 1
    assert {info.name.partition("/")[0] for info in store.list("")} == {"_log", "data", DATA_MARK}
    assert status_of(url).activity is not None


def received_by(log: Log) -> int:
    return read_arrow(log, "t").read_all().num_rows


# -- Copies and backups ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["plain", "two"])
@pytest.mark.parametrize("target", ["plain", "two"])
@pytest.mark.parametrize("way", ["copied", pytest.param("restored", marks=needs("backup"))])
def test_copies_and_backups_between_one_store_and_two(
    source: str, target: str, way: str, tmp_path: Path
) -> None:
    url = str(tmp_path / "log")
    Admin(url, {"data.url": str(tmp_path / "files")} if source == "two" else {}).create_topic("t")
    send(url, b"one", b"two")
    there = place(tmp_path, "its-files") if target == "two" else Settings({})
    if way == "copied":
        copy_log(url, tmp_path / "made", print, destination_settings=there)
    else:
        from spark_eos.extensions.backup.backing_up import backup_log
        from spark_eos.extensions.backup.restoring import restore_log

        backup_log(url, str(tmp_path / "backups"))
        restore_log(str(tmp_path / "backups"), tmp_path / "made", settings=there)
    shutil.rmtree(url)
    shutil.rmtree(tmp_path / "files", ignore_errors=True)
    log = Log.open(tmp_path / "made")
    assert log.state.data_url == (str(tmp_path / "its-files") if target == "two" else "")
    assert received(log) == [b"one", b"two"]
    send(log, b"three")
    assert received(str(tmp_path / "made")) == [b"one", b"two", b"three"]
    assert names(tmp_path / "made") == ({"_log"} if target == "two" else {"_log", "data"})
    assert verify(str(tmp_path / "made"), print).is_sound


def test_a_copy_that_can_be_opened_says_where_its_data_is(tmp_path: Path, monkeypatch) -> None:
    """It was stopped when it had its snapshot, which makes it a log."""
    url, files = str(tmp_path / "log"), str(tmp_path / "copied")
    Log.create(url, snapshot_interval=4, config=RETIRED_AT_ONCE).ensure_topic("t")
    for _ in range(6):
        send(url, b"x")
    Log.open(url).maintenance.snapshot()
    create = copying._create

    def stopped(target: Store, name: str, data: Data) -> None:
        create(target, name, data)
        if name.startswith(paths.SNAPSHOTS):
            raise KeyboardInterrupt

    monkeypatch.setattr(copying, "_create", stopped)
    with pytest.raises(KeyboardInterrupt):
        copy_log(url, tmp_path / "copy", print, destination_settings=place(tmp_path, "copied"))
    monkeypatch.undo()
    assert Log.open(tmp_path / "copy").state.data_url == files
    send(str(tmp_path / "copy"), b"y")
    assert copy_log(
        url, tmp_path / "copy", print, destination_settings=place(tmp_path, "copied")
    ).verified.is_sound
    assert received(str(tmp_path / "copy")) == [b"x"] * 6 + [b"y"]


@needs("backup")
def test_a_backup_in_the_place_of_the_data_is_refused(url: str, tmp_path: Path) -> None:
    from spark_eos.extensions.backup.backing_up import backup_log

    with pytest.raises(ConfigError, match="lie in one another"):
        backup_log(url, str(tmp_path / "files" / "backups"))
    assert not names(tmp_path / "files" / "backups"), "what is refused writes nothing"


def test_a_copy_in_the_place_of_the_data_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="lie in one another"):
        copy_log(url, tmp_path / "files" / "copy", print)
    with pytest.raises(ConfigError, match="lie in one another"):
        copy_log(url, tmp_path / "copy", print, destination_settings=place(tmp_path, "files/inner"))
    earlier = EarlierPlace(PosixStore(tmp_path / "old").url, 9, is_copied=True)
    moving = PosixStore(tmp_path / "log").with_data(str(tmp_path / "new"), earlier)
    with pytest.raises(ConfigError, match="lie in one another"):
        check_apart(moving, PosixStore(tmp_path / "old" / "copy"))


def test_a_copy_whose_place_another_log_has_leaves_nothing(url: str, tmp_path: Path) -> None:
    """Else the same copy with a place of its own would be refused as well: it was begun with another one."""
    (tmp_path / "taken").mkdir()
    shutil.copy(tmp_path / "files" / DATA_MARK, tmp_path / "taken")
    with pytest.raises(ConfigError, match="those of another log or of another copy"):
        copy_log(url, tmp_path / "copy", print, destination_settings=place(tmp_path, "taken"))
    assert not names(tmp_path / "copy")
    copy_log(url, tmp_path / "copy", print, destination_settings=place(tmp_path, "2"))
    assert received(str(tmp_path / "copy")) == [b"one"]


def test_a_copy_that_was_begun_with_another_place_is_not_gone_on_with(
    url: str, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr("spark_eos.maintenance.copying._agree", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        copy_log(url, tmp_path / "copy", print, destination_settings=place(tmp_path, "2"))
    monkeypatch.undo()
    with pytest.raises(Exception, match="unfinished copy"):
        copy_log(url, tmp_path / "copy", print, destination_settings=place(tmp_path, "3"))
    copy_log(url, tmp_path / "copy", print, destination_settings=place(tmp_path, "2"))
    assert received(str(tmp_path / "copy")) == [b"one"]
    assert json.loads((tmp_path / "2" / DATA_MARK).read_bytes())["chain"] == str(tmp_path / "copy")
