"""Large uploads of clients: another thread writes one piece while the next one is filled."""
# ruff: noqa: PT012  (an upload is more than one statement)

from __future__ import annotations

import errno
import itertools
import os
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from spark_eos import Consumer, Producer, TopicPartition
from spark_eos.errors import StoreFullError, StoreUnavailableError
from spark_eos.log.log import Log
from spark_eos.storage.posix import direct_io, files
from spark_eos.storage.posix.store import PosixStore
from tests.tiers import is_quick

PIECE = 64 << 10
"""As large as it must be for `UploadFile` to hand on what it is given at once."""

BODY = os.urandom(7 * PIECE + 5)


def writers():
    return [thread for thread in threading.enumerate() if thread.name == "eoslog-upload"]


def open_files(folder):
    """Paths in ``folder`` that this process has open; other threads of the test process may have others."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # Closed since it was listed.
            found.append(descriptor.readlink())
    return [path for path in found if path.is_relative_to(folder)]


class Writes:
    """What ``os.write`` does in the threads that write behind: waits, or fails, before it writes."""

    def __init__(self, real):
        self._real = real
        self.reached, self.go = threading.Event(), threading.Event()
        self.go.set()
        self.code = None

    def __call__(self, descriptor, view):
        if threading.current_thread() in writers():
            self.reached.set()
            assert self.go.wait(60)
            if self.code is not None:
                raise OSError(self.code, os.strerror(self.code))
        return self._real(descriptor, view)

    def hold(self):
        self.go.clear()
        self.reached.clear()


@pytest.fixture
def writes(monkeypatch):
    made = Writes(os.write)
    monkeypatch.setattr(files.os, "write", made)
    monkeypatch.setattr(direct_io, "PIECE_BYTES", PIECE)
    monkeypatch.setattr(direct_io, "_spare", [])  # Pieces of another size.
    yield made
    made.go.set()


@pytest.fixture
def store(tmp_path):
    made = PosixStore(tmp_path)
    made.create("first", b"")  # Its folders are there.
    return made


def write(file, body=BODY):
    for start in range(0, len(body), PIECE):
        file.write(body[start : start + PIECE])


def test_one_piece_is_written_while_the_next_one_is_filled(store, writes):
    writes.hold()
    with store.upload("a", write_behind=True) as file:
        file.write(BODY[:PIECE])
        assert writes.reached.wait(60)
        # The disk has not taken the first one, and this does not wait for it.
        file.write(BODY[PIECE : 2 * PIECE - 1])
        writes.go.set()
        file.write(BODY[2 * PIECE - 1 :])
    assert bytes(store.read("a")) == BODY


def test_without_it_nobody_else_writes(store, writes):
    with store.upload("a") as file:
        write(file)
    assert not writes.reached.is_set()


def test_what_is_less_than_a_piece_needs_no_thread(store, writes):
    with store.upload("a", write_behind=True) as file:
        file.write(BODY[: PIECE - 1])
        assert writers() == []
    assert not writes.reached.is_set()


@pytest.mark.parametrize("size", [PIECE, 2 * PIECE, 3 * PIECE, 3 * PIECE + 1])
def test_after_the_end_nothing_is_left(store, writes, size):
    before = open_files(store.root)
    with store.upload("a", write_behind=True) as file:
        write(file, BODY[:size])
    assert bytes(store.read("a")) == BODY[:size]
    assert writers() == []
    assert open_files(store.root) == before
    assert len(direct_io._spare) == 2
    assert writes.reached.is_set()


@pytest.mark.parametrize("pieces", [1, 2, 3, 7])
def test_an_error_of_the_thread_is_that_of_the_upload(store, writes, pieces):
    """Whether a write finds it or the end."""
    before = open_files(store.root)
    writes.code = errno.ENOSPC
    with pytest.raises(StoreFullError, match="cannot write"), store.upload("a", write_behind=True) as file:
        write(file, BODY[: pieces * PIECE])
    assert [found.name for found in store.list("")] == ["first"]
    assert writers() == []
    assert open_files(store.root) == before
    assert direct_io._spare == []


def test_an_error_is_told_before_more_is_taken(store, writes):
    writes.code = errno.ENOSPC
    taken = 0
    with suppress(StoreFullError), store.upload("a", write_behind=True) as file:
        for _ in range(100):
            file.write(BODY[:PIECE])
            taken += 1
    assert taken == 1


def test_a_system_without_threads_for_us(store, writes, monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    before = open_files(store.root)
    with store.upload("a", write_behind=True) as file:
        write(file)
    assert bytes(store.read("a")) == BODY
    assert open_files(store.root) == before
    assert not writes.reached.is_set()


@pytest.mark.usefixtures("writes")
def test_an_upload_that_is_discarded_waits_for_its_thread(store):
    before = open_files(store.root)
    with pytest.raises(KeyboardInterrupt), store.upload("a", write_behind=True) as file:
        write(file)
        raise KeyboardInterrupt
    assert writers() == []
    assert open_files(store.root) == before


@pytest.mark.parametrize("discarded", [True, False])
def test_an_error_that_only_a_close_tells(store, writes, monkeypatch, discarded):
    """As on NFS. It is the upload's if that comes to its end, and hides no other one."""
    real = os.close

    def close(descriptor):
        real(descriptor)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    raised = KeyboardInterrupt if discarded else StoreUnavailableError
    with pytest.raises(raised), store.upload("a", write_behind=True) as file:
        write(file)
        monkeypatch.setattr(files.os, "close", close)
        if discarded:
            raise KeyboardInterrupt
    monkeypatch.undo()
    assert writes.reached.is_set()
    assert writers() == []
    assert [found.name for found in store.list("")] == ["first"]


