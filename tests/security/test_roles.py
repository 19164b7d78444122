"""The policies of conf/policies/s3, enforced by MinIO: each role can do its work, and nothing else."""

from __future__ import annotations

import copy
import json
import logging
import re
import uuid
from contextlib import suppress
from types import SimpleNamespace

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition
from spark_eos.clients.arrow_reader import read_arrow
from spark_eos.errors import EosLogError, StorePermissionError
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.storage import Settings, open_store
from tests.security.roles import EARLIEST, POLICIES, maintain, policy, read, values, write
from verification.cloud_servers import shared_access, temporary

ROLES = ("reader", "writer", "maintainer")


@pytest.fixture(scope="module")
def place(minio_server):
    """A log that a writer has made, and the settings of each role."""
    path = uuid.uuid4().hex[:8]
    roles = {role: temporary(minio_server, policy(role, path)) for role in ROLES}
    found = SimpleNamespace(server=minio_server, url=f"{minio_server.url}/{path}", **roles)
    write(found.url, found.writer)
    return found


def contents(place):
    """All objects, with what is in them."""
    store = open_store(place.url, place.server.settings)
    return {info.name: store.read(info.name).to_pybytes() for info in store.list("")}


def failing(right, *names):
    """An error of ours that names the right and an object; the text of a regular expression."""
    return rf"(?s){'|'.join(names)}.*: cannot .*They need {right}"


# -- What each role can do ----------------------------------------------------------------------------


def test_a_writer_leaves_nothing_that_it_should_remove(place):
    names = contents(place)
    assert not [name for name in names if name.startswith(("_probe/", "_groups/"))]
    assert sum(name.startswith("_log/snapshots/") for name in names) == 2
    assert not [name for name in names if name.endswith("given-up")]


def test_staged_files_that_a_writer_may_not_delete_stay(place):
    log = Log.open(place.url, settings=place.writer)
    with log.stage(log.topic("t")) as writer:
        writer.append(pa.table({"value": [b"never"]}), 0)
        staged = writer.finish()
    log.discard(staged)
    assert staged[0].file.name in contents(place)
    Log.open(place.url, settings=place.server.settings).discard(staged)
    assert staged[0].file.name not in contents(place)


def test_a_reader_reads(place):
    before = contents(place)
    read(place.url, place.reader)
    assert contents(place) == before


def test_a_maintainer_maintains_and_may_write(minio_server):
    path = uuid.uuid4().hex[:8]
    url, settings = f"{minio_server.url}/{path}", temporary(minio_server, policy("maintainer", path))
    write(url, settings)
    done = {one.step: one for one in maintain(url, settings)}
    assert not [one for one in done.values() if one.error], done
    assert "rewrote" in done["roll"].text
    assert "deleted" in done["vacuum"].text
    names = [info.name for info in open_store(url, settings).list("")]
    assert [name for name in names if name.endswith(".parquet")]
    read(url, temporary(minio_server, policy("reader", path)))


# -- What each role is refused ------------------------------------------------------------------------


def produce(url, settings):
    with Producer(url, settings) as producer:
        producer.send("t", b"no", partition=0).result()


def begin(url, settings):
    with Producer(url, {**settings, "transactional.id": "other"}) as producer:
        producer.init_transactions()


def join(url, settings):
    with Consumer(url, {**settings, **EARLIEST, "group.id": "other"}) as consumer:
        consumer.subscribe(["t"])
        consumer.poll(timeout_ms=0)


def step(name):
    def run(url, settings):
        for done in maintain(url, settings, name):
            if done.error:
                raise done.error
            raise AssertionError(done.text)

    return run


READERS = {
    "produce": produce,
    "begin a transaction": begin,
    "join a group": join,
    "create a topic": lambda url, settings: Admin(url, settings).create_topic("u", 1),
    "delete a topic": lambda url, settings: Admin(url, settings).delete_topic("t"),
    "delete records": lambda url, settings: Admin(url, settings).delete_records({TopicPartition("t", 0): 1}),
    "change a setting": lambda url, settings: Admin(url, settings).alter_log(
        {"offsets.retention.minutes": 3}
    ),
    "abort a transaction": lambda url, settings: Admin(url, settings).fence_producers(["clerk"]),
    "roll": step("roll"),
    "vacuum": step("vacuum"),
}


