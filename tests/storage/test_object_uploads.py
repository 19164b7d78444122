"""Uploads so large that they go in parts: no create on a condition, but nothing is overwritten or left behind."""
# ruff: noqa: PT012  (an upload is more than one statement)

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from spark_eos.errors import ObjectExistsError, ObjectNotFoundError
from spark_eos.storage import Settings
from spark_eos.storage.objects import multipart
from spark_eos.storage.objects import store as objects
from spark_eos.storage.objects.clients import parse_location
from spark_eos.storage.objects.multipart import MultipartUpload
from spark_eos.storage.objects.store import ObjectStore
from spark_eos.testing.upload_contract import contents
from verification.object_server import ObjectServer, serving

PART = 5 << 20
"""The smallest that S3 takes."""
PIECES = [bytes([number]) * (1 << 20) for number in range(12)]
WHOLE = b"".join(PIECES)


@pytest.fixture
def store(place):
    url, settings = place
    return ObjectStore(parse_location(url), settings, single_bytes=PART)


def test_it_is_visible_only_at_the_end(store):
    with store.upload("a/b") as file:
        for piece in PIECES:
            assert file.write(piece) == len(piece)
        assert file.tell() == len(WHOLE)
        assert contents(store) == {}
        with pytest.raises(ObjectNotFoundError):
            store.read("a/b")
    assert store.read("a/b") == WHOLE
    assert store.read("a/b", PART - 1, 3) == WHOLE[PART - 1 : PART + 2]
    assert contents(store) == {"a/b": len(WHOLE)}


def test_one_piece_larger_than_a_part(store):
    with store.upload("a") as file:
        file.write(b"first")
        file.write(WHOLE)
    assert store.read("a") == b"first" + WHOLE


def test_it_is_discarded_on_an_exception(store):
    with pytest.raises(RuntimeError, match="stop"), store.upload("a") as file:
        file.write(WHOLE)
        raise RuntimeError("stop")
    assert contents(store) == {}
    if not store.url.startswith(
        "az:"
    ):  # Azure keeps the parts for a week, and Azurite counts the name as taken.
        store.create("a", b"free")


def test_it_refuses_an_existing_name(store):
    store.create("a", b"first")
    with pytest.raises(ObjectExistsError, match="a"), store.upload("a") as file:
        file.write(WHOLE)
    assert store.read("a") == b"first"


def test_it_refuses_a_name_taken_meanwhile(store):
    with pytest.raises(ObjectExistsError, match="a"), store.upload("a") as file:
        # Before its parts are on their way: Azurite can lose a blob that is made while a block of its name comes.
        store.create("a", b"fast")
        file.write(WHOLE)
    assert store.read("a") == b"fast"


def test_arrow_can_write_into_it(store):
    table = pa.table({"n": range(1_000_000)})
    with store.upload("t.arrow") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=100_000)
    assert pa.ipc.open_file(store.read("t.arrow")).read_all().equals(table)


@pytest.mark.parametrize("size", [PART - 1, PART, PART + 1])
def test_around_the_size_of_a_part(store, size):
    with store.upload("a") as file:
        file.write(WHOLE[:size])
    assert store.size("a") == size


def requests(size, single_bytes):
    """What a server is asked for one upload."""
    with serving(ObjectServer({"bucket": {}})) as server:
        settings = Settings({"gcs.service.host": server.address, "gcs.no-auth": "true"})
        store = ObjectStore(parse_location("gs://bucket"), settings, single_bytes=single_bytes)
        with store.upload("a") as file:
            file.write(bytes(size))
        assert server.uploads == {}
        assert server.buckets["bucket"]["a"] == bytes(size)
        return [request.verb for request in server.journal]


def test_how_many_requests_it_takes():
    assert requests(1000, 1000) == ["create"]
    assert sorted(requests(1001, 1000)) == ["begin", "complete", "part", "part", "size"]


def test_a_list_ends_behind_the_last_name_that_it_is_for(monkeypatch):
    """An opening asks what comes after the newest entry; behind the entries lie all indexes of the log."""
    monkeypatch.setattr(objects, "_LIST_PAGE", 2)
    with serving(ObjectServer({"bucket": {}}, page=2)) as server:
        settings = Settings({"gcs.service.host": server.address, "gcs.no-auth": "true"})
        store = ObjectStore(parse_location("gs://bucket/log"), settings)
        for name in ("_log/01", "_log/02", *(f"_log/index/{number}" for number in range(20))):
            store.create(name, b"1")
        assert [info.name for info in store.list("_log/0")] == ["_log/01", "_log/02"]
        assert store.next_name("_log/0", "_log/01") == "_log/02"
        before = server.count("list")
        assert store.next_name("_log/0", "_log/02") is None
        assert server.count("list") == before + 1


def test_a_forked_process_does_not_take_back_what_its_parent_sends(monkeypatch):
    ended = []
    writer = SimpleNamespace(__exit__=lambda *_: ended.append("the parts"))
    upload = MultipartUpload("s3://bucket/log", "a", "log/a", None, None, None, None, 1)
    upload._writer = writer
    with monkeypatch.context() as child:
        child.setattr(multipart, "generation", lambda: upload._made_in + 1)
        upload.abort()
    assert ended == []
    upload._writer = writer
    upload.abort()
    assert ended == ["the parts"]
