"""The data of a log in use is moved to another store and back: beside writers, readers, vacuum, and a second mover."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Log, TopicPartition, read_arrow
from spark_eos.errors import (
    ConfigError,
    CorruptRecordError,
    InvalidRequestError,
    NotALogError,
    StagedFileExpiredError,
)
from spark_eos.log.data.task_io import TaskStorage
from spark_eos.log.data_place import data_place
from spark_eos.maintenance.copying import copy_log
from spark_eos.maintenance.moving.mover import DataMover, Moved
from spark_eos.maintenance.rolling import Roller
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.maintenance.verify.verify import verify
from spark_eos.protocol.actions import AppendBatches, CreatePublication, DropPublication
from spark_eos.protocol.types import NO_PRODUCER, StagedFile
from spark_eos.storage import PROBES, PosixStore, Store
from spark_eos.storage.two_stores import DATA_MARK
from spark_eos.testing.wrapped_store import WrappedStore
from tests.log.test_two_stores import names, place, received, send
from tests.needing import needs

T = TypeVar("T")


class StopError(Exception):
    """Ends a move at a step."""


def move(url: str | Log | Store, to: object = "", **given: object) -> Moved:
    log = url if isinstance(url, Log) else Log.open(url)
    return DataMover(log, str(to), min_age_s=0, **given).run()  # type: ignore[arg-type]


def until(what: str, then: Callable[[], object] | None = None) -> Callable[[str, int, int], None]:
    """Progress that does something, or stops, at the first report of a step."""
    done = []

    def progress(step: str, *_: int) -> None:
        if step.startswith(what) and not done:
            done.append(step)
            if then is None:
                raise StopError(step)
            then()

    return progress


COPYING, FINISHING, DELETING = "looking for data files", "waiting until running", "files of the old place"


def stage(log: Log, *values: bytes) -> tuple[StagedFile, ...]:
    with log.stage(log.topic("t")) as writer:
        writer.append(pa.table({"value": [*values]}), 0)
        return writer.finish()


def commit(log: Log, files: tuple[StagedFile, ...]) -> None:
    append = AppendBatches(NO_PRODUCER, (("t", log.topic("t").topic_id),), files)
    log.commit(lambda _: (append,))


def data_of(folder: Path) -> set[str]:
    return {info.name for prefix in ("data/", "tables/") for info in PosixStore(folder).list(prefix)}


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A log in one store, with two records and no delay for running readers."""
    url = str(tmp_path / "log")
    Admin(url).create_topic("t", config={"file.delete.delay.ms": 0})
    send(url, b"one", b"two")
    return url


def test_there_and_on_and_back(url: str, tmp_path: Path) -> None:
    """Each place is left empty, and a copy of the folder alone is a log once more in the end."""
    moved = move(url, tmp_path / "a")
    assert (moved.location, moved.files, moved.deleted) == (str(tmp_path / "a"), 2, 2)
    assert data_of(tmp_path / "log") == set()
    assert names(tmp_path / "a") == {"data", DATA_MARK}
    assert received(url) == [b"one", b"two"]
    send(url, b"three")
    assert move(url, tmp_path / "b").files == 3
    assert names(tmp_path / "a") == {DATA_MARK}
    assert json.loads((tmp_path / "a" / DATA_MARK).read_bytes())["left"] >= 0
    send(url, b"four")
    moved = move(url)
    log = Log.open(url)
    assert moved.location == log.data_location
    assert log.data_location.startswith(f"{url}/_data/")
    assert log.state.data_before is None
    assert names(tmp_path / "log") == {"_log", "_data"}
    send(url, b"five")
    shutil.rmtree(tmp_path / "a")
    shutil.rmtree(tmp_path / "b")
    shutil.move(url, tmp_path / "elsewhere")
    there = str(tmp_path / "elsewhere")
    assert received(there) == [b"one", b"two", b"three", b"four", b"five"]
    send(there, b"six")
    assert verify(there, print).is_sound
    assert move(there) == Moved(Log.open(there).data_location, 0, 0, 0), "it is there already"


