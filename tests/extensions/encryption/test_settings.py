"""Encryption by settings: any store that a URL names, in every process that has the settings."""

from __future__ import annotations

import base64
import json
import pickle
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from spark_eos import Consumer, Producer, TopicPartition
from spark_eos.errors import ConfigError
from spark_eos.extensions.encryption.store import EncryptedStore
from spark_eos.log.data.task_io import TaskStorage
from spark_eos.log.log import Log
from spark_eos.storage import Settings, log_settings_of, open_store, settings_of, shared_store

SECRET = base64.b64encode(b"1" * 32).decode()


@pytest.fixture
def given(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "keys.json").write_text(json.dumps({"one": SECRET, "two": SECRET}))
    return {"encryption.keys": f"file:{tmp_path}/keys.json", "encryption.key.id": "one"}


def test_every_kind_of_store(tmp_path: Path, given: dict[str, str]) -> None:
    cloud = {"s3.region": "x", "s3.access-key-id": "a", "s3.secret-access-key": "b"}
    for url, more in ((f"{tmp_path}/log", {}), ("memory://encrypted", {}), ("s3://bucket/log", cloud)):
        settings = Settings({**given, **more})
        store = open_store(url, settings)
        assert isinstance(store, EncryptedStore)
        assert (store.settings, store.url) == (settings, open_store(url, settings_of(url, settings)).url)
        plain = open_store(url, settings_of(url, settings))
        assert not isinstance(plain, EncryptedStore)
        assert (store.requests_are_free, store.has_exact_conflicts) == (
            plain.requests_are_free,
            plain.has_exact_conflicts,
        )
        assert log_settings_of(url, settings) == settings
    assert shared_store(f"{tmp_path}/log", Settings(given)) is shared_store(
        f"{tmp_path}/log", Settings(given)
    )


def test_clients_and_tasks(tmp_path: Path, given: dict[str, str]) -> None:
    url = f"{tmp_path}/log"
    with Producer(url, given) as producer:
        producer.send("t", b"geheim").result()
    with Consumer(url, {**given, "group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert [record.value for record in consumer.poll(10_000)] == [b"geheim"]
    log = Log.open(url, settings=Settings(given))
    task: TaskStorage = pickle.loads(pickle.dumps(TaskStorage(url, log.state.seq + 1, log.store.settings)))
    with task.writer(log.topic("t")) as writer:
        writer.append(pa.table({"value": [b"geheim"]}), 0)
        (staged,) = writer.finish()
    assert (tmp_path / "log" / staged.file.name).read_bytes().startswith(b"EOSENC")
    assert not any(b"geheim" in path.read_bytes() for path in (tmp_path / "log").rglob("*") if path.is_file())


def test_half_of_a_pair(tmp_path: Path, given: dict[str, str]) -> None:
    for name in given:
        with pytest.raises(ConfigError, match=f"{name} is missing"):
            open_store(tmp_path, Settings({one: value for one, value in given.items() if one != name}))


def test_a_key_in_place_of_a_reference_is_not_shown() -> None:
    for keys in (SECRET, f"base64 {SECRET}", "file:"):
        with pytest.raises(ConfigError, match=r"encryption\.keys=.*file:/path") as caught:
            Settings({"encryption.keys": keys, "encryption.key.id": "one"})
        assert SECRET not in str(caught.value)
    for key_id in ("", "a b", "x" * 121):
        with pytest.raises(ConfigError, match=r"encryption\.key\.id"):
            Settings({"encryption.key.id": key_id})


class Provider:
    """Keys in memory."""

    def key(self, key_id: str) -> bytes | None:
        return b"1" * 32 if key_id == "one" else None


PROVIDER = Provider()
PROVIDER.secret = SECRET  # type: ignore[attr-defined]


def test_a_provider_goes_by_its_reference(tmp_path: Path) -> None:
    settings = Settings({"encryption.keys": f"{__name__}:PROVIDER", "encryption.key.id": "one"})
    store = open_store(tmp_path, settings)
    store.create("data/t/a", b"x")
    pickled = pickle.dumps(store)
    assert SECRET.encode() not in pickled
    loaded = pickle.loads(pickled)
    assert (bytes(loaded.read("data/t/a")), loaded.settings) == (b"x", settings)
    assert SECRET not in f"{store!r}{settings!r}"


def test_without_the_library_the_log_is_not_marked(
    tmp_path: Path, given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log.create(tmp_path / "log")
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    with (
        pytest.raises(ConfigError, match=r"pip install .*'spark-eos\[encryption\]'"),
        Producer(str(tmp_path / "log"), given) as producer,
    ):
        producer.send("orders", b"one")
    assert log.follow().encrypted_at < 0
    assert not log.state.topics
