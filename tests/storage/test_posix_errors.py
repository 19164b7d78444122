"""`PosixStore` when the system says no: what each errno means, and that nothing is left behind."""
# ruff: noqa: PT012  (an upload is more than one statement)

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from spark_eos.errors import (
    EosLogError,
    InvalidRequestError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreFullError,
    StorePermissionError,
    StoreUnavailableError,
    UnsupportedStoreError,
)
from spark_eos.storage import PosixStore
from tests.storage.test_posix import create, fail, files, overwrite, upload

# -- Errors ---------------------------------------------------------------------------------------------

TRANSLATIONS = [
    ("write", errno.ENOSPC, StoreFullError),
    ("write", errno.EDQUOT, StoreFullError),
    ("write", errno.EFBIG, StoreFullError),
    ("write", errno.EIO, StoreUnavailableError),
    ("fsync", errno.ENOSPC, StoreFullError),
    ("fsync", errno.EDQUOT, StoreFullError),
    ("fsync", errno.EIO, StoreUnavailableError),
    ("fsync", errno.EINVAL, UnsupportedStoreError),
    ("mkdir", errno.ENOSPC, StoreFullError),
    ("mkdir", errno.EROFS, StorePermissionError),
    ("mkdir", errno.EACCES, StorePermissionError),
    ("mkdir", errno.EPERM, StorePermissionError),
    ("open", errno.ENOSPC, StoreFullError),
    ("open", errno.EROFS, StorePermissionError),
    ("open", errno.EACCES, StorePermissionError),
    ("open", errno.EMFILE, StoreUnavailableError),
    ("open", errno.ESTALE, StoreUnavailableError),
    ("link", errno.ENOSPC, StoreFullError),
    ("link", errno.EDQUOT, StoreFullError),
    ("link", errno.EROFS, StorePermissionError),
    ("link", errno.EACCES, StorePermissionError),
    ("link", errno.EPERM, UnsupportedStoreError),
    ("link", errno.ENOTSUP, UnsupportedStoreError),
    ("link", errno.ENOSYS, UnsupportedStoreError),
    ("link", errno.EXDEV, UnsupportedStoreError),
    ("link", errno.ENOENT, StoreUnavailableError),
    ("link", errno.ENAMETOOLONG, InvalidRequestError),
    ("link", errno.ELOOP, InvalidRequestError),
]


@pytest.mark.parametrize("write", [create, upload])
@pytest.mark.parametrize(
    ("call", "code", "expected"),
    TRANSLATIONS,
    ids=lambda v: errno.errorcode[v] if isinstance(v, int) else None,
)
def test_each_error_has_its_meaning_and_leaves_nothing(
    store: PosixStore,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    code: int,
    expected: type[EosLogError],
    write: Callable[..., None],
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail(code))
        with pytest.raises(expected) as caught:
            write(store, "a/b", b"1")
    assert type(caught.value) is expected
    message = str(caught.value)
    assert store.root in message
    assert os.strerror(code) in message
    assert files(store) == []
    write(store, "a/b", b"2")
    assert store.read("a/b").to_pybytes() == b"2"


@pytest.mark.parametrize(
    ("call", "code", "expected"),
    [
        ("rename", errno.EIO, OutcomeUnknownError),
        ("rename", errno.ENOSPC, StoreFullError),
        ("rename", errno.EROFS, StorePermissionError),
        ("write", errno.ENOSPC, StoreFullError),
    ],
)
def test_errors_of_overwrite(
    store: PosixStore, monkeypatch: pytest.MonkeyPatch, call: str, code: int, expected: type[EosLogError]
) -> None:
    store.create("a", b"1")
    monkeypatch.setattr(os, call, fail(code))
    with pytest.raises(expected):
        store.overwrite("a", b"2")
    assert store.read("a").to_pybytes() == b"1"
    assert files(store) == ["a"]