def test_a_dry_run_says_what_would_be_copied(url: str, tmp_path: Path) -> None:
    size = sum(info.size for info in PosixStore(tmp_path / "log").list("data/"))
    planned = Moved(str(tmp_path / "a"), 2, size, 0)
    assert DataMover(Log.open(url), str(tmp_path / "a")).look() == planned
    assert not (tmp_path / "a").exists()
    with pytest.raises(StopError):
        move(url, tmp_path / "a", progress=until("waiting"))
    send(url, b"three")
    assert DataMover(Log.open(url), str(tmp_path / "a")).look() == planned, "what is new is there already"
    move(url, tmp_path / "a")
    assert DataMover(Log.open(url), str(tmp_path / "a")).look() == Moved(str(tmp_path / "a"), 0, 0, 0)


def test_at_each_step_all_can_be_read_and_written(url: str, tmp_path: Path) -> None:
    """Handles that were opened before the move, and handles that are opened during it."""
    early, sent = Log.open(url), [b"one", b"two"]

    def use(*_: object) -> None:
        for log in (early, Log.open(url)):
            send(log, b"%d" % len(sent))
            sent.append(b"%d" % len(sent))
            assert received(log) == sent
        assert verify(url, print).is_sound

    move(url, tmp_path / "a", progress=use)
    assert len(sent) > 10
    assert received(url) == received(early) == sent
    assert data_of(tmp_path / "log") == set()


def test_a_file_that_was_staged_before_is_committed_until_the_floor_rises(url: str, tmp_path: Path) -> None:
    """It lies at the old place when the copying begins, and is committed behind the back of the first look."""
    log = Log.open(url)
    early, late = stage(log, b"three"), stage(log, b"four")
    move(url, tmp_path / "a", progress=until("data files", lambda: commit(log, early)))
    assert received(url) == [b"one", b"two", b"three"]
    with pytest.raises(StagedFileExpiredError, match="write the rows again"):
        commit(log, late)
    send(log, b"four")
    assert received(url) == [b"one", b"two", b"three", b"four"]


def test_a_writer_that_has_not_read_of_the_move_stages_where_its_file_is_looked_for(
    url: str, tmp_path: Path
) -> None:
    """The name of its file tells that it is at the old place; also if only the commit reads of the move."""
    log = Log.open(url)
    with pytest.raises(StopError):
        move(url, tmp_path / "a", progress=until(COPYING))
    files = stage(log, b"three")
    assert files[0].file.name in data_of(tmp_path / "log")
    commit(log, files)
    assert received(url) == [b"one", b"two", b"three"]
    files = stage(log, b"four")
    assert files[0].file.name in data_of(tmp_path / "a")
    commit(log, files)
    move(url, tmp_path / "a")
    assert received(url) == [b"one", b"two", b"three", b"four"]
    assert data_of(tmp_path / "log") == set()


def test_a_writer_that_has_not_read_of_the_move_stages_though_another_log_has_the_place_before(
    url: str, tmp_path: Path
) -> None:
    move(url, tmp_path / "a")
    log = Log.open(url)
    move(url, tmp_path / "b")
    shutil.rmtree(tmp_path / "a")
    Admin(str(tmp_path / "other"), {"data.url": str(tmp_path / "a")}).create_topic("t")
    commit(log, stage(log, b"three"))
    assert received(url) == [b"one", b"two", b"three"]
    assert data_of(tmp_path / "a") == set()


def test_tasks_that_were_planned_at_each_step(url: str, tmp_path: Path) -> None:
    """A plan goes to tasks with the place of its moment; it holds until the old place is emptied."""
    log = Log.open(url)
    topic, plans = log.topic("t"), []

    def plan(step: str = "", *_: int) -> None:
        if step.startswith(DELETING):
            return
        state = Log.open(url).state
        plans.append(TaskStorage(url, state.seq + 1, place=data_place(state)))
        for one in plans:
            with one.writer(topic) as writer:
                writer.append(pa.table({"value": [b"x"]}), 0)
                files = writer.finish()
            assert one.store.size(files[0].file.name) == files[0].file.size
        for name in sorted(data_files(url)):
            for one in plans:
                assert one.store.size(name), (name, one)

    plan()
    move(url, tmp_path / "a", progress=plan)
    assert len(plans) > 5
    for one in plans[1:]:
        for name in sorted(data_files(url)):
            assert one.store.size(name), "what was planned during the move knows both places"


