"""`PosixStore`: the contract, and what only a folder does: links, syncs, folders made and removed."""
# ruff: noqa: PT012  (an upload is more than one statement)

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_eos.errors import (
    ObjectExistsError,
    OutcomeUnknownError,
    StoreUnavailableError,
)
from spark_eos.storage import PosixStore, Store
from spark_eos.storage.posix import files as posix_files
from spark_eos.storage.posix import store as posix_store
from spark_eos.testing.store_contract import StoreContract
from tests.forking import forked_elsewhere
from tests.storage.retiring import KILLED, retire_beside_others


class TestPosixStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return PosixStore(tmp_path / "made" / "on demand")


def files(store: PosixStore) -> list[str]:
    """All files under the root, temporary ones too, relative to it."""
    return sorted(str(p.relative_to(store.root)) for p in Path(store.root).rglob("*") if not p.is_dir())


def at(store: PosixStore, name: str) -> Path:
    return Path(store.root, name)


def upload(store: Store, name: str, data: bytes) -> None:
    with store.upload(name) as file:
        file.write(data)


def create(store: Store, name: str, data: bytes) -> None:
    store.create(name, data)


def overwrite(store: Store, name: str, data: bytes) -> None:
    store.overwrite(name, data)


def fail(code: int) -> Callable[..., Any]:
    def failing(*_: object, **__: object) -> Any:
        raise OSError(code, os.strerror(code))

    return failing


