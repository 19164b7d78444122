"""Power cuts after every call, and every call that fails: what returned is there, the rest whole or absent."""
# ruff: noqa: PTH102, PTH103, PTH104, PTH105, PTH106, PTH107  (the functions of `os` are what is recorded)

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_eos.config.isolation import Isolation
from spark_eos.errors import (
    CommitOutcomeUnknownError,
    EosLogError,
    IllegalStateError,
    NotALogError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StorageError,
    StoreFullError,
    StorePermissionError,
    StoreUnavailableError,
)
from spark_eos.log.clock import Retry
from spark_eos.log.data.planner import plan
from spark_eos.log.log import Log
from spark_eos.protocol.actions import AppendBatches, CreateTopic
from spark_eos.protocol.types import NO_PRODUCER, TopicPartition
from spark_eos.storage import PosixStore
from spark_eos.storage.posix import direct_io, files, folders
from spark_eos.storage.posix import store as posix_store
from tests.log.fakes import FakeClock
from tests.tiers import is_quick
from verification.disk import Disk, PowerCut

PLACE = "above/log"
"""The store's root under the disk's: two folders have to be made durable, too."""


# -- A store, cut after every call ----------------------------------------------------------------------

BODIES = {
    "a": b"first",
    "deep/er/b": bytes(range(256)) * 8,
    "deep/c": b"",
    "deep/u": bytes(range(255, -1, -1)) * 9,
    "deep/v": bytes(range(255, -1, -1)) * 11,
}


def write_objects(disk: Disk, store: PosixStore) -> None:
    """Objects in several folders, each noted when it is acknowledged; one is created again, one replaced."""
    for name in ("a", "deep/er/b", "deep/c"):
        store.create(name, BODIES[name])
        disk.note(name)
    for name, write_behind in ("deep/u", False), ("deep/v", True):
        with store.upload(name, write_behind=write_behind) as file:
            file.write(BODIES[name][:1000])
            file.write(BODIES[name][1000:])
        disk.note(name)
    with suppress(ObjectExistsError):
        store.create("a", b"second")
    for _ in range(2):  # the second time it shares the inode of the first
        store.overwrite("deep/c", b"")
        store.overwrite("a", b"")
        disk.note("retired")


def problems_of_objects(cut: PowerCut, store: PosixStore) -> list[str]:
    """What is wrong with the objects after a power cut; nothing, if the store keeps its word."""
    found = []
    for name, body in BODIES.items():
        try:
            data = store.read(name).to_pybytes()
        except ObjectNotFoundError:
            if name in cut.notes:
                found.append(f"{name} is lost")
            continue
        whole = {body, b""} if name == "a" else {body}
        if "retired" in cut.notes:
            whole = {b""} if name in {"a", "deep/c"} else {body}
        if data not in whole:
            found.append(f"{name} is torn or not its own: {len(data)} bytes")
    found += [info.name for info in store.list("") if info.name not in BODIES]
    return found


def problems(
    disk: Disk, folder: Path, check: Callable[[PowerCut, PosixStore], list[str]], place: str = PLACE
) -> list[str]:
    """What is wrong after any of the disk's power cuts, with the call that was the last one."""
    found = []
    for cut in disk.cuts:
        shutil.rmtree(folder, ignore_errors=True)
        cut.write(folder)
        found += [f"cut {cut.step} after {cut.call}: {it}" for it in check(cut, PosixStore(folder / place))]
    return found


@pytest.fixture(autouse=True)
def _no_real_sync() -> Iterator[None]:
    """What is durable is the model's business; the disk below takes its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uploads have several: those that are written behind are by another thread."""
    monkeypatch.setattr(direct_io, "PIECE_BYTES", 1000)
    monkeypatch.setattr(direct_io, "_spare", [])


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: thousands of small files are written."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "disk")


def record(disk: Disk, store_class: type[PosixStore] = PosixStore) -> None:
    with disk.recording():
        write_objects(disk, store_class(Path(disk.root, PLACE)))


def test_what_was_created_survives_every_power_cut(disk: Disk, tmp_path: Path) -> None:
    record(disk)
    assert len(disk.cuts) > 100
    assert {call for call, _ in disk.calls} >= {
        "open",
        "write",
        "fsync",
        "link",
        "unlink",
        "mkdir",
        "rename",
        "dup",
    }
    assert problems(disk, tmp_path / "after", problems_of_objects) == []


