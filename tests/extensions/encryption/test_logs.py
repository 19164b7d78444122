"""Handles with and without keys on one log: who may write what, and what the others are told."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pyarrow as pa
import pytest

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition
from spark_eos.cli import main
from spark_eos.config.isolation import Isolation
from spark_eos.errors import (
    ConfigError,
    IllegalStateError,
    InvalidRequestError,
    StagedFileExpiredError,
    StorePermissionError,
)
from spark_eos.extensions.encryption.store import EncryptedStore
from spark_eos.log.data.parquet.reader import forget_footers
from spark_eos.log.data.planner import plan
from spark_eos.maintenance.copying import copy_log
from spark_eos.maintenance.rolling import Roller
from spark_eos.maintenance.verify.report import Finding, Verdict
from spark_eos.maintenance.verify.verify import verify
from spark_eos.monitoring.measured_store import MeasuredStore
from spark_eos.protocol.actions import AppendBatches, CreatePublication, ReplaceSegments
from spark_eos.protocol.types import NO_PRODUCER
from spark_eos.storage import MemoryStore
from spark_eos.testing import FaultyStore
from tests.maintenance.sparse_world import World, everything, small_pages
from tests.needing import needs

SECRET = b"geheim"


class Keys:
    """Keys in memory."""

    def key(self, key_id: str) -> bytes | None:
        return {"one": b"1" * 32, "two": b"2" * 32}.get(key_id)


def keyed(inner: MemoryStore, key_id: str = "one") -> EncryptedStore:
    return EncryptedStore(inner, Keys(), key_id)


@pytest.fixture
def inner() -> MemoryStore:
    """A log with one record in a plain file."""
    inner = MemoryStore()
    Admin(Log.create(inner)).create_topic("t")
    send(Log.open(inner), b"before")
    return inner


def send(log: Log, *values: bytes) -> None:
    with Producer(log) as producer:
        for value in values:
            producer.send("t", value).result()


def received(log: Log) -> list[bytes]:
    with Consumer(log, {"group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        return [record.value for record in consumer.poll(10_000)]


def staged(log: Log, value: bytes = SECRET) -> AppendBatches:
    topic = log.topic("t")
    with log.stage(topic) as writer:
        writer.append(pa.table({"value": [value]}), 0)
        return AppendBatches(NO_PRODUCER, (("t", topic.topic_id),), writer.finish())


def findings(store: MemoryStore | EncryptedStore) -> list[Finding]:
    found: list[Finding] = []
    verify(store, found.append)
    return found


def test_reading_with_keys_marks_nothing(inner: MemoryStore) -> None:
    log = Log.open(keyed(inner))
    assert received(log) == [b"before"]
    assert log.follow().encrypted_at == -1
    send(Log.open(inner), b"still plain")


def test_the_first_file_marks_the_log_once(inner: MemoryStore) -> None:
    one, two = Log.open(keyed(inner)), Log.open(keyed(inner, "two"))
    send(one, SECRET)
    at = one.state.encrypted_at
    send(two, b"more")
    assert (two.state.encrypted_at, two.state.encryption_key_id, at > 0) == (at, "one", True)
    assert received(Log.open(keyed(inner))) == [b"before", SECRET, b"more"]
    assert findings(keyed(inner)) == []


def test_a_new_log() -> None:
    log = Log.create(keyed(MemoryStore()))
    Admin(log).create_topic("t")
    send(log, SECRET)
    assert log.state.encrypted_at == 2


def test_without_keys_nothing_is_written(inner: MemoryStore) -> None:
    early = Log.open(inner)
    send(Log.open(keyed(inner)), SECRET)
    names = {info.name for info in inner.list("data/")}
    for log in (early, Log.open(inner)):
        log.follow()
        with pytest.raises(ConfigError, match=r"encrypted since entry 4 \(key 'one'\).*encryption\.keys"):
            log.stage(log.topic("t"))
    with pytest.raises(ConfigError, match=r"encryption\.keys"), Producer(Log.open(inner)) as producer:
        producer.send("t", b"plain").result()
    assert {info.name for info in inner.list("data/")} == names
    # What has no records is not concerned.
    Admin(Log.open(inner)).create_topic("u")


def test_a_process_that_slept_with_a_plain_file(inner: MemoryStore) -> None:
    """It has staged before the mark, and commits after it: its file stays out, whatever it knows."""
    slept = Log.open(inner)
    action = staged(slept)
    send(Log.open(keyed(inner)), SECRET)
    with pytest.raises(ConfigError, match="nothing was committed"):
        slept.commit(lambda _: (action,))
    # Also if the process does not look at the mark: the rules refuse its file.
    with pytest.raises(StagedFileExpiredError, match="encrypted"):
        slept._committer.commit(lambda _: (action,))
    assert received(Log.open(keyed(inner))) == [b"before", SECRET]


def test_a_copy_does_not_encrypt_what_is_plain(inner: MemoryStore) -> None:
    copy = MemoryStore()
    with pytest.raises(ConfigError, match="is not encrypted, and a copy has its files as they are"):
        copy_log(inner, keyed(copy), print)
    assert [*copy.list("")] == []


def test_a_plain_file_after_the_mark_is_found(inner: MemoryStore) -> None:
    send(Log.open(keyed(inner)), SECRET)
    log = Log.open(inner)
    log.prepare_to_stage = lambda: None  # type: ignore[method-assign]
    stray = staged(log, b"stray")
    wrong = [one for one in findings(keyed(inner)) if one.verdict is Verdict.WRONG]
    assert [one.name for one in wrong] == [stray.files[0].file.name]
    log._committer.commit(lambda _: (stray,))
    for store in (inner, keyed(inner)):
        wrong = [one for one in findings(store) if one.verdict is Verdict.WRONG]
        assert [(one.name, "is not encrypted" in one.text) for one in wrong] == [
            (stray.files[0].file.name, True)
        ]


def test_encrypted_files_need_the_mark(inner: MemoryStore) -> None:
    log = Log.open(keyed(inner))
    log.prepare_to_stage = lambda: None  # type: ignore[method-assign]
    action = staged(log)
    with pytest.raises(IllegalStateError, match="prepare_to_stage"):
        log.commit(lambda _: (action,))


def test_a_reader_without_keys_is_told_so(inner: MemoryStore) -> None:
    store = keyed(inner)
    send(Log.open(store), SECRET, b"more")
    log = Log.open(inner)
    topic, at = log.topic("t"), TopicPartition("t", 0)
    first, *rest = plan(log.state, at, 0, 3, Isolation.READ_COMMITTED)
    assert log.read(topic, first).to_pylist()[0]["value"] == b"before"
    for fetch in rest:
        with pytest.raises(StorePermissionError, match=r"'data/t-.*with key 'one'.*encryption\.keys"):
            log.read(topic, fetch)
    with Consumer(log, {"group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([at])
        assert [record.value for record in consumer.poll(10_000)] == [b"before"]
        with pytest.raises(StorePermissionError, match="has no keys"):
            consumer.poll(10_000)


def test_segments_without_keys() -> None:
    with small_pages():
        a_log_of_segments()


def a_log_of_segments() -> None:
    store = keyed(MemoryStore())
    world = World(store, config={"segment.format": "parquet"})
    for number in range(12):
        world.transaction((b"k%d" % number, b"%d" % number), commit=True)
    world.seal()
    with pytest.raises(ConfigError, match=r"nothing was written.*encryption\.keys"):
        Roller(Log.open(store.inner), tail_rows=1).run()
    # Nor if it has looked before the mark: segments are refused with the state to which they are applied.
    late = Log.open(store.inner)
    segments = ReplaceSegments("t", late.topic("t").topic_id, 0, 0, 4, 0, (), ("tables/t/a.parquet",))
    with pytest.raises(ConfigError, match=r"nothing was committed.*encryption\.keys"):
        late.commit(lambda _: (segments,))
    Roller(world.log, tail_rows=1).run()
    assert any(info.name.endswith(".parquet") for info in store.list("tables/"))
    forget_footers()
    with pytest.raises(StorePermissionError, match=r"tables/.*has no keys"):
        everything(Log.open(store.inner))


def test_verify_without_keys(inner: MemoryStore) -> None:
    """It sees which files are there and how long they are, and says what it did not see."""
    send(Log.open(keyed(inner)), SECRET)
    (note,) = findings(inner)
    assert note.verdict is Verdict.NOTE
    assert "the content of 1 encrypted data file was not read" in note.text
    (name,) = (info.name for info in inner.list("data/") if inner.key_of(info.name))
    inner.overwrite(name, bytes(inner.read(name))[:-1])
    (short,) = [one for one in findings(inner) if one.verdict is Verdict.WRONG]
    assert (short.name, "bytes, not" in short.text) == (name, True)
    assert "put the file back" in short.remedy


def test_another_key_of_the_same_id_writes_nothing(inner: MemoryStore) -> None:
    """Its files could be read by those alone that cannot read the others."""

    class OtherKeys:
        def key(self, key_id: str) -> bytes | None:
            return {"one": b"9" * 32, "three": b"3" * 32}.get(key_id)

    send(Log.open(keyed(inner)), SECRET)
    files = [info.name for info in inner.list("data/")]
    for store in (
        EncryptedStore(inner, OtherKeys(), "one"),
        EncryptedStore(MeasuredStore(inner), OtherKeys(), "one"),
    ):
        with pytest.raises(
            StorePermissionError, match="another key than 'one' of OtherKeys: the id names two keys"
        ):
            send(Log.open(store), b"lost")
    assert [info.name for info in inner.list("data/")] == files
    # Behind an abort, and where the newest file has another key.
    with Producer(Log.open(keyed(inner)), {"transactional.id": "x"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"aborted")
        producer.flush()
        producer.abort_transaction()
    send(Log.open(EncryptedStore(inner, OtherKeys(), "three")), b"of another id")
    send(Log.open(keyed(inner)), b"after")


@pytest.mark.parametrize("is_gone", [False, True])
def test_the_newest_files_that_are_there_tell_whether_the_id_names_two_keys(is_gone: bool) -> None:
    """Not those of partitions to which nothing was written for long, which have the key of their time."""
    inner = MemoryStore()
    Admin(Log.create(inner)).create_topic("t", 12)
    for partition in range(12):
        with Producer(Log.open(keyed(inner, "two" if partition < 10 else "one"))) as producer:
            producer.send("t", SECRET, partition=partition).result()
    if is_gone:
        inner.delete(max(info.name for info in inner.list("data/")))

    class OtherKeys:
        def key(self, key_id: str) -> bytes | None:
            return {"one": b"9" * 32, "two": b"2" * 32}.get(key_id)

    with pytest.raises(StorePermissionError, match="the id names two keys"):
        send(Log.open(EncryptedStore(inner, OtherKeys(), "one")), b"lost")


@pytest.mark.parametrize("trouble", ["hidden", "damaged", "gone"])
def test_a_newest_file_that_tells_nothing_keeps_none_from_writing(inner: MemoryStore, trouble: str) -> None:
    send(Log.open(keyed(inner)), SECRET)
    newest = max(info.name for info in inner.list("data/"))
    store = FaultyStore(inner)
    if trouble == "damaged":
        inner.overwrite(newest, bytes(inner.read(newest))[:260])
    elif trouble == "gone":
        inner.delete(newest)
    else:

        def denied(name):
            raise StorePermissionError(f"{name}: s3:GetObject")

        store.key_of = denied
    send(Log.open(keyed(store)), b"after")


@pytest.mark.parametrize(
    ("trouble", "text"),
    [
        ("header", "its header has another checksum"),
        ("short", "its header has 30 of 256 bytes"),
        ("no key", "there is no encryption key 'one' in OneKey"),
        ("another key", "another key than 'one' of OneKey"),
    ],
)
def test_verify_names_a_file_that_cannot_be_opened_and_goes_on(
    inner: MemoryStore, trouble: str, text: str
) -> None:
    send(Log.open(keyed(inner)), SECRET)
    closed = max(info.name for info in inner.list("data/"))
    send(Log.open(keyed(inner, "two")), b"of another key")
    after = max(info.name for info in inner.list("data/"))
    body = bytes(inner.read(closed))
    damaged = {"header": body[:20] + bytes([body[20] ^ 1]) + body[21:], "short": body[:30]}.get(trouble, body)
    inner.overwrite(closed, damaged)
    inner.overwrite(after, bytes(inner.read(after))[:-3] + b"end")

    class OneKey(Keys):
        def key(self, key_id: str) -> bytes | None:
            if key_id == "one" and trouble.endswith("key"):
                return b"3" * 32 if trouble == "another key" else None
            return super().key(key_id)

    told = findings(EncryptedStore(inner, OneKey(), "two"))
    closed_is = Verdict.UNREAD if trouble.endswith("key") else Verdict.WRONG
    assert [finding.verdict for finding in told if finding.name == closed] == [closed_is]
    assert {finding.verdict for finding in told if finding.name == after} == {Verdict.WRONG}
    assert {finding.name for finding in told} == {closed, after}
    assert text in told[0].text


def test_verify_names_a_hidden_file_that_no_entry_refers_to(inner: MemoryStore) -> None:
    log = Log.open(keyed(inner))
    send(log, SECRET)
    (left,) = (file.file.name for file in staged(log).files)
    store = FaultyStore(inner)

    def key_of(name: str) -> str | None:
        if name == left:
            raise StorePermissionError(f"{name}: s3:GetObject")
        return inner.key_of(name)

    store.key_of = key_of
    assert left in {finding.name for finding in findings(store) if finding.verdict is Verdict.UNREAD}


def test_the_summary_does_not_call_encrypted_files_read(tmp_path: Path, capsys) -> None:
    folder = tmp_path / "log"
    send(Log.open_or_create(str(folder)), b"plain")
    store = Log.open(str(folder)).store
    send(Log.open(EncryptedStore(store, Keys(), "one")), SECRET)
    assert main(["verify", str(folder)]) == 0
    assert "2 records in 2 files of " in (out := capsys.readouterr().out)
    assert ", read but for 1 file\n" in out
    assert main(["verify", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["unread_files"] == 1
    assert main(["verify", str(folder), "--quick"]) == 0
    assert ", present\n" in capsys.readouterr().out


@needs("ui")
def test_stores_around_it_tell_its_key(inner: MemoryStore) -> None:
    from spark_eos.extensions.ui.read_only import ReadOnlyStore

    send(Log.open(keyed(inner)), SECRET)
    names = [info.name for info in inner.list("data/")]
    for around in (MeasuredStore, ReadOnlyStore, FaultyStore):
        store = around(keyed(inner))
        assert store.encryption_key_id == "one"
        assert sorted(filter(None, map(store.key_of, names))) == ["one"]


def test_publications(inner: MemoryStore) -> None:
    log = Log.open(keyed(inner))
    topic = log.topic("t")
    lake = CreatePublication("lake", "delta", (), (("t", topic.topic_id),))
    log.commit(lambda _: (lake,))
    names = [info.name for info in inner.list("data/")]
    with pytest.raises(InvalidRequestError, match="'lake'"):
        log.stage(topic)
    assert [info.name for info in inner.list("data/")] == names


def test_rows_that_no_key_has_opened_are_not_noted_as_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, keys, config = str(tmp_path / "log"), tmp_path / "keys.json", tmp_path / "keys.properties"
    keys.write_text(json.dumps({"one": base64.b64encode(b"1" * 32).decode()}))
    settings = {"encryption.keys": f"file:{keys}", "encryption.key.id": "one"}
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    with Producer(url, settings) as producer:
        producer.send("t", SECRET).get()
    last = Log.open(url).follow().seq
    assert main(["verify", url, "--note"]) == 1
    assert "--note: the data files of" in capsys.readouterr().err
    assert main(["verify", url]) == 0
    assert Log.open(url).follow().seq == last
    assert main(["verify", url, "--note", "--command-config", str(config)]) == 0
    assert Log.open(url).follow().seq == last + 1