@pytest.mark.parametrize("change", READERS)
def test_a_reader_changes_nothing(place, change):
    before = contents(place)
    with pytest.raises(
        StorePermissionError, match=failing("s3:PutObject on it", "_log/", "data/", "tables/", "_main")
    ):
        READERS[change](place.url, place.reader)
    assert contents(place) == before


def test_a_writer_does_not_maintain(place):
    before = contents(place)
    with pytest.raises(StorePermissionError, match=failing("s3:PutObject on it", "tables/t-")):
        step("roll")(place.url, place.writer)
    with pytest.raises(StorePermissionError, match=failing("s3:PutObject on it", "_maintenance/")):
        step("vacuum")(place.url, place.writer)
    assert contents(place) == before


@pytest.mark.parametrize(
    "name", ["_log/00000000000000000000.avro", "_log/index/t/0/x", "data/t/x", "tables/t/x"]
)
@pytest.mark.parametrize("role", ["reader", "writer"])
def test_only_a_maintainer_deletes(place, role, name):
    with pytest.raises(StorePermissionError, match=failing("s3:DeleteObject on it", name)):
        open_store(place.url, getattr(place, role)).delete(name)


@pytest.mark.parametrize("role", ROLES)
def test_other_logs_are_out_of_reach(place, role):
    elsewhere = f"{place.server.url}/{uuid.uuid4().hex[:8]}"
    other = open_store(elsewhere, place.server.settings)
    other.create("a", b"1")
    store = open_store(elsewhere, getattr(place, role))
    for right, call in {
        "s3:GetObject": lambda: store.read("a"),
        "s3:ListBucket": lambda: [*store.list("")],
        "s3:PutObject": lambda: store.create("b", b"1"),
        "s3:DeleteObject": lambda: store.delete("a"),
    }.items():
        with pytest.raises(StorePermissionError, match=failing(right, elsewhere)):
            call()
    with pytest.raises(StorePermissionError, match=failing("s3:ListBucket", elsewhere)):
        Log.open(elsewhere, settings=getattr(place, role))
    assert [info.name for info in other.list("")] == ["a"]


# -- Nothing of a policy can be left out --------------------------------------------------------------


def parts(role):
    """Each right of a role, on each kind of objects."""
    for number, statement in enumerate(policy(role, "PATH")["Statement"]):
        for action in statement["Action"]:
            for place, resource in enumerate(statement["Resource"]):
                kind = resource.partition("PATH/")[2] or "bucket"
                yield pytest.param(number, action, place, id=f"{action.partition(':')[2]} {kind}")


def without(whole, number, action, place):
    """The policy without one right on one kind of objects."""
    found = copy.deepcopy(whole)
    statement = found["Statement"][number]
    rest = {**statement, "Resource": [one for at, one in enumerate(statement["Resource"]) if at != place]}
    statement["Action"] = [one for one in statement["Action"] if one != action]
    kept = [{**rest, "Action": [action]}] if rest["Resource"] else []
    found["Statement"] = [one for one in [*found["Statement"], *kept] if one["Action"]]
    return found


@pytest.mark.deep("AbortMultipartUpload data/*", "DeleteObject _groups/*", "DeleteObject _probe/*")
@pytest.mark.parametrize(("number", "action", "place"), [*parts("writer")])
def test_a_writer_needs_all_of_its_rights(minio_server, caplog, number, action, place):
    path = uuid.uuid4().hex[:8]
    url = f"{minio_server.url}/{path}"
    settings = temporary(minio_server, without(policy("writer", path), number, action, place))
    refused = ""
    with caplog.at_level(logging.WARNING), suppress(EosLogError):
        try:
            write(url, settings)
        except EosLogError as error:
            refused = str(error)
            raise
    names = [info.name for info in open_store(url, minio_server.settings).list("")]
    left = [name for name in names if name.startswith(("_probe/", "_groups/"))]
    left += [name for name in names if name.startswith("_log/snapshots/")][2:]
    if action == "s3:AbortMultipartUpload":
        return  # Its parts stay, which no listing of objects shows.
    assert left or f"They need {action}" in refused + caplog.text


