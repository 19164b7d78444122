"""Encrypted data files: what is written is read, and nothing that was changed is."""

from __future__ import annotations

import base64
import json
import os
import pickle
import random
from pathlib import Path
from types import SimpleNamespace

import google_crc32c
import pytest

from spark_eos import Admin, Consumer, Log, Producer, TopicPartition
from spark_eos.errors import ConfigError, CorruptRecordError, EosLogError, StorePermissionError
from spark_eos.extensions.encryption.file import CHUNK, HEADER, SEALED, TAG
from spark_eos.extensions.encryption.keys import EnvironmentKeys, FileKeys, open_keys
from spark_eos.extensions.encryption.store import EncryptedStore
from spark_eos.maintenance.rolling import Roller
from spark_eos.maintenance.verify.report import Finding
from spark_eos.maintenance.verify.verify import verify
from spark_eos.protocol.index import Kind
from spark_eos.storage import MemoryStore, PosixStore
from tests.maintenance.sparse_world import World, everything, small_pages

NAME = "data/t/a.arrow"


class Given:
    """Keys in memory."""

    def __init__(self, **keys: bytes) -> None:
        self.keys = keys

    def __repr__(self) -> str:
        return f"Given({self.keys})"

    def key(self, key_id: str) -> bytes | None:
        return self.keys.get(key_id)


ONE, TWO = b"1" * 32, b"2" * 32
PROVIDER = Given(one=ONE)
NO_PROVIDER = SimpleNamespace(key="no method")


def of(inner: MemoryStore, key_id: str = "one", **keys: bytes) -> EncryptedStore:
    return EncryptedStore(inner, Given(**(keys or {"one": ONE})), key_id)


