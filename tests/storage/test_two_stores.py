"""`TwoStores`: the contract of a store, which object is where, and whose data a place has. Listings have no order."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from spark_eos.errors import ConfigError, OutcomeUnknownError, StoreUnavailableError
from spark_eos.storage import MemoryStore, PosixStore, Settings, Store, open_store
from spark_eos.storage.objects.store import ObjectStore
from spark_eos.storage.store import EarlierPlace
from spark_eos.storage.two_stores import DATA_MARK, TwoStores, check_claim
from spark_eos.storage.urls import data_settings_of, wanted_data_url
from spark_eos.testing.store_contract import StoreContract
from tests.storage.shuffled_store import ShuffledStore


class TestTwoStores(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return PosixStore(tmp_path / "chain").with_data(str(tmp_path / "files"))


class TestShuffledTwoStores(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return ShuffledStore(MemoryStore()).with_data(str(tmp_path / "files"))


class TestUnbound(StoreContract):
    """Settings of a data's store are there, and the log has not said yet that it has one."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return open_store(tmp_path / "log", Settings({"data.url": str(tmp_path / "files")}))


def names(store: Store, prefix: str = "") -> set[str]:
    return {info.name for info in store.list(prefix)}


def test_each_object_is_where_its_name_says(tmp_path: Path) -> None:
    chain, files = PosixStore(tmp_path / "chain"), PosixStore(tmp_path / "files")
    both = chain.with_data(files.url)
    for name in ("_log/1.avro", "data/t/1.arrow", "tables/t/_segments/0/1.parquet", "_groups/a", DATA_MARK):
        both.create(name, name.encode())
        assert both.read(name).to_pybytes() == name.encode()
    assert names(chain) == {"_log/1.avro", "_groups/a"}
    assert names(files) == {"data/t/1.arrow", "tables/t/_segments/0/1.parquet", DATA_MARK}
    assert names(both) == names(chain) | names(files)
    assert names(both, "_") == {"_log/1.avro", "_groups/a", DATA_MARK}
    assert names(both, "d") == names(both, "data/") == {"data/t/1.arrow"}
    assert names(both, "_log/") == {"_log/1.avro"}
    again = pickle.loads(pickle.dumps(both))
    assert names(again) == names(both)
    assert again.with_data("").read("_log/1.avro").to_pybytes() == b"_log/1.avro"


@pytest.mark.parametrize("is_copied", [False, True])
def test_while_data_is_moved_a_file_is_deleted_at_both_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_copied: bool
) -> None:
    chain, files = PosixStore(tmp_path / "chain"), PosixStore(tmp_path / "files")
    name = "data/t/00000000000000000007-x.arrow"
    for place in (chain, files):
        place.create(name, b"rows")
    moving = chain.with_data(files.url, EarlierPlace("", 9, is_copied))
    assert moving.read(name).to_pybytes() == b"rows"
    deletes, delete = [], PosixStore.delete

    def deleting(place: PosixStore, of: str) -> None:
        deletes.append(place.url)
        delete(place, of)

    monkeypatch.setattr(PosixStore, "delete", deleting)
    moving.delete(name)
    assert (names(chain), names(files)) == (set(), set())
    # Last where it is listed: after a death between the two it is found, and deleted, again.
    assert deletes == ([chain.url, files.url] if is_copied else [files.url, chain.url])


def test_what_lies_in_the_other_store_is_not_the_logs(tmp_path: Path) -> None:
    chain, files = PosixStore(tmp_path / "chain"), PosixStore(tmp_path / "files")
    chain.create("data/t/1.arrow", b"")
    files.create("_log/1.avro", b"")
    assert names(chain.with_data(files.url)) == set()


def test_a_place_belongs_to_one_log_in_one_place(tmp_path: Path) -> None:
    one = PosixStore(tmp_path / "one").with_data(str(tmp_path / "files"))
    check_claim(one, "files", "a")
    check_claim(one, "files", "a")
    for other, log_id in ((one, "b"), (PosixStore(tmp_path / "two").with_data(str(tmp_path / "files")), "a")):
        with pytest.raises(
            ConfigError, match=r"another log or of another copy.*eoslog copy.*delete _data_of\.json"
        ):
            check_claim(other, "files", log_id)