def test_bytes_of_a_discarded_upload_get_into_no_other(store, writes, monkeypatch):
    """Ctrl-C, and Ctrl-C again while it waits for its thread: the next file may get the same descriptor."""
    writes.hold()
    with (
        monkeypatch.context() as patch,
        pytest.raises(KeyboardInterrupt),
        store.upload("a", write_behind=True) as file,
    ):
        file.write(b"a" * PIECE)
        assert writes.reached.wait(60)
        (thread,) = writers()
        real = thread.join

        def interrupted(*_):
            raise KeyboardInterrupt

        patch.setattr(thread, "join", interrupted)
        raise KeyboardInterrupt
    with store.upload("b") as file:
        file.write(b"b" * PIECE)
        writes.go.set()
        real(60)
        file.write(b"b" * PIECE)
        assert direct_io._spare == []
    assert bytes(store.read("b")) == b"b" * 2 * PIECE


STORAGE = "/spark_eos/storage/"


class Interrupt:
    """Comes before the line number ``at`` of those that this thread runs in the storage.

    A line counts twice, and with ``--all`` as often as it is run.
    """

    def __init__(self, at):
        self.at, self.lines = at, 0
        self._times = Counter()
        self._most = 2 if is_quick() else sys.maxsize

    def __call__(self, frame, event, _arg):
        if STORAGE not in frame.f_code.co_filename:
            return None
        if event == "line":
            place = frame.f_code, frame.f_lineno
            self._times[place] += 1
            self.lines += self._times[place] <= self._most
            if self.lines == self.at:
                raise KeyboardInterrupt
        return self


@pytest.mark.usefixtures("writes")
def test_an_interrupt_at_any_line(store):
    """The upload is there as a whole, or not at all, and the next one is none the worse for it."""
    for at in itertools.count(1):
        before, interrupt = sys.gettrace(), Interrupt(at)
        name, other = f"a{at}", f"b{at}"
        sys.settrace(interrupt)
        try:
            with suppress(KeyboardInterrupt), store.upload(name, write_behind=True) as file:
                write(file)
        finally:
            sys.settrace(before)
        with store.upload(other, write_behind=True) as file:
            write(file, BODY[::-1])
        assert bytes(store.read(other)) == BODY[::-1]
        there = [found.name for found in store.list("") if found.name == name]
        assert [bytes(store.read(found)) for found in there] == [BODY for _ in there]
        if interrupt.lines < at:
            break
    assert there
    assert at > 100


def test_clients_write_behind(tmp_path, writes):
    """All that a transaction of several pieces has comes back, in order."""
    log = Log.create(str(tmp_path / "log"))
    log.ensure_topic("t")
    values = [os.urandom(1000) for _ in range(1000)]
    with Producer(log, {"transactional.id": "tx"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for value in values[:500]:
            producer.send("t", value)
        producer.send_arrow("t", pa.table({"value": values[500:]}))
        producer.commit_transaction()
    assert writes.reached.is_set()
    with Consumer(log, {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert [record.value for _ in range(2) for record in consumer.poll(0)] == values


def test_tasks_do_not(tmp_path, writes):
    """Spark's processes work while the task waits for the disk: a thread was slower (benchmarks/journal/speed.md)."""
    from spark_eos.log.data.task_io import TaskStorage

    log = Log.create(str(tmp_path / "log"))
    topic = log.ensure_topic("t")
    with TaskStorage(log.url, 1).writer(topic) as writer:
        writer.append(pa.table({"value": [os.urandom(10 * PIECE)]}), 0)
        writer.finish()
    assert not writes.reached.is_set()