def uploaded(store: EncryptedStore, body: bytes, name: str = NAME) -> None:
    with store.upload(name) as file:
        for at in range(0, len(body), 50_000):
            file.write(body[at : at + 50_000])


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 77])
def test_all_ranges(size: int) -> None:
    inner, body = MemoryStore(), random.Random(size).randbytes(size)
    store = of(inner)
    uploaded(store, body)
    store.create("data/t/b", body)
    for name in (NAME, "data/t/b"):
        fresh = of(inner)
        assert fresh.size(name) == size
        assert inner.size(name) == HEADER + size + TAG * max(-(-size // CHUNK), 1)
        assert bytes(fresh.read(name)) == body
        edges = sorted({0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, max(size - 1, 0), size, size + 9})
        for start in edges:
            for length in (0, 1, 20, CHUNK, CHUNK + 1, size, 9 * CHUNK):
                assert bytes(fresh.read(name, start, length)) == body[start : start + length], (start, length)
            assert bytes(fresh.read(name, start)) == body[start:]


@pytest.mark.deep
def test_every_byte_counts() -> None:
    inner = MemoryStore()
    uploaded(of(inner), b"x" * 100)
    stored = inner.read(NAME).to_pybytes()
    for at in range(len(stored)):
        if 197 <= at < 252:  # Also filling is covered, by the checksum.
            continue
        inner.overwrite(NAME, stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :])
        if at < 6:  # Not encrypted, by its first bytes: the log's own checksum finds it.
            assert bytes(of(inner).read(NAME)) != b"x" * 100
            continue
        with pytest.raises(CorruptRecordError, match=NAME):
            of(inner).read(NAME)


def test_chunks_keep_their_places() -> None:
    inner = MemoryStore()
    uploaded(of(inner), os.urandom(3 * CHUNK))
    stored = inner.read(NAME).to_pybytes()
    first, second, third = (stored[HEADER + n * SEALED : HEADER + (n + 1) * SEALED] for n in range(3))
    for chunks in (
        (second, first, third),
        (first, third),
        (first, second),
        (first, second, third, third),
        (),
    ):
        inner.overwrite(NAME, stored[:HEADER] + b"".join(chunks))
        with pytest.raises(CorruptRecordError, match=NAME):
            of(inner).read(NAME)
    inner.overwrite(NAME, stored[:HEADER] + first + second)
    assert of(inner).read(NAME, 0, CHUNK).size == CHUNK
    for start, length in (
        (CHUNK, 10),
        (2 * CHUNK - 1, 1),
        (2 * CHUNK, 10),
        (2 * CHUNK, None),
        (9 * CHUNK, 1),
    ):
        with pytest.raises(CorruptRecordError, match="chunk 1"):
            of(inner).read(NAME, start, length)
    inner.overwrite(NAME, stored[:HEADER])
    with pytest.raises(CorruptRecordError, match="it ends after its header"):
        of(inner).read(NAME, CHUNK, 10)


@pytest.mark.parametrize(("version", "algorithm"), [(2, 1), (1, 2)])
def test_a_file_of_a_newer_form_is_not_called_damaged_by_its_key(version: int, algorithm: int) -> None:
    inner = MemoryStore()
    uploaded(of(inner), b"x")
    header = bytearray(inner.read(NAME, 0, HEADER))
    header[6:8] = version, algorithm
    header[-4:] = google_crc32c.value(bytes(header[:-4])).to_bytes(4, "little")
    inner.overwrite(NAME, bytes(header) + inner.read(NAME, HEADER).to_pybytes())
    with pytest.raises(
        CorruptRecordError, match=f"version {version}, algorithm {algorithm} of the encryption"
    ):
        of(inner).read(NAME)


@pytest.mark.parametrize("rest", [1, TAG - 1])
def test_a_file_that_ends_in_a_tag_has_no_size(rest: int) -> None:
    inner = MemoryStore()
    uploaded(of(inner), bytes(2 * CHUNK))
    inner.overwrite(NAME, inner.read(NAME).to_pybytes()[: HEADER + SEALED + rest])
    with pytest.raises(CorruptRecordError, match=f"it ends after {HEADER + SEALED + rest} bytes"):
        of(inner).size(NAME)


def test_a_file_over_another_one() -> None:
    inner = MemoryStore()
    store = of(inner)
    uploaded(store, b"one")
    uploaded(store, b"two", "data/t/b.arrow")
    inner.overwrite(NAME, inner.read("data/t/b.arrow"))
    for reader in (of(inner), store):  # `store` might know the old cipher.
        with pytest.raises(CorruptRecordError, match="another name"):
            reader.read(NAME)


def test_a_chunk_of_another_file() -> None:
    inner = MemoryStore()
    store = of(inner)
    uploaded(store, b"one")
    uploaded(store, b"two", "data/t/b.arrow")
    mine, other = inner.read(NAME).to_pybytes(), inner.read("data/t/b.arrow").to_pybytes()
    inner.overwrite(NAME, mine[:HEADER] + other[HEADER:])
    with pytest.raises(CorruptRecordError, match="chunk 0"):
        of(inner).read(NAME)


def test_keys_that_do_not_fit() -> None:
    inner = MemoryStore()
    uploaded(of(inner), b"x")
    with pytest.raises(StorePermissionError, match=f"{NAME}.*no encryption key 'one' in Given;"):
        of(inner, two=TWO).read(NAME)
    assert "2222" not in repr(of(inner, two=TWO))
    with pytest.raises(StorePermissionError, match=f"{NAME}.*another key than 'one'"):
        of(inner, one=TWO).read(NAME)
    with pytest.raises(StorePermissionError, match="no encryption key 'two'"):
        uploaded(of(inner, "two"), b"x", "data/t/b")
    assert [info.name for info in inner.list("")] == [NAME]


def test_another_key_for_new_files() -> None:
    inner = MemoryStore()
    uploaded(of(inner), b"old")
    store = of(inner, "two", one=ONE, two=TWO)
    uploaded(store, b"new", "data/t/b")
    assert (bytes(store.read(NAME)), bytes(store.read("data/t/b"))) == (b"old", b"new")
    with pytest.raises(StorePermissionError):
        of(inner).read("data/t/b")


def test_an_upload_that_fails_leaves_nothing() -> None:
    inner = MemoryStore()

    def fail() -> None:
        with of(inner).upload(NAME) as file:
            file.write(b"x" * 3 * CHUNK)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not [*inner.list("")]


def test_noise_is_refused_without_much_memory() -> None:
    chance, inner = random.Random(7), MemoryStore()
    uploaded(of(inner), b"x" * 300)
    stored = inner.read(NAME).to_pybytes()
    for _ in range(500):
        body = bytearray(stored)
        for _ in range(chance.randrange(1, 4)):
            body[chance.randrange(6, len(body))] ^= chance.randrange(1, 256)
        inner.overwrite(NAME, bytes(body[: chance.randrange(6, len(body) + 1)]))
        with pytest.raises(EosLogError):
            of(inner).read(NAME)


def test_a_log(tmp_path: Path) -> None:
    """Producer, consumer, plain files from before, and verify; a secret value is in no object."""
    plain = Log.create(tmp_path / "log")
    Admin(plain).create_topic("t")
    with Producer(plain) as producer:
        producer.send("t", b"before")
    store = EncryptedStore(PosixStore(str(tmp_path / "log")), Given(one=ONE), "one")
    with Producer(Log.open(store)) as producer:
        for number in range(50):
            producer.send("t", b"geheim-%d" % number, key=b"schluessel")
    with Consumer(Log.open(store), {"group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        values = [record.value for record in consumer.poll(10_000)]
    assert values == [b"before", *(b"geheim-%d" % number for number in range(50))]
    files = [path.read_bytes() for path in (tmp_path / "log").rglob("*") if path.is_file()]
    assert not any(b"geheim" in body or b"schluessel" in body for body in files)
    assert any(b"before" in body for body in files)
    findings: list[Finding] = []
    verify(store, findings.append)
    assert not findings
    files_of_records = (tmp_path / "log" / "data").rglob("*.arrow")
    path = next(path for path in files_of_records if b"before" not in path.read_bytes())
    body = bytearray(path.read_bytes())
    body[-40] ^= 1
    path.write_bytes(body)
    verify(EncryptedStore(store.inner, store.keys, "one"), findings.append)
    assert [path.name in str(finding) for finding in findings] == [True]


def test_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stray = base64.b64encode(ONE).decode().replace("=", "!=")
    text = json.dumps({"one": base64.b64encode(ONE).decode(), "short": "c2VjcmV0", "odd": 3, "stray": stray})
    (tmp_path / "keys").write_text(text)
    monkeypatch.setenv("EOS_KEYS", text)
    for keys in (FileKeys(str(tmp_path / "keys")), EnvironmentKeys("EOS_KEYS"), open_keys("env:EOS_KEYS")):
        assert (keys.key("one"), keys.key("two")) == (ONE, None)
        for bad in ("short", "odd", "stray"):
            with pytest.raises(ConfigError, match=bad) as caught:
                keys.key(bad)
            assert "c2VjcmV0" not in str(caught.value)
    assert open_keys(f"{__name__}:PROVIDER") is PROVIDER
    for bad in ("", "file:", base64.b64encode(ONE).decode(), "no_such_module:x", "json:loads"):
        with pytest.raises(ConfigError) as caught:
            open_keys(bad)
        assert base64.b64encode(ONE).decode() not in str(caught.value)
    with pytest.raises(ConfigError, match="no method key"):
        open_keys(f"{__name__}:NO_PROVIDER")
    for nothing in ("no_such_module.within:x", "json.no_such_module:x"):
        with pytest.raises(ConfigError, match="names nothing"):
            open_keys(nothing)
    for number, missing in enumerate(("no_such_module", "no_such_module.within")):
        (tmp_path / f"keys_{number}.py").write_text(f"import {missing}\n")
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(ConfigError, match=rf"module keys_{number} cannot be imported: .*no_such_module"):
            open_keys(f"keys_{number}:x")
    monkeypatch.setenv("EOS_KEYS", "secret text")
    with pytest.raises(ConfigError, match="env:EOS_KEYS") as caught:
        open_keys("env:EOS_KEYS").key("one")
    assert "secret" not in f"{caught.value}{caught.value.__cause__}{caught.value.__context__}"


def test_no_key_is_shown_or_pickled(tmp_path: Path) -> None:
    keys = FileKeys(str(tmp_path / "keys"))
    encoded = base64.b64encode(ONE).decode()
    (tmp_path / "keys").write_text(json.dumps({"one": encoded}))
    store = EncryptedStore(PosixStore(str(tmp_path / "log")), keys, "one")
    store.create(NAME, b"x")
    pickled = pickle.dumps(store)
    assert encoded not in repr(store)
    assert ONE not in pickled
    assert encoded.encode() not in pickled
    assert bytes(pickle.loads(pickled).read(NAME)) == b"x"


def test_each_file_has_a_key_of_its_own() -> None:
    stored = []
    for _ in range(2):
        inner = MemoryStore()
        uploaded(of(inner), b"x" * 100)
        stored.append(inner.read(NAME).to_pybytes())
    assert stored[0][HEADER:] != stored[1][HEADER:]


def test_a_file_that_was_written_again() -> None:
    inner = MemoryStore()
    store = of(inner)
    uploaded(store, b"first")
    assert bytes(store.read(NAME)) == b"first"
    inner.delete(NAME)
    uploaded(of(inner), b"second")
    assert bytes(store.read(NAME)) == b"second"
    inner.overwrite(NAME, b"plain")
    assert bytes(store.read(NAME)) == b"plain"
    store.overwrite(NAME, b"third")
    assert bytes(store.read(NAME)) == b"third"


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_segments_are_encrypted(form: str) -> None:
    """What maintenance writes from encrypted files has the key of new files."""
    inner = MemoryStore()
    store = of(inner)
    with small_pages():
        world = World(store, config={"segment.format": form})
        for number in range(12):
            world.transaction((b"k%d" % number, b"geheim-%d" % number), commit=number % 3 != 0)
        world.seal()
        before = everything(world.log)
        store.encryption_key_id, store.keys = "two", Given(one=ONE, two=TWO)
        Roller(world.log, tail_rows=1).run()
        fresh = Log.open(of(inner, "two", one=ONE, two=TWO))
        assert everything(fresh) == before
        (name,) = {row.file.name for row in world.rows() if row.kind is Kind.DATA}
        assert name.endswith(form)
        assert inner.read(name, 0, 6).to_pybytes() == b"EOSENC"
        assert bytes(of(inner, two=TWO).read(name, 0, 3)) == (b"PAR" if form == "parquet" else b"ARR")
        with pytest.raises(StorePermissionError, match="'two'"):
            of(inner).read(name)