def test_errors_of_reads_and_deletes(store: PosixStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.create("a", b"1")
    cases: list[tuple[str, int, type[EosLogError], Callable[[], object]]] = [
        ("open", errno.EACCES, StorePermissionError, lambda: store.read("a")),
        ("preadv", errno.EIO, StoreUnavailableError, lambda: store.read("a")),
        ("stat", errno.EACCES, StorePermissionError, lambda: store.size("a")),
        ("scandir", errno.EIO, StoreUnavailableError, lambda: [*store.list("")]),
        ("scandir", errno.EACCES, StorePermissionError, lambda: [*store.list("")]),
        ("unlink", errno.EROFS, StorePermissionError, lambda: store.delete("a")),
        ("unlink", errno.EIO, OutcomeUnknownError, lambda: store.delete("a")),
    ]
    for call, code, expected, ask in cases:
        with monkeypatch.context() as patch:
            patch.setattr(os, call, fail(code))
            with pytest.raises(expected, match=store.root):
                ask()
    assert store.read("a").to_pybytes() == b"1"


def test_who_only_looks_is_asked_for_no_right_to_write(
    store: PosixStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create("a", b"1")
    asks: list[tuple[str, Callable[[], object], str]] = [
        ("open", lambda: store.read("a"), "the right to read and search there"),
        ("scandir", lambda: [*store.list("")], "the right to read and search there"),
        ("stat", lambda: store.size("a"), "the right to read and search there"),
        ("unlink", lambda: store.delete("a"), "the right to read, write and search there"),
    ]
    for call, ask, right in asks:
        with monkeypatch.context() as patch:
            patch.setattr(os, call, fail(errno.EACCES))
            with pytest.raises(StorePermissionError, match=right):
                ask()


def test_a_swallowed_write_error_still_stops_the_upload(
    store: PosixStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreFullError), store.upload("a") as file:
        file.write(bytes(2 << 20))
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", fail(errno.ENOSPC))
            with suppress(EosLogError):
                file.write(bytes(2 << 20))
        with suppress(EosLogError):
            file.write(bytes(2 << 20))
    assert files(store) == []


def test_a_name_cannot_be_file_and_folder(store: PosixStore) -> None:
    store.create("file", b"1")
    store.create("folder/a", b"1")
    for write in (create, upload, overwrite):
        for name in ("file/below", "folder"):
            with pytest.raises(
                InvalidRequestError, match=f"{store.root}/{name.partition('/')[0]}: .*file and a folder"
            ):
                write(store, name, b"2")
    assert files(store) == ["file", "folder/a"]


def test_a_root_that_is_a_file(tmp_path: Path) -> None:
    root = tmp_path / "file"
    root.write_bytes(b"not a folder")
    store = PosixStore(root)
    with pytest.raises(InvalidRequestError):
        store.create("a", b"1")
    with pytest.raises(ObjectNotFoundError):
        store.read("a")
    assert [*store.list("")] == []


# -- Short writes and reads -----------------------------------------------------------------------------


@pytest.mark.parametrize("write", [create, upload, overwrite])
def test_short_writes(store: PosixStore, monkeypatch: pytest.MonkeyPatch, write: Callable[..., None]) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:7]))
    data = bytes(range(256)) * 4
    write(store, "a", data)
    assert store.read("a").to_pybytes() == data


def test_a_write_of_nothing_is_an_error_and_no_endless_loop(
    store: PosixStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda *_: 0)
        with pytest.raises(StoreUnavailableError):
            store.create("a", b"1")
    assert files(store) == []


def test_short_reads(store: PosixStore, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(range(256)) * 4
    store.create("a", data)
    real = os.preadv
    monkeypatch.setattr(os, "preadv", lambda file, views, offset: real(file, [views[0][:7]], offset))
    assert store.read("a").to_pybytes() == data
    assert store.read("a", 100, 50).to_pybytes() == data[100:150]


def test_a_file_that_ends_early_gives_what_is_there(
    store: PosixStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create("a", b"0123456789")
    real = os.preadv

    def truncate_first(file: int, views: Any, offset: int) -> int:
        os.truncate(Path(store.root, "a"), 4)
        return real(file, views, offset)

    monkeypatch.setattr(os, "preadv", truncate_first)
    assert store.read("a", 1).to_pybytes() == b"123"


# -- Full, read-only and forbidden for real -------------------------------------------------------------


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    folder.mkdir()
    try:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("needs the mount command")
    if done.returncode:
        pytest.skip(f"needs the right to mount a tmpfs: {done.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("write", [create, upload])
def test_a_full_file_system(tmp_path: Path, write: Callable[..., None]) -> None:
    with mounted(tmp_path / "tiny", "size=256k"):
        store = PosixStore(tmp_path / "tiny")
        store.create("a", bytes(100_000))
        with pytest.raises(StoreFullError, match="No space left"):
            write(store, "b", bytes(300_000))
        assert files(store) == ["a"]
        write(store, "b", bytes(100_000))


def test_a_file_system_without_inodes(tmp_path: Path) -> None:
    with mounted(tmp_path / "tiny", "nr_inodes=6"):
        store = PosixStore(tmp_path / "tiny")
        with pytest.raises(StoreFullError):
            for i in range(6):
                store.create(f"{i}", b"1")
        left = len([*store.list("")])
        assert 0 < left < 6
        assert len(files(store)) == left


def test_a_read_only_file_system(tmp_path: Path) -> None:
    root = tmp_path / "read only"
    with mounted(root, "size=256k"):
        PosixStore(root).create("a", b"1")
        subprocess.run(["mount", "-o", "remount,ro", root], check=True)
        store = PosixStore(root)
        changes: list[Callable[[], None]] = [
            lambda: store.create("b", b"1"),
            lambda: upload(store, "b", b"1"),
            lambda: store.overwrite("a", b""),
            lambda: store.delete("a"),
        ]
        for change in changes:
            with pytest.raises(StorePermissionError, match="writable"):
                change()
        assert store.read("a").to_pybytes() == b"1"
        assert [info.name for info in store.list("")] == ["a"]


def test_a_file_size_limit(store: PosixStore) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))  # Python ignores the signal that goes with it
    try:
        with pytest.raises(StoreFullError):
            store.create("a", bytes(20_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files(store) == []


def test_objects_have_the_mode_that_the_umask_leaves(store: PosixStore) -> None:
    before = os.umask(0o027)
    try:
        store.create("a", b"1")
    finally:
        os.umask(before)
    assert Path(store.root, "a").stat().st_mode & 0o777 == 0o640
