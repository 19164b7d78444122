"""What a log can and cannot do in a Unity Catalog Volume: docs/guide/databricks.md."""
# ruff: noqa: PTH104, PTH105  (the calls of `os` are what is tested)

from __future__ import annotations

import errno
import os
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Log, Producer
from spark_eos.cli import main
from spark_eos.errors import UnsupportedStoreError
from spark_eos.spark.sink.checkpoint import Checkpoint
from spark_eos.storage import open_store
from spark_eos.storage.posix import oserrors
from tests.storage.volume import mounted

CODES = pytest.mark.parametrize(
    "code", [errno.ENOSYS, errno.EOPNOTSUPP], ids=lambda code: errno.errorcode[code]
)


@pytest.fixture
def volume(tmp_path, monkeypatch):
    """The folder of a Volume, whose name is recognised though it does not begin at the root."""
    folder = tmp_path / "Volumes" / "main" / "eos" / "files"
    folder.mkdir(parents=True)
    known = re.compile(re.escape(str(tmp_path)) + r"/Volumes/[^/]+/[^/]+/[^/]+")
    monkeypatch.setattr(oserrors, "DATABRICKS", known)
    return folder


def files(folder):
    return {path: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def in_volume(folder, values=range(20)):
    """A log that was copied into the Volume; nothing has it open."""
    elsewhere = folder.parents[4] / "elsewhere"
    with Producer(str(elsewhere)) as producer:
        for value in values:
            producer.send("t", str(value).encode())
    shutil.copytree(elsewhere, folder / "log")
    return str(folder / "log")


def test_the_mount_refuses_what_volumes_refuse(volume):
    (volume / "a").write_bytes(b"x")
    with mounted(volume) as refused:
        for call in (
            lambda: os.link(volume / "a", volume / "b"),
            lambda: os.rename(volume / "a", volume / "b"),
            lambda: os.replace(volume / "a", volume / "b"),
            lambda: os.open(volume / "a", os.O_WRONLY | os.O_APPEND),
            lambda: os.open(volume / "a", os.O_RDWR),
        ):
            with pytest.raises(OSError, match="not implemented"):
                call()
        descriptor = os.open(volume / "c", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with pytest.raises(OSError, match="not implemented"):
            os.pwrite(descriptor, b"x", 5)
        os.close(descriptor)
        assert refused == ["link", "rename", "replace", "open", "open", "pwrite"]
    assert sorted(path.name for path in volume.iterdir()) == ["a", "c"]


@CODES
@pytest.mark.parametrize(
    "write",
    [
        lambda url: Producer(url).send("t", b"x").result(timeout=60),
        lambda url: Admin(url).create_topic("t"),
        lambda url: Log.shared(url, create=True),
    ],
    ids=["producer", "admin", "log"],
)
def test_no_log_is_made_in_a_volume_and_the_error_says_where_instead(volume, code, write):
    url = str(volume / "log")
    with mounted(volume, code) as refused, pytest.raises(UnsupportedStoreError) as error:
        write(url)
    assert "link" in refused
    said = str(error.value)
    assert f"the Unity Catalog Volume {volume} has none" in said
    assert "give the log the URL of a bucket or container (s3://…, abfss://…, gs://…)" in said
    assert files(volume) == {}


def test_a_copy_of_a_log_in_a_volume_can_be_read(volume):
    url = in_volume(volume)
    with mounted(volume) as refused:
        with Consumer(url, {"auto.offset.reset": "earliest"}) as consumer:
            consumer.assign([("t", 0)])
            found = [int(record.value) for record in consumer.poll(timeout_ms=1000)]
        with Admin(url) as admin:
            assert admin.list_topics() == ["t"]
            assert admin.describe_topic("t").partitions[0].end == 20
        assert main(["verify", url]) == 0
    assert found == [*range(20)]
    assert refused == []


@CODES
@pytest.mark.parametrize(
    "write",
    [
        lambda url: Producer(url).send("t", b"x").result(timeout=60),
        lambda url: Admin(url).delete_topic("t"),
    ],
    ids=["producer", "admin"],
)
def test_a_copy_of_a_log_in_a_volume_takes_no_writes(volume, code, write):
    url = in_volume(volume)
    before = files(volume)
    with mounted(volume, code), pytest.raises(UnsupportedStoreError, match="Unity Catalog Volume"):
        write(url)
    assert files(volume) == before


def test_a_checkpoint_in_a_volume_is_read(volume):
    """Spark writes it by its own file system; the sink reads it under the path of the Volume."""
    for folder in ("offsets", "commits"):
        (volume / "cp" / folder).mkdir(parents=True)
    (volume / "cp" / "metadata").write_text('{"id": "a-query"}')
    (volume / "cp" / "offsets" / "0").write_text('v1\n{}\n{"at": 3}')
    (volume / "cp" / "commits" / "0").write_text("v1\n{}")
    with mounted(volume) as refused:
        checkpoint = Checkpoint(str(volume / "cp"))
        assert checkpoint.query_id() == "a-query"
        assert checkpoint.require_offsets(0).offsets == {"0": '{"at": 3}'}
        assert (checkpoint.finished(0), checkpoint.finished(1)) == (True, False)
    assert refused == []


def test_large_files_are_refused_as_small_ones(volume):
    """They are written by another way: pieces, past the system's cache."""
    store = open_store(str(volume / "log"))
    with (
        mounted(volume),
        pytest.raises(UnsupportedStoreError, match="Unity Catalog Volume"),
        store.upload("data/large") as file,
    ):
        file.write(pa.py_buffer(bytes(20 << 20)))
    assert files(volume) == {}


def test_the_paths_of_databricks_are_recognised():
    def said(path):
        return str(oserrors.store_error(OSError(errno.ENOSYS, "Function not implemented"), "link", path))

    assert "the Unity Catalog Volume /Volumes/main/eos/files has none" in said(
        "/Volumes/main/eos/files/log/_log/0"
    )
    assert "DBFS has none" in said("/dbfs/logs/air/_log/0")
    assert "use a folder on a local disk or NFS" in said("/data/Volumes/main/eos/files/log")
    with pytest.raises(
        UnsupportedStoreError, match=r"dbfs:/Volumes/a/b/c: a log cannot be in DBFS or in a Unity"
    ):
        open_store("dbfs:/Volumes/a/b/c")
