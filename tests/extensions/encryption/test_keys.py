"""Keys in use, and their rotation: when a key may be destroyed, the log is read without it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from spark_eos import Admin, Log, Producer
from spark_eos.cli.command import main
from spark_eos.errors import ConfigError, CorruptRecordError, StorePermissionError
from spark_eos.extensions.encryption.in_use import UNKNOWN, keys_in_use
from spark_eos.extensions.encryption.rotation import KeyRotator
from spark_eos.extensions.encryption.store import EncryptedStore
from spark_eos.log import paths
from spark_eos.maintenance.rolling import Roller
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.maintenance.verify.verify import verify
from spark_eos.storage import MemoryStore, ObjectInfo, PosixStore, Store
from tests.maintenance.sparse_world import World, everything, small_pages

KEYS = {"one": b"1" * 32, "two": b"2" * 32}


class Keys:
    """Keys in memory."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def key(self, key_id: str) -> bytes | None:
        return KEYS[key_id] if key_id in self.names else None


def keyed(inner: Store, key_id: str, *names: str) -> EncryptedStore:
    return EncryptedStore(inner, Keys(*names), key_id)


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_a_key_that_no_file_has_any_more_may_be_destroyed(form: str) -> None:
    inner = MemoryStore()
    with small_pages():
        world = World(inner, config={"segment.format": form, "file.delete.delay.ms": "0"})
        plain_then_one(world, inner)
        before = everything(Log.open(keyed(inner, "one", "one")))
        found = {one.key_id: one for one in keys_in_use(Log.open(inner))}
        assert [*found] == [None, "one"]
        assert found["one"].may_be_destroyed == "no"
        rotated = KeyRotator(Log.open(keyed(inner, "two", "one", "two"))).run()
        assert rotated
        assert KeyRotator(Log.open(keyed(inner, "two", "one", "two"))).run() == []
        found = {one.key_id: one for one in keys_in_use(Log.open(inner))}
        assert [*found] == [None, "one", "two"]
        assert [one.may_be_destroyed for one in found.values()] == ["after vacuum", "after vacuum", "no"]
        Vacuum(Log.open(inner), min_age_s=0).run(wait=False)
        assert [one.key_id for one in keys_in_use(Log.open(inner))] == ["two"]
        assert everything(Log.open(keyed(inner, "two", "two"))) == before
        assert verify(keyed(inner, "two", "two"), print).is_sound


def written(inner: Store, key_id: str, *partitions: int) -> None:
    """Four records in each partition, in a file each: a page of the index."""
    with Producer(Log.open(keyed(inner, key_id, "one", "two"))) as producer:
        for partition in partitions:
            for number in range(4):
                producer.send("t", b"%d" % number, partition=partition).result()


def names_by_key(inner: Store) -> dict[str | None, set[str]]:
    store = keyed(inner, "two", "one", "two")
    world = Log.open(store)
    names: dict[str | None, set[str]] = {}
    for partition in world.state.partitions.values():
        for row in partition.index.scan(0, world.load):
            if row.file is not None:
                names.setdefault(store.key_of(row.file.name), set()).add(row.file.name)
    return names


def test_files_that_have_the_key_stay_where_they_lie_between_others() -> None:
    inner = MemoryStore()
    with small_pages():
        World(inner, config={"segment.bytes": "1"})
        for key_id in ("one", "two", "one", "one"):
            written(inner, key_id, 0)
        log = Log.open(keyed(inner, "two", "one", "two"))
        before, names = everything(log), names_by_key(inner)["two"]
        assert len(KeyRotator(log).run()) == 3, "as much at once as a segment has"
        assert everything(log) == before
        assert {*names_by_key(inner)} == {"two"}
        assert names <= names_by_key(inner)["two"]


def test_a_partition_that_cannot_be_read_holds_up_no_other() -> None:
    inner = MemoryStore()
    with small_pages():
        World(inner, partitions=2)
        written(inner, "one", 0, 1)
        log = Log.open(keyed(inner, "two", "one", "two"))
        (lost, *_) = log.state.partitions[log.topic("t").topic_id, 0].index.scan(0, log.load)
        assert lost.file is not None
        inner.overwrite(lost.file.name, b"damaged")
        with pytest.raises(CorruptRecordError, match=lost.file.name):
            KeyRotator(log).run()
        rows = log.follow().partitions[log.topic("t").topic_id, 1].index.scan(0, log.load)
        assert {log.store.key_of(row.file.name) for row in rows if row.file is not None} == {"two"}


def plain_then_one(world: World, inner: MemoryStore) -> None:
    """Plain files, plain segments, encrypted segments, and encrypted files at the end of the log."""
    for number in range(6):
        world.transaction((b"k%d" % number, b"plain-%d" % number), commit=number % 2 == 0)
    world.seal()
    Roller(world.log, tail_rows=1).run()
    store = keyed(inner, "one", "one")
    log = Log.open(store)
    with Producer(log) as producer:
        for number in range(12):
            producer.send(world.topic.name, b"value-%d" % number, partition=0).result()
    Roller(log, tail_rows=1).run()
    with Producer(log) as producer:
        producer.send(world.topic.name, b"next", partition=0).result()
    with Producer(log, {"transactional.id": "t"}) as producer:
        producer.init_transactions()
        for commit in (True, False, True):
            producer.begin_transaction()
            producer.send(world.topic.name, b"in a transaction", partition=0)
            producer.flush()
            producer.commit_transaction() if commit else producer.abort_transaction()