@pytest.mark.deep("GetObject *", "ListBucket bucket")
@pytest.mark.parametrize(
    ("number", "action", "at"), [one for one in parts("maintainer") if "AbortMultipart" not in one.id]
)
def test_a_maintainer_needs_all_of_its_rights(minio_server, monkeypatch, number, action, at):
    monkeypatch.setattr(Vacuum, "_due_in", lambda *_: 0.0)  # No reader is about that a minute would be for.
    path = uuid.uuid4().hex[:8]
    url = f"{minio_server.url}/{path}"
    write(url, temporary(minio_server, policy("writer", path)))
    settings = temporary(minio_server, without(policy("maintainer", path), number, action, at))
    refused = ""
    try:
        refused = " ".join(str(one.error) for one in maintain(url, settings) if one.error)
    except StorePermissionError as error:
        refused = str(error)
    assert "They need s3:" in refused
    assert action in refused


@pytest.mark.parametrize(("number", "action", "at"), [*parts("reader")])
def test_a_reader_needs_all_of_its_rights(place, minio_server, number, action, at):
    path = place.url.rpartition("/")[2]
    settings = temporary(minio_server, without(policy("reader", path), number, action, at))
    with pytest.raises(StorePermissionError, match="They need s3:"):
        read(place.url, settings)


# -- Topics with rights of their own ------------------------------------------------------------------


def hiding(role, path, topic):
    """The policy of a role that must not read the rows of one topic."""
    found = policy(role, path)
    text = (POLICIES / "s3" / "hide-topic.json").read_text("utf-8")
    hidden = json.loads(text.replace("BUCKET", "bucket").replace("PATH", path).replace("TOPIC", topic))
    return {**found, "Statement": [*found["Statement"], *hidden["Statement"]]}


@pytest.fixture(scope="module")
def hidden(minio_server):
    """A log with the topics ``secret`` and ``secret-2``: the rows of the first one are not for everyone."""
    path = uuid.uuid4().hex[:8]
    found = SimpleNamespace(server=minio_server, url=f"{minio_server.url}/{path}")
    found.settings = temporary(minio_server, policy("maintainer", path))
    for role in ("reader", "writer"):
        setattr(found, role, temporary(minio_server, hiding(role, path, "secret")))
    config = {"segment.format": "parquet"}
    for topic in ("secret", "secret-2"):
        Admin(found.url, found.settings).create_topic(topic, 1, config=config)
    for number in range(4):
        with Producer(found.url, found.settings) as producer:
            for topic in ("secret", "secret-2"):
                producer.send(topic, b"%d" % number)
    assert not [done for done in maintain(found.url, found.settings, "roll") if done.error]
    with Producer(found.url, found.settings) as producer:
        producer.send("secret", b"4")
        producer.send("secret-2", b"4")
    return found


def test_rows_of_a_hidden_topic_are_not_read(hidden):
    names = contents(hidden)
    for folder in ("data/secret-", "tables/secret-"):
        assert [name for name in names if name.startswith(folder)]
    assert values(hidden.url, hidden.settings, "secret", 1) == [b"%d" % number for number in range(5)]
    assert values(hidden.url, hidden.reader, "secret-2", 1) == [b"%d" % number for number in range(5)]
    for offset, kind in ((0, "tables/secret-.*parquet"), (4, "data/secret-.*arrow")):
        with Consumer(hidden.url, {**EARLIEST, **hidden.reader}) as consumer:
            consumer.assign([TopicPartition("secret", 0)])
            consumer.seek(TopicPartition("secret", 0), offset)
            with pytest.raises(StorePermissionError, match=failing("s3:GetObject on it", kind)):
                consumer.poll(timeout_ms=1000)
    with pytest.raises(StorePermissionError, match=failing("s3:GetObject on it", "secret-")):
        read_arrow(Log.open(hidden.url, settings=hidden.reader), "secret").read_all()