# -- Stores that break the promise: the harness must see each ------------------------------------------


class WritesInPlace(PosixStore):
    """Shows a half-written file under its name."""

    def create(self, name: str, data: Any) -> None:
        path = self._path(name)
        with self._folders.folder_of(path) as folder:
            try:
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            except FileExistsError:
                raise ObjectExistsError(path) from None
            os.write(file, bytes(data))
            os.fsync(file)
            os.close(file)
            os.fsync(folder)


class LinksBeforeItSyncs(PosixStore):
    def _publish(self, temp: Any, path: str) -> None:
        with self._folders.folder_of(path) as folder:
            self._link(temp, path, folder)
            temp.seal()
            files.sync(folder)


class SyncsTheFolderFirst(PosixStore):
    def _publish(self, temp: Any, path: str) -> None:
        temp.seal()
        with self._folders.folder_of(path) as folder:
            files.sync(folder)
            self._link(temp, path, folder)


def without_sync_of_files(patch: pytest.MonkeyPatch) -> type[PosixStore]:
    patch.setattr(files.TemporaryFile, "seal", files.TemporaryFile.close)
    return PosixStore


def without_sync_of_the_link(patch: pytest.MonkeyPatch) -> type[PosixStore]:
    patch.setattr(posix_store, "sync", lambda _: None)
    return PosixStore


def without_sync_of_made_folders(patch: pytest.MonkeyPatch) -> type[PosixStore]:
    patch.setattr(folders, "sync_folder", lambda _: None)
    return PosixStore


def without_sync_above_the_root(patch: pytest.MonkeyPatch) -> type[PosixStore]:
    patch.setattr(folders, "make_root", lambda root: os.makedirs(root, exist_ok=True))
    return PosixStore


@pytest.mark.parametrize(
    ("broken", "symptom"),
    [
        (without_sync_of_files, "torn"),
        (without_sync_of_the_link, "is lost"),
        (without_sync_of_made_folders, "is lost"),
        (without_sync_above_the_root, "is lost"),
        (lambda _: LinksBeforeItSyncs, "torn"),
        (lambda _: SyncsTheFolderFirst, "is lost"),
        (lambda _: WritesInPlace, "torn"),
    ],
    ids=["no file", "no link", "no folders", "no root", "link first", "folder first", "in place"],
)
def test_a_store_that_breaks_its_word_is_found_out(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: Any, symptom: str
) -> None:
    record(disk, broken(monkeypatch))
    monkeypatch.undo()
    assert any(symptom in it for it in problems(disk, tmp_path / "after", problems_of_objects))


# -- Two stores on one folder ---------------------------------------------------------------------------


def link_but_do_not_sync(disk: Disk, theirs: PosixStore, name: str) -> None:
    """What a process leaves that is killed between its link and the sync of the folder."""
    disk.fail(errno.EIO, call="fsync", path="*/_log")
    with pytest.raises(OutcomeUnknownError):
        theirs.create(name, b"theirs")


def two_stores(disk: Disk) -> tuple[PosixStore, PosixStore]:
    """Stores that have used the folder before, so that nothing but their own links is left to sync."""
    ours, theirs = (PosixStore(Path(disk.root, PLACE)) for _ in range(2))
    ours.create("_log/0", b"0")
    theirs.create("_log/other", b"")
    return ours, theirs


def lost(disk: Disk, tmp_path: Path, name: str) -> bool:
    """Whether ``name`` is missing after any power cut of the notes that say it must be there."""

    def check(_: PowerCut, store: PosixStore) -> list[str]:
        try:
            store.read(name)
        except ObjectNotFoundError:
            return ["lost"]
        return []

    disk.cuts = [cut for cut in disk.cuts if name in cut.notes]
    assert disk.cuts
    return problems(disk, tmp_path / "after", check) != []


def test_who_meets_an_object_makes_it_durable_before_saying_so(disk: Disk, tmp_path: Path) -> None:
    with disk.recording():
        ours, theirs = two_stores(disk)
        link_but_do_not_sync(disk, theirs, "_log/1")
        with pytest.raises(ObjectExistsError):
            ours.create("_log/1", b"ours")
        disk.note("_log/1")
    assert not lost(disk, tmp_path, "_log/1")


