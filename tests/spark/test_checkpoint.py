"""Reading a checkpoint: laid out as Spark 4.2 writes it, and refused where it is not."""

from __future__ import annotations

import zlib

import pytest
from pyarrow.fs import LocalFileSystem

from spark_eos.errors import (
    CheckpointMismatchError,
    ConfigError,
    StorageError,
    StorePermissionError,
    UnsupportedVersionError,
)
from spark_eos.monitoring import Checkpoints
from spark_eos.spark.sink.checkpoint import Checkpoint, sources_of_batch
from spark_eos.spark.sink.checkpoint_files import ArrowFiles
from spark_eos.storage import PosixStore, Settings, as_hadoop, other_files
from verification.object_server import ObjectServer, serving

META = '{"batchWatermarkMs":0,"batchTimestampMs":1795237047920,"conf":{"spark.sql.shuffle.partitions":"2"}}'
PYTHON = '{"@eoslog": {"b": 1, "a": 2}, "t": {"10": 2, "2": 5}, "\\u00e9": {"0": 1}}'


@pytest.fixture
def root(tmp_path):
    """What a query with a rate, a file and a Python source leaves after batch 0, with batch 1 planned."""
    root = tmp_path / "ck 1%20"
    for folder in ("offsets", "commits"):
        (root / folder).mkdir(parents=True)
    (root / "metadata").write_text('{"id":"2ce2e13a-876c-43ce-a96d-c4129a0abcd1"}')
    (root / "offsets/0").write_text(f"v1\n{META}\n0\n-\n-")
    (root / "offsets/1").write_text(f'v1\n{META}\n3\n{{"logOffset":0}}\n{PYTHON}')
    (root / "offsets/.1.crc").write_bytes(b"crc\0")
    (root / "offsets/.2.7f5c.tmp").write_text(f"v1\n{META}\n4")
    (root / "commits/0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    (root / "commits/.1.7f5c.tmp").write_text("v1")
    return root


def test_query_id(root):
    assert Checkpoint(str(root)).query_id() == "2ce2e13a-876c-43ce-a96d-c4129a0abcd1"


def test_offsets_are_the_very_text(root):
    checkpoint = Checkpoint(str(root))
    assert checkpoint.offsets(0) == (False, {"0": "0", "1": None, "2": None})
    assert checkpoint.offsets(1) == (False, {"0": "3", "1": '{"logOffset":0}', "2": PYTHON})
    assert checkpoint.offsets(2) is None


def test_sources_of_batch(root):
    checkpoint = Checkpoint(str(root))
    assert sources_of_batch(checkpoint, 0) == ((None, None, "0"), (None, None, None), (None, None, None))
    assert sources_of_batch(checkpoint, 1) == LATER


def test_a_digit_that_changed_does_not_fit_the_sums(root):
    path = root / "offsets/0"
    pieces = [path.read_bytes()[at : at + 16] for at in range(0, path.stat().st_size, 16)]
    sums = b"".join(zlib.crc32(piece).to_bytes(4, "big") for piece in pieces)
    (root / "offsets/.0.crc").write_bytes(b"crc\0\0\0\0\x10" + sums)
    assert Checkpoint(str(root)).offsets(0).offsets["0"] == "0"
    path.write_text(path.read_text().replace("\n0\n", "\n1\n"))
    with pytest.raises(CheckpointMismatchError, match="does not fit its checksums"):
        Checkpoint(str(root)).offsets(0)


@pytest.mark.parametrize("sums", [b"", b"crd\0\0\0\2\0", b"crc\0\0\0\0\0", b"crc\0\xff\xff\xff\xff"])
def test_sums_without_a_header_are_passed_over(root, sums):
    """As Hadoop does it: of these none says how many bytes have one."""
    (root / "offsets/.0.crc").write_bytes(sums)
    assert Checkpoint(str(root)).offsets(0) is not None


LATER = ((None, "0", "3"), (None, None, '{"logOffset":0}'), (None, None, PYTHON))


def test_sources_with_names_are_found_by_them(root):
    """Version 2 of Spark's offset log: the order of its lines means nothing, and sources come and go."""
    (root / "offsets/0").write_text(f"v2\n{META}\nA:5\n1:{PYTHON}\nB:-")
    (root / "offsets/1").write_text(f'v2\n{META}\nnew_1:{{"logOffset":0}}\n1:{PYTHON}\nB:7\nA:6')
    checkpoint = Checkpoint(str(root))
    assert checkpoint.offsets(0) == (True, {"A": "5", "1": PYTHON, "B": None})
    assert sources_of_batch(checkpoint, 1) == (
        ("new_1", None, '{"logOffset":0}'),
        ("1", PYTHON, PYTHON),
        ("B", None, "7"),
        ("A", "5", "6"),
    )


def test_a_source_of_ours_that_was_away_for_one_batch_goes_on_where_spark_does(root):
    for batch_id, lines in enumerate((f"A:1\nB:5\nC:{PYTHON}", "A:2", f"A:3\nB:9\nC:{PYTHON}")):
        (root / f"offsets/{batch_id}").write_text(f"v2\n{META}\n{lines}")
    assert sources_of_batch(Checkpoint(str(root)), 2) == (
        ("A", "2", "3"),
        ("B", None, "9"),
        ("C", PYTHON, PYTHON),
    )


@pytest.mark.parametrize("line", ["5", ":5", "a b:5", "A:5\nA:6", "é:5", "A:{", "A:"])
def test_lines_of_version_2_that_name_no_source_are_refused(root, line):
    (root / "offsets/1").write_text(f"v2\n{META}\n{line}")
    with pytest.raises(CheckpointMismatchError, match=r"offsets/1.*the checkpoint is damaged"):
        Checkpoint(str(root)).offsets(1)


def test_a_folder_of_state(root):
    files = ArrowFiles("hdfs://name/ck/", LocalFileSystem(), str(root))
    assert not Checkpoint(str(root)).stateful()
    assert not files.has_folder("state")
    (root / "state/0/_metadata").mkdir(parents=True)
    assert Checkpoint(str(root)).stateful()
    assert files.has_folder("state")
    assert Checkpoint(str(root)).begun()
    (root / "commits/0").unlink()
    assert not Checkpoint(str(root)).begun()
    assert not Checkpoint(str(root / "nowhere")).begun()


@pytest.mark.parametrize("where", ["a folder", "a bucket", "Hadoop"])
def test_the_note_of_a_transaction(root, where, monkeypatch):
    location = str(root)
    if where == "a bucket":
        location = "s3://bucket/ck"
        monkeypatch.setattr(other_files, "shared_store", lambda *_: PosixStore(root))
    checkpoint = Checkpoint(location)
    if where == "Hadoop":
        checkpoint._remote = ArrowFiles("hdfs://name/ck", LocalFileSystem(), str(root))
    assert (checkpoint.has_transactions(), checkpoint.transaction("log")) == (False, None)
    checkpoint.note_transaction(None, 3)
    assert (checkpoint.has_transactions(), checkpoint.transaction(None)) == (False, 3)
    for batch_id in (9, 12, 7):
        checkpoint.note_transaction("log", batch_id)
        assert checkpoint.transaction("log") == batch_id
    assert checkpoint.has_transactions()
    assert checkpoint.transaction("other") is None
    (root / "eoslog/log").write_bytes(b"")  # The power failed.
    assert checkpoint.transaction("log") is None


@pytest.mark.parametrize("where", ["a folder", "Hadoop"])
def test_a_note_of_a_transaction_that_cannot_be_written(root, where):
    (root / "eoslog").touch()
    checkpoint = Checkpoint(str(root))
    if where == "Hadoop":
        checkpoint._remote = ArrowFiles("hdfs://name/ck", LocalFileSystem(), str(root))
    with pytest.raises(StorageError, match=r"eoslog/log cannot be written.*let the driver write"):
        checkpoint.note_transaction("log", 1)


@pytest.mark.parametrize("gone", [0, 1])
def test_missing_file_is_named(root, gone):
    (root / f"offsets/{gone}").unlink()
    with pytest.raises(CheckpointMismatchError, match=f"offsets/{gone} is missing"):
        sources_of_batch(Checkpoint(str(root)), 1)


def test_number_of_sources_must_stay(root):
    (root / "offsets/0").write_text(f"v1\n{META}\n0")
    with pytest.raises(CheckpointMismatchError, match="1 sources in batch 0 and 3 in batch 1"):
        sources_of_batch(Checkpoint(str(root)), 1)


def test_finished(root):
    checkpoint = Checkpoint(str(root))
    assert checkpoint.finished(0)
    assert not checkpoint.finished(1)
    assert not Checkpoint(str(root / "nowhere")).finished(0)


@pytest.mark.parametrize("prefix", ["file:", "file://", "file://localhost", "FILE:"])
def test_file_urls_are_not_decoded(root, prefix):
    assert Checkpoint(f"{prefix}{root}").offsets(0) is not None


@pytest.mark.parametrize(
    "location", ["s3n://b/ck", "wasbs://c@a/ck", "memory://x", "adl://x/ck", "ftp://host/ck"]
)
def test_other_stores_are_refused(location):
    with pytest.raises(ConfigError, match=rf"checkpointLocation='{location}'.*s3a://"):
        Checkpoint(location)


def test_a_checkpoint_in_a_bucket(root):
    with serving(ObjectServer({"bucket": {}})) as server:
        for path in root.rglob("*"):
            if path.is_file():
                server.buckets["bucket"][f"ck 1%20/{path.relative_to(root)}"] = path.read_bytes()
        settings = Settings({"s3.endpoint": server.address, "s3.anonymous": "true"})
        checkpoint = Checkpoint("s3a://bucket/ck 1%20/", settings)
        assert checkpoint.query_id() == "2ce2e13a-876c-43ce-a96d-c4129a0abcd1"
        assert sources_of_batch(checkpoint, 1) == LATER
        assert not checkpoint.stateful()
        server.buckets["bucket"]["ck 1%20/state/0/_metadata/metadata"] = b"v1"
        assert checkpoint.stateful()
        assert [checkpoint.finished(number) for number in (0, 1)] == [True, False]
        assert checkpoint.offsets(2) is None
        with pytest.raises(CheckpointMismatchError, match="s3a://bucket/ck 1%20/offsets/7 is missing"):
            checkpoint.require_offsets(7)
        with pytest.raises(CheckpointMismatchError, match="s3a://bucket/elsewhere/metadata is missing"):
            Checkpoint("s3a://bucket/elsewhere", settings).query_id()
        server.buckets["bucket"]["ck 1%20/offsets/1"] = b"\xff"
        with pytest.raises(CheckpointMismatchError, match="is not UTF-8"):
            checkpoint.offsets(1)
        server.refuse("read", 403, "AccessDenied")
        with pytest.raises(StorePermissionError, match="s3://bucket/ck 1%20/metadata: cannot read"):
            checkpoint.query_id()


def test_a_checkpoint_in_a_file_system_that_arrow_knows(root):
    files = ArrowFiles("hdfs://name/ck/", LocalFileSystem(), f"{root}/")
    assert files.read("metadata") == (root / "metadata").read_bytes()
    assert files.read("offsets/9") is None
    assert [files.exists(f"commits/{number}") for number in (0, 1)] == [True, False]
    assert not files.exists("commits")
    with pytest.raises(CheckpointMismatchError, match="hdfs://name/ck/offsets cannot be read"):
        files.read("offsets")


def test_hadoop_without_its_library_is_said():
    try:
        found = Checkpoint("hdfs://no-such-host.invalid:9/ck")
    except ConfigError as error:
        assert "libhdfs" in str(error)  # noqa: PT017  (both may be)
    else:
        assert "hdfs://no-such-host.invalid:9/ck" in repr(found)


@pytest.mark.parametrize(
    ("given", "of_hadoop"),
    [  # As `org.apache.hadoop.fs.Path(given).toString()` of Hadoop 3.4 says.
        ("/tmp/no/../b", "/tmp/b"),
        ("/tmp/./b/", "/tmp/b"),
        ("/tmp//b", "/tmp/b"),
        ("/../b", "/../b"),
        ("/a/b/../../../c", "/../c"),
        ("../b", "../b"),
        ("../../b", "../../b"),
        ("./b", "b"),
        ("b/../c", "c"),
        ("~/b", "~/b"),
        ("/tmp/a b%20#c?d", "/tmp/a b%20#c?d"),
        ("/tmp/...", "/tmp/..."),
        ("/tmp/..", "/"),
        ("file:/tmp/no/../b", "file:/tmp/b"),
        ("file:/tmp/b//", "file:/tmp/b"),
        ("FILE:/tmp/b", "FILE:/tmp/b"),
        ("s3a://bucket/a/../b", "s3a://bucket/b"),
        ("s3a://bucket//b/", "s3a://bucket/b"),
        ("s3a://bucket/../b", "s3a://bucket/../b"),
        ("s3a://bucket", "s3a://bucket"),
        ("hdfs://h:1/a/../b", "hdfs://h:1/b"),
    ],
)
def test_a_location_is_where_hadoop_looks_for_it(given, of_hadoop):
    assert as_hadoop(given) == of_hadoop


@pytest.mark.parametrize("spelling", ["missing/../ck", "link/../ck", "./ck/", "ck//", "a/./b/../../ck"])
@pytest.mark.parametrize("head", ["", "file:", "file://"])
def test_a_checkpoint_is_where_spark_puts_it(tmp_path, spelling, head):
    (tmp_path / "ck").mkdir()
    (tmp_path / "ck/metadata").write_text('{"id":"the-query"}')
    (tmp_path / "elsewhere/below").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere/below")
    location = f"{head}{tmp_path}/{spelling}"
    assert Checkpoint(location).query_id() == "the-query"
    assert Checkpoints([location]).location("the-query") == location


def test_dbfs_is_where_databricks_mounts_it():
    assert repr(Checkpoint("dbfs:/ck/1")) == "Checkpoint('/dbfs/ck/1')"
    assert repr(Checkpoint("dbfs:///ck/1")) == "Checkpoint('/dbfs/ck/1')"
    assert repr(Checkpoint("dbfs:/Volumes/c/s/v/ck")) == "Checkpoint('/Volumes/c/s/v/ck')"


@pytest.mark.parametrize("location", ["file://host/ck", "file:ck", "file://", "file:"])
def test_file_urls_that_are_no_local_folder(location):
    with pytest.raises(ConfigError, match="not a local folder"):
        Checkpoint(location)


@pytest.mark.parametrize(("location", "why"), [("", "is empty"), ("/a\0b", "zero byte")])
def test_locations_that_are_none(location, why):
    with pytest.raises(ConfigError, match=why):
        Checkpoint(location)


@pytest.mark.parametrize("version", ["v3", "v10"])
def test_unknown_version_is_named(root, version):
    (root / "offsets/1").write_text(f"{version}\n{META}\n3")
    with pytest.raises(UnsupportedVersionError, match=f"offsets/1 has version {version}"):
        Checkpoint(str(root)).offsets(1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "v1",
        f"v1\n{META}",
        f"v1\n{META}\n",
        f"v1\n{META[:-9]}\n3",
        f"v1\n{META}\n{PYTHON[:-3]}",
        f"v1 \n{META}\n3",
        f"{META}\n3",
        "\0" * 40,
        b"v1\n\xff\n3",
    ],
)
def test_half_of_a_file_is_refused(root, text):
    (root / "offsets/1").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CheckpointMismatchError, match=r"offsets/1.*the checkpoint is damaged"):
        Checkpoint(str(root)).offsets(1)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": 3}', '{"id": ""}', "{}"])
def test_metadata_that_names_no_query(root, text):
    (root / "metadata").write_text(text)
    with pytest.raises(CheckpointMismatchError, match=r"metadata .*damaged"):
        Checkpoint(str(root)).query_id()


def test_metadata_that_is_not_there(tmp_path):
    with pytest.raises(CheckpointMismatchError, match=r"metadata is missing.*checkpointLocation"):
        Checkpoint(str(tmp_path)).query_id()


def test_what_cannot_be_read_is_not_taken_for_missing(root):
    (root / "offsets/1").unlink()
    (root / "offsets/1").mkdir()
    with pytest.raises(CheckpointMismatchError, match="offsets/1 cannot be read"):
        Checkpoint(str(root)).offsets(1)
    (root / "commits").rename(root / "other")
    (root / "commits").symlink_to("commits")  # a loop
    with pytest.raises(CheckpointMismatchError, match="commits/0 cannot be read"):
        Checkpoint(str(root)).finished(0)
