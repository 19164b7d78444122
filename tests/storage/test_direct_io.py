"""Large uploads go to the disk in whole pieces, past the cache where the file system can; the bytes are the same."""

from __future__ import annotations

import errno
import fcntl
import os

import pytest

from spark_eos.errors import StoreFullError
from spark_eos.storage.posix import direct_io, files
from spark_eos.storage.posix.store import PosixStore

PIECE = 8192
"""Two pages, so that tests are quick."""


@pytest.fixture
def writes(monkeypatch):
    """(bytes, directly?) of every ``os.write``, which a test may replace by another one."""
    seen = []
    real = os.write

    def write(descriptor, view):
        direct = bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT)
        seen.append((memoryview(view).nbytes, direct))
        return write.real(descriptor, view, direct)

    write.real = lambda descriptor, view, _: real(descriptor, view)
    monkeypatch.setattr(files.os, "write", write)
    monkeypatch.setattr(direct_io, "PIECE_BYTES", PIECE)
    monkeypatch.setattr(direct_io, "_spare", [])  # Pieces of another size.
    write.seen = seen
    return write


@pytest.fixture(params=[False, True], ids=["", "write_behind"])
def behind(request):
    """Whether another thread writes: the bytes are the same."""
    return request.param


def upload(store, *sizes, behind=False):
    body = os.urandom(sum(sizes))
    done = 0
    with store.upload("a", write_behind=behind) as file:
        for size in sizes:
            # More than UploadFile gathers: each goes on at once.
            file.write(body[done : done + size])
            done += size
    assert bytes(store.read("a")) == body
    return body


MB = 1 << 20


def test_whole_pieces_go_directly_and_the_rest_by_the_cache(tmp_path, writes, behind):
    upload(PosixStore(tmp_path), MB, MB + 5, behind=behind)
    # Where the folder cannot (tmpfs), the first try says so.
    sizes = [size for size, _ in writes.seen]
    directly = [direct for _, direct in writes.seen]
    assert sizes[-1] == 5
    assert set(sizes[:-1]) == {PIECE}
    assert sum(sizes) == 2 * MB + 5 or directly.count(True) == 1
    assert not directly[-1]


@pytest.mark.parametrize("size", [1, PIECE - 1])
def test_less_than_a_piece_stays_in_the_cache(tmp_path, writes, size):
    upload(PosixStore(tmp_path), size)
    assert writes.seen == [(size, False)]


@pytest.mark.usefixtures("writes")
def test_files_under_way_at_once_have_memory_of_their_own(tmp_path, behind):
    store = PosixStore(tmp_path)
    upload(store, 10)  # Leaves a piece behind.
    with store.upload("b", write_behind=behind) as one, store.upload("c", write_behind=behind) as other:
        one.write(b"b" * (MB + 5))
        other.write(b"c" * (MB + 5))
    assert bytes(store.read("b")) == b"b" * (MB + 5)
    assert bytes(store.read("c")) == b"c" * (MB + 5)
    assert len(direct_io._spare) == 2, "however many were under way"


def test_the_memory_of_a_file_that_failed_is_not_used_again(tmp_path, writes, behind):
    store = PosixStore(tmp_path)
    real = writes.real

    def full(*_):
        raise OSError(errno.ENOSPC, "full")

    writes.real = full
    with pytest.raises(StoreFullError), store.upload("b", write_behind=behind) as file:
        file.write(bytes(MB))
    writes.real = real
    assert direct_io._spare == []
    upload(store, 10)
    assert len(direct_io._spare) == 1


SIZE = 5_000_000


def test_a_forked_process_has_memory_of_its_own(nursery, tmp_path):
    """Spark's workers are forked, and a program with multiprocessing forks a process that has written before."""
    nursery.run("storage/forks_between_uploads", tmp_path, SIZE)
    store = PosixStore(tmp_path)
    assert bytes(store.read("ours")).count(b"p") == SIZE
    assert bytes(store.read("theirs")).count(b"c") == SIZE


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_without_direct_writes_is_asked_once(tmp_path, writes, code, behind):
    real = writes.real

    def refuse(descriptor, view, direct):
        if direct:
            raise OSError(code, "not here")
        return real(descriptor, view, direct)

    writes.real = refuse
    upload(PosixStore(tmp_path), MB + 3, behind=behind)
    assert [direct for _, direct in writes.seen].count(True) == 1


def test_after_a_short_direct_write_the_cache_takes_the_rest(tmp_path, writes, behind):
    real = writes.real
    writes.real = lambda descriptor, view, direct: (
        os.pwrite(descriptor, view[:4096], 0) and os.lseek(descriptor, 4096, os.SEEK_SET)
        if direct
        else real(descriptor, view, direct)
    )
    upload(PosixStore(tmp_path), MB + 3, behind=behind)
    assert [direct for _, direct in writes.seen].count(True) == 1
    assert writes.seen[1] == (PIECE - 4096, False)


def test_a_full_disk_creates_nothing(tmp_path, writes, behind):
    real = writes.real

    def full(descriptor, view, direct):
        if len(writes.seen) > 3:
            raise OSError(errno.ENOSPC, "full")
        return real(descriptor, view, direct)

    writes.real = full
    store = PosixStore(tmp_path)
    with pytest.raises(StoreFullError, match="write"), store.upload("a", write_behind=behind) as file:
        file.write(bytes(MB + 1))
    writes.real = real
    assert list(store.list("")) == []
    assert [*(tmp_path / "_tmp").iterdir()] == []


def test_a_full_disk_at_the_very_end_creates_nothing(tmp_path, writes, behind):
    real = writes.real

    def full(descriptor, view, direct):
        if len(view) == 7:
            raise OSError(errno.ENOSPC, "full")
        return real(descriptor, view, direct)

    writes.real = full
    store = PosixStore(tmp_path)
    with pytest.raises(StoreFullError, match="write"), store.upload("a", write_behind=behind) as file:
        file.write(bytes(MB + 7))
    writes.real = real
    assert list(store.list("")) == []