def test_a_refusal_that_cannot_be_made_durable_is_no_answer(disk: Disk) -> None:
    with disk.recording():
        ours, theirs = two_stores(disk)
        link_but_do_not_sync(disk, theirs, "_log/1")
        disk.fail(errno.EIO, call="fsync", path="*/_log")
        with pytest.raises(OutcomeUnknownError):
            ours.create("_log/1", b"ours")
        with pytest.raises(ObjectExistsError):
            ours.create("_log/1", b"ours")


def test_the_next_create_makes_the_one_before_durable(disk: Disk, tmp_path: Path) -> None:
    with disk.recording():
        ours, theirs = two_stores(disk)
        link_but_do_not_sync(disk, theirs, "_log/1")
        ours.create("_log/2", b"ours")
        disk.note("_log/1")
    assert not lost(disk, tmp_path, "_log/1")


@pytest.mark.parametrize(
    "read",
    [lambda store: store.read("_log/1"), lambda store: store.size("_log/1")],
    ids=["read", "size"],
)
def test_an_object_in_doubt_is_made_durable_before_it_is_read(
    disk: Disk, tmp_path: Path, read: Callable[[PosixStore], object]
) -> None:
    with disk.recording():
        store, _ = two_stores(disk)
        link_but_do_not_sync(disk, store, "_log/1")
        disk.fail(errno.EIO, call="fsync", path="*/_log")
        with pytest.raises(StoreUnavailableError):
            read(store)
        read(store)
        disk.note("_log/1")
    assert not lost(disk, tmp_path, "_log/1")