class System:
    """Records syncs, links and renames as ``(call, path below the root)``; fails syncs of a folder."""

    def __init__(self, store: PosixStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, str]] = []
        self.failing_folder: str | None = None
        self._root = store.root
        self._fsync, self._link, self._rename = os.fsync, os.link, os.rename
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(os, "link", self.link)
        monkeypatch.setattr(os, "rename", self.rename)

    def _path(self, path: str) -> str:
        relative = os.path.relpath(path, self._root)
        return "_tmp/*" if relative.startswith("_tmp/") else relative

    def fsync(self, descriptor: int) -> None:
        path = self._path(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        self.calls.append(("sync", path))
        if path == self.failing_folder:
            raise OSError(errno.EIO, "injected")
        self._fsync(descriptor)

    def link(self, source: str, target: str, *, dst_dir_fd: int | None = None) -> None:
        self.calls.append(("link", target))
        self._link(source, target, dst_dir_fd=dst_dir_fd)

    def rename(self, source: str, target: str, *, dst_dir_fd: int | None = None) -> None:
        self.calls.append(("rename", target))
        self._rename(source, target, dst_dir_fd=dst_dir_fd)


@pytest.fixture
def system(store: PosixStore, monkeypatch: pytest.MonkeyPatch) -> System:
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs /proc to tell which file a descriptor is")
    return System(store, monkeypatch)


# -- Durability -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [create, upload])
def test_data_then_link_then_folder(store: PosixStore, system: System, write: Callable[..., None]) -> None:
    write(store, "a/b/first", b"1")
    system.calls.clear()
    write(store, "a/b/c", b"1")
    assert system.calls == [("sync", "_tmp/*"), ("link", "c"), ("sync", "a/b")]


def test_folders_are_durable_before_anything_is_linked_into_them(store: PosixStore, system: System) -> None:
    store.create("a/b/c", b"1")
    before = system.calls[: system.calls.index(("link", "c"))]
    for folder in ("..", ".", "a", "a/b"):
        assert ("sync", folder) in before
    # A new name in a folder is synced after it was made: parents last synced after children appeared.
    assert before.index(("sync", ".")) < before.index(("sync", "a")) < before.index(("sync", "a/b"))
    assert system.calls[-1] == ("sync", "a/b")


def test_a_new_folder_is_synced_into_a_parent_that_was_synced_before(
    store: PosixStore, system: System
) -> None:
    store.create("first/a", b"1")
    system.calls.clear()
    store.create("second/a", b"1")
    before = system.calls[: system.calls.index(("link", "a"))]
    assert {("sync", "."), ("sync", "second")} <= set(before)


def test_folders_made_by_others_are_synced_too(store: PosixStore, system: System) -> None:
    at(store, "a/b").mkdir(parents=True)
    store.create("a/b/c", b"1")
    before = system.calls[: system.calls.index(("link", "c"))]
    assert {("sync", folder) for folder in ("..", ".", "a", "a/b")} <= set(before)


def test_all_missing_folders_above_the_root_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PosixStore(tmp_path / "x" / "y" / "log")
    system = System(store, monkeypatch)
    store.create("a", b"1")
    assert {("sync", folder) for folder in ("../../..", "../..", "..", ".")} <= set(system.calls)


@pytest.mark.parametrize(
    "code", [errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP]
)
def test_a_folder_above_the_root_that_cannot_be_synced_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Such as the one in which a disk is mounted: nothing was made in it."""
    store, sync_folder = PosixStore(tmp_path), posix_files.sync_folder

    def sync(folder: str) -> None:
        if folder == str(tmp_path.parent):
            raise OSError(code, os.strerror(code))
        sync_folder(folder)

    monkeypatch.setattr(posix_files, "sync_folder", sync)
    store.create("a", b"1")
    assert store.read("a") == b"1"


def test_overwrite_syncs_data_then_folder(store: PosixStore, system: System) -> None:
    store.create("a/b", b"1")
    system.calls.clear()
    store.overwrite("a/b", b"2")
    assert system.calls == [("sync", "_tmp/*"), ("rename", "b"), ("sync", "a")]


def test_a_failed_folder_sync_leaves_the_outcome_unknown(store: PosixStore, system: System) -> None:
    store.create("a/first", b"1")
    system.failing_folder = "a"
    with pytest.raises(OutcomeUnknownError, match="a/b"):
        store.create("a/b", b"1")
    with pytest.raises(StoreUnavailableError, match="sync"):  # it could vanish again after it was read
        store.read("a/b")
    for look in (store.size, store.identity, store.age_s):
        with pytest.raises(StoreUnavailableError, match="sync"):
            look("a/b")
    assert at(store, "a/b").read_bytes() == b"1"
    # While the folder cannot be synced nobody may hear that the object is there ...
    with pytest.raises(StoreUnavailableError):
        store.create("a/b", b"1")
    system.failing_folder = None
    system.calls.clear()
    with pytest.raises(ObjectExistsError):
        store.create("a/b", b"1")
    # ... and the answer comes after a sync.
    assert system.calls.index(("sync", "a")) < system.calls.index(("link", "b"))
    assert files(store) == ["a/b", "a/first"]


def test_a_folder_that_cannot_be_synced_at_first_gets_no_object(store: PosixStore, system: System) -> None:
    system.failing_folder = "a"
    with pytest.raises(StoreUnavailableError):
        store.create("a/b", b"1")
    assert files(store) == []


def test_a_failed_folder_sync_of_overwrite(store: PosixStore, system: System) -> None:
    store.create("a/b", b"1")
    system.failing_folder = "a"
    with pytest.raises(OutcomeUnknownError):
        store.overwrite("a/b", b"2")


def test_a_drive_cache_is_flushed_where_fsync_does_not(
    store: PosixStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda _, command: flushed.append(command))
    store.create("a", b"1")
    flushed.clear()
    store.create("b", b"1")
    assert flushed == [51, 51]


# -- Links in doubt -------------------------------------------------------------------------------------


def link_then_fail(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    real = os.link

    def link(source: str, target: str, *, dst_dir_fd: int | None = None) -> None:
        real(source, target, dst_dir_fd=dst_dir_fd)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", link)


@pytest.mark.parametrize("write", [create, upload])
@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EEXIST])
def test_the_link_count_proves_a_link_whose_reply_was_bad(
    store: PosixStore, system: System, monkeypatch: pytest.MonkeyPatch, code: int, write: Callable[..., None]
) -> None:
    store.create("a/first", b"1")
    system.calls.clear()
    link_then_fail(monkeypatch, code)
    write(store, "a/b", b"1")
    assert store.read("a/b").to_pybytes() == b"1"
    assert system.calls[-1] == ("sync", "a")
    assert files(store) == ["a/b", "a/first"]


@pytest.mark.parametrize("write", [create, upload])
@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_the_link_count_disproves_a_link(
    store: PosixStore, monkeypatch: pytest.MonkeyPatch, code: int, write: Callable[..., None]
) -> None:
    requests: list[str] = []

    def link(source: str, *_: object, **__: object) -> None:
        requests.append(source)
        fail(code)()

    real = os.link
    monkeypatch.setattr(os, "link", link)
    with pytest.raises(StoreUnavailableError, match="a/b"):
        write(store, "a/b", b"1")
    assert files(store) == []
    # The request, should it still be under way, has nothing left to link.
    with pytest.raises(FileNotFoundError):
        real(requests[0], at(store, "a/b"))


def test_a_link_in_doubt_to_a_name_that_another_took(
    store: PosixStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create("a/b", b"theirs")
    monkeypatch.setattr(os, "link", fail(errno.EIO))
    with pytest.raises(ObjectExistsError):
        store.create("a/b", b"ours")
    assert store.read("a/b").to_pybytes() == b"theirs"


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE])
def test_a_link_that_lands_while_it_is_in_doubt(
    store: PosixStore, system: System, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    late: list[Callable[[], None]] = []
    real = os.link

    def link(source: str, target: str, *, dst_dir_fd: int) -> None:
        late.append(lambda: real(source, target, dst_dir_fd=dst_dir_fd))
        fail(code)()

    def count_then_land(path: str) -> int:
        links = Path(path).stat().st_nlink
        late.pop()()
        return links

    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(posix_store, "link_count", count_then_land)
    with pytest.raises(ObjectExistsError):  # and the caller finds its own bytes
        store.create("a/b", b"ours")
    assert store.read("a/b").to_pybytes() == b"ours"
    assert system.calls[-2:] == [("link", "b"), ("sync", "a")]
    assert files(store) == ["a/b"]


def test_a_link_in_doubt_that_cannot_be_withdrawn(
    store: PosixStore, system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create("a/first", b"1")
    requests: list[str] = []

    def link(source: str, *_: object, **__: object) -> None:
        requests.append(source)
        fail(errno.EIO)()

    real = os.link
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", link)
        patch.setattr(os, "unlink", fail(errno.EIO))
        with pytest.raises(OutcomeUnknownError, match="Repeat the same call"):
            store.create("a/b", b"1")
    real(requests[0], str(at(store, "a/b")))  # it lands late
    system.calls.clear()
    with pytest.raises(ObjectExistsError):
        store.create("a/b", b"1")
    assert system.calls.index(("sync", "a")) < system.calls.index(("link", "b"))  # no answer before a sync


# -- Folders and leftovers ------------------------------------------------------------------------------


def test_a_tree_that_was_removed_is_made_again(store: PosixStore) -> None:
    store.create("a/b", b"1")
    for gone in ("", "a", "_tmp"):
        shutil.rmtree(at(store, gone))
        for write in (create, upload, overwrite):
            write(store, f"a/{gone}{write.__name__}", b"1")
            assert store.size(f"a/{gone}{write.__name__}") == 1


def test_a_tree_that_another_store_has_made_again(store: PosixStore) -> None:
    """What this store knows of its folders is of the tree that was removed."""
    for write in (create, upload, overwrite):
        store.create(f"a/{write.__name__}/b", b"1")
        shutil.rmtree(store.root)
        PosixStore(store.root).create("x", b"1")
        write(store, f"a/new/{write.__name__}", b"1")
        assert store.size(f"a/new/{write.__name__}") == 1


def test_list_passes_over_what_is_no_object(store: PosixStore) -> None:
    store.create("a/b", b"1")
    root = Path(store.root)
    (root / "loop").symlink_to(root)
    (root / "dangling").symlink_to(root / "nowhere")
    (root / "linked").symlink_to(root / "a" / "b")
    os.mkfifo(root / "pipe")
    (root / "empty folder").mkdir()
    Path(os.fsdecode(os.fsencode(root) + b"/\xff")).write_bytes(b"no Unicode")
    assert [info.name for info in store.list("")] == ["a/b"]


def test_list_while_objects_go(store: PosixStore) -> None:
    for i in range(10):
        store.create(f"{i}/x", b"1")
    listing = store.list("")
    first = next(listing)
    for i in range(10):
        shutil.rmtree(at(store, f"{i}"))
    assert first.name in {f"{i}/x" for i in range(10)}
    assert [*listing] == []


def test_leftovers_are_discarded_by_age(store: PosixStore) -> None:
    assert store.discard_leftovers(0) == 0
    store.create("retired", b"1")
    for _ in range(2):
        store.retire("retired")
    temp = Path(store.root, "_tmp")
    for name in ("old", "young"):
        (temp / name).write_bytes(b"half")
    yesterday = time.time() - 86_400
    os.utime(temp / "old", (yesterday, yesterday))
    os.utime(temp / "empty", (yesterday, yesterday))
    (temp / "group-channel-of-yesterday").mkdir()
    os.utime(temp / "group-channel-of-yesterday", (yesterday, yesterday))
    assert (temp / "empty-twin").samefile(temp / "empty")
    assert store.discard_leftovers(3600) == 1
    left = ["empty", "empty-twin", "group-channel-of-yesterday", "young"]
    assert sorted(path.name for path in temp.iterdir()) == left
    assert store.size("retired") == 0


def test_a_writer_whose_temporary_file_is_taken_away_has_created_nothing(store: PosixStore) -> None:
    with pytest.raises(StoreUnavailableError), store.upload("a") as file:
        file.write(b"slow")
        assert store.discard_leftovers(-60) == 1
    assert files(store) == []


def test_retired_objects_share_an_inode(store: PosixStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def inode(name: str) -> int:
        return at(store, name).stat().st_ino

    for name in "abcd":
        store.create(name, b"entry")
    for name in "ab":
        store.retire(name)
    assert inode("a") == inode("b") == inode("_tmp/empty")

    real = os.link

    def link(source: str, target: str) -> None:
        if at(store, "a").samefile(source):
            fail(errno.EMLINK)()
        real(source, target)

    monkeypatch.setattr(os, "link", link)  # the inode has as many names as it may have
    for name in "cd":
        store.retire(name)
    assert inode("c") == inode("d") == inode("_tmp/empty") != inode("a")
    assert files(store) == ["_tmp/empty", *"abcd"]
    assert {info.size for info in store.list("")} == {0}


def test_many_processes_that_retire_one_object_leave_no_name_each(store: PosixStore) -> None:
    """A rename of one name of a file to another one of it does nothing, and both stay."""
    for name in "ab":
        store.create(name, b"entry")
    for _ in range(5):
        PosixStore(store.root).retire("a")
    assert files(store) == ["_tmp/empty", "_tmp/empty-twin", *"ab"]
    store.retire("b")
    assert files(store) == ["_tmp/empty", *"ab"]
    assert {info.size for info in store.list("")} == {0}


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("others", ["a", "b", "ab"])
@pytest.mark.parametrize("step", range(3))
def test_who_retires_beside_others_or_is_killed_leaves_no_name(
    store: PosixStore, step: int, others: str, killed: bool
) -> None:
    """Others retire the same object, another one, or both, right before each step of it; then it may be killed."""
    for name in "abc":
        store.create(name, b"entry")
    store.retire("c")
    # In another process: a thread that runs on in this one makes such calls as well.
    status = forked_elsewhere(retire_beside_others, str(store.root), step, others, killed)
    assert status in ([KILLED] if killed else range(3, KILLED))
    for name in "ab":
        store.retire(name)
    assert {*files(store)} - {"_tmp/empty-twin"} == {"_tmp/empty", *"abc"}
    assert {info.size for info in store.list("")} == {0}


@pytest.mark.parametrize("below", ["", "logs/orders"])
def test_a_root_behind_a_link_to_nowhere_is_refused_by_name(tmp_path: Path, below: str) -> None:
    """No folder can be made there; where the link leads may be a disk that is not mounted."""
    link, target = tmp_path / "link", tmp_path / "target"
    link.symlink_to(target)
    with pytest.raises(StoreUnavailableError, match=rf"{link} is a link to {target}, which is not there"):
        PosixStore(link / below).create("name", b"x")
    target.mkdir()
    PosixStore(link / below).create("name", b"x")