def test_what_the_chain_says_of_a_hidden_topic_stays_visible(hidden):
    admin = Admin(hidden.url, hidden.reader)
    assert admin.list_topics() == ["secret", "secret-2"]
    assert admin.describe_topic("secret").partitions[0].end == 5


def test_rights_of_a_topic_do_not_protect_it_from_writers(hidden):
    """The chain is one: who may write to it may end any topic, though not read its rows."""
    place = TopicPartition("secret", 0)
    with Producer(hidden.url, hidden.writer) as producer:
        sent = producer.send("secret", b"no")
        with pytest.raises(StorePermissionError, match=failing("s3:PutObject on it", "data/secret-")):
            sent.result()
    assert Admin(hidden.url, hidden.writer).delete_records({place: 1}) == {place: 1}
    Admin(hidden.url, hidden.writer).create_topic("another", 1)
    Admin(hidden.url, hidden.writer).delete_topic("another")


# -- Azure --------------------------------------------------------------------------------------------


def actions(role):
    """The letters of a shared access signature that stand for the actions of a role."""
    letters = {"read": "rl", "add/action": "c", "write": "w", "delete": "d"}
    found = json.loads((POLICIES / "azure" / f"{role}.json").read_text("utf-8"))["DataActions"]
    allowed = "".join(letters[action.partition("/blobs/")[2]] for action in found)
    return "".join(letter for letter in "rcwdl" if letter in allowed)


@pytest.mark.deep
def test_the_roles_of_azure(azurite_server):
    url = f"{azurite_server.url}/{uuid.uuid4().hex[:8]}"
    given = {name: value for name, value in azurite_server.settings.items() if name != "adls.account-key"}

    def settings(role):
        return Settings({**given, "adls.sas-token": shared_access("container", actions(role))})

    place = SimpleNamespace(url=url, server=azurite_server)
    write(url, settings("writer"))
    before = contents(place)
    with pytest.raises(StorePermissionError, match="They need blobs/add/action or blobs/write"):
        produce(url, settings("reader"))
    rows = next(name for name in before if name.startswith("data/"))
    for role in ("reader", "writer"):
        with pytest.raises(StorePermissionError, match=f"{rows}.*They need blobs/delete"):
            open_store(url, settings(role)).delete(rows)
    read(url, settings("reader"))
    after = contents(place)
    assert {name: after.get(name) for name in before} == before
    done = {one.step: one for one in maintain(url, settings("maintainer"), wait=False)}
    assert not [one for one in done.values() if one.error], done
    assert "rewrote" in done["roll"].text
    assert "deleted" in done["vacuum"].text
    read(url, settings("reader"))


# -- Google -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ROLES)
def test_googles_roles_allow_what_those_of_s3_do(role):
    """No server here enforces them: that they say the same is what can be tested."""
    whole = json.loads((POLICIES / "gcs" / f"{role}.json").read_text("utf-8"))
    rights = {"s3:GetObject": "get", "s3:PutObject": "create", "s3:DeleteObject": "delete"}
    allowed = {}
    for binding in whole["bindings"]:
        for right in whole["roles"][binding["role"].rpartition("/")[2]]["includedPermissions"]:
            places = re.findall(r"objects/PATH/([^\"]*)", binding["condition"]["expression"])
            allowed.setdefault(right.rpartition(".")[2], set()).update(places)
    assert "list" in allowed
    for statement in policy(role, "PATH")["Statement"]:
        for action in set(statement["Action"]) & set(rights):
            places = {one.partition("PATH/")[2].removesuffix("*") for one in statement["Resource"]}
            if action == "s3:DeleteObject" and role == "writer":
                # To replace an object, Google wants this right as well.
                places = places - {"_log/snapshots/"} | {"_log/"}
            assert allowed[rights[action]] == places
    assert ("delete" in allowed) == (role != "reader")