def test_an_interrupted_sync_leaves_a_doubt_too(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with disk.recording():
        store, _ = two_stores(disk)
        with monkeypatch.context() as patch:
            patch.setattr(posix_store, "sync", interrupt)
            with pytest.raises(KeyboardInterrupt):
                store.create("_log/1", b"1")
        store.read("_log/1")
        disk.note("_log/1")
    assert not lost(disk, tmp_path, "_log/1")


def test_a_folder_above_that_is_not_ours_need_not_be_synced(disk: Disk) -> None:
    disk.fail(errno.EACCES, call="open", path=".")
    with disk.recording():
        os.mkdir(Path(disk.root, "above"))  # pathlib of Python 3.10 has functions of os of its own.
        PosixStore(Path(disk.root, PLACE)).create("a", b"1")


def test_a_folder_above_that_cannot_be_synced_is_no_base(disk: Disk) -> None:
    with disk.recording():
        os.mkdir(Path(disk.root, "above"))  # somebody else did, and was killed
        disk.fail(errno.EIO, call="fsync", path=".")
        with pytest.raises(StoreUnavailableError):
            PosixStore(Path(disk.root, PLACE)).create("a", b"1")


def test_a_doubt_is_settled_by_one_sync(disk: Disk) -> None:
    with disk.recording():
        store, _ = two_stores(disk)
        link_but_do_not_sync(disk, store, "_log/1")
        before = len(disk.calls)
        store.read("_log/1")
        store.read("_log/1")
        assert [call for call, _ in disk.calls[before:]].count("fsync") == 1


# -- Every call of a create fails, in every way ---------------------------------------------------------

CODES = [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ESTALE]

CERTAIN = {
    errno.ENOSPC: StoreFullError,
    errno.EDQUOT: StoreFullError,
    errno.EROFS: StorePermissionError,
    errno.EIO: StoreUnavailableError,
    errno.ESTALE: StoreUnavailableError,
}
"""What each errno means where the object is certainly not there."""


def write_one(store: PosixStore, how: str) -> None:
    body = BODIES["deep/u"]
    if how == "create":
        store.create("deep/u", body)
    else:
        with store.upload("deep/u", write_behind=how == "write behind") as file:
            file.write(body[:700])
            file.write(body[700:])


@pytest.mark.deep("write behind-False-False", "write behind-False-True", "write behind-True-False")
@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("how", ["create", "upload", "write behind"])
def test_every_call_fails_with_every_errno(tmp_path: Path, how: str, *, done: bool, settled: bool) -> None:
    outcomes = set()
    for number in range(60):
        codes = CODES[:2] if done else CODES
        for code in (codes[0], codes[1 + number % (len(codes) - 1)]) if is_quick() else codes:
            where = tmp_path / f"{number}-{code}"
            disk = Disk(where, samples=1)
            with disk.recording():
                store = PosixStore(Path(disk.root, PLACE))
                if settled:
                    store.create("deep/first", b"")
                first = len(disk.calls)
                disk.fail(code, at=first + number, done=done)
                error = attempt(lambda store=store: write_one(store, how))
                failed = len(disk.calls) > first + number
                check_answer(disk, store, error, code)
                if error is None:
                    disk.note("deep/u")
                disk.heal()
                again = attempt(lambda store=store: write_one(store, how))
                assert (again is None) == (not isinstance(again, ObjectExistsError))
                if again is not None and not isinstance(again, ObjectExistsError):
                    raise again
                disk.note("deep/u")
            assert store.read("deep/u").to_pybytes() == BODIES["deep/u"]
            assert [*Path(disk.root, PLACE, "_tmp").iterdir()] == [] or (
                disk.calls[first + number][0] in {"unlink", "open"}
            )
            assert not lost(disk, tmp_path, "deep/u"), (disk.calls[first + number], code)
            outcomes.add(type(error))
            shutil.rmtree(where)
        if not failed:
            break
    assert not failed
    assert outcomes >= {StoreFullError, StoreUnavailableError, OutcomeUnknownError, type(None)}


def attempt(call: Callable[[], object]) -> EosLogError | None:
    try:
        call()
    except EosLogError as error:
        return error
    return None


def check_answer(disk: Disk, store: PosixStore, error: EosLogError | None, code: int) -> None:
    """An error that says "not there" is right, and one that says whose fault it is, too."""
    there = Path(store.root, "deep/u").exists()
    if error is None:
        assert there
    elif isinstance(error, ObjectExistsError):
        assert there  # The link was done and reported as taken: the bytes say whose it is.
    elif not isinstance(error, OutcomeUnknownError):
        assert not there
        assert type(error) is CERTAIN[code], disk.calls[-1]
        assert os.strerror(code) in str(error)
    if error is not None:
        assert store.root in str(error)


# -- A log, cut after every call ------------------------------------------------------------------------


def append(log: Log, number: int, request_id: bytes | None = None, files: Any = None) -> Any:
    """One commit with a row in each of two partitions; ``number`` is the value of both."""
    topic = log.topic("t")
    if files is None:
        with log.stage(topic) as writer:
            writer.append(pa.table({"value": [b"%d" % number] * 2}), np.array([0, 1], np.int32))
            files = writer.finish()
    action = AppendBatches(NO_PRODUCER, ((topic.name, topic.topic_id),), files)
    try:
        log.commit(lambda _: (action,), request_id=request_id)
    except CommitOutcomeUnknownError as error:
        return error.request_id, files
    return None


def rows(log: Log) -> list[list[int]]:
    """The values in each partition of the topic; reading checks CRCs."""
    if "t" not in log.state.topics:
        return [[], []]
    topic = log.topic("t")
    found = []
    for number in range(2):
        at = TopicPartition("t", number)
        end = log.state.partitions[topic.topic_id, number].end
        fetches = plan(log.state, at, 0, end, Isolation.READ_COMMITTED)
        found.append(
            [int(value) for fetch in fetches for value in log.read(topic, fetch).column("value").to_pylist()]
        )
    return found


def open_log(store: PosixStore) -> Log:
    return Log.open_or_create(store, clock=FakeClock(), retry=Retry(deadline_s=0))


def make_log(disk: Disk) -> Log:
    log = open_log(PosixStore(Path(disk.root, PLACE)))
    disk.note("log")
    log.commit(lambda _: (CreateTopic("t", "id", 2),))
    disk.note("topic")
    return log


def problems_of_log(cut: PowerCut, store: PosixStore) -> list[str]:
    """The log opens; commits are there in order, those that were acknowledged all, each in both partitions."""
    try:
        log = Log.open(store, clock=FakeClock())
    except NotALogError:
        return ["the log is lost"] if "log" in cut.notes else []
    if "t" not in log.state.topics:
        return ["the topic is lost"] if "topic" in cut.notes else []
    first, second = rows(log)
    acknowledged = [note for note in cut.notes if isinstance(note, int)]
    found = []
    if first != second:
        found.append(f"half of a commit: {first} and {second}")
    if sorted(set(first)) != first or not {*first} >= {*acknowledged}:
        found.append(f"{first} is there, {acknowledged} was acknowledged")
    if cut.step % 4:
        return found
    log.clock.unique = lambda: uuid.uuid4().bytes  # type: ignore[method-assign]  # names of its own
    append(log, 99)
    if rows(Log.open(store)) != [[*first, 99]] * 2:
        found.append("it cannot be written on")
    return found


def test_a_log_survives_every_power_cut(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "disk", samples=int(os.environ.get("SPARK_EOS_FUZZ_EXAMPLES", "0")) or 2)
    with disk.recording():
        log = make_log(disk)
        for number in range(3):
            append(log, number)
            disk.note(number)
    assert problems(disk, tmp_path / "after", problems_of_log) == []


@pytest.mark.deep("without_sync_of_files")
@pytest.mark.parametrize("broken", [without_sync_of_files, without_sync_of_the_link])
def test_a_log_on_a_store_that_breaks_its_word_is_found_out(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: Any
) -> None:
    broken(monkeypatch)
    with disk.recording():
        log = make_log(disk)
        append(log, 0)
        disk.note(0)
    monkeypatch.undo()

    def check(cut: PowerCut, store: PosixStore) -> list[str]:
        try:
            return problems_of_log(cut, store)
        except StorageError as error:
            return [repr(error)]

    assert problems(disk, tmp_path / "after", check) != []


@pytest.mark.deep("False")
@pytest.mark.parametrize("done", [False, True])
def test_a_commit_in_doubt_is_answered_only_when_it_is_durable(tmp_path: Path, *, done: bool) -> None:
    in_doubt = 0
    for number in range(60):
        disk = Disk(tmp_path / f"disk{number}", samples=1)
        with disk.recording():
            log = make_log(disk)
            first = len(disk.calls)
            disk.fail(errno.EIO, at=first + number, done=done)
            doubt = None
            with suppress(StorageError, StoreUnavailableError, OutcomeUnknownError):
                doubt = append(log, 0)
                if doubt is None:
                    disk.note(0)
            failed = len(disk.calls) > first + number
            disk.heal()
            if doubt is not None:
                in_doubt += 1
                assert append(log, 0, *doubt) is None
                disk.note(0)
        disk.cuts = [cut for cut in disk.cuts if 0 in cut.notes]
        assert problems(disk, tmp_path / "after", problems_of_log) == [], disk.calls[first + number]
        shutil.rmtree(disk.root)
        if not failed:
            break
    assert not failed
    assert in_doubt


def test_that_nothing_is_left_to_do_is_answered_only_when_that_is_durable(tmp_path: Path) -> None:
    """A writer dies between link and sync; the next one finds the work done, and is believed."""
    disk = Disk(tmp_path / "disk", samples=1)
    with disk.recording():
        ours = make_log(disk)
        theirs = open_log(PosixStore(Path(disk.root, PLACE)))
        append(ours, 0)
        theirs.follow()
        disk.cuts.clear()
        disk.fail(errno.EIO, call="fsync", path="*/_log")
        assert append(ours, 1) is not None
        theirs.follow()
        theirs.commit(lambda state: () if state.seq == ours.state.seq + 1 else (CreateTopic("no", "no", 1),))
        assert "no" not in theirs.state.topics
        disk.note(0), disk.note(1)
    assert problems(disk, tmp_path / "after", problems_of_log) == []


def test_what_was_built_on_a_lost_entry_is_whole_or_absent(tmp_path: Path) -> None:
    """A disk may keep the later of two names and lose the earlier: no entry is put after one that is not durable."""
    disk = Disk(tmp_path / "disk", samples=1 if is_quick() else 2)
    with disk.recording():
        ours = make_log(disk)
        theirs = open_log(PosixStore(Path(disk.root, PLACE)))
        append(theirs, 0)
        append(ours, 1)
        disk.note(0), disk.note(1)
        disk.cuts.clear()
        disk.fail(errno.EIO, call="fsync", path="*/_log")
        assert append(ours, 2) is not None  # killed between link and sync
        theirs.follow()
        append(theirs, 3)
        disk.note(2), disk.note(3)
    for cut in disk.cuts:
        folder = tmp_path / "after"
        shutil.rmtree(folder, ignore_errors=True)
        cut.write(folder)
        store = PosixStore(folder / PLACE)
        before, other = rows(Log.open(store))
        assert before == other
        acknowledged = {note for note in cut.notes if isinstance(note, int)}
        assert {*before} >= acknowledged
        assert before in ([0, 1], [0, 1, 2], [0, 1, 2, 3])
        log = open_log(store)
        log.clock.unique = lambda: uuid.uuid4().bytes  # type: ignore[method-assign]
        append(log, 99)
        append(log, 100)
        after, other = rows(Log.open(store))
        assert after == other
        assert after == [*before, 99, 100]  # Nothing turns up late.


# -- The disk itself ------------------------------------------------------------------------------------


def contents(disk: Disk) -> list[dict[str, bytes]]:
    return [dict(cut.files) for cut in disk.cuts]


def put(path: Path, *pieces: bytes, sync: bool) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    for piece in pieces:
        os.write(file, piece)
    if sync:
        os.fsync(file)
    os.close(file)


def test_what_is_on_the_disk_before_is_durable(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").write_bytes(b"old")
    disk = Disk(tmp_path)
    disk.note("start")
    assert [(cut.notes, cut.folders, cut.files) for cut in disk.cuts] == [
        (("start",), ("d",), {"d/f": b"old"})
    ]


def test_a_file_that_is_not_synced_may_be_torn_in_every_way(tmp_path: Path) -> None:
    disk = Disk(tmp_path, samples=2000)
    with disk.recording():
        put(tmp_path / "f", b"12", b"3", sync=False)
    found = {cut.files.get("f") for cut in disk.cuts}
    assert found == {
        None,
        b"",
        b"\0\0",
        b"1",
        b"12",
        b"123",
        b"\0\0\0",
        b"\0\0" + b"3",
        b"1\0",
        b"1\0" + b"3",
    }


def test_a_synced_file_may_still_lose_its_name(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    with disk.recording():
        put(tmp_path / "f", b"12", sync=True)
        disk.note("synced")
        folder = os.open(tmp_path, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        disk.note("durable")
    assert {cut.files.get("f") for cut in disk.cuts if "synced" in cut.notes} == {None, b"12"}
    assert {cut.files.get("f") for cut in disk.cuts if "durable" in cut.notes} == {b"12"}


def test_names_survive_in_any_order(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    with disk.recording():
        for name in "ab":
            put(tmp_path / name, b"", sync=True)
    assert {frozenset(cut.files) for cut in disk.cuts} == {frozenset(it) for it in ("", "a", "b", "ab")}


def test_a_rename_may_leave_both_names_or_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"2")
    disk = Disk(tmp_path, samples=20)
    with disk.recording():
        os.rename(tmp_path / "a", tmp_path / "b")
    one, two = b"1", b"2"
    assert sorted(map(sorted, (set(cut.files.values()) for cut in disk.cuts))) == [
        [one],
        [one],
        [one, two],
        [two],
    ]


def test_cut_and_replaced_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    disk = Disk(tmp_path)
    with disk.recording():
        os.truncate(tmp_path / "a", 3)
        file = os.open(tmp_path / "a", os.O_RDWR | os.O_APPEND)
        os.write(file, b"x")
        os.ftruncate(file, 2)
        os.fdatasync(file)
        os.close(file)
        os.replace(tmp_path / "a", tmp_path / "b")
        os.mkdir(tmp_path / "d")
        os.rmdir(tmp_path / "d")
        os.remove(tmp_path / "b")
    assert {b"12345", b"123", b"123x", b"12"} <= {data for cut in disk.cuts for data in cut.files.values()}
    assert {} in contents(disk)


def test_a_change_that_was_not_seen_is_an_error(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    with pytest.raises(IllegalStateError, match="/f was changed past"), disk.recording():
        (tmp_path / "f").write_bytes(b"written in C")


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "in")
    disk.fail(errno.EIO, times=None)
    with disk.recording():
        put(tmp_path / "out", b"1", sync=True)
        os.mkdir(tmp_path / "d")
    assert disk.calls == []
    assert os.open.__module__ != Disk.__module__  # the functions of `os` are back


def test_one_recording_at_a_time(disk: Disk) -> None:
    with disk.recording(), pytest.raises(IllegalStateError), disk.recording():
        pass