@pytest.mark.parametrize("done", [True, False])
def test_the_mark_whose_reply_was_lost(tmp_path: Path, monkeypatch, done: bool) -> None:
    """What is there tells; without it nothing is claimed, and the next writer tries again."""
    one = PosixStore(tmp_path / "one").with_data(str(tmp_path / "files"))
    create = type(one).create

    def lost(self: Store, name: str, data: bytes) -> None:
        if done:
            create(self, name, data)
        raise OutcomeUnknownError("no reply")

    with monkeypatch.context() as patch:
        patch.setattr(type(one), "create", lost)
        if done:
            check_claim(one, "files", "a")
        else:
            with pytest.raises(StoreUnavailableError, match="could not be created: try again"):
                check_claim(one, "files", "a")
    check_claim(one, "files", "a")


# -- Settings -------------------------------------------------------------------------------------------------


def test_settings_of_the_data_go_before_those_of_both() -> None:
    settings = Settings(
        {
            "s3.region": "one",
            "s3.access-key-id": "k",
            "s3.secret-access-key": "secret-of-both",
            "data.s3.region": "two",
        }
    )
    found = data_settings_of("s3://bucket/x", settings)
    assert dict(found) == {
        "s3.region": "two",
        "s3.access-key-id": "k",
        "s3.secret-access-key": "secret-of-both",
    }
    assert dict(data_settings_of("/folder", Settings({"s3.region": "one"}))) == {}


def test_a_chain_in_a_bucket_is_not_opened_with_settings_of_the_data() -> None:
    store = open_store(
        "s3://chain", Settings({"s3.region": "one", "data.s3.region": "two", "data.url": "s3://data/x"})
    )
    assert isinstance(store, TwoStores)
    assert isinstance(store.chain, ObjectStore)
    assert dict(store.chain.settings) == {"s3.region": "one"}
    bound = store.with_data("s3://data/x")
    assert isinstance(bound, TwoStores)
    assert dict(bound.parts[1].settings) == {"s3.region": "two"}


def test_secrets_of_the_data_are_not_shown() -> None:
    settings = Settings({"data.s3.access-key-id": "k", "data.s3.secret-access-key": "very-secret"})
    assert "very-secret" not in repr(settings)
    assert settings.scrub("it was very-secret") == "it was ***"


def test_settings_without_a_place_and_unknown_ones_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"data\.s3\.region.*data\.url does not say where"):
        wanted_data_url(Settings({"data.s3.region": "x"}))
    with pytest.raises(ConfigError, match=r"unknown.*data\.s3\.regoin"):
        Settings({"data.s3.regoin": "x"})
    with pytest.raises(ConfigError, match=r"unknown.*data\.encryption\.keys"):
        Settings({"data.encryption.keys": "env:X"})
    with pytest.raises(ConfigError, match="credentials do not belong into a URL"):
        wanted_data_url(Settings({"data.url": "s3://user:pass@bucket/x"}))


# -- Listings without an order ----------------------------------------------------------------------------------


class Pages:
    """A client of a bucket that lists in pages, in no order; the second page fails once."""

    def __init__(self) -> None:
        self.fails = True
        self.offsets: list[str | None] = []

    def list(self, folder: str, *, offset: str | None, chunk_size: int):
        self.offsets.append(offset)
        keys = ["data/c", "data/a", "data/d", "data/b"] if offset is None else []
        yield [{"path": key, "size": 1} for key in keys[:2]]
        if self.fails:
            self.fails = False
            raise ConnectionResetError("connection reset by peer")
        yield [{"path": key, "size": 1} for key in keys[2:]]


def test_an_interrupted_listing_without_an_order_begins_again() -> None:
    store = open_store("s3://bucket--use1-az4--x-s3")
    assert isinstance(store, ObjectStore)
    client = store._client = Pages()
    store._requests.ask = lambda _what, _name, call: _twice(call)
    assert sorted(info.name for info in store.list("data/")) == ["data/a", "data/b", "data/c", "data/d"]
    assert client.offsets == [None, None], "such a bucket refuses to begin behind a key"


def _twice(call):
    try:
        return call()
    except ConnectionResetError:
        return call()
