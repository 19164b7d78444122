"""Backups and copies of an encrypted log: ciphertext is moved, with or without keys, and stays readable."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition
from spark_eos.errors import ConfigError, CorruptRecordError, StorePermissionError
from spark_eos.extensions.backup import transfer
from spark_eos.extensions.backup.backing_up import backup_log
from spark_eos.extensions.backup.restoring import restore_log
from spark_eos.extensions.backup.verifying import verify_backups
from spark_eos.maintenance import copying
from spark_eos.maintenance.copying import copy_log
from spark_eos.maintenance.rolling import Roller
from spark_eos.maintenance.verify.verify import verify
from spark_eos.storage import MemoryStore, Store
from spark_eos.testing import FaultyStore
from tests.maintenance.sparse_world import World, everything, small_pages
from tests.needing import needs

pytestmark = needs("encryption")


class Keys:
    """Keys in memory."""

    def key(self, key_id: str) -> bytes | None:
        return b"1" * 32 if key_id == "one" else None


def keyed(inner: Store) -> Store:
    from spark_eos.extensions.encryption.store import EncryptedStore

    return EncryptedStore(inner, Keys(), "one")


@pytest.fixture(params=["arrow", "parquet"])
def inner(request: pytest.FixtureRequest) -> Iterator[MemoryStore]:
    """Encrypted files and segments, all records of which have ``geheim`` in them."""
    store = keyed(MemoryStore())
    with small_pages():
        world = World(store, config={"segment.format": request.param})
        for number in range(8):
            world.transaction((b"k%d" % number, b"geheim-%d" % number), commit=True)
        world.seal()
        Roller(world.log, tail_rows=1).run()
        world.transaction((b"z", b"geheim" * 20_000), commit=True)
        yield store.inner


def damage_newest(inner: MemoryStore) -> None:
    """A bit of the newest file is another one. The older files were rolled.

    What is encrypted may have any byte anywhere, also the one that a test would put there.
    """
    name = max(info.name for info in inner.list("data/"))
    body = bytearray(inner.read(name))
    body[-1] ^= 1
    inner.overwrite(name, bytes(body))


def all_bytes(store: Store) -> bytes:
    return b"".join(bytes(store.read(info.name)) for info in store.list(""))


@pytest.fixture(params=["with keys", "without keys"])
def given(request: pytest.FixtureRequest, inner: MemoryStore) -> Store:
    return keyed(inner) if request.param == "with keys" else inner


@pytest.fixture(params=["at once", "in parts"])
def _sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in parts":
        monkeypatch.setattr(transfer, "PART", 1000)
        monkeypatch.setattr(copying, "_PART", 1000)


@pytest.mark.usefixtures("_sizes")
def test_a_backup_and_its_restore(inner: MemoryStore, given: Store) -> None:
    repository, place = MemoryStore(), MemoryStore()
    backup_log(given, repository)
    assert b"EOSENC" in all_bytes(repository)
    assert b"geheim" not in all_bytes(repository)
    assert len(verify_backups(repository, print).whole) == 1
    restore_log(repository, place)
    assert b"geheim" not in all_bytes(place)
    assert everything(Log.open(keyed(place))) == everything(Log.open(keyed(inner)))
    again = backup_log(given, repository)
    assert again.new_bytes == 0
    with_keys = MemoryStore()
    restore_log(repository, keyed(with_keys))
    assert all_bytes(with_keys) == all_bytes(place)


@pytest.mark.usefixtures("_sizes")
def test_a_copy(inner: MemoryStore, given: Store) -> None:
    place = MemoryStore()
    copy_log(given, place, print)
    assert b"geheim" not in all_bytes(place)
    assert everything(Log.open(keyed(place))) == everything(Log.open(keyed(inner)))
    with pytest.raises(StorePermissionError, match="has no keys"):
        everything(Log.open(place))


def test_a_copy_is_verified_with_the_keys_that_were_given(inner: MemoryStore) -> None:
    damage_newest(inner)
    copy_log(inner, MemoryStore(), print)  # Without keys this cannot be seen.
    for source, place in ((keyed(inner), MemoryStore()), (inner, keyed(MemoryStore()))):
        with pytest.raises(CorruptRecordError, match="not sound"):
            copy_log(source, place, print)


def test_a_copy_that_cannot_be_read_for_want_of_a_key_goes_on_with_it(inner: MemoryStore) -> None:
    """It is not taken for a damaged one, which would have to be made again."""
    from spark_eos.extensions.encryption.store import EncryptedStore

    class OtherKeys:
        def key(self, key_id: str) -> bytes | None:
            return b"2" * 32 if key_id == "two" else None

    target = MemoryStore()
    with pytest.raises(StorePermissionError, match=r"all is copied.*give what is missing .keys"):
        copy_log(EncryptedStore(inner, OtherKeys(), "two"), target, print)
    assert copy_log(keyed(inner), target, print).verified.is_sound


def test_a_copy_that_is_damaged_and_cannot_be_read_whole_is_damaged(inner: MemoryStore) -> None:
    from spark_eos.extensions.encryption.store import EncryptedStore

    class BothKeys:
        def __init__(self, *known: str) -> None:
            self.known = known

        def key(self, key_id: str) -> bytes | None:
            return {"one": b"1" * 32, "two": b"2" * 32}[key_id] if key_id in self.known else None

    with Producer(Log.open(EncryptedStore(inner, BothKeys("one", "two"), "two"))) as producer:
        producer.send("t", b"value", partition=0).result()
    damage_newest(inner)
    with pytest.raises(CorruptRecordError, match="not sound"):
        copy_log(EncryptedStore(inner, BothKeys("two"), "two"), MemoryStore(), print)


def test_a_file_of_another_length_is_refused(inner: MemoryStore, given: Store) -> None:
    name = max(info.name for info in inner.list("data/"))  # The older ones were rolled.
    inner.overwrite(name, bytes(inner.read(name))[:-1])
    with pytest.raises(CorruptRecordError, match="bytes, not"):
        backup_log(given, MemoryStore())
    with pytest.raises(CorruptRecordError, match="bytes, not"):
        copy_log(given, MemoryStore(), print)


def test_plain_bytes_are_not_taken_through_another_store(inner: MemoryStore) -> None:
    around = FaultyStore(keyed(inner))
    for move in (lambda: backup_log(around, MemoryStore()), lambda: copy_log(around, MemoryStore(), print)):
        with pytest.raises(ConfigError, match="hands on plain bytes"):
            move()


def test_keys_for_a_repository_or_for_a_plain_log(inner: MemoryStore) -> None:
    repository = MemoryStore()
    with pytest.raises(ConfigError, match=r"encryption\.keys does not fit the repository"):
        backup_log(inner, keyed(repository))
    plain, place = MemoryStore(), MemoryStore()
    Admin(Log.create(plain)).create_topic("t")
    with pytest.raises(ConfigError, match="is not encrypted"):
        copy_log(plain, keyed(place), print)
    assert not [*repository.list(""), *place.list("")]


def test_files_from_before_the_mark_stay_as_they_are() -> None:
    inner, repository, place = MemoryStore(), MemoryStore(), MemoryStore()
    Admin(Log.create(inner)).create_topic("t")
    for store, value in ((inner, b"before"), (keyed(inner), b"geheim")):
        with Producer(Log.open(store)) as producer:
            producer.send("t", value).result()
    backup_log(inner, repository)
    assert (b"before" in all_bytes(repository), b"geheim" in all_bytes(repository)) == (True, False)
    restore_log(repository, keyed(place))
    with Consumer(Log.open(keyed(place)), {"group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert [record.value for record in consumer.poll(10_000)] == [b"before", b"geheim"]
    assert verify(keyed(place), print).is_sound
