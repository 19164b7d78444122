"""A log whose data files are in a store of their own, and encrypted."""

from __future__ import annotations

from pathlib import Path

from spark_eos import Admin, Log, Producer
from spark_eos.extensions.encryption.store import EncryptedStore
from spark_eos.maintenance.copying import copy_log
from spark_eos.maintenance.moving.mover import DataMover
from spark_eos.storage import MemoryStore, PosixStore, Settings
from spark_eos.storage.encrypted_files import as_stored
from tests.extensions.encryption.test_logs import Keys
from tests.log.test_two_stores import place, received
from tests.maintenance.test_moving import FINISHING, move, until

KEYS = Keys()


def test_stores_around_it_stay_around_both(tmp_path: Path) -> None:
    inner = MemoryStore()
    store = EncryptedStore(inner, KEYS, "one")
    bound = store.with_data(str(tmp_path))
    assert isinstance(bound, EncryptedStore)
    assert store.inner is inner, "a handle that has not read of the place goes on with what it has"
    bound.create("data/t/1.arrow", b"secret-marker")
    bound.create("_log/1.avro", b"entry")
    stored = PosixStore(tmp_path).read("data/t/1.arrow").to_pybytes()
    assert b"secret-marker" not in stored
    assert bound.read("data/t/1.arrow").to_pybytes() == b"secret-marker"
    assert as_stored(bound).read("data/t/1.arrow").to_pybytes() == stored
    assert {info.name for info in inner.list("")} == {"_log/1.avro"}


def test_encrypted_data(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TWO_STORES_KEY", "MTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTE=")
    settings = {"encryption.keys": f"{__name__}:KEYS", "encryption.key.id": "one"}
    url = str(tmp_path / "chain")
    Admin(url, {**settings, "data.url": str(tmp_path / "files")}).create_topic("t")
    with Producer(url, settings) as producer:
        producer.send("t", b"secret-marker").result()
    assert not any(b"secret-marker" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    log = Log.open(url, settings=Settings(settings))
    assert received(log) == [b"secret-marker"]
    assert log.store.settings.of("encryption.") == Settings(settings), "tasks write with them"
    copied = copy_log(url, tmp_path / "copy", print, quick=True, destination_settings=place(tmp_path, "2"))
    assert copied.verified.is_sound
    assert received(Log.open(tmp_path / "copy", settings=Settings(settings))) == [b"secret-marker"]


def test_encrypted_files_are_moved_as_they_are(tmp_path: Path, monkeypatch) -> None:
    """The mover needs no keys."""
    monkeypatch.setenv("MOVE_KEY", "MTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTE=")
    settings = {"encryption.keys": f"{__name__}:KEYS", "encryption.key.id": "one"}
    url = str(tmp_path / "log")
    Admin(url, settings).create_topic("t", config={"file.delete.delay.ms": 0})

    def write(value: bytes) -> None:
        with Producer(url, settings) as producer:
            producer.send("t", value).result()

    write(b"secret-marker")
    move(url, tmp_path / "a", progress=until(FINISHING, lambda: write(b"secret-marker")))
    write(b"secret-marker")
    keyed = Log.open(url, settings=Settings(settings))
    assert received(keyed) == [b"secret-marker"] * 3
    DataMover(keyed, "", min_age_s=0).run()
    assert received(Log.open(url, settings=Settings(settings))) == [b"secret-marker"] * 3
    assert not any(b"secret-marker" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
