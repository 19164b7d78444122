"""The longest names and the deepest schemas of topics, in real logs; topics that cannot be used."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Producer, TopicPartition
from spark_eos.cli.command import main
from spark_eos.errors import CorruptRecordError, SchemaMismatchError
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.maintenance.copying import copy_log
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.protocol.actions import CreateTopic
from spark_eos.storage import open_store
from spark_eos.storage.object_names import check_name
from verification.object_server import ObjectServer, serving

LONGEST = "x" * 249


def nested(levels):
    inner, value = pa.int64(), 1
    for _ in range(levels - 1):
        inner, value = pa.struct([("a", inner)]), {"a": value}
    return inner, value


def read(url, topic):
    """All records of partition 0."""
    at, found = TopicPartition(topic, 0), []
    with Consumer(url, {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([at])
        while consumer.position(at) < consumer.end_offsets([at])[at]:
            found += consumer.poll(1000)
    return found


@pytest.fixture(params=["folder", "objects"])
def anywhere(request, tmp_path, monkeypatch):
    """A place for a log."""
    if request.param == "folder":
        yield str(tmp_path / "log")
        return
    with serving(ObjectServer({"bucket": {}})) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.address)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "some-key")
        yield f"s3://bucket/{uuid.uuid4().hex}"


@pytest.mark.parametrize("length", [219, 249])
def test_the_longest_names(anywhere, tmp_path, length):
    name = LONGEST[:length]
    Admin(anywhere).create_topic(name, config={"cleanup.policy": "compact", "file.delete.delay.ms": 0})
    for number in range(3):
        with Producer(anywhere) as producer:
            assert producer.send(name, b"%d" % number, key=b"k").result().offset == number
    assert [record.value for record in read(anywhere, name)] == [b"0", b"1", b"2"]
    assert main(["maintain", anywhere, "--min-age", "0"]) == 0
    copy_log(anywhere, tmp_path / "copy", print)
    assert [record.value for record in read(str(tmp_path / "copy"), name)][-1] == b"2"


def test_folders_of_topics():
    topic_id = "0" * 36
    assert paths.data_folder("x" * 218, topic_id) == f"data/{'x' * 218}-{topic_id}/"
    assert paths.data_folder(LONGEST, topic_id) == f"data/{'x' * 218}-{topic_id}/"
    for topic in ("t", LONGEST):
        check_name(paths.data_file(topic, topic_id, 2**60, "f" * 32, 99_999))


def test_files_of_a_deleted_topic_with_a_long_name_go(tmp_path, monkeypatch):
    monkeypatch.setattr(Vacuum, "_due_in", lambda *_: 0.0)  # No reader is about that a minute would be for.
    url = str(tmp_path / "log")
    Admin(url).create_topic(LONGEST, config={"file.delete.delay.ms": 0})
    with Producer(url) as producer:
        producer.send(LONGEST, b"v").result()
    Admin(url).delete_topic(LONGEST)
    assert main(["maintain", url, "--min-age", "0"]) == 0
    assert not [*open_store(url).list("data/")]


@pytest.mark.parametrize("levels", [64, 1500])
def test_a_schema_that_is_too_deep_is_refused_before_anything_is_there(tmp_path, levels):
    url = str(tmp_path / "log")
    schema = pa.schema([("flat", pa.int64()), ("deep", nested(levels)[0])])
    with pytest.raises(SchemaMismatchError, match="column 'deep' is nested more than 63 levels"):
        Admin(url).create_topic("t", schema=schema)
    assert not Path(url).exists()
    Admin(url).create_topic("t", schema=pa.schema([("flat", pa.int64())]))
    with pytest.raises(SchemaMismatchError, match="column 'deep'"):
        Admin(url).alter_topic("t", schema=schema)


def test_the_deepest_schema_is_written_and_read(tmp_path):
    url, (type_, value) = str(tmp_path / "log"), nested(63)
    Admin(url).create_topic("t", schema=pa.schema([("deep", type_)]))
    with Producer(url) as producer:
        producer.send_arrow("t", pa.table({"deep": pa.array([value], type_)}))
    (record,) = read(url, "t")
    assert record.value == {"deep": value}


@pytest.mark.parametrize("columns", [[f"c{number}" for number in range(10_001)], ["n" * 5_000_000]])
def test_a_schema_that_is_too_large(tmp_path, columns):
    schema = pa.schema([(name, pa.bool_()) for name in columns])
    with pytest.raises(SchemaMismatchError, match=r"10000 fields|4194304 are possible|4194304 bytes"):
        Admin(str(tmp_path / "log")).create_topic("t", schema=schema)


UNUSABLE = {
    name: pa.schema([("a", type_)]).serialize().to_pybytes()
    for name, type_ in (("small", pa.uint8()), ("half", pa.float16()), ("wide", pa.decimal256(50, 2)))
}
"""The rules take these schemas of a program that is none of ours."""


def test_a_topic_that_cannot_be_used_is_alone_in_that(tmp_path, capsys):
    url = str(tmp_path / "log")
    log = Log.create(url)
    topics = tuple(CreateTopic(name, f"{name}-id", 1, (), body) for name, body in UNUSABLE.items())
    log.commit(lambda _: topics)
    Admin(url).create_topic("good")
    with Producer(url) as producer:
        producer.send("good", b"v").result()
        for name in UNUSABLE:
            with pytest.raises(CorruptRecordError, match=f"topic '{name}'"):
                producer.send_arrow(name, pa.table({"a": [1]})).result()
    assert main(["topics", url]) == 0
    told = capsys.readouterr().out
    assert set(re.findall(r"error: the schema of topic '(\w+)'", told)) == UNUSABLE.keys()
    assert main(["topics", url, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["topic"] for line in lines if "schema_error" in line} == UNUSABLE.keys()
    assert main(["describe", url, "half"]) == 0
    assert "error: the schema of topic 'half' cannot be used" in capsys.readouterr().out
    assert Admin(url).describe_topic("small").schema_error
    assert main(["maintain", url, "--min-age", "0"]) == 0
    assert main(["verify", url]) == 0
    assert [record.value for record in read(url, "good")] == [b"v"]
    Admin(url).delete_topic("half")
    assert "half" not in Log.open(url).state.topics


@pytest.mark.parametrize(
    "name", ["with space", "100%25", "a#b?c=d", "new\nline", "~", "e\u0301 \u00e9", "\udcff"]
)
def test_folders_of_logs_have_any_name(tmp_path, name, monkeypatch):
    """As a path, nothing in it has a meaning; also after the process has gone elsewhere, and by a link."""
    monkeypatch.chdir(tmp_path)
    relative = f"./{name}/"
    admin = Admin(relative)
    admin.create_topic("t")
    with Producer(relative) as producer:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        producer.send("t", b"v").result()
    assert admin.list_topics() == ["t"]
    (tmp_path / "link").symlink_to(tmp_path / name)
    assert [record.value for record in read(str(tmp_path / "link"), "t")] == [b"v"]
    assert not [*(tmp_path / "elsewhere").iterdir()]


def test_no_two_files_differ_in_case_only(tmp_path):
    """A file system that ignores case would take them for one."""
    url = str(tmp_path / "log")
    with Admin(url) as admin, Producer(url) as producer:
        for name in ("Foo", "foo", "FOO", "f" * 249, "F" * 249):
            admin.create_topic(name, 2)
            for partition in (0, 1):
                producer.send(name, b"x", partition=partition).result(60)
    names = [str(path.relative_to(url)) for path in Path(url).rglob("*")]
    assert len({name.casefold() for name in names}) == len(names) > 15
