"""How old an object is, by the store's own clock: not by this machine's, and not by a time that was set by hand."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from spark_eos.errors import StorePermissionError
from spark_eos.storage import PosixStore, Settings, open_store
from verification.object_server import ObjectServer, serving


def test_a_files_times_that_anybody_can_set_do_not_count(store):
    store.create("a", b"1")
    os.utime(Path(store.root, "a"), (1, 1))
    assert store.age_s("a") < 3600


@pytest.fixture
def clock(store, monkeypatch):
    """The clock of the file system: how many seconds later than the others a temporary file is made."""
    stat, later_s = os.stat, [0.0]

    def seen(path, **how):
        found = stat(path, **how)
        if Path(path).parent.name != "_tmp":
            return found
        made_ns = stat(Path(store.root, "a")).st_ctime_ns
        return type("Status", (), {"st_ctime_ns": made_ns + int(later_s[0] * 1e9)})

    store.create("a", b"1")
    monkeypatch.setattr(os, "stat", seen)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    return later_s


def test_the_clock_of_the_file_system_counts(store, clock):
    """Rounded down by the second that times may be rounded by."""
    clock[0] = 3600
    assert store.age_s("a") == pytest.approx(3599)


def test_a_clock_that_went_back_makes_nothing_older(store, clock):
    clock[0] = -3600
    assert store.age_s("a") == 0


def test_a_file_that_was_linked_long_after_it_was_written_is_as_old_as_its_name(store, tmp_path):
    """Who slept between writing and linking has begun nothing before."""
    source = tmp_path / "written"
    source.write_bytes(b"1")
    os.utime(source, (1, 1))
    store.create("other", b"")
    Path(store.root, "a").hardlink_to(source)
    source.unlink()
    assert store.age_s("a") < 3600


def test_a_folder_that_may_not_be_written_to(store, monkeypatch):
    store.create("a", b"1")
    opened = os.open

    def refused(
        path, flags, *args, **kwargs
    ):  # To root, too, whom a folder's mode does not keep from anything.
        if flags & os.O_CREAT:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return opened(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(StorePermissionError):
        PosixStore(store.root).age_s("a")


@pytest.fixture
def server():
    with serving(ObjectServer({"bucket": {}})) as running:
        running.now = 1_800_000_000.0
        running.clock = lambda: running.now
        yield running


@pytest.fixture
def bucket(server):
    settings = {"gcs.service.host": server.address, "gcs.oauth2.token": "a-token"}
    return open_store("gs://bucket/log", Settings(settings))


def test_last_modified_of_two_objects_counts(server, bucket):
    server.now += 0.9
    bucket.create("a", b"1")
    server.now += 60.2  # It says whole seconds: 61 of them.
    assert bucket.age_s("a") == 60
    assert bucket.age_s("a") <= 60.2, "never older than it is"
    server.now -= 3600
    assert bucket.age_s("a") == 0


def test_a_probe_that_was_sent_twice_tells_as_much(server, bucket):
    bucket.create("a", b"1")
    server.loses = "create"
    assert bucket.now_ms() == server.now * 1000
    assert server.count("create", "log/_probe/*") == 2
    assert [*server.buckets["bucket"]] == ["log/a"]


def test_the_probe_is_deleted_also_if_it_tells_nothing(server, bucket):
    bucket.create("a", b"1")
    assert bucket.age_s("a") == 0
    assert [*server.buckets["bucket"]] == ["log/a"]
    server.refuse("size", 403, "AccessDenied", key="log/_probe/*")
    with pytest.raises(StorePermissionError):
        bucket.age_s("a")
    assert [*server.buckets["bucket"]] == ["log/a"]
    server.heal()
    server.refuse("create", 403, "AccessDenied")
    with pytest.raises(StorePermissionError):
        bucket.age_s("a")