def data_files(url: str) -> set[str]:
    from spark_eos.maintenance.reachability import data_sizes

    log = Log.open(url)
    return {*data_sizes(log.state, log.load)}


def test_a_log_as_it_was_is_read_where_its_files_are_now(url: str, tmp_path: Path) -> None:
    before = Log.open(url).state.seq
    move(url, tmp_path / "a")
    send(url, b"three")
    assert read_arrow(url, "t", as_of=before).read_all().column("value").to_pylist() == [b"one", b"two"]


# -- Other maintenance at the same time -------------------------------------------------------------------------


@pytest.mark.parametrize("step", [COPYING, "data files", FINISHING])
def test_vacuum_during_a_move_deletes_garbage_and_nothing_else(step: str, url: str, tmp_path: Path) -> None:
    """Also what was garbage before the move, and files that were rewritten during it."""
    log = Log.open(url)
    left = stage(log, b"left over")[0].file.name

    def maintain() -> None:
        Roller(Log.open(url), tail_rows=1).run()
        Vacuum(Log.open(url), min_age_s=0).run()
        assert received(url) == [b"one", b"two"]
        assert left not in data_of(tmp_path / "a") | data_of(tmp_path / "log") or step == FINISHING

    move(url, tmp_path / "a", progress=until(step, maintain))
    assert received(url) == [b"one", b"two"]
    Vacuum(Log.open(url), min_age_s=0).run()
    assert data_of(tmp_path / "a") == data_files(url)
    assert data_of(tmp_path / "log") == set()
    assert verify(url, print).is_sound


def test_verify_that_began_before_the_move(url: str, tmp_path: Path, monkeypatch) -> None:
    from spark_eos.maintenance.verify import verify as module

    class Late(module.DataCheck):
        def check(self, state) -> None:
            move(url, tmp_path / "a")
            super().check(state)

    monkeypatch.setattr(module, "DataCheck", Late)
    assert verify(url, print).is_sound


@pytest.mark.parametrize("step", [COPYING, FINISHING, DELETING])
def test_copies_of_a_log_that_is_being_moved(step: str, url: str, tmp_path: Path) -> None:
    with pytest.raises(StopError):
        move(url, tmp_path / "a", progress=until(step))
    send(url, b"three")
    copy_log(url, tmp_path / "copy", print)
    copy_log(url, tmp_path / "copy2", print, destination_settings=place(tmp_path, "a2"))
    move(url, tmp_path / "a")
    for made in ("copy", "copy2", "log"):
        goes_on(str(tmp_path / made))


def goes_on(url: str) -> None:
    """No move is under way in this log, and it has all that was written."""
    assert Log.open(url).state.data_before is None
    assert received(url) == [b"one", b"two", b"three"]
    send(url, b"four")
    assert verify(url, print).is_sound


@needs("backup")
@pytest.mark.parametrize("step", [COPYING, FINISHING, DELETING])
def test_backups_of_a_log_that_is_being_moved(step: str, url: str, tmp_path: Path) -> None:
    from spark_eos.extensions.backup.backing_up import backup_log
    from spark_eos.extensions.backup.restoring import restore_log

    with pytest.raises(StopError):
        move(url, tmp_path / "a", progress=until(step))
    send(url, b"three")
    backup_log(url, str(tmp_path / "backups"))
    restore_log(str(tmp_path / "backups"), tmp_path / "restored")
    move(url, tmp_path / "a")
    for made in ("restored", "log"):
        goes_on(str(tmp_path / made))


@pytest.mark.parametrize("step", [COPYING, "data files", FINISHING, DELETING])
def test_a_second_mover_at_each_step(step: str, url: str, tmp_path: Path) -> None:
    """It ends the move; the first one goes on from there, and so does one that was stopped."""
    move(url, tmp_path / "a", progress=until(step, lambda: move(url, tmp_path / "a")))
    assert received(url) == [b"one", b"two"]
    with pytest.raises(StopError):
        move(url, tmp_path / "b", progress=until(step))
    move(url, tmp_path / "b")
    assert received(url) == [b"one", b"two"]
    assert data_of(tmp_path / "a") == data_of(tmp_path / "log") == set()