def test_a_key_of_which_nothing_is_known_is_not_to_be_destroyed(tmp_path, capsys) -> None:
    """It may be mistyped: then the one that is meant would be destroyed, and the log could not be read."""
    inner = PosixStore(str(tmp_path / "log"))
    log = Log.create(keyed(inner, "one", "one"))
    with Producer(log) as producer:
        producer.send("t", b"x").result()
    with Producer(Log.open(keyed(inner, "two", "one", "two"))) as producer:
        producer.send("t", b"x").result()
    Admin(log).delete_topic("t")
    for info in [*inner.list(paths.DATA)]:
        inner.delete(info.name)  # As a vacuum does some time later.
    # The first one is in the log's mark. The second one is in no file any more: the keys that are given have it.
    for opened, known in (
        (Log.open(inner), {"one": "yes", "two": UNKNOWN, "tow": UNKNOWN}),
        (Log.open(keyed(inner, "three", "two")), {"one": "yes", "two": "yes", "tow": UNKNOWN}),
    ):
        found = keys_in_use(opened, *known)
        assert {one.key_id: one.may_be_destroyed for one in found} == known
    assert main(["encryption", "keys", log.url, "--key", "one"]) == 0
    capsys.readouterr()
    assert main(["encryption", "keys", log.url, "--key", "one", "--key", "tow", "--json"]) == 1
    printed = capsys.readouterr()
    shown = {one["key_id"]: one["may_be_destroyed"] for one in map(json.loads, printed.out.splitlines())}
    assert shown == {"one": "yes", "tow": UNKNOWN}
    assert "--key 'tow'" in printed.err
    assert "did you mean one?" in printed.err or "known are one" in printed.err


def test_a_file_that_is_not_committed_yet_needs_its_key() -> None:
    """It counts as unreferenced. Only vacuum, which knows how old it is, says that nothing will refer to it."""
    store = keyed(MemoryStore(), "one", "one")
    log = Log.create(store)
    Admin(log).create_topic("t")
    with log.stage(log.topic("t")) as writer:
        writer.append(pa.table({"value": [b"x"]}), 0)
        writer.finish()
    (found,) = keys_in_use(log)
    assert (found.files, found.unreferenced, found.may_be_destroyed) == (1, 1, "after vacuum")


def test_a_file_that_is_committed_while_files_are_listed_is_needed() -> None:
    """It was said that its key may be destroyed after the next vacuum."""

    class Written(MemoryStore):
        def list(self, prefix: str) -> Iterator[ObjectInfo]:
            if prefix == paths.DATA and not sent:
                sent.append(producer.send("t", b"x").result())
            return super().list(prefix)

    store, sent = keyed(Written(), "one", "one"), [None]
    with Producer(Log.create(store)) as producer:
        producer.send("t", b"x").result()
        log = Log.open(store)
        sent.clear()
        (found,) = keys_in_use(log)
    assert (found.files, found.unreferenced, found.may_be_destroyed) == (2, 0, "no")


def test_rotation_needs_keys() -> None:
    inner = MemoryStore()
    log = Log.create(keyed(inner, "one", "one"))
    Admin(log).create_topic("t")
    with Producer(log) as producer:
        producer.send("t", b"x").result()
    with pytest.raises(ConfigError, match=r"rotation needs the settings encryption\.keys"):
        KeyRotator(Log.open(inner))
    with pytest.raises(StorePermissionError, match="no encryption key 'one'"):
        KeyRotator(Log.open(keyed(inner, "two", "two"))).run()
    assert [one.key_id for one in keys_in_use(log)] == ["one"]


def test_the_command_of_rotation_refuses_a_topic_that_is_not_there(tmp_path, capsys) -> None:
    log = Log.create(PosixStore(str(tmp_path / "log")))
    Admin(log).create_topic("t")
    assert main(["encryption", "rotate", log.url, "--topic", "tt"]) == 1
    assert "has no topic 'tt'; did you mean 't'?" in capsys.readouterr().err


def test_the_command_rotates_the_topics_that_it_is_given(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("EOS_KEYS", json.dumps({"one": base64.b64encode(KEYS["one"]).decode()}))
    (tmp_path / "keys.properties").write_text("encryption.keys=env:EOS_KEYS\nencryption.key.id=one\n")
    log = Log.create(PosixStore(str(tmp_path / "log")))
    with Producer(log) as producer:
        for topic in ("t", "u"):
            producer.send(topic, b"x").result()
    config = ["--command-config", str(tmp_path / "keys.properties")]
    assert main(["encryption", "rotate", log.url, "--topic", "t", *config]) == 0
    assert "in 1 step, with key one" in capsys.readouterr().out
    found = {one.key_id: one.files - one.unreferenced for one in keys_in_use(log)}
    assert found == {None: 1, "one": 1}


def test_plain_files_have_no_key_to_destroy(tmp_path, capsys) -> None:
    log = Log.create(PosixStore(str(tmp_path / "log")))
    with Producer(log) as producer:
        producer.send("t", b"x").result()
    assert main(["encryption", "keys", log.url, "--json"]) == 0
    (plain,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (plain["key_id"], plain["files"], plain["may_be_destroyed"]) == (None, 1, None)


def test_a_file_that_vacuum_removes_meanwhile_is_passed_over() -> None:
    class Vacuumed(MemoryStore):
        def list(self, prefix: str) -> Iterator[ObjectInfo]:
            infos = [*super().list(prefix)]
            if prefix == paths.DATA:
                self.delete(infos[0].name)
            return iter(infos)

    log = Log.create(keyed(Vacuumed(), "one", "one"))
    Admin(log).create_topic("t")
    for _ in range(2):
        with log.stage(log.topic("t")) as writer:
            writer.append(pa.table({"value": [b"x"]}), 0)
            writer.finish()
    (found,) = keys_in_use(log)
    assert found.files == 1
