"""What a store has in a forked process: a place to meet of its own, and nothing of the uploads of its parent."""

import os
import signal
import subprocess
import sys
import time

import pytest

from spark_eos.errors import IllegalStateError
from spark_eos.storage import forks
from spark_eos.storage.group_channel import FileGroupChannel
from spark_eos.storage.posix.store import PosixStore
from tests.forking import in_child
from tests.starting import start


def test_a_lead_ends_with_its_process_though_a_child_lives(tmp_path):
    """The lock belongs to the open file, which the child has, too, until it closes it."""
    leader = start("storage/leads_and_forks", tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child = int(leader.stdout.readline())
    other = FileGroupChannel(tmp_path)
    assert not other.try_lead()
    leader.stdin.write("\n")
    leader.stdin.flush()
    leader.wait(60)
    try:
        end = time.monotonic() + 60
        while not (led := other.try_lead()) and time.monotonic() < end:
            time.sleep(0.01)  # The child may just begin.
        os.kill(child, 0)
        assert led
    finally:
        os.kill(child, signal.SIGKILL)
        leader.stdin.close()
        leader.stdout.close()


def test_a_child_frees_nothing_and_takes_nothing_back(tmp_path):
    group_channel, other = FileGroupChannel(tmp_path), FileGroupChannel(tmp_path)
    assert group_channel.try_lead()
    assert group_channel.submit(b"request")

    def child():
        group_channel.release_lead()
        led = group_channel.try_lead()
        return (
            led,
            group_channel.withdraw(),
            group_channel.submit(b"of the child"),
            sorted(group_channel.submissions()),
        )

    assert in_child(child) == (False, True, True, [b"request"])
    assert not other.try_lead()
    assert sorted(other.submissions()) == [b"of the child", b"request"]
    group_channel.release_lead()
    assert other.try_lead()


@pytest.mark.parametrize("write_behind", [False, True])
def test_an_upload_is_its_processes_alone(tmp_path, write_behind):
    store = PosixStore(tmp_path)
    whole = os.urandom(9 << 20)
    upload = store.upload("data/a", write_behind=write_behind)
    file = upload.__enter__()
    file.write(whole[: 5 << 20])

    def child():
        nonlocal upload
        with pytest.raises(IllegalStateError, match="forked"):
            file.write(bytes(5 << 20))
        with pytest.raises(IllegalStateError, match="forked"):
            upload.__exit__(None, None, None)
        del upload
        store.create("data/b", b"own")

    assert in_child(child) is None
    file.write(whole[5 << 20 :])
    upload.__exit__(None, None, None)
    assert store.read("data/a").to_pybytes() == whole
    assert store.read("data/b").to_pybytes() == b"own"


def test_a_lock_is_free_in_a_child_also_of_the_thread_that_forked():
    lock = forks.Lock()
    with lock:
        assert in_child(lock.__enter__) is None

        def leave():
            lock.__exit__()
            with lock:
                return lock._lock.locked()

        assert in_child(leave)
    assert not lock._lock.locked()


def test_all_are_told_though_one_fails(monkeypatch):
    class Told:
        def __init__(self, fails):
            self.fails, self.times = fails, 0
            forks.tell_in_child(self)

        def forked(self):
            self.times += 1
            if self.fails:
                raise ValueError

    told = [Told(fails) for fails in (True, False, True)]
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    assert in_child(lambda: [one.times for one in told]) == [1, 1, 1]
    before = forks.generation()
    assert in_child(lambda: (forks.generation(), in_child(forks.generation))) == (before + 1, before + 2)
    assert forks.generation() == before