@pytest.mark.parametrize("step", [COPYING, "data files", FINISHING, DELETING])
def test_a_mover_that_slept_over_two_more_moves_harms_nothing(step: str, url: str, tmp_path: Path) -> None:
    """Its place was left since; the data is in the store of the entries again, as it was when the mover began."""

    def sleep() -> None:
        move(url, tmp_path / "a")
        send(url, b"three")
        move(url)
        with pytest.raises(ConfigError, match="had the data files of a log before"):
            move(url, tmp_path / "a")

    moved = move(url, tmp_path / "a", progress=until(step, sleep))
    log = Log.open(url)
    assert log.data_location.startswith(f"{url}/_data/")
    assert moved.location == log.data_location
    assert received(url) == [b"one", b"two", b"three"]
    assert verify(url, print).is_sound


class Slow(WrappedStore):
    """A process's store. Before its first deletion is done, something else happens."""

    def __init__(self, inner: Store, meanwhile: Callable[[], object]) -> None:
        super().__init__(inner)
        self.meanwhile: list[Callable[[], object]] = [meanwhile]

    def _call(self, operation: str, name: str, effect: Callable[[], T]) -> T:
        if operation == "delete" and self.meanwhile and not name.startswith(PROBES):
            self.meanwhile.pop()()
        return effect()


def test_a_deletion_that_was_under_way_over_two_more_moves_deletes_nothing_in_use(
    url: str, tmp_path: Path
) -> None:
    """By name alone it would: the file is in the store of the entries again."""

    def sleep() -> None:
        move(url, tmp_path / "a")
        move(url)

    store = Slow(PosixStore(url), sleep)
    move(store, tmp_path / "a")
    assert store.meanwhile == []
    assert received(url) == [b"one", b"two"]
    assert verify(url, print).is_sound


# -- Refused ------------------------------------------------------------------------------------------------------


def test_another_place_while_a_move_is_under_way_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(StopError):
        move(url, tmp_path / "a", progress=until(COPYING))
    for other in (tmp_path / "b", ""):
        with pytest.raises(ConfigError, match=r"being moved to .*/a since entry .*: end that move first"):
            move(url, other)
    log = Log.open(url)
    topics = (("t", log.topic("t").topic_id),)
    with pytest.raises(InvalidRequestError, match="being moved"):
        log.commit(lambda _: (CreatePublication("p", "delta", (), topics),))
    move(url, tmp_path / "a")
    move(url)


def test_a_place_that_is_not_free_is_refused_before_anything_is_written(url: str, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "holiday.jpg").write_bytes(b"")
    Log.create(tmp_path / "other", settings=place(tmp_path, "of-other"))
    before = Log.open(url).state.seq
    for to, error, text in (
        ("full", NotALogError, r"holiday\.jpg"),
        ("log/inner", ConfigError, "lie in one another"),
        ("", ConfigError, "lie in one another"),
        ("of-other", ConfigError, "another log"),
    ):
        with pytest.raises(error, match=text):
            move(url, tmp_path / to)
    assert Log.open(url).state.seq == before
    assert names(tmp_path / "full") == {"holiday.jpg"}


def test_a_log_that_lies_among_the_data_files_stays_at_the_old_place(url: str, tmp_path: Path) -> None:
    inner = str(tmp_path / "log" / "data" / "inner")
    Admin(inner).create_topic("t")
    send(inner, b"of the other")
    send(url, b"three")
    move(url, tmp_path / "a")
    assert received(inner) == [b"of the other"]
    assert received(url) == [b"one", b"two", b"three"]


def test_tables_that_share_the_files_are_refused_and_copied_ones_are_not(url: str, tmp_path: Path) -> None:
    log = Log.open(url)
    topics = (("t", log.topic("t").topic_id),)
    log.commit(lambda _: (CreatePublication("shared", "delta", (), topics),))
    with pytest.raises(InvalidRequestError, match=r"publication 'shared' share them.*eoslog tables drop"):
        move(url, tmp_path / "a")
    assert not (tmp_path / "a").exists()
    log.commit(lambda _: (DropPublication("shared"),))
    config = (("mode", "copied"), ("location", str(tmp_path / "tables")))
    log.commit(lambda _: (CreatePublication("copied", "delta", config, topics),))
    move(url, tmp_path / "a")
    assert received(url) == [b"one", b"two"]


def test_a_chain_that_was_copied_by_hand_deletes_nothing_of_the_original(url: str, tmp_path: Path) -> None:
    """Whether it was copied before the original was moved, or in the middle."""
    move(url, tmp_path / "a")
    shutil.copytree(url, tmp_path / "by-hand")
    with pytest.raises(ConfigError, match="another copy of this one"):
        move(str(tmp_path / "by-hand"), tmp_path / "b")
    with pytest.raises(StopError):
        move(url, tmp_path / "c", progress=until(FINISHING))
    shutil.copytree(url, tmp_path / "in-between")
    with pytest.raises(ConfigError, match="another copy of this one"):
        move(str(tmp_path / "in-between"), tmp_path / "c")
    assert received(url) == [b"one", b"two"]
    move(url, tmp_path / "c")
    assert received(url) == [b"one", b"two"]


# -- Stores ---------------------------------------------------------------------------------------------------------


def test_large_files_are_moved_in_parts(url: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("spark_eos.maintenance.moving.mover._PART", 100)
    assert move(url, tmp_path / "a").bytes > 1000
    assert received(url) == [b"one", b"two"]
    assert verify(url, print).is_sound


def test_readers_and_writers_have_their_time(url: str, tmp_path: Path) -> None:
    """The mover waits by the clock of its handle: first for writers, then for readers."""
    Admin(url).alter_topic("t", config={"file.delete.delay.ms": 5000})
    slept: list[float] = []

    class Clock:
        def __getattr__(self, name: str) -> object:
            from spark_eos.log.clock import SYSTEM

            return getattr(SYSTEM, name)

        def monotonic(self) -> float:
            return sum(slept)

        def sleep(self, seconds: float) -> None:
            slept.append(seconds)

    told: list[str] = []
    log = Log.open(url, Clock())  # type: ignore[arg-type]
    DataMover(log, str(tmp_path / "a"), min_age_s=7, progress=lambda what, *_: told.append(what)).run()
    assert 11.5 < sum(slept) < 12.5
    steps = list(dict.fromkeys(told))
    assert [step.split(",")[0] for step in steps if step.startswith("waiting")] == [
        "waiting until writers have committed what they staged at the old place",
        "waiting until running readers have finished",
    ]


def test_a_damaged_log_is_not_moved(url: str, tmp_path: Path) -> None:
    name = min(data_of(tmp_path / "log"))
    (tmp_path / "log" / name).unlink()
    with pytest.raises(CorruptRecordError, match="damaged: run eoslog verify"):
        move(url, tmp_path / "a")
    assert len(data_of(tmp_path / "log")) == 1, "nothing is deleted"


def test_a_consumer_that_is_open_all_the_time(url: str, tmp_path: Path) -> None:
    with Consumer(url, {"group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert [one.value for one in consumer.poll(10_000)] == [b"one", b"two"]
        for to in (tmp_path / "a", ""):
            move(url, to)
            send(url, b"more")
            assert [one.value for one in consumer.poll(10_000)] == [b"more"]


@pytest.mark.parametrize("close", [False, True])
def test_a_log_whose_data_is_moved_while_it_is_copied(close: bool, url: str, tmp_path: Path) -> None:
    def go_on() -> None:
        move(url, tmp_path / "a")
        send(url, b"three")

    class Moving(WrappedStore):
        def _call(self, operation: str, name: str, effect: Callable[[], T]) -> T:
            if operation == "read" and name.startswith("data/") and not (tmp_path / "a").exists():
                go_on()
            return effect()

    progress = until("data files", go_on) if close else None
    source = PosixStore(url) if close else Moving(PosixStore(url))
    copy_log(source, str(tmp_path / "copy"), print, close=close, progress=progress)
    assert received(str(tmp_path / "copy")) == [b"one", b"two", b"three"]


def test_another_file_at_the_new_place_is_named(url: str, tmp_path: Path) -> None:
    with pytest.raises(StopError):
        move(url, tmp_path / "a", progress=until(COPYING))
    name = min(data_of(tmp_path / "log"))
    PosixStore(tmp_path / "a").create(name, b"other bytes")
    with pytest.raises(
        CorruptRecordError, match=f"{name} has 11 bytes, .* another program has written there"
    ):
        move(url, tmp_path / "a")
    assert received(url) == [b"one", b"two"]
